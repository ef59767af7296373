//! Reshapes whose axes fit no factor: the axes of the side that is split more are distributed again on both sides.

use meshwork_mesh::gcd;
use meshwork_propagate::factors::{Axis, AxisList, Prefix, Projection, TensorFactors, prefix_status, push_merged};

use super::Context;
use super::common_axes::num_shards;
use super::op::Subject;

/// Distributes the axes and leaves in the projection what both sides have in common; returns the axes of each factor.
pub fn redistribute(cx: &mut Context, subject: &mut Subject) -> Vec<AxisList> {
    let tensors = &subject.projection.tensors;
    let from = if num_shards(&tensors[0]) >= num_shards(&tensors[1]) { 0 } else { 1 };
    let factors = tensors[from].factors.iter().flatten();
    let axes: Vec<Axis> = factors.flat_map(|f| f.axes.iter().chain(&f.overflow).copied()).collect();
    let sizes = subject.rule.rule.factor_sizes.clone();
    for (i, tensor) in subject.projection.tensors.iter_mut().enumerate() {
        deal_out(tensor, subject.rule.tensor(i), &sizes, &axes);
    }
    // What remains after a dimension is put together and taken apart again has no strides.
    let legal: Vec<_> = (0..2)
        .map(|i| {
            let like = cx.placements.get(subject.placements[i]).clone();
            let tensor = &subject.projection.tensors[i];
            tensor.placement(Some(&like), subject.rule.tensor(i), &sizes, subject.mesh)
        })
        .collect();
    let mut projection = Projection::default();
    projection.build(&subject.rule, legal.iter().map(Some));
    let common: Vec<AxisList> = (0..sizes.len()).map(|f| common_prefix(&projection, f)).collect();
    for tensor in &mut subject.projection.tensors {
        for (sharding, axes) in tensor.factors.iter_mut().zip(&common) {
            if let Some(sharding) = sharding {
                sharding.axes = axes.clone();
                sharding.overflow.clear();
            }
        }
    }
    common
}

/// Gives each axis to the first factor that it, or a part of it, divides. What no factor takes overflows from the
/// last one.
fn deal_out(tensor: &mut TensorFactors, mapping: &[Vec<usize>], sizes: &[i64], axes: &[Axis]) {
    let order: Vec<usize> = mapping.iter().flatten().copied().filter(|&f| tensor.factors[f].is_some()).collect();
    let mut room: Vec<i64> = order.iter().map(|&f| sizes[f]).collect();
    let mut dealt = vec![AxisList::new(); order.len()];
    let mut overflow = AxisList::new();
    let mut left: Vec<Axis> = axes.iter().rev().copied().collect();
    'axes: while let Some(mut axis) = left.pop() {
        let mut used = false;
        for (room, taken) in room.iter_mut().zip(&mut dealt) {
            let shared = gcd(*room, i64::from(axis.size));
            if *room <= 1 || (shared == 1 && axis.size != 1) {
                continue;
            }
            used = true;
            // `shared` divides an axis size, so it fits.
            push_merged(taken, axis.with_size(shared as u32));
            *room /= shared;
            if shared == i64::from(axis.size) {
                continue 'axes;
            }
            axis = Axis { id: axis.id, pre: axis.pre * shared as u32, size: axis.size / shared as u32 };
        }
        if used {
            left.push(axis);
            continue;
        }
        push_merged(&mut overflow, axis);
        left.drain(..).rev().for_each(|axis| push_merged(&mut overflow, axis));
    }
    let last = order.last().copied();
    for (factor, axes) in order.into_iter().zip(dealt) {
        if let Some(sharding) = &mut tensor.factors[factor] {
            sharding.axes = axes;
            sharding.overflow =
                if Some(factor) == last { overflow.iter().copied().collect() } else { Default::default() };
        }
    }
}

/// The longest list that is a prefix of the axes of `factor` in all tensors that have it.
fn common_prefix(projection: &Projection, factor: usize) -> AxisList {
    let lists = projection.tensors.iter().filter_map(|t| t.axes(factor));
    lists.cloned().reduce(|a, b| greatest_common_prefix(&a, &b)).unwrap_or_default()
}

fn greatest_common_prefix(first: &[Axis], second: &[Axis]) -> AxisList {
    let mut prefix = AxisList::new();
    for (&a, &b) in first.iter().zip(second) {
        if a == b {
            prefix.push(a);
            continue;
        }
        match (prefix_status(&[a], &[b]), prefix_status(&[b], &[a])) {
            (Prefix::Strict, _) => prefix.push(a),
            (_, Prefix::Strict) => prefix.push(b),
            _ => {}
        }
        break;
    }
    prefix
}
