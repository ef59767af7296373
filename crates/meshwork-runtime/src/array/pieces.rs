//! Cutting an array of the host into shards of the host, and joining them.

use meshwork_ir::Literal;
use meshwork_mesh::{Mesh, Sharding, slice_of};

use super::parts::{Parts, fill};
use super::slices::{copy, lengths, starts};
use crate::boxes::Region;
use crate::error::{ArrayError, placing};

/// The shards of `whole`, one per device. All have the same extents; what is past the end of the array is zero. Of
/// devices that hold parts of one slice, the first gets it and the others what changes nothing.
pub fn cut(whole: &Literal, sharding: &Sharding, mesh: &Mesh) -> Result<Vec<Literal>, ArrayError> {
    let (mesh, dims) = (sharding.mesh.inline().map_or(mesh, |own| own), whole.dims());
    let local = sharding.local_shape(mesh, dims).map_err(placing(dims))?;
    let parts = Parts::of(sharding, mesh, whole.elem())?;
    let cut = |device: i64| {
        let mut shard = Literal::zeros(local.iter().copied(), whole.elem());
        if let Some(neutral) = parts.neutral(device) {
            fill(shard.bytes_mut(), neutral);
            return Ok(shard);
        }
        let slice = slice_of(sharding, mesh, dims, device).map_err(placing(dims))?;
        let (start, zero) = (starts(&slice), vec![0; local.len()]);
        let (from, to) = (Region { dims, start: &start }, Region { dims: &local, start: &zero });
        copy(whole.bytes(), &from, shard.bytes_mut(), &to, &lengths(&slice), whole.elem().storage_bytes());
        Ok(shard)
    };
    (0..mesh.device_count()).map(cut).collect()
}

/// The array of extents `dims` that `shards`, one per device, make up.
pub fn join(shards: &[Literal], dims: &[i64], sharding: &Sharding, mesh: &Mesh) -> Result<Literal, ArrayError> {
    let mesh = sharding.mesh.inline().map_or(mesh, |own| own);
    let elem = shards[0].elem();
    let parts = Parts::of(sharding, mesh, elem)?;
    let mut whole = Literal::zeros(dims.iter().copied(), elem);
    for device in (0..shards.len() as i64).filter(|&device| parts.index(device) == 0) {
        let mut shard = shards[device as usize].clone();
        for &other in parts.others(device) {
            parts.combine(shard.bytes_mut(), shards[other as usize].bytes());
        }
        let slice = slice_of(sharding, mesh, dims, device).map_err(placing(dims))?;
        let (start, zero) = (starts(&slice), vec![0; dims.len()]);
        let (from, to) = (Region { dims: shard.dims(), start: &zero }, Region { dims, start: &start });
        copy(shard.bytes(), &from, whole.bytes_mut(), &to, &lengths(&slice), elem.storage_bytes());
    }
    Ok(whole)
}
