//! Splits a program whose values have placements into one per-device program with collectives.
//!
//! The README beside this file explains atoms, frames, layouts and forms, with a worked example.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod algorithm;
mod choose;
pub mod collective;
mod compile;
mod donation;
mod error;
mod halos;
mod layout;
mod one_device;
pub mod orders;
mod pass;
pub mod plan;
mod prepare;
mod reshard;
mod split;
mod spread;
mod units;
mod whole_loops;
mod xla;

pub use algorithm::{Algorithm, Algorithms, Use};
pub use collective::DEFAULT_COMBINE_BYTES;
pub use compile::{Causes, CompileError, CompileOptions, Compiled, compile, mesh_of};
pub use donation::Donation;
pub use error::PartitionError;
pub use pass::PASS;
pub use plan::{Border, Contract, ContractViolation, Lock, Machine, Plan};
pub use xla::mark_partitioned;
