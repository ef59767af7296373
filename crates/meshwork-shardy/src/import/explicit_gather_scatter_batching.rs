//! Turns an index that counts along the batch into an explicit batching dimension.
//!
//! A gather or scatter whose dimension 0 of operand and indices have the same size, and whose index component
//! for dimension 0 is an iota, reads or writes each batch entry with its own indices. Said as a batching
//! dimension, the batch can be split.

use std::sync::Arc;

use meshwork_ir::attr::{GatherDims, ScatterDims};
use meshwork_ir::op::{BodyOp, MixedOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{
    Attr, Diagnostic, Failed, Module, OpId, OpKind, OpSpec, Pass, PassOptions, TensorType, Type, ValueId, Walk,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-explicit-gather-scatter-batching",
    summary: "Turn an iota index of gather and scatter into an explicit batching dimension",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let mut maybe_dead = vec![];
    for op in module.all_ops(Walk::PreOrder) {
        let old_indices = match module.op(op).kind() {
            OpKind::Movement(MovementOp::Gather) => batch_gather(module, op),
            OpKind::Body(BodyOp::Scatter) => batch_scatter(module, op),
            _ => None,
        };
        maybe_dead.extend(old_indices);
    }
    erase_dead(module, maybe_dead);
    Ok(())
}

/// What gather and scatter have in common.
struct Indexing {
    operand: ValueId,
    indices: ValueId,
    /// The number of the operand that has the indices.
    indices_operand: usize,
    index_vector_dim: i64,
    /// Operand dimension of each index component.
    index_map: Vec<i64>,
    /// Operand dimensions that the result, or the updates, leave out.
    dropped_dims: Vec<i64>,
}

fn batch_gather(module: &mut Module, op: OpId) -> Option<ValueId> {
    let Some(Attr::Gather(dims)) = module.op(op).attr("dimension_numbers").cloned() else { return None };
    let &[operand, indices] = module.op(op).operands() else { return None };
    let mut indexing = Indexing {
        operand,
        indices,
        indices_operand: 1,
        index_vector_dim: dims.index_vector_dim,
        index_map: dims.start_index_map.clone(),
        dropped_dims: dims.collapsed_slice_dims.clone(),
    };
    if !dims.operand_batching_dims.is_empty() || !make_batching(module, op, &mut indexing) {
        return None;
    }
    let dims = GatherDims {
        collapsed_slice_dims: indexing.dropped_dims,
        operand_batching_dims: vec![0],
        start_indices_batching_dims: vec![0],
        start_index_map: indexing.index_map,
        ..(*dims).clone()
    };
    module.op_mut(op).attrs.set("dimension_numbers", Attr::Gather(Arc::new(dims)));
    Some(indices)
}

fn batch_scatter(module: &mut Module, op: OpId) -> Option<ValueId> {
    let Some(Attr::Scatter(dims)) = module.op(op).attr("scatter_dimension_numbers").cloned() else { return None };
    // Inputs, indices, updates: as many updates as inputs.
    let inputs = module.op(op).operands().len().checked_sub(1)? / 2;
    let operand = *module.op(op).operands().first()?;
    let indices = *module.op(op).operands().get(inputs)?;
    let mut indexing = Indexing {
        operand,
        indices,
        indices_operand: inputs,
        index_vector_dim: dims.index_vector_dim,
        index_map: dims.scatter_dims_to_operand_dims.clone(),
        dropped_dims: dims.inserted_window_dims.clone(),
    };
    if !dims.input_batching_dims.is_empty() || !make_batching(module, op, &mut indexing) {
        return None;
    }
    let dims = ScatterDims {
        inserted_window_dims: indexing.dropped_dims,
        input_batching_dims: vec![0],
        scatter_indices_batching_dims: vec![0],
        scatter_dims_to_operand_dims: indexing.index_map,
        ..(*dims).clone()
    };
    module.op_mut(op).attrs.set("scatter_dimension_numbers", Attr::Scatter(Arc::new(dims)));
    Some(indices)
}

/// Takes dimension 0 out of the index map and the dropped dimensions, and its component out of the indices of
/// `op`. `false`, with nothing changed, if dimension 0 is not a batch.
fn make_batching(module: &mut Module, op: OpId, indexing: &mut Indexing) -> bool {
    let (operand, indices) = (module.ty(indexing.operand).dims(), module.ty(indexing.indices).dims());
    let vector_dim = indexing.index_vector_dim as usize;
    if operand.is_empty()
        || indices.first() != operand.first()
        || vector_dim == 0
        || indices.get(vector_dim).is_none_or(|&n| n <= 1)
    {
        return false;
    }
    let component = indexing.index_map.iter().position(|&dim| dim == 0);
    let dropped = indexing.dropped_dims.iter().position(|&dim| dim == 0);
    let (Some(component), Some(dropped)) = (component, dropped) else { return false };
    if !counts_along_batch(module, indexing.indices, vector_dim, component) {
        return false;
    }
    indexing.index_map.remove(component);
    indexing.dropped_dims.remove(dropped);
    let indices = without_component(module, op, indexing.indices, vector_dim, component);
    module.set_operand(op, indexing.indices_operand, indices);
    true
}

/// Whether index component `component` is, in batch entry `i`, the number `i`.
fn counts_along_batch(module: &Module, indices: ValueId, vector_dim: usize, component: usize) -> bool {
    let mut source = indices;
    if let Some(concat) = def_of_kind(module, indices, OpKind::Movement(MovementOp::Concatenate)) {
        let parts = module.op(concat);
        if parts.int("dimension") != Some(vector_dim as i64) {
            return false;
        }
        // The part that has the component: parts may have several.
        let mut end = 0;
        let holds = |part: &&ValueId| {
            end += module.ty(**part).dims().get(vector_dim).copied().unwrap_or(0);
            component < end as usize
        };
        match parts.operands().iter().find(holds) {
            Some(&part) => source = part,
            None => return false,
        }
    }
    let size = module.ty(indices).dims()[0];
    is_counter(module, source, size)
}

fn def_of_kind(module: &Module, value: ValueId, kind: OpKind) -> Option<OpId> {
    module.def_op(value).filter(|&op| module.op(op).kind() == kind)
}

/// Whether every element of `value` is its own index in dimension 0, which has `size` entries.
///
/// Reshapes and broadcasts that keep dimension 0 keep that; so do the clamp and the select with which
/// programs bring indices into range, when the numbers are in range already.
fn is_counter(module: &Module, mut value: ValueId, size: i64) -> bool {
    while module.ty(value).dims().first() == Some(&size) {
        let Some(op) = module.def_op(value) else { return false };
        let data = module.op(op);
        value = match (data.kind(), data.operands()) {
            (OpKind::Source(SourceOp::Iota), _) => return data.int("iota_dimension") == Some(0),
            (OpKind::Movement(MovementOp::Reshape), &[input]) => input,
            (OpKind::Movement(MovementOp::BroadcastInDim), &[input]) => {
                match data.i64s("broadcast_dimensions").as_deref() {
                    Some([0, ..]) => input,
                    _ => return false,
                }
            }
            (OpKind::Mixed(MixedOp::Clamp), &[low, input, high]) => {
                match (constant_range(module, low), constant_range(module, high)) {
                    (Some((_, low)), Some((high, _))) if low <= 0 && high >= size - 1 => input,
                    _ => return false,
                }
            }
            // Negative indices count from the end, but there are none.
            (OpKind::Mixed(MixedOp::Select), &[is_negative, _, input]) => {
                match def_of_kind(module, is_negative, OpKind::Mixed(MixedOp::Compare)) {
                    Some(compare) if compares_with_zero(module, compare, input) => input,
                    _ => return false,
                }
            }
            _ => return false,
        };
    }
    false
}

/// Whether `compare` is `input < 0`.
fn compares_with_zero(module: &Module, compare: OpId, input: ValueId) -> bool {
    let data = module.op(compare);
    matches!(data.operands(), &[left, right] if left == input && constant_range(module, right) == Some((0, 0)))
        && data.enum_value("comparison_direction") == Some("LT")
}

/// The smallest and the largest element of an integer constant.
fn constant_range(module: &Module, mut value: ValueId) -> Option<(i64, i64)> {
    loop {
        let data = module.op(module.def_op(value)?);
        match data.kind() {
            OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape) => value = data.operands()[0],
            OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) => {
                let elements = data.i64s("value")?;
                return Some((*elements.iter().min()?, *elements.iter().max()?));
            }
            _ => return None,
        }
    }
}

/// The indices without component `component`, computed before `op`.
fn without_component(module: &mut Module, op: OpId, indices: ValueId, vector_dim: usize, component: usize) -> ValueId {
    let Some(ty) = module.ty(indices).as_tensor().cloned() else { return indices };
    let count = ty.dims[vector_dim];
    let mut parts: Vec<ValueId> = match def_of_kind(module, indices, OpKind::Movement(MovementOp::Concatenate)) {
        Some(concat)
            if module.op(concat).int("dimension") == Some(vector_dim as i64)
                && module.op(concat).operands().len() as i64 == count =>
        {
            module.op(concat).operands().to_vec()
        }
        _ => {
            let part = |module: &mut Module, range: [i64; 2]| slice(module, op, indices, &ty, vector_dim, range);
            let component = component as i64;
            let ranges = [[0, component], [component + 1, count]];
            let ranges = ranges.into_iter().filter(|[start, end]| start < end);
            let kept: Vec<ValueId> = ranges.map(|range| part(module, range)).collect();
            return concatenate(module, op, kept, &ty, vector_dim);
        }
    };
    parts.remove(component);
    concatenate(module, op, parts, &ty, vector_dim)
}

fn slice(module: &mut Module, op: OpId, value: ValueId, ty: &TensorType, dim: usize, range: [i64; 2]) -> ValueId {
    let mut start = vec![0; ty.rank()];
    let mut limit = ty.dims.to_vec();
    (start[dim], limit[dim]) = (range[0], range[1]);
    let dims = limit.iter().zip(&start).map(|(l, s)| l - s);
    let spec = OpSpec::new(MovementOp::Slice)
        .operands([value])
        .results([Type::from(ty.with_dims(dims))])
        .attr("start_indices", Attr::i64s(start))
        .attr("limit_indices", Attr::i64s(limit))
        .attr("strides", Attr::i64s(vec![1; ty.rank()]))
        .loc(module.op(op).loc.clone());
    let slice = module.push_before(op, spec);
    module.result(slice)
}

fn concatenate(module: &mut Module, op: OpId, parts: Vec<ValueId>, ty: &TensorType, dim: usize) -> ValueId {
    if let [only] = parts[..] {
        return only;
    }
    let mut dims = ty.dims.clone();
    dims[dim] -= 1;
    let spec = OpSpec::new(MovementOp::Concatenate)
        .operands(parts)
        .results([Type::from(ty.with_dims(dims))])
        .attr("dimension", Attr::i64(dim as i64))
        .loc(module.op(op).loc.clone());
    let concat = module.push_before(op, spec);
    module.result(concat)
}

/// Erases what computed these values and is not used any more.
fn erase_dead(module: &mut Module, mut values: Vec<ValueId>) {
    while let Some(value) = values.pop() {
        let Some(op) = module.def_op(value).filter(|&op| !module.is_erased(op)) else { continue };
        let unused = module.op(op).results().iter().all(|&r| module.value(r).uses().is_empty());
        if unused && module.op(op).kind().is_pure() {
            values.extend(module.op(op).operands());
            module.erase(op);
        }
    }
}
