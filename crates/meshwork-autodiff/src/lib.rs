#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod activity;
mod batch;
mod error;
mod forward;
mod prepare;
mod reverse;
mod rules;
mod transform;

pub use batch::{BatchError, BatchOptions, vmap};
pub use error::GradError;
pub use prepare::{CHECKPOINT, inline_computations};
pub use transform::{GradOptions, grad, jvp, vjp};
