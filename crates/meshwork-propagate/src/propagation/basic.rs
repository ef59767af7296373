//! The basic strategy: along each factor, spread the axes that are compatible with every tensor of the op.
//!
//! Factors go in order, each seeing what the ones before did. One tensor that cannot take an axis, because it is
//! closed or uses it elsewhere, keeps it from all.

use super::factor::{
    Directions, OpTraits, compatible_major_axes, truncate_conflicts, within_factor, without_other_factors,
};
use crate::factors::{AxisList, CompiledRule, Expanded, Projection};

/// Extends the axes of the projected tensors; sets `updated` for those that changed.
pub fn propagate(
    projection: &mut Projection,
    rule: &CompiledRule,
    directions: Directions,
    traits: OpTraits,
    updated: &mut [bool],
) {
    for (factor, &size) in rule.rule.factor_sizes.iter().enumerate() {
        let axes = compatible_axes(projection, rule, factor, size, directions, traits);
        for (tensor, updated) in projection.tensors.iter_mut().zip(updated.iter_mut()) {
            *updated |= tensor.expand(factor, &axes) == Expanded::Yes;
        }
    }
}

fn compatible_axes(
    projection: &Projection,
    rule: &CompiledRule,
    factor: usize,
    size: i64,
    directions: Directions,
    traits: OpTraits,
) -> AxisList {
    let mut axes = compatible_major_axes(projection, factor, directions.along(rule, factor));
    truncate_conflicts(&mut axes, traits.whole_axes_only, |axis, before| {
        projection.tensors.iter().try_fold(axis, |axis, tensor| {
            let axis = without_other_factors(axis, tensor, factor)?;
            match &tensor.factors[factor] {
                Some(sharding) => within_factor(axis, tensor, sharding, before, size),
                None => Some(axis),
            }
        })
    });
    axes
}
