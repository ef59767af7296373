//! The kernel of a loop under construction: stages of what runs once and then over the lanes, and the arrays of all.
//!
//! ```text
//! stage 0   once:  what has no lanes                lanes:  what has
//! stage 1   once:  from what lanes are combined to   lanes:  from that, and from single lanes of stage 0
//! …
//! ```
//!
//! An element of a later stage may use all elements of earlier ones. What is written to the state is written in the last stage: all
//! stages see the carries as they were when the turn began.

use meshwork_ir::ElementType;
use meshwork_ir::hash::HashMap;

use super::early::{self, Memory};
use super::known;
use crate::fuse::Arithmetic;
use crate::kernel::ir::{Access, Arg, BinaryOp, Body, Cmp, Combine, Extent, Op, Phase, Ty, UnaryOp, Val};
use crate::step::Buf;

/// Stages of a turn.
const MOST_STAGES: usize = 8;

/// An element of a value in a turn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Element {
    /// Always these bits.
    Const(Ty, u64),
    /// Made by an op that runs once, in this stage.
    Once(usize, Val),
    /// Made by an op that runs on all lanes, in this stage.
    Lanes(usize, Val),
}

/// The location of an array of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    /// Row `0` of the state, in scratch memory.
    State(usize),
    /// Lane `1` of row `0` of the state.
    Lane(usize, usize),
    /// `offset` bytes into a buffer.
    Buf { buf: Buf, offset: i64, per_lane: i64, per_turn: i64 },
}

/// A write: where, how many bytes further on, and what.
struct Store {
    arg: u16,
    at: Option<Element>,
    lanes: bool,
    element: Element,
    /// Whether something in the same turn may read there.
    last: bool,
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

/// What runs once, then what runs on all lanes, then what combines them.
#[derive(Default)]
struct Stage {
    once: Ops,
    lanes: Ops,
    /// Scalars that lanes are combined to.
    reduced: Vec<(Combine, u16, Val)>,
}

/// A kernel under construction.
#[derive(Default)]
pub(super) struct Code {
    stages: Vec<Stage>,
    /// Whether something was asked for that comes too late in a turn.
    pub failed: bool,
    pub args: Vec<Arg>,
    pub places: Vec<Place>,
    numbers: HashMap<(Place, bool), u16>,
    /// Scalars that carry values of a stage to its lanes and to later stages.
    scalars: HashMap<(usize, Val), u16>,
    scalar_count: u16,
    /// Temporaries that carry lanes to later stages, and their types.
    temps: HashMap<(usize, Val), u16>,
    temp_types: Vec<Ty>,
    /// Start, step a turn and step a lane of each index.
    pub index: Vec<[i64; 3]>,
    stores: Vec<Store>,
    /// Rough number of additions.
    pub cost: u64,
}

impl Code {
    /// Operations so far.
    pub fn len(&self) -> usize {
        self.stages.iter().map(|s| s.once.ops.len() + s.lanes.ops.len()).sum()
    }

    /// Whether lanes are combined, or read one by one.
    pub fn mixes(&self) -> bool {
        self.combines() || self.places.iter().any(|place| matches!(place, Place::Lane(..)))
    }

    /// Whether lanes are combined.
    pub fn combines(&self) -> bool {
        self.stages.iter().any(|s| !s.reduced.is_empty())
    }

    /// Operations that run once a turn.
    pub fn once(&self) -> usize {
        self.stages.iter().map(|s| s.once.ops.len()).sum()
    }

    fn stage(&mut self, stage: usize) -> &mut Stage {
        self.failed |= stage >= MOST_STAGES;
        let stage = stage.min(MOST_STAGES - 1);
        while self.stages.len() <= stage {
            self.stages.push(Stage::default());
        }
        &mut self.stages[stage]
    }

    fn push_once(&mut self, stage: usize, op: Op, ty: Ty) -> Element {
        Element::Once(stage.min(MOST_STAGES - 1), self.stage(stage).once.push(op, ty))
    }

    fn push_lanes(&mut self, stage: usize, op: Op, ty: Ty) -> Element {
        Element::Lanes(stage.min(MOST_STAGES - 1), self.stage(stage).lanes.push(op, ty))
    }

    fn argument(&mut self, place: Place, elem: ElementType, lanes: bool, output: bool) -> u16 {
        let access = match place {
            Place::State(_) if lanes => Access::Unit,
            Place::State(_) | Place::Lane(..) => Access::Fixed,
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
        Some(if lanes { self.push_lanes(0, op, ty) } else { self.push_once(0, op, ty) })
    }

    /// Writes `element` to `place` at the end of each turn.
    pub fn store(&mut self, place: Place, elem: ElementType, lanes: bool, element: Element) {
        let arg = self.argument(place, elem, lanes, true);
        let last = lanes && matches!(place, Place::State(_));
        self.failed |= !lanes && matches!(element, Element::Lanes(..));
        self.stores.push(Store { arg, at: None, lanes, element, last });
    }

    /// The element `at` bytes after `place`, one for each of the lanes if `at` is.
    pub fn load_at(&mut self, place: Place, elem: ElementType, at: Element) -> Option<Element> {
        let ty = Ty::of(elem)?;
        let arg = self.argument(place, elem, false, false);
        Some(self.emit(&[at], ty, |v| Op::LoadAt(arg, v[0])))
    }

    /// Writes `element`, which has no lanes, `at` bytes after `place` at the end of each turn.
    pub fn store_at(&mut self, place: Place, elem: ElementType, at: Element, element: Element) {
        let arg = self.argument(place, elem, false, true);
        self.failed |= [at, element].iter().any(|e| matches!(e, Element::Lanes(..)));
        self.stores.push(Store { arg, at: Some(at), lanes: false, element, last: true });
    }

    /// All lanes of `x` combined.
    pub fn reduce(&mut self, how: Combine, x: Element) -> Element {
        let stage = stage_of(x);
        let v = self.on_lanes(stage, x);
        let ty = self.ty(Element::Lanes(stage, v));
        let known = self.stages[stage].reduced.iter().find(|r| r.0 == how && r.2 == v).map(|r| r.1);
        let scalar = known.unwrap_or_else(|| {
            let scalar = self.new_scalar();
            self.stages[stage].reduced.push((how, scalar, v));
            scalar
        });
        self.push_once(stage + 1, Op::Scalar(scalar, ty), ty)
    }

    /// All `lanes` of `x` as numbers, by way of row `row` of the state, whose type is `elem`.
    pub fn spread(&mut self, x: Element, row: usize, elem: ElementType, lanes: usize) -> Option<Vec<Element>> {
        let Element::Lanes(stage, _) = x else { return Some(vec![x; lanes]) };
        let arg = self.argument(Place::State(row), elem, true, true);
        self.stores.push(Store { arg, at: None, lanes: true, element: x, last: false });
        let ty = Ty::of(elem)?;
        let load = |lane| {
            let arg = self.argument(Place::Lane(row, lane), elem, false, false);
            self.push_once(stage + 1, Op::Load(arg), ty)
        };
        Some((0..lanes).map(load).collect())
    }

    fn new_scalar(&mut self) -> u16 {
        self.scalar_count += 1;
        self.scalar_count - 1
    }

    /// The scalar that carries what runs once to later phases.
    fn scalar(&mut self, stage: usize, v: Val) -> (Op, Ty) {
        let ty = self.stages[stage].once.types[usize::from(v)];
        let known = self.scalars.get(&(stage, v)).copied();
        let scalar = known.unwrap_or_else(|| {
            let scalar = self.new_scalar();
            self.scalars.insert((stage, v), scalar);
            scalar
        });
        (Op::Scalar(scalar, ty), ty)
    }

    /// How later stages get what runs on lanes: what costs nothing again, other values from a temporary.
    fn kept(&mut self, stage: usize, v: Val) -> (Op, Ty) {
        let ops = &self.stages[stage].lanes;
        let (op, ty) = (ops.ops[usize::from(v)], ops.types[usize::from(v)]);
        if matches!(op, Op::Const(..) | Op::Load(_) | Op::LoadTemp(..) | Op::Scalar(..) | Op::Index(..)) {
            return (op, ty);
        }
        let next = self.temp_types.len() as u16;
        let temp = *self.temps.entry((stage, v)).or_insert(next);
        if temp == next {
            self.temp_types.push(ty);
        }
        (Op::LoadTemp(temp, ty), ty)
    }

    /// A number that starts at `index[0]` and grows by `index[1]` a turn and `index[2]` a lane.
    pub fn position(&mut self, ty: Ty, index: [i64; 3]) -> Option<Element> {
        let number = self.index.iter().position(|i| *i == index).unwrap_or(self.index.len());
        if number == self.index.len() {
            self.index.push(index);
        }
        let op = Op::Index(u8::try_from(number).ok()?, ty);
        Some(if index[2] == 0 { self.push_once(0, op, ty) } else { self.push_lanes(0, op, ty) })
    }

    /// The value of `element`, which has no lanes, in what runs once in `stage`.
    fn on_turn(&mut self, stage: usize, element: Element) -> Val {
        let (op, ty) = match element {
            Element::Const(ty, bits) => (Op::Const(ty, bits), ty),
            Element::Once(own, v) if own == stage => return v,
            Element::Once(own, v) => self.scalar(own, v),
            // Only elements of values without lanes are asked for.
            Element::Lanes(_, v) => {
                self.failed = true;
                return v;
            }
        };
        self.stage(stage).once.push(op, ty)
    }

    /// The value of `element` in what runs on all lanes in `stage`.
    fn on_lanes(&mut self, stage: usize, element: Element) -> Val {
        let (op, ty) = match element {
            Element::Const(ty, bits) => (Op::Const(ty, bits), ty),
            Element::Lanes(own, v) if own == stage => return v,
            Element::Lanes(own, v) => self.kept(own, v),
            // Carries are written after all that lanes read.
            Element::Once(own, v) => match self.stages[own].once.ops[usize::from(v)] {
                op @ Op::Load(arg) if matches!(self.places[usize::from(arg)], Place::Lane(..)) => {
                    (op, self.ty(element))
                }
                _ => self.scalar(own, v),
            },
        };
        self.stage(stage).lanes.push(op, ty)
    }

    fn emit(&mut self, elements: &[Element], ty: Ty, op: impl Fn(&[Val]) -> Op) -> Element {
        let stage = elements.iter().map(|&e| stage_of(e)).max().unwrap_or(0);
        if elements.iter().any(|e| matches!(e, Element::Lanes(..))) {
            let vals: Vec<Val> = elements.iter().map(|&e| self.on_lanes(stage, e)).collect();
            self.push_lanes(stage, op(&vals), ty)
        } else {
            let vals: Vec<Val> = elements.iter().map(|&e| self.on_turn(stage, e)).collect();
            self.push_once(stage, op(&vals), ty)
        }
    }

    /// The kernel's code.
    pub fn body(mut self) -> Body {
        let top = self.stages.len().max(1) - 1;
        let is_simple = top == 0 && !self.mixes();
        let stores = std::mem::take(&mut self.stores);
        // Carries with lanes are written when all lanes have read them, tables at the end.
        let reading = self.stages.iter().rposition(|s| !s.lanes.ops.is_empty()).unwrap_or(0);
        let ends = stores.iter().filter(|s| s.last && s.lanes).map(|s| stage_of(s.element));
        let last_lanes = ends.fold(reading, usize::max);
        // What is written, per stage: once and on lanes.
        let mut once: Vec<Vec<Op>> = vec![vec![]; top + 1];
        let mut lanes = once.clone();
        for Store { arg, at, lanes: on_lanes, element, last } in stores {
            let end = if on_lanes { last_lanes } else { top };
            let stage = if last { end } else { stage_of(element) };
            if on_lanes {
                let v = self.on_lanes(stage, element);
                lanes[stage].push(Op::Store(arg, v));
            } else {
                let v = self.on_turn(stage, element);
                let at = at.map(|at| self.on_turn(stage, at));
                once[stage].push(at.map_or(Op::Store(arg, v), |at| Op::StoreAt(arg, at, v)));
            }
        }
        let mut set: Vec<((usize, Val), u16)> = self.scalars.into_iter().collect();
        set.sort_unstable();
        set.into_iter().for_each(|((stage, v), scalar)| once[stage].push(Op::SetScalar(scalar, v)));
        let mut kept: Vec<((usize, Val), u16)> = self.temps.into_iter().collect();
        kept.sort_unstable();
        kept.into_iter().for_each(|((stage, v), temp)| lanes[stage].push(Op::StoreTemp(temp, v)));
        let mut phases = vec![];
        let (args, places) = (&self.args, &self.places);
        let memory = |arg: u16| {
            let Arg { elem, access, .. } = args[usize::from(arg)];
            let as_it_is = access == Access::Unit && Ty::of(elem).is_some_and(|ty| ty.elem() == elem);
            as_it_is.then(|| match places[usize::from(arg)] {
                Place::State(row) => Memory::Row(row),
                _ => Memory::Other,
            })
        };
        for (stage, (once, lanes)) in self.stages.into_iter().zip(once.into_iter().zip(lanes)) {
            let reduced = stage.reduced.into_iter().map(|(how, scalar, v)| Op::Reduce(how, scalar, v));
            let code = if is_simple {
                early::placed(stage.lanes.ops, lanes, memory)
            } else {
                [stage.lanes.ops, lanes, reduced.collect()].concat()
            };
            phases.push(Phase { extent: Extent::Once, ops: [stage.once.ops, once].concat() });
            phases.push(Phase { extent: Extent::Row, ops: code });
        }
        phases.retain(|phase| phase.ops.iter().any(Op::is_effect));
        Body { args: self.args, temps: self.temp_types, scalars: self.scalar_count, phases }
    }
}

/// The stage in which `element` is made.
fn stage_of(element: Element) -> usize {
    match element {
        Element::Const(..) => 0,
        Element::Once(stage, _) | Element::Lanes(stage, _) => stage,
    }
}

impl Arithmetic for Code {
    type Value = Element;

    fn ty(&self, value: Element) -> Ty {
        match value {
            Element::Const(ty, _) => ty,
            Element::Once(stage, v) => self.stages[stage].once.types[usize::from(v)],
            Element::Lanes(stage, v) => self.stages[stage].lanes.types[usize::from(v)],
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
