//! The CPU engine: fused kernels, a static buffer plan, devices as work for a pool of threads.
//!
//! [`CpuEngine`] compiles the per-device program of a partitioned module to an [`Executable`], which runs on the
//! shards of arrays.

pub mod compile;
pub mod engine;
pub mod exec;
pub mod executable;
mod fuse;
pub mod kernel;
pub mod library;
pub mod memory;
pub mod program;
pub mod step;

pub use engine::{CpuEngine, Engine, Loaded};
pub use executable::Executable;
