//! `meshwork run`: execute a program on arrays from `.npy` and `.npz` files.

use std::path::{Path, PathBuf};

use meshwork_eval::Stats;
use meshwork_ir::transform::entry::make_entry;
use meshwork_ir::{Literal, Module, OpId, TensorType, Type, npy, npz};

use meshwork_partition::{CompileOptions, Plan};
use meshwork_runtime::Runtime;
use serde_json::{Map, Value, json};

use crate::engine::{self, Engine};
use crate::fail::Failure;
use crate::source::{Source, entry_function, write_stdout};
use crate::{parallel, processes, show, stages};

/// Execute a program
///
/// Runs @main, or the only function of the module, on the devices of its mesh. Inputs are given in the order of the
/// function's arguments; an .npz file gives all its arrays in the order they were saved. NumPy has no bf16 and f8
/// types: their bits travel as uint16 and uint8, sub-byte integers as int8 and uint8. Checks in the program
/// (check.expect_eq and its kin) decide the exit status. Programs that the engine cannot compile, with extents
/// known at run time only for instance, run on the reference evaluator, and a note says so. MESHWORK_THREADS sets
/// the number of threads. Under mpirun the devices of the mesh are spread over the processes; all of them read the
/// inputs, and the first one writes the results.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork run model.mlir x.npy w.npy\n  \
    meshwork run model.mlir inputs.npz --out results\n  \
    cat model.mlir | meshwork run - --entry loss\n\n\
    Exit status: 0 success, 1 a check in the program failed, 2 an error, 77 not supported.")]
pub struct Args {
    /// Program to run; `-` reads standard input
    file: String,
    /// Inputs: .npy or .npz files
    #[arg(value_name = "IN.npy")]
    inputs: Vec<PathBuf>,
    /// Write results to DIR/0.npy, DIR/1.npy, ... instead of printing them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Function to run instead of @main
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Write what the run cost (collectives and their bytes) to FILE as JSON
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// What runs the program
    #[arg(long, value_enum, default_value_t = Engine::Cpu)]
    engine: Engine,
    /// Write what ran when to FILE, for chrome://tracing or Perfetto, and print the ten longest steps
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let runtime = processes::join()?;
    let source = processes::read_source(&runtime, &args.file)?;
    let module = source.module()?;
    let entry = entry_function(&module, args.entry.as_deref())?;
    let given = read_inputs(&args.inputs)?;
    let inputs = check_inputs(&module, entry, given)?;
    let outcome = if stages::is_sharded(&module) {
        execute_partitioned(args, &source, &module, entry, &inputs)?
    } else {
        match spread(args, &runtime, &source, &module, entry, &inputs)? {
            Some(outcome) => outcome,
            None => execute(args, &source, &module, entry, &inputs)?,
        }
    };
    if runtime.rank() != 0 {
        return Ok(());
    }
    if let Some(path) = &args.stats {
        write_file(path, format!("{}\n", outcome.stats).as_bytes())?;
    }
    match &args.out {
        Some(dir) => write_results(dir, &outcome.results),
        None => write_stdout(&show::results(&outcome.results)),
    }
}

/// What running a program gives.
struct Outcome {
    results: Vec<Literal>,
    /// The contents of `--stats`.
    stats: Value,
}

/// Runs a program that starts others on several devices itself, if there are several processes for them.
fn spread(
    args: &Args,
    runtime: &Runtime,
    source: &Source,
    module: &Module,
    entry: OpId,
    inputs: &[Literal],
) -> Result<Option<Outcome>, Failure> {
    if args.engine != Engine::Cpu || !runtime.is_distributed() {
        return Ok(None);
    }
    let results = parallel::run(runtime, source, module, entry, inputs)?;
    Ok(results.map(|results| Outcome { results, stats: stats_json(&Stats::default()) }))
}

/// Runs the program on one device.
fn execute(args: &Args, source: &Source, module: &Module, entry: OpId, inputs: &[Literal]) -> Result<Outcome, Failure> {
    let name = module.symbol_name(entry);
    if args.engine == Engine::Cpu
        && let Some(executable) = engine::compile(module, name, 1)
    {
        let results = engine::run(source, &executable, inputs, args.profile.as_deref())?;
        let stats = Stats { peak_bytes: engine::peak_bytes(&executable) as u64, ..Stats::default() };
        return Ok(Outcome { results, stats: stats_json(&stats) });
    }
    no_profile(args);
    let mut outcome = stages::run(source, module, name, inputs)?;
    for line in outcome.printed.iter().filter(|_| processes::reports()) {
        write_stdout(&format!("{line}\n"))?;
    }
    let results = outcome.results.pop().unwrap_or_default();
    Ok(Outcome { results, stats: stats_json(&outcome.stats) })
}

/// Splits the program over its mesh and runs it on that many devices.
fn execute_partitioned(
    args: &Args,
    source: &Source,
    module: &Module,
    entry: OpId,
    inputs: &[Literal],
) -> Result<Outcome, Failure> {
    let mut module = module.clone();
    make_entry(&mut module, entry);
    let program = stages::partition(source, &module, &CompileOptions::default())?;
    let stats = plan_json(&program.plan);
    if args.engine == Engine::Cpu
        && let Some(executable) = engine::compile(&program.module, None, program.devices())
    {
        let results = engine::run_partitioned(source, &executable, &program, inputs, args.profile.as_deref())?;
        return Ok(Outcome { results, stats });
    }
    no_profile(args);
    let results = stages::run_partitioned(source, &program, inputs)?;
    Ok(Outcome { results, stats })
}

fn no_profile(args: &Args) {
    if args.profile.is_some() && processes::reports() {
        eprintln!("note: the evaluator writes no profile");
    }
}

/// Totals of a plan. A loop whose trip count is not known counts once.
fn plan_json(plan: &Plan) -> Value {
    let kinds = plan.totals().into_iter().map(|(kind, t)| {
        let counts = json!({ "count": t.count, "operand_bytes": t.operand_bytes, "wire_bytes": t.wire_bytes });
        (kind.to_string(), counts)
    });
    json!({
        "collectives": kinds.collect::<Map<_, _>>(),
        "peak_bytes_per_device": plan.peak.bytes,
        "unknown_trip_counts": plan.has_unknown_trip_counts(),
    })
}

/// What the evaluator counted while the program ran.
fn stats_json(stats: &Stats) -> Value {
    let kinds = stats.collectives.iter().map(|(kind, c)| {
        let counts = json!({ "count": c.count, "operand_bytes": c.operand_bytes, "wire_bytes": c.wire_bytes });
        (kind.to_string(), counts)
    });
    json!({ "collectives": kinds.collect::<Map<_, _>>(), "peak_bytes_per_device": stats.peak_bytes })
}

/// An array and where it came from.
struct Given {
    from: String,
    array: Literal,
}

fn read_inputs(paths: &[PathBuf]) -> Result<Vec<Given>, Failure> {
    let mut given = vec![];
    for path in paths {
        let shown = path.display();
        let bytes = std::fs::read(path).map_err(|e| Failure::error(format!("cannot read {shown}: {e}")))?;
        if path.extension().is_some_and(|e| e == "npz") {
            for entry in npz::read(&bytes).map_err(|e| Failure::error(format!("{shown}: {e}")))? {
                let from = format!("{shown}[{}]", entry.name);
                let array = npy::read(&entry.bytes).map_err(|e| Failure::error(format!("{from}: {e}")))?;
                given.push(Given { from, array });
            }
        } else {
            let array = npy::read(&bytes).map_err(|e| Failure::error(format!("{shown}: {e}")))?;
            given.push(Given { from: shown.to_string(), array });
        }
    }
    Ok(given)
}

/// The arrays as the arguments of `entry`, or what does not fit.
fn check_inputs(module: &Module, entry: OpId, given: Vec<Given>) -> Result<Vec<Literal>, Failure> {
    let name = module.symbol_name(entry).unwrap_or_default();
    let types = module.func_type(entry).inputs;
    for (i, ty) in types.iter().enumerate() {
        if !ty.as_tensor().is_some_and(TensorType::is_static) {
            let message = format!("input {i} of @{name} has type {ty}; only tensors of known shape can be given");
            return Err(Failure::unsupported(message));
        }
    }
    if types.len() != given.len() {
        let list = types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
        return Err(Failure::error(format!(
            "@{name} takes {} ({list}), {} given",
            plural(types.len(), "input"),
            given.len()
        )));
    }
    let fit = types.iter().zip(given).enumerate().map(|(i, (ty, given))| {
        let Given { from, array } = given;
        let wrong = |have: &Literal| {
            Failure::error(format!(
                "input {i} ({from}): @{name} expects {ty}, the array is {} (dtype {})",
                have.ty(),
                npy::dtype_of(have.elem()),
            ))
        };
        let Some(tensor) = ty.as_tensor() else { return Err(wrong(&array)) };
        if tensor.dims.as_slice() != array.dims() {
            return Err(wrong(&array));
        }
        npy::reinterpret(array, tensor.elem).map_err(|array| wrong(&array))
    });
    fit.collect()
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn write_results(dir: &Path, results: &[Literal]) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|e| Failure::error(format!("cannot create {}: {e}", dir.display())))?;
    for (i, result) in results.iter().enumerate() {
        write_file(&dir.join(format!("{i}.npy")), &npy::write(result))?;
    }
    Ok(())
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| Failure::error(format!("cannot write {}: {e}", path.display())))
}
