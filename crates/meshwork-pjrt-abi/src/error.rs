//! Errors and events.

use crate::types::*;
use std::ffi::{c_char, c_int, c_void};

args! {
    ErrorDestroy {
        error: *mut Error,
    }
    ErrorMessage {
        error: *const Error,
        message: *const c_char,
        message_size: usize,
    }
    ErrorGetCode {
        error: *const Error,
        code: c_int,
    }
    ErrorForEachPayload {
        error: *const Error,
        visitor: Option<PayloadVisitor>,
        user_arg: *mut c_void,
    }
    EventDestroy {
        event: *mut Event,
    }
    EventIsReady {
        event: *mut Event,
        is_ready: u8,
    }
    EventError {
        event: *mut Event,
    }
    EventAwait {
        event: *mut Event,
    }
    EventOnReady {
        event: *mut Event,
        callback: Option<OnReadyCallback>,
        user_arg: *mut c_void,
    }
    EventCreate {
        event: *mut Event,
    }
    EventSet {
        event: *mut Event,
        error_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
    }
}
