//! Slices and updates at places known at run time: each device serves the part it holds.

use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp, UnaryOp};
use meshwork_ir::{Attr, Combine, Direction, OpId, OpKind, Type, ValueId};

use super::{Result, Splitter};
use crate::layout::Layout;
use crate::reshard::moves::Form;
use crate::split::local::LocalBuilder;
use crate::split::strategy::Splittable;

impl Splitter<'_> {
    /// A start index in the index type, clamped to `0..=max` as the operation does.
    fn clamped_start(&mut self, v: ValueId, max: i64) -> Result<ValueId> {
        let start = self.get(v, &Layout::replicated(&[]))?;
        let index = self.local.index;
        let start = self.local.in_index_type(start);
        let (low, high) = (self.local.index_constant(0), self.local.index_constant(max.max(0)));
        Ok(self.local.op(OpKind::Mixed(MixedOp::Clamp), &[low, start, high], Type::tensor([], index), &[]))
    }

    /// Where a clamped global start is in this shard's block, moved up by `margin`.
    fn local_start(&mut self, start: ValueId, layout: &Layout, d: usize, margin: i64) -> ValueId {
        let frame = &layout.dims[d];
        let shift = self.local.shard_offset(&frame.atoms, -frame.block, frame.offset + margin);
        self.local.same(OpKind::Binary(BinaryOp::Add), &[start, shift])
    }

    /// A window of `width` at the local start `start` that is moved into the block: where it stands then, and how far the
    /// start is from there.
    fn moved_in(&mut self, start: ValueId, block: i64, width: i64) -> (ValueId, ValueId) {
        let e = &mut self.local;
        let (low, high) = (e.index_constant(0), e.index_constant(block - width));
        let at = e.op(OpKind::Mixed(MixedOp::Clamp), &[low, start, high], Type::tensor([], e.index), &[]);
        (at, e.same(OpKind::Binary(BinaryOp::Subtract), &[start, at]))
    }

    /// `value[i + by]` along `d`, of extent `width`; what is outside adds nothing.
    fn shifted(&mut self, value: ValueId, d: usize, by: ValueId, width: i64) -> ValueId {
        let e = &mut self.local;
        let elem = e.elem(value);
        let nothing = e.nothing(elem);
        let value = e.pad_with(value, d, width, width, 0, nothing);
        let margin = e.index_constant(width);
        let at = e.same(OpKind::Binary(BinaryOp::Add), &[by, margin]);
        // The start of a slice is clamped: far away is all margin.
        e.dynamic_slice(value, d, at, width)
    }

    /// Splits a `dynamic_slice`. Along a split dimension every device contributes what it holds of the slice.
    pub fn dynamic_slice(&mut self, op: OpId) -> Result<()> {
        let operands = self.src.op(op).operands().to_vec();
        let (operand, result) = (operands[0], self.src.op(op).results()[0]);
        let (n, out) = (self.extents(operand), self.extents(result));
        // Factors 0.. are dimensions taken whole; sliced ones are summed over, and whole in the result.
        let rank = n.len();
        let sliced: Vec<usize> = (0..rank).filter(|&d| n[d] != out[d]).collect();
        let mut sizes: Vec<i64> = n.to_vec();
        sizes.push(1);
        let mut results: Vec<Vec<usize>> = (0..rank).map(|d| vec![d]).collect();
        for &d in &sliced {
            results[d] = vec![rank];
        }
        let mut rule_operands = vec![(0..rank).map(|d| vec![d]).collect::<Vec<_>>()];
        rule_operands.extend(vec![vec![]; operands.len() - 1]);
        let rule = OpShardingRule {
            factor_sizes: sizes,
            operands: rule_operands,
            results: vec![results],
            reduction: sliced.clone(),
            need_replication: vec![rank],
            ..OpShardingRule::default()
        };
        let problem = self.problem(op, Arc::new(rule), Some(Combine::Add));
        let assignment = self.choose(&problem).assignment;
        let frames = self.factor_frames(&problem, &assignment);
        let layout = problem.layout_in(&problem.rule.operands[0], &n, &assignment, &frames, self.atoms);
        let mut value = self.get(operand, &layout)?;
        let mut starts = vec![];
        let mut sizes = vec![];
        let mut shifts = vec![];
        for d in 0..rank {
            let split = layout.dims[d].is_split();
            if !sliced.contains(&d) {
                starts.push(self.local.index_constant(0));
                sizes.push(layout.dims[d].block);
                continue;
            }
            let start = self.clamped_start(operands[1 + d], n[d] - out[d])?;
            let block = layout.dims[d].block;
            starts.push(if split && block >= out[d] {
                let start = self.local_start(start, &layout, d, 0);
                let (at, by) = self.moved_in(start, block, out[d]);
                shifts.push((d, by));
                at
            } else if split {
                // A slice that is not here reads the margin, which adds nothing.
                let elem = self.local.elem(value);
                let nothing = self.local.nothing(elem);
                value = self.local.pad_with(value, d, out[d], out[d], 0, nothing);
                self.local_start(start, &layout, d, out[d])
            } else {
                start
            });
            sizes.push(out[d]);
        }
        let result_layout = problem.layout_in(&problem.rule.results[0], &out, &assignment, &frames, self.atoms);
        let ty = self.local_type(result, &result_layout)?;
        let mut all = vec![value];
        all.extend(starts);
        let mut value =
            self.local.op(OpKind::Movement(MovementOp::DynamicSlice), &all, ty, &[("slice_sizes", Attr::i64s(sizes))]);
        for (d, by) in shifts {
            value = self.shifted(value, d, by, out[d]);
        }
        self.reason = "each device has the elements of the slice that are in its block".into();
        let layout = result_layout.with_partial(problem.partial(&assignment), Combine::Add);
        self.finish(result, Form { value, layout });
        Ok(())
    }

    /// Splits a `dynamic_update_slice`. Along a split dimension every device writes the part that falls in its block.
    pub fn dynamic_update_slice(&mut self, op: OpId) -> Result<()> {
        let operands = self.src.op(op).operands().to_vec();
        let (operand, update, result) = (operands[0], operands[1], self.src.op(op).results()[0]);
        let (n, m) = (self.extents(operand), self.extents(update));
        let rank = n.len();
        let mut update_dims: Vec<Vec<usize>> = (0..rank).map(|d| vec![d]).collect();
        for d in 0..rank {
            if n[d] != m[d] {
                update_dims[d] = vec![rank];
            }
        }
        let full: Vec<Vec<usize>> = (0..rank).map(|d| vec![d]).collect();
        let mut rule_operands = vec![full.clone(), update_dims];
        rule_operands.extend(vec![vec![]; rank]);
        let mut sizes: Vec<i64> = n.to_vec();
        sizes.push(1);
        let rule = OpShardingRule {
            factor_sizes: sizes,
            operands: rule_operands,
            results: vec![full],
            need_replication: vec![rank],
            ..OpShardingRule::default()
        };
        let mut problem = self.problem(op, Arc::new(rule), None);
        problem.permutation = Splittable::No;
        let assignment = self.choose(&problem).assignment;
        let layout = problem.layout(&problem.rule.operands[0], &n, &assignment, self.atoms);
        let update_layout = problem.layout(&problem.rule.operands[1], &m, &assignment, self.atoms);
        let mut value = self.get(operand, &layout)?;
        let mut patch = self.get(update, &update_layout)?;
        let mut starts = vec![];
        let mut margins = vec![];
        let mut shifts = vec![];
        for d in 0..rank {
            if n[d] == m[d] {
                starts.push(self.local.index_constant(0));
                continue;
            }
            let start = self.clamped_start(operands[2 + d], n[d] - m[d])?;
            let block = layout.dims[d].block;
            starts.push(if layout.dims[d].is_split() && block >= m[d] {
                let start = self.local_start(start, &layout, d, 0);
                let (at, by) = self.moved_in(start, block, m[d]);
                shifts.push((d, by));
                at
            } else if layout.dims[d].is_split() {
                // A margin on both sides takes what falls outside this block.
                value = self.local.pad(value, d, m[d], m[d]);
                margins.push(d);
                self.local_start(start, &layout, d, m[d])
            } else {
                start
            });
        }
        if !shifts.is_empty() {
            patch = self.within_block(value, patch, &starts, &shifts);
        }
        let mut all = vec![value, patch];
        all.extend(starts);
        let mut value = self.local.same(OpKind::Movement(MovementOp::DynamicUpdateSlice), &all);
        for d in margins {
            value = self.local.slice(value, d, m[d], m[d] + layout.dims[d].block);
        }
        self.set(result, Form { value, layout });
        Ok(())
    }

    /// What to write at `starts` so that the part of `patch` in this block is written, and the rest stays.
    fn within_block(
        &mut self,
        value: ValueId,
        patch: ValueId,
        starts: &[ValueId],
        shifts: &[(usize, ValueId)],
    ) -> ValueId {
        let dims = self.local.dims(patch);
        let ty = self.local.module.ty(patch).clone();
        let mut all = vec![value];
        all.extend(starts);
        let sizes = Attr::i64s(dims.iter().copied());
        let old = self.local.op(OpKind::Movement(MovementOp::DynamicSlice), &all, ty, &[("slice_sizes", sizes)]);
        let mut patch = patch;
        let mut inside: Option<ValueId> = None;
        for &(d, by) in shifts {
            let width = dims[d];
            let e = &mut self.local;
            let back = e.same(OpKind::Unary(UnaryOp::Negate), &[by]);
            let (place, by) = (e.iota(&[width], 0, e.index), e.broadcast(by, &[width], &[]));
            let place = e.same(OpKind::Binary(BinaryOp::Subtract), &[place, by]);
            let bound = |e: &mut LocalBuilder<'_>, direction: Direction, at: i64| {
                let at = e.index_constant(at);
                let at = e.broadcast(at, &[width], &[]);
                e.compare(direction, place, at)
            };
            let (above, below) = (bound(e, Direction::Ge, 0), bound(e, Direction::Lt, width));
            let mask = e.same(OpKind::Binary(BinaryOp::And), &[above, below]);
            let mask = e.broadcast(mask, &dims, &[d as i64]);
            inside = Some(inside.map_or(mask, |all| e.same(OpKind::Binary(BinaryOp::And), &[all, mask])));
            patch = self.shifted(patch, d, back, width);
        }
        inside.map_or(patch, |mask| self.local.select(mask, patch, old))
    }
}
