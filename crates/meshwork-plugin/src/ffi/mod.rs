//! Foreign functions: handlers of XLA's typed FFI that users register with `jax.ffi.register_ffi_target`.
//!
//! A handler takes a *call frame*: buffers of operands and results, attributes, and a table of functions that it may call
//! back (`api`). `frame` builds it, `abi` has the structs.

mod abi;
mod api;
mod frame;

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::sync::{PoisonError, RwLock};

use meshwork_eval::{ForeignCall, set_foreign};
use meshwork_ir::Literal;

use crate::border::text;
use abi::Handler;

/// Handlers by name.
static HANDLERS: RwLock<BTreeMap<String, Handler>> = RwLock::new(BTreeMap::new());

/// Registers a handler, which stays for as long as the process does.
///
/// # Safety
///
/// `name` has `size` bytes, and `handler` is a handler of XLA's FFI.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshwork_register_handler(name: *const c_char, size: usize, handler: *const c_void) {
    // SAFETY: the caller vouches for it; null is no handler.
    let handler = unsafe { std::mem::transmute::<*const c_void, Option<Handler>>(handler) };
    let Some(handler) = handler else { return };
    HANDLERS.write().unwrap_or_else(PoisonError::into_inner).insert(text(name, size).into_owned(), handler);
    set_foreign(call);
}

fn call(call: &ForeignCall<'_>, results: &mut [Literal]) -> Option<Result<(), String>> {
    let handler = HANDLERS.read().unwrap_or_else(PoisonError::into_inner).get(call.target).copied()?;
    Some(frame::call(handler, call, results))
}
