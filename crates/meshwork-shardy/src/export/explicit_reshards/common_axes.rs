//! The axes along which an op computes: one list for each factor of its rule, the same for all its tensors.
//!
//! 1. Where all tensors agree already, nothing changes.
//! 2. An op of two tensors keeps one of them and reshards the other.
//! 3. Otherwise the axes are chosen greedily, see `candidates`; axes of factors that must be
//!    whole move to batching factors with room for them.

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_propagate::factors::{Axis, AxisList, Projection, TensorFactors, product, push_merged};

use super::candidates::{self, truncate_without_overlap};

/// The axes of each factor of `rule`. `sizes` are the numbers of elements of the tensors, operands first; `name_ranks`
/// has for each axis of the mesh its place in the order of names.
pub fn find(projection: &Projection, rule: &OpShardingRule, sizes: &[i64], name_ranks: &[usize]) -> Vec<AxisList> {
    if let Some(axes) = compatible_axes(projection, rule) {
        return axes;
    }
    let tensors: Vec<usize> = non_scalars(rule);
    if let &[first, second] = &tensors[..]
        && rule.need_replication.is_empty()
        && !has_compound_dims(rule)
    {
        return keep_one(projection, rule, sizes, first, second);
    }
    let mut axes = candidates::choose(projection, rule, sizes, name_ranks);
    for &factor in &rule.need_replication {
        let freed = std::mem::take(&mut axes[factor]);
        if is_in_all_tensors(rule, factor) {
            move_to_batching_factors(&freed, rule, &mut axes);
        }
    }
    axes
}

/// The axes of `factor` if all tensors that have it agree.
pub fn compatible_factor(projection: &Projection, factor: usize) -> Option<AxisList> {
    let mut lists = projection.tensors.iter().filter_map(|t| t.axes(factor));
    let Some(first) = lists.next() else { return Some(AxisList::new()) };
    lists.all(|axes| axes == first).then(|| first.clone())
}

/// The axes of each factor if the tensors agree, factors that must be whole are, and no axis splits two factors.
fn compatible_axes(projection: &Projection, rule: &OpShardingRule) -> Option<Vec<AxisList>> {
    let mut seen: Vec<Axis> = vec![];
    let mut all = vec![];
    for factor in 0..rule.factor_sizes.len() {
        let axes = compatible_factor(projection, factor)?;
        let is_whole = rule.kind(factor) != FactorKind::NeedReplication || axes.is_empty();
        if !is_whole || axes.iter().any(|a| seen.iter().any(|b| a.overlaps(*b))) {
            return None;
        }
        seen.extend(&axes);
        all.push(axes);
    }
    Some(all)
}

fn tensors(rule: &OpShardingRule) -> impl Iterator<Item = &Vec<Vec<usize>>> {
    rule.operands.iter().chain(&rule.results)
}

fn non_scalars(rule: &OpShardingRule) -> Vec<usize> {
    tensors(rule).enumerate().filter(|(_, dims)| !dims.is_empty()).map(|(i, _)| i).collect()
}

fn has_compound_dims(rule: &OpShardingRule) -> bool {
    tensors(rule).flatten().any(|factors| factors.len() > 1)
}

fn is_in_all_tensors(rule: &OpShardingRule, factor: usize) -> bool {
    tensors(rule).filter(|dims| !dims.is_empty()).all(|dims| dims.iter().flatten().any(|&f| f == factor))
}

/// Keeps the tensor of two that needs no exchange between neighbors, else the larger, else the more split one.
fn keep_one(projection: &Projection, rule: &OpShardingRule, sizes: &[i64], a: usize, b: usize) -> Vec<AxisList> {
    let preference = |tensor: usize| {
        let factors = &projection.tensors[tensor];
        let permutes = |&f: &usize| factors.axes(f).is_some_and(|axes| !axes.is_empty());
        (!rule.permutation.iter().any(permutes), sizes[tensor], num_shards(factors))
    };
    let (kept, other) = if preference(a) >= preference(b) { (a, b) } else { (b, a) };
    let (kept, other) = (&projection.tensors[kept], &projection.tensors[other]);
    let used: Vec<Axis> = kept.factors.iter().flatten().flat_map(|f| f.axes.iter().copied()).collect();
    let choose = |factor| match (kept.axes(factor), other.axes(factor)) {
        (Some(axes), _) => axes.clone(),
        (None, Some(axes)) => {
            let mut axes = axes.clone();
            truncate_without_overlap(&mut axes, &used);
            axes
        }
        (None, None) => AxisList::new(),
    };
    (0..rule.factor_sizes.len()).map(choose).collect()
}

/// Into how many shards the tensor is split, overflow axes included.
pub fn num_shards(tensor: &TensorFactors) -> i64 {
    tensor
        .factors
        .iter()
        .flatten()
        .fold(1i64, |n, f| n.saturating_mul(product(&f.axes)).saturating_mul(product(&f.overflow)))
}

/// Gives axes, in order, to the batching factors that they divide further.
fn move_to_batching_factors(freed: &[Axis], rule: &OpShardingRule, axes: &mut [AxisList]) {
    let mut freed = freed.iter().copied().peekable();
    for (factor, axes) in axes.iter_mut().enumerate() {
        let is_batching = rule.kind(factor) == FactorKind::PassThrough && is_in_all_tensors(rule, factor);
        let (size, split) = (rule.factor_sizes[factor], product(axes));
        if !is_batching || size == 0 || size % split != 0 {
            continue;
        }
        let mut room = size / split;
        while let Some(axis) = freed.next_if(|a| room % i64::from(a.size) == 0) {
            push_merged(axes, axis);
            room /= i64::from(axis.size);
        }
    }
}
