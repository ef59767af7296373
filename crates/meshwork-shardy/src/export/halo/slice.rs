//! Slices along split dimensions.

use meshwork_ir::{Module, OpId};
use meshwork_propagate::program::set_sharding;

use super::pad::{Shifted, zero};
use super::shards::{even_dims, pad_high};
use super::{Halo, Resolved};
use crate::export::rewrite::{Problem, tensor};

/// Exchanges what a slice needs. One that skips elements of a split dimension does so within each shard, or gathers it.
pub fn resolve(cx: &mut Halo, module: &mut Module, op: OpId) -> Result<Resolved, Problem> {
    let ints = |name: &str| module.op(op).i64s(name).unwrap_or_default();
    let (starts, limits, strides) = (ints("start_indices"), ints("limit_indices"), ints("strides"));
    let low: Vec<i64> = starts.iter().map(|s| -s).collect();
    let Some(mut shifted) = Shifted::of(cx, module, op, &low, &vec![1; low.len()]) else {
        return Ok(Resolved::Yes);
    };
    let extents = tensor(module, shifted.value)?.dims;
    let skips = |dim: usize| strides[dim] != 1;
    let within_shards = |dim: usize, shift: &super::exchange::Shift| {
        starts[dim] == 0
            && limits[dim] == extents[dim]
            && extents[dim] % shift.shards == 0
            && shift.from % strides[dim] == 0
    };
    if shifted.dims.iter().any(|(dim, _, _)| skips(*dim)) {
        let free = |(dim, shift, needed): &(usize, super::exchange::Shift, super::exchange::Neighbors)| {
            if skips(*dim) { within_shards(*dim, shift) } else { !needed.moves }
        };
        return Ok(if shifted.dims.iter().all(free) { Resolved::Yes } else { Resolved::No });
    }
    if !shifted.moves() {
        return Ok(Resolved::Yes);
    }
    if !shifted.is_near() {
        return Ok(Resolved::No);
    }
    let even = even_dims(&extents, &shifted.sharding, &shifted.mesh);
    shifted.value = pad_high(module, op, shifted.value, &even, &shifted.sharding, None)?;
    let padding = zero(module, op, shifted.value)?;
    let split: Vec<usize> = shifted.dims.iter().map(|(dim, _, _)| *dim).collect();
    shifted.replace(cx, module, op, padding, None, |b, value, _, inner| {
        // Dimensions that are not split are sliced on each shard.
        let local = b.ty(value).dims().to_vec();
        let pick = |list: &[i64], whole: &dyn Fn(usize) -> i64| -> Vec<i64> {
            (0..list.len()).map(|dim| if split.contains(&dim) { whole(dim) } else { list[dim] }).collect()
        };
        let starts = pick(&starts, &|_| 0);
        let limits = pick(&limits, &|dim| local[dim]);
        let strides = pick(&strides, &|_| 1);
        if starts.iter().all(|&s| s == 0) && limits == local && strides.iter().all(|&s| s == 1) {
            return Ok(value);
        }
        let sliced = b.slice(value, &starts, &limits, &strides)?;
        set_sharding(b.module_mut(), sliced, inner.clone());
        Ok(sliced)
    })?;
    Ok(Resolved::Yes)
}
