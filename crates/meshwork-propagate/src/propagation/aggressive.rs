//! The aggressive strategy: conflicts between factors are resolved in favor of the larger tensor.
//!
//! Compatible axes are found per factor without regard to other factors. Then each tensor, results before operands,
//! takes them factor by factor, as far as they do not conflict with what it has by then. Tensors may thus end
//! up with different axes along one factor.

use meshwork_mesh::sort_by_key;
use smallvec::SmallVec;

use super::factor::{
    Directions, OpTraits, compatible_major_axes, truncate_conflicts, within_factor, without_other_factors,
};
use crate::factors::{
    Axis, AxisList, CompiledRule, Expanded, Prefix, Projection, TensorFactors, prefix_status, product,
};

/// Extends the axes of the projected tensors; sets `updated` for those that changed.
pub fn propagate(
    projection: &mut Projection,
    rule: &CompiledRule,
    directions: Directions,
    traits: OpTraits,
    updated: &mut [bool],
) {
    let sizes = &rule.rule.factor_sizes;
    let axes: SmallVec<[AxisList; 6]> =
        (0..sizes.len()).map(|f| compatible_major_axes(projection, f, directions.along(rule, f))).collect();
    if axes.iter().all(|a| a.is_empty()) {
        return;
    }
    let order = factor_order(projection, sizes, &axes, traits);
    let results = projection.num_operands..projection.tensors.len();
    for index in results.clone().chain(0..projection.num_operands) {
        for &factor in &order {
            let tensor = &projection.tensors[index];
            let Some(mut new) = axes_for(tensor, factor, &axes[factor], sizes[factor], traits) else { continue };
            // An element-wise op gains nothing from splitting an operand further than its result can follow.
            if traits.elementwise && index < projection.num_operands {
                for result in &projection.tensors[results.clone()] {
                    if let Some(have) = result.axes(factor)
                        && prefix_status(have, &new) == Prefix::Strict
                    {
                        new = have.clone();
                    }
                }
            }
            updated[index] |= projection.tensors[index].expand(factor, &new) == Expanded::Yes;
        }
    }
}

/// The part of `axes` that `tensor` can take along `factor`, if it extends what it has.
fn axes_for(tensor: &TensorFactors, factor: usize, axes: &[Axis], size: i64, traits: OpTraits) -> Option<AxisList> {
    let sharding = tensor.factors[factor].as_ref()?;
    if axes.is_empty() {
        return None;
    }
    let mut new = AxisList::from(axes);
    truncate_conflicts(&mut new, traits.whole_axes_only, |axis, before| {
        within_factor(axis, tensor, sharding, before, size)
    });
    if prefix_status(&sharding.axes, &new) != Prefix::Strict {
        return None;
    }
    truncate_conflicts(&mut new, traits.whole_axes_only, |axis, _| without_other_factors(axis, tensor, factor));
    (!new.is_empty()).then_some(new)
}

/// Factors in order of preference: those of the largest source tensor first; for element-wise ops then those with
/// more shards; then by source tensor and factor. A source is a tensor that has the axes already.
fn factor_order(projection: &Projection, sizes: &[i64], axes: &[AxisList], traits: OpTraits) -> SmallVec<[usize; 6]> {
    // Per factor the size and index of its largest source.
    let mut sources: SmallVec<[(i64, i64); 6]> = SmallVec::from_elem((-1, -1), sizes.len());
    for (index, tensor) in projection.tensors.iter().enumerate() {
        let present = || tensor.factors.iter().enumerate().filter_map(|(f, s)| Some((f, s.as_ref()?)));
        let tensor_size = present().fold(1i64, |n, (f, _)| n.saturating_mul(sizes[f]));
        for (factor, sharding) in present() {
            let is_source = !axes[factor].is_empty() && prefix_status(&axes[factor], &sharding.axes) != Prefix::No;
            if is_source && tensor_size > sources[factor].0 {
                sources[factor] = (tensor_size, index as i64);
            }
        }
    }
    let mut order: SmallVec<[usize; 6]> = (0..sizes.len()).collect();
    sort_by_key(&mut order, |&f| {
        let shards = if traits.elementwise { product(&axes[f]) } else { 0 };
        (-sources[f].0, -shards, sources[f].1, f)
    });
    order
}
