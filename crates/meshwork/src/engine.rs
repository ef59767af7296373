//! What runs a program.

use std::sync::Arc;

use meshwork_cpu::CpuEngine;
use meshwork_eval as eval;
use meshwork_ir::{Literal, Module, Type};
use meshwork_partition::{CompileOptions, Compiled};
use meshwork_runtime::Array;

use crate::error::{Error, Result};

/// A program that is ready to run.
pub enum Program<'p> {
    /// On one device.
    Single(&'p Module),
    /// Split over the devices of a mesh.
    Split(&'p Compiled),
}

/// Runs programs on global arrays. This is the seam behind which faster engines stand.
pub trait Engine: Send + Sync {
    /// Runs `program`; `results` are the types of its global results.
    fn run(&self, program: Program<'_>, inputs: &[Literal], results: &[Type]) -> Result<Vec<Literal>>;

    /// Compiles `program`, to run it on arrays that stay on the devices. Engines that can not do that, or not for
    /// this program, give none, and are asked to [`run`](Engine::run) it.
    fn load(&self, program: Program<'_>, results: &[Type]) -> Result<Option<Arc<dyn Loaded>>> {
        let _ = (program, results);
        Ok(None)
    }
}

/// A compiled program whose arrays stay on the devices.
pub trait Loaded: Send + Sync {
    /// Runs it on global arrays. Those that nobody else has, because they were donated, it may overwrite.
    fn run(&self, inputs: Vec<Array>) -> Result<Vec<Array>>;
}

/// The reference evaluator, and its devices in lock step: slow, and right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Engine for Reference {
    fn run(&self, program: Program<'_>, inputs: &[Literal], _: &[Type]) -> Result<Vec<Literal>> {
        match program {
            Program::Single(module) => Ok(eval::run(module, None, inputs)?),
            Program::Split(split) => Ok(meshwork_partition::run::run(split, inputs)?),
        }
    }
}

/// The CPU engine: fused kernels, planned memory, all devices on the cores of this machine. Programs it does not
/// compile, with extents known at run time only for instance, run on the [`Reference`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Engine for Cpu {
    fn run(&self, program: Program<'_>, inputs: &[Literal], results: &[Type]) -> Result<Vec<Literal>> {
        Reference.run(program, inputs, results)
    }

    fn load(&self, program: Program<'_>, _: &[Type]) -> Result<Option<Arc<dyn Loaded>>> {
        let whole;
        let compiled = match program {
            Program::Single(module) => {
                whole = meshwork_partition::compile(module, &CompileOptions::default())?;
                &whole
            }
            Program::Split(split) => split,
        };
        let loaded = meshwork_runtime::Engine::load(&**CpuEngine::shared(), compiled);
        let loaded = loaded.map_err(|e| Error::Invalid { what: "engine", message: e.to_string() })?;
        Ok(Some(Arc::new(OnCpu(loaded))))
    }
}

struct OnCpu(Arc<dyn meshwork_runtime::Executable>);

impl Loaded for OnCpu {
    fn run(&self, inputs: Vec<Array>) -> Result<Vec<Array>> {
        Ok(self.0.run(inputs)?)
    }
}
