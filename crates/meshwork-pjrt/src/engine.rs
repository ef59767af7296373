//! The engine: programs compiled by a plugin, for its devices.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meshwork_ir::{Module, text};
use meshwork_partition::Compiled;
use meshwork_pjrt_abi::{self as abi};
use meshwork_runtime::{Engine, Executable, LoadError, MemoryUse, Runtime, evaluator};

use crate::cache::Cache;
use crate::client::{Client, OptionValue, Transfers};
use crate::executable::{Loaded, PjrtExecutable, is_out_of_memory};
use crate::plugin::{PjrtError, Plugin, blank, call};
use crate::precision::{self, Precision};
use crate::processes::Store;
use crate::rewrite::Rewriting;
use crate::{compile_options, discover, kernels, lower, rewrite};

/// Who splits programs over the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Partitioner {
    /// Meshwork: the plugin gets the program of one device, with its collectives.
    #[default]
    Meshwork,
    /// XLA: the plugin gets the placed global program. To compare.
    Xla,
}

/// Runs programs on the devices of a PJRT plugin: GPUs, TPUs, or XLA's own CPU devices.
///
/// Arrays stay in the memory of the devices between calls. Calls return as soon as the program is started; reading a
/// result waits for it. A program that the plugin does not take runs on the evaluator as a whole;
/// [`fallbacks`](Executable::fallbacks) says so, and why.
///
/// ```no_run
/// use meshwork_pjrt::PjrtEngine;
///
/// let engine = PjrtEngine::open("cuda")?;
/// for device in engine.client().devices() {
///     println!("{} {}", device.id, device.kind);
/// }
/// # Ok::<(), meshwork_pjrt::PjrtError>(())
/// ```
#[derive(Clone)]
pub struct PjrtEngine {
    client: Arc<Client>,
    name: String,
    flags: Vec<(String, String)>,
    partitioner: Partitioner,
    /// `None` if programs are not rewritten.
    pub(crate) rewriting: Option<Rewriting>,
    precision: Precision,
    cache: Option<Arc<Cache>>,
}

/// A plugin and how to start it. Made by [`PjrtEngine::plugin`].
#[derive(Clone, Debug)]
pub struct Opening {
    plugin: String,
    options: Vec<(String, OptionValue)>,
    flags: Vec<(String, String)>,
    partitioner: Partitioner,
    rewrites: Option<bool>,
    turns: Option<u64>,
    kernels: Option<bool>,
    precision: Precision,
    transfers: Transfers,
    cache: Option<PathBuf>,
}

/// What a plugin is given.
struct Lowered {
    module: Module,
    options: Vec<u8>,
    /// Which loops are own kernels.
    kernels: Vec<String>,
}

/// Turns of a loop of stencils that are done at a time: XLA makes one kernel of two, and two kernels need no copies.
const TURNS: u64 = 4;

/// The devices that XLA's CPU plugin is asked for.
const CPU_DEVICES: i64 = 8;

impl PjrtEngine {
    /// The engine of a plugin: its path or name, and options of its client, `cuda` or `cpu,cpu_device_count=4` for
    /// instance. Options that start with `xla_` are flags of XLA's compiler. An empty name stands for what the
    /// variable `MESHWORK_PJRT_PLUGIN` says.
    pub fn open(spec: &str) -> Result<PjrtEngine, PjrtError> {
        let given = std::env::var("MESHWORK_PJRT_PLUGIN").unwrap_or_default();
        let spec = if spec.is_empty() { &given } else { spec };
        let mut parts = spec.split(',');
        let mut opening = PjrtEngine::plugin(parts.next().unwrap_or_default());
        for part in parts {
            let wrong = || PjrtError::Spec(format!("{part:?} in {spec:?} is not an option: write NAME=VALUE"));
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            opening = match name {
                "partitioner" => opening.partitioner(match value {
                    "meshwork" => Partitioner::Meshwork,
                    "xla" => Partitioner::Xla,
                    _ => return Err(PjrtError::Spec(format!("partitioner={value} is neither meshwork nor xla"))),
                }),
                "cache" => opening.cache(value),
                "rewrite" => opening.rewrites(value.parse().map_err(|_| wrong_value(part, "true or false"))?),
                "transfers" => opening.transfers(match value {
                    "direct" => Transfers::Direct,
                    "staged" => Transfers::Staged,
                    _ => return Err(wrong_value(part, "direct or staged")),
                }),
                "precision" => opening.precision(value.parse()?),
                "kernels" => opening.kernels(value.parse().map_err(|_| wrong_value(part, "true or false"))?),
                "turns" => opening.turns(value.parse().map_err(|_| wrong_value(part, "a number of turns"))?),
                _ if name.starts_with("xla_") => opening.flag(name, value),
                _ => opening.option(name, OptionValue::parse(value)),
            };
        }
        opening.open()
    }

    /// A plugin by path or name, to be opened with options.
    pub fn plugin(plugin: &str) -> Opening {
        Opening {
            plugin: plugin.into(),
            options: vec![],
            flags: vec![],
            partitioner: Partitioner::default(),
            rewrites: None,
            turns: None,
            kernels: None,
            precision: Precision::default(),
            transfers: Transfers::default(),
            cache: std::env::var_os("MESHWORK_PJRT_CACHE").map(PathBuf::from),
        }
    }

    /// The devices.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// The program that the plugin is given for `program`, as text. An error says what has no such form.
    pub fn source(&self, program: &Compiled) -> Result<String, PjrtError> {
        Ok(text::print(&self.lowered(program).map_err(PjrtError::Spec)?.module))
    }

    /// `program` as the plugin compiles it.
    fn lowered(&self, program: &Compiled) -> Result<Lowered, String> {
        let devices = program.devices();
        match self.partitioner {
            Partitioner::Meshwork => {
                let mut module = lower::for_replicas(&program.module, devices)?;
                self.precision.set(&mut module);
                let kernels = self.rewriting.map_or(vec![], |how| rewrite::rewrite(&mut module, how));
                Ok(Lowered { module, options: compile_options::for_replicas(devices, &self.flags), kernels })
            }
            Partitioner::Xla => {
                let mut module = program.placed.clone();
                self.precision.set(&mut module);
                Ok(Lowered { module, options: compile_options::for_xla(devices, &self.flags), kernels: vec![] })
            }
        }
    }

    fn compile(&self, source: &str, options: &[u8]) -> Result<Loaded, PjrtError> {
        let client = &self.client;
        let key = || format!("{}\n{}\n{options:?}\n{source}", client.platform(), client.platform_version());
        let cached = self.cache.as_ref().map(|cache| (cache, key()));
        if let Some(bytes) = cached.as_ref().and_then(|(cache, key)| cache.get(key)) {
            let args = abi::ExecutableDeserializeAndLoad {
                client: client.client,
                serialized_executable: bytes.as_ptr().cast(),
                serialized_executable_size: bytes.len(),
                ..blank()
            };
            // What cannot be loaded is compiled again.
            if let Ok(done) = call!(client.plugin, executable_deserialize_and_load, args) {
                return Ok(Loaded { client: client.clone(), executable: done.loaded_executable });
            }
        }
        let mut code = source.as_bytes().to_vec();
        let format = "mlir";
        let program = abi::Program {
            struct_size: size_of::<abi::Program>(),
            code: code.as_mut_ptr().cast(),
            code_size: code.len(),
            format: format.as_ptr().cast(),
            format_size: format.len(),
            ..blank()
        };
        let args = abi::ClientCompile {
            client: client.client,
            program: &program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..blank()
        };
        let executable = call!(client.plugin, client_compile, args)?.executable;
        let loaded = Loaded { client: client.clone(), executable };
        if let Some((cache, key)) = &cached
            && let Ok(bytes) = loaded.serialize()
        {
            cache.put(key, &bytes);
        }
        Ok(loaded)
    }
}

impl Opening {
    /// An option of the plugin's client.
    pub fn option(mut self, name: &str, value: OptionValue) -> Opening {
        self.options.push((name.into(), value));
        self
    }

    /// A flag of XLA's compiler.
    pub fn flag(mut self, name: &str, value: &str) -> Opening {
        self.flags.push((name.into(), value.into()));
        self
    }

    /// Who splits programs.
    pub fn partitioner(mut self, partitioner: Partitioner) -> Opening {
        self.partitioner = partitioner;
        self
    }

    /// Whether programs are rewritten so that XLA's GPU compiler makes fewer kernels and copies of them. Without this they are
    /// on GPUs, and only there.
    pub fn rewrites(mut self, rewrites: bool) -> Opening {
        self.rewrites = Some(rewrites);
        self
    }

    /// How many turns of a loop of stencils are done at a time where programs are rewritten. Without this XLA does 4, and own
    /// kernels as many as suit them.
    pub fn turns(mut self, turns: u64) -> Opening {
        self.turns = Some(turns);
        self
    }

    /// Whether loops of stencils become own kernels where programs are rewritten. Without this they do on CUDA's devices if the
    /// plugin can call them; with `true` a plugin that cannot is an error.
    pub fn kernels(mut self, kernels: bool) -> Opening {
        self.kernels = Some(kernels);
        self
    }

    /// How products and convolutions that do not say it themselves are computed.
    pub fn precision(mut self, precision: Precision) -> Opening {
        self.precision = precision;
        self
    }

    /// How arrays get to the devices and back.
    pub fn transfers(mut self, transfers: Transfers) -> Opening {
        self.transfers = transfers;
        self
    }

    /// Keeps compiled programs in this folder, for other processes and later runs. `MESHWORK_PJRT_CACHE` does the same.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Opening {
        self.cache = Some(folder.into());
        self
    }

    /// Loads the plugin and starts its client.
    pub fn open(self) -> Result<PjrtEngine, PjrtError> {
        if self.plugin.is_empty() {
            let message = "name a PJRT plugin, or set MESHWORK_PJRT_PLUGIN to the name or path of one";
            return Err(PjrtError::Spec(message.into()));
        }
        let path = discover::find(&self.plugin)?;
        let mut options = self.options;
        // XLA's CPU client has four devices unless told otherwise; others know how many they have.
        if path.to_string_lossy().contains("cpu_pjrt") {
            if !options.iter().any(|(name, _)| name == "cpu_device_count") {
                options.push(("cpu_device_count".into(), OptionValue::Int(CPU_DEVICES)));
            }
            enough_threads(&options);
        }
        let runtime = Runtime::init().map_err(|e| PjrtError::Processes(e.to_string()))?;
        let store = if runtime.is_distributed() { Some(Store::start(&runtime)?) } else { None };
        if store.is_some() {
            join(&mut options, &runtime, &path);
        }
        let client = Client::new(&Plugin::open(&path)?, &options, store, self.transfers)?;
        let name = format!("pjrt:{}", client.platform());
        let cache = self.cache.map(|folder| Arc::new(Cache::new(folder)));
        let is_gpu = ["cuda", "rocm"].contains(&client.platform());
        let kernels = match self.kernels {
            None if client.platform() == "cuda" => kernels::register(client.plugin()).is_ok(),
            Some(true) => kernels::register(client.plugin()).map(|()| true).map_err(PjrtError::Spec)?,
            _ => false,
        };
        let wish = kernels::Wish { steps: self.turns };
        let how = Rewriting { turns: self.turns.unwrap_or(TURNS), kernels: kernels.then_some(wish) };
        let rewriting = self.rewrites.unwrap_or(is_gpu).then_some(how);
        let (flags, partitioner, precision) = (self.flags, self.partitioner, self.precision);
        Ok(PjrtEngine { client, name, flags, partitioner, rewriting, precision, cache })
    }
}

/// Adds what the client of one of several processes has to know: its number, theirs, and on a host with several of them
/// which device is its own. What the user says stays.
fn join(options: &mut Vec<(String, OptionValue)>, runtime: &Runtime, path: &Path) {
    let mut add = |name: &str, value: OptionValue| {
        if !options.iter().any(|(other, _)| other == name) {
            options.push((name.into(), value));
        }
    };
    add("node_id", OptionValue::Int(runtime.rank() as i64));
    add("num_nodes", OptionValue::Int(runtime.size() as i64));
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<i64>().ok());
    let local = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"].iter().find_map(|name| number(name));
    let is_gpu = ["cuda", "rocm"].iter().any(|kind| path.to_string_lossy().contains(kind));
    if let Some(local) = local.filter(|_| is_gpu) {
        add("visible_devices", OptionValue::Ints(vec![local]));
    }
}

fn wrong_value(option: &str, wanted: &str) -> PjrtError {
    PjrtError::Spec(format!("{option:?}: the value is {wanted}"))
}

/// Collectives of XLA's CPU devices block threads of its pools until all have come, and a pool with fewer threads than
/// are waited for never ends. Its size is read from `NPROC` when the library starts.
fn enough_threads(options: &[(String, OptionValue)]) {
    let devices = options.iter().find_map(|(name, value)| match value {
        OptionValue::Int(n) if name == "cpu_device_count" => Some(*n),
        _ => None,
    });
    let wanted = (4 * devices.unwrap_or(CPU_DEVICES)).max(16);
    let has = std::env::var("NPROC").ok().and_then(|n| n.parse::<i64>().ok());
    if has.is_none_or(|n| n < wanted) {
        // SAFETY: the variable is XLA's; a thread that reads the environment in C at this moment is the user's to
        // avoid, as the README says.
        unsafe { std::env::set_var("NPROC", wanted.to_string()) };
    }
}

impl Engine for PjrtEngine {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        let (devices, most) = (program.devices(), self.client.all_devices());
        if devices > most {
            return Err(LoadError::TooManyDevices { engine: self.name.clone(), devices, most });
        }
        let lowered = match self.lowered(program) {
            Ok(lowered) => lowered,
            Err(reason) => return evaluator::stand_in(program, reason),
        };
        match self.compile(&text::print(&lowered.module), &lowered.options) {
            Ok(loaded) => Ok(Arc::new(PjrtExecutable::new(program, loaded)?)),
            Err(error) if is_out_of_memory(&error) => {
                Err(LoadError::Invalid { op: self.name.clone(), message: error.to_string() })
            }
            Err(error) => evaluator::stand_in(program, format!("{}: {error}", self.name)),
        }
    }

    fn notes(&self, program: &Compiled) -> Vec<String> {
        // A program that has no form for the plugin runs on the evaluator, as its fallback says.
        let Ok(lowered) = self.lowered(program) else { return vec![] };
        let rounding = precision::rounding(&lowered.module, self.client.platform());
        rounding.into_iter().chain(lowered.kernels).collect()
    }

    fn memory(&self) -> Vec<MemoryUse> {
        self.client.memory_of_all()
    }
}
