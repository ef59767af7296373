//! Runs partitioned programs on the CPU: fused kernels, a static buffer plan, devices as work for a pool of threads.

pub mod compile;
pub mod exec;
mod fuse;
pub mod kernel;
pub mod library;
pub mod program;
pub mod step;
