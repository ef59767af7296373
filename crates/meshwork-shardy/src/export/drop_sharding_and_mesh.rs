//! Removes all placements and meshes.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions, Walk};
use meshwork_propagate::program::{SHARDING, mesh_ops};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-drop-sharding-and-mesh",
    summary: "Remove all sdy.sharding attributes and all meshes",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    for op in module.all_ops(Walk::PreOrder) {
        module.op_mut(op).attrs.remove(SHARDING);
        if module.op(op).kind() == ControlOp::Func {
            module.retain_slot_attrs(op, |name| name != SHARDING);
        }
    }
    for mesh in mesh_ops(module) {
        module.erase(mesh);
    }
    Ok(())
}
