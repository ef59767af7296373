//! Engines: what compiles the program of a device and runs it on all of them.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use meshwork_ir::DeviceGrid;
use meshwork_ir::{Module, text};

use crate::compile::{CompileError, compile};
use crate::exec::pool::Pool;
use crate::executable::Executable;
use meshwork_runtime::profile::Profile;
use meshwork_runtime::transport::world;
use meshwork_runtime::{RunError, Shards};

/// Compiles programs for devices.
pub trait Engine: Send + Sync {
    /// What messages call it.
    fn name(&self) -> &str;

    /// Compiles function `entry` (by default the entry function) of a per-device module for all devices of `grid`.
    fn compile(&self, module: &Module, entry: Option<&str>, grid: DeviceGrid) -> Result<Arc<dyn Loaded>, CompileError>;
}

/// A program that an engine has compiled.
pub trait Loaded: Send + Sync {
    /// Runs it on the pieces of its arguments.
    fn run(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError>;

    /// Runs it and notes what runs when.
    fn run_profiled(&self, args: Vec<Shards>) -> Result<(Vec<Shards>, Profile), RunError>;

    /// Bytes that a device holds at once besides its arguments and the constants.
    fn peak_bytes(&self) -> usize;
}

impl Loaded for Executable {
    fn run(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        Executable::run(self, args)
    }

    fn run_profiled(&self, args: Vec<Shards>) -> Result<(Vec<Shards>, Profile), RunError> {
        Executable::run_profiled(self, args)
    }

    fn peak_bytes(&self) -> usize {
        Executable::peak_bytes(self)
    }
}

/// The engine of this crate: all devices in this process, on a pool of threads.
pub struct CpuEngine {
    pool: Arc<Pool>,
    cache: Mutex<HashMap<Key, Arc<Executable>>>,
}

/// What an executable depends on. Shapes, element types and the effect of shardings and mesh are in the text of the
/// per-device program.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    text: (u64, u64, usize),
    entry: Option<String>,
    replicas: usize,
    partitions: usize,
}

/// Executables that are kept.
const CACHED: usize = 256;

impl CpuEngine {
    /// An engine with its own `threads` threads.
    pub fn new(threads: usize) -> CpuEngine {
        CpuEngine { pool: Arc::new(Pool::new(threads)), cache: Mutex::default() }
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

    /// Compiles a program, or finds it among those compiled before.
    pub fn executable(
        &self,
        module: &Module,
        entry: Option<&str>,
        grid: DeviceGrid,
    ) -> Result<Arc<Executable>, CompileError> {
        world::join().map_err(|message| CompileError::Invalid { op: "processes".into(), message })?;
        let printed = text::print(module);
        let hash = |salt: u64| {
            let mut hasher = DefaultHasher::new();
            (salt, &printed).hash(&mut hasher);
            hasher.finish()
        };
        let key = Key {
            text: (hash(1), hash(2), printed.len()),
            entry: entry.map(str::to_string),
            replicas: grid.replicas,
            partitions: grid.partitions,
        };
        if let Some(found) = self.cache.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(found.clone());
        }
        let program = compile(module, entry, grid)?;
        let executable = Arc::new(Executable::new(program, grid, self.pool.clone())?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= CACHED {
            cache.clear();
        }
        cache.insert(key, executable.clone());
        Ok(executable)
    }
}

impl Engine for CpuEngine {
    fn name(&self) -> &str {
        "cpu"
    }

    fn compile(&self, module: &Module, entry: Option<&str>, grid: DeviceGrid) -> Result<Arc<dyn Loaded>, CompileError> {
        Ok(self.executable(module, entry, grid)?)
    }
}
