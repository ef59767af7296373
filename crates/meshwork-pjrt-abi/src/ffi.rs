//! The structs of XLA's FFI, version 0.3: what a foreign function is called with.
//!
//! A handler is called with a [`CallFrame`]: buffers of operands and results, attributes, and a [`Table`] of functions that
//! it may call back.

use std::ffi::{c_char, c_int, c_void};

/// The only kind of argument and result.
pub const BUFFER: c_int = 1;
/// The stage of a call.
pub const EXECUTE: c_int = 3;
/// The kind of the extension by which a handler is asked what it is.
pub const METADATA: c_int = 1;

/// Kinds of attributes.
#[allow(missing_docs)]
pub mod attr {
    use std::ffi::c_int;
    pub const ARRAY: c_int = 1;
    pub const DICTIONARY: c_int = 2;
    pub const SCALAR: c_int = 3;
    pub const STRING: c_int = 4;
}

/// An error, known to others than its maker by address only.
#[repr(C)]
pub struct Error {
    _opaque: [u8; 0],
}

/// The first two words of every struct.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct Head {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
}

impl Head {
    /// The head of a struct of this type.
    pub const fn of<T>() -> Head {
        Head { struct_size: size_of::<T>(), extension_start: std::ptr::null_mut() }
    }
}

/// An operand or result.
#[repr(C)]
#[allow(missing_docs)]
pub struct Buffer {
    pub head: Head,
    pub dtype: c_int,
    pub data: *mut c_void,
    pub rank: i64,
    pub dims: *const i64,
}

/// Arguments, or results.
#[repr(C)]
#[allow(missing_docs)]
pub struct Buffers {
    pub head: Head,
    pub size: i64,
    pub types: *const c_int,
    pub all: *const *const Buffer,
}

/// Attributes, in the order of their names.
#[repr(C)]
#[allow(missing_docs)]
pub struct Attrs {
    pub head: Head,
    pub size: i64,
    pub types: *const c_int,
    pub names: *const *const ByteSpan,
    pub attrs: *const *const c_void,
}

/// A text.
#[repr(C)]
#[allow(missing_docs)]
pub struct ByteSpan {
    pub start: *const c_char,
    pub size: usize,
}

/// An attribute of one number.
#[repr(C)]
#[allow(missing_docs)]
pub struct Scalar {
    pub dtype: c_int,
    pub value: *const c_void,
}

/// An attribute of several numbers.
#[repr(C)]
#[allow(missing_docs)]
pub struct Array {
    pub dtype: c_int,
    pub size: usize,
    pub data: *const c_void,
}

/// A call.
#[repr(C)]
#[allow(missing_docs)]
pub struct CallFrame {
    pub head: Head,
    pub api: *const Table,
    pub context: *const c_void,
    pub stage: c_int,
    pub args: Buffers,
    pub rets: Buffers,
    pub attrs: Attrs,
    /// Written by a handler that is not done when it returns.
    pub future: *mut c_void,
}

/// A version of the FFI.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct ApiVersion {
    pub head: Head,
    pub major: c_int,
    pub minor: c_int,
}

/// Asks a handler what it is.
#[repr(C)]
#[allow(missing_docs)]
pub struct MetadataExtension {
    pub struct_size: usize,
    pub kind: c_int,
    pub next: *mut c_void,
    pub metadata: *mut Metadata,
}

/// What a handler is.
#[repr(C)]
#[allow(missing_docs)]
pub struct Metadata {
    pub struct_size: usize,
    pub version: ApiVersion,
    pub traits: c_int,
}

/// Makes an error of a text.
#[repr(C)]
#[allow(missing_docs)]
pub struct ErrorCreate {
    pub head: Head,
    pub message: *const c_char,
    pub code: c_int,
}

/// Asks for the stream of a call.
#[repr(C)]
#[allow(missing_docs)]
pub struct StreamGet {
    pub head: Head,
    pub context: *const c_void,
    pub stream: *mut c_void,
}

/// A function of a table.
pub type Call<A> = unsafe extern "C" fn(*mut A) -> *mut Error;

/// The functions that every version has first; later ones follow.
#[repr(C)]
#[allow(missing_docs)]
pub struct Table {
    pub head: Head,
    pub version: ApiVersion,
    pub internal: *const c_void,
    pub error_create: Call<ErrorCreate>,
    pub error_get_message: unsafe extern "C" fn(*mut c_void),
    pub error_destroy: unsafe extern "C" fn(*mut c_void),
    pub handler_register: Call<c_void>,
    pub stream_get: Call<StreamGet>,
}
