//! Operations whose local form is the same operation on local shapes, under the factors of their sharding rule.

use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::{OpId, OpKind, Type, ValueId};
use meshwork_propagate::rules::{RuleMode, RuleResult, sharding_rule};

use super::{Result, Splitter};
use crate::layout::{Combine, Layout};
use crate::moves::Form;
use crate::strategy::{Problem, Splittable};

/// How an operation can be split by its rule.
enum Local {
    /// Cloned on local shapes; reduction factors combine so.
    Clone(Option<Combine>),
    /// Needs all operands whole.
    Whole,
}

fn local_form(kind: OpKind) -> Local {
    use OpKind as K;
    match kind {
        K::DotGeneral | K::Dot => Local::Clone(Some(Combine::Add)),
        K::Transpose
        | K::Reshape
        | K::BroadcastInDim
        | K::Sort
        | K::Fft
        | K::Cholesky
        | K::TriangularSolve
        | K::Map
        | K::SelectAndScatter => Local::Clone(None),
        _ => Local::Whole,
    }
}

impl Splitter<'_> {
    /// Splits an operation by its sharding rule, or computes it whole on every device.
    pub fn generic(&mut self, op: OpId) -> Result<()> {
        if self.is_free_op(op) {
            return Ok(());
        }
        let combine = match local_form(self.src.op(op).kind()) {
            Local::Clone(combine) => combine,
            Local::Whole => return self.whole(op),
        };
        let RuleResult::Rule(rule) = sharding_rule(self.src, op, RuleMode::Full) else { return self.whole(op) };
        let mut problem = self.problem(op, rule, combine);
        if self.src.op(op).kind() == OpKind::Reshape {
            // Factors that merge with others or split off them keep their elements together only if they divide.
            problem.even = (0..problem.rule.factor_sizes.len()).filter(|&f| !problem.stands_alone(f)).collect();
        }
        let assignment = self.choose(&problem);
        let frames = self.factor_frames(&problem, &assignment);
        let mut locals = vec![];
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            let extents = self.extents(v);
            let layout = problem.layout_in(dims, &extents, &assignment, &frames, self.m.e.atoms);
            let mut value = self.get(v, &layout)?;
            if combine.is_some() {
                let reduced = |d: usize| dims[d].iter().any(|f| problem.rule.reduction.contains(f));
                value = self.mask_dims(value, v, &layout, reduced, Combine::Add);
            }
            locals.push(value);
        }
        let partial = problem.partial(&assignment);
        let mut layouts = vec![];
        let mut types = vec![];
        for (&r, dims) in problem.results.iter().zip(&problem.rule.results) {
            let extents = self.extents(r);
            let layout = problem.layout_in(dims, &extents, &assignment, &frames, self.m.e.atoms);
            types.push(self.local_type(r, &layout)?);
            layouts.push(match combine {
                Some(combine) => layout.with_partial(partial.clone(), combine),
                None => layout,
            });
        }
        let copy = self.copy(op, &locals, types)?;
        self.m.reason = "each device has a part of the sum".into();
        self.register(op, copy, layouts);
        Ok(())
    }

    /// The rule of `op` as a problem to choose an assignment for.
    pub fn problem(&self, op: OpId, rule: Arc<OpShardingRule>, combine: Option<Combine>) -> Problem {
        Problem {
            rule,
            operands: self.src.op(op).operands().to_vec(),
            results: self.src.op(op).results().to_vec(),
            combine,
            permutation: Splittable::No,
            even: vec![],
            whole: vec![],
        }
    }

    /// Registers the results of `copy`, the local form of `op`.
    pub fn register(&mut self, op: OpId, copy: OpId, layouts: Vec<Layout>) {
        let results = self.src.op(op).results().to_vec();
        for (i, (r, layout)) in results.into_iter().zip(layouts).enumerate() {
            let value = self.m.e.out.op(copy).results()[i];
            self.finish(r, Form { value, layout });
        }
    }

    /// Every device computes all of it.
    pub fn whole(&mut self, op: OpId) -> Result<()> {
        self.m.reason = "it needs its operands whole".into();
        let mut locals = vec![];
        for v in self.src.op(op).operands().to_vec() {
            let extents = self.extents(v);
            locals.push(self.get(v, &Layout::replicated(&extents))?);
        }
        let results = self.src.op(op).results().to_vec();
        let types: Vec<Type> = results.iter().map(|&r| self.src.ty(r).clone()).collect();
        let layouts = results.iter().map(|&r| Layout::replicated(&self.extents(r))).collect();
        let copy = self.copy(op, &locals, types)?;
        self.register(op, copy, layouts);
        Ok(())
    }

    /// `value` with the identity of `combine` at the positions of the chosen dimensions that hold no element.
    pub fn mask_dims(
        &mut self,
        mut value: ValueId,
        v: ValueId,
        layout: &Layout,
        chosen: impl Fn(usize) -> bool,
        combine: Combine,
    ) -> ValueId {
        let extents = self.extents(v);
        for (d, frame) in layout.dims.iter().enumerate().filter(|(d, _)| chosen(*d)) {
            let Some(mask) = self.m.e.element_mask(frame, extents[d]) else { continue };
            let elem = self.m.e.elem(value);
            if let Some(fill) = self.m.e.identity(combine, elem) {
                value = self.m.e.mask_dim(value, d, mask, fill);
            }
        }
        value
    }
}
