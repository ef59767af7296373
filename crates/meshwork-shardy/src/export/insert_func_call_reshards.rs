//! Gives calls the placements of the results of the function, and reshards to what the call had.

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, OpKind, OpSpec, Pass, PassOptions, ValueId, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::import::{insert_after_value, replace_other_uses};
use meshwork_propagate::program::{Meshes, SHARDING, Symbols, callee, sharding_list, sharding_of};

use crate::calls::func_result_shardings;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-insert-func-call-reshards",
    summary: "Reshard results of calls where they are placed differently in the function",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let (symbols, meshes) = (Symbols::of(module), Meshes::of(module));
    for call in module.all_ops(Walk::PostOrder) {
        if module.op(call).kind() == OpKind::Control(ControlOp::Call) {
            let func = callee(module, &symbols, call, diags)?;
            reshard_results(module, &meshes, call, func);
        }
    }
    Ok(())
}

fn reshard_results(module: &mut Module, meshes: &Meshes, call: OpId, func: OpId) {
    let closed = |s: &Sharding| Sharding::fully_closed(s.mesh.clone(), s.rank());
    let in_call = || sharding_list(module, call, SHARDING).map(|list| list.iter().map(closed).collect());
    let Some(in_func) = func_result_shardings(module, func, meshes).or_else(in_call) else { return };
    let results = module.op(call).results().to_vec();
    for (result, in_func) in results.into_iter().zip(&in_func) {
        let wanted = sharding_of(module, result);
        if !is_equivalent(Some(in_func), wanted.as_ref()) {
            let reshard = create_reshard(module, result, wanted.unwrap_or_else(|| closed(in_func)));
            insert_after_value(module, result, reshard);
            replace_other_uses(module, result, reshard);
        }
    }
    module.op_mut(call).attrs.set(SHARDING, Attr::ShardingPerValue(in_func.into()));
}

/// A detached `sdy.reshard` of `value`.
pub fn create_reshard(module: &mut Module, value: ValueId, sharding: Sharding) -> OpId {
    let loc = module.def_op(value).map(|op| module.op(op).loc.clone()).unwrap_or_default();
    let spec = OpSpec::new(OpKind::Sdy(SdyOp::Reshard))
        .operands([value])
        .results([module.ty(value).clone()])
        .attr("sharding", Attr::Sharding(Arc::new(sharding)))
        .loc(loc);
    module.create(spec)
}

/// Whether both give an array the same placement; no placement means replicated.
pub fn is_equivalent(first: Option<&Sharding>, second: Option<&Sharding>) -> bool {
    let is_copy = |s: &Sharding| s.is_fully_replicated() && s.unreduced.is_empty();
    match (first, second) {
        (Some(a), Some(b)) => a.is_equivalent(b),
        (Some(s), None) | (None, Some(s)) => is_copy(s),
        (None, None) => true,
    }
}
