//! From propagated placements to final ones: the steps after propagation.

use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, ValueId, Walk};
use meshwork_mesh::Sharding;

use crate::program::{
    Slot, argument_owners, edge_of_target, has_data_flow, manual_axes, result_owners, result_slot, sharding_list,
    transform_shardings, with_manual_axes,
};

/// Writes the placement of every data-flow edge back to the op it belongs to and removes the edge.
pub fn sink_data_flow_edges(module: &mut Module) {
    // An op comes before its edges, which are its users or in its regions.
    for op in module.all_ops(Walk::PreOrder) {
        match module.op(op).kind() {
            OpKind::Sdy(SdyOp::DataFlowEdge) => remove_edge(module, op),
            kind if has_data_flow(kind) => {
                if let Some(shardings) = shardings_of_edges(module, &argument_owners(module, op)) {
                    set_argument_shardings(module, op, shardings);
                }
                if let Some(shardings) = shardings_of_edges(module, &result_owners(module, op)) {
                    set_result_shardings(module, op, shardings);
                }
            }
            _ => {}
        }
    }
}

/// Removes all sharding groups.
pub fn remove_sharding_groups(module: &mut Module) {
    for op in module.all_ops(Walk::PostOrder) {
        if module.op(op).kind() == SdyOp::ShardingGroup {
            module.erase(op);
        }
    }
}

/// Turns every `sdy.sharding_constraint` into an `sdy.reshard`.
pub fn constraints_to_reshards(module: &mut Module) {
    for constraint in module.all_ops(Walk::PreOrder) {
        let data = module.op(constraint);
        if data.kind() != SdyOp::ShardingConstraint {
            continue;
        }
        let result = module.result(constraint);
        let mut spec = OpSpec::new(SdyOp::Reshard)
            .operands(data.operands().iter().copied())
            .results([module.ty(result).clone()])
            .loc(data.loc.clone());
        spec.attrs = data.attrs.clone();
        spec.pos = data.pos;
        let reshard = module.push_before(constraint, spec);
        module.replace_op(constraint, &[module.result(reshard)]);
    }
}

/// Closes every dimension of every placement and drops the axes that had to stay replicated.
pub fn close_shardings(module: &mut Module) {
    transform_shardings(module, |sharding, _| {
        let mut closed = sharding.clone().closed();
        closed.replicated.clear();
        Some(closed)
    });
}

/// Replaces a data-flow edge by its input.
pub fn remove_edge(module: &mut Module, edge: OpId) {
    let input = module.op(edge).operands()[0];
    module.replace_op(edge, &[input]);
}

/// The placements on the edges of these owners, open where there is none; `None` if no edge has one.
pub fn shardings_of_edges(module: &Module, owners: &[ValueId]) -> Option<Vec<Sharding>> {
    let on_edge = |&owner: &ValueId| {
        let edge = edge_of_target(module, owner)?;
        module.op(edge).attr("sharding")?.as_sharding()
    };
    let found: Vec<Option<&Sharding>> = owners.iter().map(on_edge).collect();
    let mesh = &found.iter().flatten().next()?.mesh;
    let open = |&owner: &ValueId| Sharding::fully_open(mesh, module.ty(owner).rank().unwrap_or(0));
    Some(owners.iter().zip(&found).map(|(owner, s)| s.cloned().unwrap_or_else(|| open(owner))).collect())
}

/// Sets the placements of the block arguments of a named or manual computation, as seen from inside.
pub fn set_argument_shardings(module: &mut Module, op: OpId, mut shardings: Vec<Sharding>) {
    if module.op(op).kind() == SdyOp::ManualComputation {
        let manual = manual_axes(module, op);
        let old = sharding_list(module, op, "in_shardings").unwrap_or(&[]);
        for (new, outer) in shardings.iter_mut().zip(old) {
            *new = with_manual_axes(outer, new, manual);
        }
    }
    module.op_mut(op).attrs.set("in_shardings", Attr::ShardingPerValue(shardings.into()));
}

/// Sets the placements of all results of an op.
pub fn set_result_shardings(module: &mut Module, op: OpId, shardings: Vec<Sharding>) {
    match result_slot(module.op(op).kind()) {
        Slot::PerValue(name) => {
            module.op_mut(op).attrs.set(name, Attr::ShardingPerValue(shardings.into()));
        }
        Slot::Single(name) => {
            if let Some(sharding) = shardings.into_iter().next() {
                module.op_mut(op).attrs.set(name, Attr::Sharding(Arc::new(sharding)));
            }
        }
    }
}
