//! Updates at computed positions: sums, products, extremes, and replacement.
//!
//! Where several updates meet in one element, a sum gives each of them the cotangent, a replacement only the one
//! that stayed: which one that was is found by scattering the numbers of the updates the same way.

use meshwork_ir::attr::{GatherDims, ScatterDims};
use meshwork_ir::{Attr, ElementType, Type, ValueId};

use super::combiner::{Combiner, recognise};
use super::gather::{clamped, per_component};
use crate::GradError;
use crate::reverse::{Reverse, Site};

use meshwork_ir::build::Direction;

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let count = site.op.results().len();
    let Some(Attr::Scatter(dims)) = site.op.attr("scatter_dimension_numbers") else {
        return Err(GradError::no_rule(r.module(), site.id, "it has no dimension numbers"));
    };
    let indices = site.x(count);
    let body = r.module().body_of(site.id, 0);
    for index in 0..count {
        let Some(ct) = site.cts[index] else { continue };
        let (x, updates) = (site.x(index), site.x(count + 1 + index));
        let put = Put { x, indices, updates, dims };
        match body.and_then(|body| recognise(r.module(), body, index)) {
            Some(Combiner::Add) => {
                r.give(x, ct)?;
                if r.wants(updates) && !r.is_empty(updates) {
                    let given = put.read(r, ct)?;
                    r.give(updates, given)?;
                }
            }
            Some(Combiner::Replace) => replace(r, &put, ct, site)?,
            Some(Combiner::Multiply) => multiply(r, &put, ct)?,
            Some(Combiner::Maximum | Combiner::Minimum) => choose(r, &put, site.op.results()[index], ct)?,
            None => {
                let why = format!("result {index} is not a sum, product, maximum, minimum or replacement of elements");
                return Err(GradError::no_rule(r.module(), site.id, why));
            }
        }
    }
    Ok(())
}

fn replace(r: &mut Reverse<'_>, put: &Put<'_>, ct: ValueId, site: &Site) -> Result<(), GradError> {
    if r.is_empty(put.updates) {
        return Ok(r.give(put.x, ct)?);
    }
    if r.wants(put.x) {
        let zeros = r.zeros_like(put.updates)?;
        let given = r.scatter(&[ct], put.indices, &[zeros], put.dims.clone(), |_, a| Ok([a[1]]))?[0];
        r.give(put.x, given)?;
    }
    if r.wants(put.updates) {
        let read = put.read(r, ct)?;
        let given = if site.op.flag("unique_indices") { read } else { put.only_winners(r, read)? };
        r.give(put.updates, given)?;
    }
    Ok(())
}

/// The slope of an element is the product of its updates; that of an update is the product of the element and all other
/// updates. Zeros are counted separately, to avoid dividing by them.
fn multiply(r: &mut Reverse<'_>, put: &Put<'_>, ct: ValueId) -> Result<(), GradError> {
    let (dims, indices) = (put.dims.clone(), put.indices);
    if r.is_empty(put.updates) {
        return Ok(r.give(put.x, ct)?);
    }
    if r.wants(put.x) {
        let given = r.scatter(&[ct], indices, &[put.updates], dims.clone(), |b, a| Ok([b.multiply(a[0], a[1])?]))?[0];
        r.give(put.x, given)?;
    }
    if r.wants(put.updates) {
        let (zeros, ones) = (r.zeros_like(put.updates)?, r.splat_like(put.updates, 1.0)?);
        let is_zero = r.compare(Direction::Eq, put.updates, zeros)?;
        let others = r.select(is_zero, ones, put.updates)?;
        let count = r.select(is_zero, ones, zeros)?;
        let none = r.zeros_like(put.x)?;
        let count = r.scatter(&[none], indices, &[count], dims.clone(), |b, a| Ok([b.add(a[0], a[1])?]))?[0];
        let product = r.scatter(&[put.x], indices, &[others], dims, |b, a| Ok([b.multiply(a[0], a[1])?]))?[0];
        let product = r.multiply(product, ct)?;
        let (product, count) = (put.read(r, product)?, put.read(r, count)?);
        let own = r.select(is_zero, ones, zeros)?;
        let alone = r.compare(Direction::Eq, count, own)?;
        let given = r.divide(product, others)?;
        let given = r.select(alone, given, zeros)?;
        r.give(put.updates, given)?;
    }
    Ok(())
}

/// The element and the updates that equal the result share its cotangent evenly.
fn choose(r: &mut Reverse<'_>, put: &Put<'_>, out: ValueId, ct: ValueId) -> Result<(), GradError> {
    if r.is_empty(put.updates) {
        return Ok(r.give(put.x, ct)?);
    }
    let elem = r.elem(out);
    let own = r.compare(Direction::Eq, put.x, out)?;
    let own = r.convert(own, elem)?;
    let reached = put.read(r, out)?;
    let hits = r.compare(Direction::Eq, put.updates, reached)?;
    let hits = r.convert(hits, elem)?;
    let count = r.scatter(&[own], put.indices, &[hits], put.dims.clone(), |b, a| Ok([b.add(a[0], a[1])?]))?[0];
    let one = r.splat_like(count, 1.0)?;
    let count = r.maximum(count, one)?;
    let share = r.divide(ct, count)?;
    let given = r.multiply(share, own)?;
    r.give(put.x, given)?;
    let read = put.read(r, share)?;
    let given = r.multiply(read, hits)?;
    Ok(r.give(put.updates, given)?)
}

/// Where a scatter writes.
struct Put<'a> {
    x: ValueId,
    indices: ValueId,
    updates: ValueId,
    dims: &'a ScatterDims,
}

impl Put<'_> {
    /// Sizes of the windows in the operand.
    fn sizes(&self, r: &Reverse<'_>) -> Vec<i64> {
        let updates = r.dims(self.updates);
        let mut window = self.dims.update_window_dims.iter().map(|&d| updates[d as usize]);
        let dropped = |d: &i64| self.dims.inserted_window_dims.contains(d) || self.dims.input_batching_dims.contains(d);
        let one_or_next = |d| if dropped(&d) { 1 } else { window.next().unwrap_or(1) };
        (0..r.rank(self.x) as i64).map(one_or_next).collect()
    }

    /// For each element of the updates, the element of `from` (which has the shape of the operand) at its place;
    /// zero where that is out of bounds.
    fn read(&self, r: &mut Reverse<'_>, from: ValueId) -> Result<ValueId, GradError> {
        let sizes = self.sizes(r);
        let shape = r.dims(from);
        let mapped = &self.dims.scatter_dims_to_operand_dims;
        let indices = r.cast(self.indices, ElementType::I64)?;
        // Zero padding as wide as a window makes reads out of bounds give zero.
        let margin: Vec<i64> =
            (0..shape.len()).map(|d| if mapped.contains(&(d as i64)) { sizes[d] } else { 0 }).collect();
        let zero = r.zero_of(from)?;
        let framed = r.pad(from, zero, &margin, &margin, &vec![0; shape.len()])?;
        let low: Vec<i64> = mapped.iter().map(|&d| -sizes[d as usize]).collect();
        let high: Vec<i64> = mapped.iter().map(|&d| shape[d as usize]).collect();
        let vector_dim = self.dims.index_vector_dim;
        let held = clamped(r, indices, vector_dim, &low, &high)?;
        let shift: Vec<i64> = low.iter().map(|l| -l).collect();
        let shift = per_component(r, indices, vector_dim, &shift)?;
        let held = r.add(held, shift)?;
        let dims = GatherDims {
            offset_dims: self.dims.update_window_dims.clone(),
            collapsed_slice_dims: self.dims.inserted_window_dims.clone(),
            operand_batching_dims: self.dims.input_batching_dims.clone(),
            start_indices_batching_dims: self.dims.scatter_indices_batching_dims.clone(),
            start_index_map: mapped.clone(),
            index_vector_dim: vector_dim,
        };
        Ok(r.gather(framed, held, dims, &sizes)?)
    }

    /// `ct`, which has the shape of the updates, where an update was the one that stayed, else zero.
    fn only_winners(&self, r: &mut Reverse<'_>, ct: ValueId) -> Result<ValueId, GradError> {
        let dims = r.dims(self.updates);
        let count: i64 = dims.iter().product();
        let line = r.iota(Type::tensor([count], ElementType::I64), 0)?;
        let one = r.splat([count], ElementType::I64, 1.0)?;
        let line = r.add(line, one)?;
        let numbers = r.reshape(line, dims)?;
        let shape = r.dims(self.x);
        let none = r.splat(shape, ElementType::I64, 0.0)?;
        let stayed = r.scatter(&[none], self.indices, &[numbers], self.dims.clone(), |_, a| Ok([a[1]]))?[0];
        let read = self.read(r, stayed)?;
        let won = r.compare(Direction::Eq, read, numbers)?;
        let zeros = r.zeros_like(ct)?;
        Ok(r.select(won, ct, zeros)?)
    }
}
