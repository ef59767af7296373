//! Executables.

use crate::types::*;
use std::ffi::{c_char, c_int, c_void};

args! {
    ExecuteContextCreate {
        context: *mut ExecuteContext,
    }
    ExecuteContextDestroy {
        context: *mut ExecuteContext,
    }
    ExecutableDestroy {
        executable: *mut Executable,
    }
    LoadedExecutableDestroy {
        executable: *mut LoadedExecutable,
    }
    LoadedExecutableGetExecutable {
        loaded_executable: *mut LoadedExecutable,
        executable: *mut Executable,
    }
    LoadedExecutableGetDeviceAssignment {
        executable: *mut LoadedExecutable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_device_assignment: *mut c_void,
        serialized_device_assignment_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    }
    ExecutableName {
        executable: *mut Executable,
        executable_name: *const c_char,
        executable_name_size: usize,
    }
    ExecutableNumReplicas {
        executable: *mut Executable,
        num_replicas: usize,
    }
    ExecutableNumPartitions {
        executable: *mut Executable,
        num_partitions: usize,
    }
    LoadedExecutableAddressableDevices {
        executable: *mut LoadedExecutable,
        addressable_devices: *const *mut Device,
        num_addressable_devices: usize,
    }
    LoadedExecutableAddressableDeviceLogicalIds {
        executable: *mut LoadedExecutable,
        addressable_device_logical_ids: *mut LogicalDeviceIds,
        num_addressable_device_logical_ids: usize,
    }
    ExecutableOptimizedProgram {
        executable: *mut Executable,
        program: *mut Program,
    }
    LoadedExecutableDelete {
        executable: *mut LoadedExecutable,
    }
    LoadedExecutableIsDeleted {
        executable: *mut LoadedExecutable,
        is_deleted: u8,
    }
    LoadedExecutableExecute {
        executable: *mut LoadedExecutable,
        options: *mut ExecuteOptions,
        argument_lists: *const *const *mut Buffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut Buffer,
        device_complete_events: *mut *mut Event,
        execute_device: *mut Device,
    }
    ExecutableNumOutputs {
        executable: *mut Executable,
        num_outputs: usize,
    }
    ExecutableSizeOfGeneratedCodeInBytes {
        executable: *mut Executable,
        size_in_bytes: i64,
    }
    ExecutableFingerprint {
        executable: *mut Executable,
        executable_fingerprint: *const c_char,
        executable_fingerprint_size: usize,
    }
    ExecutableGetCostAnalysis {
        executable: *mut Executable,
        num_properties: usize,
        properties: *const NamedValue,
    }
    ExecutableGetCompiledMemoryStats {
        executable: *mut Executable,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
        total_size_in_bytes: i64,
        total_allocation_bytes: i64,
        indefinite_allocations: i64,
        peak_unpadded_heap_bytes: i64,
    }
    ExecutableOutputElementTypes {
        executable: *mut Executable,
        output_types: *mut c_int,
        num_output_types: usize,
    }
    ExecutableOutputDimensions {
        executable: *mut Executable,
        num_outputs: usize,
        dims: *const i64,
        dim_sizes: *const usize,
    }
    ExecutableParameterMemoryKinds {
        executable: *mut Executable,
        num_parameters: usize,
        memory_kinds: *const *const c_char,
        memory_kind_sizes: *const usize,
    }
    ExecutableOutputMemoryKinds {
        executable: *mut Executable,
        num_outputs: usize,
        memory_kinds: *const *const c_char,
        memory_kind_sizes: *const usize,
    }
    ExecutableSerialize {
        executable: *const Executable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_executable: *mut c_void,
        serialized_executable_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    }
    ExecutableGetCompileOptions {
        executable: *mut Executable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_compile_options: *mut c_void,
        serialized_compile_options_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    }
    ExecutableDeserializeAndLoad {
        client: *mut Client,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut LoadedExecutable,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
        load_options: *mut c_void,
    }
    LoadedExecutableFingerprint {
        executable: *mut LoadedExecutable,
        executable_fingerprint: *const c_char,
        executable_fingerprint_size: usize,
    }
}
