//! What a loop stores beside what it was asked for: values that others need and should not compute again.

use meshwork_ir::hash::HashSet;
use meshwork_ir::{OpId, ValueId};
use meshwork_mesh::sort_by_key;

use super::affine::identity;
use super::group::MAX_OUTPUTS;
use super::numbers;
use super::survey::Survey;
use crate::compile::Compiler;

/// What storing and loading an element costs, in additions.
const STORE_AND_LOAD: u32 = 10;
/// What loading an element from far memory costs, in additions.
const LOAD: u32 = 4;
/// What a reduction costs: more than anything.
const REDUCE: u32 = 1000;

impl Compiler<'_> {
    /// The values that the loop of `survey` stores, `root` among them.
    pub(super) fn outputs(&self, survey: &Survey, root: ValueId) -> Vec<ValueId> {
        let module = self.cx.module;
        let inside: HashSet<OpId> = survey.inside.iter().filter_map(|&v| module.def_op(v)).collect();
        let wanted = |v: ValueId| {
            let others = |op: &OpId| !inside.contains(op) && !self.fuse.done.contains(op);
            v == root || module.value(v).uses().iter().any(|u| others(&u.op))
        };
        let must = |v: ValueId| {
            v == root || (survey.joined.contains(&v) && self.fuse.stored[v.index()]) || self.is_reduction(v)
        };
        // Operands before what is made of them: what is stored is near for the rest.
        let mut candidates: Vec<ValueId> = survey.inside.iter().copied().filter(|&v| wanted(v)).collect();
        sort_by_key(&mut candidates, |v| self.fuse.depth[v.index()]);
        let mut out: Vec<ValueId> = candidates.iter().copied().filter(|&v| must(v)).collect();
        for value in candidates {
            let dims = module.ty(value).dims();
            let whole = dims == survey.domain && survey.maps[&value] == [identity(dims.len())];
            let computes = |op| {
                numbers::is_arithmetic(module, op)
                    || super::is_small_reduce(module, op)
                    || super::is_pick(module, op)
                    || super::is_row_pick(module, op)
            };
            let arithmetic = module.def_op(value).is_some_and(computes);
            if out.contains(&value) || !whole || !arithmetic || out.len() >= MAX_OUTPUTS {
                continue;
            }
            if self.again(survey, value, &out).0 <= STORE_AND_LOAD {
                continue;
            }
            // One number per row is cheap to store and may be the expensive part.
            let (_, rows) = self.again(survey, value, &out);
            let with_rows: Vec<ValueId> = out.iter().chain(&rows).copied().collect();
            let cheap = self.again(survey, value, &with_rows).0 <= STORE_AND_LOAD;
            if cheap && with_rows.len() <= MAX_OUTPUTS { out = with_rows } else { out.push(value) }
        }
        out
    }

    fn is_reduction(&self, value: ValueId) -> bool {
        self.cx.module.def_op(value).is_some_and(|op| super::row_reduce(self.cx.module, op).is_some())
    }

    /// What computing `value` again costs if `stored` is in memory, and which numbers of rows it is made of.
    fn again(&self, survey: &Survey, value: ValueId, stored: &[ValueId]) -> (u32, Vec<ValueId>) {
        let module = self.cx.module;
        let whole: i64 = survey.domain.iter().product();
        let size = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
        let is_row = |v: ValueId| {
            let dims = module.ty(v).dims();
            survey.split == Some(dims.len()) && *dims == survey.domain[..dims.len()] && dims.len() < survey.domain.len()
        };
        let mut seen = HashSet::default();
        let mut rows = vec![];
        let mut cost = 0u32;
        let mut work = vec![(value, true)];
        while let Some((v, outside_rows)) = work.pop() {
            if !seen.insert(v) {
                continue;
            }
            let in_memory = self.cx.view(v).is_some() || (stored.contains(&v) && v != value);
            let op = module.def_op(v);
            match op.filter(|_| !in_memory) {
                None => cost += 1 + if size(v) * 2 >= whole { LOAD } else { 0 },
                Some(op) => {
                    let enters = outside_rows && is_row(v);
                    let kept = numbers::is_arithmetic(module, op) || self.is_reduction(v);
                    if enters && kept && survey.maps.get(&v).is_some_and(|m| *m == [identity(m[0].len())]) {
                        rows.push(v);
                    }
                    if numbers::is_arithmetic(module, op) {
                        cost += numbers::cost(module.op(op).kind());
                    } else if self.is_reduction(v) {
                        cost += REDUCE;
                    } else if super::is_small_reduce(module, op) {
                        cost += STORE_AND_LOAD;
                    } else if super::is_pick(module, op) {
                        cost += super::PICK_COST;
                    }
                    work.extend(module.op(op).operands().iter().map(|&o| (o, outside_rows && !(enters && kept))));
                }
            }
        }
        (cost, rows)
    }
}
