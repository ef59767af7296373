//! What goes wrong inside an operation, before it is known which operation it is.

use super::error::EvalError;
use meshwork_ir::{Module, OpId};

/// An error of an op's arithmetic; [`Fault::at`] adds the operation.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Fault {
    /// The program or its data is wrong.
    Invalid(String),
    /// Legal, but not supported.
    Unsupported(String),
    /// An error of an operation in the body of this one.
    Inner(EvalError),
}

impl Fault {
    pub(crate) fn invalid(message: impl Into<String>) -> Fault {
        Fault::Invalid(message.into())
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Fault {
        Fault::Unsupported(what.into())
    }

    /// The same error, of operation `op`.
    pub(crate) fn at(self, module: &Module, op: OpId) -> EvalError {
        match self {
            Fault::Invalid(message) => EvalError::invalid(module, op, message),
            Fault::Unsupported(what) => EvalError::unsupported(module, op, what),
            Fault::Inner(error) => error,
        }
    }
}

impl From<EvalError> for Fault {
    fn from(error: EvalError) -> Fault {
        Fault::Inner(error)
    }
}
