//! Preparation for a transformation: composites become calls, calls and named computations are inlined, and
//! `torch_index_select` becomes a gather.

use meshwork_ir::attr::GatherDims;
use meshwork_ir::build::Builder;
use meshwork_ir::op::{MovementOp, SdyOp};
use meshwork_ir::transform::inline::{composites_to_calls, inline_calls, move_out_body};
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, ValueId, Walk};

/// The name of an `sdy.named_computation` whose values are recomputed in the backward pass instead of stored.
pub const CHECKPOINT: &str = "meshwork.checkpoint";

/// The name of an `sdy.named_computation` that has a derivative of its own, which its attribute [`RULE`](crate::RULE) names.
pub const CUSTOM: &str = "meshwork.custom";

/// Inlines every call that can be inlined. Values stay the same.
pub(crate) fn flatten(module: &mut Module) {
    composites_to_calls(module);
    for op in module.all_ops(Walk::PreOrder) {
        module.op_mut(op).attrs.remove("no_inline");
        if module.op(op).kind() == MovementOp::TorchIndexSelect {
            select_by_gather(module, op);
        }
    }
    // The rule for calls names a call that was not inlined.
    inline_calls(module);
    inline_computations(module, |name| name != CHECKPOINT && name != CUSTOM);
}

/// Replaces a `torch_index_select` by a gather that reads the same slices.
fn select_by_gather(module: &mut Module, op: OpId) {
    let data = module.op(op).clone();
    let (Some(dim), Some(batch)) = (data.int("dim"), data.int("batch_dims")) else { return };
    let (x, indices) = (data.operands()[0], data.operands()[1]);
    let (mut sizes, index_rank) = (module.ty(x).dims().to_vec(), module.ty(indices).dims().len() as i64);
    let rank = sizes.len() as i64;
    if !(0..rank).contains(&dim) || !(0..=dim.min(index_rank)).contains(&batch) {
        return;
    }
    (0..batch).chain([dim]).for_each(|d| sizes[d as usize] = 1);
    // The result has the batch, the dimensions before `dim`, those of the indices, and the dimensions after `dim`.
    let picked = index_rank - batch;
    let dims = GatherDims {
        offset_dims: (batch..dim).chain(dim + picked..rank - 1 + picked).collect(),
        collapsed_slice_dims: vec![dim],
        operand_batching_dims: (0..batch).collect(),
        start_indices_batching_dims: (0..batch).collect(),
        start_index_map: vec![dim],
        index_vector_dim: index_rank,
    };
    let mut b = Builder::before(module, op);
    b.set_loc(data.loc.clone());
    // An operation that cannot be built stays as it is; its rule reports it.
    let Ok(gathered) = b.gather(x, indices, dims, &sizes) else { return };
    module.replace_op(op, &[gathered]);
}

/// Inlines the named computations whose name `choose` accepts. The shardings of their arguments and results become
/// constraints.
pub fn inline_computations(module: &mut Module, choose: impl Fn(&str) -> bool) {
    if !module.op_ids().any(|op| module.op(op).kind() == OpKind::Sdy(SdyOp::NamedComputation)) {
        return;
    }
    for op in module.all_ops(Walk::PreOrder) {
        let data = module.op(op);
        if data.kind() == OpKind::Sdy(SdyOp::NamedComputation)
            && choose(data.attr("name").and_then(Attr::as_str).unwrap_or(""))
        {
            inline_computation(module, op);
        }
    }
}

fn inline_computation(module: &mut Module, op: OpId) {
    let operands = module.op(op).operands().to_vec();
    let operands = placed(module, op, &operands, "in_shardings");
    module.set_operands(op, operands);
    let Some(returned) = move_out_body(module, op) else { return };
    let results = placed(module, op, &returned, "out_shardings");
    module.replace_op(op, &results);
}

/// `values`, constrained before `op` to the shardings that its attribute `name` lists.
fn placed(module: &mut Module, op: OpId, values: &[ValueId], name: &str) -> Vec<ValueId> {
    let Some(Attr::ShardingPerValue(list)) = module.op(op).attr(name).cloned() else { return values.to_vec() };
    let loc = module.op(op).loc.clone();
    let mut out = vec![];
    for (&value, sharding) in values.iter().zip(list.iter()) {
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::ShardingConstraint))
            .operands([value])
            .results([module.ty(value).clone()])
            .attr("sharding", Attr::Sharding(sharding.clone().into()))
            .loc(loc.clone());
        let held = module.push_before(op, spec);
        out.push(module.result(held));
    }
    out
}
