#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod activity;
mod batch;
mod custom;
mod error;
mod forward;
mod prepare;
mod reverse;
mod rules;
mod transform;

pub use batch::{BatchError, BatchOptions, vmap};
pub use custom::{Custom, RULE, add_rule, clear_rules};
pub use error::GradError;
pub use prepare::{CHECKPOINT, CUSTOM, inline_computations};
pub use transform::{GradOptions, grad, jvp, vjp};
