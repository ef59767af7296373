//! The phases of a routine under construction, and what runs after what.

use meshwork_ir::ElementType;
use meshwork_ir::hash::HashMap;

use crate::fuse::Arithmetic;
use crate::kernel::ir::{Access, Arg, BinaryOp, Body, Cmp, Extent, Flow, Op, Phase, Ty, UnaryOp, Val};
use crate::step::Buf;

/// A number while the routine runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    /// Always these bits.
    Const(Ty, u64),
    /// Made by an op of a phase.
    Made(usize, Val),
    /// What the scalar holds: a carry of a loop, or what a choice gives.
    Cell(u16, Ty),
}

#[derive(Default)]
struct Ops {
    ops: Vec<Op>,
    types: Vec<Ty>,
    known: HashMap<Op, Val>,
    /// Values that other phases use, by scalar.
    exported: Vec<(u16, Val)>,
}

/// Code under construction.
pub(super) struct Code {
    phases: Vec<Ops>,
    /// The phase that ops are added to.
    open: Option<usize>,
    /// Lists of what runs after what; the last one is being written.
    flows: Vec<Vec<Flow>>,
    scalars: HashMap<(usize, Val), u16>,
    count: u16,
    pub args: Vec<Arg>,
    /// Where each argument is: bytes into a buffer.
    pub places: Vec<(Buf, i64)>,
}

impl Default for Code {
    fn default() -> Code {
        Code {
            phases: vec![],
            open: None,
            flows: vec![vec![]],
            scalars: HashMap::default(),
            count: 0,
            args: vec![],
            places: vec![],
        }
    }
}

impl Code {
    /// Operations so far.
    pub fn len(&self) -> usize {
        self.phases.iter().map(|p| p.ops.len()).sum()
    }

    /// The phase that ops are added to.
    fn here(&mut self) -> usize {
        *self.open.get_or_insert_with(|| {
            let number = self.phases.len();
            self.phases.push(Ops::default());
            if let Some(list) = self.flows.last_mut() {
                list.push(Flow::Phase(number));
            }
            number
        })
    }

    /// Begins a list of its own: a turn, a condition, a branch.
    pub fn enter(&mut self) {
        self.open = None;
        self.flows.push(vec![]);
    }

    /// Ends the list that was begun last.
    pub fn leave(&mut self) -> Vec<Flow> {
        self.open = None;
        self.flows.pop().unwrap_or_default()
    }

    /// Adds a loop or a choice after everything so far.
    pub fn flow(&mut self, flow: Flow) {
        self.open = None;
        if let Some(list) = self.flows.last_mut() {
            list.push(flow);
        }
    }

    fn push(&mut self, op: Op, ty: Ty) -> Number {
        let number = self.here();
        let phase = &mut self.phases[number];
        if let Some(&v) = phase.known.get(&op) {
            return Number::Made(number, v);
        }
        // Positions that do not fit are refused with the body.
        let v = phase.ops.len().min(usize::from(Val::MAX)) as Val;
        phase.ops.push(op);
        phase.types.push(ty);
        if op.is_effect() {
            // What was loaded before may differ now.
            phase.known.retain(|op, _| !matches!(op, Op::Load(_) | Op::LoadAt(..)));
        } else {
            phase.known.insert(op, v);
        }
        Number::Made(number, v)
    }

    /// A scalar that is nobody's yet.
    pub fn cell(&mut self) -> u16 {
        self.count = self.count.saturating_add(1);
        self.count - 1
    }

    /// The value of `number` in the phase that ops are added to.
    fn val(&mut self, number: Number) -> Val {
        let here = self.here();
        let op = match number {
            Number::Made(phase, v) if phase == here => return v,
            Number::Const(ty, bits) => Op::Const(ty, bits),
            Number::Cell(scalar, ty) => Op::Scalar(scalar, ty),
            Number::Made(phase, v) => {
                let ty = self.phases[phase].types[usize::from(v)];
                let scalar = match self.scalars.get(&(phase, v)) {
                    Some(&scalar) => scalar,
                    None => {
                        let scalar = self.cell();
                        self.scalars.insert((phase, v), scalar);
                        self.phases[phase].exported.push((scalar, v));
                        scalar
                    }
                };
                Op::Scalar(scalar, ty)
            }
        };
        match self.push(op, self.ty(number)) {
            Number::Made(_, v) => v,
            Number::Const(..) | Number::Cell(..) => 0,
        }
    }

    /// Sets cells to numbers, all at once.
    pub fn set(&mut self, list: &[(u16, Number)]) {
        let values: Vec<Val> = list.iter().map(|&(_, number)| self.val(number)).collect();
        for (&(cell, _), v) in list.iter().zip(values) {
            self.push(Op::SetScalar(cell, v), Ty::Pred);
        }
    }

    /// The argument for elements of type `elem` from byte `offset` of `buf` on.
    fn argument(&mut self, buf: Buf, offset: i64, elem: ElementType) -> u16 {
        let same = |i: &usize| self.places[*i] == (buf, offset) && self.args[*i].elem == elem;
        let found = (0..self.args.len()).find(same);
        found.unwrap_or_else(|| {
            self.args.push(Arg { elem, access: Access::Fixed, output: false });
            self.places.push((buf, offset));
            self.args.len() - 1
        }) as u16
    }

    /// The element of type `elem` that is `at` bytes after byte `offset` of `buf`.
    pub fn load(&mut self, (buf, offset): (Buf, i64), elem: ElementType, at: Number) -> Option<Number> {
        let (stored, ty) = stored(elem)?;
        let (arg, at) = (self.argument(buf, offset, stored), self.val(at));
        let number = self.push(Op::LoadAt(arg, at), Ty::of(stored)?);
        Some(self.convert(ty, number))
    }

    /// Writes `number` there.
    pub fn store(&mut self, (buf, offset): (Buf, i64), elem: ElementType, at: Number, number: Number) -> Option<()> {
        let (stored, _) = stored(elem)?;
        let number = self.convert(Ty::of(stored)?, number);
        let arg = self.argument(buf, offset, stored);
        self.args[usize::from(arg)].output = true;
        let (at, v) = (self.val(at), self.val(number));
        self.push(Op::StoreAt(arg, at, v), Ty::Pred);
        Some(())
    }

    /// The code and what runs after what.
    pub fn finish(mut self) -> (Body, Vec<Flow>) {
        let phase = |mut ops: Ops| {
            ops.ops.extend(ops.exported.iter().map(|&(scalar, v)| Op::SetScalar(scalar, v)));
            Phase { extent: Extent::Once, ops: ops.ops }
        };
        let flow = self.leave();
        let phases = self.phases.into_iter().map(phase).collect();
        (Body { args: self.args, temps: vec![], scalars: self.count, phases }, flow)
    }

    fn made(&mut self, numbers: &[Number], ty: Ty, op: impl Fn(&[Val]) -> Op) -> Number {
        let vals: Vec<Val> = numbers.iter().map(|&n| self.val(n)).collect();
        self.push(op(&vals), ty)
    }
}

/// What elements of type `elem` are in memory, where nothing is converted, and what they are here.
fn stored(elem: ElementType) -> Option<(ElementType, Ty)> {
    let ty = Ty::of(elem)?;
    match elem {
        ElementType::I1 => Some((ElementType::UI8, Ty::Pred)),
        _ => (ty.elem() == elem).then_some((elem, ty)),
    }
}

impl Arithmetic for Code {
    type Value = Number;

    fn ty(&self, value: Number) -> Ty {
        match value {
            Number::Const(ty, _) | Number::Cell(_, ty) => ty,
            Number::Made(phase, v) => self.phases[phase].types[usize::from(v)],
        }
    }

    fn unary(&mut self, f: UnaryOp, x: Number) -> Number {
        let ty = crate::kernel::check::unary(f, self.ty(x)).unwrap_or(self.ty(x));
        self.made(&[x], ty, |v| Op::Unary(f, v[0]))
    }

    fn binary(&mut self, f: BinaryOp, x: Number, y: Number) -> Number {
        self.made(&[x, y], self.ty(x), |v| Op::Binary(f, v[0], v[1]))
    }

    fn compare(&mut self, f: Cmp, x: Number, y: Number) -> Number {
        self.made(&[x, y], Ty::Pred, |v| Op::Compare(f, v[0], v[1]))
    }

    fn select(&mut self, p: Number, x: Number, y: Number) -> Number {
        if x == y {
            return x;
        }
        self.made(&[p, x, y], self.ty(x), |v| Op::Select(v[0], v[1], v[2]))
    }

    fn convert(&mut self, ty: Ty, x: Number) -> Number {
        if self.ty(x) == ty { x } else { self.made(&[x], ty, |v| Op::Convert(ty, v[0])) }
    }

    fn bitcast(&mut self, ty: Ty, x: Number) -> Number {
        if self.ty(x) == ty { x } else { self.made(&[x], ty, |v| Op::Bitcast(ty, v[0])) }
    }

    fn round(&mut self, elem: ElementType, x: Number) -> Number {
        self.made(&[x], Ty::F32, |v| Op::Round(elem, v[0]))
    }
}
