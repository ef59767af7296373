//! Simplifies manual computations: drops unused arguments, inlines those over one device, erases empty ones.

use meshwork_ir::op::SdyOp;
use meshwork_ir::transform::canonicalize::Pattern;
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{Meshes, manual_axes, sharding_list};

/// The patterns of this file.
pub const PATTERNS: &[(OpKind, Pattern)] = &[
    (OpKind::Sdy(SdyOp::ManualComputation), drop_unused_arguments),
    (OpKind::Sdy(SdyOp::ManualComputation), inline_redundant),
];

fn drop_unused_arguments(module: &mut Module, op: OpId) -> bool {
    let Some(body) = module.body_of(op, 0) else { return false };
    let used: Vec<bool> = module.block(body).args().iter().map(|&a| !module.value(a).uses().is_empty()).collect();
    if used.iter().all(|&u| u) {
        return false;
    }
    let operands: Vec<ValueId> =
        module.op(op).operands().iter().zip(&used).filter(|(_, used)| **used).map(|(&v, _)| v).collect();
    let shardings: Vec<Sharding> = sharding_list(module, op, "in_shardings")
        .unwrap_or(&[])
        .iter()
        .zip(&used)
        .filter(|(_, used)| **used)
        .map(|(s, _)| s.clone())
        .collect();
    module.set_operands(op, operands);
    module.op_mut(op).attrs.set("in_shardings", Attr::ShardingPerValue(shardings.into()));
    for i in (0..used.len()).rev().filter(|&i| !used[i]) {
        module.remove_block_arg(body, i);
    }
    true
}

fn inline_redundant(module: &mut Module, op: OpId) -> bool {
    let Some(body) = module.body_of(op, 0) else { return false };
    let list = |name| sharding_list(module, op, name).unwrap_or(&[]);
    let all: Vec<&Sharding> = list("in_shardings").iter().chain(list("out_shardings")).collect();
    if !all.is_empty() {
        let meshes = Meshes::of(module);
        let Some((_, mesh)) = meshes.common(all) else { return false };
        if manual_axes(module, op).iter().any(|axis| axis.size(mesh) != 1) {
            return false;
        }
    }
    let operands = module.op(op).operands().to_vec();
    for (arg, operand) in module.block(body).args().to_vec().into_iter().zip(operands) {
        module.replace_all_uses(arg, operand);
    }
    let returned = module.returned(body).to_vec();
    for (result, value) in module.op(op).results().to_vec().into_iter().zip(returned) {
        module.replace_all_uses(result, value);
    }
    for inner in module.op_list(body) {
        if !module.op(inner).kind().is_terminator() {
            module.move_before(inner, op);
        }
    }
    module.erase(op);
    true
}
