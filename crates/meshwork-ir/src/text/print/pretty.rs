//! The pretty form of each operation.
//!
//! `None` means that the operation has no pretty form or does not fit it (a missing attribute, a type the form
//! cannot express); the caller then discards what has been written and prints the generic form.

use std::sync::Arc;

use super::Printer;
use super::attr::{NumberType, push_attr, push_attr_as, push_named};
use super::dense::push_dense;
use super::sdy::push_stripped;
use super::write::{push_dims, push_quoted, push_symbol};
use crate::attr::is_default;
use crate::op::{
    BinaryOp, BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp,
    SdyOp, SourceOp, TokenOp, UnaryOp,
};
use crate::{Attr, ElementType, Op, OpKind, Type, ValueId};

impl<'m> Printer<'m> {
    /// Prints `op` in its pretty form, name included.
    pub(super) fn pretty(&mut self, op: &'m Op) -> Option<()> {
        let kind = op.kind();
        match kind {
            OpKind::Control(ControlOp::Func) => return self.func(op),
            OpKind::Control(ControlOp::Module) => return self.nested_module(op),
            OpKind::Control(ControlOp::Call | ControlOp::FuncReturn) if self.in_func => {
                self.out.push_str(&kind.name()["func.".len()..])
            }
            _ => self.out.push_str(op.name()),
        }
        match kind {
            OpKind::Control(ControlOp::Call) => self.call(op),
            OpKind::Control(ControlOp::FuncReturn) | OpKind::Sdy(SdyOp::Return) => self.return_values(op),
            OpKind::Control(ControlOp::HloReturn) => self.hlo_return(op),

            OpKind::Unary(UnaryOp::Abs | UnaryOp::Cbrt | UnaryOp::Ceil)
            | OpKind::Mixed(MixedOp::Convert)
            | OpKind::Unary(
                UnaryOp::Cosine
                | UnaryOp::CountLeadingZeros
                | UnaryOp::Exponential
                | UnaryOp::ExponentialMinusOne
                | UnaryOp::Floor
                | UnaryOp::Imag
                | UnaryOp::Log
                | UnaryOp::LogPlusOne
                | UnaryOp::Logistic
                | UnaryOp::Negate
                | UnaryOp::Not
                | UnaryOp::Popcnt
                | UnaryOp::Real
                | UnaryOp::RoundNearestAfz
                | UnaryOp::RoundNearestEven
                | UnaryOp::Rsqrt
                | UnaryOp::Sign
                | UnaryOp::Sine
                | UnaryOp::Sqrt
                | UnaryOp::Tan
                | UnaryOp::Tanh,
            )
            | OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize) => self.same_type_op(op, 1),
            OpKind::Binary(
                BinaryOp::Add
                | BinaryOp::And
                | BinaryOp::Atan2
                | BinaryOp::Divide
                | BinaryOp::Maximum
                | BinaryOp::Minimum
                | BinaryOp::Multiply
                | BinaryOp::Or
                | BinaryOp::Power
                | BinaryOp::Remainder
                | BinaryOp::ShiftLeft
                | BinaryOp::ShiftRightArithmetic
                | BinaryOp::ShiftRightLogical
                | BinaryOp::Subtract
                | BinaryOp::Xor,
            ) => self.same_type_op(op, 2),
            OpKind::Mixed(MixedOp::Clamp) => self.same_type_op(op, 3),
            OpKind::Token(TokenOp::AfterAll) => self.same_type_op(op, op.operands().len()),
            OpKind::Unary(UnaryOp::IsFinite) | OpKind::Movement(MovementOp::BitcastConvert | MovementOp::Reshape) => {
                self.functional_op(op, 1)
            }
            OpKind::Dynamic(DynamicOp::Reshape) => self.functional_op(op, 2),
            OpKind::Dynamic(DynamicOp::Slice) => self.functional_op(op, 4),
            OpKind::Dynamic(DynamicOp::Pad) => self.functional_op(op, 5),
            OpKind::Movement(MovementOp::DynamicUpdateSlice) => self.functional_op(op, op.operands().len()),
            OpKind::Binary(BinaryOp::Complex) => self.complex(op),
            OpKind::Mixed(MixedOp::Select) => self.select(op),
            OpKind::Mixed(MixedOp::Compare) => self.compare(op),
            OpKind::Mixed(MixedOp::ReducePrecision) => self.reduce_precision(op),

            OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) => self.constant(op),
            OpKind::Chlo(ChloOp::Constant) => self.chlo_constant(op),
            OpKind::Source(SourceOp::Iota) => self.iota(op),
            OpKind::Token(TokenOp::CreateToken) | OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId) => {
                self.result_only(op)
            }
            OpKind::Source(SourceOp::Rng) => self.with_enum(op, 3, "distribution", "rng_distribution", &[]),
            OpKind::Source(SourceOp::RngBitGenerator) => self.with_enum(op, 1, "algorithm", "rng_algorithm", &[]),
            OpKind::Linalg(LinalgOp::Fft) => self.with_enum(op, 1, "type", "fft_type", &[("length", "fft_length")]),

            OpKind::Movement(MovementOp::Broadcast) => self.with_lists(op, 1, &[("sizes", "broadcast_sizes")]),
            OpKind::Movement(MovementOp::BroadcastInDim) => self.with_lists(op, 1, &[("dims", "broadcast_dimensions")]),
            OpKind::Dynamic(DynamicOp::BroadcastInDim) => self.with_lists(op, 2, &[("dims", "broadcast_dimensions")]),
            OpKind::Movement(MovementOp::Transpose) => self.with_lists(op, 1, &[("dims", "permutation")]),
            OpKind::Movement(MovementOp::Reverse) => self.reverse(op),
            OpKind::Movement(MovementOp::DynamicSlice) => self.dynamic_slice(op),
            OpKind::Movement(MovementOp::Pad) => self.with_lists(
                op,
                2,
                &[("low", "edge_padding_low"), ("high", "edge_padding_high"), ("interior", "interior_padding")],
            ),
            OpKind::Movement(MovementOp::Concatenate) => self.with_dim(op, op.operands().len(), "dimension"),
            OpKind::Movement(MovementOp::GetDimensionSize) => self.with_dim(op, 1, "dimension"),
            OpKind::Movement(MovementOp::SetDimensionSize) => self.with_dim(op, 2, "dimension"),
            OpKind::Dynamic(DynamicOp::Iota) => self.with_dim(op, 1, "iota_dimension"),
            OpKind::Movement(MovementOp::Slice) => self.slice(op),

            OpKind::Linalg(LinalgOp::Cholesky) => self.cholesky(op),
            OpKind::Contract(ContractOp::Convolution) => self.convolution(op),
            OpKind::Contract(ContractOp::Dot) => self.dot(op),
            OpKind::Contract(ContractOp::DotGeneral) => self.dot_general(op),
            OpKind::Contract(ContractOp::Einsum) => self.einsum(op, 2),
            OpKind::Contract(ContractOp::UnaryEinsum) => self.einsum(op, 1),

            OpKind::Body(BodyOp::Reduce) => self.reduce(op),
            OpKind::Control(ControlOp::While) => self.while_loop(op),

            OpKind::Control(ControlOp::Composite) => self.composite(op),
            OpKind::Control(ControlOp::CustomCall) => self.custom_call(op),
            OpKind::Token(TokenOp::GetTupleElement) => self.get_tuple_element(op),
            OpKind::Control(ControlOp::OptimizationBarrier) => self.optimization_barrier(op),
            OpKind::Token(TokenOp::Tuple) => self.tuple(op),

            OpKind::Unary(
                UnaryOp::Acos
                | UnaryOp::Acosh
                | UnaryOp::Asin
                | UnaryOp::AsinAcosKernel
                | UnaryOp::Asinh
                | UnaryOp::Atan
                | UnaryOp::Atanh
                | UnaryOp::BesselI1e
                | UnaryOp::Conj
                | UnaryOp::Cosh
                | UnaryOp::Digamma
                | UnaryOp::Erf
                | UnaryOp::ErfInv
                | UnaryOp::Erfc
                | UnaryOp::IsInf
                | UnaryOp::IsNegInf
                | UnaryOp::IsPosInf
                | UnaryOp::Lgamma
                | UnaryOp::Sinh
                | UnaryOp::Square
                | UnaryOp::ChloTan,
            ) => self.chlo_op(op, 1),
            OpKind::Binary(BinaryOp::Mulhi | BinaryOp::NextAfter | BinaryOp::Polygamma | BinaryOp::Zeta) => {
                self.chlo_op(op, 2)
            }
            OpKind::Chlo(ChloOp::Scan) => self.scan(op),
            OpKind::Chlo(ChloOp::TopK) => self.top_k(op),

            OpKind::Sdy(SdyOp::AllGather) => self.sdy_collective(op, Some("gathering_axes")),
            OpKind::Sdy(SdyOp::AllReduce) => self.sdy_collective(op, Some("reduction_axes")),
            OpKind::Sdy(SdyOp::AllSlice) => self.sdy_collective(op, Some("slicing_axes")),
            OpKind::Sdy(SdyOp::AllToAll) => self.sdy_collective(op, Some("params")),
            OpKind::Sdy(SdyOp::CollectivePermute) => self.sdy_collective(op, None),
            OpKind::Sdy(SdyOp::ReduceScatter) => self.sdy_collective(op, Some("reduce_scatter_axes")),
            OpKind::Sdy(SdyOp::ReplicatedToUnreduced | SdyOp::ShardedToUnreduced) => {
                self.sdy_collective(op, Some("axes"))
            }
            OpKind::Sdy(SdyOp::DataFlowEdge) => self.data_flow_edge(op),
            OpKind::Sdy(SdyOp::ManualComputation) => self.manual_computation(op),
            OpKind::Sdy(SdyOp::Mesh) => self.mesh(op),
            OpKind::Sdy(SdyOp::NamedComputation) => self.named_computation(op),
            OpKind::Sdy(SdyOp::PropagationBarrier) => self.propagation_barrier(op),
            OpKind::Sdy(SdyOp::Reshard | SdyOp::ShardingConstraint) => self.reshard(op),
            OpKind::Sdy(SdyOp::ShardingGroup) => self.sharding_group(op),
            OpKind::Sdy(SdyOp::FuncDataFlowEdge) => self.one_type(op, &[], |_| Some(())),

            OpKind::Check(CheckOp::ExpectAlmostEq) => self.expect_pair(op, Some(("tolerance", "tolerance"))),
            OpKind::Check(CheckOp::ExpectEq) => self.expect_pair(op, None),
            OpKind::Check(CheckOp::ExpectAlmostEqConst) => self.expect_const(op, Some(("tolerance", "tolerance"))),
            OpKind::Check(CheckOp::ExpectEqConst) => self.expect_const(op, None),
            OpKind::Check(CheckOp::ExpectClose) => self.expect_close(op),
            OpKind::Check(CheckOp::ExpectSerializedEq) => self.expect_serialized(op),
            OpKind::Check(CheckOp::Print) => self.one_type(op, &[], |_| Some(())),
            OpKind::Check(CheckOp::Probe) => {
                self.one_type(op, &["probe_id"], |p| p.string(op, ", probe_id = ", "probe_id"))
            }

            OpKind::Unregistered => self.chlo_broadcast(op),
            OpKind::Control(ControlOp::Func | ControlOp::Module) => None,
            OpKind::Collective(CollectiveOp::AllGather | CollectiveOp::AllReduce | CollectiveOp::AllToAll)
            | OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart)
            | OpKind::Linalg(LinalgOp::BatchNormGrad | LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining)
            | OpKind::Control(ControlOp::Case)
            | OpKind::Chlo(ChloOp::ConstantLike | ChloOp::RaggedDot)
            | OpKind::Collective(
                CollectiveOp::CollectiveBroadcast
                | CollectiveOp::CollectivePermute
                | CollectiveOp::CollectiveReduce
                | CollectiveOp::CrossReplicaSum,
            )
            | OpKind::Dynamic(DynamicOp::Conv | DynamicOp::Gather)
            | OpKind::Movement(MovementOp::Gather)
            | OpKind::Control(ControlOp::If)
            | OpKind::Token(TokenOp::Infeed)
            | OpKind::Check(CheckOp::RunParallel)
            | OpKind::Body(BodyOp::Map)
            | OpKind::Token(TokenOp::Outfeed | TokenOp::Recv)
            | OpKind::Collective(CollectiveOp::ReduceScatter)
            | OpKind::Body(BodyOp::ReduceWindow | BodyOp::Scatter | BodyOp::SelectAndScatter)
            | OpKind::Token(TokenOp::Send)
            | OpKind::Body(BodyOp::Sort)
            | OpKind::Movement(MovementOp::TorchIndexSelect)
            | OpKind::Linalg(LinalgOp::TriangularSolve) => None,
        }
    }

    // Parts that several forms share. Each writes the space that goes before it.

    /// Other attributes than `hidden`, without those that have their default value.
    pub(super) fn dict(&mut self, op: &'m Op, hidden: &[&str]) {
        let mut any = false;
        for (name, attr) in op.attrs.iter() {
            if hidden.contains(&name.as_str()) || is_default(op.kind(), name, attr) {
                continue;
            }
            self.out.push_str(if any { ", " } else { " {" });
            push_named(&mut self.out, name, attr);
            any = true;
        }
        if any {
            self.out.push('}');
        }
    }

    /// ` {...} : (operand types) -> result types`.
    pub(super) fn tail_functional(&mut self, op: &'m Op, hidden: &[&str]) {
        self.dict(op, hidden);
        self.out.push_str(" : ");
        self.functional_type(op);
    }

    /// ` {...} : type` if all operands have the type of the only result.
    pub(super) fn tail_same(&mut self, op: &'m Op, hidden: &[&str]) -> Option<()> {
        let &[result] = op.results() else { return None };
        self.dict(op, hidden);
        self.out.push_str(" : ");
        let ty = self.module.ty(result);
        if op.operands().iter().all(|&v| is_equal(self.module.ty(v), ty)) {
            self.ty(result);
        } else {
            self.functional_type(op);
        }
        Some(())
    }

    /// The operands, of which there must be `count`.
    pub(super) fn operand_list(&mut self, op: &Op, count: usize) -> Option<()> {
        if op.operands().len() != count {
            return None;
        }
        self.out.push(' ');
        self.operands(op.operands());
        Some(())
    }

    pub(super) fn same_types(&self, a: &[ValueId], b: &[ValueId]) -> bool {
        a.iter().map(|&v| self.module.ty(v)).eq(b.iter().map(|&v| self.module.ty(v)))
    }

    fn string(&mut self, op: &Op, label: &str, name: &str) -> Option<()> {
        self.out.push_str(label);
        push_quoted(&mut self.out, op.attr(name)?.as_str()?);
        Some(())
    }

    /// An `array<i64: ...>` attribute as `[...]`.
    pub(super) fn list(&mut self, op: &Op, label: &str, name: &str) -> Option<()> {
        let Attr::I64Array(dims) = op.attr(name)? else { return None };
        self.out.push_str(label);
        push_dims(&mut self.out, dims);
        Some(())
    }

    /// An integer attribute of type `ty` as a bare number.
    pub(super) fn number(&mut self, op: &Op, label: &str, name: &str, ty: ElementType) -> Option<()> {
        let attr = op.attr(name)?;
        if !matches!(attr, Attr::Int(_, t) if *t == ty) {
            return None;
        }
        self.out.push_str(label);
        push_attr_as(&mut self.out, attr, NumberType::Hidden);
        Some(())
    }

    // Whole forms.

    fn same_type_op(&mut self, op: &'m Op, operands: usize) -> Option<()> {
        self.operand_list(op, operands)?;
        self.tail(op, None, |p| p.tail_same(op, &[]))
    }

    fn functional_op(&mut self, op: &'m Op, operands: usize) -> Option<()> {
        self.operand_list(op, operands)?;
        self.tail(op, None, |p| {
            p.tail_functional(op, &[]);
            Some(())
        })
    }

    /// An operation whose operand and result have one type; `middle` writes what stands between operand and `:`.
    fn one_type(&mut self, op: &'m Op, hidden: &[&str], middle: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.operand_list(op, 1)?;
        middle(self)?;
        self.tail_one_type(op, hidden)
    }

    fn tail_one_type(&mut self, op: &'m Op, hidden: &[&str]) -> Option<()> {
        if !op.results().is_empty() && !self.same_types(op.operands(), op.results()) {
            return None;
        }
        self.dict(op, hidden);
        self.out.push_str(" : ");
        self.ty(*op.operands().first()?);
        Some(())
    }

    fn call(&mut self, op: &'m Op) -> Option<()> {
        self.out.push(' ');
        push_symbol(&mut self.out, op.attr("callee")?.as_symbol()?);
        self.out.push('(');
        self.operands(op.operands());
        self.out.push(')');
        self.tail_functional(op, &["callee"]);
        Some(())
    }

    fn return_values(&mut self, op: &'m Op) -> Option<()> {
        self.dict(op, &[]);
        if !op.operands().is_empty() {
            self.out.push(' ');
            self.operands(op.operands());
            self.out.push_str(" : ");
            self.types(op.operands());
        }
        Some(())
    }

    fn hlo_return(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, op.operands().len())?;
        self.dict(op, &[]);
        if !op.operands().is_empty() {
            self.out.push_str(" : ");
            self.types(op.operands());
        }
        Some(())
    }

    fn constant(&mut self, op: &'m Op) -> Option<()> {
        let (value, &[result]) = (op.attr("value")?, op.results()) else { return None };
        let same = match (value, self.module.ty(result)) {
            (Attr::Dense(d), Type::Tensor(t)) => d.ty == *t,
            // The text of an attribute that is not interpreted ends with its type.
            (Attr::Opaque(text), ty) => text.ends_with(&ty.to_string()),
            _ => false,
        };
        if !same {
            self.generic_tail(op);
            return Some(());
        }
        self.tail(op, None, |p| {
            p.dict(op, &["value"]);
            p.out.push(' ');
            match value {
                Attr::Dense(d) => {
                    push_dense(&mut p.out, d);
                    p.out.push_str(" : ");
                    p.ty(result);
                }
                _ => push_attr(&mut p.out, value),
            }
            Some(())
        })
    }

    fn chlo_constant(&mut self, op: &'m Op) -> Option<()> {
        let (Attr::Dense(value), &[result]) = (op.attr("value")?, op.results()) else { return None };
        if self.module.ty(result).as_tensor() != Some(&value.ty) {
            return None;
        }
        self.dict(op, &["value"]);
        self.out.push(' ');
        push_attr(&mut self.out, op.attr("value")?);
        Some(())
    }

    fn result_only(&mut self, op: &'m Op) -> Option<()> {
        let &[result] = op.results() else { return None };
        self.dict(op, &[]);
        self.out.push_str(" : ");
        self.ty(result);
        Some(())
    }

    fn complex(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 2)?;
        let &[result] = op.results() else { return None };
        let real = self.module.ty(result).as_tensor().map(|t| Type::from(t.with_elem(t.elem.real_part())));
        if op.operands().iter().all(|&v| Some(self.module.ty(v)) == real.as_ref()) {
            self.dict(op, &[]);
            self.out.push_str(" : ");
            self.ty(result);
        } else {
            self.tail_functional(op, &[]);
        }
        Some(())
    }

    fn select(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 3)?;
        let &[result] = op.results() else { return None };
        let ty = self.module.ty(result);
        self.tail(op, None, |p| {
            p.dict(op, &[]);
            p.out.push_str(" : ");
            if op.operands()[1..].iter().all(|&v| is_equal(p.module.ty(v), ty)) {
                p.types(&[op.operands()[0], result]);
            } else {
                p.functional_type(op);
            }
            Some(())
        })
    }

    fn tuple(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, op.operands().len())?;
        let &[result] = op.results() else { return None };
        let Type::Tuple(parts) = self.module.ty(result) else { return None };
        if !op.operands().iter().map(|&v| self.module.ty(v)).eq(parts.iter()) {
            return None;
        }
        self.dict(op, &[]);
        self.out.push_str(" : ");
        self.ty(result);
        Some(())
    }

    fn optimization_barrier(&mut self, op: &'m Op) -> Option<()> {
        if !self.same_types(op.operands(), op.results()) {
            return None;
        }
        self.dict(op, &[]);
        if op.operands().is_empty() {
            self.out.push_str("()");
            return Some(());
        }
        self.out.push(' ');
        self.operands(op.operands());
        self.out.push_str(" : ");
        self.types(op.operands());
        Some(())
    }

    fn chlo_op(&mut self, op: &'m Op, operands: usize) -> Option<()> {
        self.operand_list(op, operands)?;
        let &[result] = op.results() else { return None };
        self.tail(op, None, |p| {
            p.dict(op, &[]);
            p.out.push_str(" : ");
            p.types(op.operands());
            p.out.push_str(" -> ");
            p.ty(result);
            Some(())
        })
    }

    /// The broadcasting operations of CHLO are not in the table but have a pretty form, all the same.
    fn chlo_broadcast(&mut self, op: &'m Op) -> Option<()> {
        if !op.name().starts_with("chlo.broadcast_") || op.results().len() != 1 || !op.regions().is_empty() {
            return None;
        }
        self.functional_op(op, op.operands().len())
    }

    fn sdy_collective(&mut self, op: &'m Op, axes: Option<&str>) -> Option<()> {
        let reduction = matches!(op.kind(), OpKind::Sdy(SdyOp::AllReduce | SdyOp::ReduceScatter));
        if let (true, Some(attr)) = (reduction, op.attr("reduction_op"))
            && !is_default(op.kind(), "reduction_op", attr)
        {
            self.out.push(' ');
            self.out.push_str(enum_name(attr, "reduction_op")?);
        }
        if let Some(name) = axes {
            let (Attr::Axes(_) | Attr::AxesPerDim(_) | Attr::AllToAll(_)) = op.attr(name)? else { return None };
            self.out.push(' ');
            push_stripped(&mut self.out, op.attr(name)?);
        }
        self.operand_list(op, 1)?;
        let sharding @ Attr::Sharding(_) = op.attr("out_sharding")? else { return None };
        self.out.push_str(" out_sharding=");
        push_stripped(&mut self.out, sharding);
        self.tail_one_type(op, &["out_sharding", "reduction_op", axes.unwrap_or_default()])
    }

    fn reshard(&mut self, op: &'m Op) -> Option<()> {
        let sharding @ Attr::Sharding(_) = op.attr("sharding")? else { return None };
        self.one_type(op, &["sharding"], |p| {
            p.out.push(' ');
            push_stripped(&mut p.out, sharding);
            Some(())
        })
    }

    fn data_flow_edge(&mut self, op: &'m Op) -> Option<()> {
        self.one_type(op, &["sharding"], |p| {
            match op.attr("sharding") {
                Some(sharding @ Attr::Sharding(_)) => {
                    p.out.push_str(" sharding=");
                    push_stripped(&mut p.out, sharding);
                }
                Some(_) => return None,
                None => {}
            }
            Some(())
        })
    }

    fn mesh(&mut self, op: &'m Op) -> Option<()> {
        let mesh @ Attr::Mesh(_) = op.attr("mesh")? else { return None };
        self.out.push(' ');
        push_symbol(&mut self.out, op.attr("sym_name")?.as_str()?);
        self.out.push_str(" = ");
        push_stripped(&mut self.out, mesh);
        self.dict(op, &["sym_name", "mesh"]);
        Some(())
    }

    fn propagation_barrier(&mut self, op: &'m Op) -> Option<()> {
        let direction = enum_name(op.attr("allowed_direction")?, "propagation_direction")?;
        self.one_type(op, &["allowed_direction"], |p| {
            p.out.push_str(" allowed_direction=");
            p.out.push_str(direction);
            Some(())
        })
    }

    fn sharding_group(&mut self, op: &'m Op) -> Option<()> {
        self.one_type(op, &["group_id"], |p| p.number(op, " group_id=", "group_id", ElementType::I64))
    }

    fn expect_pair(&mut self, op: &'m Op, extra: Option<(&str, &str)>) -> Option<()> {
        let &[lhs, rhs] = op.operands() else { return None };
        if self.module.ty(lhs) != self.module.ty(rhs) || !op.results().is_empty() {
            return None;
        }
        self.operand_list(op, 2)?;
        self.optional(op, extra)?;
        self.tail_one_type(op, &["tolerance"])
    }

    fn expect_const(&mut self, op: &'m Op, extra: Option<(&str, &str)>) -> Option<()> {
        let (Attr::Dense(value), &[operand]) = (op.attr("value")?, op.operands()) else { return None };
        if self.module.ty(operand).as_tensor() != Some(&value.ty) {
            return None;
        }
        self.operand_list(op, 1)?;
        self.out.push_str(", ");
        push_attr(&mut self.out, op.attr("value")?);
        self.optional(op, extra)?;
        self.dict(op, &["value", "tolerance"]);
        Some(())
    }

    fn expect_close(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 2)?;
        self.number(op, ", max_ulp_difference = ", "max_ulp_difference", ElementType::UI64)?;
        self.optional(op, Some(("min_ulp_difference", "min_ulp_difference")))?;
        self.out.push_str(" :");
        self.dict(op, &["max_ulp_difference", "min_ulp_difference"]);
        self.out.push(' ');
        self.types(op.operands());
        Some(())
    }

    fn expect_serialized(&mut self, op: &'m Op) -> Option<()> {
        self.one_type(op, &["probe_id", "iteration"], |p| {
            p.string(op, ", probe_id = ", "probe_id")?;
            p.optional(op, Some(("iter", "iteration")))
        })
    }

    /// `, label = value` unless the attribute is absent or has its default value.
    pub(super) fn optional(&mut self, op: &Op, extra: Option<(&str, &str)>) -> Option<()> {
        if let Some((label, name)) = extra
            && let Some(attr) = op.attr(name)
            && !is_default(op.kind(), name, attr)
        {
            let suits = match name {
                "lower" | "is_stable" => matches!(attr, Attr::Bool(_)),
                "tolerance" => matches!(attr, Attr::Float(..)),
                _ => matches!(attr, Attr::Int(..)),
            };
            if !suits {
                return None;
            }
            self.out.push_str(", ");
            self.out.push_str(label);
            self.out.push_str(" = ");
            push_attr_as(&mut self.out, attr, NumberType::Hidden);
        }
        Some(())
    }

    pub(super) fn symbol_operands(&mut self, op: &'m Op, symbol: &str) {
        self.out.push(' ');
        push_symbol(&mut self.out, symbol);
        self.out.push('(');
        self.operands(op.operands());
        self.out.push(')');
    }
}

/// Whether two types are equal; at once if they are one object.
#[inline]
pub(super) fn is_equal(a: &Type, b: &Type) -> bool {
    matches!((a, b), (Type::Tensor(x), Type::Tensor(y)) if Arc::ptr_eq(x, y)) || a == b
}

/// The case of `sdy` enum `kind`, held by name or by number.
fn enum_name<'a>(attr: &'a Attr, kind: &str) -> Option<&'a str> {
    match attr {
        Attr::Enum(e) => Some(&e.value),
        Attr::Int(i, ElementType::I32) => super::sdy::cases(kind).get(usize::try_from(*i).ok()?).copied(),
        _ => None,
    }
}
