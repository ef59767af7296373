//! A bound on any plan: time that no way to split a program can save.

mod loops;
mod pieces;
mod places;
mod waits;

use meshwork_ir::op::{ContractOp, ControlOp, SdyOp};
use meshwork_ir::transform::hoist::hoist;
use meshwork_ir::transform::inline::inline_all;
use meshwork_ir::transform::{cse, dead};
use meshwork_ir::{Module, OpId, OpKind, Walk};
use meshwork_mesh::Mesh;
use meshwork_partition::Machine;
use meshwork_partition::plan::{Class, op_flops, trip_count};

/// What a run takes at least.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bounds {
    /// Seconds of any plan: devices that share the products evenly compute them at the rate that products reach, or move their operands
    /// and results through memory, and start each of them; beside these run the loops over elements ([`loops`]), which take at least as
    /// long as what they read and write. Collectives count nothing.
    pub computing: f64,
    /// Seconds of any plan in which axes of the mesh split dimensions as a whole, with what it waits for ([`waits`]); no less than
    /// `computing`.
    pub whole_axes: f64,
}

/// What a run takes at least on `mesh`.
///
/// Arithmetic and traffic of a device are one after the other in the simulated run, so the sum is a bound. What a loop does not change
/// counts once, as it may be computed before it; so do loops whose number of rounds is not known. Of branches nothing counts. The bounds
/// are 0 on a machine whose devices share the threads of a host: what they take together is not known to be shared evenly.
pub fn lower_bounds(module: &Module, machine: &Machine, mesh: &Mesh) -> Bounds {
    if machine.host.is_some() {
        return Bounds::default();
    }
    let mut module = module.clone();
    inline_all(&mut module);
    forget_constraints(&mut module);
    cse::eliminate(&mut module);
    hoist(&mut module, |_, _| true);
    cse::eliminate(&mut module);
    dead::remove_dead(&mut module);
    let Some((func, body)) = module.entry().and_then(|func| Some((func, module.body_of(func, 0)?))) else {
        return Bounds::default();
    };
    let devices = mesh.device_count().max(1) as f64;
    let seconds = |op: OpId| Some(product_seconds(&module, op, machine, devices)? * rounds(&module, op));
    let products: f64 = module.ops_below(func, Walk::PreOrder).into_iter().filter_map(seconds).sum();
    let loops = loops::least(&module, body);
    let start = [Class::Elementwise, Class::Function, Class::Reduction, Class::Columns, Class::Movement, Class::Other];
    let start =
        start.map(|class| machine.device.curve(class).microseconds * 1e-6).into_iter().fold(f64::INFINITY, f64::min);
    let computing = products + loops.started.len() as f64 * start + loops.bytes / devices / fastest(machine);
    let waits = waits::least(&module, body, machine, mesh, &waits::Computing::of(&loops, start));
    Bounds { computing, whole_axes: computing.max(waits) }
}

/// Bytes per second that no operation exceeds.
fn fastest(machine: &Machine) -> f64 {
    let device = &machine.device;
    device.caches.iter().map(|&(_, speed)| speed).fold(device.memory_gigabytes_per_second, f64::max) * 1e9
}

/// Takes out the constraints: they compute nothing.
fn forget_constraints(module: &mut Module) {
    let Some(func) = module.entry() else { return };
    for op in module.ops_below(func, Walk::PreOrder) {
        if module.op(op).kind() == SdyOp::ShardingConstraint {
            let (from, to) = (module.result(op), module.op(op).operands()[0]);
            module.replace_all_uses(from, to);
            module.erase(op);
        }
    }
}

fn is_product(module: &Module, op: OpId) -> bool {
    let kind = module.op(op).kind();
    matches!(kind, OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution))
}

/// Seconds of a product whose arithmetic `devices` devices share.
fn product_seconds(module: &Module, op: OpId, machine: &Machine, devices: f64) -> Option<f64> {
    let data = module.op(op);
    let kind = data.kind();
    let elem = module.ty(*data.operands().first().filter(|_| is_product(module, op))?).elem()?;
    let (class, flops) = (Class::of(kind), op_flops(module, op));
    let started = if flops > 0.0 { machine.device.curve(class).microseconds * 1e-6 } else { 0.0 };
    let arithmetic = machine.device.arithmetic_seconds(class, elem, flops / devices);
    Some(started + arithmetic.max(product_bytes(module, op, devices).unwrap_or(0.0) / fastest(machine)))
}

/// Bytes of operands and result of a product that each of `devices` devices touches at least.
///
/// A product of matrices `m x k` and `k x n`, `b` of them, is cut into parts of its four extents, at most `devices` together. With
/// `c` parts of the stack, the others are at most `devices / c` parts `x`, `y`, `z` of `m`, `k`, `n`, and the three arrays have
/// `mk/xy + kn/yz + mn/xz` elements in each, at least `3 (mkn)^(2/3) / (xyz)^(2/3)`: the mean of three numbers is not less than the
/// root of their product. That falls as `c` grows, which is at most `b`.
fn product_bytes(module: &Module, op: OpId, devices: f64) -> Option<f64> {
    let data = module.op(op);
    let (&[left, right], &[result]) = (data.operands(), data.results()) else { return None };
    if data.kind() != OpKind::Contract(ContractOp::DotGeneral) {
        return None;
    }
    let size =
        |v| Some((module.ty(v).as_tensor()?.num_elements()? as f64, module.ty(v).elem()?.storage_bytes() as f64));
    let ((left, left_bytes), (right, right_bytes), (out, out_bytes)) = (size(left)?, size(right)?, size(result)?);
    let (all, each) = (left * right * out, left_bytes.min(right_bytes).min(out_bytes));
    // left = b m k, right = b k n, out = b m n, and the arithmetic is b m k n multiplications.
    let steps = op_flops(module, op) / 2.0;
    if all <= 0.0 || steps <= 0.0 {
        return None;
    }
    let stack = all / (steps * steps);
    let parts = stack.clamp(1.0, devices);
    let inner = (steps / stack).powf(2.0 / 3.0);
    let cut = 3.0 * inner * stack / parts / (devices / parts).powf(2.0 / 3.0) * each;
    Some(cut.max((left * left_bytes + right * right_bytes + out * out_bytes) / devices))
}

/// How often `op` runs: the product of the rounds of the loops around it, as far as they are known; never, if it is in a branch.
fn rounds(module: &Module, op: OpId) -> f64 {
    let (mut times, mut at) = (1.0, module.parent_op(op));
    while let Some(around) = at {
        times *= match module.op(around).kind() {
            OpKind::Control(ControlOp::While) => trip_count(module, around).unwrap_or(1) as f64,
            OpKind::Control(ControlOp::Case | ControlOp::If) => 0.0,
            _ => 1.0,
        };
        at = module.parent_op(around);
    }
    times
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
                let mesh = Mesh::linear("x", 8).expect("a mesh");
                let bound = lower_bounds(&module, &machine, &mesh).computing;
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
