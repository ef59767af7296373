//! Plugin and client.

use crate::types::*;
use std::ffi::{c_char, c_int, c_void};

/// Makes an error with a code and a message of this length.
pub type CallbackError = Option<unsafe extern "C" fn(c_int, *const c_char, usize) -> *mut Error>;

args! {
    KeyValueGet {
        key: *const c_char,
        key_size: usize,
        timeout_in_ms: c_int,
        callback_error: *mut CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char,
        value_size: usize,
        value_deleter_callback: Option<unsafe extern "C" fn(*mut c_char)>,
    }
    KeyValueTryGet {
        key: *const c_char,
        key_size: usize,
        callback_error: *mut CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char,
        value_size: usize,
        value_deleter_callback: Option<unsafe extern "C" fn(*mut c_char)>,
    }
    KeyValuePut {
        key: *const c_char,
        key_size: usize,
        value: *const c_char,
        value_size: usize,
        callback_error: *mut CallbackError,
        user_arg: *mut c_void,
    }
    PluginInitialize {}
    PluginAttributes {
        attributes: *const NamedValue,
        num_attributes: usize,
    }
    ClientCreate {
        create_options: *const NamedValue,
        num_options: usize,
        kv_get_callback: *mut c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *mut c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut Client,
        kv_try_get_callback: *mut c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    ClientDestroy {
        client: *mut Client,
    }
    ClientPlatformName {
        client: *mut Client,
        platform_name: *const c_char,
        platform_name_size: usize,
    }
    ClientProcessIndex {
        client: *mut Client,
        process_index: c_int,
    }
    ClientPlatformVersion {
        client: *mut Client,
        platform_version: *const c_char,
        platform_version_size: usize,
    }
    ClientTopologyDescription {
        client: *mut Client,
        topology: *mut TopologyDescription,
    }
    ClientDevices {
        client: *mut Client,
        devices: *const *mut Device,
        num_devices: usize,
    }
    ClientAddressableDevices {
        client: *mut Client,
        addressable_devices: *const *mut Device,
        num_addressable_devices: usize,
    }
    ClientLookupDevice {
        client: *mut Client,
        id: c_int,
        device: *mut Device,
    }
    ClientLookupAddressableDevice {
        client: *mut Client,
        local_hardware_id: c_int,
        addressable_device: *mut Device,
    }
    ClientUpdateGlobalProcessInfo {
        client: *mut Client,
        process_infos: *mut c_void,
        num_process_infos: usize,
    }
    ClientAddressableMemories {
        client: *mut Client,
        addressable_memories: *const *mut Memory,
        num_addressable_memories: usize,
    }
    ClientCompile {
        client: *mut Client,
        program: *const Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut LoadedExecutable,
    }
    ClientLoad {
        client: *mut Client,
        executable: *mut Executable,
        compile_options: *const c_char,
        compile_options_size: usize,
        loaded_executable: *mut LoadedExecutable,
    }
    ClientDefaultDeviceAssignment {
        client: *mut Client,
        num_replicas: c_int,
        num_partitions: c_int,
        default_assignment_size: usize,
        default_assignment: *mut c_int,
    }
    ClientDmaMap {
        client: *mut Client,
        data: *mut c_void,
        size: usize,
    }
    ClientDmaUnmap {
        client: *mut Client,
        data: *mut c_void,
    }
    ClientCreateUninitializedBuffer {
        client: *mut Client,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: c_int,
        shape_layout: *mut BufferMemoryLayout,
        device: *mut Device,
        memory: *mut Memory,
        buffer: *mut Buffer,
    }
    ClientCreateErrorBuffer {
        client: *mut Client,
        error_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: c_int,
        shape_layout: *mut BufferMemoryLayout,
        memory: *mut Memory,
        buffer: *mut Buffer,
        payload: *const NamedValue,
        num_payload: usize,
    }
    ClientCreateAliasBuffer {
        client: *mut Client,
        memory: *mut Memory,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: c_int,
        shape_layout: *mut BufferMemoryLayout,
        alias_buffer: *mut Buffer,
        fulfill_alias_buffer_cb: *mut c_void,
    }
    ClientFulfillAliasBuffer {
        client: *mut Client,
        buffer: *mut Buffer,
        status_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
        fulfill_alias_buffer_cb: *mut c_void,
    }
    ClientBufferFromHostBuffer {
        client: *mut Client,
        data: *const c_void,
        element_type: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: c_int,
        device: *mut Device,
        memory: *mut Memory,
        device_layout: *mut BufferMemoryLayout,
        done_with_host_buffer: *mut Event,
        buffer: *mut Buffer,
    }
    ClientCreateViewOfDeviceBuffer {
        client: *mut Client,
        device_buffer_ptr: *mut c_void,
        dims: *const i64,
        num_dims: usize,
        element_type: c_int,
        layout: *mut BufferMemoryLayout,
        device: *mut Device,
        on_delete_callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        on_delete_callback_arg: *mut c_void,
        stream: isize,
        buffer: *mut Buffer,
        memory: *mut Memory,
    }
    ClientCreateBuffersForAsyncHostToDevice {
        client: *mut Client,
        shape_specs: *mut ShapeSpec,
        num_shape_specs: usize,
        device_layouts: *mut *mut BufferMemoryLayout,
        num_device_layouts: usize,
        memory: *mut Memory,
        transfer_manager: *mut TransferManager,
    }
    Compile {
        topology: *const TopologyDescription,
        program: *const Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        client: *mut Client,
        executable: *mut Executable,
    }
}
