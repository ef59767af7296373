//! The reference evaluator: what a program means, in straightforward loops.

pub(crate) mod check;
pub(crate) mod elementwise;
mod error;
pub(crate) mod rng;
pub mod scalar;
pub mod special;

pub use error::EvalError;
