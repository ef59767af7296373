//! An operation's sharding rule fits its operands and results.

use std::fmt;

use super::{Check, Context};
use crate::attr::OpShardingRule;
use crate::{OpId, ValueId};

/// Checks `rule`, which is attached to `op`.
pub(super) fn check(cx: &Context, op: OpId, rule: &OpShardingRule) -> Check {
    let count = rule.factor_sizes.len();
    let mut seen = vec![false; count];
    let data = cx.module.op(op);
    mappings(cx, op, "operand", data.operands(), &rule.operands, rule, &mut seen)?;
    let mut in_results = vec![false; count];
    mappings(cx, op, "result", data.results(), &rule.results, rule, &mut in_results)?;
    if let Some(unused) = (0..count).find(|&f| !seen[f] && !in_results[f]) {
        let (name, size) = (OpShardingRule::factor_name(unused), rule.factor_sizes[unused]);
        return Err(fail(cx, op, format_args!("has factor {name}={size}, which no operand or result uses")));
    }
    let sets = [
        ("reduction", &rule.reduction),
        ("need_replication", &rule.need_replication),
        ("permutation", &rule.permutation),
        ("blocked_propagation", &rule.blocked),
    ];
    for (name, set) in sets {
        if !set.windows(2).all(|w| w[0] < w[1]) {
            return Err(fail(cx, op, format_args!("{name} factors must be sorted and distinct, but are {set:?}")));
        }
        if let Some(f) = set.last().filter(|&&f| f >= count) {
            return Err(fail(cx, op, format_args!("{name} names factor {f}, but there are {count} factors")));
        }
    }
    let special = [&rule.reduction, &rule.need_replication, &rule.permutation];
    for f in 0..count {
        if special.iter().filter(|set| set.contains(&f)).count() > 1 {
            let name = OpShardingRule::factor_name(f);
            return Err(fail(
                cx,
                op,
                format_args!("factor {name} has more than one of reduction, need_replication, permutation"),
            ));
        }
    }
    if let Some(&f) = rule.reduction.iter().find(|&&f| in_results[f]) {
        let name = OpShardingRule::factor_name(f);
        return Err(fail(cx, op, format_args!("reduction factor {name} appears in a result")));
    }
    Ok(())
}

fn fail(cx: &Context, op: OpId, detail: impl fmt::Display) -> crate::Diagnostic {
    cx.error(op, format_args!("sharding rule: {detail}"))
}

fn mappings(
    cx: &Context,
    op: OpId,
    what: &str,
    values: &[ValueId],
    maps: &[Vec<Vec<usize>>],
    rule: &OpShardingRule,
    seen: &mut [bool],
) -> Check {
    if values.len() != maps.len() || maps.is_empty() {
        let detail = format!("maps {} {what}(s), but the operation has {}", maps.len(), values.len());
        return Err(fail(cx, op, detail));
    }
    for (i, (&v, map)) in values.iter().zip(maps).enumerate() {
        let Some(ty) = cx.module.ty(v).as_tensor().filter(|t| t.is_static()) else {
            return Err(fail(
                cx,
                op,
                format_args!("{what} {i} must be a tensor of static shape, but is {}", cx.module.ty(v)),
            ));
        };
        if map.len() != ty.rank() {
            let detail = format!("{what} {i} is mapped with {} dimensions, but is {ty}", map.len());
            return Err(fail(cx, op, detail));
        }
        let mut here = vec![false; seen.len()];
        for (d, factors) in map.iter().enumerate() {
            if factors.is_empty() {
                return Err(fail(cx, op, format_args!("{what} {i} has no factor for dimension {d}")));
            }
            for &f in factors {
                if f >= seen.len() {
                    let detail = format!("{what} {i} names factor {f}, but there are {} factors", seen.len());
                    return Err(fail(cx, op, detail));
                }
                let name = OpShardingRule::factor_name(f);
                if std::mem::replace(&mut here[f], true) {
                    return Err(fail(cx, op, format_args!("{what} {i} uses factor {name} twice")));
                }
                if rule.factor_sizes[f] == 1 && factors.len() > 1 {
                    let detail = format!("{what} {i} splits dimension {d} with factor {name} of size 1 among others");
                    return Err(fail(cx, op, detail));
                }
                seen[f] = true;
            }
        }
    }
    Ok(())
}
