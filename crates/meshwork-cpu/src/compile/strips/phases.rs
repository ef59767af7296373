//! Cutting a component into phases: what can run before anything outside that needs it, and what cannot.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::{BlockId, Module, OpId, ValueId};
use meshwork_mesh::sort_by_key;

use super::Limits;
use super::find::{Component, is_product};
use crate::compile::captured;

/// The members of a component that run together, in program order.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Phase {
    /// What runs, with what is computed again.
    pub ops: Vec<OpId>,
    /// Those of them that run in this phase only.
    pub own: HashSet<OpId>,
}

/// The phases of `component` in the order in which they run.
///
/// A member is in the phase of the members that it reads, or in the next one if it reads something from outside that
/// needs them: no path leaves a phase and comes back to it.
pub(super) fn of(module: &Module, block: BlockId, component: &Component, limits: &Limits) -> Vec<Phase> {
    let mut phase_of: HashMap<OpId, usize> = HashMap::default();
    // Per value from outside, one more than the last phase that it needs.
    let mut after: HashMap<ValueId, usize> = HashMap::default();
    let mut lists: Vec<Vec<OpId>> = vec![];
    let mut left = component.members.len();
    for op in module.ops_in(block) {
        if left == 0 {
            break;
        }
        let data = module.op(op);
        let member = component.members.contains_key(&op);
        let need = |v: ValueId| match module.def_op(v).and_then(|d| phase_of.get(&d)) {
            Some(&phase) if member && component.is_inside(module, v) => phase,
            Some(&phase) => phase + 1,
            None => after.get(&v).copied().unwrap_or(0),
        };
        let mut needed = data.operands().iter().map(|&v| need(v)).max().unwrap_or(0);
        if !data.regions().is_empty() && !member {
            needed = captured(module, op).into_iter().map(need).fold(needed, usize::max);
        }
        if member {
            left -= 1;
            phase_of.insert(op, needed);
            if lists.len() <= needed {
                lists.resize(needed + 1, vec![]);
            }
            lists[needed].push(op);
        } else if needed > 0 {
            after.extend(data.results().iter().map(|&r| (r, needed)));
        }
    }
    let order: HashMap<OpId, usize> = lists.iter().flatten().copied().zip(0..).collect();
    let known = Known { module, component, phase_of, order, limits };
    lists.into_iter().enumerate().map(|(number, ops)| known.with_recomputed(number, ops)).collect()
}

struct Known<'a> {
    module: &'a Module,
    component: &'a Component,
    phase_of: HashMap<OpId, usize>,
    order: HashMap<OpId, usize>,
    limits: &'a Limits,
}

impl Known<'_> {
    /// Phase `number`, with the members of earlier ones whose large values it computes again.
    fn with_recomputed(&self, number: usize, ops: Vec<OpId>) -> Phase {
        let own: HashSet<OpId> = ops.iter().copied().collect();
        let mut again: HashSet<OpId> = HashSet::default();
        for v in ops.iter().flat_map(|&op| self.module.op(op).operands()) {
            let earlier = self.module.def_op(*v).filter(|d| self.phase_of.get(d).is_some_and(|&p| p < number));
            let Some(def) = earlier.filter(|d| self.is_large_inside(*v) && !again.contains(d)) else { continue };
            let cone = self.cone(def);
            let ty = self.module.ty(*v);
            let bytes = ty.dims().iter().product::<i64>() * ty.elem().map_or(1, |e| e.storage_bytes() as i64);
            if bytes >= self.limits.recomputed_bytes || !cone.iter().any(|&op| is_product(self.module, op)) {
                again.extend(cone);
            }
        }
        let mut all: Vec<OpId> = own.union(&again).copied().collect();
        sort_by_key(&mut all, |op| self.order.get(op));
        Phase { ops: all, own }
    }

    fn is_large_inside(&self, value: ValueId) -> bool {
        self.component.is_inside(self.module, value) && self.component.is_large(self.module, value)
    }

    /// What computes the result of `op` from values that are not large.
    fn cone(&self, op: OpId) -> HashSet<OpId> {
        let mut cone: HashSet<OpId> = HashSet::default();
        let mut work = vec![op];
        while let Some(op) = work.pop() {
            if cone.insert(op) {
                let large = self.module.op(op).operands().iter().filter(|&&v| self.is_large_inside(v));
                work.extend(large.filter_map(|&v| self.module.def_op(v)));
            }
        }
        cone
    }
}
