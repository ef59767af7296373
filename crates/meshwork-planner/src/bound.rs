//! A bound on any plan: time that no way to split a program can save.

use meshwork_ir::op::ContractOp;
use meshwork_ir::transform::{cse, dead};
use meshwork_ir::{Module, OpId, OpKind, Walk};
use meshwork_partition::Machine;
use meshwork_partition::plan::op_flops;

/// Seconds that a run takes at least on `devices` devices: every product is computed once, by devices that share its arithmetic
/// and its memory traffic evenly, and nothing else takes any time.
///
/// Products inside loops count once, so the bound is low for programs that spend their time there.
pub fn lower_bound(module: &Module, machine: &Machine, devices: i64) -> f64 {
    let mut module = module.clone();
    cse::eliminate(&mut module);
    dead::remove_dead(&mut module);
    let Some(func) = module.entry() else { return 0.0 };
    let is_product = |op: &OpId| {
        matches!(
            module.op(*op).kind(),
            OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution)
        )
    };
    let products = module.ops_below(func, Walk::PreOrder).into_iter().filter(is_product);
    let seconds = products.map(|op| machine.device.seconds(op_flops(&module, op), touched(&module, op)));
    seconds.sum::<f64>() / devices.max(1) as f64
}

/// Bytes of the operands and results of `op`.
fn touched(module: &Module, op: OpId) -> f64 {
    let data = module.op(op);
    let mut operands = data.operands().to_vec();
    operands.sort_unstable();
    operands.dedup();
    let values = operands.iter().chain(data.results());
    let bytes = values.filter_map(|&v| {
        let ty = module.ty(v).as_tensor()?;
        Some(ty.num_elements()? as f64 * ty.elem.storage_bytes() as f64)
    });
    bytes.sum()
}
