//! Batched programs against one run per example, for every choice of batched arguments.

mod common;
mod control;
mod index;
mod ops;
mod placement;
