//! The judge: what the exact plan of an annotated program costs.

use meshwork_ir::Module;
use meshwork_partition::plan::simulate;
use meshwork_partition::{CompileError, CompileOptions, Compiled, Machine, Plan, compile};

/// What a plan costs.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Verdict {
    /// Predicted seconds of a run.
    pub seconds: f64,
    /// Bytes a device needs at most.
    pub peak: i64,
    /// Bytes a device sends.
    pub sent: f64,
    /// Seconds in which the device computes.
    pub compute: f64,
    /// Seconds of communication, hidden behind arithmetic or not.
    pub communication: f64,
    /// The share of the run that products would take at the device's peak.
    pub utilization: f64,
}

/// Judges a compiled program.
pub fn judge(compiled: &Compiled, machine: &Machine) -> Verdict {
    let run = simulate(compiled, machine);
    Verdict {
        seconds: run.seconds,
        peak: compiled.plan.peak.bytes,
        // The sum of nothing is -0.
        sent: compiled.plan.wire_bytes() + 0.0,
        compute: run.compute_seconds,
        communication: run.communication_seconds,
        utilization: run.utilization,
    }
}

/// Compiles `module` and judges it.
pub fn plan_of(module: &Module, machine: &Machine) -> Result<(Verdict, Plan), CompileError> {
    let options = CompileOptions { machine: machine.clone(), ..CompileOptions::default() };
    let compiled = compile(module, &options)?;
    Ok((judge(&compiled, machine), compiled.plan))
}
