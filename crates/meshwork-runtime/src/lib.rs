//! Runs partitioned programs on the CPU: fused kernels, a static buffer plan, devices as work for a pool of threads.
//!
//! [`CpuEngine`] compiles the per-device program of a partitioned module to an [`Executable`], which runs on the
//! shards of [`Array`]s.

pub mod array;
pub mod compile;
pub mod engine;
pub mod exec;
pub mod executable;
mod fuse;
pub mod kernel;
pub mod library;
pub mod memory;
pub mod profile;
pub mod program;
pub mod step;
pub mod transport;

pub use array::Array;
pub use engine::{CpuEngine, Engine, Loaded};
pub use exec::boxes::{At, BoxCopy};
pub use executable::{Executable, RunError, Shards};
pub use memory::Buffer;
pub use profile::Profile;
pub use transport::runtime::{ProcessError, Reduction, Runtime};
