//! Running a partitioned program on the reference evaluator's lock-step devices: cut, run, join.

use meshwork_eval::{EvalError, MAX_DEVICES, run_devices};
use meshwork_ir::{DeviceGrid, Literal};
use meshwork_mesh::ShardingError;
use thiserror::Error;

use crate::shards::{cut, join};
use crate::{Border, Compiled};

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

/// Runs `program` on global arrays.
pub fn run(program: &Compiled, inputs: &[Literal]) -> Result<Vec<Literal>, RunError> {
    let (devices, mesh) = (program.devices(), &program.plan.mesh);
    if devices > MAX_DEVICES {
        return Err(RunError::TooManyDevices { devices });
    }
    let mut per_device = vec![vec![]; devices];
    for (input, border) in inputs.iter().zip(program.inputs()) {
        for (device, shard) in cut(input, &border.sharding, mesh)?.into_iter().enumerate() {
            per_device[device].push(shard);
        }
    }
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let outputs = run_devices(&program.module, None, per_device, grid)?;
    let mut joined = vec![];
    for (i, Border { sharding, ty, .. }) in program.outputs().iter().enumerate() {
        let shards: Vec<Literal> = outputs.iter().map(|o| o[i].clone()).collect();
        joined.push(join(&shards, ty.dims(), sharding, mesh)?);
    }
    Ok(joined)
}
