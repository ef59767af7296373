//! A dot whose result is better resharded than its operands.
//!
//! If the operands agree, and one dimension of the result, no larger than the operand it comes from, is wanted split
//! by exactly the axes that are summed over, then the dot computes that dimension split as in the operand, and
//! the smaller result is resharded: an all-reduce of shards instead of a reduce-scatter of a larger tensor.

use meshwork_ir::{Module, attr::FactorKind};
use meshwork_propagate::factors::{Axis, AxisList};
use meshwork_propagate::program::set_sharding;

use super::Context;
use super::op::Subject;
use crate::export::cursor::Cursor;

/// Reshards the result of the dot if that pays.
pub fn reshard_result(cx: &mut Context, module: &mut Module, subject: &mut Subject) {
    let Some(wanted) = subject.shardings[2].clone() else { return };
    let Some((factor, axes)) = conflict(subject) else { return };
    if let Some(sharding) = &mut subject.projection.tensors[2].factors[factor] {
        sharding.axes = axes;
    }
    let result = module.result(subject.op);
    let computed = subject.built_sharding(cx, 2);
    set_sharding(module, result, computed);
    let reshard = Cursor::After(subject.op).reshard(module, result, wanted);
    module.replace_uses_if(result, reshard, |m, u| m.op(u.op).results().first() != Some(&reshard));
}

/// The only factor that the result has differently than the operands, and its axes there.
fn conflict(subject: &Subject) -> Option<(usize, AxisList)> {
    let [lhs, rhs, result] = &subject.projection.tensors[..] else { return None };
    let &[lhs_size, rhs_size, result_size] = &subject.sizes[..] else { return None };
    let rule = &subject.rule.rule;
    let mut found: Option<(usize, AxisList)> = None;
    let (mut reduced, mut seen) = (AxisList::new(), Vec::<Axis>::new());
    for factor in 0..rule.factor_sizes.len() {
        let (axes, size) = match (lhs.axes(factor), rhs.axes(factor)) {
            (Some(a), Some(b)) if a != b => return None,
            (Some(a), Some(_)) if rule.kind(factor) == FactorKind::Reduction => {
                reduced.extend(a.iter().copied());
                continue;
            }
            (Some(a), Some(_)) => (a, lhs_size.max(rhs_size)),
            (Some(axes), None) => (axes, lhs_size),
            (None, Some(axes)) => (axes, rhs_size),
            (None, None) => continue,
        };
        let is_free = lhs.axes(factor).is_none() || rhs.axes(factor).is_none();
        if is_free {
            if axes.iter().any(|a| seen.iter().any(|b| a.overlaps(*b))) {
                return None;
            }
            seen.extend(axes.iter().copied());
        }
        if result.axes(factor)? != axes {
            if axes.is_empty() || found.is_some() || result_size > size {
                return None;
            }
            found = Some((factor, axes.clone()));
        }
    }
    let (factor, axes) = found?;
    let wanted = result.axes(factor)?;
    (!wanted.is_empty() && *wanted == reduced).then_some((factor, axes))
}
