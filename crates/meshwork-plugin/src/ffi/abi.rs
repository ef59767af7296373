//! The structs of XLA's FFI, version 0.3.

use std::ffi::{c_char, c_int, c_void};

use meshwork_ir::ElementType;

/// The version that handlers are told.
pub(super) const VERSION: (c_int, c_int) = (0, 3);

/// The only kind of argument and result.
pub(super) const BUFFER: c_int = 1;
/// The stage of a call.
pub(super) const EXECUTE: c_int = 3;

/// Kinds of attributes.
pub(super) mod attr {
    use std::ffi::c_int;
    pub const ARRAY: c_int = 1;
    pub const DICTIONARY: c_int = 2;
    pub const SCALAR: c_int = 3;
    pub const STRING: c_int = 4;
}

pub(super) type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut Error;

/// An error that a handler made with the table's function.
pub(super) struct Error {
    pub message: std::ffi::CString,
}

/// The first two words of every struct.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub struct_size: usize,
    pub extension_start: *mut c_void,
}

impl Head {
    pub fn of<T>() -> Head {
        Head { struct_size: size_of::<T>(), extension_start: std::ptr::null_mut() }
    }
}

#[repr(C)]
pub(super) struct Buffer {
    pub head: Head,
    pub dtype: c_int,
    pub data: *mut c_void,
    pub rank: i64,
    pub dims: *const i64,
}

/// Arguments, or results.
#[repr(C)]
pub(super) struct Buffers {
    pub head: Head,
    pub size: i64,
    pub types: *const c_int,
    pub all: *const *const Buffer,
}

#[repr(C)]
pub(super) struct Attrs {
    pub head: Head,
    pub size: i64,
    pub types: *const c_int,
    pub names: *const *const ByteSpan,
    pub attrs: *const *const c_void,
}

#[repr(C)]
pub(super) struct ByteSpan {
    pub start: *const c_char,
    pub size: usize,
}

#[repr(C)]
pub(super) struct Scalar {
    pub dtype: c_int,
    pub value: *const c_void,
}

#[repr(C)]
pub(super) struct Array {
    pub dtype: c_int,
    pub size: usize,
    pub data: *const c_void,
}

#[repr(C)]
pub(super) struct CallFrame {
    pub head: Head,
    pub api: *const super::api::Api,
    pub context: *const Context,
    pub stage: c_int,
    pub args: Buffers,
    pub rets: Buffers,
    pub attrs: Attrs,
    /// Written by a handler that is not done when it returns.
    pub future: *mut Future,
}

/// What a handler may ask about its call.
pub(super) struct Context {
    pub device: usize,
}

/// A call that ends later.
pub(super) type Future = std::sync::Arc<crate::event::Signal>;

/// The number of an element type.
pub(super) fn dtype(elem: ElementType) -> Result<c_int, String> {
    use ElementType::*;
    Ok(match elem {
        I1 => 1,
        I2 => 26,
        I4 => 21,
        I8 => 2,
        I16 => 3,
        I32 => 4,
        I64 => 5,
        UI2 => 27,
        UI4 => 22,
        UI8 => 6,
        UI16 => 7,
        UI32 => 8,
        UI64 => 9,
        F16 => 10,
        F32 => 11,
        F64 => 12,
        BF16 => 16,
        C64 => 15,
        C128 => 18,
        F8E5M2 => 19,
        F8E3M4 => 29,
        F8E4M3 => 28,
        F8E4M3FN => 20,
        F8E4M3B11FNUZ => 23,
        F8E5M2FNUZ => 24,
        F8E4M3FNUZ => 25,
        F4E2M1FN => 32,
        F8E8M0FNU => 33,
        other => return Err(format!("foreign functions have no elements of type {other}")),
    })
}
