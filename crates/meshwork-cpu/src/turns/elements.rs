//! The body of a loop, element by element.
//!
//! A value is asked for with the dimension that is its lanes, if it has one, and is given as its elements in row-major
//! order of the other dimensions. The question goes back through the body to carries and to values from outside, which are
//! loaded; what cannot be asked that way makes the whole loop an ordinary one.

use std::rc::Rc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BodyOp, ContractOp, ControlOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, Def, ElementType, Literal, Module, OpId, OpKind, ValueId};

use super::code::{Code, Element, Place};
use super::expand::{Expand, mask, offsets, rest};
use super::limit::{Limit, is_outside};
use super::line::Turns;
use super::work::Fixed;
use crate::compile::lower::Lower;
use crate::compile::trip_count;
use crate::fuse::{self, Arithmetic};
use crate::kernel::ir::{Cmp, Ty};
use crate::step::{Buf, View};

/// Operations of a kernel.
pub(super) const MOST: usize = 3000;
/// Turns of a loop inside that are written one after the other.
const MOST_UNROLLED: u64 = 64;

/// Which of several dimensions of the same extent are the lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pick {
    Last,
    First,
}

/// The elements of a value.
pub(super) type Elements = Rc<Vec<Element>>;
type Question = (ValueId, Option<usize>);

/// A body being expanded.
pub(super) struct Expansion<'a, 'm> {
    pub cx: &'a mut Lower<'m>,
    pub turns: &'a Turns<'m>,
    /// Extent of the lanes; 1 if there are none.
    pub lanes: i64,
    pub pick: Pick,
    /// Operations that are worth it.
    pub most: usize,
    pub code: Code,
    /// Carries that were asked for, and their first row in the state.
    pub carries: Vec<(usize, usize)>,
    /// Rows of the state, with the type and whether it has lanes.
    pub state: Vec<(ElementType, bool)>,
    /// Buffers that are loaded from.
    pub reads: Vec<Buf>,
    /// What lets turns through, if not all of them do something.
    pub limit: Option<Limit>,
    /// Arrays whose lanes are not side by side, which each chunk copies to rows of the state first.
    pub fixed: Vec<Fixed>,
    /// Carries that are in the memory of their results, by the arguments of the body.
    pub tables: HashMap<ValueId, View>,
    known: HashMap<Question, Elements>,
    trail: Vec<Question>,
    elements: usize,
}

impl<'a, 'm> Expansion<'a, 'm> {
    pub fn new(cx: &'a mut Lower<'m>, turns: &'a Turns<'m>, (lanes, pick): (i64, Pick), most: usize) -> Self {
        Expansion {
            cx,
            turns,
            lanes,
            pick,
            most,
            code: Code::default(),
            carries: vec![],
            state: vec![],
            reads: vec![],
            limit: None,
            fixed: vec![],
            tables: HashMap::default(),
            known: HashMap::default(),
            trail: vec![],
            elements: 0,
        }
    }

    /// The dimension of `value` that is the lanes, if it stands for itself.
    pub fn lane_of(&self, dims: &[i64]) -> Option<usize> {
        if self.lanes == 1 {
            return None;
        }
        match self.pick {
            Pick::Last => dims.iter().rposition(|&n| n == self.lanes),
            Pick::First => dims.iter().position(|&n| n == self.lanes),
        }
    }

    pub(super) fn know(&mut self, question: Question, elements: Elements) {
        self.known.insert(question, elements);
        self.trail.push(question);
    }

    fn new_value(&mut self, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let module = self.cx.module;
        let ty = Ty::of(self.elem(value)?)?;
        if let (None, Some(line)) = (lane, self.turns.line(value)) {
            return Some(vec![match line.step {
                0 => Element::Const(ty, line.base as u64 & mask(ty)),
                step => self.code.position(ty, [line.base, step, 0])?,
            }]);
        }
        let own = if lane.is_none() { self.lane_of(self.dims(value)) } else { None };
        match module.value(value).def() {
            Def::Arg(block, i) if block == self.turns.body => return self.carry(value, i as usize, lane),
            Def::Result(op, _) if self.is_inside(op) => {
                return match self.spread_from(op, value, lane) {
                    Some(own) => self.as_numbers(value, own),
                    None => self.op(op, value, lane),
                };
            }
            // A carry of a loop inside.
            Def::Arg(..) if own.is_some_and(|own| self.known.contains_key(&(value, Some(own)))) => {
                return self.as_numbers(value, own?);
            }
            Def::Arg(..) | Def::Result(..) => {}
        }
        let view = self.cx.view(value).cloned()?;
        self.loads(&view, &vec![0; view.dims.len()], lane)
    }

    fn is_inside(&self, op: OpId) -> bool {
        self.cx.module.is_inside(op, self.turns.op)
    }

    /// The elements of a carry at the start of a turn.
    fn carry(&mut self, value: ValueId, i: usize, lane: Option<usize>) -> Option<Vec<Element>> {
        if self.tables.contains_key(&value) {
            return None;
        }
        let own = self.lane_of(self.dims(value));
        if lane != own {
            return if lane.is_none() { self.carried_numbers(value, i, own?) } else { None };
        }
        let elem = self.elem(value)?;
        let count = self.rest(value, lane).iter().product::<i64>() as usize;
        let first = match self.carries.iter().find(|c| c.0 == i) {
            Some(&(_, first)) => first,
            None => {
                self.carries.push((i, self.state.len()));
                self.state.extend((0..count).map(|_| (elem, lane.is_some())));
                self.state.len() - count
            }
        };
        (first..first + count).map(|row| self.code.load(Place::State(row), elem, lane.is_some())).collect()
    }

    /// The elements of what is in memory; `turning` says how many bytes each dimension moves a turn.
    fn loads(&mut self, view: &View, turning: &[i64], lane: Option<usize>) -> Option<Vec<Element>> {
        let ty = Ty::of(view.elem)?;
        let per_turn: i64 = turning.iter().sum();
        let per_lane = lane.map_or(0, |d| view.strides[d]);
        let literal = self.cx.bufs[view.buf.0 as usize].constant.clone().filter(|_| per_turn == 0 && per_lane == 0);
        if literal.is_none() && !self.reads.contains(&view.buf) {
            self.reads.push(view.buf);
        }
        let size = view.elem.storage_bytes() as i64;
        // Each turn would collect them one by one.
        let is_far = lane.is_some() && per_turn == 0 && !(0..=2 * size).contains(&per_lane);
        let offsets = offsets(&rest(&view.dims, lane), &view.strides, view.offset);
        let load = |offset: i64| match &literal {
            Some(literal) if literal.elem() == view.elem => {
                let at = offset / view.elem.storage_bytes() as i64;
                Some(Element::Const(ty, fuse::constant_bits(literal, at as usize, ty)? & mask(ty)))
            }
            _ if is_far => {
                let one = Fixed { buf: view.buf, offset, per_lane, elem: view.elem, row: self.state.len() };
                let row = match self.fixed.iter().find(|f| (f.buf, f.offset, f.per_lane) == (one.buf, offset, per_lane))
                {
                    Some(known) => known.row,
                    None => {
                        self.state.push((view.elem, true));
                        self.fixed.push(one);
                        self.state.len() - 1
                    }
                };
                self.code.load(Place::State(row), view.elem, true)
            }
            _ => {
                let place = Place::Buf { buf: view.buf, offset, per_lane, per_turn };
                self.code.load(place, view.elem, lane.is_some())
            }
        };
        offsets.into_iter().map(load).collect()
    }

    fn op(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let module = self.cx.module;
        let data = module.op(op);
        match data.kind() {
            OpKind::Source(SourceOp::Constant) => self.literal(op, value, lane),
            OpKind::Source(SourceOp::Iota) => {
                let (ty, dim) = (Ty::of(self.elem(value)?)?, data.int("iota_dimension")? as usize);
                let integer = if ty.is_float() { Ty::I32 } else { ty };
                let shape = self.rest(value, lane);
                let count = shape.iter().product::<i64>() as usize;
                if lane == Some(dim) {
                    let position = self.code.position(integer, [0, 0, 1])?;
                    return Some(vec![self.code.convert(ty, position); count]);
                }
                let inner: i64 = shape[dim + 1..].iter().product();
                let at = |i: usize| Element::Const(integer, (i as i64 / inner % shape[dim]) as u64 & mask(integer));
                Some((0..count).map(|i| self.code.convert(ty, at(i))).collect())
            }
            OpKind::Movement(movement) => match movement {
                MovementOp::BitcastConvert if fuse::is_fusible(module, op) => {
                    let ty = Ty::of(self.elem(value)?)?;
                    let from = self.value(data.operands()[0], lane)?;
                    Some(from.iter().map(|&e| self.code.bitcast(ty, e)).collect())
                }
                MovementOp::Slice
                | MovementOp::Reverse
                | MovementOp::Transpose
                | MovementOp::BroadcastInDim
                | MovementOp::Broadcast
                | MovementOp::Reshape => self.renamed(op, value, lane),
                MovementOp::Concatenate => self.concatenated(op, lane),
                MovementOp::Pad => self.padded(op, value, lane),
                MovementOp::DynamicSlice => self.sliced(op, value, lane),
                MovementOp::DynamicUpdateSlice => self.updated(op, value, lane),
                MovementOp::Gather => self.gathered(op, value, lane),
                _ => None,
            },
            OpKind::Body(BodyOp::Reduce) if fuse::reduce_kind(module, op).is_none() => self.winners(op, value, lane),
            OpKind::Body(BodyOp::Reduce) if lane.is_none() && self.mixes_lanes(op) => self.combined(op),
            OpKind::Body(BodyOp::Reduce) => self.reduced(op, value, lane),
            OpKind::Body(BodyOp::Scatter) => self.scattered(op, value, lane),
            OpKind::Contract(ContractOp::DotGeneral) => self.product(op, value, lane),
            OpKind::Control(ControlOp::Case | ControlOp::If) => self.choice(op, value, lane),
            OpKind::Control(ControlOp::While) => {
                self.unrolled(op)?;
                self.known.get(&(value, lane)).map(|elements| elements.to_vec())
            }
            // Only turns that it lets through are run.
            OpKind::Mixed(MixedOp::Select) if self.limit.as_ref().is_some_and(|l| l.passes == data.operands()[0]) => {
                Some(self.value(data.operands()[1], lane)?.to_vec())
            }
            _ => self.arithmetic(op, value, lane),
        }
    }

    fn literal(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let Some(Attr::Dense(dense)) = self.cx.module.op(op).attr("value") else { return None };
        let (elem, dims) = (dense.ty.elem, dense.ty.dims.to_vec());
        let ty = Ty::of(elem)?;
        let count = self.rest(value, lane).iter().product::<i64>() as usize;
        if let Some(bytes) = dense.splat_bytes() {
            let one = Literal::from_bytes([], elem, bytes.to_vec())?;
            return Some(vec![Element::Const(ty, fuse::constant_bits(&one, 0, ty)? & mask(ty)); count]);
        }
        let literal = dense.to_literal()?;
        if lane.is_none() {
            let bits = |i| Some(Element::Const(ty, fuse::constant_bits(&literal, i, ty)? & mask(ty)));
            return (0..count).map(bits).collect();
        }
        let view = View::dense(self.cx.constant(literal), elem, &dims);
        self.loads(&view, &vec![0; dims.len()], lane)
    }

    /// Where a slice starts in each dimension: a line that stays inside.
    pub fn starts(&self, starts: &[ValueId], room: &[i64]) -> Option<Vec<super::line::Line>> {
        let last = self.turns.trips.saturating_sub(1);
        let inside = |(&v, &most): (&ValueId, &i64)| {
            let line = self.turns.line(v)?;
            if line.step == 0 {
                return Some(super::line::Line { base: line.base.clamp(0, most), step: 0 });
            }
            let ends = [line.base, line.at(last)?];
            ends.iter().all(|end| (0..=most).contains(end)).then_some(line)
        };
        starts.iter().zip(room).map(inside).collect()
    }

    /// The same of numbers that this turn of a loop inside counts, too.
    fn present_starts(&mut self, starts: &[ValueId], room: &[i64]) -> Option<Vec<super::line::Line>> {
        if let Some(lines) = self.starts(starts, room) {
            return Some(lines);
        }
        let mut lines = vec![];
        for (&v, &most) in starts.iter().zip(room) {
            let index = self.value(v, None)?[0];
            let (_, at) = self.clamped(index, most).and_then(|at| self.bits(at))?;
            lines.push(super::line::Line { base: at.cast_signed(), step: 0 });
        }
        Some(lines)
    }

    fn sliced(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let (&from, starts) = self.cx.module.op(op).operands().split_first()?;
        let (dims, sizes) = (self.dims(from), self.dims(value));
        let room: Vec<i64> = dims.iter().zip(sizes).map(|(n, size)| n - size).collect();
        if let Some(table) = self.tables.get(&from).cloned() {
            return if lane.is_none() { self.looked_up(op, value, &table) } else { None };
        }
        let lines = self.present_starts(starts, &room);
        if !is_outside(self.cx.module, from, self.turns.op) {
            let lines = lines?;
            // Of what a turn computes, always the same part.
            if lines.iter().any(|l| l.step != 0) || lane.is_some_and(|d| room[d] != 0) {
                return None;
            }
            let elements = self.value(from, lane)?;
            let source = View::dense(Buf(0), ElementType::UI8, &self.rest(from, lane));
            let start: i64 = lines.iter().zip(&source.strides).map(|(l, s)| l.base * s).sum();
            let shape = self.rest(value, lane);
            return Some(offsets(&shape, &source.strides, start).into_iter().map(|i| elements[i as usize]).collect());
        }
        let mut view = self.cx.view(from).cloned()?;
        let Some(lines) = lines else {
            return if lane.is_none() { self.looked_up(op, value, &view) } else { None };
        };
        view.offset += lines.iter().zip(&view.strides).map(|(l, s)| l.base * s).sum::<i64>();
        view.dims = sizes.to_vec();
        let turning: Vec<i64> = lines.iter().zip(&view.strides).map(|(l, s)| l.step * s).collect();
        self.loads(&view, &turning, lane)
    }

    /// Whether the lanes of what `op` reduces are among what it combines.
    fn mixes_lanes(&self, op: OpId) -> bool {
        let from = self.cx.module.op(op).operands()[0];
        self.lane_of(self.dims(from)).is_some_and(|lane| fuse::reduced_dims(self.cx.module, op).contains(&lane))
    }

    /// The reduction `op` of lanes, and of other dimensions before: each lane combines its own elements first.
    fn combined(&mut self, op: OpId) -> Option<Vec<Element>> {
        let module = self.cx.module;
        let combine = fuse::reduce_kind(module, op)?;
        let &[from, init] = module.op(op).operands() else { return None };
        let lane = self.lane_of(self.dims(from));
        let (elements, first) = (self.value(from, lane)?, self.value(init, None)?[0]);
        let reduced = fuse::reduced_dims(module, op);
        let shape = self.rest(from, lane);
        let strides = View::dense(Buf(0), ElementType::UI8, &shape).strides;
        let kept: Vec<usize> = (0..shape.len()).filter(|d| !reduced.contains(d)).collect();
        let pick = |list: &[i64], dims: &[usize]| -> Vec<i64> { dims.iter().map(|&d| list[d]).collect() };
        let inner = offsets(&pick(&shape, &reduced), &pick(&strides, &reduced), 0);
        self.spend(elements.len() as u64);
        let mut out = vec![];
        for start in offsets(&pick(&shape, &kept), &pick(&strides, &kept), 0) {
            let terms = inner.iter().map(|i| elements[(start + i) as usize]).collect();
            let own = self.folded(combine.into(), terms)?;
            let sum = self.code.reduce(combine, own);
            let is_plain = self.is_neutral(combine, first);
            out.push(if is_plain { sum } else { self.code.binary(combine.into(), first, sum) });
        }
        Some(out)
    }

    /// A small array with a part replaced, always the same one.
    fn updated(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let &[into, update, ref starts @ ..] = self.cx.module.op(op).operands() else { return None };
        let sizes = self.dims(update);
        let room: Vec<i64> = self.dims(into).iter().zip(sizes).map(|(n, size)| n - size).collect();
        let lines = self.present_starts(starts, &room)?;
        if lines.iter().any(|l| l.step != 0) || lane.is_some_and(|d| room[d] != 0) {
            return None;
        }
        let mut elements = self.value(into, lane)?.to_vec();
        let new = self.value(update, lane)?;
        let target = View::dense(Buf(0), ElementType::UI8, &self.rest(value, lane));
        let start: i64 = lines.iter().zip(&target.strides).map(|(l, s)| l.base * s).sum();
        let shape = self.rest(update, lane);
        for (to, &e) in offsets(&shape, &target.strides, start).into_iter().zip(new.iter()) {
            elements[to as usize] = e;
        }
        Some(elements)
    }

    /// What each branch gives, and a selection.
    fn choice(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let module = self.cx.module;
        let data = module.op(op);
        let number = data.results().iter().position(|&r| r == value)?;
        let index = *data.operands().first()?;
        let count = data.regions().len();
        let known = match self.elem(index)? {
            ElementType::I1 => self.turns.truth(index).map(|yes| usize::from(!yes)),
            _ => self.turns.line(index).filter(|l| l.step == 0).map(|l| usize::try_from(l.base).unwrap_or(count - 1)),
        };
        let branch = |b: usize| module.returned(module.body_of(op, b)?).get(number).copied();
        if let Some(b) = known {
            return Some(self.value(branch(b.min(count - 1))?, lane)?.to_vec());
        }
        let index_is = self.value(index, None)?[0];
        let mut out = self.value(branch(count - 1)?, lane)?.to_vec();
        for b in (0..count - 1).rev() {
            let chosen = match self.code.ty(index_is) {
                Ty::Pred => index_is,
                ty => self.code.compare(Cmp::Eq, index_is, Element::Const(ty, b as u64)),
            };
            let elements = self.value(branch(b)?, lane)?;
            out = out.iter().zip(elements.iter()).map(|(&e, &own)| self.code.select(chosen, own, e)).collect();
        }
        Some(out)
    }

    /// All results of a loop inside, turn after turn.
    fn unrolled(&mut self, op: OpId) -> Option<()> {
        let module = self.cx.module;
        let trips = trip_count(module, op).filter(|&n| n <= MOST_UNROLLED)?;
        let (data, body) = (module.op(op), module.body_of(op, 1)?);
        let args = module.block(body).args();
        let lanes: Vec<Option<usize>> = args.iter().map(|&a| self.lane_of(self.dims(a))).collect();
        let mut carries: Vec<Elements> = vec![];
        for (&v, &lane) in data.operands().iter().zip(&lanes) {
            carries.push(self.value(v, lane)?);
        }
        for _ in 0..trips {
            let before = self.trail.len();
            for ((&arg, &lane), elements) in args.iter().zip(&lanes).zip(&carries) {
                self.know((arg, lane), elements.clone());
            }
            let mut next = vec![];
            for (&v, &lane) in module.returned(body).iter().zip(&lanes) {
                next.push(self.value(v, lane)?);
            }
            carries = next;
            // What this turn made is not what the next one makes.
            for question in self.trail.drain(before..) {
                self.known.remove(&question);
            }
        }
        for ((&result, &lane), elements) in data.results().iter().zip(&lanes).zip(carries) {
            self.know((result, lane), elements);
        }
        Some(())
    }
}

impl<'m> Expand<'m> for Expansion<'_, 'm> {
    type Code = Code;

    fn module(&self) -> &'m Module {
        self.cx.module
    }

    fn code(&mut self) -> &mut Code {
        &mut self.code
    }

    fn lanes(&self) -> i64 {
        self.lanes
    }

    fn most(&self) -> usize {
        self.most
    }

    fn spend(&mut self, additions: u64) {
        self.code.cost += additions;
    }

    fn constant(&self, ty: Ty, bits: u64) -> Element {
        Element::Const(ty, bits)
    }

    fn bits(&self, element: Element) -> Option<(Ty, u64)> {
        if let Element::Const(ty, bits) = element { Some((ty, bits)) } else { None }
    }

    fn value(&mut self, value: ValueId, lane: Option<usize>) -> Option<Elements> {
        let question = (value, lane);
        if let Some(known) = self.known.get(&question) {
            return Some(known.clone());
        }
        let count = self.rest(value, lane).iter().product::<i64>();
        self.elements += usize::try_from(count).ok()?;
        if self.elements > 4 * self.most || self.code.len() > self.most {
            return None;
        }
        let elements = Rc::new(self.new_value(value, lane)?);
        debug_assert_eq!(elements.len() as i64, count);
        self.know(question, elements.clone());
        Some(elements)
    }
}
