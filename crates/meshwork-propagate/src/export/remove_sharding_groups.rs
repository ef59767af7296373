//! Removes all sharding groups.

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Diagnostic, Failed, Module, OpKind, Pass, PassOptions, Walk};

/// The pass.
pub const PASS: Pass =
    Pass { name: "sdy-remove-sharding-groups", summary: "Remove all sharding groups", options: &[], run };

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    for op in module.all_ops(Walk::PostOrder) {
        if module.op(op).kind() == OpKind::Sdy(SdyOp::ShardingGroup) {
            module.erase(op);
        }
    }
    Ok(())
}
