//! Removes the attributes that record where placements came from.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions, Walk};

/// These attributes.
const NOTES: &[&str] = &[
    "sdy.propagation_edges",
    "sdy.block_arg_propagation_edges",
    "sdy.result_propagation_edges",
    "sdy.sharding_origins",
    "sdy.block_arg_sharding_origins",
    "sdy.result_sharding_origins",
];

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-remove-propagation-debug-info",
    summary: "Remove attributes that record where placements came from",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    module.attrs.retain(|name, _| !NOTES.contains(&name));
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == ControlOp::Func {
            module.retain_slot_attrs(op, |name| !NOTES.contains(&name));
        } else {
            module.op_mut(op).attrs.retain(|name, _| !NOTES.contains(&name));
        }
    }
    Ok(())
}
