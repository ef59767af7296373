//! What runs a program.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meshwork_cpu::compile::CompileError;
use meshwork_cpu::{CpuEngine, Executable};
use meshwork_eval as eval;
use meshwork_ir::DeviceGrid;
use meshwork_ir::{Literal, Module, Type};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::{Border, Compiled};
use meshwork_runtime::Array as Sharded;

use meshwork_runtime::Array;
use crate::error::{At, Error, Result};

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

    fn load(&self, program: Program<'_>, results: &[Type]) -> Result<Option<Arc<dyn Loaded>>> {
        let (module, partitions) = match program {
            Program::Single(module) => (module, 1),
            Program::Split(split) => (&*split.module, split.devices()),
        };
        if partitions > eval::MAX_DEVICES {
            return Ok(None);
        }
        let executable = match CpuEngine::shared().executable(module, None, DeviceGrid { replicas: 1, partitions }) {
            Ok(executable) => executable,
            Err(CompileError::Unsupported { .. }) => return Ok(None),
            Err(error @ CompileError::Invalid { .. }) => {
                return Err(Error::Invalid { what: "engine", message: error.to_string() });
            }
        };
        let split = match program {
            Program::Single(_) => None,
            Program::Split(split) => {
                let mesh = Arc::new(split.plan.mesh.clone());
                let inline = |b: &Border| Arc::new(Sharding { mesh: mesh.clone().into(), ..(*b.sharding).clone() });
                let inputs = split.inputs().iter().map(inline).collect();
                let outputs = split.outputs().iter().map(inline).collect();
                Some(Split { inputs, outputs, mesh })
            }
        };
        let results = results.iter().map(|ty| ty.dims().to_vec()).collect();
        Ok(Some(Arc::new(OnCpu { executable, split, results })))
    }
}

struct OnCpu {
    executable: Arc<Executable>,
    split: Option<Split>,
    results: Vec<Vec<i64>>,
}

struct Split {
    mesh: Arc<Mesh>,
    inputs: Vec<Arc<Sharding>>,
    outputs: Vec<Arc<Sharding>>,
}

impl Loaded for OnCpu {
    fn run(&self, inputs: Vec<Array>) -> Result<Vec<Array>> {
        let mut args = vec![];
        for (i, input) in inputs.into_iter().enumerate() {
            let place = self.split.as_ref().map(|s| (&s.mesh, &s.inputs[i]));
            args.push(input.into_devices(place)?.into_shards());
        }
        let shards = self.executable.run(args)?;
        let types = self.executable.outputs();
        let mut results = vec![];
        for (i, (mut shards, local)) in shards.into_iter().zip(types).enumerate() {
            let dims = self.results.get(i).map_or(&local.dims[..], |d| d);
            let sharded = match &self.split {
                None => Sharded::from_single(local.elem, dims, shards.swap_remove(0)),
                Some(s) => Sharded::from_shards(local.elem, dims, &s.mesh, &s.outputs[i], shards),
            };
            results.push(Array::from_devices(sharded.map_err(Error::Devices)?));
        }
        Ok(results)
    }
}
