//! The judge: what the exact plan of an annotated program costs.

use meshwork_ir::Module;
use meshwork_partition::plan::ops;
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
    /// Seconds of arithmetic and memory traffic.
    pub compute: f64,
    /// Seconds of communication, hidden behind arithmetic or not.
    pub communication: f64,
}

/// Judges a compiled program.
pub fn judge(compiled: &Compiled, machine: &Machine) -> Verdict {
    let list = ops(compiled, machine);
    let takes = |op: &meshwork_partition::plan::PlannedOp| if op.counted { op.seconds * op.trips as f64 } else { 0.0 };
    let of = |collective: bool| list.iter().filter(|op| op.collective.is_some() == collective).map(takes).sum::<f64>();
    Verdict {
        seconds: list.iter().map(|op| op.start + takes(op)).fold(0.0, f64::max),
        peak: compiled.plan.peak.bytes,
        sent: compiled.plan.wire_bytes(),
        compute: of(false),
        communication: of(true),
    }
}

/// Compiles `module` and judges it.
pub fn plan_of(module: &Module, machine: &Machine) -> Result<(Verdict, Plan), CompileError> {
    let options = CompileOptions { machine: machine.clone(), ..CompileOptions::default() };
    let compiled = compile(module, &options)?;
    Ok((judge(&compiled, machine), compiled.plan))
}
