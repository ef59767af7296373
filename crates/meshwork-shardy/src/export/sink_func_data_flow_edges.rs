//! Writes the placement of every edge between functions back to its input and removes the edge.

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{set_sharding, sharding_of};
use meshwork_propagate::settle::remove_edge;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-sink-func-data-flow-edges",
    summary: "Write placements of edges between functions back to their inputs and remove the edges",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() != SdyOp::FuncDataFlowEdge {
            continue;
        }
        let (input, result) = (module.op(op).operands()[0], module.result(op));
        let open = |s: Sharding| Sharding::fully_open(s.mesh.clone(), s.rank());
        let sharding = sharding_of(module, result).or_else(|| sharding_of(module, input).map(open));
        if let Some(sharding) = sharding {
            set_sharding(module, input, sharding);
        }
        remove_edge(module, op);
    }
    Ok(())
}
