//! `meshwork run`: execute a program on arrays from `.npy` and `.npz` files.

use std::path::{Path, PathBuf};

use meshwork_eval::{Stats, is_symbolic, refine};
use meshwork_ir::transform::entry::make_entry;
use meshwork_ir::{DYNAMIC, Literal, Module, OpId, Type, npy, npz};
use meshwork_partition::{CompileOptions, Plan};
use meshwork_runtime::{Array, Fallback, Profile};
use serde_json::{Map, Value, json};

use crate::engines::EngineName;
use crate::fail::Failure;
use crate::source::{Source, entry_function, write_stdout};
use crate::{parallel, processes, show};

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
    /// What runs the program: cpu, evaluator (slow and obvious), or pjrt:PLUGIN for the devices of a PJRT plugin, which
    /// is a name (see `meshwork devices`) or the path of its library, followed by options as in
    /// pjrt:cpu,cpu_device_count=8
    #[arg(long, default_value = "cpu")]
    engine: EngineName,
    /// Write what ran when to FILE, for chrome://tracing or Perfetto, and print the ten longest steps
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let runtime = processes::join()?;
    let source = processes::read_source(&runtime, &args.file)?;
    let mut module = source.module()?;
    let entry = entry_function(&module, args.entry.as_deref())?;
    let inputs = check_inputs(&module, entry, read_inputs(&args.inputs)?)?;
    if is_symbolic(&module, entry) {
        let types: Vec<Type> = inputs.iter().map(Literal::ty).collect();
        module = refine(&module, entry, &types).map_err(|e| Failure::from_eval(&e, &source.name, &source.text))?;
    }
    if module.entry() != Some(entry) {
        make_entry(&mut module, entry);
    }
    let spread = args.engine == EngineName::Cpu && runtime.is_distributed();
    let parallel = if spread { parallel::run(&runtime, &source, &module, entry, &inputs)? } else { None };
    let outcome = match parallel {
        Some(results) => Outcome { results, stats: json!({ "collectives": {}, "peak_bytes_per_device": 0 }) },
        None => execute(args, &source, &module, inputs)?,
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

/// Compiles the program, loads it on the engine and runs it.
fn execute(args: &Args, source: &Source, module: &Module, inputs: Vec<Literal>) -> Result<Outcome, Failure> {
    let program = source.compile(module, &CompileOptions::default())?;
    let executable = args.engine.open()?.load(&program).map_err(Failure::from_load)?;
    let arrays: Vec<Array> = inputs.into_iter().map(Array::from_literal).collect();
    let input_bytes: usize = arrays.iter().map(|a| a.size() as usize * a.dtype().storage_bytes()).sum();
    let fallbacks = executable.fallbacks();
    // What the evaluator prints and counts is in the profile.
    let whole = |fallback: &Fallback| matches!(fallback, Fallback::Program { .. });
    let evaluated = args.engine == EngineName::Evaluator || fallbacks.iter().any(whole);
    let ran = if evaluated || args.profile.is_some() {
        executable.run_profiled(arrays)
    } else {
        executable.run(arrays).map(|results| (results, Profile::default()))
    };
    let (results, profile) = ran.map_err(|e| Failure::from_run(&e, &source.name, &source.text))?;
    report(args, &fallbacks, &profile)?;
    let literal = |array: &Array| array.literal().cloned().map_err(|e| Failure::error(e.to_string()));
    let results = results.iter().map(literal).collect::<Result<_, _>>()?;
    let stats = match &profile.stats {
        _ if program.devices() > 1 => plan_json(&program.plan),
        Some(stats) => stats_json(stats),
        None => json!({ "collectives": {}, "peak_bytes_per_device": executable.peak_bytes() + input_bytes }),
    };
    Ok(Outcome { results, stats: with_fallbacks(stats, &fallbacks) })
}

/// Writes the profile, prints what the program printed, and says what ran on the evaluator.
fn report(args: &Args, fallbacks: &[Fallback], profile: &Profile) -> Result<(), Failure> {
    // The first process has the events of all of them.
    if !processes::reports() {
        return Ok(());
    }
    if let Some(path) = &args.profile {
        write_file(path, profile.chrome_trace().as_bytes())?;
    }
    for line in &profile.printed {
        write_stdout(&format!("{line}\n"))?;
    }
    if args.profile.is_some() {
        eprintln!("{:.3} ms in all; the ten longest:\n{}", profile.total_ns as f64 / 1e6, profile.table(10));
        fallbacks.iter().for_each(|fallback| eprintln!("note: {fallback}"));
    } else if let Some(first) = fallbacks.first() {
        match fallbacks.len() - 1 {
            0 => eprintln!("note: {first}"),
            more => eprintln!("note: {first}, and so do {more} others; --profile lists them"),
        }
    }
    Ok(())
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

/// Adds how many steps ran on the evaluator instead of the engine, and which, if any did.
fn with_fallbacks(mut stats: Value, fallbacks: &[Fallback]) -> Value {
    stats["evaluator_steps"] = fallbacks.len().into();
    if !fallbacks.is_empty() {
        stats["fallbacks"] = fallbacks.iter().map(Fallback::to_string).collect();
    }
    stats
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
    // Nothing has to be given for a token.
    let types: Vec<Type> = module.func_type(entry).inputs.into_iter().filter(|ty| *ty != Type::Token).collect();
    for (i, ty) in types.iter().enumerate() {
        if ty.as_tensor().is_none() {
            let message = format!("input {i} of @{name} has type {ty}; only tensors can be given");
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
        let agree = |(&wanted, &given): (&i64, &i64)| wanted == DYNAMIC || wanted == given;
        if tensor.rank() != array.dims().len() || !tensor.dims.iter().zip(array.dims()).all(agree) {
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
