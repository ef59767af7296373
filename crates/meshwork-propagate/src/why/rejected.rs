//! What a dimension did not take: axes that a neighbor along some op has, and the reason.
//!
//! This looks at the placements as they are after propagation and needs no trace.

use std::fmt;
use std::rc::Rc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::{Module, OpId, ValueId};
use meshwork_mesh::AxisRef;

use crate::factors::{Axis, CompiledRule, Placement, Placements, Projection};
use crate::program::{shardable_value, sharding_of};
use crate::rules::{RuleMode, RuleResult, sharding_rule};

/// An axis that a neighbor has and the dimension does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// The op that connects both.
    pub op: OpId,
    /// The factor they share.
    pub factor: usize,
    /// The neighbor.
    pub from: ValueId,
    /// The first axis of it that was not taken.
    pub axis: AxisRef,
    /// Why.
    pub reason: Reason,
}

/// Why an axis was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The dimension is split by this axis there.
    SplitBy(AxisRef),
    /// The dimension is closed.
    Closed,
    /// Another dimension of the value uses it.
    UsedByDim(usize),
    /// The value must hold copies over it.
    Replicated,
    /// The value is partial over it.
    Unreduced,
    /// Placements do not spread along the factor.
    Blocked,
    /// What is left of the factor, of this extent, does not divide by it.
    NotDivisible(i64),
    /// Another tensor of the op blocked it when it could have moved.
    HeldBack,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::SplitBy(axis) => write!(f, "it is split by {axis} there"),
            Reason::Closed => f.write_str("it is closed"),
            Reason::UsedByDim(dim) => write!(f, "dimension {dim} uses it"),
            Reason::Replicated => f.write_str("it must hold copies over it"),
            Reason::Unreduced => f.write_str("it is partial over it"),
            Reason::Blocked => f.write_str("placements do not spread along this factor"),
            Reason::NotDivisible(rest) => write!(f, "the remaining extent {rest} does not divide by it"),
            Reason::HeldBack => f.write_str("another tensor of the op blocked it"),
        }
    }
}

/// What dimension `dim` of `value` did not take from its neighbors, in the order of the ops: first the one that
/// defines it, then its users.
pub fn rejected(module: &Module, value: ValueId, dim: usize) -> Vec<Rejected> {
    let mut ops: Vec<OpId> = module.def_op(value).into_iter().collect();
    for u in module.value(value).uses() {
        if !ops.contains(&u.op) {
            ops.push(u.op);
        }
    }
    let mut found = vec![];
    for op in ops {
        rejected_by(module, op, value, dim, &mut found);
    }
    found
}

fn rejected_by(module: &Module, op: OpId, value: ValueId, dim: usize, found: &mut Vec<Rejected>) {
    let RuleResult::Rule(rule) = sharding_rule(module, op, RuleMode::Full) else { return };
    let rule = CompiledRule::new(rule);
    let values: Vec<ValueId> = module.op(op).operands().iter().chain(module.op(op).results()).copied().collect();
    let mut placements = Placements::of(module);
    let mut ids = vec![];
    for &v in &values {
        ids.push(sharding_of(module, v).and_then(|s| placements.import(&s).ok()));
    }
    let Some(mesh) = placements.common_mesh(ids.iter().flatten().copied()) else { return };
    let of_values: Vec<Option<Rc<Placement>>> = ids.iter().map(|id| id.map(|id| placements.get(id).clone())).collect();
    let fits =
        |(i, p): (usize, &Option<Rc<Placement>>)| p.as_ref().is_none_or(|p| p.dims.len() == rule.tensor(i).len());
    if values.len() != rule.num_tensors() || !of_values.iter().enumerate().all(fits) {
        return;
    }
    let mut projection = Projection::default();
    projection.build(&rule, of_values.iter().map(Option::as_deref));
    let slot = shardable_value(module, value);
    let Some(this) = values.iter().position(|&v| shardable_value(module, v) == slot) else { return };
    for &factor in rule.tensor(this).get(dim).into_iter().flatten() {
        for (other, &from) in values.iter().enumerate() {
            if shardable_value(module, from) == slot {
                continue;
            }
            if let Some((axis, reason)) = missing(&projection, &rule, this, other, factor) {
                let axis = placements.axis_ref(axis, mesh);
                let reason = match reason {
                    Why::SplitBy(own) => Reason::SplitBy(placements.axis_ref(own, mesh)),
                    Why::Other(reason) => reason,
                };
                found.push(Rejected { op, factor, from, axis, reason });
            }
        }
    }
}

enum Why {
    SplitBy(Axis),
    Other(Reason),
}

/// The first axis of tensor `other` along `factor` that tensor `this` lacks.
fn missing(
    projection: &Projection,
    rule: &CompiledRule,
    this: usize,
    other: usize,
    factor: usize,
) -> Option<(Axis, Why)> {
    let tensor = &projection.tensors[this];
    let own = tensor.factors[factor].as_ref()?;
    let theirs = projection.tensors[other].axes(factor)?;
    let (position, &axis) =
        theirs.iter().enumerate().find(|&(i, a)| own.axes.get(i).is_none_or(|o| !o.contains(*a)))?;
    let dim_of = |f: usize| rule.tensor(this).iter().position(|factors| factors.contains(&f));
    let overlaps = |list: &[Axis]| list.iter().any(|a| a.overlaps(axis));
    let elsewhere = tensor.factors.iter().enumerate().find_map(|(f, s)| {
        let s = s.as_ref().filter(|_| f != factor)?;
        if overlaps(&s.axes) || overlaps(&s.overflow) { dim_of(f) } else { None }
    });
    let before: i64 = own.axes.iter().map(|a| i64::from(a.size)).product();
    let rest = rule.rule.factor_sizes[factor] / before.max(1);
    let reason = if rule.blocked[factor] {
        Reason::Blocked
    } else if let Some(dim) = elsewhere {
        Reason::UsedByDim(dim)
    } else if overlaps(&tensor.replicated) {
        Reason::Replicated
    } else if overlaps(&tensor.unreduced) {
        Reason::Unreduced
    } else if let Some(&own) = own.axes.get(position) {
        return Some((axis, Why::SplitBy(own)));
    } else if own.closed {
        Reason::Closed
    } else if !own.overflow.is_empty() || (!own.minor_most && rest % i64::from(axis.size) != 0) {
        Reason::NotDivisible(rest)
    } else {
        Reason::HeldBack
    };
    Some((axis, Why::Other(reason)))
}

impl Rejected {
    /// The rejection in words.
    pub fn describe(&self, module: &Module) -> String {
        let factor = OpShardingRule::factor_name(self.factor);
        let from = super::NodeName { module, node: super::Node::Value(self.from) };
        format!(
            "{} of {from} was not taken through {} along factor {factor}: {}",
            self.axis,
            module.describe(self.op),
            self.reason
        )
    }
}
