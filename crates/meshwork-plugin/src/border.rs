//! The border to C: handles, slices and strings behind pointers, and slots that no panic leaves.
//!
//! Callers vouch for their pointers as the C header asks them to: handles come from this plugin and are not destroyed,
//! arrays are as long as the count beside them. All of the plugin's trust in them is in this file.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use meshwork_pjrt_abi::{Args, Error, Slot};

use crate::failure::{Failure, Outcome, error_handle};

/// An object that callers know by its address.
pub(crate) trait Handle: Sized {
    /// Its opaque type in C.
    type C;

    /// Gives it to the caller, who destroys it.
    fn give(self) -> *mut Self::C {
        Box::into_raw(Box::new(self)).cast()
    }
}

/// The object behind a handle.
pub(crate) fn borrow<'a, T: Handle>(handle: *mut T::C) -> Outcome<&'a T> {
    // SAFETY: see the top of this file.
    unsafe { handle.cast::<T>().as_ref() }.ok_or_else(|| {
        let what = std::any::type_name::<T::C>().rsplit("::").next().unwrap_or_default();
        Failure::invalid(format!("null given where a PJRT_{what} is needed"))
    })
}

/// Frees the object behind a handle that was [given](Handle::give).
pub(crate) fn destroy<T: Handle>(handle: *mut T::C) {
    if !handle.is_null() {
        // SAFETY: see the top of this file; the caller does not use it again.
        drop(unsafe { Box::from_raw(handle.cast::<T>()) });
    }
}

/// `count` elements at `start`; none if it is null.
pub(crate) fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: see the top of this file.
    unsafe { std::slice::from_raw_parts(start, count) }
}

/// As [`slice`], to be written.
pub(crate) fn slice_mut<'a, T>(start: *mut T, count: usize) -> &'a mut [T] {
    if start.is_null() || count == 0 {
        return &mut [];
    }
    // SAFETY: see the top of this file.
    unsafe { std::slice::from_raw_parts_mut(start, count) }
}

/// The bytes of a string of `size` bytes.
pub(crate) fn bytes<'a>(start: *const c_char, size: usize) -> &'a [u8] {
    slice(start.cast(), size)
}

/// The text of a string of `size` bytes.
pub(crate) fn text<'a>(start: *const c_char, size: usize) -> std::borrow::Cow<'a, str> {
    String::from_utf8_lossy(bytes(start, size))
}

/// The fields of a struct of the caller that both sides know; the others are zero.
pub(crate) fn known<A: Args>(args: *const A) -> Option<A> {
    if args.is_null() {
        return None;
    }
    // SAFETY: every struct starts with its size, up to which it can be read; all zeros are a valid `A`.
    unsafe {
        let size = args.cast::<usize>().read().min(size_of::<A>());
        let mut own = std::mem::zeroed::<A>();
        std::ptr::copy_nonoverlapping(args.cast::<u8>(), (&raw mut own).cast::<u8>(), size);
        Some(own)
    }
}

/// The slot that calls `f`. Fields that only one side knows are left alone; a panic becomes an error.
pub(crate) fn slot<A: Args, F: Fn(&mut A) -> Outcome + Copy + 'static>(_: F) -> Slot<A> {
    unsafe extern "C" fn call<A: Args, F: Fn(&mut A) -> Outcome + Copy + 'static>(args: *mut A) -> *mut Error {
        let Some(mut own) = known(args) else {
            return error_handle(Err(Failure::invalid("null given for the arguments of a call")));
        };
        // SAFETY: a function's own type has no size, so nothing is read.
        let f = unsafe { std::ptr::NonNull::<F>::dangling().read() };
        let outcome = catch_unwind(AssertUnwindSafe(|| f(&mut own)));
        // SAFETY: as in `known`; the size is the caller's.
        unsafe {
            let size = args.cast::<usize>().read().min(size_of::<A>());
            std::ptr::copy_nonoverlapping((&raw const own).cast::<u8>(), args.cast::<u8>(), size);
        }
        error_handle(outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic))))
    }
    const { assert!(size_of::<F>() == 0) };
    Some(call::<A, F>)
}

/// The slot of a call that the plugin does not have.
pub(crate) fn missing<A: Args>() -> Slot<A> {
    unsafe extern "C" fn call<A: Args>(_: *mut A) -> *mut Error {
        let name = std::any::type_name::<A>().rsplit("::").next().unwrap_or_default();
        error_handle(Err(Failure::unimplemented(format!("Meshwork does not implement the PJRT call {name}"))))
    }
    Some(call::<A>)
}

/// Frees bytes given with [`leak`].
pub(crate) unsafe extern "C" fn free_bytes(owner: *mut std::ffi::c_void) {
    if !owner.is_null() {
        // SAFETY: `leak` made it, and the caller frees it once.
        drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
    }
}

/// Gives bytes to the caller: their address and size, and what to hand to [`free_bytes`].
pub(crate) fn leak(bytes: Vec<u8>) -> (*const c_char, usize, *mut std::ffi::c_void) {
    let owner = Box::new(bytes);
    let (start, size) = (owner.as_ptr().cast(), owner.len());
    (start, size, Box::into_raw(owner).cast())
}
