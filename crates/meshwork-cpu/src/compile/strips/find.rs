//! Finding what is worth doing in strips: large products, and everything that is computed from them row by row.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BodyOp, ContractOp};
use meshwork_ir::{BlockId, ElementType, Module, OpId, OpKind, ValueId};
use meshwork_mesh::sort_by_key;

use super::labels::{Carried, Labels, dot_dims, free, from_operand, from_result};
use super::{Axes, Limits};
use crate::fuse::is_renaming;
use crate::library::strips::MAX_AXES;

/// Operations that hang together by values that are large and cut along the same axes.
#[derive(Debug)]
pub(super) struct Component {
    pub axes: Axes,
    /// The labels of what members compute row by row.
    pub labels: HashMap<ValueId, Labels>,
    pub members: HashMap<OpId, Carried>,
    /// Elements from which on a value is large.
    pub large: i64,
    /// Elements of a large matrix of the stack.
    pub matrix: i64,
}

impl Component {
    /// Whether `value` is too large to be kept in memory without need.
    pub fn is_large(&self, module: &Module, value: ValueId) -> bool {
        count(module, value) >= self.large
    }

    /// Whether `value` is computed by a member and read by others in strips.
    pub fn is_inside(&self, module: &Module, value: ValueId) -> bool {
        self.labels.contains_key(&value) && module.def_op(value).is_some_and(|op| self.members.contains_key(&op))
    }
}

/// How much larger than its operands a product is that begins a group.
const EXPANSION: i64 = 2;

/// Bytes of a matrix that all strips read.
const MAX_KEPT: i64 = 32 << 20;

pub(super) fn count(module: &Module, value: ValueId) -> i64 {
    module.ty(value).dims().iter().product()
}

pub(super) fn is_product(module: &Module, op: OpId) -> bool {
    matches!(module.op(op).kind(), OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral))
}

/// Whether strips have products of the element types of `op`.
fn is_covered(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let one = |&v: &ValueId| {
        let covered = [ElementType::F32, ElementType::F64, ElementType::BF16, ElementType::F16];
        module.ty(v).elem().is_some_and(|e| covered.contains(&e))
    };
    data.operands().iter().chain(data.results()).all(one)
}

/// Stack, rows, columns and depth of a product.
fn sizes(module: &Module, op: OpId) -> Option<[i64; 4]> {
    let dims = dot_dims(module, op)?;
    let [lhs, rhs] = [0, 1].map(|i| module.ty(module.op(op).operands()[i]).dims());
    let extent = |shape: &[i64], list: &[i64]| list.iter().map(|&d| shape[d as usize]).product::<i64>();
    let (stack, depth) = (extent(lhs, &dims.lhs_batch), extent(lhs, &dims.lhs_contract));
    let each = |shape: &[i64]| shape.iter().product::<i64>() / (stack * depth).max(1);
    Some([stack, each(lhs), each(rhs), depth])
}

/// Whether `op` is a product that is much larger than its operands.
pub(super) fn is_seed(module: &Module, op: OpId, limits: &Limits) -> bool {
    if !is_product(module, op) || !is_covered(module, op) {
        return false;
    }
    let data = module.op(op);
    let Some([stack, rows, columns, depth]) = sizes(module, op) else { return false };
    let size = module.ty(data.results()[0]).elem().map_or(0, |e| e.storage_bytes() as i64);
    stack * rows * columns > 0
        && stack * rows * columns * size >= limits.least_bytes
        && rows * columns >= EXPANSION * depth * (rows + columns)
        && depth * rows.max(columns) * size <= MAX_KEPT
}

/// The components of `block`, those that grow most from their operands first.
pub(super) fn components(module: &Module, block: BlockId, limits: &Limits) -> Vec<Component> {
    let derived = derived(module, block, limits);
    let mut seeds: Vec<OpId> = module.ops_in(block).filter(|&op| is_seed(module, op, limits)).collect();
    sort_by_key(&mut seeds, |&op| sizes(module, op).map_or(0, |[_, m, n, k]| -(m * n / (k * (m + n)).max(1))));
    let mut taken: HashSet<OpId> = HashSet::default();
    let mut out = vec![];
    for seed in seeds {
        if taken.contains(&seed) {
            continue;
        }
        let mut tries = [Rows::Left, Rows::Right].into_iter();
        let found = tries
            .find_map(|rows| grow(module, block, (seed, rows), &derived, &taken).filter(|c| is_worth_it(module, c)));
        if let Some(component) = found {
            taken.extend(component.members.keys());
            out.push(component);
        }
    }
    out
}

/// Whose rows become strips.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rows {
    Left,
    Right,
}

/// Per value, whether it follows from a large product by arithmetic, index changes and reductions.
fn derived(module: &Module, block: BlockId, limits: &Limits) -> HashSet<ValueId> {
    let mut out = HashSet::default();
    for op in module.ops_in(block) {
        let data = module.op(op);
        let &[result] = data.results() else { continue };
        let follows = data.operands().iter().any(|v| out.contains(v)) && is_row_wise(module, op);
        if follows || is_seed(module, op, limits) {
            out.insert(result);
        }
    }
    out
}

/// Whether `op` is neither a product nor anything that cannot be done row by row.
fn is_row_wise(module: &Module, op: OpId) -> bool {
    let kind = module.op(op).kind();
    is_renaming(kind) || kind == OpKind::Body(BodyOp::Reduce) || crate::fuse::is_arithmetic(module, op)
}

/// Whether a component reads its large matrices by rows more than once: it reduces them, and multiplies with them.
fn is_worth_it(module: &Module, component: &Component) -> bool {
    let reads_large = |op: OpId| {
        module.op(op).operands().iter().any(|&v| component.is_large(module, v) && component.is_inside(module, v))
    };
    let ops = || component.members.keys().copied();
    let reduces = ops().any(|op| module.op(op).kind() == OpKind::Body(BodyOp::Reduce) && reads_large(op));
    reduces && ops().any(|op| is_product(module, op) && reads_large(op))
}

fn grow(
    module: &Module,
    block: BlockId,
    (seed, rows): (OpId, Rows),
    derived: &HashSet<ValueId>,
    taken: &HashSet<OpId>,
) -> Option<Component> {
    let dims = dot_dims(module, seed)?;
    let data = module.op(seed);
    let [l_rank, r_rank] = [0, 1].map(|i| module.ty(data.operands()[i]).dims().len());
    let result = data.results()[0];
    let shape = module.ty(result).dims();
    let stack = dims.lhs_batch.len();
    let left = free(l_rank, &dims.lhs_batch, &dims.lhs_contract).len();
    let right = free(r_rank, &dims.rhs_batch, &dims.rhs_contract).len();
    let of_rows = match rows {
        Rows::Left => stack..stack + left,
        Rows::Right => stack + left..stack + left + right,
    };
    let mut labels: Labels = vec![None; shape.len()];
    let mut axes = Axes { extents: vec![], stack: 0 };
    // Strips are cut along the longest dimension of the rows.
    let mut of_rows: Vec<usize> = of_rows.collect();
    sort_by_key(&mut of_rows, |&d| shape[d]);
    for d in (0..stack).chain(of_rows) {
        if shape[d] > 1 {
            labels[d] = Some(axes.extents.len() as u8);
            axes.extents.push(shape[d]);
            axes.stack += usize::from(d < stack);
        }
    }
    if axes.extents.len() == axes.stack || axes.extents.len() > MAX_AXES {
        return None;
    }
    let stacked: i64 = axes.extents[..axes.stack].iter().product();
    let mut growth = Growth {
        module,
        block,
        derived,
        taken,
        queue: vec![],
        component: Component {
            large: count(module, result) / 2,
            matrix: count(module, result) / stacked,
            axes,
            labels: HashMap::default(),
            members: HashMap::default(),
        },
    };
    let carried = from_result(module, seed, &labels)?;
    growth.include(seed, carried);
    while let Some(value) = growth.queue.pop() {
        growth.visit(value);
    }
    growth.leave_out_loose_ends();
    Some(growth.component)
}

struct Growth<'a> {
    module: &'a Module,
    block: BlockId,
    derived: &'a HashSet<ValueId>,
    taken: &'a HashSet<OpId>,
    queue: Vec<ValueId>,
    component: Component,
}

impl Growth<'_> {
    fn visit(&mut self, value: ValueId) {
        let Some(labels) = self.component.labels.get(&value).cloned() else { return };
        let module = self.module;
        if let Some(op) = module.def_op(value).filter(|&op| self.is_new(op))
            && let Some(carried) = from_result(module, op, &labels)
        {
            self.include(op, carried);
        }
        let large = self.component.is_large(module, value);
        for u in module.value(value).uses() {
            // A product of what is not large is a matter of its own.
            if !self.is_new(u.op) || (!large && is_product(module, u.op)) {
                continue;
            }
            if let Some(carried) = from_operand(module, u.op, u.operand as usize, &labels) {
                self.include(u.op, carried);
            }
        }
    }

    fn is_new(&self, op: OpId) -> bool {
        self.module.op(op).parent() == Some(self.block)
            && !self.component.members.contains_key(&op)
            && !self.taken.contains(&op)
    }

    /// Makes `op` a member, if its labels fit those of others.
    fn include(&mut self, op: OpId, carried: Carried) {
        let (module, axes) = (self.module, &self.component.axes);
        let data = module.op(op);
        let result = data.results()[0];
        if is_product(module, op) && !is_covered(module, op) {
            return;
        }
        // A sum over rows is a sum over all of them, of each matrix by itself.
        let rows = axes.stack..axes.extents.len();
        let has = |a: usize| carried.result.contains(&Some(a as u8));
        // The sum of a matrix is one run of memory.
        let shape = module.ty(result).dims();
        let mut whole = carried.result.iter().zip(shape).filter(|&(_, &n)| n != 1).skip_while(|(l, _)| l.is_some());
        let is_run = whole.all(|(l, _)| l.is_none());
        let right_sum = is_run && (0..axes.extents.len()).all(|a| has(a) != rows.contains(&a));
        let fits = if carried.sums { right_sum } else { axes.all_in(&carried.result) };
        if !fits {
            return;
        }
        let mut new: Vec<(ValueId, Labels)> = vec![];
        for (&v, labels) in data.operands().iter().zip(&carried.operands) {
            match self.component.labels.get(&v) {
                Some(known) if known != labels => return,
                Some(_) => {}
                None => {
                    let mine = self.derived.contains(&v) && self.component.is_large(module, v);
                    if mine && axes.all_in(labels) {
                        new.push((v, labels.clone()));
                    }
                }
            }
        }
        // What a product makes is read row by row only if it is large too.
        let read_on = !carried.sums && (!is_product(module, op) || self.component.is_large(module, result));
        match self.component.labels.get(&result) {
            Some(known) if *known != carried.result => return,
            Some(_) => {}
            None if read_on => new.push((result, carried.result.clone())),
            None => {}
        }
        self.component.members.insert(op, carried);
        for (v, labels) in new {
            self.component.labels.insert(v, labels);
            self.queue.push(v);
        }
    }

    /// Takes out what is neither large nor leads to something large.
    fn leave_out_loose_ends(&mut self) {
        let module = self.module;
        let c = &mut self.component;
        let touches_large = |c: &Component, op: OpId| {
            let data = module.op(op);
            data.operands().iter().chain(data.results()).any(|&v| c.is_inside(module, v) && c.is_large(module, v))
        };
        let mut small: Vec<OpId> = c.members.keys().copied().filter(|&op| !touches_large(c, op)).collect();
        // Of a chain, the last goes first; each may leave another without readers.
        while let Some(op) = small.pop() {
            let result = module.op(op).results()[0];
            let kept = !c.members.contains_key(&op)
                || module.value(result).uses().iter().any(|u| c.members.contains_key(&u.op));
            if kept {
                continue;
            }
            c.members.remove(&op);
            c.labels.remove(&result);
            small.extend(
                module
                    .op(op)
                    .operands()
                    .iter()
                    .filter_map(|&v| module.def_op(v))
                    .filter(|&d| c.members.contains_key(&d) && !touches_large(c, d)),
            );
        }
    }
}
