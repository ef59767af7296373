//! The CPU engine: all devices of this process, on a pool of threads.

use std::ops::Range;
use std::sync::{Arc, Once, OnceLock};

use meshwork_eval::MAX_DEVICES;
use meshwork_ir::hash::HashMap;
use meshwork_ir::{DeviceGrid, Module};
use meshwork_mesh::{Mesh, slice_of};
use meshwork_partition::{Border, Compiled, Machine};
use meshwork_runtime::array::local_devices;
use meshwork_runtime::border::{Inputs, Outputs};
use meshwork_runtime::transport::world;
use meshwork_runtime::{Array, Engine, Executable, Fallback, LoadError, Profile, RunError, Shards, evaluator};

use crate::compile::{Span, compile};
use crate::device_program::{DeviceProgram, Replication};
use crate::exec::pool::Pool;
use crate::memory::share::Leaders;
use crate::notes::notes;

/// Runs programs on the cores of this machine: fused kernels, planned memory. A program that it cannot compile, with
/// extents known only at run time for instance, runs on the evaluator as a whole;
/// [`fallbacks`](Executable::fallbacks) says so.
pub struct CpuEngine {
    pool: Arc<Pool>,
}

/// No machine has more memory for one device. The evaluator says which operation is too large.
const MOST_BYTES: usize = 1 << 40;

/// Says once per process that the engine was built without optimization, and how to change that.
fn say_if_slow() {
    static SAID: Once = Once::new();
    if env!("MESHWORK_OPT_LEVEL") == "0" {
        SAID.call_once(|| {
            eprintln!(
                "note: the CPU engine is built without optimization and runs about 50 times slower. In Cargo.toml:\n\
                 [profile.dev.package.\"*\"]\nopt-level = 3"
            );
        });
    }
}

impl CpuEngine {
    /// An engine with its own `threads` threads.
    pub fn new(threads: usize) -> CpuEngine {
        say_if_slow();
        CpuEngine { pool: Arc::new(Pool::new(threads)) }
    }

    /// The engine of the process: as many threads as `MESHWORK_THREADS` says, or else as there are cores, shared
    /// with the other processes of the program on this machine.
    pub fn shared() -> &'static Arc<CpuEngine> {
        static SHARED: OnceLock<Arc<CpuEngine>> = OnceLock::new();
        SHARED.get_or_init(|| {
            let asked = std::env::var("MESHWORK_THREADS").ok().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
            let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
            let processes = || world::join().ok().flatten().map_or(1, |w| w.neighbours());
            Arc::new(CpuEngine::new(asked.unwrap_or_else(|| (cores() / processes()).max(1))))
        })
    }

    /// How many threads work.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The pool of threads.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Compiles function `entry` (by default the entry function) of a per-device module for all devices of `grid`, to
    /// run on shards.
    pub fn compile(&self, module: &Module, entry: Option<&str>, grid: DeviceGrid) -> Result<DeviceProgram, LoadError> {
        self.compile_replicated(module, entry, grid, Replication::default())
    }

    /// As [`compile`](CpuEngine::compile), for devices that hold replicas of arguments and results.
    pub fn compile_replicated(
        &self,
        module: &Module,
        entry: Option<&str>,
        grid: DeviceGrid,
        replication: Replication,
    ) -> Result<DeviceProgram, LoadError> {
        let world = world::join().map_err(|message| LoadError::Invalid { op: "processes".into(), message })?;
        let span = if world.is_some() { Span::Processes } else { Span::OneProcess };
        DeviceProgram::new(compile(module, entry, grid, span)?, grid, self.pool.clone(), replication)
    }
}

impl Engine for CpuEngine {
    fn name(&self) -> &str {
        "cpu"
    }

    /// A computer with as many threads as the engine has.
    fn machine(&self) -> Option<Machine> {
        let mut machine = Machine::named("cpu")?;
        machine.host.as_mut()?.threads = self.threads() as f64;
        Some(machine)
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        let devices = program.devices();
        if devices > MAX_DEVICES {
            // Its lists of devices and buffers would be too long.
            let reason = format!("the engine runs at most {MAX_DEVICES} devices");
            return evaluator::stand_in(program, reason);
        }
        match CpuExecutable::new(self, program) {
            Ok(loaded) if loaded.program.peak_bytes() > MOST_BYTES => {
                let reason = format!("a device needs {} bytes", loaded.program.peak_bytes());
                evaluator::stand_in(program, reason)
            }
            Ok(loaded) => Ok(Arc::new(loaded)),
            Err(error @ LoadError::Unsupported { .. }) => evaluator::stand_in(program, error.to_string()),
            Err(error) => Err(error),
        }
    }

    fn notes(&self, program: &Compiled) -> Vec<String> {
        let partitions = program.devices();
        if partitions > MAX_DEVICES {
            return vec![];
        }
        match compile(&program.module, None, DeviceGrid { replicas: 1, partitions }, Span::OneProcess) {
            Ok(compiled) => notes(&compiled),
            Err(error @ LoadError::Unsupported { .. }) => vec![format!("the program runs on the evaluator: {error}")],
            Err(_) => vec![],
        }
    }
}

/// A program with the placements of its arguments and results.
struct CpuExecutable {
    program: DeviceProgram,
    inputs: Inputs,
    outputs: Outputs,
}

impl CpuExecutable {
    fn new(engine: &CpuEngine, program: &Compiled) -> Result<CpuExecutable, LoadError> {
        let partitions = program.devices();
        let local = local_devices(partitions);
        let replicas = |borders: &[Border]| borders.iter().map(|b| replicas(b, &program.plan.mesh, &local)).collect();
        let replication = Replication { args: replicas(program.inputs()), results: replicas(program.outputs()) };
        let grid = DeviceGrid { replicas: 1, partitions };
        let compiled = engine.compile_replicated(&program.module, None, grid, replication)?;
        let outputs = Outputs::new(program, compiled.outputs())?;
        Ok(CpuExecutable { program: compiled, inputs: Inputs::new(program), outputs })
    }

    /// The shards of the arguments, as the program wants them.
    fn cut(&self, args: Vec<Array>) -> Result<Vec<Shards>, RunError> {
        self.inputs.take(args, |_, arg, place| arg.into_devices(place)?.into_host_shards())
    }
}

/// The devices among `local` that hold the same slice of an argument or result, each with the first of them, if any two
/// do.
fn replicas(border: &Border, mesh: &Mesh, local: &Range<usize>) -> Option<Leaders> {
    let sharding = &*border.sharding;
    let mesh = sharding.mesh.inline().map_or(mesh, |own| own);
    // Partial sums differ.
    if !sharding.unreduced.is_empty() {
        return None;
    }
    let mut leader: Vec<usize> = (0..mesh.device_count() as usize).collect();
    let mut first = HashMap::default();
    for device in local.clone() {
        let slice = slice_of(sharding, mesh, border.ty.dims(), device as i64).ok()?;
        leader[device] = *first.entry(slice).or_insert(device);
    }
    leader.iter().enumerate().any(|(d, &l)| d != l).then(|| leader.into())
}

impl Executable for CpuExecutable {
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError> {
        self.outputs.join(self.program.run(self.cut(args)?)?)
    }

    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        self.program.run(args)
    }

    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError> {
        let (results, profile) = self.program.run_profiled(self.cut(args)?)?;
        Ok((self.outputs.join(results)?, Profile { fallbacks: self.fallbacks(), ..profile }))
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        self.program.fallbacks().into_iter().map(|op| Fallback::Op { op }).collect()
    }

    fn peak_bytes(&self) -> usize {
        self.program.peak_bytes()
    }
}
