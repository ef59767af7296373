//! Elementwise operations on single elements.

mod compare;
mod int;
mod op;
mod precision;
mod real;
mod table;

pub use compare::{CompareType, Comparison};
pub use op::{ScalarOp, apply};
