//! From a per-device module to a program of steps over buffers.
//!
//! | file | what it is |
//! |---|---|
//! | `prepare` | a copy of the module with calls inlined, equal things merged, constants near their uses |
//! | `simplify`, `stencil` | rewrites of single ops into cheaper ones |
//! | `block` | blocks of the module to blocks of nodes: one arm per kind of op, loops, branches |
//! | `views` | slices, broadcasts, transposes, reshapes as strides |
//! | `collective` | who meets whom |
//! | `trips` | how often a loop runs |
//! | `ids` | the numbers that a device knows |
//! | `lower` | the state of a lowering, which the library shares |
//! | `display` | a program as text |

mod block;
mod collective;
mod display;
mod ids;
pub mod lower;
mod prepare;
mod simplify;
mod stencil;
#[cfg(test)]
pub(crate) mod testing;
mod trips;
mod views;

pub(crate) use block::{Compiler, captured};
pub(crate) use trips::constant;

use std::sync::Arc;

use meshwork_ir::DeviceGrid;
use meshwork_ir::{Module, OpId};

use crate::program::Program;

/// Why a program was not compiled.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum CompileError {
    /// Legal, but not for this engine: the evaluator may run it.
    #[error("{op}: the engine does not do {what}")]
    Unsupported {
        /// The operation and where it stands.
        op: String,
        /// What about it.
        what: String,
    },
    /// The program is not well formed.
    #[error("{op}: {message}")]
    Invalid {
        /// The operation and where it stands.
        op: String,
        /// What is wrong.
        message: String,
    },
}

impl CompileError {
    pub(crate) fn unsupported(module: &Module, op: OpId, what: impl Into<String>) -> CompileError {
        CompileError::Unsupported { op: module.describe(op), what: what.into() }
    }

    pub(crate) fn invalid(module: &Module, op: OpId, message: impl Into<String>) -> CompileError {
        CompileError::Invalid { op: module.describe(op), message: message.into() }
    }
}

/// Compiles function `entry` (by default the module's entry function) for the devices of `grid`, all of which run it.
pub fn compile(module: &Module, entry: Option<&str>, grid: DeviceGrid) -> Result<Program, CompileError> {
    let found = match entry {
        Some(name) => module.func(name),
        None => module.entry(),
    };
    let Some(func) = found else {
        let message = match entry {
            Some(name) => format!("no function @{name}"),
            None => "neither a function @main nor a single function".into(),
        };
        return Err(CompileError::Invalid { op: "module".into(), message });
    };
    let (module, func) = prepare::prepare(module, func)?;
    block::program(&Arc::new(module), func, grid)
}
