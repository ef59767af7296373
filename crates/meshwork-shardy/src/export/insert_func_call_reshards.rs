//! Gives calls the placements of the results of the function, and reshards to what the call had.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, Pass, PassOptions, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{Meshes, SHARDING, Symbols, callee, sharding_list, sharding_of};

use super::cursor::Cursor;
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
        if module.op(call).kind() == ControlOp::Call {
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
        // No placement means a copy everywhere.
        let fits = match &wanted {
            Some(wanted) => in_func.is_equivalent(wanted),
            None => in_func.is_fully_replicated() && in_func.unreduced.is_empty(),
        };
        if !fits {
            let sharding = wanted.unwrap_or_else(|| closed(in_func));
            let resharded = Cursor::After(call).reshard(module, result, sharding);
            module
                .replace_uses_if(result, resharded, |module, u| module.op(u.op).results().first() != Some(&resharded));
        }
    }
    module.op_mut(call).attrs.set(SHARDING, Attr::ShardingPerValue(in_func.into()));
}
