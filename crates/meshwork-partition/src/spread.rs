//! Placements through sorts of a lone dimension.
//!
//! Shardy lets none pass there, for a sort needs its dimension whole. A sort across devices does not. So a program is also
//! placed with a rule on such sorts by which the result is split as the operand is.

use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::op::BodyOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, Walk, comparator};
use meshwork_propagate::rules::{SHARDING_RULE, stored_rule};

use crate::algorithm::{Algorithm, Algorithms, Use};
use crate::split::sort::sorted_dim;
use crate::split::window::shared_dims_rule;

/// `module` with a rule on each sort of a lone dimension whose order is known; `None` if it has none.
pub(crate) fn through_sorts(module: &Module, algorithms: &Algorithms) -> Option<Module> {
    if algorithms.of(Algorithm::Sort) == Use::Never {
        return None;
    }
    let sorts: Vec<OpId> = module.all_ops(Walk::PreOrder).into_iter().filter(|&op| is_lone(module, op)).collect();
    if sorts.is_empty() {
        return None;
    }
    let mut out = module.clone();
    for op in sorts {
        let rule = rule_of(module, op);
        out.op_mut(op).attrs.set(SHARDING_RULE, Attr::ShardingRule(Arc::new(rule)));
    }
    Some(out)
}

/// Takes the rules away again: they say where results go, not how sorts are split.
pub(crate) fn forget_rules(module: &mut Module) {
    let is_sort = |op: &OpId| module.op(*op).kind() == OpKind::Body(BodyOp::Sort);
    let sorts: Vec<OpId> = module.all_ops(Walk::PreOrder).into_iter().filter(is_sort).collect();
    for op in sorts {
        if stored_rule(module, op).is_some_and(|rule| **rule == rule_of(module, op)) {
            module.op_mut(op).attrs.remove(SHARDING_RULE);
        }
    }
}

/// Whether `op` sorts the only dimension of more than one element, in a known order.
fn is_lone(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    if data.kind() != OpKind::Body(BodyOp::Sort) || data.attr(SHARDING_RULE).is_some() {
        return false;
    }
    let Some(&first) = data.operands().first() else { return false };
    let dims = module.ty(first).dims();
    let Some(dim) = sorted_dim(data.int("dimension"), dims.len()) else { return false };
    let alone = dims.iter().enumerate().all(|(d, &n)| d == dim || n == 1);
    alone && module.body_of(op, 0).is_some_and(|body| comparator::keys(module, body).is_some())
}

/// Operands and results of `op` in one placement.
fn rule_of(module: &Module, op: OpId) -> OpShardingRule {
    let data = module.op(op);
    let dims = data.operands().first().map_or(&[][..], |&v| module.ty(v).dims());
    shared_dims_rule(dims, data.operands().len(), 0, data.results().len(), vec![])
}
