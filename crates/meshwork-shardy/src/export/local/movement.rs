//! Slices and concatenates: along split dimensions nothing may move between shards.

use meshwork_ir::{Attr, Module, OpId};
use meshwork_mesh::AxisList;
use meshwork_propagate::program::SHARDING;

use super::Local;
use crate::export::halo_free::is_free_slice;
use crate::export::rewrite::{Problem, tensor};

/// A slice: along split dimensions either all of them or their start, where that moves nothing.
pub fn slice(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let (operand, result) = (module.op(op).operands()[0], module.result(op));
    if cx.split(operand).is_none() && cx.split(result).is_none() {
        return Ok(());
    }
    let starts = module.op(op).i64s("start_indices").unwrap_or_default();
    let mut limits = module.op(op).i64s("limit_indices").unwrap_or_default();
    let (from, to) = (tensor(module, operand)?, tensor(module, result)?);
    for (dim, limit) in limits.iter_mut().enumerate() {
        let (before, after) = (cx.axes(operand, dim), cx.axes(result, dim));
        if before != after {
            return Err(mismatch(dim, before, after));
        }
        let Some((sharding, mesh)) = cx.split(operand).filter(|_| !before.is_empty()) else { continue };
        let shards = sharding.dims[dim].num_shards(mesh);
        let is_full = *limit == cx.global_dims(operand)[dim];
        let sizes = (cx.global_dims(operand)[dim], cx.global_dims(result)[dim]);
        let stride = module.op(op).i64s("strides").and_then(|s| s.get(dim).copied()).unwrap_or(1);
        if starts[dim] != 0
            || !(is_full && from.dims[dim] % stride == 0 || is_free_slice(starts[dim], stride, sizes, shards))
        {
            return Err(format!(
                "dimension {dim} is split into {shards} shards, but [{}:{limit}] of {} moves elements between them",
                starts[dim], sizes.0
            )
            .into());
        }
        *limit = if is_full { from.dims[dim] } else { to.dims[dim] };
    }
    let attrs = &mut module.op_mut(op).attrs;
    attrs.set("limit_indices", Attr::i64s(limits));
    attrs.remove(SHARDING);
    Ok(())
}

/// The error for two placements that should be equal.
pub(super) fn mismatch(dim: usize, before: &[meshwork_mesh::AxisRef], after: &[meshwork_mesh::AxisRef]) -> Problem {
    Problem(format!(
        "dimension {dim} is split by {} before and by {} after; insert explicit reshards first",
        AxisList(before),
        AxisList(after)
    ))
}

/// A dynamic slice: takes all of each split dimension.
pub fn dynamic_slice(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let (operand, result) = (module.op(op).operands()[0], module.result(op));
    if cx.split(operand).is_none() {
        return Ok(());
    }
    let sizes = module.op(op).i64s("slice_sizes").unwrap_or_default();
    for (dim, &size) in sizes.iter().enumerate() {
        if !cx.axes(operand, dim).is_empty() && size != cx.global_dims(operand)[dim] {
            let whole = cx.global_dims(operand)[dim];
            return Err(format!("dimension {dim} is split, but only {size} of its {whole} elements are taken").into());
        }
    }
    let local = tensor(module, result)?.dims.to_vec();
    module.op_mut(op).attrs.set("slice_sizes", Attr::i64s(local));
    Ok(())
}

/// A concatenate: along a dimension that is not split, of operands that are split in the same way.
pub fn check_concatenate(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let result = module.result(op);
    let along = module.op(op).int("dimension").unwrap_or(0) as usize;
    if !cx.axes(result, along).is_empty() {
        return Err(format!("dimension {along} is split, but the concatenation is along it").into());
    }
    for (i, &operand) in module.op(op).operands().iter().enumerate() {
        if cx.split(operand).is_none() {
            continue;
        }
        if !cx.axes(operand, along).is_empty() {
            return Err(
                format!("operand {i} is split along dimension {along}, the dimension of the concatenation").into()
            );
        }
        for dim in 0..cx.global_dims(operand).len() {
            let (before, after) = (cx.axes(operand, dim), cx.axes(result, dim));
            if before != after {
                return Err(mismatch(dim, before, after));
            }
        }
    }
    Ok(())
}
