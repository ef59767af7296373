//! A bound on any plan: time that no way to split a program can save.

use meshwork_ir::op::{ContractOp, ControlOp};
use meshwork_ir::transform::hoist::hoist;
use meshwork_ir::transform::inline::inline_all;
use meshwork_ir::transform::{cse, dead};
use meshwork_ir::{Module, OpId, OpKind, ValueId, Walk};
use meshwork_partition::Machine;
use meshwork_partition::plan::{Class, op_flops, trip_count};

/// Seconds that a run takes at least on `devices` devices: devices that share the products evenly compute them at the rate that
/// products reach, and start each of them; or arguments and results cross their memory once.
///
/// What a loop does not change counts once, as it may be computed before it; so do loops whose number of rounds is not known.
/// The bound is 0 on a machine whose devices share the threads of a host: what they take together is not known to be shared
/// evenly.
pub fn lower_bound(module: &Module, machine: &Machine, devices: i64) -> f64 {
    if machine.host.is_some() {
        return 0.0;
    }
    let mut module = module.clone();
    inline_all(&mut module);
    cse::eliminate(&mut module);
    hoist(&mut module, |_, _| true);
    cse::eliminate(&mut module);
    dead::remove_dead(&mut module);
    let Some(func) = module.entry() else { return 0.0 };
    let devices = devices.max(1) as f64;
    let seconds = |op: OpId| Some(product_seconds(&module, op, machine, devices)? * rounds(&module, op));
    let arithmetic: f64 = module.ops_below(func, Walk::PreOrder).into_iter().filter_map(seconds).sum();
    let memory = if machine.device.caches.is_empty() {
        border_bytes(&module, func) / (machine.device.memory_gigabytes_per_second * 1e9)
    } else {
        0.0
    };
    arithmetic.max(memory / devices)
}

/// Seconds of a product whose arithmetic `devices` devices share.
fn product_seconds(module: &Module, op: OpId, machine: &Machine, devices: f64) -> Option<f64> {
    let data = module.op(op);
    let kind = data.kind();
    let is_product =
        matches!(kind, OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution));
    let elem = module.ty(*data.operands().first().filter(|_| is_product)?).elem()?;
    let (class, flops) = (Class::of(kind), op_flops(module, op));
    let started = if flops > 0.0 { machine.device.curve(class).microseconds * 1e-6 } else { 0.0 };
    Some(started + machine.device.arithmetic_seconds(class, elem, flops / devices))
}

/// How often `op` runs: the product of the rounds of the loops around it, as far as they are known.
fn rounds(module: &Module, op: OpId) -> f64 {
    let (mut times, mut at) = (1.0, module.parent_op(op));
    while let Some(around) = at {
        if module.op(around).kind() == OpKind::Control(ControlOp::While) {
            times *= trip_count(module, around).unwrap_or(1) as f64;
        }
        at = module.parent_op(around);
    }
    times
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::plan_of;

    /// A product in a loop of seven rounds, one before it that the loop repeats, and one in a function of its own.
    fn program(placed: &str) -> Module {
        let x = "tensor<512x512xbf16>";
        let text = format!(
            r#"sdy.mesh @mesh = <["x"=8]>
            func.func @main(%a: {x} {{sdy.sharding = #sdy.sharding<@mesh, {placed}>}}, %b: {x}) -> {x} {{
              %zero = stablehlo.constant dense<0> : tensor<i32>
              %r:2 = stablehlo.while(%i = %zero, %y = %a) : tensor<i32>, {x}
              cond {{
                %n = stablehlo.constant dense<7> : tensor<i32>
                %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %p : tensor<i1>
              }} do {{
                %one = stablehlo.constant dense<1> : tensor<i32>
                %same = stablehlo.dot_general %b, %b, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
                %d = stablehlo.dot_general %y, %same, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
                %t = func.call @product(%d, %b) : ({x}, {x}) -> {x}
                %j = stablehlo.add %i, %one : tensor<i32>
                stablehlo.return %j, %t : tensor<i32>, {x}
              }}
              return %r#1 : {x}
            }}
            func.func private @product(%c: {x}, %d: {x}) -> {x} {{
              %0 = stablehlo.dot_general %c, %d, contracting_dims = [1] x [0] : ({x}, {x}) -> {x}
              return %0 : {x}
            }}"#
        );
        meshwork_ir::text::parse(&text).unwrap_or_else(|d| panic!("{}", d.render("test", &text)))
    }

    #[test]
    fn no_plan_is_faster() {
        let h100 = Machine::named("h100").expect("it is known");
        for machine in [Machine::default(), h100] {
            for placed in ["[{}, {}]", r#"[{"x"}, {}]"#, r#"[{}, {"x"}]"#] {
                let module = program(placed);
                let (verdict, _) = plan_of(&module, &machine).expect("it compiles");
                let bound = lower_bound(&module, &machine, 8);
                assert!(bound <= verdict.seconds * (1.0 + 1e-9), "{placed}: {bound} of {}", verdict.seconds);
                // Fifteen products: seven rounds of two, and one before.
                let alone = 2.0 * 512f64.powi(3) / 8.0;
                let class = Class::Product;
                let one = machine.device.curve(class).microseconds * 1e-6
                    + machine.device.arithmetic_seconds(class, meshwork_ir::ElementType::BF16, alone);
                assert!((bound / (15.0 * one) - 1.0).abs() < 1e-9, "{bound} of {}", 15.0 * one);
            }
        }
    }
}
