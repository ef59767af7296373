//! What a run of a plan takes on a machine: time, what of it is communication, memory.

mod fuse;
mod schedule;
mod times;

use meshwork_ir::Module;

use crate::compile::Compiled;
use crate::plan::Plan;
use crate::plan::cost::{Class, Machine};
use crate::plan::ops::{PlannedOp, list};

pub use schedule::Lane;

/// A predicted run of one device.
#[derive(Clone, PartialEq, Debug)]
pub struct Simulation {
    /// From the first operation to the end of the last.
    pub seconds: f64,
    /// How long the device computes.
    pub compute_seconds: f64,
    /// How long its collectives take together, hidden or not.
    pub communication_seconds: f64,
    /// The links of each mesh axis, in the order of their first collective; `given` are collectives whose devices the
    /// program lists.
    pub lanes: Vec<Lane>,
    /// The most bytes alive at once.
    pub peak_bytes: i64,
    /// The share of the run that the arithmetic of products and convolutions would take at the device's peak.
    pub utilization: f64,
    /// The operations in order, with start and time of each.
    pub ops: Vec<PlannedOp>,
}

impl Simulation {
    /// Seconds in which the device waits for collectives.
    pub fn exposed_seconds(&self) -> f64 {
        self.lanes.iter().map(|lane| lane.exposed_seconds).sum()
    }
}

/// Predicts a run of `compiled` on `machine`. Takes time in proportion to the operations of the per-device program.
///
/// ```
/// use meshwork_partition::plan::{Machine, simulate};
/// use meshwork_partition::{CompileOptions, compile};
///
/// let program = meshwork_ir::text::parse(
///     r#"sdy.mesh @mesh = <["x"=2]>
///     func.func @main(%a: tensor<256x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<256x256xf32> {
///       %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [1]
///         : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
///       return %0 : tensor<256x256xf32>
///     }"#,
/// )?;
/// let compiled = compile(&program, &CompileOptions::default())?;
/// let run = simulate(&compiled, &Machine::default());
/// // Nothing can be computed while the parts of the only product are added.
/// assert!((run.seconds - run.compute_seconds - run.exposed_seconds()).abs() < 1e-12);
/// assert_eq!(run.lanes[0].axis, "x");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn simulate(compiled: &Compiled, machine: &Machine) -> Simulation {
    simulate_program(&compiled.module, &compiled.plan, machine)
}

/// [`simulate`] of a per-device program and its plan.
pub(crate) fn simulate_program(module: &Module, plan: &Plan, machine: &Machine) -> Simulation {
    let mut ops = list(module, plan, machine);
    let leader = times::set_times(module, &mut ops, machine, plan.devices());
    let lost: Vec<f64> = plan.collectives.iter().map(|c| machine.lost_beside(c, &plan.mesh)).collect();
    let mut times = schedule::schedule(&mut ops, &leader, plan, &lost);
    times.end += machine.host.as_ref().map_or(0.0, |host| host.run_us * 1e-6);
    let peak = ops.iter().map(|op| op.alive).max().unwrap_or(0);
    let at_peak: f64 = ops.iter().map(|op| peak_seconds(module, op, machine) * op.runs()).sum();
    Simulation {
        seconds: times.end,
        compute_seconds: times.computing,
        communication_seconds: times.lanes.iter().map(|lane| lane.busy_seconds).sum(),
        lanes: times.lanes,
        peak_bytes: peak,
        utilization: if times.end > 0.0 { at_peak / times.end } else { 0.0 },
        ops,
    }
}

/// Seconds of the arithmetic of a product at the peak of its element type; nothing for other operations.
fn peak_seconds(module: &Module, op: &PlannedOp, machine: &Machine) -> f64 {
    let data = module.op(op.op);
    let elem = data.operands().first().and_then(|&v| module.ty(v).as_tensor()).map(|t| t.elem);
    match (Class::of(data.kind()), elem) {
        (class, Some(elem)) if class.is_product() => op.flops / (machine.device.peak(class, elem) * 1e12),
        _ => 0.0,
    }
}
