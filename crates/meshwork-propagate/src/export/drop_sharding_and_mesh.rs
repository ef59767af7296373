//! Removes all placements and meshes.

use meshwork_ir::{Diagnostic, Failed, Module, OpKind, Pass, PassOptions, Walk};

use crate::meshes::mesh_ops;
use crate::values::SHARDING;

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
        if module.op(op).kind() == OpKind::Func {
            let ty = module.func_type(op);
            (0..ty.inputs.len()).for_each(|i| module.set_arg_attr(op, i, SHARDING, None));
            (0..ty.results.len()).for_each(|i| module.set_res_attr(op, i, SHARDING, None));
        }
    }
    for mesh in mesh_ops(module) {
        module.erase(mesh);
    }
    Ok(())
}
