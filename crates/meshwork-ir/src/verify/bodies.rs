//! Bodies: how many an operation has, and how their blocks end.

use super::{Check, Context};
use crate::op::{
    BinaryOp, BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp,
    SdyOp, SourceOp, TokenOp, UnaryOp,
};
use crate::{OpId, OpKind};

/// How many bodies an operation has, and what ends each of them.
enum Rule {
    None,
    Exactly(usize, OpKind),
    AtLeast(usize, OpKind),
    /// Not ours to say.
    Any,
}

fn rule(kind: OpKind) -> Rule {
    match kind {
        // A declaration has no body, and other dialects may end a function.
        OpKind::Control(ControlOp::Module | ControlOp::Func)
        | OpKind::Unregistered
        | OpKind::Control(ControlOp::CustomCall | ControlOp::Composite) => Rule::Any,
        OpKind::Body(BodyOp::Map | BodyOp::Reduce | BodyOp::ReduceWindow | BodyOp::Scatter | BodyOp::Sort)
        | OpKind::Collective(CollectiveOp::AllReduce | CollectiveOp::ReduceScatter | CollectiveOp::CollectiveReduce)
        | OpKind::Control(ControlOp::AsyncStart)
        | OpKind::Chlo(ChloOp::Scan) => Rule::Exactly(1, OpKind::Control(ControlOp::HloReturn)),
        OpKind::Body(BodyOp::SelectAndScatter) | OpKind::Control(ControlOp::If | ControlOp::While) => {
            Rule::Exactly(2, OpKind::Control(ControlOp::HloReturn))
        }
        OpKind::Control(ControlOp::Case) => Rule::AtLeast(1, OpKind::Control(ControlOp::HloReturn)),
        OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => Rule::Exactly(1, OpKind::Sdy(SdyOp::Return)),
        OpKind::Control(ControlOp::Call | ControlOp::FuncReturn | ControlOp::HloReturn)
        | OpKind::Sdy(SdyOp::Return)
        | OpKind::Unary(UnaryOp::Abs | UnaryOp::Cbrt | UnaryOp::Ceil)
        | OpKind::Mixed(MixedOp::Convert)
        | OpKind::Unary(
            UnaryOp::Cosine
            | UnaryOp::CountLeadingZeros
            | UnaryOp::Exponential
            | UnaryOp::ExponentialMinusOne
            | UnaryOp::Floor
            | UnaryOp::Imag
            | UnaryOp::IsFinite
            | UnaryOp::Log
            | UnaryOp::LogPlusOne
            | UnaryOp::Logistic
            | UnaryOp::Negate
            | UnaryOp::Not
            | UnaryOp::Popcnt
            | UnaryOp::Real,
        )
        | OpKind::Mixed(MixedOp::ReducePrecision)
        | OpKind::Unary(
            UnaryOp::RoundNearestAfz
            | UnaryOp::RoundNearestEven
            | UnaryOp::Rsqrt
            | UnaryOp::Sign
            | UnaryOp::Sine
            | UnaryOp::Sqrt
            | UnaryOp::Tan
            | UnaryOp::Tanh,
        )
        | OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize)
        | OpKind::Binary(BinaryOp::Add | BinaryOp::And | BinaryOp::Atan2)
        | OpKind::Mixed(MixedOp::Compare)
        | OpKind::Binary(
            BinaryOp::Complex
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
        )
        | OpKind::Mixed(MixedOp::Clamp | MixedOp::Select)
        | OpKind::Source(
            SourceOp::Constant
            | SourceOp::Iota
            | SourceOp::PartitionId
            | SourceOp::ReplicaId
            | SourceOp::Rng
            | SourceOp::RngBitGenerator,
        )
        | OpKind::Movement(
            MovementOp::BitcastConvert
            | MovementOp::Broadcast
            | MovementOp::BroadcastInDim
            | MovementOp::Concatenate
            | MovementOp::DynamicSlice
            | MovementOp::DynamicUpdateSlice
            | MovementOp::Gather
            | MovementOp::GetDimensionSize
            | MovementOp::Pad
            | MovementOp::Reshape
            | MovementOp::Reverse
            | MovementOp::SetDimensionSize
            | MovementOp::Slice
            | MovementOp::TorchIndexSelect
            | MovementOp::Transpose,
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
        | OpKind::Linalg(LinalgOp::Cholesky)
        | OpKind::Contract(
            ContractOp::Convolution
            | ContractOp::Dot
            | ContractOp::DotGeneral
            | ContractOp::Einsum
            | ContractOp::UnaryEinsum,
        )
        | OpKind::Linalg(
            LinalgOp::Fft
            | LinalgOp::TriangularSolve
            | LinalgOp::BatchNormGrad
            | LinalgOp::BatchNormInference
            | LinalgOp::BatchNormTraining,
        )
        | OpKind::Collective(
            CollectiveOp::AllGather
            | CollectiveOp::AllToAll
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::CrossReplicaSum,
        )
        | OpKind::Token(TokenOp::AfterAll)
        | OpKind::Control(ControlOp::AsyncDone)
        | OpKind::Token(TokenOp::CreateToken | TokenOp::GetTupleElement | TokenOp::Infeed)
        | OpKind::Control(ControlOp::OptimizationBarrier)
        | OpKind::Token(TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send | TokenOp::Tuple)
        | OpKind::Unary(
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
            | UnaryOp::Lgamma,
        )
        | OpKind::Binary(BinaryOp::Mulhi | BinaryOp::NextAfter | BinaryOp::Polygamma)
        | OpKind::Unary(UnaryOp::Sinh | UnaryOp::Square | UnaryOp::ChloTan)
        | OpKind::Binary(BinaryOp::Zeta)
        | OpKind::Chlo(ChloOp::Constant | ChloOp::ConstantLike | ChloOp::RaggedDot | ChloOp::TopK)
        | OpKind::Sdy(
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::Constant
            | SdyOp::DataFlowEdge
            | SdyOp::FuncDataFlowEdge
            | SdyOp::Mesh
            | SdyOp::PropagationBarrier
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::Reshard
            | SdyOp::ShardedToUnreduced
            | SdyOp::ShardingConstraint
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
        ) => Rule::None,
    }
}

/// Checks the bodies of `op`, and that it stands at the end of its block if and only if it is a terminator.
pub(super) fn check(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    let count = data.regions().len();
    let end = match rule(data.kind()) {
        Rule::None if count > 0 => return Err(cx.error(op, format_args!("has no bodies, but {count} are given"))),
        Rule::Exactly(n, _) if count != n => {
            return Err(cx.error(op, format_args!("needs {n} bodies, but has {count}")));
        }
        Rule::AtLeast(n, _) if count < n => {
            return Err(cx.error(op, format_args!("needs at least {n} bodies, but has {count}")));
        }
        Rule::None | Rule::Any => None,
        Rule::Exactly(_, end) | Rule::AtLeast(_, end) => Some(end),
    };
    if let Some(end) = end {
        for (i, &region) in data.regions().iter().enumerate() {
            body(cx, op, i, cx.module.region(region).blocks(), end)?;
        }
    }
    let last = cx.module.next_op(op).is_none();
    if data.kind().is_terminator() && !last {
        return Err(cx.error(op, "must be the last operation of its block"));
    }
    Ok(())
}

fn body(cx: &Context, op: OpId, index: usize, blocks: &[crate::BlockId], end: OpKind) -> Check {
    let [block] = blocks else {
        return Err(cx.error(op, format_args!("body {index} must have one block, but has {}", blocks.len())));
    };
    match cx.module.block(*block).last() {
        Some(last) if cx.module.op(last).kind() == end => Ok(()),
        Some(last) => {
            let name = cx.module.op(last).name();
            Err(cx.error(op, format_args!("body {index} must end with {}, but ends with {name}", end.name())))
        }
        None => Err(cx.error(op, format_args!("body {index} must end with {}, but is empty", end.name()))),
    }
}
