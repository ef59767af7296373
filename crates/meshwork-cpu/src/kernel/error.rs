//! Why a body is not a kernel.

use super::ir::{Op, Ty};

/// Why a body is not a kernel.
#[derive(Clone, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// An operation breaks a rule.
    #[error("phase {phase}, op {at} ({op:?}): {reason}")]
    Op {
        /// Number of the phase.
        phase: usize,
        /// Position in the phase.
        at: usize,
        /// The operation.
        op: Op,
        /// Which rule, with numbers.
        reason: String,
    },
    /// An argument has an element type that lanes cannot hold.
    #[error("argument {arg} has element type {elem}, which kernels cannot load or store")]
    Argument {
        /// Number of the argument.
        arg: usize,
        /// Its type.
        elem: meshwork_ir::ElementType,
    },
    /// More values than numbers for them.
    #[error("phase {phase} grows to {ops} ops; {} are allowed", u16::MAX)]
    TooLong {
        /// Number of the phase.
        phase: usize,
        /// Operations after expansion.
        ops: usize,
    },
    /// A function has no implementation for a type.
    #[error("no implementation of {op:?} on {ty:?}")]
    Missing {
        /// The operation.
        op: Op,
        /// Type of its first operand.
        ty: Ty,
    },
}

meshwork_mesh::debug_as_display!(KernelError);
