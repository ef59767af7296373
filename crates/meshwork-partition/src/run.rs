//! Running a partitioned program on the reference evaluator's lock-step devices: cut, run, join.

use meshwork_eval::{EvalError, MAX_DEVICES, run_devices};
use meshwork_ir::DeviceGrid;
use meshwork_ir::{Literal, Type};
use meshwork_mesh::ShardingError;
use thiserror::Error;

use crate::Partitioned;
use crate::shards::{cut, join};

/// Why a partitioned program did not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The mesh is larger than the evaluator can run.
    #[error("the mesh has {devices} devices; the evaluator runs at most {MAX_DEVICES}")]
    TooManyDevices {
        /// How many devices the mesh has.
        devices: usize,
    },
    /// An array could not be cut or joined.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// The program failed on the devices.
    #[error(transparent)]
    Eval(#[from] EvalError),
}

/// Runs `program` on global arrays; `results` are the types of the global results.
pub fn run(program: &Partitioned, inputs: &[Literal], results: &[Type]) -> Result<Vec<Literal>, RunError> {
    let devices = program.mesh.device_count() as usize;
    if devices > MAX_DEVICES {
        return Err(RunError::TooManyDevices { devices });
    }
    let mut per_device = vec![vec![]; devices];
    for (input, sharding) in inputs.iter().zip(&program.inputs) {
        for (device, shard) in cut(input, sharding, &program.mesh)?.into_iter().enumerate() {
            per_device[device].push(shard);
        }
    }
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let outputs = run_devices(&program.module, None, per_device, grid)?;
    let mut joined = vec![];
    for (i, (sharding, ty)) in program.outputs.iter().zip(results).enumerate() {
        let shards: Vec<Literal> = outputs.iter().map(|o| o[i].clone()).collect();
        joined.push(join(&shards, ty.dims(), sharding, &program.mesh)?);
    }
    Ok(joined)
}
