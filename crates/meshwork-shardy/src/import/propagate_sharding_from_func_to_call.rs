//! Gives calls without placements those of the results of the function.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, Pass, PassOptions, Walk};
use meshwork_propagate::program::{Meshes, SHARDING, Symbols, callee, sharding_list};

use crate::calls::func_result_shardings;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-propagate-sharding-from-func-to-call",
    summary: "Give calls without placements those of the function's results",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let (symbols, meshes) = (Symbols::of(module), Meshes::of(module));
    for call in module.all_ops(Walk::PostOrder) {
        if module.op(call).kind() != ControlOp::Call || sharding_list(module, call, SHARDING).is_some() {
            continue;
        }
        let func = callee(module, &symbols, call, diags)?;
        if let Some(shardings) = func_result_shardings(module, func, &meshes) {
            module.op_mut(call).attrs.set(SHARDING, Attr::ShardingPerValue(shardings.into()));
        }
    }
    Ok(())
}
