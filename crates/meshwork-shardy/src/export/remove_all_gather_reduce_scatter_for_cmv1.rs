//! Removes an all-gather before, or a reduce-scatter after, a dot: the backend fuses them into the dot.

use meshwork_ir::op::{ContractOp, SdyOp};
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, Walk};
use meshwork_propagate::program::{SHARDING, sharding_of};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-remove-all-gather-reduce-scatter-for-cmv1",
    summary: "Remove all-gathers before and reduce-scatters after a dot",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let mut redundant: Vec<OpId> = vec![];
    for dot in module.all_ops(Walk::PostOrder) {
        if !matches!(module.op(dot).kind(), OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral)) {
            continue;
        }
        let gathers: Vec<OpId> = single_use_gathers(module, dot);
        if !gathers.is_empty() {
            redundant.extend(gathers);
            continue;
        }
        let result = module.result(dot);
        let &[only] = module.value(result).uses() else { continue };
        let is_complete = sharding_of(module, result).is_some_and(|s| s.unreduced.is_empty());
        if module.op(only.op).kind() == SdyOp::ReduceScatter && is_complete {
            if let Some(scattered) = sharding_of(module, module.result(only.op)) {
                module.op_mut(dot).attrs.set(SHARDING, Attr::ShardingPerValue([scattered].into()));
            }
            redundant.push(only.op);
        }
    }
    for op in redundant {
        let input = module.op(op).operands()[0];
        module.replace_op(op, &[input]);
    }
    Ok(())
}

fn single_use_gathers(module: &Module, dot: OpId) -> Vec<OpId> {
    let is_single_gather =
        |&op: &OpId| module.op(op).kind() == SdyOp::AllGather && module.value(module.result(op)).uses().len() == 1;
    module.op(dot).operands().iter().filter_map(|&v| module.def_op(v)).filter(is_single_gather).collect()
}
