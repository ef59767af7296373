//! Events: something that a device has yet to finish.

use std::ffi::c_void;
use std::sync::Arc;

use meshwork_pjrt_abi::{self as abi, EventAwait, EventDestroy, EventOnReady};

use crate::plugin::{PjrtError, Plugin, blank, call};

/// Something to wait for.
pub(crate) struct Event {
    plugin: Arc<Plugin>,
    event: *mut abi::Event,
}

// SAFETY: events can be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// Takes over an event of `plugin`; `None` if it gave none.
    pub fn new(plugin: &Arc<Plugin>, event: *mut abi::Event) -> Option<Event> {
        (!event.is_null()).then(|| Event { plugin: plugin.clone(), event })
    }

    /// Waits, and says what went wrong.
    pub fn wait(&self) -> Result<(), PjrtError> {
        call!(self.plugin, event_await, EventAwait { event: self.event, ..blank() }).map(|_| ())
    }

    /// Keeps `what` until it has happened.
    pub fn keep<T: Send + 'static>(self, what: T) {
        struct Kept<T> {
            plugin: Arc<Plugin>,
            _what: T,
        }
        unsafe extern "C" fn done<T>(error: *mut abi::Error, kept: *mut c_void) {
            // SAFETY: it is what was given with the callback, which is called once.
            let kept = unsafe { Box::from_raw(kept.cast::<Kept<T>>()) };
            if !error.is_null() {
                // Whoever reads the result is told too.
                drop(kept.plugin.take_error("event", error));
            }
        }
        let kept = Box::into_raw(Box::new(Kept { plugin: self.plugin.clone(), _what: what }));
        let args = EventOnReady { event: self.event, callback: Some(done::<T>), user_arg: kept.cast(), ..blank() };
        if call!(self.plugin, event_on_ready, args).is_err() {
            let _ = self.wait();
            // SAFETY: the callback was not taken.
            drop(unsafe { Box::from_raw(kept) });
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = call!(self.plugin, event_destroy, EventDestroy { event: self.event, ..blank() });
    }
}
