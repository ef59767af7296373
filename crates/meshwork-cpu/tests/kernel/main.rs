//! Kernels against the reference evaluator, and the backends against each other.

mod fuzz;
mod harness;
mod inverse;
mod math;
mod ops;
mod shapes;
