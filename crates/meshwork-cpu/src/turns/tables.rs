//! Arrays that a turn reads or writes at places that are data: a table, a histogram, a queue.
//!
//! A slice of what never changes is loaded at its place. A carry that the body only slices or gathers from, and writes element by element, stays
//! in the memory of the result: all reads of a turn come before its writes, so each of them sees the carry as it was when
//! the turn began. An update that something reads again in the same turn makes the loop an ordinary one.

use meshwork_ir::op::{BodyOp, MovementOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, ValueId};

use super::code::{Element, Place};
use super::elements::Expansion;
use super::expand::{Expand, offsets, rest};
use crate::fuse::{self, Arithmetic};
use crate::kernel::ir::{BinaryOp, Cmp, Ty};
use crate::step::{Buf, View};

/// Updates of a carry in a turn.
const MOST_UPDATES: usize = 8;

/// The updates that make carry `i` of the body what it is in the next turn, in order, if it is a table.
pub(super) fn updates(e: &Expansion<'_, '_>, i: usize) -> Option<Vec<OpId>> {
    let (module, turns) = (e.cx.module, e.turns);
    let (argument, next) = (module.block(turns.body).args()[i], module.returned(turns.body)[i]);
    if e.lane_of(module.ty(argument).dims()).is_some() || e.cx.module.ty(argument).as_tensor().is_none() {
        return None;
    }
    let mut list = vec![];
    let mut at = next;
    while at != argument {
        let op = module.def_op(at).filter(|_| module.value(at).uses().len() == 1)?;
        let data = module.op(op);
        let fits = match data.kind() {
            OpKind::Movement(MovementOp::DynamicUpdateSlice) => true,
            OpKind::Body(BodyOp::Scatter) => fuse::scatter_parts(module, op).is_some(),
            _ => false,
        };
        if !fits || list.len() == MOST_UPDATES || data.parent() != Some(turns.body) {
            return None;
        }
        list.push(op);
        at = data.operands()[0];
    }
    list.reverse();
    let first = *list.first()?;
    let reads_part = |op: OpId, operand: usize| {
        let kind = module.op(op).kind();
        operand == 0 && matches!(kind, OpKind::Movement(MovementOp::DynamicSlice | MovementOp::Gather))
    };
    let uses = module.value(argument).uses();
    let plain = uses.iter().all(|u| (u.op == first && u.operand == 0) || reads_part(u.op, u.operand as usize));
    // What is always at the same place is as good in registers.
    let moves = |&op: &OpId| places(module, op).iter().any(|&v| turns.line(v).is_none_or(|l| l.step != 0));
    let slices = uses.iter().map(|u| u.op).filter(|&op| op != first);
    (plain && list.iter().copied().chain(slices).any(|op| moves(&op))).then_some(list)
}

/// The numbers that say where `op` slices, updates or scatters.
fn places(module: &Module, op: OpId) -> &[ValueId] {
    let data = module.op(op);
    match data.kind() {
        OpKind::Movement(MovementOp::DynamicSlice) => &data.operands()[1..],
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => &data.operands()[2..],
        _ => &data.operands()[1..2],
    }
}

impl Expansion<'_, '_> {
    /// The slice `op` of `view` at a place that is data, without lanes.
    pub(super) fn looked_up(&mut self, op: OpId, value: ValueId, view: &View) -> Option<Vec<Element>> {
        let starts = places(self.cx.module, op).to_vec();
        let sizes = self.cx.module.ty(value).dims();
        let at = self.place(&starts, sizes, view)?;
        if !self.reads.contains(&view.buf) && !self.is_table(view) {
            self.reads.push(view.buf);
        }
        let offsets = offsets(&rest(sizes, None), &view.strides, view.offset);
        let load = |offset: i64| {
            let place = Place::Buf { buf: view.buf, offset, per_lane: 0, per_turn: 0 };
            self.code.load_at(place, view.elem, at)
        };
        offsets.into_iter().map(load).collect()
    }

    fn is_table(&self, view: &View) -> bool {
        self.tables.values().any(|t| t.buf == view.buf)
    }

    /// Whether elements of `view` can be at places that are data.
    pub(super) fn has_places(&self, view: &View) -> bool {
        let plain = Ty::of(view.elem).is_some_and(|ty| ty != Ty::Pred && ty.elem() == view.elem);
        plain && self.cx.bufs[view.buf.0 as usize].bytes <= i32::MAX as usize && view.strides.iter().all(|&s| s >= 0)
    }

    /// Bytes from the start of `view` to the part of `sizes` elements that begins at `starts`, or as near as it fits.
    fn place(&mut self, starts: &[ValueId], sizes: &[i64], view: &View) -> Option<Element> {
        if !self.has_places(view) {
            return None;
        }
        let mut sum: Option<Element> = None;
        for (d, &start) in starts.iter().enumerate() {
            let room = view.dims[d] - sizes[d];
            if room == 0 {
                continue;
            }
            let index = self.value(start, None)?[0];
            let inside = self.clamped(index, room)?;
            let bytes = self.scaled(inside, view.strides[d]);
            sum = Some(sum.map_or(bytes, |sum| self.code.binary(BinaryOp::Add, sum, bytes)));
        }
        Some(sum.unwrap_or(Element::Const(Ty::I32, 0)))
    }

    /// Writes the update `op` of the table `view` at the end of each turn.
    pub(super) fn update_table(&mut self, op: OpId, view: &View) -> Option<()> {
        match self.cx.module.op(op).kind() {
            OpKind::Body(_) => self.scatter_table(op, view),
            _ => {
                let update = self.cx.module.op(op).operands()[1];
                let starts = places(self.cx.module, op).to_vec();
                let sizes = self.cx.module.ty(update).dims();
                let at = self.place(&starts, sizes, view)?;
                let elements = self.value(update, None)?;
                for (offset, &element) in offsets(sizes, &view.strides, view.offset).into_iter().zip(elements.iter()) {
                    let place = Place::Buf { buf: view.buf, offset, per_lane: 0, per_turn: 0 };
                    self.code.store_at(place, view.elem, at, element);
                }
                Some(())
            }
        }
    }

    /// A small array with one window scattered into it, always the same one.
    pub(super) fn scattered(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let module = self.cx.module;
        let parts = fuse::scatter_parts(module, op)?;
        let &[into, indices, update] = module.op(op).operands() else { return None };
        let dims = self.dims(into);
        let index = self.value(indices, None)?;
        let mut starts = vec![0; dims.len()];
        for (&d, &index) in parts.places.iter().zip(index.iter()) {
            let room = dims[d] - parts.extent[d];
            let (ty, bits) = self.bits(index).filter(|(ty, _)| ty.is_signed() && !ty.is_float())?;
            let unused = 64 - 8 * ty.size() as u32;
            starts[d] = (bits << unused).cast_signed() >> unused;
            if !(0..=room).contains(&starts[d]) {
                return None;
            }
        }
        let own = match lane {
            Some(d) if parts.extent[d] == dims[d] => Some(parts.window.iter().position(|&w| w == d)?),
            Some(_) => return None,
            None => None,
        };
        let mut elements = self.value(into, lane)?.to_vec();
        let new = self.value(update, own)?;
        let target = View::dense(Buf(0), ElementType::UI8, &self.rest(value, lane));
        let start: i64 = starts.iter().zip(&target.strides).map(|(at, s)| at * s).sum();
        let strides: Vec<i64> = parts.window.iter().map(|&d| target.strides[d]).collect();
        for (to, &new) in offsets(&self.rest(update, own), &strides, start).into_iter().zip(new.iter()) {
            let old = elements[to as usize];
            elements[to as usize] = match parts.combine {
                None => new,
                Some(OpKind::Binary(f)) => self.code.binary(fuse::on(f, self.code.ty(old)), old, new),
                Some(_) => return None,
            };
        }
        self.spend(new.len() as u64);
        Some(elements)
    }

    /// A scatter of one update, which leaves everything as it is if it does not fit.
    fn scatter_table(&mut self, op: OpId, view: &View) -> Option<()> {
        let module = self.cx.module;
        let parts = fuse::scatter_parts(module, op)?;
        let &[_, indices, update] = module.op(op).operands() else { return None };
        if !self.has_places(view) {
            return None;
        }
        let index = self.value(indices, None)?;
        let mut at: Option<Element> = None;
        let mut fits: Option<Element> = None;
        for (&d, &index) in parts.places.iter().zip(index.iter()) {
            let room = view.dims[d] - parts.extent[d];
            let ty = self.code.ty(index);
            if room < 0 || ty.is_float() || ty == Ty::U64 {
                return None;
            }
            let inside = self.clamped(index, room)?;
            // It is what it was if it fitted.
            let back = self.code.convert(ty, inside);
            let same = self.code.compare(Cmp::Eq, back, index);
            fits = Some(fits.map_or(same, |before| self.code.binary(BinaryOp::And, before, same)));
            let bytes = self.scaled(inside, view.strides[d]);
            at = Some(at.map_or(bytes, |at| self.code.binary(BinaryOp::Add, at, bytes)));
        }
        let (elements, fits, at) = (self.value(update, None)?, fits?, at?);
        // The elements of the window, in the order of the update's.
        let strides: Vec<i64> = parts.window.iter().map(|&d| view.strides[d]).collect();
        let offsets = offsets(module.ty(update).dims(), &strides, view.offset);
        for (offset, &new) in offsets.into_iter().zip(elements.iter()) {
            let place = Place::Buf { buf: view.buf, offset, per_lane: 0, per_turn: 0 };
            let old = self.code.load_at(place, view.elem, at)?;
            let new = match parts.combine {
                None => new,
                Some(OpKind::Binary(f)) => self.code.binary(f, old, new),
                Some(_) => return None,
            };
            let kept = self.code.select(fits, new, old);
            self.code.store_at(place, view.elem, at, kept);
        }
        Some(())
    }
}

/// Whether `op` is a gather or scatter of one window.
pub(super) fn is_one_scatter(module: &Module, op: OpId) -> bool {
    matches!(module.op(op).attr("scatter_dimension_numbers"), Some(Attr::Scatter(_)))
        && fuse::scatter_parts(module, op).is_some()
}
