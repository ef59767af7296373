//! A bound on any plan: time that no way to split a program can save.

use meshwork_ir::op::ContractOp;
use meshwork_ir::transform::{cse, dead};
use meshwork_ir::{Module, OpId, OpKind, ValueId, Walk};
use meshwork_partition::Machine;
use meshwork_partition::plan::{Class, op_flops};

/// Seconds that a run takes at least on `devices` devices: devices that share the products evenly compute them at their peak, and
/// arguments and results cross their memory once.
///
/// Products inside loops count once, so the bound is low for programs that spend their time there. It is 0 on a machine whose
/// devices share the threads of a host: what they take together is not known to be shared evenly.
pub fn lower_bound(module: &Module, machine: &Machine, devices: i64) -> f64 {
    if machine.host.is_some() {
        return 0.0;
    }
    let mut module = module.clone();
    cse::eliminate(&mut module);
    dead::remove_dead(&mut module);
    let Some(func) = module.entry() else { return 0.0 };
    let products =
        module.ops_below(func, Walk::PreOrder).into_iter().filter_map(|op| peak_seconds(&module, op, machine));
    let arithmetic: f64 = products.sum();
    let memory = if machine.device.caches.is_empty() {
        border_bytes(&module, func) / (machine.device.memory_gigabytes_per_second * 1e9)
    } else {
        0.0
    };
    arithmetic.max(memory) / devices.max(1) as f64
}

/// Seconds of a product at the peak of its element type.
fn peak_seconds(module: &Module, op: OpId, machine: &Machine) -> Option<f64> {
    let data = module.op(op);
    let kind =
        matches!(data.kind(), OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution));
    let elem = module.ty(*data.operands().first().filter(|_| kind)?).elem()?;
    Some(op_flops(module, op) / (machine.device.peak(Class::Product, elem) * 1e12))
}

/// Bytes of the arguments that are computed with and of the results that are computed.
fn border_bytes(module: &Module, func: OpId) -> f64 {
    let Some(body) = module.body_of(func, 0) else { return 0.0 };
    let bytes = |v: ValueId| {
        let ty = module.ty(v).as_tensor()?;
        Some(ty.num_elements()? as f64 * ty.elem.storage_bytes() as f64)
    };
    // What only renames or picks elements need not read them all.
    let is_arithmetic = |op: OpId| {
        matches!(module.op(op).kind(), OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) | OpKind::Contract(_))
    };
    let read =
        module.block(body).args().iter().filter(|&&v| module.value(v).uses().iter().any(|u| is_arithmetic(u.op)));
    let mut written = module.returned(body).to_vec();
    written.sort_unstable();
    written.dedup();
    let written = written.into_iter().filter(|&v| module.def_op(v).is_some_and(is_arithmetic));
    read.copied().chain(written).filter_map(bytes).sum()
}
