//! From the operations of a phase to vector instructions: loads, stores, reductions, and what is between.

use meshwork_ir::ElementType;
use meshwork_ir::hash::HashMap;

use super::arith::{Half, float_index};
use super::code::{Code, Unit, log2};
use super::inst::{Count, Form, Home, Inst, NONE, Part, Sign, V, Vex, op};
use super::sign::{self, Signs};
use crate::kernel::interp::{self, table};
use crate::kernel::ir::{Access, BinaryOp, Body, Combine, Extent, Op, Phase, Ty, UnaryOp, Val};
use crate::kernel::uses::Uses;
use crate::kernel::{Stores, lanes, math};

/// Which part of a phase is being written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Mode {
    /// What is the same all along the row, or a phase that runs once.
    Uniform,
    /// So many vectors in flight.
    Group(usize),
    /// The last elements of the row, fewer than a vector.
    Rest,
    /// The same as the end of a whole vector, of which only they are written.
    Last,
}

/// One reduction of a phase.
pub struct Reduction {
    /// How.
    pub how: Combine,
    /// Type of the elements; for `Pred` masks of `size` bytes.
    pub ty: Ty,
    /// Bytes of a lane.
    pub size: usize,
    /// Accumulators, one per vector in flight.
    pub acc: Vec<V>,
    /// Which lanes met a NaN, for extremes of floats.
    pub nan: Option<V>,
    /// Slots of the second accumulators, if the first ones are folded in blocks.
    pub second: Vec<i32>,
    /// Result.
    pub scalar: u16,
}

/// A phase being lowered.
pub struct Lower<'a> {
    pub(super) body: &'a Body,
    pub(super) phase: &'a Phase,
    pub(super) types: &'a [Option<Ty>],
    /// Elements of a vector.
    pub lanes: usize,
    /// Per value, whether it is the same all along the row.
    pub(super) uniform: Vec<bool>,
    /// Per value, what stands for it in each vector in flight.
    pub(super) vals: Vec<[V; 4]>,
    /// Where values are last used.
    pub(super) uses: Uses,
    /// Negations that only products with a sum use, whose instruction can negate by itself.
    pub(super) folded: Vec<bool>,
    /// Comparisons that a bit stands for.
    pub(super) signs: Signs,
    /// Size of mask that the first user of a `Pred` wants.
    pub(super) wanted: Vec<usize>,
    /// Slots of scalars.
    pub(super) scalars: &'a [i32],
    /// Masks of the rest of the row by log2 of the size, in slots.
    pub rest_masks: [V; 4],
    /// Masks of the rest at the end of a vector.
    pub last_masks: [V; 4],
    /// Steps of lanes along index dimensions: (dimension, log2 of the size), and where.
    pub steps: &'a mut HashMap<(u8, u8), i32>,
    /// Reductions in order.
    pub reductions: Vec<Reduction>,
    /// Values of the uniform part that the rest uses, and their slots.
    pub kept: Vec<(V, i32)>,
    /// Where stores of whole vectors go.
    pub(super) stores: Stores,
    /// Scalars that have registers of their own, by number; in routines.
    pub pins: Vec<Option<V>>,
    /// The scalar that only decides whether a loop goes on: it is tested at the end, and not kept.
    pub tested: Option<u16>,
}

impl<'a> Lower<'a> {
    /// Nothing lowered yet.
    pub fn new(
        body: &'a Body,
        phase: &'a Phase,
        types: &'a [Option<Ty>],
        scalars: &'a [i32],
        steps: &'a mut HashMap<(u8, u8), i32>,
        stores: Stores,
    ) -> Lower<'a> {
        let mut uniform: Vec<bool> = vec![];
        for op in &phase.ops {
            let same = match *op {
                Op::Const(..) | Op::Scalar(..) => true,
                Op::Load(arg) => {
                    let arg = &body.args[usize::from(arg)];
                    matches!(arg.access, Access::Zero | Access::Fixed) && !arg.output
                }
                Op::LoadTemp(..) | Op::Index(..) => false,
                _ => !op.is_effect() && op.operands().all(|a| uniform[usize::from(a)]),
            };
            uniform.push(same || phase.extent == Extent::Once);
        }
        let lanes = lanes::lanes(types);
        let n = phase.ops.len();
        let mut lower = Lower {
            body,
            phase,
            types,
            lanes,
            uniform,
            vals: vec![[NONE; 4]; n],
            uses: Uses::of(phase),
            folded: folded_negations(phase, types),
            signs: sign::find(phase, types),
            wanted: vec![0; n],
            scalars,
            rest_masks: [NONE; 4],
            last_masks: [NONE; 4],
            steps,
            reductions: vec![],
            kept: vec![],
            stores,
            pins: vec![],
            tested: None,
        };
        lower.want();
        lower
    }

    fn ty(&self, v: Val) -> Ty {
        self.types[usize::from(v)].unwrap_or(Ty::Pred)
    }

    /// Finds which size of mask the users of each `Pred` want.
    fn want(&mut self) {
        let types = self.types;
        let is_pred = |v: &Val| types[usize::from(*v)] == Some(Ty::Pred);
        for (at, op) in self.phase.ops.iter().enumerate().rev() {
            let own = self.wanted[at];
            match *op {
                Op::Select(p, a, _) => {
                    self.wanted[usize::from(p)] = match self.ty(a) {
                        Ty::Pred => own.max(1),
                        ty => ty.size(),
                    };
                    for v in op.operands().skip(1).filter(is_pred) {
                        self.wanted[usize::from(v)] = own.max(1);
                    }
                }
                Op::Convert(ty, a) if self.ty(a) == Ty::Pred => self.wanted[usize::from(a)] = ty.size(),
                _ => {
                    for v in op.operands().filter(is_pred) {
                        self.wanted[usize::from(v)] = own.max(1);
                    }
                }
            }
        }
    }

    /// Lowers the uniform part; its values stay known for the other parts.
    pub fn uniform(&mut self, unit: &mut Unit) -> Option<Vec<Inst>> {
        let mut code = Code { unit, insts: vec![], lanes: self.lanes };
        for at in 0..self.phase.ops.len() {
            if self.uniform[at] {
                self.op(&mut code, at, Mode::Uniform)?;
            }
        }
        if self.phase.extent == Extent::Row {
            // What is computed here is kept for the loops.
            let mut kept: Vec<V> = vec![];
            for (_, op) in self.phase.ops.iter().enumerate().filter(|(at, _)| !self.uniform[*at]) {
                for a in op.operands().filter(|&a| self.uniform[usize::from(a)]) {
                    let v = self.vals[usize::from(a)][0];
                    if code.unit.values[v as usize].home == Home::None && !kept.contains(&v) {
                        kept.push(v);
                    }
                }
            }
            for v in kept {
                let slot = code.unit.frame.slot();
                code.insts.push(Inst::Keep { src: v, slot });
                self.kept.push((v, slot));
            }
        }
        self.end(&mut code);
        Some(code.insts)
    }

    /// Moves the new values of scalars that have registers there, and tests the one that decides.
    fn end(&self, code: &mut Code<'_>) {
        let set = |op: &Op| if let Op::SetScalar(scalar, a) = *op { Some((scalar, a)) } else { None };
        let pinned = |scalar: u16| self.pins.get(usize::from(scalar)).copied().flatten();
        let mut moves = vec![];
        for (scalar, a) in self.phase.ops.iter().filter_map(set) {
            let v = self.vals[usize::from(a)][0];
            if self.tested == Some(scalar) {
                // Only the jump follows it.
                moves.push((None, v, 0));
            } else if let Some(to) = pinned(scalar) {
                moves.push((Some(to), v, self.lane_size(code, a)));
            }
        }
        let is_pin = |v: V| self.pins.contains(&Some(v));
        for (_, v, _) in moves.iter_mut().filter(|(_, v, _)| is_pin(*v)) {
            // It may be overwritten before it is read.
            let copy = code.unit.value(32, Home::None);
            code.insts.push(Inst::Vex(moved(copy, *v, op::MOVAPS)));
            code.unit.masks[copy as usize] = code.unit.masks[*v as usize];
            *v = copy;
        }
        for &(to, v, size) in &moves {
            let Some(to) = to else { continue };
            let whole = code.unit.values[v as usize].width == 32;
            let enc = if whole { op::MOVAPS } else { op::PBROADCAST[usize::from(log2(size))] };
            code.insts.push(Inst::Vex(moved(to, v, enc)));
        }
        if let Some(&(_, v, _)) = moves.iter().find(|m| m.0.is_none()) {
            code.insts.push(Inst::Test(v));
        }
    }

    /// Bytes of a lane of value `a`, of the mask if it is one.
    fn lane_size(&self, code: &Code<'_>, a: Val) -> usize {
        match self.ty(a) {
            Ty::Pred => usize::from(code.unit.masks[self.vals[usize::from(a)][0] as usize]).max(1),
            ty => ty.size(),
        }
    }

    /// Whether the rest of a row is better done with a whole vector than element by element: some are too narrow for
    /// masks, and nothing else than arrays of neighboring elements is written.
    pub fn ends_in_a_vector(&self) -> bool {
        let args = &self.body.args;
        let narrow = |op: &Op| match *op {
            Op::Load(arg) | Op::Store(arg, _) => {
                let arg = &args[usize::from(arg)];
                arg.access.is_unit() && arg.elem.storage_bytes() < 4
            }
            Op::LoadTemp(_, ty) => ty.size() < 4,
            _ => false,
        };
        let plain = |op: &Op| match *op {
            Op::Store(arg, _) => args[usize::from(arg)].access == Access::Unit,
            Op::Reduce(..) | Op::SetScalar(..) => false,
            _ => true,
        };
        self.phase.ops.iter().any(narrow) && self.phase.ops.iter().all(plain)
    }

    /// Lowers what varies along the row.
    pub fn varying(&mut self, unit: &mut Unit, mode: Mode) -> Option<Vec<Inst>> {
        let mut code = Code { unit, insts: vec![], lanes: self.lanes };
        let mut reduction = 0;
        for at in 0..self.phase.ops.len() {
            if self.uniform[at] {
                continue;
            }
            if let Op::Reduce(_, _, a) = self.phase.ops[at] {
                self.reduce(&mut code, reduction, a, mode)?;
                reduction += 1;
            } else {
                self.op(&mut code, at, mode)?;
            }
        }
        Some(code.insts)
    }

    fn op(&mut self, code: &mut Code<'_>, at: usize, mode: Mode) -> Option<()> {
        let vectors = if let Mode::Group(n) = mode { n } else { 1 };
        let before = code.insts.len();
        for u in 0..vectors {
            let Some(v) = self.one(code, at, mode, u) else {
                code.insts.truncate(before);
                return self.call(code, at, mode);
            };
            if self.uniform[at] {
                self.vals[at] = [v; 4];
            } else {
                self.vals[at][u] = v;
            }
        }
        Some(())
    }

    /// Op `at`, which has no instructions, by the interpreter's loop.
    fn call(&mut self, code: &mut Code<'_>, at: usize, mode: Mode) -> Option<()> {
        let (run, a, b) = match self.phase.ops[at] {
            Op::Unary(f, a) => (table::unary(f, self.ty(a))?, a, None),
            Op::Binary(f, a, b) => (table::binary(f, self.ty(a))?, a, Some(b)),
            Op::Convert(to, a) => (table::convert(self.ty(a), to), a, None),
            Op::Round(elem, a) => (table::round(elem)?, a, None),
            _ => return None,
        };
        if self.types[at] == Some(Ty::Pred) || self.ty(a) == Ty::Pred {
            return None;
        }
        let vectors = if let Mode::Group(n) = mode { n } else { 1 };
        let list = |v: Val| self.vals[usize::from(v)][..vectors].to_vec();
        let size = self.types[at]?.size();
        let lanes = if mode == Mode::Uniform { 1 } else { self.lanes };
        let results = code.called(run, lanes, &list(a), &b.map_or(vec![], list), size);
        for (u, v) in results.into_iter().enumerate() {
            if self.uniform[at] {
                let spread = code.unit.value(32, Home::None);
                code.insts.push(Inst::Vex(moved(spread, v, op::PBROADCAST[usize::from(log2(size))])));
                self.vals[at] = [spread; 4];
            } else {
                self.vals[at][u] = v;
            }
        }
        Some(())
    }

    /// Lowers op `at` for vector `u` of those in flight.
    fn one(&mut self, code: &mut Code<'_>, at: usize, mode: Mode, u: usize) -> Option<V> {
        let val = |v: Val| self.vals[usize::from(v)][u];
        Some(match self.phase.ops[at] {
            Op::Const(Ty::Pred, bits) => {
                if bits != 0 {
                    code.unit.ones()
                } else {
                    code.unit.zero()
                }
            }
            Op::Const(ty, bits) => code.unit.splat(ty.size(), bits),
            Op::Scalar(scalar, _) => {
                if let Some(&Some(v)) = self.pins.get(usize::from(scalar)) {
                    return Some(v);
                }
                let home = Home::Slot(self.scalars[usize::from(scalar)]);
                let v = code.unit.value(32, home);
                if self.phase.ops.iter().any(|op| matches!(op, Op::SetScalar(s, _) if *s == scalar)) {
                    code.insts.push(Inst::Touch(v));
                }
                v
            }
            Op::Load(arg) => self.load(code, at, arg, mode, u)?,
            Op::LoadAt(arg, place) if !self.uniform[at] => {
                let elem = self.body.args[usize::from(arg)].elem;
                let size = elem.storage_bytes();
                let (place, disp) = self.place(place);
                if size < 4 {
                    let word = self.word(code, arg, (val(place?), disp), mode);
                    return Some(self.part_of_word(code, elem, word));
                }
                let mask = if mode == Mode::Rest { self.rest_mask(size) } else { NONE };
                let dst = code.fresh(size);
                code.insts.push(Inst::Pick { dst, place: val(place?), mask, arg, scale: log2(size), disp });
                dst
            }
            Op::LoadAt(arg, place) => {
                let (place, disp) = self.place(place);
                let elem = self.body.args[usize::from(arg)].elem;
                let v = self.spread_at(code, arg, elem, (place.map_or(NONE, val), disp));
                if elem == ElementType::I1 { self.load_mask(code, at, v) } else { v }
            }
            Op::StoreAt(arg, place, a) => {
                let scale = log2(self.body.args[usize::from(arg)].elem.storage_bytes());
                let (place, disp) = self.place(place);
                code.insts.push(Inst::StoreOne { src: val(a), arg, scale, place: place.map_or(NONE, val), disp });
                NONE
            }
            Op::LoadTemp(temp, ty) => {
                let arg = (self.body.args.len() + usize::from(temp)) as u16;
                let raw = self.unit_load(code, arg, ty.size(), mode, u);
                if ty == Ty::Pred {
                    self.load_mask(code, at, raw)
                } else {
                    if self.uses.overwritten(at) {
                        code.insts.push(Inst::Touch(raw));
                    }
                    raw
                }
            }
            Op::Index(dim, ty) => self.index(code, dim, ty, mode, u),
            Op::Unary(_, a) if self.folded[at] => val(a),
            Op::Binary(..) if self.signs.shifts[at].is_some() => {
                let (of, left) = self.signs.shifts[at]?;
                code.shift(6, self.ty(of).size(), val(of), left)
            }
            Op::Unary(f, a) => code.unary(f, self.ty(a), val(a))?,
            Op::Binary(f @ (BinaryOp::Divide | BinaryOp::Remainder), x, y)
                if mode == Mode::Uniform && is_word(self.ty(x)) =>
            {
                let (ty, dst) = (self.ty(x), code.unit.value(32, Home::None));
                let sign = if ty.is_signed() { Sign::Signed } else { Sign::Unsigned };
                let part = if f == BinaryOp::Divide { Part::Quotient } else { Part::Remainder };
                code.insts.push(Inst::Divide { dst, x: val(x), y: val(y), scale: log2(ty.size()), sign, part });
                dst
            }
            Op::Binary(f @ (BinaryOp::Multiply | BinaryOp::Mulhi), a, b)
                if mode == Mode::Uniform && is_word(self.ty(a)) && self.ty(a).size() == 4 =>
            {
                let half = if f == BinaryOp::Mulhi { Half::Upper } else { Half::Lower };
                code.single_product(half, self.ty(a), val(a), val(b))
            }
            Op::Binary(f, a, b) => code.binary(f, self.ty(a), val(a), val(b))?,
            Op::Compare(..) if self.signs.bits[at].is_some() => val(self.signs.bits[at]?.of),
            Op::Compare(f, a, b) => code.compare(f, self.ty(a), val(a), val(b)),
            Op::Select(p, a, b) if self.ty(a) == Ty::Pred => {
                let have = |v: V| usize::from(code.unit.masks[v as usize]);
                let size = [p, a, b].map(|v| have(val(v))).into_iter().max().unwrap_or(1).max(1);
                let [p, a, b] = [p, a, b].map(|v| code.mask(val(v), size));
                let v = code.blend(size, p, a, b);
                code.mark_mask(v, size)
            }
            Op::Select(p, a, b) => {
                let size = self.ty(a).size();
                match self.signs.bits[usize::from(p)] {
                    Some(sign) if sign.is_clear => code.blend_by_sign(size, val(p), val(b), val(a)),
                    Some(_) => code.blend_by_sign(size, val(p), val(a), val(b)),
                    None => {
                        let mask = code.mask(val(p), size);
                        code.blend(size, mask, val(a), val(b))
                    }
                }
            }
            Op::MulAdd(a, b, c) => {
                let ty = self.ty(a);
                if ty.is_float() {
                    let negated = self.folded[usize::from(a)] != self.folded[usize::from(b)];
                    code.fma(ty.size(), val(a), val(b), val(c), negated)
                } else {
                    let product = code.binary(BinaryOp::Multiply, ty, val(a), val(b))?;
                    code.binary(BinaryOp::Add, ty, product, val(c))?
                }
            }
            Op::FarApart(f, x, y, near) => {
                let ty = self.ty(x);
                let run = interp::far_apart(f, ty)?;
                let values = [x, y, near].map(val);
                if f == BinaryOp::Remainder {
                    code.far_apart((run, math::times(ty)), ty, values)
                } else {
                    code.unknown(run, ty, values)
                }
            }
            Op::Far(f, x, near) => {
                let ty = self.ty(x);
                code.far((interp::far(f, ty)?, math::limit(f, ty)?), ty, val(x), val(near))
            }
            Op::Convert(to, a) => code.convert(self.ty(a), to, val(a))?,
            Op::Bitcast(_, a) => val(a),
            Op::Round(elem, a) => code.round(elem, val(a))?,
            Op::Store(arg, a) => {
                self.store(code, arg, a, mode, u);
                NONE
            }
            Op::StoreTemp(temp, a) => {
                let ty = self.ty(a);
                let arg = (self.body.args.len() + usize::from(temp)) as u16;
                let raw = if ty == Ty::Pred { self.store_mask(code, val(a)) } else { val(a) };
                self.unit_store(code, arg, raw, ty.size(), mode, u);
                NONE
            }
            Op::SetScalar(scalar, a) => {
                let has_register = self.pins.get(usize::from(scalar)).copied().flatten().is_some();
                if !has_register && self.tested != Some(scalar) {
                    self.set_scalar(code, scalar, val(a), self.lane_size(code, a));
                }
                NONE
            }
            Op::Reduce(..) => return None,
        })
    }

    /// A place as a value, if it varies, and a number of bytes.
    fn place(&self, place: Val) -> (Option<Val>, i32) {
        let constant = |v: Val| match self.phase.ops[usize::from(v)] {
            Op::Const(_, bits) => i32::try_from(bits).ok(),
            _ => None,
        };
        match (constant(place), self.phase.ops[usize::from(place)]) {
            (Some(disp), _) => (None, disp),
            (None, Op::Binary(BinaryOp::Add, a, b)) => match (constant(a), constant(b)) {
                (_, Some(disp)) => (Some(a), disp),
                (Some(disp), _) => (Some(b), disp),
                _ => (Some(place), 0),
            },
            _ => (Some(place), 0),
        }
    }

    /// Spreads lane 0 of `v` over the slot of a scalar.
    pub fn set_scalar(&self, code: &mut Code<'_>, scalar: u16, v: V, size: usize) {
        let spread = code.unit.value(32, Home::None);
        let enc = op::PBROADCAST[usize::from(log2(size))];
        code.insts.push(Inst::Vex(Vex { read: size as u8, ..moved(spread, v, enc) }));
        code.insts.push(Inst::Keep { src: spread, slot: self.scalars[usize::from(scalar)] });
    }

    pub(super) fn count(&self, mode: Mode) -> Count {
        match mode {
            Mode::Group(_) | Mode::Last => Count::Lanes(self.lanes as u8),
            Mode::Uniform => Count::Lanes(1),
            Mode::Rest => Count::Rest,
        }
    }

    /// The element of `arg` at `place` and so many bytes further on, in all lanes; a truth value as the byte that it is.
    pub(super) fn spread_at(&self, code: &mut Code<'_>, arg: u16, elem: ElementType, (place, disp): (V, i32)) -> V {
        let dst = code.unit.value(32, Home::None);
        let scale = log2(elem.storage_bytes());
        let shl = if elem == ElementType::BF16 { 16 } else { 0 };
        code.insts.push(Inst::Spread { dst, arg, scale, shl, place, disp });
        if elem == ElementType::F16 {
            code.unit.values[dst as usize].width = code.width(2) as u8;
            return code.widen_f16(dst);
        }
        dst
    }

    /// The bytes from the elements of `arg` on at `place`, and `disp` bytes further on, in lanes of 4 bytes. What is read is the word
    /// around each, which begins at a multiple of 4 and so is in the same page, shifted to the right.
    fn word(&self, code: &mut Code<'_>, arg: u16, (place, disp): (V, i32), mode: Mode) -> V {
        let first = code.unit.value(32, Home::None);
        code.insts.push(Inst::Address { dst: first, arg, disp });
        let address = code.both(op::PADD[2], 4, first, place);
        // The last two bits of the address.
        let high = code.shift(6, 4, address, 30);
        let ahead = code.shift(2, 4, high, 30);
        let start = code.rvm(op::PSUB[2], 4, place, ahead);
        let bits = code.shift(6, 4, ahead, 3);
        let mask = if mode == Mode::Rest { self.rest_mask(4) } else { NONE };
        let dst = code.fresh(4);
        code.insts.push(Inst::Pick { dst, place: start, mask, arg, scale: 2, disp });
        code.rvm(op::PSRLV[0], 4, dst, bits)
    }

    /// What lanes hold for the elements of type `elem`, of less than 4 bytes, that the words begin with.
    fn part_of_word(&self, code: &mut Code<'_>, elem: ElementType, word: V) -> V {
        match elem {
            ElementType::I1 => {
                let zero = code.unit.zero();
                let byte = code.shift(6, 4, word, 24);
                let none = code.both(op::PCMPEQ[2], 4, byte, zero);
                let some = code.not(4, none);
                code.mark_mask(some, 4)
            }
            ElementType::BF16 => code.shift(6, 4, word, 16),
            ElementType::F16 => {
                let half = code.narrow(word, 4, 2);
                code.widen_f16(half)
            }
            _ => code.narrow(word, 4, elem.storage_bytes()),
        }
    }

    /// Combines the vectors of value `a` into the accumulators of a reduction.
    fn reduce(&mut self, code: &mut Code<'_>, number: usize, a: Val, mode: Mode) -> Option<()> {
        let vectors = if let Mode::Group(n) = mode { n } else { 1 };
        let r = &self.reductions[number];
        for u in 0..vectors {
            let mut v = self.vals[usize::from(a)][u];
            if r.ty == Ty::Pred {
                v = code.mask(v, r.size);
            }
            if mode == Mode::Rest {
                let mut identity = r.ty.identity(r.how);
                if r.ty == Ty::Pred && identity == 1 {
                    identity = u64::MAX >> (64 - 8 * r.size);
                }
                let identity = code.unit.splat(r.size, identity);
                v = code.blend(r.size, self.rest_masks[usize::from(log2(r.size))], v, identity);
            }
            if let Some(nan) = r.nan {
                let met = code.is_nan(r.ty, v);
                let all = code.both(op::POR, r.size, nan, met);
                assign(code, nan, all);
            }
            let acc = r.acc[u];
            let v = combine(code, r, acc, v)?;
            assign(code, acc, v);
        }
        Some(())
    }
}

/// Whether the processor divides single integers of this type.
fn is_word(ty: Ty) -> bool {
    ty.is_integer() && ty.size() >= 4
}

/// `dst = v` by the instruction `enc`.
fn moved(dst: V, v: V, enc: super::asm::Enc) -> Vex {
    Vex { enc, wide: true, form: Form::Rm, dst, a: NONE, b: v, c: NONE, imm: None, read: 32 }
}

/// Per value, whether it is a negation of floats that is used only as a factor of fused products.
fn folded_negations(phase: &Phase, types: &[Option<Ty>]) -> Vec<bool> {
    let mut folded: Vec<bool> = phase
        .ops
        .iter()
        .zip(types)
        .map(|(op, ty)| matches!(op, Op::Unary(UnaryOp::Negate, _)) && ty.is_some_and(Ty::is_float))
        .collect();
    for op in &phase.ops {
        match *op {
            Op::MulAdd(_, _, c) => folded[usize::from(c)] = false,
            _ => op.operands().for_each(|v| folded[usize::from(v)] = false),
        }
    }
    folded
}

/// `a ⊕ b` for lanes of a reduction, without regard to NaN in extremes.
pub fn combine(code: &mut Code<'_>, r: &Reduction, a: V, b: V) -> Option<V> {
    if r.ty == Ty::Pred {
        let enc = match r.how {
            Combine::Add | Combine::Or | Combine::Max => op::POR,
            Combine::Mul | Combine::And | Combine::Min => op::PAND,
            Combine::Xor => op::PXOR,
        };
        return Some(code.both(enc, r.size, a, b));
    }
    if r.ty.is_float() && matches!(r.how, Combine::Max | Combine::Min) {
        // The instruction gives its second operand if both are zeros: asked both ways, the signs of both are known.
        let (larger, k) = (r.how == Combine::Max, float_index(r.ty));
        let (one, other) = (code.bare_extreme(larger, r.ty, a, b), code.bare_extreme(larger, r.ty, b, a));
        return Some(code.both(if larger { op::AND[k] } else { op::OR[k] }, r.size, one, other));
    }
    code.binary(r.how.into(), r.ty, a, b)
}

/// Makes the value `v`, just computed, the new value of `to`, which stays in its register.
pub fn assign(code: &mut Code<'_>, to: V, v: V) {
    if let Some(Inst::Vex(last)) = code.insts.last_mut()
        && last.dst == v
    {
        last.dst = to;
    }
}
