//! The extensions for layouts, shardings and foreign functions.

use crate::types::*;
use crate::{ExtensionBase, Slot};
use std::ffi::{c_char, c_int, c_void};

/// The number of the extension for layouts.
pub const LAYOUTS: c_int = 4;
/// The number of the extension for shardings.
pub const SHARDINGS: c_int = 19;

/// A layout, known to callers by address only.
#[repr(C)]
pub struct Layout {
    _opaque: [u8; 0],
}

args! {
    LayoutDestroy {
        layout: *mut Layout,
    }
    LayoutSerialize {
        layout: *mut Layout,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_layout: *mut c_void,
        serialized_layout_deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    }
    LayoutOfBuffer {
        buffer: *mut Buffer,
        layout: *mut Layout,
    }
    LayoutOfClient {
        client: *mut Client,
        element_type: c_int,
        dims: *const i64,
        num_dims: usize,
        layout: *mut Layout,
    }
    LayoutOfTopology {
        topology: *mut TopologyDescription,
        element_type: c_int,
        dims: *const i64,
        num_dims: usize,
        layout: *mut Layout,
    }
    LayoutsOfExecutable {
        executable: *mut Executable,
        num: usize,
        layouts: *mut *mut Layout,
    }
    ShardingsOfExecutable {
        executable: *mut Executable,
        num: usize,
        shardings: *const *const c_char,
        sharding_sizes: *const usize,
    }
}

/// Memory layouts of buffers, arguments and results.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct LayoutsExtension {
    pub base: ExtensionBase,
    pub destroy: Slot<LayoutDestroy>,
    pub serialize: Slot<LayoutSerialize>,
    pub client_default: Slot<LayoutOfClient>,
    pub buffer: Slot<LayoutOfBuffer>,
    pub topology_default: Slot<LayoutOfTopology>,
    pub executable_outputs: Slot<LayoutsOfExecutable>,
    pub executable_parameters: Slot<LayoutsOfExecutable>,
}

/// Shardings of arguments and results, as serialized `OpSharding`s.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct ShardingsExtension {
    pub base: ExtensionBase,
    pub executable_parameters: Slot<ShardingsOfExecutable>,
    pub executable_outputs: Slot<ShardingsOfExecutable>,
}

/// The number of PJRT's extension for foreign functions.
pub const FFI: c_int = 5;

/// Tells a plugin of a handler. Its struct has no list of extensions.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct RegisterHandler {
    pub struct_size: usize,
    pub target_name: *const c_char,
    pub target_name_size: usize,
    pub handler: *mut c_void,
    pub platform_name: *const c_char,
    pub platform_name_size: usize,
    pub traits: c_int,
    /// Fields of later versions.
    pub unused: [u64; 4],
}

/// The extension for foreign functions.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct FfiExtension {
    pub base: ExtensionBase,
    pub type_register: *const c_void,
    pub user_data_add: *const c_void,
    pub register_handler: Option<unsafe extern "C" fn(*mut RegisterHandler) -> *mut Error>,
}
