//! Cutting an array of the host into shards of the host, and joining them.

use meshwork_ir::Literal;
use meshwork_mesh::{Mesh, Sharding, slice_of};

use super::slices::{copy, lengths, starts};
use crate::boxes::Region;
use crate::error::{ArrayError, placing};

/// The shards of `whole`, one per device. All have the same extents; what is past the end of the array is zero.
pub fn cut(whole: &Literal, sharding: &Sharding, mesh: &Mesh) -> Result<Vec<Literal>, ArrayError> {
    let (mesh, dims) = (sharding.mesh.inline().map_or(mesh, |own| own), whole.dims());
    let local = sharding.local_shape(mesh, dims).map_err(placing(dims))?;
    let cut = |device: i64| {
        let slice = slice_of(sharding, mesh, dims, device).map_err(placing(dims))?;
        let mut shard = Literal::zeros(local.iter().copied(), whole.elem());
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
    let mut whole = Literal::zeros(dims.iter().copied(), elem);
    for (device, shard) in shards.iter().enumerate() {
        let slice = slice_of(sharding, mesh, dims, device as i64).map_err(placing(dims))?;
        let (start, zero) = (starts(&slice), vec![0; dims.len()]);
        let (from, to) = (Region { dims: shard.dims(), start: &zero }, Region { dims, start: &start });
        copy(shard.bytes(), &from, whole.bytes_mut(), &to, &lengths(&slice), elem.storage_bytes());
    }
    Ok(whole)
}
