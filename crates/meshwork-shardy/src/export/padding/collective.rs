//! Collectives: what is split further is padded before, what is gathered is cut back after.

use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, Sharding, axis_list, ceil_div};
use meshwork_propagate::program::sharding_of;

use super::Padding;
use crate::export::cursor::Cursor;
use crate::export::rewrite::Problem;

/// Whether shards of the axes that both lists start with end elsewhere afterwards: a dimension that does not divide
/// evenly is cut at other places when it is split further.
fn moves_ends(before: &[AxisRef], after: &[AxisRef], extent: i64, mesh: &Mesh) -> bool {
    let product = |axes: &[AxisRef]| axis_list::product(axes, mesh);
    let kept = product(&axis_list::greatest_common_prefix(before, after));
    let block = |axes: &[AxisRef]| ceil_div(extent, product(axes)) * (product(axes) / kept);
    kept > 1 && extent > 0 && block(before) != block(after)
}

/// Replaces a collective that moves the ends of uneven shards by a gather of the dimensions that change and a slice;
/// returns whether it did.
fn split_again(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<bool, Problem> {
    let (input, result) = (module.op(op).operands()[0], module.result(op));
    let (Some(before), Some(after)) = (sharding_of(module, input), sharding_of(module, result)) else {
        return Ok(false);
    };
    let Some(mesh) = cx.meshes.mesh(&after) else { return Ok(false) };
    let original = cx.original(module, input).clone();
    let dims = || before.dims.iter().zip(&after.dims).zip(original.dims());
    if !dims().any(|((from, to), &extent)| moves_ends(&from.axes, &to.axes, extent, mesh)) {
        return Ok(false);
    }
    if module.op(op).kind() == SdyOp::ReduceScatter {
        return Err(format!(
            "goes from {before} to {after}, which moves the ends of uneven shards of {original}; reduce and reshard in two steps"
        )
        .into());
    }
    let changed =
        |axes: &DimSharding, other: &DimSharding| if axes.axes == other.axes { vec![] } else { axes.axes.clone() };
    let gone: Vec<Vec<AxisRef>> = dims().map(|((from, to), _)| changed(from, to)).collect();
    let new: Vec<Vec<AxisRef>> = dims().map(|((from, to), _)| changed(to, from)).collect();
    let mut between = before.clone();
    for (dim, gone) in between.dims.iter_mut().zip(&gone) {
        if !gone.is_empty() {
            dim.axes.clear();
        }
    }
    let mut at = Cursor::Before(op);
    let out = |sharding: Sharding| ("out_sharding", Attr::Sharding(Arc::new(sharding)));
    let gather = [("gathering_axes", Attr::AxesPerDim(gone.into())), out(between)];
    let mut value = at.insert_like(module, OpKind::Sdy(SdyOp::AllGather), input, gather);
    module.set_ty(value, original.clone());
    cx.originals.insert(value, original.clone());
    value = trimmed(cx, module, value, all_gather)?;
    if new.iter().any(|axes| !axes.is_empty()) {
        let slice = [("slicing_axes", Attr::AxesPerDim(new.into())), out(after)];
        value = at.insert_like(module, OpKind::Sdy(SdyOp::AllSlice), value, slice);
        module.set_ty(value, original.clone());
        cx.originals.insert(value, original);
        value = trimmed(cx, module, value, all_slice)?;
    }
    module.replace_op(op, &[value]);
    Ok(true)
}

/// Pads the op that makes `value`, and returns the new value of its result.
fn trimmed(
    cx: &mut Padding,
    module: &mut Module,
    value: ValueId,
    pad: fn(&mut Padding, &mut Module, OpId) -> Result<(), Problem>,
) -> Result<ValueId, Problem> {
    let Some(op) = module.def_op(value) else { return Ok(value) };
    pad(cx, module, op)?;
    let only = module.value(value).uses().first().map(|u| u.op);
    Ok(only.map_or(value, |slice| module.result(slice)))
}

/// Pads the operand so that it divides by the placement after; the result is as large.
fn pad_operand(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let input = module.op(op).operands()[0];
    let out = sharding_of(module, module.result(op));
    let ty = cx.padded(module.ty(input), out.as_ref());
    let mut is_zero = cx.zeros.contains(&input);
    if ty != *module.ty(input) {
        is_zero |= !cx.is_padded(module, input);
        let padded = cx.extend(module, op, input, &ty)?;
        if is_zero {
            cx.zeros.insert(padded);
        }
        module.set_operand(op, 0, padded);
    }
    let result = module.result(op);
    module.set_ty(result, ty);
    if is_zero {
        cx.zeros.insert(result);
    }
    Ok(())
}

/// `sdy.all_slice` and `sdy.reduce_scatter`.
pub fn all_slice(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    if split_again(cx, module, op)? { Ok(()) } else { pad_operand(cx, module, op) }
}

/// `sdy.all_gather`: the gathered dimensions are cut back to what divides evenly.
pub fn all_gather(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    if split_again(cx, module, op)? {
        return Ok(());
    }
    let (input, result) = (module.op(op).operands()[0], module.result(op));
    let gathered: Vec<usize> = match module.op(op).attr("gathering_axes") {
        Some(Attr::AxesPerDim(axes)) => (0..axes.len()).filter(|&dim| !axes[dim].is_empty()).collect(),
        _ => vec![],
    };
    let (original, ty) = (module.ty(result).clone(), module.ty(input).clone());
    module.set_ty(result, ty);
    if cx.zeros.contains(&input) {
        cx.zeros.insert(result);
    }
    let out = sharding_of(module, result);
    let even = cx.padded(&original, out.as_ref());
    cx.trim(module, op, &even, &gathered, out.as_ref())
}

/// `sdy.all_to_all`: the dimensions that axes leave are cut back.
pub fn all_to_all(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    if split_again(cx, module, op)? {
        return Ok(());
    }
    let original = module.ty(module.result(op)).clone();
    let left: Vec<usize> = match module.op(op).attr("params") {
        Some(Attr::AllToAll(params)) => params.iter().map(|p| p.src as usize).collect(),
        _ => vec![],
    };
    pad_operand(cx, module, op)?;
    let out = sharding_of(module, module.result(op));
    let even = cx.padded(&original, out.as_ref());
    cx.trim(module, op, &even, &left, out.as_ref())
}
