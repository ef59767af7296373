//! Devices as things: their numbers, and the processes that have them.

use std::fmt;

use meshwork_mesh::Mesh;
use meshwork_runtime::Runtime;

use crate::error::{Error, Result};

/// A device: the number that meshes and [shards](crate::Shard) know it by, and the process that has it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MeshDevice {
    id: i64,
    rank: usize,
    is_local: bool,
}

impl MeshDevice {
    /// Its number.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The process that has it.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether that is this process.
    pub fn is_local(&self) -> bool {
        self.is_local
    }
}

impl fmt::Display for MeshDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} of rank {}", self.id, self.rank)
    }
}

/// The devices of all processes: as many for each as [`Runtime::devices_per_rank`] says.
///
/// ```
/// let devices = meshwork::devices()?;
/// assert_eq!((devices[0].id(), devices[0].rank(), devices[0].is_local()), (0, 0, true));
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn devices() -> Result<Vec<MeshDevice>> {
    devices_of(Runtime::init()?.devices())
}

/// The devices of a mesh of `count` devices, spread over the processes as programs are.
pub fn devices_of(count: usize) -> Result<Vec<MeshDevice>> {
    let runtime = Runtime::init()?;
    let device = |id: usize| {
        let rank = runtime.rank_of(id, count);
        MeshDevice { id: id as i64, rank, is_local: rank == runtime.rank() }
    };
    Ok((0..count).map(device).collect())
}

/// The mesh with these axes over these devices, in their order, the last axis fastest.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::{devices_of, mesh_of_devices};
///
/// let mut devices = devices_of(4)?;
/// devices.reverse();
/// let mesh = mesh_of_devices(&[("x", 2), ("y", 2)], &devices)?;
/// let x = Array::from([[1, 2], [3, 4]]).shard(&mesh, P!["x", "y"])?;
/// assert_eq!(x.shard_data(devices[0].id())?.to_vec::<i32>()?, [1]);
/// assert!(mesh_of_devices(&[("x", 3)], &devices).is_err());
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn mesh_of_devices(axes: &[(&str, i64)], devices: &[MeshDevice]) -> Result<Mesh> {
    let mesh = Mesh::new(axes.iter().copied())?;
    if mesh.device_count() != devices.len() as i64 {
        let message = format!("the axes {axes:?} are {} devices, and {} are given", mesh.device_count(), devices.len());
        return Err(Error::Invalid { what: "mesh_of_devices", message });
    }
    let ids = devices.iter().map(|device| device.id).collect();
    Ok(mesh.with_device_ids(ids)?.without_identity_ids())
}
