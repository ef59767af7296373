//! The kernel of a loop under construction: what runs once a turn, what runs over the lanes, what runs once after them, the arrays
//! of all.

use meshwork_ir::ElementType;
use meshwork_ir::hash::HashMap;

use super::known;
use crate::fuse::Arithmetic;
use crate::kernel::ir::{Access, Arg, BinaryOp, Body, Cmp, Combine, Extent, Op, Phase, Ty, UnaryOp, Val};
use crate::step::Buf;

/// An element of a value in a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Element {
    /// Always these bits.
    Const(Ty, u64),
    /// Made by an op that runs once a turn.
    Once(Val),
    /// Made by an op that runs on all lanes.
    Lanes(Val),
    /// Made by an op that runs once a turn after the lanes, from what they are combined to.
    After(Val),
}

/// The location of an array of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    /// Row `0` of the state, in scratch memory.
    State(usize),
    /// `offset` bytes into a buffer.
    Buf { buf: Buf, offset: i64, per_lane: i64, per_turn: i64 },
}

/// A write at the end of a turn: where, how many bytes further on, and what.
struct Store {
    arg: u16,
    at: Option<Val>,
    element: Element,
}

/// Code of one phase.
#[derive(Default)]
struct Ops {
    ops: Vec<Op>,
    types: Vec<Ty>,
    known: HashMap<Op, Val>,
}

impl Ops {
    fn push(&mut self, op: Op, ty: Ty) -> Val {
        if let Some(&v) = self.known.get(&op) {
            return v;
        }
        // Positions that do not fit are refused with the body.
        let v = self.ops.len().min(usize::from(Val::MAX)) as Val;
        self.ops.push(op);
        self.types.push(ty);
        self.known.insert(op, v);
        v
    }
}

/// A kernel under construction.
#[derive(Default)]
pub(super) struct Code {
    once: Ops,
    lanes: Ops,
    after: Ops,
    /// Scalars that lanes are combined to.
    reduced: Vec<(Combine, u16, Val)>,
    /// Whether something was asked for that comes too late in a turn.
    pub failed: bool,
    pub args: Vec<Arg>,
    pub places: Vec<Place>,
    numbers: HashMap<(Place, bool), u16>,
    /// Scalars that carry values of a turn to its lanes.
    scalars: HashMap<Val, u16>,
    scalar_count: u16,
    /// Start, step a turn and step a lane of each index.
    pub index: Vec<[i64; 3]>,
    stores: Vec<Store>,
    /// Rough number of additions.
    pub cost: u64,
}

impl Code {
    /// Operations so far.
    pub fn len(&self) -> usize {
        self.once.ops.len() + self.lanes.ops.len() + self.after.ops.len()
    }

    /// Whether lanes are combined.
    pub fn combines(&self) -> bool {
        !self.reduced.is_empty()
    }

    /// Operations that run once a turn.
    pub fn once(&self) -> usize {
        self.once.ops.len() + self.after.ops.len()
    }

    fn argument(&mut self, place: Place, elem: ElementType, lanes: bool, output: bool) -> u16 {
        let access = match place {
            Place::State(_) if lanes => Access::Unit,
            Place::State(_) => Access::Fixed,
            Place::Buf { per_lane, .. } if lanes && per_lane == elem.storage_bytes() as i64 => Access::Unit,
            Place::Buf { per_lane, .. } if lanes && per_lane == 2 * elem.storage_bytes() as i64 && per_lane >= 8 => {
                Access::Pair
            }
            Place::Buf { per_lane, .. } if lanes && per_lane != 0 => Access::Strided,
            Place::Buf { per_turn: 0, .. } if !lanes => Access::Fixed,
            Place::Buf { .. } => Access::Zero,
        };
        // A number of the state is one argument, so that the kernel can keep it in a register from turn to turn.
        let output = output || (access == Access::Fixed && matches!(place, Place::State(_)));
        let next = self.args.len() as u16;
        *self.numbers.entry((place, output)).or_insert_with(|| {
            self.args.push(Arg { elem, access, output });
            self.places.push(place);
            next
        })
    }

    /// The element at `place`, one for each of the lanes or one for all.
    pub fn load(&mut self, place: Place, elem: ElementType, lanes: bool) -> Option<Element> {
        let ty = Ty::of(elem)?;
        let lanes = lanes && !matches!(place, Place::Buf { per_lane: 0, .. });
        let op = Op::Load(self.argument(place, elem, lanes, false));
        Some(if lanes { Element::Lanes(self.lanes.push(op, ty)) } else { Element::Once(self.once.push(op, ty)) })
    }

    /// Writes `element` to `place` at the end of each turn.
    pub fn store(&mut self, place: Place, elem: ElementType, lanes: bool, element: Element) {
        let arg = self.argument(place, elem, lanes, true);
        let element = match element {
            _ if lanes => Element::Lanes(self.on_lanes(element)),
            Element::After(_) => element,
            _ => Element::Once(self.on_turn(element)),
        };
        self.stores.push(Store { arg, at: None, element });
    }

    /// The element `at` bytes after `place`, one for each of the lanes if `at` is.
    pub fn load_at(&mut self, place: Place, elem: ElementType, at: Element) -> Option<Element> {
        let ty = Ty::of(elem)?;
        let arg = self.argument(place, elem, false, false);
        if let Element::Lanes(at) = at {
            return Some(Element::Lanes(self.lanes.push(Op::LoadAt(arg, at), ty)));
        }
        let at = self.on_turn(at);
        Some(Element::Once(self.once.push(Op::LoadAt(arg, at), ty)))
    }

    /// Writes `element`, which has no lanes, `at` bytes after `place` at the end of each turn.
    pub fn store_at(&mut self, place: Place, elem: ElementType, at: Element, element: Element) {
        let arg = self.argument(place, elem, false, true);
        let is_after = [at, element].iter().any(|e| matches!(e, Element::After(_)));
        let (at, element) = if is_after {
            (self.on_after(at), Element::After(self.on_after(element)))
        } else {
            (self.on_turn(at), Element::Once(self.on_turn(element)))
        };
        self.stores.push(Store { arg, at: Some(at), element });
    }

    /// All lanes of `x` combined.
    pub fn reduce(&mut self, how: Combine, x: Element) -> Element {
        let v = self.on_lanes(x);
        let ty = self.lanes.types[usize::from(v)];
        let known = self.reduced.iter().find(|r| r.0 == how && r.2 == v).map(|r| r.1);
        let scalar = known.unwrap_or_else(|| {
            let scalar = self.new_scalar();
            self.reduced.push((how, scalar, v));
            scalar
        });
        Element::After(self.after.push(Op::Scalar(scalar, ty), ty))
    }

    fn new_scalar(&mut self) -> u16 {
        self.scalar_count += 1;
        self.scalar_count - 1
    }

    /// The scalar that carries a value of the turn to its lanes and to what follows them.
    fn scalar(&mut self, v: Val) -> (Op, Ty) {
        let known = self.scalars.get(&v).copied();
        let scalar = known.unwrap_or_else(|| {
            let scalar = self.new_scalar();
            self.scalars.insert(v, scalar);
            scalar
        });
        let ty = self.once.types[usize::from(v)];
        (Op::Scalar(scalar, ty), ty)
    }

    /// A number that starts at `index[0]` and grows by `index[1]` a turn and `index[2]` a lane.
    pub fn position(&mut self, ty: Ty, index: [i64; 3]) -> Option<Element> {
        let number = self.index.iter().position(|i| *i == index).unwrap_or(self.index.len());
        if number == self.index.len() {
            self.index.push(index);
        }
        let op = Op::Index(u8::try_from(number).ok()?, ty);
        Some(match index[2] {
            0 => Element::Once(self.once.push(op, ty)),
            _ => Element::Lanes(self.lanes.push(op, ty)),
        })
    }

    fn on_turn(&mut self, element: Element) -> Val {
        match element {
            Element::Const(ty, bits) => self.once.push(Op::Const(ty, bits), ty),
            // Only elements of values without lanes are asked for.
            Element::Once(v) | Element::Lanes(v) => v,
            Element::After(v) => {
                self.failed = true;
                v
            }
        }
    }

    fn on_after(&mut self, element: Element) -> Val {
        match element {
            Element::Const(ty, bits) => self.after.push(Op::Const(ty, bits), ty),
            Element::After(v) => v,
            Element::Once(v) => {
                let (op, ty) = self.scalar(v);
                self.after.push(op, ty)
            }
            Element::Lanes(v) => {
                self.failed = true;
                v
            }
        }
    }

    fn on_lanes(&mut self, element: Element) -> Val {
        match element {
            Element::Const(ty, bits) => self.lanes.push(Op::Const(ty, bits), ty),
            Element::Lanes(v) => v,
            Element::Once(v) => {
                let (op, ty) = self.scalar(v);
                self.lanes.push(op, ty)
            }
            Element::After(v) => {
                let ty = self.after.types[usize::from(v)];
                self.failed = true;
                self.lanes.push(Op::Const(ty, 0), ty)
            }
        }
    }

    fn emit(&mut self, elements: &[Element], ty: Ty, op: impl Fn(&[Val]) -> Op) -> Element {
        if elements.iter().any(|e| matches!(e, Element::Lanes(_))) {
            let vals: Vec<Val> = elements.iter().map(|&e| self.on_lanes(e)).collect();
            Element::Lanes(self.lanes.push(op(&vals), ty))
        } else if elements.iter().any(|e| matches!(e, Element::After(_))) {
            let vals: Vec<Val> = elements.iter().map(|&e| self.on_after(e)).collect();
            Element::After(self.after.push(op(&vals), ty))
        } else {
            let vals: Vec<Val> = elements.iter().map(|&e| self.on_turn(e)).collect();
            Element::Once(self.once.push(op(&vals), ty))
        }
    }

    /// The kernel's code.
    pub fn body(self) -> Body {
        let (mut once, mut lanes, mut after) = (self.once.ops, self.lanes.ops, self.after.ops);
        let mut set: Vec<(u16, Val)> = self.scalars.iter().map(|(&v, &scalar)| (scalar, v)).collect();
        set.sort_unstable();
        once.extend(set.into_iter().map(|(scalar, v)| Op::SetScalar(scalar, v)));
        for Store { arg, at, element } in self.stores {
            match (element, at) {
                (Element::Lanes(v), _) => lanes.push(Op::Store(arg, v)),
                (Element::Once(v), None) => once.push(Op::Store(arg, v)),
                (Element::Once(v), Some(at)) => once.push(Op::StoreAt(arg, at, v)),
                (Element::After(v), None) => after.push(Op::Store(arg, v)),
                (Element::After(v), Some(at)) => after.push(Op::StoreAt(arg, at, v)),
                (Element::Const(..), _) => {}
            }
        }
        lanes.extend(self.reduced.into_iter().map(|(how, scalar, v)| Op::Reduce(how, scalar, v)));
        let phases = [(Extent::Once, once), (Extent::Row, lanes), (Extent::Once, after)];
        let phases = phases.into_iter().filter(|(_, ops)| !ops.is_empty());
        let phases = phases.map(|(extent, ops)| Phase { extent, ops }).collect();
        Body { args: self.args, temps: vec![], scalars: self.scalar_count, phases }
    }
}

impl Arithmetic for Code {
    type Value = Element;

    fn ty(&self, value: Element) -> Ty {
        match value {
            Element::Const(ty, _) => ty,
            Element::Once(v) => self.once.types[usize::from(v)],
            Element::Lanes(v) => self.lanes.types[usize::from(v)],
            Element::After(v) => self.after.types[usize::from(v)],
        }
    }

    fn unary(&mut self, f: UnaryOp, x: Element) -> Element {
        if let Element::Const(ty, bits) = x
            && let Some(bits) = known::unary(f, ty, bits)
        {
            return Element::Const(ty, bits);
        }
        let ty = if f == UnaryOp::IsFinite { Ty::Pred } else { self.ty(x) };
        self.emit(&[x], ty, |v| Op::Unary(f, v[0]))
    }

    fn binary(&mut self, f: BinaryOp, x: Element, y: Element) -> Element {
        if let (Element::Const(ty, a), Element::Const(_, b)) = (x, y)
            && let Some(bits) = known::binary(f, ty, a, b)
        {
            return Element::Const(ty, bits);
        }
        let ty = self.ty(x);
        self.emit(&[x, y], ty, |v| Op::Binary(f, v[0], v[1]))
    }

    fn compare(&mut self, f: Cmp, x: Element, y: Element) -> Element {
        if let (Element::Const(ty, a), Element::Const(_, b)) = (x, y)
            && let Some(holds) = known::compare(f, ty, a, b)
        {
            return Element::Const(Ty::Pred, holds.into());
        }
        self.emit(&[x, y], Ty::Pred, |v| Op::Compare(f, v[0], v[1]))
    }

    fn select(&mut self, p: Element, x: Element, y: Element) -> Element {
        if let Element::Const(_, bits) = p {
            return if bits == 0 { y } else { x };
        }
        let ty = self.ty(x);
        self.emit(&[p, x, y], ty, |v| Op::Select(v[0], v[1], v[2]))
    }

    fn convert(&mut self, ty: Ty, x: Element) -> Element {
        if let Element::Const(from, bits) = x
            && let Some(bits) = known::convert(from, ty, bits)
        {
            return Element::Const(ty, bits);
        }
        if self.ty(x) == ty { x } else { self.emit(&[x], ty, |v| Op::Convert(ty, v[0])) }
    }

    fn bitcast(&mut self, ty: Ty, x: Element) -> Element {
        if self.ty(x) == ty { x } else { self.emit(&[x], ty, |v| Op::Bitcast(ty, v[0])) }
    }

    fn round(&mut self, elem: ElementType, x: Element) -> Element {
        self.emit(&[x], Ty::F32, |v| Op::Round(elem, v[0]))
    }
}
