//! Ops that mix padding in, or whose attributes name extents.

use std::sync::Arc;

use meshwork_ir::infer::infer_op;
use meshwork_ir::op::{SdyOp, SourceOp};
use meshwork_ir::{Attr, Dense, Module, OpId, OpKind, Type};
use meshwork_propagate::program::sharding_of;

use super::mask::{Fill, fill_padding};
use super::{Padding, place};
use crate::export::halo_free::is_free_slice;
use crate::export::local::device::table;
use crate::export::rewrite::{Problem, before, tensor};

fn ints(module: &Module, op: OpId, name: &str) -> Vec<i64> {
    module.op(op).i64s(name).unwrap_or_default()
}

fn dims(list: &[i64]) -> Vec<usize> {
    list.iter().map(|&d| d as usize).collect()
}

/// A slice: reaches into the padding where its result is padded.
pub fn slice(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let (operand, result) = (module.op(op).operands()[0], module.result(op));
    let sharding = sharding_of(module, result);
    let before = module.ty(result).clone();
    let padded = cx.padded(&before, sharding.as_ref());
    if padded == before {
        return Ok(());
    }
    let (starts, strides) = (ints(module, op, "start_indices"), ints(module, op, "strides"));
    let mut limits = ints(module, op, "limit_indices");
    for (dim, limit) in limits.iter_mut().enumerate() {
        let wanted = starts[dim] + (padded.dims()[dim] - 1) * strides[dim] + 1;
        if padded.dims()[dim] == before.dims()[dim] {
            continue;
        }
        let shards = sharding.as_ref().and_then(|s| Some(s.dims[dim].num_shards(cx.meshes.mesh(s)?))).unwrap_or(1);
        let sizes = (cx.original(module, operand).dims()[dim], before.dims()[dim]);
        if !is_free_slice(starts[dim], strides[dim], sizes, shards) {
            return Err(format!(
                "dimension {dim} is split into {shards} uneven shards, and [{}:{limit}] moves elements between them; run \
                 sdy-resolve-permutation-factors first",
                starts[dim]
            )
            .into());
        }
        *limit = wanted;
    }
    module.op_mut(op).attrs.set("limit_indices", Attr::i64s(limits));
    module.set_ty(result, padded);
    Ok(())
}

/// A pad: its high padding makes the difference; where that shrinks, the operand's padding takes its place.
pub fn pad(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let &[operand, padding] = module.op(op).operands() else { return Err("does not have two operands".into()) };
    let result = module.result(op);
    let ty = cx.padded(module.ty(result), sharding_of(module, result).as_ref());
    let (low, high) = (ints(module, op, "edge_padding_low"), ints(module, op, "edge_padding_high"));
    let interior = ints(module, op, "interior_padding");
    let from = tensor(module, operand)?;
    let new_high: Vec<i64> = (0..from.rank())
        .map(|dim| ty.dims()[dim] - from.dims[dim] - low[dim] - (from.dims[dim] - 1).max(0) * interior[dim])
        .collect();
    if new_high.iter().zip(&high).any(|(new, old)| new < old) {
        let filled = fill_padding(cx, module, op, operand, Fill::Value(padding), None)?;
        module.set_operand(op, 0, filled);
    }
    module.op_mut(op).attrs.set("edge_padding_high", Attr::i64s(new_high));
    module.set_ty(result, ty);
    Ok(())
}

/// Fills the padding of operand `index` along `dims`.
fn fill_operand(
    cx: &mut Padding,
    module: &mut Module,
    op: OpId,
    index: usize,
    fill: Fill,
    dims: &[usize],
) -> Result<(), Problem> {
    let value = module.op(op).operands()[index];
    let filled = fill_padding(cx, module, op, value, fill, Some(dims))?;
    module.set_operand(op, index, filled);
    Ok(())
}

/// A dot: what is summed over is zero.
pub fn dot(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let lhs_rank = tensor(module, module.op(op).operands()[0])?.rank();
    let (lhs, rhs) = match module.op(op).attr("dot_dimension_numbers") {
        Some(Attr::Dot(numbers)) => (dims(&numbers.lhs_contract), dims(&numbers.rhs_contract)),
        _ => (vec![lhs_rank.saturating_sub(1)], vec![0]),
    };
    fill_operand(cx, module, op, 0, Fill::Zero, &lhs)?;
    fill_operand(cx, module, op, 1, Fill::Zero, &rhs)?;
    cx.set_padded_types(module, op);
    Ok(())
}

/// A convolution: features and positions that are summed over are zero; positions beyond the result are cut off.
pub fn convolution(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let Some(Attr::Conv(numbers)) = module.op(op).attr("dimension_numbers").cloned() else {
        return Err("has no dimension numbers".into());
    };
    let lhs = [vec![numbers.input_feature], numbers.input_spatial.clone()].concat();
    let rhs = [vec![numbers.kernel_input_feature], numbers.kernel_spatial.clone()].concat();
    fill_operand(cx, module, op, 0, Fill::Zero, &dims(&lhs))?;
    fill_operand(cx, module, op, 1, Fill::Zero, &dims(&rhs))?;
    let result = module.result(op);
    let wanted = cx.padded(module.ty(result), sharding_of(module, result).as_ref());
    let was = module.ty(result).clone();
    let inferred = infer_op(module, op).or_else(|_| {
        module.set_ty(result, wanted.clone());
        infer_op(module, op)
    });
    let inferred = match inferred {
        Ok(types) => types[0].clone(),
        Err(error) => {
            module.set_ty(result, was);
            return Err(format!("does not fit its padded operands: {error}").into());
        }
    };
    for dim in dims(&numbers.output_spatial) {
        if inferred.dims()[dim] < wanted.dims()[dim] {
            return Err(format!(
                "makes {} elements along dimension {dim}, but its shards need {}; run sdy-resolve-permutation-factors first",
                inferred.dims()[dim],
                wanted.dims()[dim]
            )
            .into());
        }
    }
    module.set_ty(result, inferred);
    let out = sharding_of(module, result);
    cx.trim(module, op, &wanted, &dims(&numbers.output_spatial), out.as_ref())
}

/// A reduction: what is reduced over is the initial value, which changes nothing.
pub fn reduce(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let reduced = dims(&ints(module, op, "dimensions"));
    let inputs = module.op(op).operands().len() / 2;
    for i in 0..inputs {
        let init = module.op(op).operands()[inputs + i];
        fill_operand(cx, module, op, i, Fill::Value(init), &reduced)?;
    }
    cx.set_padded_types(module, op);
    Ok(())
}

/// A scatter: indices in the padding point outside, so that updates there are dropped.
pub fn scatter(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let inputs = module.op(op).results().len();
    let indices = module.op(op).operands()[inputs];
    let rank = tensor(module, indices)?.rank();
    let elem = module.ty(indices).elem();
    let points_nowhere = elem.is_some_and(|e| e.class() == meshwork_ir::ElementClass::Signed);
    if cx.is_padded(module, indices) && !points_nowhere {
        return Err(
            format!("has unevenly split indices of type {}, which cannot be negative, so that updates in the padding cannot be dropped", module.ty(indices)).into()
        );
    }
    fill_operand(cx, module, op, inputs, Fill::MinusOne, &(0..rank).collect::<Vec<_>>())?;
    cx.set_padded_types(module, op);
    Ok(())
}

/// A gather or dynamic slice: takes all of a padded dimension where it took all of it before.
pub fn take(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let operand = module.op(op).operands()[0];
    let (was, now) = (cx.original(module, operand).clone(), tensor(module, operand)?);
    let mut sizes = ints(module, op, "slice_sizes");
    for (dim, size) in sizes.iter_mut().enumerate() {
        if *size == was.dims()[dim] {
            *size = now.dims[dim];
        }
    }
    if was != Type::from(now) {
        clamp_indices(module, op, &was, &ints(module, op, "slice_sizes"))?;
    }
    module.op_mut(op).attrs.set("slice_sizes", Attr::i64s(sizes));
    cx.set_padded_types(module, op);
    Ok(())
}

/// Clamps the indices of a gather to the extents that its operand had: beyond these is padding.
fn clamp_indices(module: &mut Module, op: OpId, was: &Type, sizes: &[i64]) -> Result<(), Problem> {
    let Some(Attr::Gather(numbers)) = module.op(op).attr("dimension_numbers").cloned() else { return Ok(()) };
    let indices = module.op(op).operands()[1];
    let ty = tensor(module, indices)?;
    let limit = |&dim: &i64| was.dims()[dim as usize] - sizes[dim as usize];
    let limits: Vec<i64> = numbers.start_index_map.iter().map(limit).collect();
    let mut b = before(module, op);
    let zero = b.splat(ty.dims.to_vec(), ty.elem, 0.0)?;
    let last = if (numbers.index_vector_dim as usize) < ty.rank() {
        let table = table(&mut b, &limits)?;
        let table = b.convert(table, ty.elem)?;
        b.broadcast_in_dim(table, ty.dims.to_vec(), &[numbers.index_vector_dim])?
    } else {
        b.splat(ty.dims.to_vec(), ty.elem, limits.first().copied().unwrap_or(0) as f64)?
    };
    let clamped = b.clamp(zero, indices, last)?;
    for made in [zero, last, clamped] {
        place(module, made, sharding_of(module, indices).as_ref());
    }
    module.set_operand(op, 1, clamped);
    Ok(())
}

/// A constant: a splat grows; other elements get zeros after them.
pub fn constant(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let result = module.result(op);
    let sharding = sharding_of(module, result);
    let ty = cx.padded(module.ty(result), sharding.as_ref());
    let Some(Attr::Dense(dense)) = module.op(op).attr("value").cloned() else {
        return Err("has no dense value".into());
    };
    let Type::Tensor(tensor_ty) = &ty else { return Ok(()) };
    if dense.splat_bytes().is_some() {
        let grown = Dense { ty: tensor_ty.clone(), data: dense.data.clone() };
        module.op_mut(op).attrs.set("value", Attr::Dense(Arc::new(grown)));
        module.set_ty(result, ty);
        return Ok(());
    }
    // The padded constant is made of bytes, so that no op on an uneven value remains.
    let Some(literal) = dense.to_literal() else { return Err("has elements that are not in the file".into()) };
    let mut bytes = vec![];
    let (from, to) = (dense.ty.dims.to_vec(), tensor_ty.dims.to_vec());
    let size = literal.elem().storage_bytes();
    grow(literal.bytes(), &from, &to, size, &mut bytes);
    let grown = meshwork_ir::Literal::from_bytes(to, literal.elem(), bytes).ok_or("does not fit in memory")?;
    let dense = Dense::from_literal(&grown);
    let kind = module.op(op).kind();
    debug_assert!(matches!(kind, OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant)));
    module.op_mut(op).attrs.set("value", Attr::Dense(Arc::new(dense)));
    module.set_ty(result, ty);
    cx.zeros.insert(result);
    Ok(())
}

/// Appends an array of extents `from`, with zeros after each row, to extents `to`.
fn grow(bytes: &[u8], from: &[i64], to: &[i64], size: usize, out: &mut Vec<u8>) {
    let (Some((&rows, from)), Some((&new_rows, to))) = (from.split_first(), to.split_first()) else {
        out.extend_from_slice(bytes);
        return;
    };
    let row = bytes.len() / (rows.max(1) as usize);
    for i in 0..rows as usize {
        grow(&bytes[i * row..(i + 1) * row], from, to, size, out);
    }
    let missing = (new_rows - rows) * to.iter().product::<i64>();
    out.resize(out.len() + missing as usize * size, 0);
}

#[cfg(test)]
mod tests {
    use super::grow;

    #[test]
    fn rows_grow_at_their_ends() {
        let mut out = vec![];
        grow(&[1, 2, 3, 4], &[2, 2], &[3, 3], 1, &mut out);
        assert_eq!(out, [1, 2, 0, 3, 4, 0, 0, 0, 0]);
        out.clear();
        grow(&[], &[0, 2], &[1, 2], 1, &mut out);
        assert_eq!(out, [0, 0]);
    }
}
