//! The judge: what the exact plan of an annotated program costs.

use meshwork_ir::Module;
use meshwork_partition::plan::{Simulation, simulate};
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

/// What a plan costs, and when its links are in use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timed {
    /// What it costs.
    pub verdict: Verdict,
    /// The links of each mesh axis that collectives go over.
    pub lanes: Vec<Held>,
}

/// When the links of a mesh axis are in use.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Held {
    /// The axis.
    pub axis: String,
    /// Seconds before the first collective.
    pub before: f64,
    /// Seconds of all collectives.
    pub during: f64,
    /// Seconds after the last collective.
    pub after: f64,
}

/// Judges a compiled program.
pub fn judge(compiled: &Compiled, machine: &Machine) -> Verdict {
    timed(compiled, machine).verdict
}

fn timed(compiled: &Compiled, machine: &Machine) -> Timed {
    let run = simulate(compiled, machine);
    let verdict = Verdict {
        seconds: run.seconds,
        peak: compiled.plan.peak.bytes,
        // The sum of nothing is -0.
        sent: compiled.plan.wire_bytes() + 0.0,
        compute: run.compute_seconds,
        communication: run.communication_seconds,
        utilization: run.utilization,
    };
    Timed { verdict, lanes: lanes(&run, &compiled.plan) }
}

fn lanes(run: &Simulation, plan: &Plan) -> Vec<Held> {
    let mut out: Vec<Held> = vec![];
    for op in &run.ops {
        let Some(c) = op.collective else { continue };
        let takes = op.seconds * op.runs();
        let rest = run.seconds - op.start - takes;
        let mut axes: Vec<&str> = plan.collectives[c].axes.iter().map(|axis| &*axis.name).collect();
        axes.dedup();
        for axis in axes {
            match out.iter_mut().find(|held| held.axis == axis) {
                Some(held) => {
                    held.before = held.before.min(op.start);
                    held.during += takes;
                    held.after = held.after.min(rest);
                }
                None => out.push(Held { axis: axis.into(), before: op.start, during: takes, after: rest }),
            }
        }
    }
    out
}

/// Compiles `module` and judges it.
pub fn timed_plan_of(module: &Module, machine: &Machine) -> Result<(Timed, Plan), CompileError> {
    let options = CompileOptions { machine: machine.clone(), ..CompileOptions::default() };
    let compiled = compile(module, &options)?;
    Ok((timed(&compiled, machine), compiled.plan))
}

/// Compiles `module` and says what it costs.
pub fn plan_of(module: &Module, machine: &Machine) -> Result<(Verdict, Plan), CompileError> {
    timed_plan_of(module, machine).map(|(timed, plan)| (timed.verdict, plan))
}
