//! Splits a program whose values have placements into one per-device program with collectives.
//!
//! The README beside this file explains atoms, frames, layouts and forms, with a worked example.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod atoms;
pub mod cause;
mod choose;
pub mod collective;
mod combine;
mod compile;
pub mod contract;
pub mod cost;
mod donation;
mod emit;
mod error;
pub mod explain;
mod fetch;
pub mod flops;
mod frames;
mod identity;
pub mod json;
pub mod layout;
pub mod lock;
pub mod memory;
pub mod meshes;
mod moves;
pub mod optimize;
mod pass;
pub mod plan;
mod prepare;
mod reshard;
pub mod run;
pub mod shards;
mod split;
mod strategy;
pub mod tell;
pub mod xla;

pub use compile::{CompileError, CompileOptions, Compiled, Trace, compile, mesh_of};
pub use contract::{Contract, ContractViolation};
pub use donation::Donation;
pub use error::PartitionError;
pub use lock::Lock;
pub use pass::PASS;
pub use plan::{Border, Plan};
