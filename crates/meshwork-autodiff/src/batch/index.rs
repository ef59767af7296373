//! Data at computed positions: the batch becomes a batching dimension, or part of the window.

use std::sync::Arc;

use meshwork_ir::attr::{GatherDims, ScatterDims};
use meshwork_ir::{Attr, ElementType, ValueId};

use super::BatchError;
use super::rules::front;
use super::state::{Batch, Site};

fn shifted(list: &[i64]) -> Vec<i64> {
    list.iter().map(|d| d + 1).collect()
}

fn with_zero(list: &[i64]) -> Vec<i64> {
    [0].into_iter().chain(shifted(list)).collect()
}

pub(super) fn dynamic_slice(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let sizes = site.op.i64s("slice_sizes").unwrap_or_default();
    let (x, starts) = (site.xs[0], &site.xs[1..]);
    if !starts.iter().any(|&s| b.is_on(s)) {
        let (zero, size) = (zero_like(b, starts)?, b.size());
        let operands: Vec<ValueId> = [x, zero].into_iter().chain(starts.iter().copied()).collect();
        let results = b.same(site, &operands, |a| front(a, "slice_sizes", size, 0));
        b.give(site, &results);
        return Ok(());
    }
    let indices = stacked(b, starts)?;
    let rank = sizes.len() as i64;
    let all: Vec<i64> = (0..rank).collect();
    let on = b.is_on(x);
    let dims = GatherDims {
        offset_dims: shifted(&all),
        collapsed_slice_dims: vec![],
        operand_batching_dims: if on { vec![0] } else { vec![] },
        start_indices_batching_dims: if on { vec![0] } else { vec![] },
        start_index_map: if on { shifted(&all) } else { all },
        index_vector_dim: 1,
    };
    let sizes: Vec<i64> = on.then_some(1).into_iter().chain(sizes).collect();
    let out = b.gather(x, indices, dims, &sizes)?;
    b.give(site, &[out]);
    Ok(())
}

pub(super) fn dynamic_update_slice(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let (x, update, starts) = (site.xs[0], site.xs[1], &site.xs[2..]);
    let (x, update) = (b.lifted(x)?, b.lifted(update)?);
    if !starts.iter().any(|&s| b.is_on(s)) {
        let zero = zero_like(b, starts)?;
        let operands: Vec<ValueId> = [x, update, zero].into_iter().chain(starts.iter().copied()).collect();
        let results = b.same(site, &operands, |_| {});
        b.give(site, &results);
        return Ok(());
    }
    // A scatter drops updates out of bounds; a dynamic update clamps them.
    let mut held = vec![];
    for (d, &start) in starts.iter().enumerate() {
        let elem = b.ty(start).elem().unwrap_or(ElementType::I32);
        let room = b.dims(x)[d + 1] - b.dims(update)[d + 1];
        let (zero, most) = (b.scalar(elem, 0.0)?, b.scalar(elem, room as f64)?);
        let on = b.is_on(start);
        let within = b.clamp(zero, start, most)?;
        held.push(if on { (within, true) } else { (within, false) });
    }
    let indices = stacked_lanes(b, &held)?;
    let rank = starts.len() as i64;
    let all: Vec<i64> = (1..=rank).collect();
    let dims = ScatterDims {
        update_window_dims: all.clone(),
        inserted_window_dims: vec![],
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: all,
        index_vector_dim: 1,
    };
    let out = b.scatter(&[x], indices, &[update], dims, |_, a| Ok([a[1]]))?[0];
    b.give(site, &[out]);
    Ok(())
}

/// The scalar zero of the type of `starts`; an `i32` if the list is empty.
fn zero_like(b: &mut Batch<'_>, starts: &[ValueId]) -> Result<ValueId, BatchError> {
    let elem = starts.first().and_then(|&s| b.ty(s).elem()).unwrap_or(ElementType::I32);
    Ok(b.scalar(elem, 0.0)?)
}

/// Start positions, scalars per example, as one row of numbers per example.
fn stacked(b: &mut Batch<'_>, starts: &[ValueId]) -> Result<ValueId, BatchError> {
    let lanes: Vec<(ValueId, bool)> = starts.iter().map(|&s| (s, b.is_on(s))).collect();
    stacked_lanes(b, &lanes)
}

fn stacked_lanes(b: &mut Batch<'_>, starts: &[(ValueId, bool)]) -> Result<ValueId, BatchError> {
    let size = b.size();
    let mut columns = vec![];
    for &(start, on) in starts {
        let column = if on { b.reshape(start, [size, 1])? } else { b.broadcast_in_dim(start, [size, 1], &[])? };
        columns.push(column);
    }
    Ok(b.concatenate(&columns, 1)?)
}

pub(super) fn gather(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let Some(Attr::Gather(dims)) = site.op.attr("dimension_numbers").cloned() else {
        return Err(BatchError::no_rule(b.module(), site.id, "it has no dimension numbers"));
    };
    let (x, indices) = (site.xs[0], site.xs[1]);
    let mut new = (*dims).clone();
    let size = b.size();
    let first = match (b.is_on(x), b.is_on(indices)) {
        (true, true) => Some(1),
        // Every slice has the batch as its first dimension.
        (true, false) => Some(size),
        (false, _) => None,
    };
    if b.is_on(x) {
        new.collapsed_slice_dims = shifted(&dims.collapsed_slice_dims);
        new.operand_batching_dims = shifted(&dims.operand_batching_dims);
        new.start_index_map = shifted(&dims.start_index_map);
    }
    new.offset_dims = shifted(&dims.offset_dims);
    if b.is_on(indices) {
        new.start_indices_batching_dims = shifted(&dims.start_indices_batching_dims);
        new.index_vector_dim += 1;
        if b.is_on(x) {
            new.operand_batching_dims.insert(0, 0);
            new.start_indices_batching_dims.insert(0, 0);
        }
    } else {
        new.offset_dims.insert(0, 0);
    }
    let results = b.same(site, &[x, indices], |a| {
        a.set("dimension_numbers", Attr::Gather(Arc::new(new)));
        if let Some(first) = first {
            front(a, "slice_sizes", first, 0);
        }
    });
    b.give(site, &results);
    Ok(())
}

pub(super) fn scatter(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let Some(Attr::Scatter(dims)) = site.op.attr("scatter_dimension_numbers").cloned() else {
        return Err(BatchError::no_rule(b.module(), site.id, "it has no dimension numbers"));
    };
    let count = site.op.results().len();
    let inputs = b.all_lifted(&site.xs[..count])?;
    let indices = site.xs[count];
    let updates = b.all_lifted(&site.xs[count + 1..])?;
    let mut new = ScatterDims {
        update_window_dims: shifted(&dims.update_window_dims),
        inserted_window_dims: shifted(&dims.inserted_window_dims),
        input_batching_dims: shifted(&dims.input_batching_dims),
        scatter_indices_batching_dims: dims.scatter_indices_batching_dims.clone(),
        scatter_dims_to_operand_dims: shifted(&dims.scatter_dims_to_operand_dims),
        index_vector_dim: dims.index_vector_dim,
    };
    if b.is_on(indices) {
        new.scatter_indices_batching_dims = with_zero(&dims.scatter_indices_batching_dims);
        new.input_batching_dims.insert(0, 0);
        new.index_vector_dim += 1;
    } else {
        // Every window has the batch as its first dimension.
        new.update_window_dims.insert(0, 0);
    }
    let operands: Vec<ValueId> = inputs.into_iter().chain([indices]).chain(updates).collect();
    let results = b.same(site, &operands, |a| {
        a.set("scatter_dimension_numbers", Attr::Scatter(Arc::new(new)));
    });
    b.give(site, &results);
    Ok(())
}
