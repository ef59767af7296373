//! Writes the placement of every data-flow edge back to the op it belongs to and removes the edge.

use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, ValueId, Walk};
use meshwork_mesh::Sharding;

use crate::debug;
use crate::debug::edges::{BLOCK_ARG_EDGES, PROPAGATION_EDGES, RESULT_EDGES};
use crate::debug::origins::{BLOCK_ARG_ORIGINS, RESULT_ORIGINS, SHARDING_ORIGINS};
use crate::edges::{argument_owners, edge_of_target, has_data_flow, result_owners};
use crate::manual::{manual_axes, with_manual_axes};
use crate::values::{Slot, result_slot, sharding_list};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-sink-data-flow-edges",
    summary: "Write placements of data-flow edges back to their ops and remove the edges",
    options: &[
        ("sink-debug-sharding-origins", "whether to keep where each sharding axis originates"),
        ("sink-debug-propagation-edge-sharding", "whether to keep from which operand or result each axis came"),
    ],
    run,
};

fn run(module: &mut Module, options: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let sink_origins = options.flag("sink-debug-sharding-origins");
    let sink_edges = options.flag("sink-debug-propagation-edge-sharding");
    // An op comes before its edges, which are its users or in its regions.
    for op in module.all_ops(Walk::PreOrder) {
        match module.op(op).kind() {
            OpKind::Sdy(SdyOp::DataFlowEdge) => remove_edge(module, op),
            kind if has_data_flow(kind) => {
                let (arguments, results) = (argument_owners(module, op), result_owners(module, op));
                if let Some(shardings) = shardings_of_edges(module, &arguments) {
                    set_argument_shardings(module, op, shardings);
                }
                if let Some(shardings) = shardings_of_edges(module, &results) {
                    set_result_shardings(module, op, shardings);
                }
                if sink_origins {
                    debug::sink(module, op, &arguments, SHARDING_ORIGINS, BLOCK_ARG_ORIGINS);
                    debug::sink(module, op, &results, SHARDING_ORIGINS, RESULT_ORIGINS);
                }
                if sink_edges {
                    debug::sink(module, op, &arguments, PROPAGATION_EDGES, BLOCK_ARG_EDGES);
                    debug::sink(module, op, &results, PROPAGATION_EDGES, RESULT_EDGES);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Replaces a data-flow edge by its input.
pub fn remove_edge(module: &mut Module, edge: OpId) {
    let (input, result) = (module.op(edge).operands()[0], module.result(edge));
    module.replace_all_uses(result, input);
    module.erase(edge);
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
    if module.op(op).kind() == OpKind::Sdy(SdyOp::ManualComputation) {
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
