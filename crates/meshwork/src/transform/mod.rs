//! Functions of functions: gradients, batching, and what a backward pass keeps.

mod checkpoint;
mod grad;
mod linear;
mod vmap;

pub use checkpoint::checkpoint;
pub(crate) use grad::differentiable;
pub use grad::{grad, value_and_grad, value_and_grad_aux};
pub use linear::{jvp, vjp};
pub use vmap::{MapAxes, Vmap, vmap};
