//! What can go wrong while a program is evaluated.

use crate::{Module, OpId};

/// Why an evaluation stopped.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum EvalError {
    /// A legal program that is beyond the evaluator.
    #[error("{op}: not supported: {what}")]
    Unsupported {
        /// The operation and where it stands.
        op: String,
        /// What about it is not supported.
        what: String,
    },
    /// A `check` operation found what it did not expect.
    #[error("{op}: check failed at index {index:?}: got {got}, expected {want} ({rule})")]
    CheckFailed {
        /// The operation and where it stands.
        op: String,
        /// The first element that differs.
        index: Vec<i64>,
        /// What the program computed.
        got: String,
        /// What it should have computed.
        want: String,
        /// The rule that both values break.
        rule: String,
    },
    /// The program is not well formed, or its inputs do not fit it.
    #[error("{op}: {message}")]
    Invalid {
        /// The operation and where it stands.
        op: String,
        /// What is wrong, with names and numbers.
        message: String,
    },
}

impl EvalError {
    /// Operation `op` is beyond the evaluator because of `what`.
    pub fn unsupported(module: &Module, op: OpId, what: impl Into<String>) -> EvalError {
        EvalError::Unsupported { op: module.describe(op), what: what.into() }
    }

    /// Operation `op` is wrong.
    pub fn invalid(module: &Module, op: OpId, message: impl Into<String>) -> EvalError {
        EvalError::Invalid { op: module.describe(op), message: message.into() }
    }
}
