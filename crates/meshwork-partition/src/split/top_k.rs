//! The k largest: each device finds those of its own block, then all choose among the candidates.

use std::sync::Arc;

use meshwork_ir::attr::GatherDims;
use meshwork_ir::identity::identity;
use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp};
use meshwork_ir::{Attr, Combine, ElementType, OpId, OpKind, OpSpec, Type, ValueId};

use super::window::shared_dims_rule;
use super::{Result, Splitter};
use crate::layout::DimLayout;
use crate::reshard::moves::Form;

impl Splitter<'_> {
    /// Splits a `top_k` over its last dimension.
    pub fn top_k(&mut self, op: OpId) -> Result<()> {
        let operand = self.src.op(op).operands()[0];
        let n = self.extents(operand);
        let last = n.len() - 1;
        let elem = self.src.ty(operand).elem();
        let mut rule = shared_dims_rule(&n, 1, 0, 2, vec![]);
        // The last dimension of the results does not correspond to one of the operand.
        rule.factor_sizes.push(1);
        rule.need_replication.push(last + 1);
        rule.results.iter_mut().for_each(|dims| dims[last] = vec![last + 1]);
        rule.reduction.push(last);
        // Candidates cost like a sum of the results.
        let k = self.src.op(op).int("k").unwrap_or(0);
        let fits = elem.is_some_and(|e| identity(Combine::Max, e).is_some()) && n[last] > 0 && k > 0;
        let problem = self.problem(op, Arc::new(rule), fits.then_some(Combine::Add));
        let assignment = self.choose(&problem).assignment;
        let layout = problem.layout(&problem.rule.operands[0], &n, &assignment, self.atoms);
        let value = self.get(operand, &layout)?;
        let frame = layout.dims[last].clone();
        let mut found = layout.clone();
        found.dims[last] = DimLayout::whole(k);
        let (values, places) = if frame.is_split() {
            let masked = self.mask_dims(value, operand, &layout, |d| d == last, Combine::Max);
            self.best_of_all(op, masked, &frame, k)
        } else {
            self.local_top_k(op, value, k)
        };
        let results = self.src.op(op).results().to_vec();
        self.set(results[0], Form { value: values, layout: found.clone() });
        self.set(results[1], Form { value: places, layout: found });
        Ok(())
    }

    /// The `k` largest along the last dimension of a local value, and where they are.
    fn local_top_k(&mut self, op: OpId, value: ValueId, k: i64) -> (ValueId, ValueId) {
        let mut dims = self.local.dims(value);
        let elem = self.local.elem(value);
        if let Some(last) = dims.last_mut() {
            *last = k;
        }
        let types = [Type::tensor(dims.iter().copied(), elem), Type::tensor(dims.iter().copied(), ElementType::I32)];
        let spec = self.spec_of(op).operands([value]).results(types).attr("k", Attr::i64(k));
        let made = self.local.push(spec);
        let results = self.local.module.op(made).results();
        (results[0], results[1])
    }

    /// The `k` largest of a line: equal ones come in the order of their places, as shards and blocks do.
    fn best_of_all(&mut self, op: OpId, value: ValueId, frame: &DimLayout, k: i64) -> (ValueId, ValueId) {
        let last = self.local.dims(value).len() - 1;
        let mine = k.min(frame.block);
        let (values, places) = self.local_top_k(op, value, mine);
        let dims = self.local.dims(places);
        let shift = self.local.shard_offset(&frame.atoms, frame.block, -frame.offset);
        let shift = if self.local.index == ElementType::I32 {
            shift
        } else {
            self.local.op(OpKind::Mixed(MixedOp::Convert), &[shift], Type::tensor([], ElementType::I32), &[])
        };
        let shift = self.local.broadcast(shift, &dims, &[]);
        let places = self.local.same(OpKind::Binary(BinaryOp::Add), &[places, shift]);
        self.reason = "each device has found the largest of its own block".into();
        let values = self.gather_lines(values, last, &frame.atoms);
        let places = self.gather_lines(places, last, &frame.atoms);
        let (values, chosen) = self.local_top_k(op, values, k);
        (values, self.take_along(places, chosen))
    }

    /// `table[.., at[.., i]]` along the last dimension.
    pub fn take_along(&mut self, table: ValueId, at: ValueId) -> ValueId {
        let dims = self.local.dims(at);
        let last = dims.len() - 1;
        let rows: Vec<i64> = (0..last as i64).collect();
        let numbers = GatherDims {
            collapsed_slice_dims: vec![last as i64],
            operand_batching_dims: rows.clone(),
            start_indices_batching_dims: rows,
            start_index_map: vec![last as i64],
            index_vector_dim: dims.len() as i64,
            ..GatherDims::default()
        };
        let ty = Type::tensor(dims.iter().copied(), self.local.elem(table));
        let spec = OpSpec::new(MovementOp::Gather)
            .operands([table, at])
            .results([ty])
            .attr("dimension_numbers", Attr::Gather(Arc::new(numbers)))
            .attr("slice_sizes", Attr::i64s(vec![1; dims.len()]))
            .attr("indices_are_sorted", Attr::Bool(false));
        let made = self.local.push(spec);
        self.local.module.result(made)
    }
}
