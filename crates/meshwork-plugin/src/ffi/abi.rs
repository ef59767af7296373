//! What a call has of its own beside the structs of XLA's FFI: errors, contexts and numbers of types.

use std::ffi::c_int;

pub(super) use meshwork_pjrt_abi::ffi::{
    ApiVersion, Array, Attrs, BUFFER, Buffer, Buffers, ByteSpan, CallFrame, EXECUTE, ErrorCreate, Head, Scalar, attr,
};

use meshwork_ir::ElementType;

/// The version that handlers are told.
pub(super) const VERSION: (c_int, c_int) = (0, 3);

pub(super) type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut Error;

/// An error that a handler made with the table's function.
pub(super) struct Error {
    pub message: std::ffi::CString,
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
