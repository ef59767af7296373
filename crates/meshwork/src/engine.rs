//! Engines by name, and those that programs run on unless another one is given.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use meshwork_cpu::CpuEngine;
use meshwork_mesh::Mesh;
use meshwork_partition::{Compiled, Machine};
use meshwork_runtime::{Engine, Evaluator, Executable, LoadError, MemoryUse};

use crate::error::{JitError, Result};

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

    fn machine(&self) -> Option<Machine> {
        CpuEngine::shared().machine()
    }
}

/// The engine with this name: `cpu`, `evaluator`, or `pjrt:PLUGIN` for the devices of a PJRT plugin, which is the name
/// of an installed one (`cuda`, `tpu`, `cpu` for XLA's own) or the path of its library, with options of its client behind
/// commas. The README of `meshwork-pjrt` lists them.
///
/// ```
/// use meshwork::prelude::*;
///
/// let double = jit(|x: Tensor| x * 2.0).engine(meshwork::engine("evaluator")?);
/// assert_eq!(double.call(&Array::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [2.0, 4.0]);
/// let error = meshwork::engine("gpu").map(|_| ()).unwrap_err();
/// assert!(error.to_string().contains("an engine is cpu, evaluator, or pjrt:PLUGIN"));
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn engine(name: &str) -> Result<Arc<dyn Engine>> {
    let wrong = |message: String| JitError::Engine { name: name.into(), message };
    match name {
        "cpu" => Ok(CpuEngine::shared().clone()),
        "evaluator" => Ok(Arc::new(Evaluator)),
        _ => match name.strip_prefix("pjrt:") {
            Some(plugin) => Ok(open_plugin(plugin).map_err(wrong)?),
            None => Err(wrong("an engine is cpu, evaluator, or pjrt:PLUGIN".into()).into()),
        },
    }
}

#[cfg(feature = "pjrt")]
fn open_plugin(plugin: &str) -> Result<Arc<dyn Engine>, String> {
    Ok(Arc::new(meshwork_pjrt::PjrtEngine::open(plugin).map_err(|e| e.to_string())?))
}

#[cfg(not(feature = "pjrt"))]
fn open_plugin(_: &str) -> Result<Arc<dyn Engine>, String> {
    Err("the feature `pjrt` of the crate `meshwork` is off".into())
}

/// The engine of programs that name none: the one that the variable `MESHWORK_ENGINE` names, else the [`Cpu`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FromEnvironment;

impl FromEnvironment {
    fn get() -> Result<Arc<dyn Engine>, LoadError> {
        static CHOSEN: OnceLock<Result<Arc<dyn Engine>, String>> = OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| match std::env::var("MESHWORK_ENGINE") {
            Ok(name) if !name.is_empty() => engine(&name).map_err(|e| e.to_string()),
            _ => Ok(CpuEngine::shared().clone()),
        });
        chosen.clone().map_err(|message| LoadError::Invalid { op: "MESHWORK_ENGINE".into(), message })
    }
}

impl Engine for FromEnvironment {
    fn name(&self) -> &str {
        "the engine that MESHWORK_ENGINE names"
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        FromEnvironment::get()?.load(program)
    }

    fn notes(&self, program: &Compiled) -> Vec<String> {
        FromEnvironment::get().map(|engine| engine.notes(program)).unwrap_or_default()
    }

    fn memory(&self) -> Vec<MemoryUse> {
        FromEnvironment::get().map(|engine| engine.memory()).unwrap_or_default()
    }

    fn machine(&self) -> Option<Machine> {
        FromEnvironment::get().ok()?.machine()
    }
}

/// A mesh of the devices of an engine. It can stand wherever a [`Mesh`] can; programs on it run on the engine.
///
/// ```
/// use meshwork::prelude::*;
///
/// let mesh = Mesh::linear("x", 4)?.on(meshwork::engine("cpu")?);
/// let double = jit(|x: Tensor| x * 2.0).on(&mesh);
/// let x = Array::from([1.0f32, 2.0, 3.0, 4.0]).shard(&mesh, P!["x"])?;
/// assert_eq!(double.call(&x)?.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone)]
pub struct Devices {
    mesh: Mesh,
    engine: Arc<dyn Engine>,
}

impl Deref for Devices {
    type Target = Mesh;

    fn deref(&self) -> &Mesh {
        &self.mesh
    }
}

/// Meshes of the devices of an engine.
pub trait OnEngine {
    /// This mesh on the devices of `engine`: the device with number `i` is the engine's `i`-th.
    fn on(self, engine: impl Engine + 'static) -> Devices;
}

impl OnEngine for Mesh {
    fn on(self, engine: impl Engine + 'static) -> Devices {
        Devices { mesh: self, engine: Arc::new(engine) }
    }
}

/// Where a program runs: on a mesh, of the engine that it names or of the one it has.
pub trait Place {
    /// The mesh.
    fn mesh(&self) -> &Mesh;

    /// The engine, if the devices are those of one.
    fn engine(&self) -> Option<Arc<dyn Engine>> {
        None
    }
}

impl Place for Mesh {
    fn mesh(&self) -> &Mesh {
        self
    }
}

impl Place for Devices {
    fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    fn engine(&self) -> Option<Arc<dyn Engine>> {
        Some(self.engine.clone())
    }
}
