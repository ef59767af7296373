//! What callers ask of a compiled program.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meshwork_pjrt_abi as abi;
use meshwork_pjrt_abi::proto::{push_bytes, push_number, push_numbers};

use crate::border::{Handle, borrow, bytes, destroy, free_bytes, known, leak, text};
use crate::buffer::{Shape, number_of};
use crate::client::{ClientHandle, MEMORY_KINDS, memory_of};
use crate::failure::{Failure, Outcome};
use crate::layouts::Layouts;
use crate::named::{Attributes, Value};
use crate::program::Program;

/// A program, and lists that live as long as the handle.
pub(crate) struct ExecutableHandle {
    pub program: Arc<Program>,
    output_types: Vec<c_int>,
    output_dims: Vec<i64>,
    output_ranks: Vec<usize>,
    input_kinds: Names,
    output_kinds: Names,
    pub input_shardings: Names,
    pub output_shardings: Names,
    pub input_layouts: Layouts,
    pub output_layouts: Layouts,
    costs: Attributes,
}

/// Pointers to strings, and their sizes.
pub(crate) struct Names {
    pub starts: Vec<*const c_char>,
    pub sizes: Vec<usize>,
}

impl Names {
    fn new<'a>(all: impl IntoIterator<Item = &'a [u8]>) -> Names {
        let (starts, sizes) = all.into_iter().map(|s| (s.as_ptr().cast::<c_char>(), s.len())).unzip();
        Names { starts, sizes }
    }
}

impl Handle for ExecutableHandle {
    type C = abi::Executable;
}

impl ExecutableHandle {
    fn new(program: Arc<Program>) -> Outcome<ExecutableHandle> {
        let kinds = |kinds: &[usize]| Names::new(kinds.iter().map(|&k| MEMORY_KINDS[k].as_bytes()));
        // The handle keeps the program, whose lists do not move.
        let shardings = |all: &[Vec<u8>]| Names::new(all.iter().map(Vec::as_slice));
        let outputs = &program.outputs;
        let costs = [
            ("flops", Value::Float(program.plan.flops as f32)),
            ("bytes accessed", Value::Float(accessed(&program) as f32)),
        ];
        // A program without results is asked for one sharding all the same.
        let output_shardings = match program.output_shardings.is_empty() {
            true => Names::new([&b""[..]]),
            false => shardings(&program.output_shardings),
        };
        Ok(ExecutableHandle {
            output_types: outputs.iter().map(|s| number_of(s.elem)).collect::<Outcome<_>>()?,
            output_dims: outputs.iter().flat_map(|s| s.dims.iter().copied()).collect(),
            output_ranks: outputs.iter().map(|s| s.dims.len()).collect(),
            input_kinds: kinds(&program.input_kinds),
            output_kinds: kinds(&program.output_kinds),
            input_shardings: shardings(&program.input_shardings),
            output_shardings,
            input_layouts: Layouts::new(&program.inputs),
            output_layouts: Layouts::new(outputs),
            costs: Attributes::new(costs),
            program,
        })
    }
}

fn size(shapes: &[Arc<Shape>]) -> i64 {
    shapes.iter().map(|s| s.bytes() as i64).sum()
}

/// Bytes that a device reads and writes at least.
fn accessed(program: &Program) -> i64 {
    size(&program.inputs) + size(&program.outputs)
}

/// A program and the devices it runs on.
pub(crate) struct LoadedHandle {
    pub program: Arc<Program>,
    pub client: *mut abi::Client,
    devices: Vec<*mut abi::Device>,
    logical: Vec<abi::LogicalDeviceIds>,
    /// By device and result.
    pub memories: Vec<Vec<*mut abi::Memory>>,
    is_deleted: AtomicBool,
}

impl Handle for LoadedHandle {
    type C = abi::LoadedExecutable;
}

impl LoadedHandle {
    fn new(program: Program, client: *mut abi::Client) -> Outcome<LoadedHandle> {
        let owner = borrow::<ClientHandle>(client)?;
        let devices = program.options.devices.iter().map(|&id| owner.device(id)).collect::<Outcome<Vec<_>>>()?;
        let memories =
            |&device: &*mut abi::Device| program.output_kinds.iter().map(|&k| memory_of(device, k)).collect();
        let ids = |partition| abi::LogicalDeviceIds { replica: 0, partition };
        Ok(LoadedHandle {
            memories: devices.iter().map(memories).collect::<Outcome<_>>()?,
            logical: (0..devices.len() as c_int).map(ids).collect(),
            program: Arc::new(program),
            client,
            devices,
            is_deleted: AtomicBool::new(false),
        })
    }

    pub fn check(&self) -> Outcome {
        match self.is_deleted.load(Ordering::Relaxed) {
            true => Err(Failure::invalid("the executable has been deleted")),
            false => Ok(()),
        }
    }
}

pub(crate) fn client_compile(args: &mut abi::ClientCompile) -> Outcome {
    let client = borrow::<ClientHandle>(args.client)?;
    let program = known(args.program).ok_or_else(|| Failure::invalid("no program to compile"))?;
    let format = text(program.format, program.format_size);
    if format != "mlir" {
        return Err(Failure::unimplemented(format!("programs in the format {format:?}; MLIR is read")));
    }
    let options = bytes(args.compile_options, args.compile_options_size);
    let program = client.compile(bytes(program.code, program.code_size), options)?;
    args.executable = LoadedHandle::new(program, args.client)?.give();
    Ok(())
}

/// First bytes of a serialized executable; what follows is the options' length, the options, and the program.
const MAGIC: &[u8] = b"MESHWORK PROGRAM 1\n";

pub(crate) fn executable_serialize(args: &mut abi::ExecutableSerialize) -> Outcome {
    let program = &borrow::<ExecutableHandle>(args.executable.cast_mut())?.program;
    if !program.functions.is_empty() {
        return Err(Failure::unimplemented("a program that calls Python functions is bound to its process"));
    }
    let mut all = MAGIC.to_vec();
    all.extend((program.options_bytes.len() as u64).to_le_bytes());
    all.extend(&program.options_bytes);
    all.extend(&program.source);
    (args.serialized_bytes, args.serialized_bytes_size, args.serialized_executable) = leak(all);
    args.serialized_executable_deleter = Some(free_bytes);
    Ok(())
}

/// Compiling is fast enough to be done again: a serialized executable is its program and options.
pub(crate) fn executable_deserialize_and_load(args: &mut abi::ExecutableDeserializeAndLoad) -> Outcome {
    let client = borrow::<ClientHandle>(args.client)?;
    let all = bytes(args.serialized_executable, args.serialized_executable_size);
    let (options, source) = parts(all).ok_or_else(|| Failure::invalid("this is no executable of Meshwork"))?;
    let overridden = bytes(args.overridden_serialized_compile_options, args.overridden_serialized_compile_options_size);
    let options = if overridden.is_empty() { options } else { overridden };
    let program = client.compile(source, options)?;
    args.loaded_executable = LoadedHandle::new(program, args.client)?.give();
    Ok(())
}

/// Options and program of a serialized executable.
fn parts(all: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = all.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*size)).ok()?)
}

pub(crate) fn executable_get_compile_options(args: &mut abi::ExecutableGetCompileOptions) -> Outcome {
    let options = borrow::<ExecutableHandle>(args.executable)?.program.options_bytes.clone();
    (args.serialized_bytes, args.serialized_bytes_size, args.serialized_compile_options) = leak(options);
    args.serialized_compile_options_deleter = Some(free_bytes);
    Ok(())
}

pub(crate) fn executable_destroy(args: &mut abi::ExecutableDestroy) -> Outcome {
    destroy::<ExecutableHandle>(args.executable);
    Ok(())
}

pub(crate) fn loaded_executable_destroy(args: &mut abi::LoadedExecutableDestroy) -> Outcome {
    destroy::<LoadedHandle>(args.executable);
    Ok(())
}

pub(crate) fn loaded_executable_get_executable(args: &mut abi::LoadedExecutableGetExecutable) -> Outcome {
    let program = borrow::<LoadedHandle>(args.loaded_executable)?.program.clone();
    args.executable = ExecutableHandle::new(program)?.give();
    Ok(())
}

pub(crate) fn loaded_executable_addressable_devices(args: &mut abi::LoadedExecutableAddressableDevices) -> Outcome {
    let devices = &borrow::<LoadedHandle>(args.executable)?.devices;
    (args.addressable_devices, args.num_addressable_devices) = (devices.as_ptr(), devices.len());
    Ok(())
}

pub(crate) fn loaded_executable_addressable_device_logical_ids(
    args: &mut abi::LoadedExecutableAddressableDeviceLogicalIds,
) -> Outcome {
    let ids = &borrow::<LoadedHandle>(args.executable)?.logical;
    args.addressable_device_logical_ids = ids.as_ptr().cast_mut();
    args.num_addressable_device_logical_ids = ids.len();
    Ok(())
}

pub(crate) fn loaded_executable_get_device_assignment(args: &mut abi::LoadedExecutableGetDeviceAssignment) -> Outcome {
    let devices = &borrow::<LoadedHandle>(args.executable)?.program.options.devices;
    let mut proto = vec![];
    push_number(&mut proto, 1, 1);
    push_number(&mut proto, 2, devices.len() as u64);
    for &device in devices {
        let mut partition = vec![];
        push_numbers(&mut partition, 1, [device as i64]);
        push_bytes(&mut proto, 3, &partition);
    }
    (args.serialized_bytes, args.serialized_bytes_size, args.serialized_device_assignment) = leak(proto);
    args.serialized_device_assignment_deleter = Some(free_bytes);
    Ok(())
}

pub(crate) fn loaded_executable_delete(args: &mut abi::LoadedExecutableDelete) -> Outcome {
    borrow::<LoadedHandle>(args.executable)?.is_deleted.store(true, Ordering::Relaxed);
    Ok(())
}

pub(crate) fn loaded_executable_is_deleted(args: &mut abi::LoadedExecutableIsDeleted) -> Outcome {
    args.is_deleted = borrow::<LoadedHandle>(args.executable)?.is_deleted.load(Ordering::Relaxed).into();
    Ok(())
}

pub(crate) fn loaded_executable_fingerprint(args: &mut abi::LoadedExecutableFingerprint) -> Outcome {
    let text = &borrow::<LoadedHandle>(args.executable)?.program.fingerprint;
    (args.executable_fingerprint, args.executable_fingerprint_size) = (text.as_ptr().cast(), text.len());
    Ok(())
}

pub(crate) fn executable_fingerprint(args: &mut abi::ExecutableFingerprint) -> Outcome {
    let text = &borrow::<ExecutableHandle>(args.executable)?.program.fingerprint;
    (args.executable_fingerprint, args.executable_fingerprint_size) = (text.as_ptr().cast(), text.len());
    Ok(())
}

pub(crate) fn executable_name(args: &mut abi::ExecutableName) -> Outcome {
    let name = &borrow::<ExecutableHandle>(args.executable)?.program.name;
    (args.executable_name, args.executable_name_size) = (name.as_ptr().cast(), name.len());
    Ok(())
}

pub(crate) fn executable_num_replicas(args: &mut abi::ExecutableNumReplicas) -> Outcome {
    args.num_replicas = 1;
    Ok(())
}

pub(crate) fn executable_num_partitions(args: &mut abi::ExecutableNumPartitions) -> Outcome {
    args.num_partitions = borrow::<ExecutableHandle>(args.executable)?.program.options.devices.len();
    Ok(())
}

pub(crate) fn executable_num_outputs(args: &mut abi::ExecutableNumOutputs) -> Outcome {
    args.num_outputs = borrow::<ExecutableHandle>(args.executable)?.program.outputs.len();
    Ok(())
}

/// Code is small beside data, and not counted.
pub(crate) fn executable_size_of_generated_code(args: &mut abi::ExecutableSizeOfGeneratedCodeInBytes) -> Outcome {
    args.size_in_bytes = 0;
    Ok(())
}

pub(crate) fn executable_get_cost_analysis(args: &mut abi::ExecutableGetCostAnalysis) -> Outcome {
    let costs = &borrow::<ExecutableHandle>(args.executable)?.costs;
    (args.properties, args.num_properties) = (costs.as_ptr(), costs.len());
    Ok(())
}

pub(crate) fn executable_get_compiled_memory_stats(args: &mut abi::ExecutableGetCompiledMemoryStats) -> Outcome {
    let program = &borrow::<ExecutableHandle>(args.executable)?.program;
    let donated = program.inputs.iter().zip(&program.donated).filter(|(_, d)| **d);
    args.argument_size_in_bytes = size(&program.inputs);
    args.output_size_in_bytes = size(&program.outputs);
    args.alias_size_in_bytes = donated.map(|(s, _)| s.bytes() as i64).sum::<i64>().min(args.output_size_in_bytes);
    // What the engine holds besides the arguments includes the results.
    args.temp_size_in_bytes = (program.executable.peak_bytes() as i64 - args.output_size_in_bytes).max(0);
    args.peak_memory_in_bytes = args.argument_size_in_bytes + program.executable.peak_bytes() as i64;
    args.total_size_in_bytes = args.peak_memory_in_bytes;
    Ok(())
}

pub(crate) fn executable_output_element_types(args: &mut abi::ExecutableOutputElementTypes) -> Outcome {
    let types = &borrow::<ExecutableHandle>(args.executable)?.output_types;
    (args.output_types, args.num_output_types) = (types.as_ptr().cast_mut(), types.len());
    Ok(())
}

pub(crate) fn executable_output_dimensions(args: &mut abi::ExecutableOutputDimensions) -> Outcome {
    let executable = borrow::<ExecutableHandle>(args.executable)?;
    args.num_outputs = executable.output_ranks.len();
    (args.dims, args.dim_sizes) = (executable.output_dims.as_ptr(), executable.output_ranks.as_ptr());
    Ok(())
}

pub(crate) fn executable_parameter_memory_kinds(args: &mut abi::ExecutableParameterMemoryKinds) -> Outcome {
    let kinds = &borrow::<ExecutableHandle>(args.executable)?.input_kinds;
    args.num_parameters = kinds.sizes.len();
    (args.memory_kinds, args.memory_kind_sizes) = (kinds.starts.as_ptr(), kinds.sizes.as_ptr());
    Ok(())
}

pub(crate) fn executable_output_memory_kinds(args: &mut abi::ExecutableOutputMemoryKinds) -> Outcome {
    let kinds = &borrow::<ExecutableHandle>(args.executable)?.output_kinds;
    args.num_outputs = kinds.sizes.len();
    (args.memory_kinds, args.memory_kind_sizes) = (kinds.starts.as_ptr(), kinds.sizes.as_ptr());
    Ok(())
}

/// What one device runs. Asked for twice: for its size, and with room for it.
pub(crate) fn executable_optimized_program(args: &mut abi::ExecutableOptimizedProgram) -> Outcome {
    const FORMAT: &CStr = c"mlir";
    let text = borrow::<ExecutableHandle>(args.executable)?.program.text();
    // SAFETY: the caller gave a program to fill, and `code` has room if it is not null.
    unsafe {
        let program = args.program.as_mut().ok_or_else(|| Failure::invalid("no program to fill"))?;
        program.format = FORMAT.as_ptr();
        program.format_size = FORMAT.count_bytes();
        if !program.code.is_null() {
            if program.code_size < text.len() {
                return Err(Failure::invalid(format!("{} bytes for a program of {}", program.code_size, text.len())));
            }
            std::ptr::copy_nonoverlapping(text.as_ptr(), program.code.cast(), text.len());
        }
        program.code_size = text.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_executables_that_are_cut_off_are_refused() {
        let mut all = MAGIC.to_vec();
        all.extend(2u64.to_le_bytes());
        all.extend(b"opprogram");
        assert_eq!(parts(&all), Some((&b"op"[..], &b"program"[..])));
        assert_eq!(parts(&all[..MAGIC.len() + 9]), None);
        assert_eq!(parts(b"something else"), None);
    }
}
