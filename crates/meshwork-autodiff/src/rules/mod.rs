//! One rule per operation: from the cotangents of its results to those of its operands.
//!
//! | file | operations |
//! |---|---|
//! | `elementwise`, `unary`, `bessel` | functions of elements |
//! | `movement` | broadcast, reshape, slice, pad and their kin |
//! | `contract`, `conv`, `linalg` | products, convolutions, batch norms, Fourier transforms, triangular systems |
//! | `reduce`, `window`, `patches`, `combiner` | reductions, pooling, cumulative sums |
//! | `gather`, `scatter`, `sort` | data at computed positions |
//! | `branch`, `loops`, `trip`, `scan` | control flow |
//! | `manual` | computations for single devices, collectives |
//! | `expand`, `ragged` | operations that are written out first: maps, reductions by any body, einsum, ragged products |
//! | `checkpoint` | parts of the program that are computed again instead of kept |

mod bessel;
mod branch;
mod checkpoint;
mod combiner;
mod contract;
mod conv;
mod elementwise;
mod expand;
mod gather;
mod linalg;
mod loops;
mod manual;
mod movement;
mod patches;
mod ragged;
mod reduce;
mod scan;
mod scatter;
mod sort;
mod trip;
mod unary;
mod window;

use meshwork_ir::OpKind;
use meshwork_ir::op::{
    BinaryOp, BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp,
    SdyOp, SourceOp, TokenOp, UnaryOp,
};

use crate::GradError;
use crate::reverse::{Reverse, Site};

/// Gives cotangents to the operands of `site`.
pub(crate) fn apply(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let no_rule = |r, why| refuse(r, site, why);
    match site.op.kind() {
        OpKind::Unary(
            UnaryOp::Abs
            | UnaryOp::Cbrt
            | UnaryOp::Cosine
            | UnaryOp::Exponential
            | UnaryOp::ExponentialMinusOne
            | UnaryOp::Log
            | UnaryOp::LogPlusOne
            | UnaryOp::Logistic
            | UnaryOp::Negate
            | UnaryOp::Rsqrt
            | UnaryOp::Sine
            | UnaryOp::Sqrt
            | UnaryOp::Tan
            | UnaryOp::Tanh
            | UnaryOp::Acos
            | UnaryOp::Acosh
            | UnaryOp::Asin
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
            | UnaryOp::Lgamma
            | UnaryOp::Sinh
            | UnaryOp::Square
            | UnaryOp::ChloTan
            | UnaryOp::Real
            | UnaryOp::Imag,
        )
        | OpKind::Mixed(MixedOp::Convert | MixedOp::ReducePrecision) => unary::rule(r, site),
        OpKind::Binary(
            BinaryOp::Add
            | BinaryOp::Subtract
            | BinaryOp::Multiply
            | BinaryOp::Divide
            | BinaryOp::Maximum
            | BinaryOp::Minimum
            | BinaryOp::Power
            | BinaryOp::Remainder
            | BinaryOp::Atan2
            | BinaryOp::Complex
            | BinaryOp::Polygamma
            | BinaryOp::Zeta,
        ) => elementwise::binary(r, site),
        OpKind::Mixed(MixedOp::Clamp) => elementwise::clamp(r, site),
        OpKind::Mixed(MixedOp::Select) => elementwise::select(r, site),

        // OpKind::Source(SourceOp::Constant) wherever they have a derivative at all, or made of integers.
        OpKind::Unary(
            UnaryOp::Ceil
            | UnaryOp::Floor
            | UnaryOp::RoundNearestAfz
            | UnaryOp::RoundNearestEven
            | UnaryOp::Sign
            | UnaryOp::CountLeadingZeros
            | UnaryOp::IsFinite
            | UnaryOp::Not
            | UnaryOp::Popcnt,
        )
        | OpKind::Binary(BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
        | OpKind::Mixed(MixedOp::Compare)
        | OpKind::Binary(BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical)
        | OpKind::Unary(UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf)
        | OpKind::Binary(BinaryOp::Mulhi)
        | OpKind::Movement(MovementOp::BitcastConvert)
        | OpKind::Source(
            SourceOp::Constant
            | SourceOp::Iota
            | SourceOp::PartitionId
            | SourceOp::ReplicaId
            | SourceOp::RngBitGenerator,
        )
        | OpKind::Movement(MovementOp::GetDimensionSize)
        | OpKind::Chlo(ChloOp::Constant | ChloOp::ConstantLike)
        | OpKind::Sdy(SdyOp::Constant)
        | OpKind::Token(TokenOp::CreateToken | TokenOp::AfterAll) => Ok(()),

        OpKind::Movement(MovementOp::BroadcastInDim) => movement::broadcast_in_dim(r, site),
        OpKind::Movement(MovementOp::Broadcast) => movement::broadcast(r, site),
        OpKind::Movement(MovementOp::Reshape) => movement::reshape(r, site),
        OpKind::Movement(MovementOp::Transpose) => movement::transpose(r, site),
        OpKind::Movement(MovementOp::Slice) => movement::slice(r, site),
        OpKind::Movement(MovementOp::Pad) => movement::pad(r, site),
        OpKind::Movement(MovementOp::Concatenate) => movement::concatenate(r, site),
        OpKind::Movement(MovementOp::Reverse) => movement::reverse(r, site),
        OpKind::Movement(MovementOp::DynamicSlice) => movement::dynamic_slice(r, site),
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => movement::dynamic_update_slice(r, site),

        OpKind::Contract(ContractOp::Dot) => contract::dot(r, site),
        OpKind::Contract(ContractOp::DotGeneral) => contract::dot_general(r, site),
        OpKind::Contract(ContractOp::Convolution) => conv::rule(r, site),
        OpKind::Linalg(LinalgOp::Fft) => linalg::fft(r, site),
        OpKind::Linalg(LinalgOp::TriangularSolve) => linalg::triangular_solve(r, site),
        OpKind::Linalg(LinalgOp::Cholesky) => linalg::cholesky(r, site),
        OpKind::Linalg(LinalgOp::BatchNormTraining) => linalg::batch_norm_training(r, site),
        OpKind::Linalg(LinalgOp::BatchNormInference) => linalg::batch_norm_inference(r, site),
        OpKind::Linalg(LinalgOp::BatchNormGrad) => expand::batch_norm_grad(r, site),
        OpKind::Contract(ContractOp::Einsum | ContractOp::UnaryEinsum) => expand::einsum(r, site),
        OpKind::Body(BodyOp::Map) => expand::map(r, site),
        OpKind::Chlo(ChloOp::RaggedDot) => ragged::rule(r, site),

        OpKind::Body(BodyOp::Reduce) => reduce::rule(r, site),
        OpKind::Body(BodyOp::ReduceWindow) => window::rule(r, site),
        OpKind::Body(BodyOp::SelectAndScatter) => window::select_and_scatter(r, site),
        OpKind::Movement(MovementOp::Gather) => gather::rule(r, site),
        OpKind::Body(BodyOp::Scatter) => scatter::rule(r, site),
        OpKind::Body(BodyOp::Sort) => sort::sort(r, site),
        OpKind::Chlo(ChloOp::TopK) => sort::top_k(r, site),

        OpKind::Control(ControlOp::While) => loops::rule(r, site),
        OpKind::Chlo(ChloOp::Scan) => scan::rule(r, site),
        OpKind::Control(ControlOp::Case | ControlOp::If) => branch::rule(r, site),
        OpKind::Sdy(SdyOp::NamedComputation) => checkpoint::rule(r, site),

        // The cotangent is moved as the value is, in the other direction.
        OpKind::Control(ControlOp::OptimizationBarrier) => movement::barrier(r, site),
        OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard | SdyOp::PropagationBarrier) => {
            movement::placed(r, site)
        }
        OpKind::Sdy(SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge) | OpKind::Check(CheckOp::Probe) => {
            Ok(r.give(site.x(0), site.ct)?)
        }

        OpKind::Control(ControlOp::Call) => {
            no_rule(r, "the call could not be inlined: its callee is missing, recursive or has several blocks")
        }
        OpKind::Control(ControlOp::CustomCall) => {
            no_rule(r, "what a custom call computes is not known here; differentiate a version without it")
        }
        OpKind::Source(SourceOp::Rng) => {
            no_rule(r, "random numbers that depend on differentiated bounds; scale numbers from fixed bounds")
        }
        OpKind::Sdy(SdyOp::ManualComputation) => manual::computation(r, site),
        OpKind::Collective(CollectiveOp::AllReduce | CollectiveOp::CrossReplicaSum) => manual::all_reduce(r, site),
        OpKind::Collective(CollectiveOp::AllGather) => manual::all_gather(r, site),
        OpKind::Collective(CollectiveOp::ReduceScatter) => manual::reduce_scatter(r, site),
        OpKind::Collective(CollectiveOp::AllToAll) => manual::all_to_all(r, site),
        OpKind::Collective(CollectiveOp::CollectivePermute) => manual::collective_permute(r, site),
        OpKind::Collective(CollectiveOp::CollectiveBroadcast) => manual::collective_broadcast(r, site),
        OpKind::Collective(CollectiveOp::CollectiveReduce) => manual::collective_reduce(r, site),
        OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart)
        | OpKind::Sdy(
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::ShardedToUnreduced,
        ) => no_rule(r, "it is written for single devices; differentiate the global program, before it is split"),
        OpKind::Dynamic(
            DynamicOp::BroadcastInDim
            | DynamicOp::Conv
            | DynamicOp::Gather
            | DynamicOp::Iota
            | DynamicOp::Pad
            | DynamicOp::Reshape
            | DynamicOp::Slice,
        )
        | OpKind::Movement(MovementOp::SetDimensionSize) => no_rule(r, "its shape is known only when it runs"),
        OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize) => {
            no_rule(r, "quantized types have no derivative")
        }
        OpKind::Binary(BinaryOp::NextAfter) => {
            no_rule(r, "it moves by less than a derivative can say; use its first operand instead")
        }
        OpKind::Unary(UnaryOp::AsinAcosKernel)
        | OpKind::Control(ControlOp::Composite)
        | OpKind::Movement(MovementOp::TorchIndexSelect)
        | OpKind::Token(
            TokenOp::Tuple
            | TokenOp::GetTupleElement
            | TokenOp::Infeed
            | TokenOp::Outfeed
            | TokenOp::Recv
            | TokenOp::Send,
        )
        | OpKind::Unregistered => no_rule(r, "no derivative rule"),

        // These have no results that could have a cotangent.
        OpKind::Control(ControlOp::Module | ControlOp::Func | ControlOp::FuncReturn | ControlOp::HloReturn)
        | OpKind::Sdy(SdyOp::Return | SdyOp::Mesh | SdyOp::ShardingGroup)
        | OpKind::Check(
            CheckOp::ExpectAlmostEq
            | CheckOp::ExpectAlmostEqConst
            | CheckOp::ExpectClose
            | CheckOp::ExpectEq
            | CheckOp::ExpectEqConst
            | CheckOp::ExpectSerializedEq
            | CheckOp::Print
            | CheckOp::RunParallel,
        ) => no_rule(r, "it has no value"),
    }
}

fn refuse(r: &Reverse<'_>, site: &Site, why: &str) -> Result<(), GradError> {
    Err(GradError::no_rule(r.module(), site.id, why))
}
