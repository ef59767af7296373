//! Turns every `sdy.sharding_constraint` into an `sdy.reshard`.

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Diagnostic, Failed, Module, OpId, OpKind, OpSpec, Pass, PassOptions, Walk};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-sharding-constraint-to-reshard",
    summary: "Turn every sdy.sharding_constraint into an sdy.reshard",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == OpKind::Sdy(SdyOp::ShardingConstraint) {
            to_reshard(module, op);
        }
    }
    Ok(())
}

fn to_reshard(module: &mut Module, constraint: OpId) {
    let result = module.result(constraint);
    let data = module.op(constraint);
    let mut spec = OpSpec::new(OpKind::Sdy(SdyOp::Reshard))
        .operands(data.operands().iter().copied())
        .results([module.ty(result).clone()])
        .loc(data.loc.clone());
    spec.attrs = data.attrs.clone();
    spec.pos = data.pos;
    let reshard = module.push_before(constraint, spec);
    module.replace_all_uses(result, module.result(reshard));
    module.erase(constraint);
}
