//! What can go wrong while a program is evaluated.

use meshwork_ir::{Diagnostic, Module, OpId, OpPlace, Severity};

/// Why an evaluation stopped.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum EvalError {
    /// A legal program that the evaluator does not support.
    #[error("{op}: not supported: {what}")]
    Unsupported {
        /// The operation and its place in the source.
        op: OpPlace,
        /// What about it is not supported.
        what: String,
    },
    /// A `check` operation found what it did not expect.
    #[error("{op}: check failed at index {index:?}: got {got}, expected {want} ({rule})")]
    CheckFailed {
        /// The operation and its place in the source.
        op: OpPlace,
        /// The first element that differs.
        index: Vec<i64>,
        /// What the program computed.
        got: String,
        /// What it should have computed.
        want: String,
        /// The rule that they break.
        rule: String,
    },
    /// The program is not well formed, or its inputs do not fit it.
    #[error("{op}: {message}")]
    Invalid {
        /// The operation and its place in the source.
        op: OpPlace,
        /// What is wrong, with names and numbers.
        message: String,
    },
}

meshwork_mesh::debug_as_display!(EvalError);

impl EvalError {
    /// The evaluator does not support `what` of operation `op`.
    pub fn unsupported(module: &Module, op: OpId, what: impl Into<String>) -> EvalError {
        EvalError::Unsupported { op: module.place(op), what: what.into() }
    }

    /// Operation `op` is wrong.
    pub fn invalid(module: &Module, op: OpId, message: impl Into<String>) -> EvalError {
        EvalError::Invalid { op: module.place(op), message: message.into() }
    }

    /// The error at its place in the program's text.
    pub fn diagnostic(&self) -> Diagnostic {
        match self {
            EvalError::Unsupported { op, what } => op.diagnostic(Severity::Unsupported, what),
            EvalError::CheckFailed { op, index, got, want, rule } => {
                let message = format!("check failed at index {index:?}: got {got}, expected {want} ({rule})");
                op.diagnostic(Severity::Error, message)
            }
            EvalError::Invalid { op, message } => op.diagnostic(Severity::Error, message),
        }
    }
}
