//! The PJRT C API, version 0.112, as typed structs: what a plugin fills and what its callers read.
//!
//! Every call takes one struct of arguments and results. Each starts with its size as the caller knows it and a list of
//! extensions; later versions of the API append fields to them, and calls to [`Api`]. Names are those of the C
//! header without `PJRT_` and `_Args`, so `PJRT_Client_Create_Args` is [`ClientCreate`].
#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// Structs that start with their size and a list of extensions. What their fields are is said by the C header.
macro_rules! args {
    ($($name:ident { $($field:ident: $ty:ty,)* })*) => {$(
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[doc = concat!("See [`Args`](crate::Args): `", stringify!($name), "`.")]
        #[allow(missing_docs)]
        pub struct $name {
            pub struct_size: usize,
            pub extension_start: *mut crate::ExtensionBase,
            $(pub $field: $ty,)*
        }

        impl crate::Args for $name {}
    )*};
}

mod buffer;
mod client;
mod device;
pub mod element;
mod error;
mod executable;
mod extension;
pub mod ffi;
pub mod proto;
mod types;

use std::ffi::c_int;

pub use buffer::*;
pub use client::*;
pub use device::*;
pub use error::*;
pub use executable::*;
pub use extension::*;
pub use types::*;

/// Plain data that starts with its own size: a caller of another version may know fewer or more of its fields. Any bits
/// are a valid value, since callers leave what they want to be told unset: truth values are bytes here.
pub trait Args: Copy {}

/// The major version of the API.
pub const MAJOR: c_int = 0;
/// The minor version of the API.
pub const MINOR: c_int = 112;

/// The start of an extension.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct ExtensionBase {
    pub struct_size: usize,
    pub kind: c_int,
    pub next: *mut ExtensionBase,
}

/// The version that a plugin implements.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct ApiVersion {
    pub struct_size: usize,
    pub extension_start: *mut ExtensionBase,
    pub major: c_int,
    pub minor: c_int,
}

/// A call that may fail: null, or an error that the caller destroys.
pub type Slot<A> = Option<unsafe extern "C" fn(*mut A) -> *mut Error>;

macro_rules! api {
    ($($slot:ident: $args:ident,)*) => {
        /// The table of calls, in the order of the header. The first two return nothing in C; what they return here is
        /// not looked at.
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(missing_docs)]
        pub struct Api {
            pub struct_size: usize,
            pub extension_start: *mut ExtensionBase,
            pub version: ApiVersion,
            $(pub $slot: Slot<$args>,)*
        }
    };
}

api! {
    error_destroy: ErrorDestroy,
    error_message: ErrorMessage,
    error_get_code: ErrorGetCode,
    plugin_initialize: PluginInitialize,
    plugin_attributes: PluginAttributes,
    event_destroy: EventDestroy,
    event_is_ready: EventIsReady,
    event_error: EventError,
    event_await: EventAwait,
    event_on_ready: EventOnReady,
    client_create: ClientCreate,
    client_destroy: ClientDestroy,
    client_platform_name: ClientPlatformName,
    client_process_index: ClientProcessIndex,
    client_platform_version: ClientPlatformVersion,
    client_devices: ClientDevices,
    client_addressable_devices: ClientAddressableDevices,
    client_lookup_device: ClientLookupDevice,
    client_lookup_addressable_device: ClientLookupAddressableDevice,
    client_addressable_memories: ClientAddressableMemories,
    client_compile: ClientCompile,
    client_default_device_assignment: ClientDefaultDeviceAssignment,
    client_buffer_from_host_buffer: ClientBufferFromHostBuffer,
    device_description_id: DeviceDescriptionId,
    device_description_process_index: DeviceDescriptionProcessIndex,
    device_description_attributes: DeviceDescriptionAttributes,
    device_description_kind: DeviceDescriptionKind,
    device_description_debug_string: DeviceDescriptionDebugString,
    device_description_to_string: DeviceDescriptionToString,
    device_get_description: DeviceGetDescription,
    device_is_addressable: DeviceIsAddressable,
    device_local_hardware_id: DeviceLocalHardwareId,
    device_addressable_memories: DeviceAddressableMemories,
    device_default_memory: DeviceDefaultMemory,
    device_memory_stats: DeviceMemoryStats,
    memory_id: MemoryId,
    memory_kind: MemoryKind,
    memory_debug_string: MemoryDebugString,
    memory_to_string: MemoryToString,
    memory_addressable_by_devices: MemoryAddressableByDevices,
    executable_destroy: ExecutableDestroy,
    executable_name: ExecutableName,
    executable_num_replicas: ExecutableNumReplicas,
    executable_num_partitions: ExecutableNumPartitions,
    executable_num_outputs: ExecutableNumOutputs,
    executable_size_of_generated_code_in_bytes: ExecutableSizeOfGeneratedCodeInBytes,
    executable_get_cost_analysis: ExecutableGetCostAnalysis,
    executable_output_memory_kinds: ExecutableOutputMemoryKinds,
    executable_optimized_program: ExecutableOptimizedProgram,
    executable_serialize: ExecutableSerialize,
    loaded_executable_destroy: LoadedExecutableDestroy,
    loaded_executable_get_executable: LoadedExecutableGetExecutable,
    loaded_executable_addressable_devices: LoadedExecutableAddressableDevices,
    loaded_executable_delete: LoadedExecutableDelete,
    loaded_executable_is_deleted: LoadedExecutableIsDeleted,
    loaded_executable_execute: LoadedExecutableExecute,
    executable_deserialize_and_load: ExecutableDeserializeAndLoad,
    loaded_executable_fingerprint: LoadedExecutableFingerprint,
    buffer_destroy: BufferDestroy,
    buffer_element_type: BufferElementType,
    buffer_dimensions: BufferDimensions,
    buffer_unpadded_dimensions: BufferUnpaddedDimensions,
    buffer_dynamic_dimension_indices: BufferDynamicDimensionIndices,
    buffer_get_memory_layout: BufferGetMemoryLayout,
    buffer_on_device_size_in_bytes: BufferOnDeviceSizeInBytes,
    buffer_device: BufferDevice,
    buffer_memory: BufferMemory,
    buffer_delete: BufferDelete,
    buffer_is_deleted: BufferIsDeleted,
    buffer_copy_to_device: BufferCopyToDevice,
    buffer_to_host_buffer: BufferToHostBuffer,
    buffer_is_on_cpu: BufferIsOnCpu,
    buffer_ready_event: BufferReadyEvent,
    buffer_unsafe_pointer: BufferUnsafePointer,
    buffer_increase_external_reference_count: BufferIncreaseExternalReferenceCount,
    buffer_decrease_external_reference_count: BufferDecreaseExternalReferenceCount,
    buffer_opaque_device_memory_data_pointer: BufferOpaqueDeviceMemoryDataPointer,
    copy_to_device_stream_destroy: CopyToDeviceStreamDestroy,
    copy_to_device_stream_add_chunk: CopyToDeviceStreamAddChunk,
    copy_to_device_stream_total_bytes: CopyToDeviceStreamTotalBytes,
    copy_to_device_stream_granule_size: CopyToDeviceStreamGranuleSize,
    copy_to_device_stream_current_bytes: CopyToDeviceStreamCurrentBytes,
    topology_description_create: TopologyDescriptionCreate,
    topology_description_destroy: TopologyDescriptionDestroy,
    topology_description_platform_name: TopologyDescriptionPlatformName,
    topology_description_platform_version: TopologyDescriptionPlatformVersion,
    topology_description_get_device_descriptions: TopologyDescriptionGetDeviceDescriptions,
    topology_description_serialize: TopologyDescriptionSerialize,
    topology_description_attributes: TopologyDescriptionAttributes,
    compile: Compile,
    executable_output_element_types: ExecutableOutputElementTypes,
    executable_output_dimensions: ExecutableOutputDimensions,
    buffer_copy_to_memory: BufferCopyToMemory,
    client_create_view_of_device_buffer: ClientCreateViewOfDeviceBuffer,
    executable_fingerprint: ExecutableFingerprint,
    client_topology_description: ClientTopologyDescription,
    executable_get_compiled_memory_stats: ExecutableGetCompiledMemoryStats,
    memory_kind_id: MemoryKindId,
    execute_context_create: ExecuteContextCreate,
    execute_context_destroy: ExecuteContextDestroy,
    buffer_copy_raw_to_host: BufferCopyRawToHost,
    transfer_manager_destroy: TransferManagerDestroy,
    transfer_manager_transfer_data: TransferManagerTransferData,
    client_create_buffers_for_async_host_to_device: ClientCreateBuffersForAsyncHostToDevice,
    transfer_manager_retrieve_buffer: TransferManagerRetrieveBuffer,
    transfer_manager_device: TransferManagerDevice,
    transfer_manager_buffer_count: TransferManagerBufferCount,
    transfer_manager_buffer_size: TransferManagerBufferSize,
    transfer_manager_set_buffer_error: TransferManagerSetBufferError,
    transfer_manager_add_metadata: TransferManagerAddMetadata,
    client_dma_map: ClientDmaMap,
    client_dma_unmap: ClientDmaUnmap,
    client_create_uninitialized_buffer: ClientCreateUninitializedBuffer,
    client_update_global_process_info: ClientUpdateGlobalProcessInfo,
    topology_description_deserialize: TopologyDescriptionDeserialize,
    client_create_alias_buffer: ClientCreateAliasBuffer,
    client_fulfill_alias_buffer: ClientFulfillAliasBuffer,
    loaded_executable_get_device_assignment: LoadedExecutableGetDeviceAssignment,
    client_create_error_buffer: ClientCreateErrorBuffer,
    transfer_manager_transfer_literal: TransferManagerTransferLiteral,
    buffer_copy_raw_to_host_future: BufferCopyRawToHostFuture,
    device_poison_execution: DevicePoisonExecution,
    device_create_async_tracking_event: DeviceCreateAsyncTrackingEvent,
    async_tracking_event_destroy: AsyncTrackingEventDestroy,
    executable_get_compile_options: ExecutableGetCompileOptions,
    buffer_donate_with_control_dependency: BufferDonateWithControlDependency,
    event_create: EventCreate,
    event_set: EventSet,
    device_get_attributes: DeviceGetAttributes,
    client_load: ClientLoad,
    loaded_executable_addressable_device_logical_ids: LoadedExecutableAddressableDeviceLogicalIds,
    buffer_bitcast: BufferBitcast,
    error_for_each_payload: ErrorForEachPayload,
    topology_description_fingerprint: TopologyDescriptionFingerprint,
    executable_parameter_memory_kinds: ExecutableParameterMemoryKinds,
    device_clear_memory_stats: DeviceClearMemoryStats,
    topology_description_make_canonical_shape_for_memory_space: TopologyDescriptionMakeCanonicalShapeForMemorySpace,
    topology_description_get_memory_space_kind_ids: TopologyDescriptionGetMemorySpaceKindIds,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes that the C header has for this version.
    #[test]
    fn sizes_are_those_of_the_header() {
        assert_eq!(size_of::<Api>(), 1144);
        assert_eq!(size_of::<ApiVersion>(), 24);
        assert_eq!(size_of::<NamedValue>(), 56);
        assert_eq!(size_of::<BufferMemoryLayout>(), 80);
        assert_eq!(size_of::<LoadedExecutableExecute>(), 80);
    }
}
