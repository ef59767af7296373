//! What can go wrong when a program is split.

use meshwork_ir::{Diagnostic, OpPlace, Severity};
use thiserror::Error;

/// Why a program could not be partitioned.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum PartitionError {
    /// The program uses something that is not split yet.
    #[error("{op}: {what}")]
    Unsupported {
        /// The operation and where it stands.
        op: OpPlace,
        /// What is not supported.
        what: String,
    },
    /// The program is not what partitioning expects: run propagation first, or fix the annotation.
    #[error("{op}: {what}")]
    Invalid {
        /// The operation and where it stands.
        op: OpPlace,
        /// What is wrong, with names and numbers.
        what: String,
    },
}

meshwork_mesh::debug_as_display!(PartitionError);

impl PartitionError {
    /// The error at its place in the program's text.
    pub fn diagnostic(&self) -> Diagnostic {
        match self {
            PartitionError::Unsupported { op, what } => op.diagnostic(Severity::Unsupported, what),
            PartitionError::Invalid { op, what } => op.diagnostic(Severity::Error, what),
        }
    }
}
