//! Handles, and the structs and numbers that several calls share.

use std::ffi::{c_char, c_int, c_void};

/// Objects of the plugin, known to callers by address only.
macro_rules! handles {
    ($($name:ident)*) => {$(
        #[repr(C)]
        #[doc = concat!("`PJRT_", stringify!($name), "`.")]
        pub struct $name {
            _opaque: [u8; 0],
        }
    )*};
}

handles! {
    Error Event Client Device Memory DeviceDescription TopologyDescription Executable LoadedExecutable Buffer
    ExecuteContext CopyToDeviceStream AsyncTrackingEvent TransferManager
}

/// Gets the error of an event, which it owns from then on, and the caller's pointer.
pub type OnReadyCallback = unsafe extern "C" fn(*mut Error, *mut c_void);

/// Gets key and value of a payload of an error, and the caller's pointer.
pub type PayloadVisitor = unsafe extern "C" fn(*const c_char, usize, *const c_char, usize, *mut c_void);

args! {
    NamedValue {
        name: *const c_char,
        name_size: usize,
        kind: c_int,
        value: NamedValueData,
        value_size: usize,
    }
    Program {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }
    MemoryLayoutTiled {
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }
    MemoryLayoutStrides {
        byte_strides: *const i64,
        num_byte_strides: usize,
    }
    BufferMemoryLayout {
        layout: MemoryLayoutData,
        kind: c_int,
    }
    ShapeSpec {
        dims: *const i64,
        num_dims: usize,
        element_type: c_int,
    }
    ExecuteOptions {
        send_callbacks: *mut *mut c_void,
        recv_callbacks: *mut *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut ExecuteContext,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
        multi_slice_config: *mut c_void,
        use_major_to_minor_data_layout_for_callbacks: u8,
        hlo_output_callbacks: *mut c_void,
        num_hlo_output_callbacks: usize,
    }
}

/// The value of a [`NamedValue`]; its `kind` says which.
#[repr(C)]
#[derive(Clone, Copy)]
pub union NamedValueData {
    /// [`named::STRING`].
    pub string: *const c_char,
    /// [`named::INT64`].
    pub int64: i64,
    /// [`named::INT64_LIST`].
    pub int64_list: *const i64,
    /// [`named::FLOAT`].
    pub float: f32,
    /// [`named::BOOL`].
    pub bool: bool,
}

/// Kinds of a [`NamedValue`].
pub mod named {
    use std::ffi::c_int;

    /// Bytes.
    pub const STRING: c_int = 0;
    /// A number.
    pub const INT64: c_int = 1;
    /// Numbers.
    pub const INT64_LIST: c_int = 2;
    /// A number with a fraction.
    pub const FLOAT: c_int = 3;
    /// Yes or no.
    pub const BOOL: c_int = 4;
}

/// The layout of a [`BufferMemoryLayout`]: tiled if its `kind` is [`LAYOUT_TILED`], else strides.
#[repr(C)]
#[derive(Clone, Copy)]
pub union MemoryLayoutData {
    /// An order of dimensions, and tiles.
    pub tiled: MemoryLayoutTiled,
    /// Bytes from one index of each dimension to the next.
    pub strides: MemoryLayoutStrides,
}

/// A [`MemoryLayoutTiled`].
pub const LAYOUT_TILED: c_int = 0;
/// A [`MemoryLayoutStrides`].
pub const LAYOUT_STRIDES: c_int = 1;

/// Replica and partition of a device in an executable.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct LogicalDeviceIds {
    pub replica: c_int,
    pub partition: c_int,
}

/// `PJRT_Error_Code`: what kind of error it is.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Code {
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The code with this number; `Unknown` for one that is not in the list.
    pub fn from_number(number: c_int) -> Code {
        use Code::*;
        let all = [
            Cancelled,
            Unknown,
            InvalidArgument,
            DeadlineExceeded,
            NotFound,
            AlreadyExists,
            PermissionDenied,
            ResourceExhausted,
            FailedPrecondition,
            Aborted,
            OutOfRange,
            Unimplemented,
            Internal,
            Unavailable,
            DataLoss,
            Unauthenticated,
        ];
        all.into_iter().find(|&code| code as c_int == number).unwrap_or(Unknown)
    }
}

/// `PJRT_HostBufferSemantics`: how long the caller keeps a host buffer as it is.
pub mod semantics {
    use std::ffi::c_int;

    /// Until the call returns.
    pub const ONLY_DURING_CALL: c_int = 0;
    /// Until the event of the call.
    pub const UNTIL_TRANSFER_COMPLETES: c_int = 1;
    /// As long as the buffer lives, which may share its memory.
    pub const ZERO_COPY: c_int = 2;
    /// As above, and the buffer may be written.
    pub const MUTABLE_ZERO_COPY: c_int = 3;
}
