//! Functions of functions: gradients, batching, and what a backward pass keeps.

mod checkpoint;
mod custom;
mod grad;
mod jacobian;
mod linear;
mod vmap;

pub use checkpoint::checkpoint;
pub use custom::{custom_jvp, custom_vjp};
pub(crate) use grad::differentiable;
pub use grad::{grad, value_and_grad, value_and_grad_aux};
pub use jacobian::{hessian, jacfwd, jacrev, linear_transpose, linearize};
pub use linear::{jvp, vjp};
pub use vmap::{MapAxes, Vmap, vmap};
