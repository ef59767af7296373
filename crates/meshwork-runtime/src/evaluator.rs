//! The reference evaluator as an engine: slow and obvious, the oracle of the others.

use std::sync::Arc;
use std::time::Instant;

use meshwork_eval::{MAX_DEVICES, Outcome, run_devices_observed, run_observed};
use meshwork_ir::{DeviceGrid, Literal, Module, TensorType};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::{Border, Compiled};

use crate::array::pieces::{cut, join};
use crate::array::{Array, Placement, Sharded, Shards, Split};
use crate::device::DeviceBuffer;
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
            return Err(LoadError::TooManyDevices { engine: "the evaluator".into(), devices, most: MAX_DEVICES });
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
        if self.devices == 1 {
            let args = args.iter().map(|a| a.literal().cloned()).collect::<Result<Vec<_>, ArrayError>>()?;
            let mut outcome = run_observed(&self.module, None, &args)?;
            let results = outcome.results.pop().unwrap_or_default();
            return Ok((self.placed(results.into_iter().map(Array::from_literal).collect()), outcome));
        }
        let mut per_device = vec![vec![]; self.devices];
        for (x, border) in args.iter().zip(&self.inputs) {
            let shards = self.shards(x, border)?;
            per_device.iter_mut().zip(shards).for_each(|(args, shard)| args.push(shard));
        }
        let grid = DeviceGrid { replicas: 1, partitions: self.devices };
        let mut outcome = run_devices_observed(&self.module, None, per_device, grid)?;
        let results = std::mem::take(&mut outcome.results);
        let whole = self.outputs.iter().enumerate().map(|(i, border)| {
            let shards: Vec<Literal> = results.iter().map(|results| results[i].clone()).collect();
            self.joined(&shards, border)
        });
        Ok((self.placed(whole.collect::<Result<_, ArrayError>>()?), outcome))
    }

    /// The shards of an argument. Parts are those that the devices hold.
    fn shards(&self, x: &Array, border: &Border) -> Result<Vec<Literal>, ArrayError> {
        if border.sharding.unreduced.is_empty() {
            return cut(x.literal()?, &border.sharding, &self.mesh);
        }
        let (mesh, sharding) = self.place(border);
        let devices = x.clone().into_devices(Some((&mesh, &sharding)))?;
        let dims = devices.local_dims();
        let wanted = dims.iter().product::<i64>() as usize * x.dtype().storage_bytes();
        let shard = |(device, shard): (usize, &Arc<dyn DeviceBuffer>)| {
            let literal = Literal::from_bytes(dims.iter().copied(), x.dtype(), shard.to_bytes()?.into_owned());
            literal.ok_or_else(|| ArrayError::ShardSize { device, given: shard.size(), wanted })
        };
        devices.shards().iter().enumerate().map(shard).collect()
    }

    /// The array that the shards of a result make up. Parts stay on their devices.
    fn joined(&self, shards: &[Literal], border: &Border) -> Result<Array, ArrayError> {
        if border.sharding.unreduced.is_empty() {
            return Ok(Array::from_literal(join(shards, border.ty.dims(), &border.sharding, &self.mesh)?));
        }
        let (mesh, sharding) = self.place(border);
        let buffer = |shard: &Literal| Ok(Arc::new(Buffer::from_bytes(shard.bytes())?) as Arc<dyn DeviceBuffer>);
        let buffers = shards.iter().map(buffer).collect::<Result<_, ArrayError>>()?;
        let ty = TensorType::new(border.ty.dims().iter().copied(), shards[0].elem());
        let split = Split::new(ty.into(), &mesh, &sharding)?;
        Ok(Array::from_devices(Sharded::from_shards(&split, buffers)?))
    }

    fn place(&self, border: &Border) -> (Arc<Mesh>, Arc<Sharding>) {
        let mesh = border.sharding.mesh.inline().unwrap_or(&self.mesh).clone();
        let sharding = Sharding { mesh: mesh.clone().into(), ..(*border.sharding).clone() };
        (mesh, Arc::new(sharding))
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
