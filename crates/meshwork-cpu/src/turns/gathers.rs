//! Gathers from arrays that no turn changes, and from tables, at places that a turn computes: each lane loads from a place of its own.

use meshwork_ir::{Attr, ElementType, Module, OpId, ValueId};

use super::code::{Element, Place};
use super::elements::Expansion;
use super::expand::{Expand, offsets};
use super::limit::is_outside;
use crate::fuse::Arithmetic;
use crate::kernel::ir::{BinaryOp, Ty};
use crate::step::{Buf, View};

/// Whether the gather `op` in the loop `of` reads what is made outside of it, or a carry, which may be a table.
pub(super) fn is_in_memory(module: &Module, op: OpId, of: OpId) -> bool {
    let carries = module.body_of(of, 1).map_or(&[][..], |body| module.block(body).args());
    module.op(op).operands().first().is_some_and(|from| is_outside(module, *from, of) || carries.contains(from))
}

impl Expansion<'_, '_> {
    /// The elements of the gather `op`.
    pub(super) fn gathered(&mut self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<Vec<Element>> {
        let module = self.cx.module;
        let data = module.op(op);
        let (&[from, indices], Some(Attr::Gather(numbers))) = (data.operands(), data.attr("dimension_numbers")) else {
            return None;
        };
        let sizes = data.i64s("slice_sizes")?;
        let table = self.tables.get(&from).filter(|_| lane.is_none()).cloned();
        let view = match &table {
            Some(view) => view.clone(),
            None if is_outside(module, from, self.turns.op) => self.cx.view(from).cloned()?,
            None => return None,
        };
        // Vectors load numbers of 4 and 8 bytes.
        if !self.has_places(&view) || (lane.is_some() && view.elem.storage_bytes() < 4) {
            return None;
        }
        let is_offset = |d: &usize| numbers.offset_dims.contains(&(*d as i64));
        let batch: Vec<usize> = (0..self.dims(value).len()).filter(|d| !is_offset(d)).collect();
        let vector = numbers.index_vector_dim as usize;
        let walked: Vec<usize> = (0..self.dims(indices).len()).filter(|&d| d != vector).collect();
        let own = match lane {
            Some(d) => Some(walked[batch.iter().position(|&b| b == d)?]),
            None => None,
        };
        let index = self.value(indices, own)?;
        let shape = self.rest(indices, own);
        let strides = View::dense(Buf(0), ElementType::UI8, &shape).strides;
        let pick = |list: &[i64], dims: &[usize]| -> Vec<i64> { dims.iter().map(|&d| list[d]).collect() };
        let vectors = offsets(&pick(&shape, &walked), &pick(&strides, &walked), 0);
        let component = strides.get(vector).copied().unwrap_or(0);
        let dropped = |d: i64| numbers.collapsed_slice_dims.contains(&d) || numbers.operand_batching_dims.contains(&d);
        let kept: Vec<usize> = (0..view.dims.len()).filter(|&d| !dropped(d as i64)).collect();
        let window = offsets(&pick(&sizes, &kept), &pick(&view.strides, &kept), view.offset);
        self.spend((vectors.len() * window.len()) as u64 * 4);
        if table.is_none() && !self.reads.contains(&view.buf) {
            self.reads.push(view.buf);
        }
        let mut loaded = vec![];
        for &first in &vectors {
            let mut at: Option<Element> = None;
            let mut ahead = 0;
            for (c, &d) in numbers.start_index_map.iter().enumerate() {
                let d = d as usize;
                let inside = self.clamped(index[(first + c as i64 * component) as usize], view.dims[d] - sizes[d])?;
                let bytes = self.scaled(inside, view.strides[d]);
                at = Some(self.further(at, bytes));
            }
            let pairs = numbers.operand_batching_dims.iter().zip(&numbers.start_indices_batching_dims);
            for (&d, &i) in pairs {
                let stride = view.strides[d as usize];
                if own == Some(i as usize) {
                    let position = self.code.position(Ty::I32, [0, 0, 1])?;
                    let bytes = self.scaled(position, stride);
                    at = Some(self.further(at, bytes));
                } else {
                    ahead += first / strides[i as usize] % shape[i as usize] * stride;
                }
            }
            for &place in &window {
                let place = Place::Buf { buf: view.buf, offset: place + ahead, per_lane: 0, per_turn: 0 };
                loaded.push(match at {
                    Some(at) => self.code.load_at(place, view.elem, at)?,
                    None => self.code.load(place, view.elem, false)?,
                });
            }
        }
        // Where each element of the result is among those that were loaded, vector by vector.
        let per_vector = window.len() as i64;
        let of_vectors = View::dense(Buf(0), ElementType::UI8, &pick(&shape, &walked)).strides;
        let of_window = View::dense(Buf(0), ElementType::UI8, &pick(&sizes, &kept)).strides;
        let mut order = vec![0; self.dims(value).len()];
        batch.iter().zip(of_vectors).for_each(|(&d, stride)| order[d] = stride * per_vector);
        numbers.offset_dims.iter().zip(of_window).for_each(|(&d, stride)| order[d as usize] = stride);
        Some(offsets(&self.rest(value, lane), &order, 0).into_iter().map(|i| loaded[i as usize]).collect())
    }

    fn further(&mut self, at: Option<Element>, bytes: Element) -> Element {
        at.map_or(bytes, |at| self.code.binary(BinaryOp::Add, at, bytes))
    }
}
