//! The reference evaluator: what a program means, in straightforward loops.

mod error;
pub mod scalar;
pub mod special;

pub use error::EvalError;
