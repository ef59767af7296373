//! The seam between programs and what runs them.
//!
//! An [`Engine`] loads a [`Compiled`] program; the [`Executable`] it gives runs on global arrays, whose shards stay on
//! its devices between calls. A new engine implements these two traits, and [`DeviceBuffer`](crate::DeviceBuffer) if
//! its memory is not the host's.

use std::fmt;
use std::sync::Arc;

use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::{Border, Compiled, Machine};

use crate::array::{Array, Placement, Shards};
use crate::error::{LoadError, RunError};
use crate::profile::Profile;

/// Loads programs.
pub trait Engine: Send + Sync {
    /// What messages call it.
    fn name(&self) -> &str;

    /// Makes `program` ready to run on all its devices.
    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError>;

    /// What people should know about how it runs `program`, a sentence each: that products are rounded, for instance.
    fn notes(&self, program: &Compiled) -> Vec<String> {
        let _ = program;
        vec![]
    }

    /// The memory of each of its devices; none if it does not know.
    fn memory(&self) -> Vec<MemoryUse> {
        vec![]
    }

    /// What programs run on, for predictions and searches to which no machine is given; `None` if it does not know.
    fn machine(&self) -> Option<Machine> {
        None
    }
}

/// Memory of a device, in bytes, as far as its engine tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Allocated now.
    pub in_use: i64,
    /// The most that was allocated at once.
    pub peak: Option<i64>,
    /// The most that can be.
    pub limit: Option<i64>,
}

/// The memory in use, the most that was, and how much there is: `0.1 GiB in use, 0.5 GiB at most, of 139.8 GiB`.
impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: i64| bytes as f64 / (1u64 << 30) as f64;
        write!(f, "{:.1} GiB in use", gib(self.in_use))?;
        self.peak.map_or(Ok(()), |peak| write!(f, ", {:.1} GiB at most", gib(peak)))?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", of {:.1} GiB", gib(limit)))
    }
}

impl<E: Engine + ?Sized> Engine for Arc<E> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        (**self).load(program)
    }

    fn notes(&self, program: &Compiled) -> Vec<String> {
        (**self).notes(program)
    }

    fn memory(&self) -> Vec<MemoryUse> {
        (**self).memory()
    }

    fn machine(&self) -> Option<Machine> {
        (**self).machine()
    }
}

/// A loaded program. Any number of threads may run it at the same time.
pub trait Executable: Send + Sync {
    /// Runs it on global arrays. Results have the placement that the program gives them. Arguments that the program
    /// marks as donated may be overwritten if the caller has given up the only reference to them.
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError>;

    /// Runs it on shards in host memory, one per device for each argument, and returns those of its results: for callers
    /// that keep arrays in pieces of their own. All shards of a value have the extents of the program on a device.
    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError>;

    /// Runs it and notes what runs when.
    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError>;

    /// What runs on the evaluator instead of the engine.
    fn fallbacks(&self) -> Vec<Fallback>;

    /// Bytes that a device holds at once besides its arguments and the constants; 0 if the engine does not know.
    fn peak_bytes(&self) -> usize;
}

/// Something that an engine leaves to the evaluator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// The whole program, because the engine cannot load it.
    Program {
        /// Why.
        reason: String,
    },
    /// One operation.
    Op {
        /// The operation and where it stands.
        op: String,
    },
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fallback::Program { reason } => write!(f, "the program runs on the evaluator: {reason}"),
            Fallback::Op { op } => write!(f, "{op} runs on the evaluator"),
        }
    }
}

/// The placements of arguments or results of a program on `mesh`. Each carries its mesh, which may be another one over
/// the same devices.
pub fn placements(borders: &[Border], mesh: &Arc<Mesh>) -> Vec<Arc<Placement>> {
    let place = |border: &Border| {
        let own = border.sharding.mesh.inline().cloned();
        let mesh = own.unwrap_or_else(|| mesh.clone());
        let sharding = Sharding { mesh: mesh.clone().into(), ..(*border.sharding).clone() };
        Arc::new(Placement { mesh, sharding })
    };
    borders.iter().map(place).collect()
}
