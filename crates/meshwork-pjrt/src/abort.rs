//! What is said when a plugin ends the process: XLA aborts where a check of its own fails, and returns no error.

use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The call that a plugin is in, or was in last: the start and length of its name.
static NAME: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static LENGTH: AtomicUsize = AtomicUsize::new(0);

const ABORT: i32 = 6;
const STANDARD_ERROR: i32 = 2;
const DEFAULT: usize = 0;

unsafe extern "C" {
    fn signal(number: i32, handler: usize) -> usize;
    fn write(file: i32, bytes: *const u8, count: usize) -> isize;
}

/// Notes the call that begins.
pub(crate) fn entering(call: &'static str) {
    LENGTH.store(call.len(), Ordering::Relaxed);
    NAME.store(call.as_ptr().cast_mut(), Ordering::Release);
}

/// From now on, a process that a plugin aborts says so on standard error, with the call. A handler that somebody else has
/// for aborts stays.
pub(crate) fn explain() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler does nothing but write and reset itself; another one is put back.
        unsafe {
            let before = signal(ABORT, aborted as *const () as usize);
            if before != DEFAULT {
                signal(ABORT, before);
            }
        }
    });
}

/// Writes what happened. The process aborts when it returns.
extern "C" fn aborted(_: i32) {
    let say = |text: &[u8]| {
        // SAFETY: it writes from a slice.
        let _ = unsafe { write(STANDARD_ERROR, text.as_ptr(), text.len()) };
    };
    let name = NAME.load(Ordering::Acquire);
    if !name.is_null() {
        say(b"\nmeshwork: the process was aborted; the last call of a PJRT plugin was ");
        // SAFETY: it is the start and length of a static string.
        say(unsafe { std::slice::from_raw_parts(name, LENGTH.load(Ordering::Relaxed)) });
        say(b". If a check of the plugin failed, its message is above.\n");
    }
    // SAFETY: it makes the signal do what it does by default.
    unsafe { signal(ABORT, DEFAULT) };
}
