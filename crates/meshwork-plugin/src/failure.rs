//! What went wrong, with a code of the C API; and the slots of errors.

use std::ffi::c_void;

use meshwork_partition::CompileError;
use meshwork_pjrt_abi::proto::Malformed;
use meshwork_pjrt_abi::{Code, Error, ErrorDestroy, ErrorForEachPayload, ErrorGetCode, ErrorMessage};
use meshwork_runtime::memory::buffer::OutOfMemory;
use meshwork_runtime::{LoadError, RunError};

use crate::border::{Handle, borrow, destroy};

/// An error as callers see it: Python raises it as an exception.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Failure {
    pub code: Code,
    pub message: String,
}

/// What a slot returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Code::InvalidArgument, message)
    }

    pub fn unimplemented(message: impl Into<String>) -> Failure {
        Failure::new(Code::Unimplemented, message)
    }

    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(Code::Internal, message)
    }

    /// What a panic said.
    pub fn of_panic(panic: &(dyn std::any::Any + Send)) -> Failure {
        let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown".into());
        Failure::internal(format!("Meshwork has a bug and panicked: {text}"))
    }
}

impl From<Malformed> for Failure {
    fn from(error: Malformed) -> Failure {
        Failure::invalid(error.0)
    }
}

impl From<OutOfMemory> for Failure {
    fn from(error: OutOfMemory) -> Failure {
        Failure::new(Code::ResourceExhausted, error.to_string())
    }
}

impl From<CompileError> for Failure {
    fn from(error: CompileError) -> Failure {
        use meshwork_partition::PartitionError;
        match &error {
            CompileError::Partition(PartitionError::Unsupported { .. }) => Failure::unimplemented(error.to_string()),
            _ => Failure::invalid(error.to_string()),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Failure {
        match &error {
            LoadError::Unsupported { .. } | LoadError::TooManyDevices { .. } => {
                Failure::unimplemented(error.to_string())
            }
            LoadError::Memory(memory) => (*memory).into(),
            _ => Failure::invalid(error.to_string()),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match &error {
            RunError::Memory(memory) => (*memory).into(),
            RunError::Arguments(_) => Failure::invalid(error.to_string()),
            _ => Failure::internal(error.to_string()),
        }
    }
}

/// The first word is the address of a table of functions, or null, from version 0.107 on.
#[repr(C)]
pub(crate) struct ErrorHandle {
    functions: *const c_void,
    failure: Failure,
}

impl Handle for ErrorHandle {
    type C = Error;
}

/// The handle of an error; null if there is none.
pub(crate) fn error_handle(outcome: Outcome) -> *mut Error {
    match outcome {
        Ok(()) => std::ptr::null_mut(),
        Err(failure) => ErrorHandle { functions: std::ptr::null(), failure }.give(),
    }
}

pub(crate) fn error_destroy(args: &mut ErrorDestroy) -> Outcome {
    destroy::<ErrorHandle>(args.error);
    Ok(())
}

pub(crate) fn error_message(args: &mut ErrorMessage) -> Outcome {
    let text = match borrow::<ErrorHandle>(args.error.cast_mut()) {
        Ok(error) => error.failure.message.as_str(),
        Err(_) => "",
    };
    (args.message, args.message_size) = (text.as_ptr().cast(), text.len());
    Ok(())
}

pub(crate) fn error_get_code(args: &mut ErrorGetCode) -> Outcome {
    args.code = borrow::<ErrorHandle>(args.error.cast_mut())?.failure.code as i32;
    Ok(())
}

/// Errors here have no payload.
pub(crate) fn error_for_each_payload(_: &mut ErrorForEachPayload) -> Outcome {
    Ok(())
}
