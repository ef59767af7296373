//! Cutting global arrays into shards and putting shards together again.

use std::ops::Range;

use meshwork_ir::Literal;
use meshwork_mesh::{Mesh, Reduction, Sharding, ShardingError, device_groups, slice_of};

/// The shards of `global`, one per device id. Every shard has the same extents; what is past the end is zero.
pub fn cut(global: &Literal, sharding: &Sharding, mesh: &Mesh) -> Result<Vec<Literal>, ShardingError> {
    let mesh = sharding.mesh.inline().map_or(mesh, |own| own);
    let local = sharding.local_shape(mesh, global.dims())?;
    (0..mesh.device_count())
        .map(|device| {
            let slice = slice_of(sharding, mesh, global.dims(), device)?;
            let mut shard = Literal::zeros(local.iter().copied(), global.elem());
            copy_box(global, &starts(&slice), &mut shard, &vec![0; local.len()], &lengths(&slice));
            Ok(shard)
        })
        .collect()
}

/// Makes parts of `shards`, which are whole: numbers of which each device of a group has a few, and that combine to
/// what was there.
pub fn into_parts(shards: &mut [Literal], sharding: &Sharding, mesh: &Mesh) -> Result<(), ShardingError> {
    let mesh = sharding.mesh.inline().map_or(mesh, |own| own);
    if sharding.unreduced.is_empty() {
        return Ok(());
    }
    for group in device_groups(mesh, &sharding.unreduced)? {
        let (whole, count) = (shards[group[0] as usize].clone(), group.len());
        for (k, &device) in group.iter().enumerate() {
            let extra = |i: usize, k: usize| ((i + k) % 3) as f64;
            let values = whole.to_f64s().into_iter().enumerate().map(|(i, v)| match sharding.reduction {
                Reduction::Sum if k == 0 => v - (1..count).map(|k| extra(i, k)).sum::<f64>(),
                Reduction::Sum => extra(i, k),
                _ if i % count == k => v,
                Reduction::Max => v - 1.0 - k as f64,
                Reduction::Min => v + 1.0 + k as f64,
            });
            shards[device as usize] = literal(&whole, values.collect());
        }
    }
    Ok(())
}

/// Numbers in the shape and type of `like`.
fn literal(like: &Literal, values: Vec<f64>) -> Literal {
    let dims = like.dims().iter().copied();
    if like.elem().is_integer() {
        let values: Vec<i64> = values.into_iter().map(|v| v as i64).collect();
        return Literal::from_i64s(dims, like.elem(), &values).expect("fits");
    }
    Literal::from_f64s(dims, like.elem(), &values).expect("fits")
}

/// The shards with all parts of a group combined on each of its devices.
fn combined(shards: &[Literal], sharding: &Sharding, mesh: &Mesh) -> Result<Vec<Literal>, ShardingError> {
    let mut out = shards.to_vec();
    for group in device_groups(mesh, &sharding.unreduced)? {
        let mut sum = shards[group[0] as usize].to_f64s();
        for &device in &group[1..] {
            for (s, v) in sum.iter_mut().zip(shards[device as usize].to_f64s()) {
                *s = match sharding.reduction {
                    Reduction::Sum => *s + v,
                    Reduction::Max => s.max(v),
                    Reduction::Min => s.min(v),
                };
            }
        }
        for &device in &group {
            out[device as usize] = literal(&shards[device as usize], sum.clone());
        }
    }
    Ok(out)
}

/// The global array of extents `dims` that `shards`, one per device id, make up.
pub fn join(shards: &[Literal], dims: &[i64], sharding: &Sharding, mesh: &Mesh) -> Result<Literal, ShardingError> {
    let mesh = sharding.mesh.inline().map_or(mesh, |own| own);
    if !sharding.unreduced.is_empty() {
        let whole = sharding.clone().with_unreduced(Reduction::Sum, [""; 0]);
        return join(&combined(shards, sharding, mesh)?, dims, &whole, mesh);
    }
    let mut global = Literal::zeros(dims.iter().copied(), shards[0].elem());
    for (device, shard) in shards.iter().enumerate() {
        let slice = slice_of(sharding, mesh, dims, device as i64)?;
        copy_box(shard, &vec![0; dims.len()], &mut global, &starts(&slice), &lengths(&slice));
    }
    Ok(global)
}

fn starts(slice: &[Range<i64>]) -> Vec<i64> {
    slice.iter().map(|r| r.start).collect()
}

fn lengths(slice: &[Range<i64>]) -> Vec<i64> {
    slice.iter().map(|r| r.end - r.start).collect()
}

fn copy_box(from: &Literal, from_at: &[i64], to: &mut Literal, to_at: &[i64], lengths: &[i64]) {
    let rank = lengths.len();
    if lengths.contains(&0) {
        return;
    }
    let size = from.elem().storage_bytes();
    let run = lengths.last().map_or(1, |&l| l as usize) * size;
    let offset = |dims: &[i64], at: &[i64], index: &[i64]| {
        let element = (0..rank).fold(0, |o, d| o * dims[d] + at[d] + index[d]);
        element as usize * size
    };
    let to_dims = to.dims().to_vec();
    let mut index = vec![0i64; rank];
    loop {
        let (a, b) = (offset(from.dims(), from_at, &index), offset(&to_dims, to_at, &index));
        let row = from.bytes()[a..a + run].to_vec();
        to.bytes_mut()[b..b + run].copy_from_slice(&row);
        // The innermost dimension is copied as a run.
        let mut d = rank.saturating_sub(1);
        loop {
            if d == 0 {
                return;
            }
            d -= 1;
            index[d] += 1;
            if index[d] < lengths[d] {
                break;
            }
            index[d] = 0;
        }
    }
}
