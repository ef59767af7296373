//! Places that are data: slices, gathers, updates and scatters.

use std::rc::Rc;

use meshwork_ir::op::{BodyOp, ControlOp, MovementOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};

use super::super::expand::{Expand, offsets};
use super::code::Number;
use super::machine::{MOST_NUMBERS, Machine};
use crate::compile::constant;
use crate::fuse::{self, Arithmetic};
use crate::kernel::ir::{BinaryOp, Cmp, Ty};
use crate::step::{Buf, View};

/// Elements of a small array of numbers, one of which is picked by comparing its place with all.
const MOST_PICKED: i64 = 16;

/// Whether something reads or writes `value` at a place that is data, as far as it stays where it is.
pub(super) fn is_moving(module: &Module, value: ValueId) -> bool {
    module.value(value).uses().iter().any(|u| {
        let data = module.op(u.op);
        let varies = |list: &[ValueId]| list.iter().any(|&v| constant(module, v).is_none());
        match (data.kind(), u.operand) {
            (OpKind::Movement(MovementOp::DynamicSlice), 0) => varies(&data.operands()[1..]),
            (OpKind::Movement(MovementOp::DynamicUpdateSlice), 0) => {
                varies(&data.operands()[2..]) || is_moving(module, data.results()[0])
            }
            (OpKind::Movement(MovementOp::Gather) | OpKind::Body(BodyOp::Scatter), 0) => true,
            (OpKind::Movement(MovementOp::Reshape), _) => is_moving(module, data.results()[0]),
            (OpKind::Control(ControlOp::While), i) => {
                let arg = |region| module.body_of(u.op, region).map(|b| module.block(b).args()[i as usize]);
                [arg(0), arg(1)].into_iter().flatten().any(|arg| is_moving(module, arg))
            }
            _ => false,
        }
    })
}

/// What follows the place of a window: bytes from the start of an array, and whether the window is inside.
struct At {
    bytes: Number,
    inside: Option<Number>,
}

impl Machine<'_, '_> {
    /// Whether elements of `view` can be at places that are data.
    fn has_places(&self, view: &View) -> bool {
        let bytes = self.cx.bufs[view.buf.0 as usize].bytes;
        bytes <= i32::MAX as usize && view.strides.iter().all(|&s| s >= 0)
    }

    /// Where the window of `sizes` elements is that begins at `starts`, or as near as it fits.
    fn place(&mut self, starts: &[Number], sizes: &[i64], view: &View) -> Option<Number> {
        let mut sum = Number::Const(Ty::I32, 0);
        for (d, &start) in starts.iter().enumerate() {
            let room = view.dims[d] - sizes[d];
            if room == 0 || view.strides[d] == 0 {
                continue;
            }
            let inside = self.clamped(start, room)?;
            let bytes = self.scaled(inside, view.strides[d]);
            sum = self.sum(sum, bytes);
        }
        Some(sum)
    }

    fn sum(&mut self, a: Number, b: Number) -> Number {
        match (self.bits(a), self.bits(b)) {
            (Some((_, 0)), _) => b,
            (_, Some((_, 0))) => a,
            (Some((_, x)), Some((_, y))) => Number::Const(Ty::I32, x + y),
            _ => self.code.binary(BinaryOp::Add, a, b),
        }
    }

    fn firsts(&mut self, values: &[ValueId]) -> Option<Vec<Number>> {
        values.iter().map(|&v| Some(self.value(v, None)?[0])).collect()
    }

    /// The elements of a window of `view` that starts `at` bytes after the first.
    fn window(&mut self, view: &View, sizes: &[i64], at: Number) -> Option<Vec<Number>> {
        self.read(view.buf);
        let load = |further: i64| {
            let at = self.sum(at, Number::Const(Ty::I32, further as u64));
            self.code.load((view.buf, view.offset), view.elem, at)
        };
        offsets(sizes, &view.strides, 0).into_iter().map(load).collect()
    }

    pub fn sliced(&mut self, op: OpId, value: ValueId) -> Option<Vec<Number>> {
        let (&from, starts) = self.cx.module.op(op).operands().split_first()?;
        let sizes = self.dims(value).to_vec();
        self.make(from)?;
        let starts = self.firsts(starts)?;
        if let Some(view) = self.memory(from) {
            if !self.has_places(&view) {
                return None;
            }
            let at = self.place(&starts, &sizes, &view)?;
            return self.window(&view, &sizes, at);
        }
        let numbers = self.value(from, None)?;
        let dense = View::dense(Buf(0), meshwork_ir::ElementType::UI8, self.dims(from));
        let at = self.place(&starts, &sizes, &dense)?;
        self.picked(&numbers, &dense, &sizes, at)
    }

    /// The elements of a window of an array of numbers, by comparing its place with all it can have.
    fn picked(&mut self, numbers: &[Number], dense: &View, sizes: &[i64], at: Number) -> Option<Vec<Number>> {
        let window = offsets(sizes, &dense.strides, 0);
        if let Some((_, at)) = self.bits(at) {
            return Some(window.iter().map(|o| numbers[*o as usize + at as usize]).collect());
        }
        let room: Vec<i64> = dense.dims.iter().zip(sizes).map(|(n, s)| n - s + 1).collect();
        let places = offsets(&room, &dense.strides, 0);
        if (places.len() * window.len()) as i64 > MOST_PICKED * 2 {
            return None;
        }
        let (&last, others) = places.split_last()?;
        let mut out: Vec<Number> = window.iter().map(|o| numbers[(o + last) as usize]).collect();
        for &place in others {
            let here = self.code.compare(Cmp::Eq, at, Number::Const(Ty::I32, place as u64));
            for (number, o) in out.iter_mut().zip(&window) {
                *number = self.code.select(here, numbers[(o + place) as usize], *number);
            }
        }
        Some(out)
    }

    /// A small array of numbers with a part replaced; of a table, see [`overwritten`](Machine::overwritten).
    pub fn updated(&mut self, op: OpId, value: ValueId) -> Option<Vec<Number>> {
        let &[into, update, ref starts @ ..] = self.cx.module.op(op).operands() else { return None };
        self.make(into)?;
        if self.is_held(into) {
            self.overwritten(op, into)?;
            let view = self.memory(value)?;
            let dims = view.dims.clone();
            return self.window(&view, &dims, Number::Const(Ty::I32, 0));
        }
        let (mut numbers, new) = (self.value(into, None)?.to_vec(), self.value(update, None)?);
        let (sizes, starts) = (self.dims(update), self.firsts(starts)?);
        let dense = View::dense(Buf(0), meshwork_ir::ElementType::UI8, self.dims(value));
        let at = self.place(&starts, sizes, &dense)?;
        let window = offsets(sizes, &dense.strides, 0);
        if let Some((_, at)) = self.bits(at) {
            window.iter().zip(new.iter()).for_each(|(o, &n)| numbers[*o as usize + at as usize] = n);
            return Some(numbers);
        }
        let room: Vec<i64> = dense.dims.iter().zip(sizes).map(|(n, s)| n - s + 1).collect();
        let places = offsets(&room, &dense.strides, 0);
        if (places.len() * window.len()) as i64 > MOST_PICKED * 2 {
            return None;
        }
        for place in places {
            let here = self.code.compare(Cmp::Eq, at, Number::Const(Ty::I32, place as u64));
            for (o, &n) in window.iter().zip(new.iter()) {
                let old = &mut numbers[(o + place) as usize];
                *old = self.code.select(here, n, *old);
            }
        }
        Some(numbers)
    }

    /// A gather of a few windows.
    pub fn gathered(&mut self, op: OpId, value: ValueId) -> Option<Vec<Number>> {
        let module = self.cx.module;
        let data = module.op(op);
        let (&[from, indices], Some(Attr::Gather(numbers))) = (data.operands(), data.attr("dimension_numbers")) else {
            return None;
        };
        if !numbers.operand_batching_dims.is_empty() {
            return None;
        }
        let sizes = data.i64s("slice_sizes")?;
        self.make(from)?;
        let index = self.value(indices, None)?;
        let memory = self.memory(from);
        let list = if memory.is_none() { Some(self.value(from, None)?) } else { None };
        let view = match memory {
            Some(view) if self.has_places(&view) => view,
            Some(_) => return None,
            None => View::dense(Buf(0), meshwork_ir::ElementType::UI8, self.dims(from)),
        };
        let shape = self.dims(indices);
        let along = numbers.index_vector_dim as usize;
        let strides = View::dense(Buf(0), meshwork_ir::ElementType::UI8, shape).strides;
        let parts = if along < shape.len() { shape[along] } else { 1 };
        let step = if along < shape.len() { strides[along] } else { 0 };
        let batch: Vec<usize> = (0..shape.len()).filter(|&d| d != along).collect();
        let of = |list: &[i64]| batch.iter().map(|&d| list[d]).collect::<Vec<i64>>();
        let kept: Vec<usize> =
            (0..sizes.len()).filter(|&d| !numbers.collapsed_slice_dims.contains(&(d as i64))).collect();
        // Results in the order of batches, then of elements of the window.
        let mut all = vec![];
        for first in offsets(&of(shape), &of(&strides), 0) {
            let mut starts = vec![Number::Const(Ty::I32, 0); sizes.len()];
            for (part, &d) in (0..parts).zip(&numbers.start_index_map) {
                starts[d as usize] = index[(first + part * step) as usize];
            }
            let at = self.place(&starts, &sizes, &view)?;
            all.extend(match &list {
                Some(list) => self.picked(list, &view, &sizes, at)?,
                None => self.window(&view, &sizes, at)?,
            });
        }
        // From there to the order of the result's dimensions.
        let out = self.dims(value);
        let window: i64 = kept.iter().map(|&d| sizes[d]).product();
        let (mut windows, mut batches) = (vec![0; out.len()], vec![0; out.len()]);
        let (mut inner, mut outer) = (1, window);
        for d in (0..out.len()).rev() {
            if numbers.offset_dims.contains(&(d as i64)) {
                windows[d] = inner;
                inner *= out[d];
            } else {
                batches[d] = outer;
                outer *= out[d];
            }
        }
        let places: Vec<i64> = windows.iter().zip(&batches).map(|(w, b)| w + b).collect();
        Some(offsets(out, &places, 0).into_iter().map(|i| all[i as usize]).collect())
    }

    /// A scatter of one window into a small array of numbers.
    pub fn scattered(&mut self, op: OpId, value: ValueId) -> Option<Vec<Number>> {
        let into = *self.cx.module.op(op).operands().first()?;
        self.make(into)?;
        if !self.is_held(into) {
            let count = self.dims(into).iter().product::<i64>();
            if count > MOST_PICKED {
                return None;
            }
            return self.scattered_numbers(op, value);
        }
        self.overwritten(op, into)?;
        let view = self.memory(value)?;
        let dims = view.dims.clone();
        if view.len() as i64 > MOST_NUMBERS {
            return None;
        }
        self.window(&view, &dims, Number::Const(Ty::I32, 0))
    }

    fn scattered_numbers(&mut self, op: OpId, value: ValueId) -> Option<Vec<Number>> {
        let module = self.cx.module;
        let &[into, indices, update] = module.op(op).operands() else { return None };
        let parts = fuse::scatter_parts(module, op)?;
        let dense = View::dense(Buf(0), meshwork_ir::ElementType::UI8, self.dims(value));
        let At { bytes, inside } = self.scatter_place(op, indices, &dense)?;
        let (mut numbers, new) = (self.value(into, None)?.to_vec(), self.value(update, None)?);
        let strides: Vec<i64> = parts.window.iter().map(|&d| dense.strides[d]).collect();
        let window = offsets(self.dims(update), &strides, 0);
        let room: Vec<i64> = dense.dims.iter().zip(&parts.extent).map(|(n, s)| n - s + 1).collect();
        for place in offsets(&room, &dense.strides, 0) {
            let mut here = self.code.compare(Cmp::Eq, bytes, Number::Const(Ty::I32, place as u64));
            if let Some(inside) = inside {
                here = self.code.binary(BinaryOp::And, here, inside);
            }
            for (o, &n) in window.iter().zip(new.iter()) {
                let old = numbers[(o + place) as usize];
                let n = self.combined(parts.combine, old, n)?;
                numbers[(o + place) as usize] = self.code.select(here, n, old);
            }
        }
        Some(numbers)
    }

    fn combined(&mut self, combine: Option<OpKind>, old: Number, new: Number) -> Option<Number> {
        match combine {
            None => Some(new),
            Some(OpKind::Binary(f)) => {
                let f = fuse::on(f, self.code.ty(old));
                Some(self.code.binary(f, old, new))
            }
            Some(_) => None,
        }
    }

    /// The place of a scatter of one window, all of which is left out if it is not inside.
    fn scatter_place(&mut self, op: OpId, indices: ValueId, view: &View) -> Option<At> {
        let parts = fuse::scatter_parts(self.cx.module, op)?;
        let index = self.value(indices, None)?;
        let mut at = At { bytes: Number::Const(Ty::I32, 0), inside: None };
        for (&d, &index) in parts.places.iter().zip(index.iter()) {
            let room = view.dims[d] - parts.extent[d];
            let ty = self.code.ty(index);
            // Windows of several elements are cut at the rim.
            if parts.extent[d] != 1 || room < 0 || ty.is_float() || ty == Ty::U64 {
                return None;
            }
            let clamped = self.clamped(index, room)?;
            if self.bits(index).is_none_or(|_| self.bits(clamped) != self.bits(index)) {
                // It is what it was if it was inside.
                let back = self.code.convert(ty, clamped);
                let same = self.code.compare(Cmp::Eq, back, index);
                at.inside = Some(match at.inside {
                    Some(before) => self.code.binary(BinaryOp::And, before, same),
                    None => same,
                });
            }
            let bytes = self.scaled(clamped, view.strides[d]);
            at.bytes = self.sum(at.bytes, bytes);
        }
        Some(at)
    }

    /// Writes the update or scatter `op` of the table that `into` is in.
    pub fn overwritten(&mut self, op: OpId, into: ValueId) -> Option<()> {
        let module = self.cx.module;
        let data = module.op(op);
        if !self.busy.insert(op) {
            return None;
        }
        let result = data.results()[0];
        let view = self.memory(into).filter(|view| self.has_places(view))?;
        let is_scatter = data.kind() == OpKind::Body(BodyOp::Scatter);
        let update = data.operands()[if is_scatter { 2 } else { 1 }];
        let new = self.value(update, None)?;
        let (at, window, combine) = if is_scatter {
            let parts = fuse::scatter_parts(module, op)?;
            let at = self.scatter_place(op, data.operands()[1], &view)?;
            let strides: Vec<i64> = parts.window.iter().map(|&d| view.strides[d]).collect();
            (at, offsets(self.dims(update), &strides, 0), parts.combine)
        } else {
            let (sizes, starts) = (self.dims(update), self.firsts(&data.operands()[2..])?);
            let bytes = self.place(&starts, sizes, &view)?;
            (At { bytes, inside: None }, offsets(sizes, &view.strides, 0), None)
        };
        // What else needs the array as it was reads it now.
        self.settle(into, op)?;
        let table = self.table(into)?;
        let mut stores = vec![];
        for (&further, &number) in window.iter().zip(new.iter()) {
            let place = self.sum(at.bytes, Number::Const(Ty::I32, further as u64));
            let number = match (combine, at.inside) {
                (None, None) => number,
                _ => {
                    let old = self.code.load((view.buf, view.offset), view.elem, place)?;
                    let number = self.combined(combine, old, number)?;
                    at.inside.map_or(number, |inside| self.code.select(inside, number, old))
                }
            };
            stores.push((place, number));
        }
        for (place, number) in stores {
            self.code.store((view.buf, view.offset), view.elem, place, number)?;
        }
        self.spend(window.len() as u64);
        self.change(table);
        self.hold(result, table);
        self.busy.remove(&op);
        Some(())
    }

    /// Reads what all users of `value` but `by` need of it, before it is overwritten.
    pub fn settle(&mut self, value: ValueId, by: OpId) -> Option<()> {
        let module = self.cx.module;
        let block = match module.value(value).def() {
            meshwork_ir::Def::Arg(block, _) => block,
            meshwork_ir::Def::Result(op, _) => module.op(op).parent()?,
        };
        let mut users: Vec<OpId> = vec![];
        for u in module.value(value).uses() {
            let mut at = u.op;
            while module.op(at).parent() != Some(block) {
                at = module.parent_op(at)?;
            }
            if !users.contains(&at) {
                users.push(at);
            }
        }
        for user in users {
            if user == by || module.is_inside(by, user) {
                continue;
            }
            if module.op(user).results().is_empty() {
                return None;
            }
            for &r in module.op(user).results() {
                if !module.value(r).uses().is_empty() {
                    self.value(r, None)?;
                }
            }
        }
        Some(())
    }

    /// A table of its own for `numbers`, which are written to it here.
    pub fn new_table(&mut self, like: ValueId, numbers: &Rc<Vec<Number>>) -> Option<usize> {
        let (elem, dims) = self.cx.shape(like);
        let view = View::dense(self.cx.buffer(elem, &dims), elem, &dims);
        for (offset, &number) in offsets(&dims, &view.strides, 0).into_iter().zip(numbers.iter()) {
            self.code.store((view.buf, 0), elem, Number::Const(Ty::I32, offset as u64), number)?;
        }
        self.versions += 1;
        self.tables.push(super::machine::Table { view, version: self.versions });
        Some(self.tables.len() - 1)
    }
}
