//! Which part of an array each device holds.
//!
//! A dimension of size `n` over `k` shards is split in blocks of `ceil(n / k)`: the last block that is not
//! empty may be short, and later ones are empty. This is the split of XLA and Shardy. Everything here is
//! computed per axis from a device's coordinates; only [`slices`] and [`device_groups`] walk the mesh.

use std::ops::Range;

use crate::axis::AxisRef;
use crate::axis_list;
use crate::error::ShardingError;
use crate::mesh::Mesh;
use crate::sharding::Sharding;
use crate::verify::AxisUse;

/// `size / parts` rounded up. An unknown size (below 0) stays.
pub fn ceil_div(size: i64, parts: i64) -> i64 {
    if size <= 0 || parts <= 1 { size } else { (size - 1) / parts + 1 }
}

/// The elements of shard `index` of a dimension of `size` split into `shards`.
///
/// ```
/// use meshwork_mesh::shard_range;
/// let shards: Vec<_> = (0..4).map(|index| shard_range(102, 4, index)).collect();
/// assert_eq!(shards, [0..26, 26..52, 52..78, 78..102]);
/// ```
pub fn shard_range(size: i64, shards: i64, index: i64) -> Range<i64> {
    let block = ceil_div(size, shards);
    let start = block.saturating_mul(index).min(size);
    start..start.saturating_add(block).min(size)
}

/// The shard that a device with these mesh coordinates has along an axis list, major to minor.
pub fn shard_index(axes: &[AxisRef], coordinates: &[i64], mesh: &Mesh) -> i64 {
    axes.iter().fold(0i64, |index, axis| {
        index.saturating_mul(axis.size(mesh)).saturating_add(axis.coordinate(coordinates, mesh))
    })
}

/// The elements of an array of `shape` that `device` holds, one range per dimension.
///
/// ```
/// use meshwork_mesh::{Mesh, Sharding, slice_of};
/// let mesh = Mesh::linear("x", 4)?;
/// let rows = Sharding::data_parallel("mesh", 2, "x")?;
/// assert_eq!(slice_of(&rows, &mesh, &[7, 3], 3)?, [6..7, 0..3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn slice_of(
    sharding: &Sharding,
    mesh: &Mesh,
    shape: &[i64],
    device: i64,
) -> Result<Vec<Range<i64>>, ShardingError> {
    match mesh.coordinates(device) {
        Some(coordinates) => slice_at(sharding, mesh, shape, &coordinates),
        None => Err(ShardingError::UnknownDevice { device, mesh: mesh.without_device_ids().to_string() }),
    }
}

/// The elements of an array of `shape` that the device with these coordinates holds.
pub fn slice_at(
    sharding: &Sharding,
    mesh: &Mesh,
    shape: &[i64],
    coordinates: &[i64],
) -> Result<Vec<Range<i64>>, ShardingError> {
    if mesh.is_maximal() && sharding.dims.is_empty() {
        return Ok(shape.iter().map(|&size| 0..size).collect());
    }
    sharding.check_rank(shape.len())?;
    let ranges = shape
        .iter()
        .zip(&sharding.dims)
        .map(|(&size, dim)| shard_range(size, dim.num_shards(mesh), shard_index(&dim.axes, coordinates, mesh)));
    Ok(ranges.collect())
}

/// What each device holds of an array, as `(device, ranges)` in order of positions.
///
/// Walks the mesh: time grows with the number of devices taken from the iterator.
pub fn slices<'a>(
    sharding: &'a Sharding,
    mesh: &'a Mesh,
    shape: &'a [i64],
) -> Result<impl Iterator<Item = (i64, Vec<Range<i64>>)> + 'a, ShardingError> {
    if !(mesh.is_maximal() && sharding.dims.is_empty()) {
        sharding.check_rank(shape.len())?;
    }
    Ok((0..mesh.device_count()).map_while(move |position| {
        let coordinates = mesh.coordinates_at(position)?;
        let slice = slice_at(sharding, mesh, shape, &coordinates).ok()?;
        Some((mesh.device_at_position(position)?, slice))
    }))
}

/// The devices in groups that differ only along `axes`, in the order of that list, major to minor.
///
/// The groups are in order of the positions of the remaining axes. These are the replica groups of a
/// collective over `axes`. Walks the mesh.
///
/// ```
/// use meshwork_mesh::{Mesh, device_groups};
/// let mesh = Mesh::grid(("x", 2), ("y", 2))?;
/// assert_eq!(device_groups(&mesh, &["y".into()])?, [[0, 1], [2, 3]]);
/// assert_eq!(device_groups(&mesh, &["x".into()])?, [[0, 2], [1, 3]]);
/// assert_eq!(device_groups(&mesh, &["y".into(), "x".into()])?, [[0, 2, 1, 3]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn device_groups(mesh: &Mesh, axes: &[AxisRef]) -> Result<Vec<Vec<i64>>, ShardingError> {
    mesh.verify()?;
    let mut used = AxisUse::new(mesh);
    for axis in axes {
        used.list(std::slice::from_ref(axis))?;
    }
    used.finish()?;
    // Verified axes are known and can coexist, so that the mesh has parts.
    let mut rest = axis_list::mesh_parts(axes, mesh).unwrap_or_default();
    rest.retain(|part| !axes.iter().any(|axis| axis.overlaps(part)));

    let size = axis_list::product(axes, mesh);
    let count = mesh.device_count() / size.max(1);
    let mut groups = vec![vec![0; size as usize]; count as usize];
    for position in 0..mesh.device_count() {
        let (Some(coordinates), Some(device)) = (mesh.coordinates_at(position), mesh.device_at_position(position))
        else {
            continue;
        };
        let group = shard_index(&rest, &coordinates, mesh) as usize;
        let member = shard_index(axes, &coordinates, mesh) as usize;
        groups[group][member] = device;
    }
    Ok(groups)
}
