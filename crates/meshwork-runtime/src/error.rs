//! What can go wrong with a run.

use meshwork_ir::OpPlace;

use crate::memory::buffer::OutOfMemory;
use crate::transport::world::ProcessError;

/// Why a run failed. The executable can be run again.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RunError {
    /// The arguments do not fit the program.
    #[error("{0}")]
    Arguments(String),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// An operation failed.
    #[error("{op}{}: {message}", on(.device))]
    Failed {
        /// The operation and where it stands.
        op: OpPlace,
        /// The device, unless it is a matter of several.
        device: Option<usize>,
        /// What went wrong.
        message: String,
    },
    /// It failed in another process, and is over in all.
    #[error("rank {rank}: {message}")]
    Elsewhere {
        /// The lowest process in which it failed.
        rank: usize,
        /// What went wrong there.
        message: String,
    },
    /// The processes have lost each other.
    #[error(transparent)]
    Processes(#[from] ProcessError),
}

fn on(device: &Option<usize>) -> String {
    device.map_or(String::new(), |d| format!(" on device {d}"))
}
