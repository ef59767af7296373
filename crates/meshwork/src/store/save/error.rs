//! Checkpoint errors: which file, and what is wrong with it.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a checkpoint could not be written or read.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The system refused.
    #[error("{}: {what}", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// What the system said.
        what: String,
    },
    /// A file that the index names is not there.
    #[error("{}: the file is missing", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
    },
    /// A file is shorter or longer than it was written.
    #[error("{}: it has {has} bytes, {wanted} were written; it is truncated or was changed", file.display())]
    Length {
        /// The file.
        file: PathBuf,
        /// Bytes it has.
        has: u64,
        /// Bytes it should have.
        wanted: u64,
    },
    /// Bytes are not those that were written.
    #[error("{}: the checksum of {what} is {has:08x}, {wanted:08x} was written; the file is damaged", file.display())]
    Checksum {
        /// The file.
        file: PathBuf,
        /// Which part of it.
        what: String,
        /// The checksum of what is there.
        has: u32,
        /// The one that was written.
        wanted: u32,
    },
    /// The index cannot be used.
    #[error("{}: {what}", file.display())]
    Index {
        /// The index.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The tree asked for is not the tree saved.
    #[error("{}: {what}", folder.display())]
    Tree {
        /// The checkpoint.
        folder: PathBuf,
        /// Which array, and how it differs.
        what: String,
    },
    /// Another process failed, or said nothing.
    #[error("step {step} was not saved: {what}")]
    Peer {
        /// The step.
        step: u64,
        /// Which rank, and what it said.
        what: String,
    },
    /// There are checkpoints, and none can be used.
    #[error("{}: none of {} checkpoints can be used\n{}", folder.display(), skipped.len(), lines(skipped))]
    None {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with each, newest first.
        skipped: Vec<String>,
    },
}

meshwork_mesh::debug_as_display!(CheckpointError);

impl CheckpointError {
    /// Whether files are not as they were written: an older checkpoint may be better.
    pub fn is_damage(&self) -> bool {
        match self {
            CheckpointError::Missing { .. }
            | CheckpointError::Length { .. }
            | CheckpointError::Checksum { .. }
            | CheckpointError::Index { .. } => true,
            CheckpointError::Io { .. }
            | CheckpointError::Tree { .. }
            | CheckpointError::Peer { .. }
            | CheckpointError::None { .. } => false,
        }
    }
}

fn lines(skipped: &[String]) -> String {
    skipped.iter().map(|s| format!("  {s}")).collect::<Vec<_>>().join("\n")
}

pub(crate) type Result<T, E = CheckpointError> = std::result::Result<T, E>;

/// What the system said about `file`.
pub(super) fn io(file: &Path) -> impl Fn(std::io::Error) -> CheckpointError + use<> {
    let file = file.to_path_buf();
    move |e| match e.kind() {
        std::io::ErrorKind::NotFound => CheckpointError::Missing { file: file.clone() },
        _ => CheckpointError::Io { file: file.clone(), what: e.to_string() },
    }
}
