//! Engines that programs run on unless another one is given.

use std::sync::Arc;

use meshwork_cpu::CpuEngine;
use meshwork_partition::Compiled;
use meshwork_runtime::{Engine, Executable, LoadError};

/// The CPU engine of this process: fused kernels, planned memory, all devices on the cores of this machine. Programs
/// that it cannot compile, with extents known at run time only for instance, run on the evaluator
/// ([`Reference`](crate::Reference)) as a whole; [`Executable::fallbacks`] says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Engine for Cpu {
    fn name(&self) -> &str {
        CpuEngine::shared().name()
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        CpuEngine::shared().load(program)
    }
}
