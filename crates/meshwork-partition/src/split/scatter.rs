//! Scatter: window dimensions pass through; along a split indexed dimension every device applies what falls in its
//! block; updates split among devices make partial results.

use std::sync::Arc;

use meshwork_ir::attr::{OpShardingRule, ScatterDims};
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{Attr, Combine, Direction, OpId, OpKind, ValueId};

use super::{Result, Splitter};
use crate::layout::Layout;
use crate::split::strategy::Choice;

impl Splitter<'_> {
    /// Splits a `scatter`.
    pub fn scatter(&mut self, op: OpId) -> Result<()> {
        let operands = self.src.op(op).operands().to_vec();
        let inputs = (operands.len() - 1) / 2;
        let Some(Attr::Scatter(dims)) = self.src.op(op).attr("scatter_dimension_numbers").cloned() else {
            return self.whole(op);
        };
        let (n, k, m) = (self.extents(operands[0]), self.extents(operands[inputs]), self.extents(operands[inputs + 1]));
        let combine = self.src.body_of(op, 0).and_then(|b| Combine::of_body(self.src, b)).filter(|_| inputs == 1);
        let rule = scatter_rule(&dims, inputs, &n, &k, &m);
        let problem = self.problem(op, Arc::new(rule), combine);
        let Choice { assignment, weighed } = self.choose(&problem);
        self.reason = format!("its operands are not placed as it needs them{weighed}").into();
        let atoms = self.atoms;
        let layout = problem.layout(&problem.rule.operands[0], &n, &assignment, atoms);
        let index_layout = problem.layout(&problem.rule.operands[inputs], &k, &assignment, atoms);
        let update_layout = problem.layout(&problem.rule.operands[inputs + 1], &m, &assignment, atoms);
        let partial = problem.partial(&assignment);
        let mut locals = vec![];
        for &v in &operands[..inputs] {
            let value = self.get(v, &layout)?;
            locals.push(match combine {
                Some(combine) if !partial.is_empty() => self.only_on_first(value, &partial, combine),
                _ => value,
            });
        }
        let mut at = self.get(operands[inputs], &index_layout)?;
        at = self.drop_padding(at, operands[inputs], &index_layout, &dims);
        let split: Vec<usize> = dims
            .scatter_dims_to_operand_dims
            .iter()
            .enumerate()
            .filter(|(_, d)| layout.dims[**d as usize].is_split())
            .map(|(c, _)| c)
            .collect();
        if !split.is_empty() {
            at = self.shifted_indices(at, &dims, &split, &layout);
        }
        locals.push(at);
        for &v in &operands[inputs + 1..] {
            let mut value = self.get(v, &update_layout)?;
            if let Some(combine) = combine.filter(|_| dims.scatter_dims_to_operand_dims.is_empty()) {
                // No index says where updates go: those that are padding must change nothing.
                let is_window = |d: usize| dims.update_window_dims.contains(&(d as i64));
                value = self.mask_dims(value, v, &update_layout, |d| !is_window(d), combine);
            }
            locals.push(value);
        }
        let mut types = vec![];
        for &r in &problem.results {
            types.push(self.local_type(r, &layout)?);
        }
        let copy = self.copy(op, &locals, types)?;
        self.reason = format!("each device has applied its own updates{weighed}").into();
        let layout = match combine {
            Some(combine) => layout.with_partial(partial, combine),
            None => layout,
        };
        self.register(op, copy, vec![layout; problem.results.len()]);
        Ok(())
    }

    /// `value` on the first device along `list`, what changes nothing under `combine` on the others.
    pub fn only_on_first(&mut self, value: ValueId, list: &[u8], combine: Combine) -> ValueId {
        let me = self.local.shard_index(list);
        let zero = self.local.index_constant(0);
        let first = self.local.compare(Direction::Eq, me, zero);
        let (dims, elem) = (self.local.dims(value), self.local.elem(value));
        let Some(neutral) = self.local.neutral(combine, elem) else { return value };
        let others = self.local.broadcast(neutral, &dims, &[]);
        self.local.select(first, value, others)
    }

    /// Indices of updates that are padding point nowhere.
    fn drop_padding(&mut self, at: ValueId, v: ValueId, layout: &Layout, dims: &ScatterDims) -> ValueId {
        let extents = self.extents(v);
        let mut at = at;
        for (d, frame) in layout.dims.iter().enumerate() {
            if d as i64 == dims.index_vector_dim {
                continue;
            }
            if let Some(mask) = self.local.element_mask(frame, extents[d]) {
                if self.local.elem(at).bits() < self.local.index.bits() {
                    // A narrow type may have no index that is out of bounds.
                    at = self.local.in_index_type(at);
                }
                let elem = self.local.elem(at);
                // The largest index of the type is out of bounds of anything that fits in memory.
                let bits =
                    (u64::MAX >> (64 - elem.bits())) >> u32::from(elem.class() == meshwork_ir::ElementClass::Signed);
                let nowhere = self.local.splat(&[], elem, &bits.to_le_bytes()[..elem.storage_bytes()]);
                at = self.local.mask_dim(at, d, mask, nowhere);
            }
        }
        at
    }

    /// Indices relative to this shard's blocks. What falls outside is dropped by the scatter itself.
    fn shifted_indices(&mut self, at: ValueId, dims: &ScatterDims, split: &[usize], layout: &Layout) -> ValueId {
        let vector_dim = dims.index_vector_dim as usize;
        let shape = self.local.dims(at);
        let mut value = self.local.in_index_type(at);
        let mut wide = shape.clone();
        if vector_dim == wide.len() {
            wide.push(1);
            value = self.local.reshape(value, &wide);
        }
        let mut parts = vec![];
        for (c, &d) in dims.scatter_dims_to_operand_dims.iter().enumerate() {
            let part = self.local.slice(value, vector_dim, c as i64, c as i64 + 1);
            if !split.contains(&c) {
                parts.push(part);
                continue;
            }
            let frame = &layout.dims[d as usize];
            let local = self.local.dims(part);
            let shift = self.local.shard_offset(&frame.atoms, -frame.block, frame.offset);
            let shift = self.local.broadcast(shift, &local, &[]);
            let moved = self.local.same(OpKind::Binary(BinaryOp::Add), &[part, shift]);
            // An index that is "nowhere" must not come back in range by wrapping around.
            let zero = self.local.index_constant(0);
            let zero = self.local.broadcast(zero, &local, &[]);
            let negative = self.local.compare(Direction::Lt, part, zero);
            parts.push(self.local.select(negative, part, moved));
        }
        let joined = self.local.concatenate(&parts, vector_dim);
        self.local.reshape(joined, &shape)
    }
}

/// Factors of a scatter: window dimensions that updates cover whole are shared by inputs, updates and results; an
/// inserted dimension splits inputs and results; the places of the indices are shared with the updates and summed over.
fn scatter_rule(dims: &ScatterDims, inputs: usize, n: &[i64], k: &[i64], m: &[i64]) -> OpShardingRule {
    let mut rule = OpShardingRule { factor_sizes: vec![1], need_replication: vec![0], ..OpShardingRule::default() };
    let mut input = vec![vec![0]; n.len()];
    let mut indices = vec![vec![0]; k.len()];
    let mut update = vec![vec![0]; m.len()];
    let mut add = |size: i64| {
        rule.factor_sizes.push(size);
        rule.factor_sizes.len() - 1
    };
    let missing =
        |d: usize| dims.inserted_window_dims.contains(&(d as i64)) || dims.input_batching_dims.contains(&(d as i64));
    let window: Vec<usize> = (0..n.len()).filter(|&d| !missing(d)).collect();
    for (&d, &u) in window.iter().zip(&dims.update_window_dims) {
        let indexed = dims.scatter_dims_to_operand_dims.contains(&(d as i64));
        if n[d] == m[u as usize] && !indexed {
            let f = add(n[d]);
            input[d] = vec![f];
            update[u as usize] = vec![f];
        } else if indexed && m[u as usize] == 1 {
            input[d] = vec![add(n[d])];
        }
    }
    for &d in &dims.inserted_window_dims {
        if dims.scatter_dims_to_operand_dims.contains(&d) {
            input[d as usize] = vec![add(n[d as usize])];
        }
    }
    let mut reduction = vec![];
    let index_batch = (0..k.len()).filter(|&d| d as i64 != dims.index_vector_dim);
    let update_batch: Vec<usize> = (0..m.len()).filter(|&d| !dims.update_window_dims.contains(&(d as i64))).collect();
    for (i, u) in index_batch.zip(update_batch) {
        let f = add(k[i]);
        indices[i] = vec![f];
        update[u] = vec![f];
        match dims.scatter_indices_batching_dims.iter().position(|&d| d as usize == i) {
            Some(b) => input[dims.input_batching_dims[b] as usize] = vec![f],
            None => reduction.push(f),
        }
    }
    rule.reduction = reduction;
    let mut all = vec![input.clone(); inputs];
    all.push(indices);
    all.extend(vec![update; inputs]);
    (rule.operands, rule.results) = (all, vec![input; inputs]);
    rule
}
