//! The table of functions that handlers call back.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::abi::{ApiVersion, Context, Error, ErrorCreate, Future, Head, VERSION};
use crate::event::Signal;
use crate::failure::Failure;

/// Memory that a handler asks for is aligned to this at least.
const ALIGNMENT: usize = 64;

type Call<A> = unsafe extern "C" fn(*mut A) -> *mut Error;

#[repr(C)]
pub(super) struct Api {
    head: Head,
    version: ApiVersion,
    internal: *const c_void,
    error_create: Call<ErrorCreate>,
    error_get_message: unsafe extern "C" fn(*mut ErrorMessage),
    error_destroy: unsafe extern "C" fn(*mut ErrorMessage),
    handler_register: Call<c_void>,
    stream_get: Call<c_void>,
    type_register: Call<TypeRegister>,
    context_get: Call<c_void>,
    state_set: Call<c_void>,
    state_get: Call<c_void>,
    memory_allocate: Call<MemoryAllocate>,
    memory_free: Call<MemoryFree>,
    pool_schedule: Call<Schedule>,
    pool_threads: Call<Threads>,
    future_create: Call<FutureCall>,
    future_set_available: Call<FutureCall>,
    future_set_error: Call<FutureCall>,
    run_id: Call<Number>,
    device_ordinal: Call<Number>,
}

// SAFETY: it is never written.
unsafe impl Sync for Api {}

#[repr(C)]
struct ErrorMessage {
    head: Head,
    error: *mut Error,
    message: *const c_char,
}

#[repr(C)]
struct TypeRegister {
    head: Head,
    name: super::abi::ByteSpan,
    id: *mut i64,
}

#[repr(C)]
struct MemoryAllocate {
    head: Head,
    context: *const Context,
    size: usize,
    alignment: usize,
    data: *mut c_void,
}

#[repr(C)]
struct MemoryFree {
    head: Head,
    context: *const Context,
    size: usize,
    data: *mut c_void,
}

#[repr(C)]
struct Schedule {
    head: Head,
    context: *const Context,
    task: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
}

#[repr(C)]
struct Threads {
    head: Head,
    context: *const Context,
    count: *mut i64,
}

#[repr(C)]
struct FutureCall {
    head: Head,
    future: *mut Future,
    error: *mut Error,
}

#[repr(C)]
struct Number {
    head: Head,
    context: *const Context,
    number: i64,
}

pub(super) static API: Api = Api {
    head: Head { struct_size: size_of::<Api>(), extension_start: std::ptr::null_mut() },
    version: ApiVersion {
        head: Head { struct_size: size_of::<ApiVersion>(), extension_start: std::ptr::null_mut() },
        major: VERSION.0,
        minor: VERSION.1,
    },
    internal: std::ptr::null(),
    error_create,
    error_get_message,
    error_destroy,
    handler_register: missing::<c_void>,
    stream_get: missing::<c_void>,
    type_register,
    context_get: missing::<c_void>,
    state_set: missing::<c_void>,
    state_get: missing::<c_void>,
    memory_allocate,
    memory_free,
    pool_schedule,
    pool_threads,
    future_create,
    future_set_available,
    future_set_error,
    run_id,
    device_ordinal,
};

// SAFETY of all of them: handlers give the structs of the C header, filled in as it says.

fn error(message: &CStr) -> *mut Error {
    Box::into_raw(Box::new(Error { message: message.into() }))
}

unsafe extern "C" fn missing<A>(_: *mut A) -> *mut Error {
    error(c"Meshwork's foreign functions have no streams, states or user data of a run")
}

unsafe extern "C" fn error_create(args: *mut ErrorCreate) -> *mut Error {
    // SAFETY: see above.
    let message = unsafe { (*args).message };
    if message.is_null() {
        return error(c"a foreign function failed without a message");
    }
    // SAFETY: see above.
    error(unsafe { CStr::from_ptr(message) })
}

unsafe extern "C" fn error_get_message(args: *mut ErrorMessage) {
    // SAFETY: see above.
    unsafe { (*args).message = (*(*args).error).message.as_ptr() };
}

unsafe extern "C" fn error_destroy(args: *mut ErrorMessage) {
    // SAFETY: see above; `error` made it.
    unsafe { take((*args).error) };
}

/// The message of an error, which ends.
///
/// # Safety
///
/// [`error`] made it, and nobody uses it afterwards.
pub(super) unsafe fn take(error: *mut Error) -> Option<CString> {
    // SAFETY: the caller's.
    (!error.is_null()).then(|| unsafe { Box::from_raw(error) }.message)
}

unsafe extern "C" fn type_register(args: *mut TypeRegister) -> *mut Error {
    static NEXT: AtomicI64 = AtomicI64::new(1);
    // SAFETY: see above.
    unsafe {
        if !(*args).id.is_null() && *(*args).id == 0 {
            *(*args).id = NEXT.fetch_add(1, Ordering::Relaxed);
        }
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn memory_allocate(args: *mut MemoryAllocate) -> *mut Error {
    // SAFETY: see above.
    let args = unsafe { &mut *args };
    let Some(layout) = layout(args.size).filter(|l| args.alignment <= l.align()) else {
        return error(c"memory for a foreign function of this size and alignment");
    };
    // SAFETY: the size is not zero.
    args.data = unsafe { alloc(layout) }.cast();
    if args.data.is_null() { error(c"out of memory for a foreign function") } else { std::ptr::null_mut() }
}

unsafe extern "C" fn memory_free(args: *mut MemoryFree) -> *mut Error {
    // SAFETY: see above; `memory_allocate` made it with this size.
    unsafe {
        if let Some(layout) = layout((*args).size).filter(|_| !(*args).data.is_null()) {
            dealloc((*args).data.cast(), layout);
        }
    }
    std::ptr::null_mut()
}

fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.max(1), ALIGNMENT).ok()
}

/// A task is done at once: calls of different devices are parallel already.
unsafe extern "C" fn pool_schedule(args: *mut Schedule) -> *mut Error {
    // SAFETY: see above.
    unsafe {
        if let Some(task) = (*args).task {
            task((*args).data);
        }
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn pool_threads(args: *mut Threads) -> *mut Error {
    // SAFETY: see above.
    unsafe {
        if !(*args).count.is_null() {
            *(*args).count = 1;
        }
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn future_create(args: *mut FutureCall) -> *mut Error {
    let future: Future = Arc::new(Signal::default());
    // SAFETY: see above.
    unsafe { (*args).future = Box::into_raw(Box::new(future)) };
    std::ptr::null_mut()
}

unsafe extern "C" fn future_set_available(args: *mut FutureCall) -> *mut Error {
    // SAFETY: see above.
    unsafe { (*(*args).future).set(Ok(())) };
    std::ptr::null_mut()
}

unsafe extern "C" fn future_set_error(args: *mut FutureCall) -> *mut Error {
    // SAFETY: see above; the error is ours from here on.
    unsafe {
        let message = take((*args).error).unwrap_or_default();
        (*(*args).future).set(Err(Failure::internal(message.to_string_lossy())));
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn run_id(args: *mut Number) -> *mut Error {
    // SAFETY: see above.
    unsafe { (*args).number = 0 };
    std::ptr::null_mut()
}

unsafe extern "C" fn device_ordinal(args: *mut Number) -> *mut Error {
    // SAFETY: see above; the number is one of 32 bits, whose bytes come first.
    unsafe { (&raw mut (*args).number).cast::<i32>().write((*(*args).context).device as i32) };
    std::ptr::null_mut()
}
