//! A program on the devices of a plugin.

use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use meshwork_ir::{TensorType, Type};
use meshwork_partition::Compiled;
use meshwork_pjrt_abi::{self as abi, Code};
use meshwork_runtime::array::{Sharded, local_devices};
use meshwork_runtime::border::{Inputs, Outputs};
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

/// A program with the placements of its arguments and results.
pub(crate) struct PjrtExecutable {
    loaded: Loaded,
    devices: usize,
    /// Those of this process.
    local: Range<usize>,
    inputs: Inputs,
    outputs: Outputs,
    /// The types of arguments and results on a device.
    local_inputs: Vec<TensorType>,
    local_outputs: Vec<TensorType>,
    /// Whether the program takes the memory of an argument if it may.
    donated: Vec<bool>,
    peak_bytes: usize,
}

/// The buffers of an argument or result, one per device.
type Held = Vec<Arc<PjrtBuffer>>;

impl PjrtExecutable {
    pub fn new(program: &Compiled, loaded: Loaded) -> Result<PjrtExecutable, LoadError> {
        let missing = || LoadError::Invalid { op: "module".into(), message: "has no entry function".into() };
        let entry = program.module.entry().ok_or_else(missing)?;
        let ty = program.module.func_type(entry);
        let (local_inputs, local_outputs) = (tensors(&ty.inputs)?, tensors(&ty.results)?);
        let mut donated = vec![false; local_inputs.len()];
        program.donation.iter().for_each(|d| donated[d.argument] = true);
        let (devices, own) = (program.devices(), loaded.client.devices().len());
        let local = local_devices(devices);
        if local.len() > own {
            let message = format!(
                "the program runs on devices {} to {} of {devices} in this process, which has {own}",
                local.start,
                local.end - 1
            );
            return Err(LoadError::Invalid { op: "devices".into(), message });
        }
        Ok(PjrtExecutable {
            devices,
            local,
            inputs: Inputs::new(program),
            outputs: Outputs::new(program, local_outputs.iter().cloned())?,
            local_inputs,
            local_outputs,
            donated,
            peak_bytes: loaded.memory().unwrap_or(0),
            loaded,
        })
    }

    /// The number of a device among those of this process, if it is one of them.
    fn own(&self, device: usize) -> Option<usize> {
        self.local.contains(&device).then(|| device - self.local.start)
    }

    /// An error as users read it.
    fn explain(&self, error: PjrtError) -> ArrayError {
        let hint = if is_out_of_memory(&error) { memory_hint(self.client()) } else { String::new() };
        ArrayError::Device(format!("{error}{hint}"))
    }

    fn client(&self) -> &Arc<Client> {
        &self.loaded.client
    }

    /// The shards of an array in the memory of the devices: as they are if they are there, else sent.
    fn adopt(&self, local: &TensorType, array: Sharded) -> Result<Sharded, ArrayError> {
        let split = array.split().clone();
        let shards = array.into_shards().into_iter().enumerate().map(|(device, shard)| {
            if let Ok(own) = shard.clone().into_any().downcast::<PjrtBuffer>()
                && Arc::ptr_eq(&own.client, self.client())
            {
                return Ok(shard);
            }
            let Some(own) = self.own(device) else { return Ok(shard) };
            let sent = PjrtBuffer::upload(self.client(), own, shard.into_host()?, &local.dims, local.elem);
            Ok(Arc::new(sent.map_err(device_error)?) as Arc<dyn DeviceBuffer>)
        });
        Sharded::from_shards(&split, shards.collect::<Result<_, ArrayError>>()?)
    }

    /// The buffers of the arguments.
    fn arguments(&self, args: Vec<Array>) -> Result<Vec<Held>, RunError> {
        self.inputs.take(args, |i, arg, place| {
            let array = arg.into_devices_by(place, |array| self.adopt(&self.local_inputs[i], array))?;
            let own = array.into_shards().into_iter().enumerate().filter(|(device, _)| self.local.contains(device));
            Ok(own.filter_map(|(_, shard)| shard.into_any().downcast().ok()).collect())
        })
    }

    /// Starts the program on these arguments; the buffers of each result, one per device of this process.
    fn start(&self, args: Vec<Held>) -> Result<Vec<Held>, PjrtError> {
        // Memory that someone else still reads stays.
        let is_free = |i: usize| args[i].iter().all(|buffer| Arc::strong_count(buffer) == 1);
        let kept: Vec<i64> = (0..args.len()).filter(|&i| !self.donated[i] || !is_free(i)).map(|i| i as i64).collect();
        let mut options = abi::ExecuteOptions {
            struct_size: size_of::<abi::ExecuteOptions>(),
            non_donatable_input_indices: kept.as_ptr(),
            num_non_donatable_input_indices: kept.len(),
            ..blank()
        };
        let devices = self.local.len();
        let lists: Vec<Vec<*mut abi::Buffer>> =
            (0..devices).map(|d| args.iter().map(|arg| arg[d].buffer).collect()).collect();
        let lists: Vec<*const *mut abi::Buffer> = lists.iter().map(|list| list.as_ptr()).collect();
        let mut results = vec![vec![null_mut::<abi::Buffer>(); self.local_outputs.len()]; devices];
        let result_lists: Vec<*mut *mut abi::Buffer> = results.iter_mut().map(|list| list.as_mut_ptr()).collect();
        let mut events = vec![null_mut::<abi::Event>(); devices];
        let client = self.client();
        let execute = abi::LoadedExecutableExecute {
            executable: self.loaded.executable,
            options: &mut options,
            argument_lists: lists.as_ptr(),
            num_devices: devices,
            num_args: args.len(),
            output_lists: result_lists.as_ptr(),
            device_complete_events: events.as_mut_ptr(),
            ..blank()
        };
        call!(client.plugin, loaded_executable_execute, execute)?;
        client.started(events.into_iter().filter_map(|event| Event::new(&client.plugin, event)).collect());
        let value = |(i, local): (usize, &TensorType)| {
            let buffer = |of: &Vec<_>| Arc::new(PjrtBuffer::new(client, of[i], &local.dims, local.elem));
            results.iter().map(buffer).collect()
        };
        Ok(self.local_outputs.iter().enumerate().map(value).collect())
    }
}

fn tensors(types: &[Type]) -> Result<Vec<TensorType>, LoadError> {
    let tensor = |ty: &Type| {
        let message = format!("{ty} is not a tensor");
        ty.as_tensor().cloned().ok_or(LoadError::Invalid { op: "arguments and results".into(), message })
    };
    types.iter().map(tensor).collect()
}

fn device_error(error: PjrtError) -> ArrayError {
    ArrayError::Device(error.to_string())
}

/// What a device that has no memory left holds, and what to do.
fn memory_hint(client: &Client) -> String {
    let used = client.memory_of_all().iter().max_by_key(|m| m.in_use).map_or(String::new(), |m| format!(" ({m})"));
    format!("; the device has no memory left{used}: split over more devices, donate arguments, or use smaller arrays")
}

/// Why a plugin does not take a program: that there is no memory for it, or else what it cannot do.
pub(crate) fn is_out_of_memory(error: &PjrtError) -> bool {
    matches!(error, PjrtError::Failed { code: Code::ResourceExhausted, .. })
}

impl Executable for PjrtExecutable {
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError> {
        let args = self.arguments(args)?;
        let results = self.start(args).map_err(|e| self.explain(e))?;
        let fill = |(own, local): (Held, &TensorType)| {
            let mut own = own.into_iter();
            let elsewhere = || Arc::new(PjrtBuffer::elsewhere(self.client(), local.elem));
            (0..self.devices).map(|d| self.own(d).and_then(|_| own.next()).unwrap_or_else(elsewhere)).collect()
        };
        if self.local.len() == self.devices {
            return self.outputs.join(results);
        }
        self.outputs.join(results.into_iter().zip(&self.local_outputs).map(fill).collect::<Vec<Held>>())
    }

    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        if self.local.len() < self.devices {
            let (own, all) = (self.local.len(), self.devices);
            return Err(RunError::Arguments(format!("this process has {own} of the {all} devices: give it arrays")));
        }
        let send = |(shards, local): (Shards, &TensorType)| {
            let (dims, elem) = (&local.dims, local.elem);
            let one = |(device, shard)| PjrtBuffer::upload(self.client(), device, shard, dims, elem).map(Arc::new);
            shards.into_iter().enumerate().map(one).collect::<Result<Held, _>>()
        };
        let args =
            args.into_iter().zip(&self.local_inputs).map(send).collect::<Result<_, _>>().map_err(device_error)?;
        let results = self.start(args).map_err(device_error)?;
        let read = |buffers: Held| buffers.into_iter().map(|b| b.into_host()).collect();
        Ok(results.into_iter().map(read).collect::<Result<_, ArrayError>>()?)
    }

    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError> {
        let start = Instant::now();
        let results = self.run(args)?;
        self.client().wait();
        let total_ns = start.elapsed().as_nanos() as u64;
        Ok((results, Profile { total_ns, memory: self.client().memory_of_all(), ..Profile::default() }))
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        vec![]
    }

    fn peak_bytes(&self) -> usize {
        self.peak_bytes
    }
}
