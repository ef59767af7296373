//! Reductions: each device reduces what it holds, then the parts are combined.

use meshwork_ir::identity::identity;
use meshwork_ir::op::{MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, Combine, OpId, OpKind, Type, ValueId};
use meshwork_propagate::rules::{RuleMode, RuleResult, sharding_rule};

use super::{Result, Splitter};
use crate::layout::Layout;
use crate::split::strategy::Choice;

impl Splitter<'_> {
    /// Splits a reduction.
    pub fn reduce(&mut self, op: OpId) -> Result<()> {
        let RuleResult::Rule(rule) = sharding_rule(self.src, op, RuleMode::Full) else { return self.whole(op) };
        let body = self.src.body_of(op, 0);
        let combine = body.and_then(|b| Combine::of_body(self.src, b));
        // A general body is combined by gathering the parts; for the choice it costs like a sum.
        let problem = self.problem(op, rule, Some(combine.unwrap_or(Combine::Add)));
        let Choice { assignment, weighed } = self.choose(&problem);
        self.reason = format!("its operands are not placed as it needs them{weighed}").into();
        let inputs = problem.operands.len() / 2;
        let reduced_dims = self.src.op(op).i64s("dimensions").unwrap_or_default();
        let partial = problem.partial(&assignment);
        let mut locals = vec![];
        let mut input_layout = None;
        for (i, (&v, dims)) in problem.operands.iter().zip(&problem.rule.operands).enumerate() {
            let extents = self.extents(v);
            let mut layout = problem.layout(dims, &extents, &assignment, self.atoms);
            if i < inputs {
                // One input may stay in the frame it has; several must agree.
                let current = self.current(v);
                if inputs == 1 && current.lists() == layout.lists() {
                    layout = current;
                }
                let init = problem.operands[inputs + i];
                let value = self.get(v, &layout)?;
                let reduced = |d: usize| reduced_dims.contains(&(d as i64));
                let elem = self.local.elem(value);
                locals.push(match combine {
                    Some(combine) if identity(combine, elem).is_some() => {
                        self.mask_dims(value, v, &layout, reduced, combine)
                    }
                    _ => self.mask_with(value, v, &layout, init, reduced)?,
                });
                input_layout = Some(layout);
            } else {
                let init = self.get(v, &layout)?;
                // A start that changes something must count once.
                locals.push(match combine {
                    Some(combine) if !partial.is_empty() && !self.is_identity(v, combine) => {
                        self.only_on_first(init, &partial, combine)
                    }
                    _ => init,
                });
            }
        }
        let Some(input_layout) = input_layout else { return self.whole(op) };
        let kept = |layout: &Layout| Layout {
            dims: layout
                .dims
                .iter()
                .enumerate()
                .filter(|(d, _)| !reduced_dims.contains(&(*d as i64)))
                .map(|(_, f)| f.clone())
                .collect(),
            partial: None,
        };
        let result_layout = kept(&input_layout);
        let mut types = vec![];
        for &r in &problem.results {
            types.push(self.local_type(r, &result_layout)?);
        }
        let copy = self.copy(op, &locals, types)?;
        self.reason = format!("each device has reduced its own part{weighed}").into();
        if partial.is_empty() {
            self.register(op, copy, vec![result_layout; problem.results.len()]);
            return Ok(());
        }
        if let Some(combine) = combine {
            let layout = result_layout.with_partial(partial, combine);
            self.register(op, copy, vec![layout; problem.results.len()]);
            return Ok(());
        }
        let results = self.local.module.op(copy).results().to_vec();
        let again = self.combine_by_gather(op, &results, &locals[inputs..], &partial)?;
        self.register(op, again, vec![result_layout; problem.results.len()]);
        Ok(())
    }

    /// Whether the scalar `v` is a constant that changes nothing under `combine`.
    pub fn is_identity(&self, v: ValueId, combine: Combine) -> bool {
        let Some(op) = self.src.def_op(v).map(|op| self.src.op(op)) else { return false };
        match (op.kind(), op.attr("value")) {
            (OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant), Some(Attr::Dense(d))) => {
                let neutral = identity(combine, d.ty.elem);
                neutral.is_some() && d.splat_bytes().map(<[u8]>::to_vec) == neutral
            }
            (OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape), _) => {
                self.is_identity(op.operands()[0], combine)
            }
            _ => false,
        }
    }

    /// `value` with the scalar `init` wherever the chosen dimensions hold no element: `init` is neutral.
    fn mask_with(
        &mut self,
        mut value: ValueId,
        v: ValueId,
        layout: &Layout,
        init: ValueId,
        chosen: impl Fn(usize) -> bool,
    ) -> Result<ValueId> {
        let extents = self.extents(v);
        for (d, frame) in layout.dims.iter().enumerate().filter(|(d, _)| chosen(*d)) {
            let Some(mask) = self.local.element_mask(frame, extents[d]) else { continue };
            let fill = self.get(init, &Layout::replicated(&[]))?;
            value = self.local.mask_dim(value, d, mask, fill);
        }
        Ok(value)
    }

    /// Gathers the parts of all devices along a new dimension and reduces over it with the same body.
    fn combine_by_gather(&mut self, op: OpId, parts: &[ValueId], inits: &[ValueId], list: &[u8]) -> Result<OpId> {
        let mut gathered = vec![];
        let mut types: Vec<Type> = vec![];
        for &part in parts {
            types.push(self.local.module.ty(part).clone());
            let mut dims = self.local.dims(part);
            dims.insert(0, 1);
            let row = self.local.reshape(part, &dims);
            gathered.push(self.gather_lines(row, 0, list));
        }
        gathered.extend_from_slice(inits);
        let spec = self.spec_of(op).operands(gathered).results(types).attr("dimensions", Attr::i64s([0]));
        let again = self.local.push(spec);
        self.copy_regions(op, again)?;
        Ok(again)
    }
}
