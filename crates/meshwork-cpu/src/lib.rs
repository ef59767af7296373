//! The CPU engine: fused kernels, a static buffer plan, devices as work for a pool of threads.
//!
//! [`CpuEngine`] is the engine behind the seam of `meshwork-runtime`. It compiles the per-device program to a
//! [`DeviceProgram`], which runs on the shards of arrays.

#![deny(missing_docs)]

mod check;
pub mod compile;
pub mod device_program;
pub mod engine;
pub mod exec;
mod fuse;
pub mod kernel;
pub mod library;
pub mod memory;
mod notes;
pub mod program;
pub mod step;
mod turns;

pub use device_program::DeviceProgram;
pub use engine::CpuEngine;
