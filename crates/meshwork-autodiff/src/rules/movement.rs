//! Operations that move elements: their transposes move cotangents back, and add those that meet.

use meshwork_ir::build::BuildError;
use meshwork_ir::{OpSpec, ValueId};

use crate::GradError;
use crate::reverse::{Reverse, Site};

type Done = Result<(), GradError>;

pub(super) fn broadcast_in_dim(r: &mut Reverse<'_>, site: &Site) -> Done {
    let (x, ct) = (site.x(0), site.ct);
    let map = site.i64s_or("broadcast_dimensions", 0, 0);
    let (from, to) = (r.dims(x), r.dims(ct));
    let kept = |d: usize| map.iter().position(|&m| m == d as i64).is_some_and(|i| from[i] == to[d]);
    let summed: Vec<i64> = (0..to.len()).filter(|&d| !kept(d)).map(|d| d as i64).collect();
    let sum = r.sum(ct, &summed)?;
    // What is left are the kept dimensions in the order of the result; bring them to the order of the operand.
    let mut order: Vec<usize> = (0..from.len()).filter(|&i| kept(map[i] as usize)).collect();
    let wanted = order.clone();
    order.sort_by_key(|&i| map[i]);
    let permutation: Vec<i64> =
        wanted.iter().filter_map(|i| order.iter().position(|o| o == i)).map(|p| p as i64).collect();
    let turned = if order == wanted { sum } else { r.transpose(sum, &permutation)? };
    let shaped = if r.dims(turned) == from { turned } else { r.reshape(turned, from)? };
    Ok(r.give(x, shaped)?)
}

pub(super) fn broadcast(r: &mut Reverse<'_>, site: &Site) -> Done {
    let added = r.rank(site.ct) - r.rank(site.x(0));
    let sum = r.sum(site.ct, &(0..added as i64).collect::<Vec<_>>())?;
    Ok(r.give(site.x(0), sum)?)
}

pub(super) fn reshape(r: &mut Reverse<'_>, site: &Site) -> Done {
    let dims = r.dims(site.x(0));
    let back = r.reshape(site.ct, dims)?;
    Ok(r.give(site.x(0), back)?)
}

pub(super) fn transpose(r: &mut Reverse<'_>, site: &Site) -> Done {
    let permutation = site.i64s_or("permutation", 0, 0);
    let mut inverse = vec![0; permutation.len()];
    for (i, &p) in permutation.iter().enumerate() {
        inverse[p as usize] = i as i64;
    }
    let back = r.transpose(site.ct, &inverse)?;
    Ok(r.give(site.x(0), back)?)
}

pub(super) fn slice(r: &mut Reverse<'_>, site: &Site) -> Done {
    let (x, ct) = (site.x(0), site.ct);
    let (from, part) = (r.dims(x), r.dims(ct));
    if part.contains(&0) {
        return Ok(());
    }
    let start = site.i64s_or("start_indices", from.len(), 0);
    let stride = site.i64s_or("strides", from.len(), 1);
    let high: Vec<i64> = (0..from.len()).map(|d| from[d] - (start[d] + (part[d] - 1) * stride[d] + 1)).collect();
    let between: Vec<i64> = stride.iter().map(|s| s - 1).collect();
    let zero = r.zero_of(ct)?;
    let back = r.pad(ct, zero, &start, &high, &between)?;
    Ok(r.give(x, back)?)
}

pub(super) fn pad(r: &mut Reverse<'_>, site: &Site) -> Done {
    let (x, value, ct) = (site.x(0), site.x(1), site.ct);
    let from = r.dims(x);
    let list = |name| site.i64s_or(name, from.len(), 0);
    let (low, high, between) = (list("edge_padding_low"), list("edge_padding_high"), list("interior_padding"));
    if from.contains(&0) {
        let all = r.sum_all(ct)?;
        return Ok(r.give(value, all)?);
    }
    let inner = unpad(r, ct, &low, &high, &between)?;
    r.give(x, inner)?;
    if r.wants(value) {
        let (all, inside) = (r.sum_all(ct)?, r.sum_all(inner)?);
        let around = r.subtract(all, inside)?;
        r.give(value, around)?;
    }
    Ok(())
}

/// The elements that a padding kept, back in their places; those that it cut away come back as zeros.
pub(super) fn unpad(
    r: &mut Reverse<'_>,
    x: ValueId,
    low: &[i64],
    high: &[i64],
    between: &[i64],
) -> Result<ValueId, BuildError> {
    let minus = |list: &[i64]| list.iter().map(|v| -v).collect::<Vec<_>>();
    let zeros = vec![0; low.len()];
    let zero = r.zero_of(x)?;
    let framed = r.pad(x, zero, &minus(low), &minus(high), &zeros)?;
    let (limit, step) = (r.dims(framed), between.iter().map(|b| b + 1).collect::<Vec<_>>());
    if between == zeros { Ok(framed) } else { r.slice(framed, &zeros, &limit, &step) }
}

pub(super) fn concatenate(r: &mut Reverse<'_>, site: &Site) -> Done {
    let dim = site.op.int("dimension").unwrap_or(0) as usize;
    let mut limit = r.dims(site.ct);
    let mut start = vec![0; limit.len()];
    let step = vec![1; limit.len()];
    for &part in site.op.operands() {
        limit[dim] = start[dim] + r.dims(part)[dim];
        if r.wants(part) {
            let piece = r.slice(site.ct, &start, &limit, &step)?;
            r.give(part, piece)?;
        }
        start[dim] = limit[dim];
    }
    Ok(())
}

pub(super) fn reverse(r: &mut Reverse<'_>, site: &Site) -> Done {
    let back = r.reverse(site.ct, &site.i64s_or("dimensions", 0, 0))?;
    Ok(r.give(site.x(0), back)?)
}

pub(super) fn dynamic_slice(r: &mut Reverse<'_>, site: &Site) -> Done {
    let zeros = r.zeros_like(site.x(0))?;
    let back = r.dynamic_update_slice(zeros, site.ct, &site.op.operands()[1..])?;
    Ok(r.give(site.x(0), back)?)
}

pub(super) fn dynamic_update_slice(r: &mut Reverse<'_>, site: &Site) -> Done {
    let (x, update, starts) = (site.x(0), site.x(1), &site.op.operands()[2..]);
    if r.wants(x) {
        let zeros = r.zeros_like(update)?;
        let around = r.dynamic_update_slice(site.ct, zeros, starts)?;
        r.give(x, around)?;
    }
    if r.wants(update) {
        let sizes = r.dims(update);
        let piece = r.dynamic_slice(site.ct, starts, &sizes)?;
        r.give(update, piece)?;
    }
    Ok(())
}

/// A barrier in the forward pass needs one in the backward pass.
pub(super) fn barrier(r: &mut Reverse<'_>, site: &Site) -> Done {
    let live: Vec<(usize, _)> = site.cts.iter().enumerate().filter_map(|(i, ct)| Some((i, (*ct)?))).collect();
    let held = r.optimization_barrier(&live.iter().map(|&(_, ct)| ct).collect::<Vec<_>>())?;
    for (&(i, _), ct) in live.iter().zip(held) {
        r.give(site.x(i), ct)?;
    }
    Ok(())
}

/// The cotangent is placed as the value is.
pub(super) fn placed(r: &mut Reverse<'_>, site: &Site) -> Done {
    let mut spec = OpSpec::new(site.op.kind()).operands([site.ct]);
    for name in site.op.kind().own_attrs() {
        spec = Reverse::with_attr(spec, &site.op, name);
    }
    let ct = r.value(spec)?;
    Ok(r.give(site.x(0), ct)?)
}
