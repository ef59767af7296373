//! Devices, their descriptions, memories and topologies.

use crate::types::*;
use std::ffi::{c_char, c_int, c_void};

args! {
    DeviceDescriptionId {
        device_description: *mut DeviceDescription,
        id: c_int,
    }
    DeviceDescriptionProcessIndex {
        device_description: *mut DeviceDescription,
        process_index: c_int,
    }
    DeviceDescriptionAttributes {
        device_description: *mut DeviceDescription,
        num_attributes: usize,
        attributes: *const NamedValue,
    }
    DeviceDescriptionKind {
        device_description: *mut DeviceDescription,
        device_kind: *const c_char,
        device_kind_size: usize,
    }
    DeviceDescriptionDebugString {
        device_description: *mut DeviceDescription,
        debug_string: *const c_char,
        debug_string_size: usize,
    }
    DeviceDescriptionToString {
        device_description: *mut DeviceDescription,
        to_string: *const c_char,
        to_string_size: usize,
    }
    DeviceGetDescription {
        device: *mut Device,
        device_description: *mut DeviceDescription,
    }
    DeviceIsAddressable {
        device: *mut Device,
        is_addressable: u8,
    }
    DeviceLocalHardwareId {
        device: *mut Device,
        local_hardware_id: c_int,
    }
    DeviceAddressableMemories {
        device: *mut Device,
        memories: *const *mut Memory,
        num_memories: usize,
    }
    DeviceDefaultMemory {
        device: *mut Device,
        memory: *mut Memory,
    }
    DeviceMemoryStats {
        device: *mut Device,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: u8,
        num_allocs: i64,
        num_allocs_is_set: u8,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: u8,
        bytes_limit: i64,
        bytes_limit_is_set: u8,
        bytes_reserved: i64,
        bytes_reserved_is_set: u8,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: u8,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: u8,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: u8,
        pool_bytes: i64,
        pool_bytes_is_set: u8,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: u8,
    }
    DeviceClearMemoryStats {
        device: *mut Device,
    }
    DevicePoisonExecution {
        device: *mut Device,
        launch_id: i32,
        error_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
        poisoned: u8,
        payload: *const NamedValue,
        num_payload: usize,
    }
    DeviceGetAttributes {
        device: *mut Device,
        attributes: *const NamedValue,
        num_attributes: usize,
        device_attributes: *mut c_void,
        attributes_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    }
    DeviceCreateAsyncTrackingEvent {
        device: *mut Device,
        description: *const c_char,
        description_size: usize,
        event: *mut AsyncTrackingEvent,
    }
    AsyncTrackingEventDestroy {
        event: *mut AsyncTrackingEvent,
    }
    MemoryId {
        memory: *mut Memory,
        id: c_int,
    }
    MemoryKind {
        memory: *mut Memory,
        kind: *const c_char,
        kind_size: usize,
    }
    MemoryKindId {
        memory: *mut Memory,
        kind_id: c_int,
    }
    MemoryDebugString {
        memory: *mut Memory,
        debug_string: *const c_char,
        debug_string_size: usize,
    }
    MemoryToString {
        memory: *mut Memory,
        to_string: *const c_char,
        to_string_size: usize,
    }
    MemoryAddressableByDevices {
        memory: *mut Memory,
        devices: *const *mut Device,
        num_devices: usize,
    }
    TopologyDescriptionCreate {
        topology_name: *const c_char,
        topology_name_size: usize,
        create_options: *const NamedValue,
        num_options: usize,
        topology: *mut TopologyDescription,
    }
    TopologyDescriptionDestroy {
        topology: *mut TopologyDescription,
    }
    TopologyDescriptionPlatformVersion {
        topology: *mut TopologyDescription,
        platform_version: *const c_char,
        platform_version_size: usize,
    }
    TopologyDescriptionPlatformName {
        topology: *const TopologyDescription,
        platform_name: *const c_char,
        platform_name_size: usize,
    }
    TopologyDescriptionGetDeviceDescriptions {
        topology: *const TopologyDescription,
        descriptions: *const *mut DeviceDescription,
        num_descriptions: usize,
    }
    TopologyDescriptionSerialize {
        topology: *mut TopologyDescription,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_topology: *mut c_void,
        serialized_topology_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    }
    TopologyDescriptionDeserialize {
        serialized_topology: *const c_char,
        serialized_topology_size: usize,
        topology: *mut TopologyDescription,
    }
    TopologyDescriptionAttributes {
        topology: *mut TopologyDescription,
        attributes: *const NamedValue,
        num_attributes: usize,
    }
    TopologyDescriptionFingerprint {
        topology: *const TopologyDescription,
        fingerprint: u64,
    }
    TopologyDescriptionMakeCanonicalShapeForMemorySpace {
        topology: *const TopologyDescription,
        memory_space_kind_id: c_int,
        dims: *const i64,
        num_dims: usize,
        element_type: c_int,
        layout: *const BufferMemoryLayout,
        serialized_shape: *const c_char,
        serialized_shape_size: usize,
        serialized_shape_deleter: Option<unsafe extern "C" fn(*const c_char)>,
    }
    TopologyDescriptionGetMemorySpaceKindIds {
        topology: *const TopologyDescription,
        memory_space_kind_ids: *const c_int,
        num_memory_space_kind_ids: usize,
    }
}
