//! The reference evaluator as an engine: slow and obvious, the oracle of the others.

use std::sync::Arc;
use std::time::Instant;

use meshwork_eval::{MAX_DEVICES, Outcome, run_devices_observed, run_observed};
use meshwork_ir::{DeviceGrid, Literal, Module};
use meshwork_mesh::Mesh;
use meshwork_partition::{Border, Compiled};

use crate::array::pieces::{cut, join};
use crate::array::{Array, Placement, Shards};
use crate::engine::{Engine, Executable, Fallback, placements};
use crate::error::{ArrayError, LoadError, RunError};
use crate::memory::Buffer;
use crate::profile::Profile;

/// The reference evaluator. The devices of a mesh run in lock step, all of them in every process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evaluator;

impl Engine for Evaluator {
    fn name(&self) -> &str {
        "evaluator"
    }

    fn load(&self, program: &Compiled) -> Result<Arc<dyn Executable>, LoadError> {
        Ok(Arc::new(Evaluated::new(program)?))
    }
}

/// A program for the evaluator.
struct Evaluated {
    module: Arc<Module>,
    mesh: Arc<Mesh>,
    devices: usize,
    inputs: Vec<Border>,
    outputs: Vec<Border>,
    placements: Vec<Arc<Placement>>,
}

impl Evaluated {
    fn new(program: &Compiled) -> Result<Evaluated, LoadError> {
        let devices = program.devices();
        if devices > MAX_DEVICES {
            return Err(LoadError::TooManyDevices { devices, most: MAX_DEVICES });
        }
        Ok(Evaluated {
            module: program.module.clone(),
            mesh: Arc::new(program.plan.mesh.clone()),
            devices,
            inputs: program.inputs().to_vec(),
            outputs: program.outputs().to_vec(),
            placements: program.mesh.as_ref().map_or(vec![], |mesh| placements(program.outputs(), mesh)),
        })
    }

    fn observe(&self, args: &[Array]) -> Result<(Vec<Array>, Outcome), RunError> {
        let args = args.iter().map(|a| a.literal()).collect::<Result<Vec<_>, ArrayError>>()?;
        if self.devices == 1 {
            let args: Vec<Literal> = args.into_iter().cloned().collect();
            let mut outcome = run_observed(&self.module, None, &args)?;
            let results = outcome.results.pop().unwrap_or_default();
            return Ok((self.placed(results.into_iter().map(Array::from_literal).collect()), outcome));
        }
        let mut per_device = vec![vec![]; self.devices];
        for (x, border) in args.iter().zip(&self.inputs) {
            let shards = cut(x, &border.sharding, &self.mesh)?;
            per_device.iter_mut().zip(shards).for_each(|(args, shard)| args.push(shard));
        }
        let grid = DeviceGrid { replicas: 1, partitions: self.devices };
        let mut outcome = run_devices_observed(&self.module, None, per_device, grid)?;
        let results = std::mem::take(&mut outcome.results);
        let whole = self.outputs.iter().enumerate().map(|(i, border)| {
            let shards: Vec<Literal> = results.iter().map(|results| results[i].clone()).collect();
            Ok(Array::from_literal(join(&shards, border.ty.dims(), &border.sharding, &self.mesh)?))
        });
        Ok((self.placed(whole.collect::<Result<_, ArrayError>>()?), outcome))
    }

    /// The shards of the arguments as literals, by device.
    fn literals(&self, args: &[Shards]) -> Result<Vec<Vec<Literal>>, RunError> {
        let wrong = |message: String| RunError::Arguments(message);
        let types = self.module.entry().map_or(vec![], |entry| self.module.func_type(entry).inputs);
        if args.len() != types.len() {
            return Err(wrong(format!("the program takes {} arguments, {} given", types.len(), args.len())));
        }
        let literal = |device: usize, i: usize| {
            let ty = types[i].as_tensor().ok_or_else(|| wrong(format!("argument {i} is not a tensor")))?;
            let shard = args[i].get(device).ok_or_else(|| wrong(format!("argument {i} is not on device {device}")))?;
            let literal = Literal::from_bytes(ty.dims.iter().copied(), ty.elem, shard.as_slice().to_vec());
            literal.ok_or_else(|| wrong(format!("argument {i} has {} bytes, {ty} needs others", shard.len())))
        };
        (0..self.devices).map(|device| (0..args.len()).map(|i| literal(device, i)).collect()).collect()
    }

    fn placed(&self, results: Vec<Array>) -> Vec<Array> {
        if results.len() != self.placements.len() {
            return results;
        }
        results.into_iter().zip(&self.placements).map(|(x, p)| x.placed(p.clone())).collect()
    }
}

impl Executable for Evaluated {
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError> {
        Ok(self.observe(&args)?.0)
    }

    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        let mut args = self.literals(&args)?;
        let results = match self.devices {
            1 => run_observed(&self.module, None, &args.pop().unwrap_or_default())?.results,
            partitions => {
                run_devices_observed(&self.module, None, args, DeviceGrid { replicas: 1, partitions })?.results
            }
        };
        let count = results.first().map_or(0, Vec::len);
        let shard = |i: usize, of: &Vec<Literal>| Ok(Arc::new(Buffer::from_bytes(of[i].bytes())?));
        (0..count).map(|i| results.iter().map(|of| shard(i, of)).collect()).collect()
    }

    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError> {
        let start = Instant::now();
        let (results, outcome) = self.observe(&args)?;
        let total_ns = start.elapsed().as_nanos() as u64;
        let profile = Profile { total_ns, printed: outcome.printed, stats: Some(outcome.stats), ..Profile::default() };
        Ok((results, profile))
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        vec![]
    }

    fn peak_bytes(&self) -> usize {
        0
    }
}

/// Loads `program` on the evaluator, for an engine that cannot do it itself: [`fallbacks`](Executable::fallbacks) says
/// so, and why.
pub fn stand_in(program: &Compiled, reason: String) -> Result<Arc<dyn Executable>, LoadError> {
    Ok(Arc::new(StandIn { evaluated: Evaluated::new(program)?, fallback: Fallback::Program { reason } }))
}

/// The evaluator in place of an engine.
struct StandIn {
    evaluated: Evaluated,
    fallback: Fallback,
}

impl Executable for StandIn {
    fn run(&self, args: Vec<Array>) -> Result<Vec<Array>, RunError> {
        self.evaluated.run(args)
    }

    fn run_shards(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        self.evaluated.run_shards(args)
    }

    fn run_profiled(&self, args: Vec<Array>) -> Result<(Vec<Array>, Profile), RunError> {
        let (results, profile) = self.evaluated.run_profiled(args)?;
        Ok((results, Profile { fallbacks: self.fallbacks(), ..profile }))
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        vec![self.fallback.clone()]
    }

    fn peak_bytes(&self) -> usize {
        self.evaluated.peak_bytes()
    }
}
