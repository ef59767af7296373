//! Gather: batch and slice dimensions pass through; along a split indexed dimension every device looks up what it holds.

use std::sync::Arc;

use meshwork_ir::attr::{GatherDims, OpShardingRule};
use meshwork_ir::op::{BinaryOp, MixedOp};
use meshwork_ir::{Attr, Combine, Direction, OpId, OpKind, ValueId};

use super::{Result, Splitter};
use crate::layout::Layout;
use crate::reshard::moves::Form;

impl Splitter<'_> {
    /// Splits a `gather`.
    pub fn gather(&mut self, op: OpId) -> Result<()> {
        let [operand, indices] = self.src.op(op).operands()[..] else { return self.whole(op) };
        let result = self.src.op(op).results()[0];
        let Some(Attr::Gather(dims)) = self.src.op(op).attr("dimension_numbers").cloned() else {
            return self.whole(op);
        };
        let sizes = self.src.op(op).i64s("slice_sizes").unwrap_or_default();
        let (n, k, out) = (self.extents(operand), self.extents(indices), self.extents(result));
        let rule = gather_rule(&dims, &sizes, &n, &k, &out);
        let problem = self.problem(op, Arc::new(rule), Some(Combine::Add));
        let assignment = self.choose(&problem).assignment;
        let frames = self.factor_frames(&problem, &assignment);
        let layout = problem.layout_in(&problem.rule.operands[0], &n, &assignment, &frames, self.atoms);
        let index_layout = problem.layout_in(&problem.rule.operands[1], &k, &assignment, &frames, self.atoms);
        let result_layout = problem.layout_in(&problem.rule.results[0], &out, &assignment, &frames, self.atoms);
        let table = self.get(operand, &layout)?;
        let mut at = self.get(indices, &index_layout)?;
        let split: Vec<usize> = dims
            .start_index_map
            .iter()
            .enumerate()
            .filter(|(_, d)| layout.dims[**d as usize].is_split() && sizes[**d as usize] < n[**d as usize])
            .map(|(c, _)| c)
            .collect();
        let mut here = None;
        if !split.is_empty() {
            let (local, mask) = self.local_indices(
                at,
                &dims.start_index_map,
                dims.index_vector_dim,
                &split,
                |s, d| (n[d] - sizes[d], s.dims[d].clone()),
                &layout,
            );
            at = local;
            here = Some(mask);
        }
        let is_dropped = |d: usize| {
            let d = d as i64;
            dims.collapsed_slice_dims.contains(&d) || dims.operand_batching_dims.contains(&d)
        };
        let taken_whole = |d: usize| sizes[d] == n[d] && !is_dropped(d);
        let local_sizes: Vec<i64> =
            (0..n.len()).map(|d| if taken_whole(d) { layout.dims[d].block } else { sizes[d] }).collect();
        let ty = self.local_type(result, &result_layout)?;
        let spec = self.spec_of(op).operands([table, at]).results([ty]).attr("slice_sizes", Attr::i64s(local_sizes));
        let copy = self.local.push(spec);
        let mut value = self.local.module.result(copy);
        if let Some(mask) = here {
            let batch: Vec<i64> = (0..out.len() as i64).filter(|d| !dims.offset_dims.contains(d)).collect();
            let local = self.local.dims(value);
            let mask = self.local.broadcast(mask, &local, &batch);
            let elem = self.local.elem(value);
            let nothing = self.local.nothing(elem);
            let nothing = self.local.broadcast(nothing, &local, &[]);
            value = self.local.select(mask, value, nothing);
        }
        self.reason = "each device looks up the rows it holds".into();
        let layout = result_layout.with_partial(problem.partial(&assignment), Combine::Add);
        self.finish(result, Form { value, layout });
        Ok(())
    }

    /// Index vectors relative to this shard's blocks, and which of them point into the blocks.
    ///
    /// `components` are the positions in the index vector whose operand dimension is split. `bound` gives the greatest
    /// valid start of a dimension and its frame. The mask has the batch dimensions of the indices.
    pub fn local_indices(
        &mut self,
        indices: ValueId,
        map: &[i64],
        vector_dim: i64,
        components: &[usize],
        bound: impl Fn(&Layout, usize) -> (i64, crate::layout::DimLayout),
        layout: &Layout,
    ) -> (ValueId, ValueId) {
        let vector_dim = vector_dim as usize;
        let (local, at) = self.with_vector_dim(indices, vector_dim);
        let batch: Vec<i64> = {
            let mut b = local.clone();
            b.remove(vector_dim);
            b
        };
        let mut parts = vec![];
        let mut mask: Option<ValueId> = None;
        for (c, &d) in map.iter().enumerate() {
            let part = self.local.slice(at, vector_dim, c as i64, c as i64 + 1);
            if !components.contains(&c) {
                parts.push(part);
                continue;
            }
            let (max, frame) = bound(layout, d as usize);
            let dims = self.local.dims(part);
            let e = &mut self.local;
            let low = e.index_constant(0);
            let high = e.index_constant(max.max(0));
            let ty = e.module.ty(part).clone();
            let part = e.op(OpKind::Mixed(MixedOp::Clamp), &[low, part, high], ty, &[]);
            let shift = e.shard_offset(&frame.atoms, -frame.block, frame.offset);
            let shift = e.broadcast(shift, &dims, &[]);
            let part = e.same(OpKind::Binary(BinaryOp::Add), &[part, shift]);
            let zero = e.index_constant(0);
            let zero = e.broadcast(zero, &dims, &[]);
            let block = e.index_constant(frame.block);
            let block = e.broadcast(block, &dims, &[]);
            let above = e.compare(Direction::Ge, part, zero);
            let below = e.compare(Direction::Lt, part, block);
            let inside = e.same(OpKind::Binary(BinaryOp::And), &[above, below]);
            let inside = e.reshape(inside, &batch);
            mask = Some(match mask {
                None => inside,
                Some(m) => e.same(OpKind::Binary(BinaryOp::And), &[m, inside]),
            });
            parts.push(part);
        }
        let joined = self.local.concatenate(&parts, vector_dim);
        let shape = self.local.dims(indices);
        let joined = self.local.reshape(joined, &shape);
        let all = mask.unwrap_or_else(|| self.local.splat(&batch, meshwork_ir::ElementType::I1, &[1]));
        (joined, all)
    }

    /// Indices in the index type with an explicit dimension for the components.
    fn with_vector_dim(&mut self, indices: ValueId, vector_dim: usize) -> (Vec<i64>, ValueId) {
        let mut dims = self.local.dims(indices);
        let mut at = self.local.in_index_type(indices);
        if vector_dim == dims.len() {
            dims.push(1);
            at = self.local.reshape(at, &dims);
        }
        (dims, at)
    }
}

/// Factors of a gather. Result batch dimensions follow the indices, offset dimensions the operand where the slice takes
/// them whole; an indexed dimension of slice size one is summed over.
fn gather_rule(dims: &GatherDims, sizes: &[i64], n: &[i64], k: &[i64], out: &[i64]) -> OpShardingRule {
    let mut rule = OpShardingRule { factor_sizes: vec![1], need_replication: vec![0], ..OpShardingRule::default() };
    let mut operand = vec![vec![0]; n.len()];
    let mut indices = vec![vec![0]; k.len()];
    let mut result = vec![vec![0]; out.len()];
    let mut add = |size: i64| {
        rule.factor_sizes.push(size);
        rule.factor_sizes.len() - 1
    };
    let index_batch: Vec<usize> = (0..k.len()).filter(|&d| d as i64 != dims.index_vector_dim).collect();
    let result_batch: Vec<usize> = (0..out.len()).filter(|&d| !dims.offset_dims.contains(&(d as i64))).collect();
    for (&i, &r) in index_batch.iter().zip(&result_batch) {
        let f = add(k[i]);
        indices[i] = vec![f];
        result[r] = vec![f];
        if let Some(b) = dims.start_indices_batching_dims.iter().position(|&d| d as usize == i) {
            operand[dims.operand_batching_dims[b] as usize] = vec![f];
        }
    }
    let dropped =
        |d: usize| dims.collapsed_slice_dims.contains(&(d as i64)) || dims.operand_batching_dims.contains(&(d as i64));
    let kept: Vec<usize> = (0..n.len()).filter(|&d| !dropped(d)).collect();
    for (&d, &r) in kept.iter().zip(&dims.offset_dims) {
        if sizes[d] == n[d] {
            let f = add(n[d]);
            operand[d] = vec![f];
            result[r as usize] = vec![f];
        }
    }
    let mut reduction = vec![];
    for &d in &dims.start_index_map {
        let d = d as usize;
        if sizes[d] == 1 && n[d] > 1 && operand[d] == [0] {
            let f = add(n[d]);
            operand[d] = vec![f];
            reduction.push(f);
        }
    }
    rule.reduction = reduction;
    (rule.operands, rule.results) = (vec![operand, indices], vec![result]);
    rule
}
