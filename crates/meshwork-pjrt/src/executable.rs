//! A program on the devices of a plugin.

use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use meshwork_ir::{ElementType, TensorType, Type};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::{Border, Compiled};
use meshwork_pjrt_abi::{self as abi, Code};
use meshwork_runtime::array::{Placement, Sharded, Split};
use meshwork_runtime::engine::placements;
use meshwork_runtime::{Array, ArrayError, DeviceBuffer, Executable, Fallback, LoadError, Profile, RunError, Shards};

use crate::buffer::PjrtBuffer;
use crate::client::Client;
use crate::event::Event;
use crate::plugin::{PjrtError, blank, call, slice};

/// A compiled program of a client; freed with the last reference to it.
pub(crate) struct Loaded {
    pub client: Arc<Client>,
    pub executable: *mut abi::LoadedExecutable,
}

// SAFETY: executables can be run from any thread, by several at once.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        let args = abi::LoadedExecutableDestroy { executable: self.executable, ..blank() };
        let _ = call!(self.client.plugin, loaded_executable_destroy, args);
    }
}

impl Loaded {
    /// The program as bytes that the same plugin loads again.
    pub fn serialize(&self) -> Result<Vec<u8>, PjrtError> {
        self.inspect(|executable| {
            let args = abi::ExecutableSerialize { executable, ..blank() };
            let done = call!(self.client.plugin, executable_serialize, args)?;
            let bytes = slice(done.serialized_bytes.cast::<u8>(), done.serialized_bytes_size).to_vec();
            if let Some(free) = done.serialized_executable_deleter {
                // SAFETY: the plugin says how to free what it made; it is not used again.
                unsafe { free(done.serialized_executable) };
            }
            Ok(bytes)
        })
    }

    /// What `ask` finds out about the program.
    fn inspect<T>(&self, ask: impl FnOnce(*mut abi::Executable) -> Result<T, PjrtError>) -> Result<T, PjrtError> {
        let plugin = &self.client.plugin;
        let args = abi::LoadedExecutableGetExecutable { loaded_executable: self.executable, ..blank() };
        let executable = call!(plugin, loaded_executable_get_executable, args)?.executable;
        let answer = ask(executable);
        let _ = call!(plugin, executable_destroy, abi::ExecutableDestroy { executable, ..blank() });
        answer
    }

    /// Bytes that a device needs besides its arguments; 0 if the plugin does not know.
    fn memory(&self) -> Result<usize, PjrtError> {
        self.inspect(|executable| {
            let args = abi::ExecutableGetCompiledMemoryStats { executable, ..blank() };
            let stats = call!(self.client.plugin, executable_get_compiled_memory_stats, args)?;
            let own = stats.temp_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes;
            Ok(own.max(0) as usize)
        })
    }
}

/// A value at the border of the program: what its shards are.
struct Value {
    split: Arc<Split>,
    /// Its placement, if the program has a mesh.
    placement: Option<Arc<Placement>>,
    /// The type of a shard.
    local: TensorType,
}

impl Value {
    fn all(borders: &[Border], locals: &[Type], program: &Compiled) -> Result<Vec<Value>, LoadError> {
        let placed = program.mesh.as_ref().map_or(vec![], |mesh| placements(borders, mesh));
        let wrong = |message: String| LoadError::Invalid { op: "arguments and results".into(), message };
        let value = |(i, (border, local)): (usize, (&Border, &Type))| {
            let tensor = |ty: &Type| ty.as_tensor().cloned().ok_or_else(|| wrong(format!("{ty} is not a tensor")));
            let (whole, local) = (tensor(&border.ty)?, tensor(local)?);
            let placement = placed.get(i).cloned();
            let split = match placement.as_ref().filter(|_| program.devices() > 1) {
                Some(p) => Split::new(whole.into(), &p.mesh, &Arc::new(p.sharding.clone())),
                None => Split::single(whole.into()),
            };
            Ok(Value { split: split.map_err(|e| wrong(e.to_string()))?, placement, local })
        };
        borders.iter().zip(locals).enumerate().map(value).collect()
    }

    fn elem(&self) -> ElementType {
        self.local.elem
    }

    fn dims(&self) -> &[i64] {
        &self.local.dims
    }
}

/// A program with the placements of its arguments and results.
pub(crate) struct PjrtExecutable {
    loaded: Loaded,
    devices: usize,
    inputs: Vec<Value>,
    /// Where arguments are wanted; `None` on one device.
    places: Option<Vec<(Arc<Mesh>, Arc<Sharding>)>>,
    outputs: Vec<Value>,
    /// The arguments whose memory the program takes if it may.
    donated: Vec<usize>,
    peak_bytes: usize,
}

/// The buffers of an argument, one per device.
type Held = Vec<Arc<PjrtBuffer>>;

impl PjrtExecutable {
    pub fn new(program: &Compiled, loaded: Loaded) -> Result<PjrtExecutable, LoadError> {
        let missing = || LoadError::Invalid { op: "module".into(), message: "has no entry function".into() };
        let entry = program.module.entry().ok_or_else(missing)?;
        let ty = program.module.func_type(entry);
        let inputs = Value::all(program.inputs(), &ty.inputs, program)?;
        let outputs = Value::all(program.outputs(), &ty.results, program)?;
        let place = |value: &Value| value.placement.as_ref().map(|p| (p.mesh.clone(), Arc::new(p.sharding.clone())));
        let places = if program.devices() > 1 { inputs.iter().map(place).collect() } else { None };
        let donated = program.donation.iter().map(|d| d.argument).collect();
        let peak_bytes = loaded.memory().unwrap_or(0);
        Ok(PjrtExecutable { loaded, devices: program.devices(), inputs, places, outputs, donated, peak_bytes })
    }

    fn client(&self) -> &Arc<Client> {
        &self.loaded.client
    }

    /// The shards of an array in the memory of the devices: as they are if they are there, else sent.
    fn adopt(&self, value: &Value, array: Sharded) -> Result<Sharded, ArrayError> {
        let split = array.split().clone();
        let shards = array.into_shards().into_iter().enumerate().map(|(device, shard)| {
            if let Ok(own) = shard.clone().into_any().downcast::<PjrtBuffer>()
                && Arc::ptr_eq(&own.client, self.client())
            {
                return Ok(shard);
            }
            let (dims, elem) = (value.dims(), value.elem());
            let sent = PjrtBuffer::upload(self.client(), device, shard.into_host()?, dims, elem);
            Ok(Arc::new(sent.map_err(device_error)?) as Arc<dyn DeviceBuffer>)
        });
        Sharded::from_shards(&split, shards.collect::<Result<_, ArrayError>>()?)
    }

    /// The buffers of the arguments.
    fn arguments(&self, args: Vec<Array>) -> Result<Vec<Held>, RunError> {
        let wanted = self.inputs.len();
        if args.len() != wanted {
            return Err(RunError::Arguments(format!("the program takes {wanted} arguments, {} given", args.len())));
        }
        let take = |(i, arg): (usize, Array)| {
            let place = self.places.as_ref().map(|all| (&all[i].0, &all[i].1));
            let array = arg.into_devices_by(place, |array| self.adopt(&self.inputs[i], array))?;
            Ok(array.into_shards().into_iter().filter_map(|s| s.into_any().downcast().ok()).collect())
        };
        Ok(args.into_iter().enumerate().map(take).collect::<Result<_, ArrayError>>()?)
    }

    /// Starts the program on these arguments; the buffers of each result, one per device.
    fn start(&self, args: Vec<Held>) -> Result<Vec<Vec<PjrtBuffer>>, PjrtError> {
        // Memory that someone else still reads stays.
        let is_free = |i: usize| args[i].iter().all(|buffer| Arc::strong_count(buffer) == 1);
        let kept: Vec<i64> =
            (0..args.len()).filter(|i| !self.donated.contains(i) || !is_free(*i)).map(|i| i as i64).collect();
        let mut options = abi::ExecuteOptions {
            struct_size: size_of::<abi::ExecuteOptions>(),
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..blank()
        };
        let lists: Vec<Vec<*mut abi::Buffer>> =
            (0..self.devices).map(|d| args.iter().map(|arg| arg[d].buffer).collect()).collect();
        let lists: Vec<*const *mut abi::Buffer> = lists.iter().map(|list| list.as_ptr()).collect();
        let mut results = vec![vec![null_mut::<abi::Buffer>(); self.outputs.len()]; self.devices];
        let result_lists: Vec<*mut *mut abi::Buffer> = results.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events = vec![null_mut::<abi::Event>(); self.devices];
        let client = self.client();
        let execute = abi::LoadedExecutableExecute {
            executable: self.loaded.executable,
            options: &mut options,
            argument_lists: lists.as_ptr(),
            num_devices: self.devices,
            num_args: args.len(),
            output_lists: result_lists.as_ptr(),
            device_complete_events: events.as_mut_ptr(),
            ..blank()
        };
        call!(client.plugin, loaded_executable_execute, execute)?;
        client.started(events.into_iter().filter_map(|event| Event::new(&client.plugin, event)).collect());
        let value = |(i, output): (usize, &Value)| {
            let buffer = |of: &Vec<_>| PjrtBuffer::new(client, of[i], output.dims(), output.elem());
            results.iter().map(buffer).collect()
        };
        Ok(self.outputs.iter().enumerate().map(value).collect())
    }

    /// The arrays that the buffers of the results make up.
    fn join(&self, results: Vec<Vec<PjrtBuffer>>) -> Result<Vec<Array>, RunError> {
        let join = |(buffers, output): (Vec<PjrtBuffer>, &Value)| {
            let shards = buffers.into_iter().map(|b| Arc::new(b) as Arc<dyn DeviceBuffer>).collect();
            let array = Array::from_devices(Sharded::from_shards(&output.split, shards)?);
            Ok(match &output.placement {
                Some(placement) => array.placed(placement.clone()),
                None => array,
            })
        };
        Ok(results.into_iter().zip(&self.outputs).map(join).collect::<Result<_, ArrayError>>()?)
    }
}

fn device_error(error: PjrtError) -> ArrayError {
    ArrayError::Device(error.to_string())
}

/// Why a plugin does not take a program: that there is no memory for it, or else what it cannot do.
pub(crate) fn is_out_of_memory(error: &PjrtError) -> bool {
    matches!(error, PjrtError::Failed { code: Code::ResourceExhausted, .. })
}

impl Executable for PjrtExecutable {
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError> {
        let args = self.arguments(args)?;
        self.join(self.start(args).map_err(device_error)?)
    }

    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        let send = |(shards, value): (Shards, &Value)| {
            let (dims, elem) = (value.dims(), value.elem());
            let one = |(device, shard)| PjrtBuffer::upload(self.client(), device, shard, dims, elem).map(Arc::new);
            shards.into_iter().enumerate().map(one).collect::<Result<Held, _>>()
        };
        let args = args.into_iter().zip(&self.inputs).map(send).collect::<Result<_, _>>().map_err(device_error)?;
        let results = self.start(args).map_err(device_error)?;
        let read = |buffers: Vec<PjrtBuffer>| buffers.into_iter().map(|b| Arc::new(b).into_host()).collect();
        Ok(results.into_iter().map(read).collect::<Result<_, ArrayError>>()?)
    }

    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError> {
        let start = Instant::now();
        let results = self.run(args)?;
        self.client().wait();
        Ok((results, Profile { total_ns: start.elapsed().as_nanos() as u64, ..Profile::default() }))
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        vec![]
    }

    fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }
}
