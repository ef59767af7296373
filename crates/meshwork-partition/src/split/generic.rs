//! Operations whose local form is the same operation on local shapes, under the factors of their sharding rule.

use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::op::{
    BodyOp, CheckOp, ChloOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MovementOp, SdyOp, SourceOp, TokenOp,
};
use meshwork_ir::{Combine, OpId, OpKind, Type, ValueId};
use meshwork_propagate::rules::{RuleResult, splitting_rule};

use super::{Result, Splitter};
use crate::flops::op_flops;
use crate::layout::Layout;
use crate::moves::Form;
use crate::strategy::{Choice, Problem, Splittable, Touched, Work};

/// How an operation can be split by its rule.
enum Local {
    /// Cloned on local shapes; reduction factors combine so.
    Clone(Option<Combine>),
    /// Needs all operands whole.
    Whole,
    /// Nothing is known about it.
    Unknown,
}

fn local_form(kind: OpKind) -> Local {
    match kind {
        OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot) => Local::Clone(Some(Combine::Add)),
        OpKind::Movement(
            MovementOp::Transpose | MovementOp::Reshape | MovementOp::BroadcastInDim | MovementOp::BitcastConvert,
        )
        | OpKind::Body(BodyOp::Sort)
        | OpKind::Linalg(LinalgOp::Fft | LinalgOp::Cholesky | LinalgOp::TriangularSolve)
        | OpKind::Body(BodyOp::Map)
        | OpKind::Linalg(LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining | LinalgOp::BatchNormGrad)
        | OpKind::Control(ControlOp::CustomCall) => Local::Clone(None),
        // Split by code of their own; here if their attributes are not as they should be.
        OpKind::Source(SourceOp::Constant)
        | OpKind::Sdy(SdyOp::Constant)
        | OpKind::Source(SourceOp::Iota)
        | OpKind::Movement(
            MovementOp::Slice
            | MovementOp::Pad
            | MovementOp::Concatenate
            | MovementOp::Reverse
            | MovementOp::DynamicSlice
            | MovementOp::DynamicUpdateSlice
            | MovementOp::Gather,
        )
        | OpKind::Body(BodyOp::Scatter | BodyOp::Reduce | BodyOp::ReduceWindow | BodyOp::SelectAndScatter)
        | OpKind::Chlo(ChloOp::TopK)
        | OpKind::Contract(ContractOp::Convolution)
        | OpKind::Control(ControlOp::While | ControlOp::Case | ControlOp::If)
        | OpKind::Sdy(
            SdyOp::ManualComputation
            | SdyOp::ShardingConstraint
            | SdyOp::Reshard
            | SdyOp::AllGather
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::AllReduce
            | SdyOp::ReduceScatter
            | SdyOp::CollectivePermute,
        )
        | OpKind::Control(ControlOp::OptimizationBarrier) => Local::Whole,
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => Local::Clone(None),
        OpKind::Collective(_) => Local::Whole,
        // Every element of the result depends on all of the operands, or the operation is not one of tensors.
        OpKind::Control(ControlOp::Module | ControlOp::Func | ControlOp::Call | ControlOp::FuncReturn)
        | OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId | SourceOp::Rng | SourceOp::RngBitGenerator)
        | OpKind::Movement(
            MovementOp::Broadcast
            | MovementOp::GetDimensionSize
            | MovementOp::SetDimensionSize
            | MovementOp::TorchIndexSelect,
        )
        | OpKind::Dynamic(
            DynamicOp::BroadcastInDim
            | DynamicOp::Conv
            | DynamicOp::Gather
            | DynamicOp::Iota
            | DynamicOp::Pad
            | DynamicOp::Reshape
            | DynamicOp::Slice,
        )
        | OpKind::Contract(ContractOp::Einsum | ContractOp::UnaryEinsum)
        | OpKind::Control(ControlOp::HloReturn)
        | OpKind::Token(TokenOp::AfterAll)
        | OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart | ControlOp::Composite)
        | OpKind::Token(
            TokenOp::CreateToken
            | TokenOp::GetTupleElement
            | TokenOp::Infeed
            | TokenOp::Outfeed
            | TokenOp::Recv
            | TokenOp::Send
            | TokenOp::Tuple,
        )
        | OpKind::Chlo(ChloOp::Constant | ChloOp::ConstantLike | ChloOp::RaggedDot | ChloOp::Scan)
        | OpKind::Sdy(
            SdyOp::DataFlowEdge
            | SdyOp::FuncDataFlowEdge
            | SdyOp::Mesh
            | SdyOp::NamedComputation
            | SdyOp::PropagationBarrier
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::Return
            | SdyOp::ShardedToUnreduced
            | SdyOp::ShardingGroup,
        )
        | OpKind::Check(
            CheckOp::ExpectAlmostEq
            | CheckOp::ExpectAlmostEqConst
            | CheckOp::ExpectClose
            | CheckOp::ExpectEq
            | CheckOp::ExpectEqConst
            | CheckOp::ExpectSerializedEq
            | CheckOp::Print
            | CheckOp::Probe
            | CheckOp::RunParallel,
        ) => Local::Whole,
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
            Local::Unknown if self.m.e.atoms.is_empty() => return self.whole(op),
            Local::Unknown => {
                let what = "the operation is not known, so neither is whether several devices may compute it; \
                            a stablehlo.custom_call with an sdy.sharding_rule can be split";
                return self.unsupported(op, what);
            }
        };
        let RuleResult::Rule(rule) = splitting_rule(self.src, op) else { return self.whole(op) };
        let mut problem = self.problem(op, rule, combine);
        if kind == OpKind::Movement(MovementOp::Reshape) {
            // Factors that merge with others or split off them keep their elements together only if they divide.
            problem.even = (0..problem.rule.factor_sizes.len()).filter(|&f| !problem.stands_alone(f)).collect();
        }
        if kind != OpKind::Movement(MovementOp::BroadcastInDim) {
            // Only a broadcast makes something of nothing: elsewhere a factor without operand is made whole.
            let from_operand = |f: usize| problem.rule.operands.iter().flatten().any(|factors| factors.contains(&f));
            problem.whole = (0..problem.rule.factor_sizes.len()).filter(|&f| !from_operand(f)).collect();
        }
        let Choice { assignment, weighed } = self.choose(&problem);
        let frames = self.factor_frames(&problem, &assignment);
        let mut locals = vec![];
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            let extents = self.extents(v);
            let layout = problem.layout_in(dims, &extents, &assignment, &frames, self.m.e.atoms);
            let have = self.current(v);
            let needed = |&d: &usize| have.dims[d].is_split() && dims[d].iter().any(|&f| !problem.may_split(f));
            self.m.reason = match (0..dims.len()).find(needed) {
                Some(d) => format!("it needs dimension {d} of its operand whole{weighed}").into(),
                None => format!("its operands do not lie as it needs them{weighed}").into(),
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
            let layout = problem.layout_in(dims, &extents, &assignment, &frames, self.m.e.atoms);
            types.push(self.local_type(r, &layout)?);
            layouts.push(match combine {
                Some(combine) => layout.with_partial(partial.clone(), combine),
                None => layout,
            });
        }
        let copy = self.copy(op, &locals, types)?;
        self.m.reason = format!("each device has a part of the sum{weighed}").into();
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
        Work { flops: op_flops(self.src, op), memory: Touched::by(self.src.op(op).kind()) }
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
