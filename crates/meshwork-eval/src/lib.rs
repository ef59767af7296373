#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod attrs;
mod batch_norm;
mod body;
mod callback;
mod check;
mod collective;
mod contract;
mod control;
mod conv;
mod custom_call;
mod dispatch;
mod elementwise;
mod error;
mod fault;
mod fft;
mod foreign;
mod gather;
mod hub;
mod index;
mod lapack;
mod linalg;
mod machine;
mod manual;
mod matrix;
mod movement;
mod nums;
mod parallel;
mod ragged;
mod reduce;
mod refine;
mod reflectors;
mod rng;
pub mod scalar;
mod schur;
mod single;
mod sort;
pub mod special;
mod stats;
mod value;
mod window;

pub use callback::{CALLBACK_TARGET, Callback, forget_calls, set_callback};
pub use error::EvalError;
pub use foreign::{Foreign, ForeignCall, set_foreign};
pub use refine::{is_symbolic, refine};
pub use single::{SingleOp, captures, run_op};
pub use stats::{CollectiveStats, Stats};

use machine::{Machine, STACK_BYTES, Site, StartedBy};
use meshwork_ir::{DeviceGrid, Literal, Module, OpId};
use parallel::{Job, run_grid};
use value::Val;

/// The most devices that a program is evaluated on.
pub const MAX_DEVICES: usize = 4096;

/// Results and observations of a run.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The results of each device, tuples flattened and tokens left out.
    pub results: Vec<Vec<Literal>>,
    /// What it cost on device 0.
    pub stats: Stats,
    /// What `interpreter.print` printed, device after device.
    pub printed: Vec<String>,
}

/// Runs `func` (by default the module's entry function) on one device. Shardings have no effect on the values; a
/// manual computation runs on all devices of its mesh.
pub fn run(module: &Module, func: Option<&str>, args: &[Literal]) -> Result<Vec<Literal>, EvalError> {
    let mut outcome = run_observed(module, func, args)?;
    Ok(outcome.results.swap_remove(0))
}

/// [`run`], with statistics and printed text; `results` has one entry.
pub fn run_observed(module: &Module, func: Option<&str>, args: &[Literal]) -> Result<Outcome, EvalError> {
    let func = find(module, func)?;
    check_args(module, func, args)?;
    let work = || {
        let grid = DeviceGrid { replicas: 1, partitions: 1 };
        let mut machine = Machine::new(module, Site { device: 0, grid, hub: None, started: StartedBy::Run });
        let args = args.iter().map(|x| machine.hold(x.clone())).collect();
        let values = machine.call(func, args, func)?;
        let mut stats = std::mem::take(&mut machine.effects.stats);
        stats.peak_bytes = stats.peak_bytes.max(machine.meter.peak());
        Ok(Outcome { results: vec![flatten(&values)], stats, printed: machine.effects.printed })
    };
    // A thread of its own, because nested bodies need a deep stack.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
        match thread.map(|t| t.join()) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(EvalError::invalid(module, func, PANICKED)),
            Err(e) => Err(EvalError::unsupported(module, func, format!("no thread to run on: {e}"))),
        }
    })
}

/// Runs the per-device program `func` on all devices of `grid` in lock step, each on its own arguments; device
/// `replica * grid.partitions + partition` gets the arguments at that place.
pub fn run_devices(
    module: &Module,
    func: Option<&str>,
    args: Vec<Vec<Literal>>,
    grid: DeviceGrid,
) -> Result<Vec<Vec<Literal>>, EvalError> {
    Ok(run_devices_observed(module, func, args, grid)?.results)
}

/// [`run_devices`], with statistics and printed text.
pub fn run_devices_observed(
    module: &Module,
    func: Option<&str>,
    args: Vec<Vec<Literal>>,
    grid: DeviceGrid,
) -> Result<Outcome, EvalError> {
    let func = find(module, func)?;
    if args.len() != grid.len() || grid.is_empty() {
        let message = format!(
            "arguments for {} devices, but there are {} replicas of {} partitions",
            args.len(),
            grid.replicas,
            grid.partitions
        );
        return Err(EvalError::invalid(module, func, message));
    }
    for given in &args {
        check_args(module, func, given)?;
    }
    let Some(block) = module.body_of(func, 0) else {
        return Err(EvalError::unsupported(module, func, "it is declared but has no body"));
    };
    let site = Site { device: 0, grid: DeviceGrid { replicas: 1, partitions: 1 }, hub: None, started: StartedBy::Run };
    let mut host = Machine::new(module, site);
    let job = |args: Vec<Literal>| Job { block, owner: func, args: args.into_iter().map(Val::loose).collect() };
    let jobs = args.into_iter().map(job).collect();
    let values = run_grid(&mut host, grid, jobs, StartedBy::Run)?;
    let results = values.iter().map(|v| flatten(v)).collect();
    Ok(Outcome { results, stats: host.effects.stats, printed: host.effects.printed })
}

/// The error of a program on which the evaluator panics. The verifier refuses all programs known to do that.
pub(crate) const PANICKED: &str = "the evaluator panicked, which should not happen on a verified program";

fn find(module: &Module, name: Option<&str>) -> Result<OpId, EvalError> {
    let found = match name {
        Some(name) => module.func(name),
        None => module.entry(),
    };
    found.ok_or_else(|| EvalError::Invalid {
        op: "module".into(),
        message: match name {
            Some(name) => format!("there is no function @{name}"),
            None => "there is no function @main, nor a single function".into(),
        },
    })
}

fn check_args(module: &Module, func: OpId, args: &[Literal]) -> Result<(), EvalError> {
    let inputs = module.func_type(func).inputs;
    if inputs.len() != args.len() {
        let message = format!("it takes {} arguments, {} given", inputs.len(), args.len());
        return Err(EvalError::invalid(module, func, message));
    }
    for (i, (ty, arg)) in inputs.iter().zip(args).enumerate() {
        let fits =
            ty.as_tensor().is_some_and(|t| t.elem == arg.elem() && (!t.is_static() || t.dims.as_slice() == arg.dims()));
        if !fits {
            let message = format!("argument {i} is declared {ty}, the array given is {}", arg.ty());
            return Err(EvalError::invalid(module, func, message));
        }
    }
    Ok(())
}

fn flatten(values: &[Val]) -> Vec<Literal> {
    let mut out = vec![];
    values.iter().for_each(|value| value.flatten(&mut out));
    out
}
