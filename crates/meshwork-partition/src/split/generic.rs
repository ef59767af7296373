//! Operations whose local form is the same operation on local shapes, under the factors of their sharding rule.

use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::op::{BodyOp, ContractOp, ControlOp, LinalgOp, MovementOp};
use meshwork_ir::{Combine, ElementType, OpId, OpKind, Type, ValueId};
use meshwork_propagate::rules::{RuleResult, splitting_rule};

use super::{Result, Splitter};
use crate::layout::Layout;
use crate::plan::cost::Class;
use crate::plan::flops::op_flops;
use crate::reshard::moves::Form;
use crate::split::strategy::{Choice, Problem, Splittable, Touched, Work};

/// How an operation can be split by its rule.
enum Local {
    /// Cloned on local shapes; reduction factors combine so.
    Clone(Option<Combine>),
    /// Needs all operands whole.
    Whole,
    /// Nothing is known about it.
    Unknown,
}

/// Operations with code of their own come here too, if their attributes are not as they should be: they are whole, as
/// are those of which every element of the result depends on all of the operands.
fn local_form(kind: OpKind) -> Local {
    match kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => Local::Clone(None),
        OpKind::Contract(op) => match op {
            ContractOp::DotGeneral | ContractOp::Dot => Local::Clone(Some(Combine::Add)),
            ContractOp::Convolution | ContractOp::Einsum | ContractOp::UnaryEinsum => Local::Whole,
        },
        OpKind::Linalg(op) => match op {
            LinalgOp::Fft
            | LinalgOp::Cholesky
            | LinalgOp::TriangularSolve
            | LinalgOp::BatchNormInference
            | LinalgOp::BatchNormTraining
            | LinalgOp::BatchNormGrad => Local::Clone(None),
        },
        OpKind::Movement(op) => match op {
            MovementOp::Transpose | MovementOp::Reshape | MovementOp::BroadcastInDim | MovementOp::BitcastConvert => {
                Local::Clone(None)
            }
            MovementOp::Broadcast
            | MovementOp::Concatenate
            | MovementOp::DynamicSlice
            | MovementOp::DynamicUpdateSlice
            | MovementOp::Gather
            | MovementOp::GetDimensionSize
            | MovementOp::Pad
            | MovementOp::Reverse
            | MovementOp::SetDimensionSize
            | MovementOp::Slice
            | MovementOp::TorchIndexSelect => Local::Whole,
        },
        OpKind::Body(op) => match op {
            BodyOp::Map | BodyOp::Sort => Local::Clone(None),
            BodyOp::Reduce | BodyOp::ReduceWindow | BodyOp::Scatter | BodyOp::SelectAndScatter => Local::Whole,
        },
        OpKind::Control(ControlOp::CustomCall) => Local::Clone(None),
        OpKind::Control(_)
        | OpKind::Source(_)
        | OpKind::Dynamic(_)
        | OpKind::Token(_)
        | OpKind::Collective(_)
        | OpKind::Chlo(_)
        | OpKind::Sdy(_)
        | OpKind::Check(_) => Local::Whole,
        OpKind::Unregistered => Local::Unknown,
    }
}

impl Splitter<'_> {
    /// Splits an operation by its sharding rule, or computes it whole on every device.
    pub fn generic(&mut self, op: OpId) -> Result<()> {
        if self.is_free_op(op) {
            return Ok(());
        }
        let kind = self.src.op(op).kind();
        let combine = match local_form(kind) {
            Local::Clone(combine) => combine,
            Local::Whole => return self.whole(op),
            Local::Unknown if self.atoms.is_empty() => return self.whole(op),
            Local::Unknown => {
                let what = "the operation is not known, so neither is whether several devices may compute it; \
                            a stablehlo.custom_call with an sdy.sharding_rule can be split";
                return self.unsupported(op, what);
            }
        };
        let RuleResult::Rule(rule) = splitting_rule(self.src, op) else { return self.whole(op) };
        let mut problem = self.problem(op, rule, combine);
        if kind == MovementOp::Reshape {
            // Factors that merge with others or split off them keep their elements together only if they divide.
            problem.even = (0..problem.rule.factor_sizes.len()).filter(|&f| !problem.stands_alone(f)).collect();
        }
        if kind != MovementOp::BroadcastInDim {
            // Only a broadcast makes something of nothing: elsewhere a factor without operand is made whole.
            let is_in = |tensors: &[Vec<Vec<usize>>], f: usize| tensors.iter().flatten().any(|dim| dim.contains(&f));
            // Nor can a custom call be computed in pieces that do not show in its results.
            let is_shown = |f: usize| kind != ControlOp::CustomCall || is_in(&problem.rule.results, f);
            let is_split = |f: usize| is_in(&problem.rule.operands, f) && is_shown(f);
            problem.whole = (0..problem.rule.factor_sizes.len()).filter(|&f| !is_split(f)).collect();
        }
        let Choice { assignment, weighed } = self.choose(&problem);
        let frames = self.factor_frames(&problem, &assignment);
        let mut locals = vec![];
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            let extents = self.extents(v);
            let layout = problem.layout_in(dims, &extents, &assignment, &frames, self.atoms);
            let have = self.current(v);
            let needed = |&d: &usize| have.dims[d].is_split() && dims[d].iter().any(|&f| !problem.may_split(f));
            self.reason = match (0..dims.len()).find(needed) {
                Some(d) => format!("it needs dimension {d} of its operand whole{weighed}").into(),
                None => format!("its operands are not placed as it needs them{weighed}").into(),
            };
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
            let layout = problem.layout_in(dims, &extents, &assignment, &frames, self.atoms);
            types.push(self.local_type(r, &layout)?);
            layouts.push(match combine {
                Some(combine) => layout.with_partial(partial.clone(), combine),
                None => layout,
            });
        }
        let copy = self.copy(op, &locals, types)?;
        self.reason = format!("each device has a part of the sum{weighed}").into();
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
            work: self.work(op),
        }
    }

    /// What `op` takes besides communication.
    pub fn work(&self, op: OpId) -> Work {
        let data = self.src.op(op);
        let first = data.operands().first().and_then(|&v| self.src.ty(v).as_tensor());
        Work {
            flops: op_flops(self.src, op),
            memory: Touched::by(data.kind()),
            class: Class::of(data.kind()),
            elem: first.map_or(ElementType::F32, |ty| ty.elem),
        }
    }

    /// Registers the results of `copy`, the local form of `op`.
    pub fn register(&mut self, op: OpId, copy: OpId, layouts: Vec<Layout>) {
        let results = self.src.op(op).results().to_vec();
        for (i, (r, layout)) in results.into_iter().zip(layouts).enumerate() {
            let value = self.local.module.op(copy).results()[i];
            self.finish(r, Form { value, layout });
        }
    }

    /// Every device computes all of it.
    pub fn whole(&mut self, op: OpId) -> Result<()> {
        self.reason = "it needs its operands whole".into();
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
            let Some(mask) = self.local.element_mask(frame, extents[d]) else { continue };
            let elem = self.local.elem(value);
            if let Some(fill) = self.local.identity(combine, elem) {
                value = self.local.mask_dim(value, d, mask, fill);
            }
        }
        value
    }
}
