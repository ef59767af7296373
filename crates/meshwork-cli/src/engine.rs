//! Running programs on the CPU engine: arrays in shards, a profile, and the evaluator where the engine cannot.

use std::path::Path;
use std::sync::Arc;

use meshwork_cpu::{CpuEngine, DeviceProgram as Executable};
use meshwork_eval::MAX_DEVICES;
use meshwork_ir::{DeviceGrid, Literal, Module, Severity};
use meshwork_partition::{Border, Compiled};
use meshwork_runtime::RunError;
use meshwork_runtime::array::Sharded;
use meshwork_runtime::{ArrayError, Shards};

use crate::fail::Failure;
use crate::processes;
use crate::source::Source;

/// What runs a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Engine {
    /// The engine: fused kernels, planned memory, all cores
    Cpu,
    /// The reference evaluator: slow and obvious
    Evaluator,
}

/// More than any machine's memory.
const MOST_BYTES: usize = 1 << 40;

/// Compiles a per-device program; `None`, with a note on standard error, if it is one for the evaluator.
pub fn compile(module: &Module, entry: Option<&str>, devices: usize) -> Option<Arc<Executable>> {
    if devices > MAX_DEVICES {
        // Said better by whoever refuses it.
        return None;
    }
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    match CpuEngine::shared().compile(module, entry, grid).map(Arc::new) {
        // The evaluator says which operation is too large.
        Ok(executable) if executable.peak_bytes() > MOST_BYTES => None,
        Ok(executable) => Some(executable),
        Err(error) => {
            if processes::reports() {
                eprintln!("note: runs on the evaluator: {error}");
            }
            None
        }
    }
}

/// Runs a program of one device on whole arrays.
pub fn run(
    source: &Source,
    executable: &Executable,
    inputs: &[Literal],
    profile: Option<&Path>,
) -> Result<Vec<Literal>, Failure> {
    let args = inputs.iter().map(|x| Ok(Sharded::single(x)?.into_host_shards()?)).collect::<Result<_, ArrayError>>();
    let results = execute(source, executable, args.map_err(array_failure)?, profile)?;
    let types = executable.outputs();
    let whole = results.into_iter().zip(types).map(|(mut shards, ty)| {
        let shard = shards.swap_remove(0);
        Sharded::from_single(ty.elem, &ty.dims, shard)?.to_host()
    });
    whole.collect::<Result<_, _>>().map_err(array_failure)
}

/// Runs a partitioned program on global arrays.
pub fn run_partitioned(
    source: &Source,
    executable: &Executable,
    program: &Compiled,
    inputs: &[Literal],
    profile: Option<&Path>,
) -> Result<Vec<Literal>, Failure> {
    let mesh = Arc::new(program.plan.mesh.clone());
    let cut = inputs
        .iter()
        .zip(program.inputs())
        .map(|(x, border)| Ok(Sharded::from_host(x, &mesh, &border.sharding)?.into_host_shards()?));
    let args = cut.collect::<Result<_, ArrayError>>().map_err(array_failure)?;
    let shards = execute(source, executable, args, profile)?;
    let joined = shards.into_iter().zip(program.outputs()).zip(executable.outputs()).map(
        |((shards, Border { ty, sharding, .. }), local)| {
            Sharded::from_shards(local.elem, ty.dims(), &mesh, sharding, shards.into_iter().map(|s| s as _).collect())?
                .to_host()
        },
    );
    joined.collect::<Result<_, _>>().map_err(array_failure)
}

/// Runs a program on shards.
pub fn execute(
    source: &Source,
    executable: &Executable,
    args: Vec<Shards>,
    profile: Option<&Path>,
) -> Result<Vec<Shards>, Failure> {
    let Some(path) = profile else { return executable.run(args).map_err(|e| run_failure(source, e)) };
    let (results, profile) = executable.run_profiled(args).map_err(|e| run_failure(source, e))?;
    let text = profile.chrome_trace();
    let path = &processes::own_path(path);
    std::fs::write(path, text).map_err(|e| Failure::error(format!("cannot write {}: {e}", path.display())))?;
    if !processes::reports() {
        return Ok(results);
    }
    eprintln!("{:.3} ms in all; the ten longest:\n{}", profile.total_ns as f64 / 1e6, profile.table(10));
    for op in executable.fallbacks() {
        eprintln!("note: {op} runs on the evaluator");
    }
    Ok(results)
}

/// Bytes that a run needs on a device: arguments, results and what lies between.
pub fn peak_bytes(executable: &Executable) -> usize {
    let bytes = |t: &meshwork_ir::TensorType| t.dims.iter().product::<i64>() as usize * t.elem.storage_bytes();
    executable.peak_bytes() + executable.inputs().iter().map(bytes).sum::<usize>()
}

fn array_failure(error: ArrayError) -> Failure {
    Failure::error(error.to_string())
}

fn run_failure(source: &Source, error: RunError) -> Failure {
    let RunError::Failed { op, device, message } = error else { return Failure::error(error.to_string()) };
    let on = device.map_or(String::new(), |d| format!(" (on device {d})"));
    let unsupported = message.strip_prefix("not supported: ");
    let severity = if unsupported.is_some() { Severity::Unsupported } else { Severity::Error };
    let diagnostic = op.diagnostic(severity, format!("{}{on}", unsupported.unwrap_or(&message)));
    let text = diagnostic.render(&source.name, &source.text);
    if message.starts_with("check failed") {
        Failure::check_failed(text)
    } else {
        Failure::from_diagnostic(severity, text)
    }
}
