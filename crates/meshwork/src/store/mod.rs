//! What arrays are stored in and loaded from: checkpoints, files, and batches that processes load in pieces.
//!
//! Tracing and running know nothing of it, and neither does [`nn`](crate::nn).

pub mod data;
pub(crate) mod files;
#[cfg(feature = "checkpoints")]
pub mod save;
