//! The operations of [`Tensor`](crate::Tensor), one file per theme.

mod assign;
mod broadcast;
mod contract;
mod conv;
mod create;
mod cumulative;
mod einsum;
mod elementwise;
mod fourier;
mod index;
mod lookup;
mod movement;
mod nn;
mod operators;
mod place;
mod random;
mod reduce;
mod sort;

pub use assign::At;
pub use conv::{Conv, Padding};
pub use create::{arange, eye, full, iota, linspace, ones, zeros};
pub use einsum::einsum;
pub(crate) use elementwise::STOP_GRADIENT;
pub use elementwise::select;
pub use index::{Index, NEW_AXIS};
pub use movement::{concatenate, stack};
pub use place::shard_alike;
pub use random::Key;
pub(crate) use reduce::Combine;
