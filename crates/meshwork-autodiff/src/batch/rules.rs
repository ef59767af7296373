//! One rule per operation: from batched operands to batched results.

use meshwork_ir::op::{
    BinaryOp, BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp,
    SdyOp, SourceOp, TokenOp, UnaryOp,
};
use meshwork_ir::{Attr, AttrDict, OpKind};

use super::state::{Batch, Site};
use super::{BatchError, contract, control, conv, index, movement, one_by_one, reduce};

/// Batches the operation of `site`, which has a batched operand or capture.
pub(super) fn apply(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let refuse = |b: &Batch<'_>, why: &str| Err(BatchError::no_rule(b.module(), site.id, why));
    match site.op.kind() {
        // Each element for itself: all operands get the batch.
        OpKind::Unary(UnaryOp::Abs | UnaryOp::Cbrt | UnaryOp::Ceil) | OpKind::Mixed(MixedOp::Convert) | OpKind::Unary(UnaryOp::Cosine | UnaryOp::CountLeadingZeros | UnaryOp::Exponential | UnaryOp::ExponentialMinusOne | UnaryOp::Floor | UnaryOp::Imag | UnaryOp::IsFinite | UnaryOp::Log | UnaryOp::LogPlusOne | UnaryOp::Logistic | UnaryOp::Negate | UnaryOp::Not | UnaryOp::Popcnt | UnaryOp::Real) | OpKind::Mixed(MixedOp::ReducePrecision)
        | OpKind::Unary(UnaryOp::RoundNearestAfz | UnaryOp::RoundNearestEven | UnaryOp::Rsqrt | UnaryOp::Sign | UnaryOp::Sine | UnaryOp::Sqrt | UnaryOp::Tan | UnaryOp::Tanh) | OpKind::Binary(BinaryOp::Add | BinaryOp::And | BinaryOp::Atan2) | OpKind::Mixed(MixedOp::Compare)
        | OpKind::Binary(BinaryOp::Complex | BinaryOp::Divide | BinaryOp::Maximum | BinaryOp::Minimum | BinaryOp::Multiply | BinaryOp::Or | BinaryOp::Power | BinaryOp::Remainder | BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical | BinaryOp::Subtract | BinaryOp::Xor) | OpKind::Unary(UnaryOp::Acos | UnaryOp::Acosh | UnaryOp::Asin | UnaryOp::AsinAcosKernel | UnaryOp::Asinh | UnaryOp::Atan | UnaryOp::Atanh | UnaryOp::BesselI1e | UnaryOp::Conj | UnaryOp::Cosh | UnaryOp::Digamma | UnaryOp::Erf | UnaryOp::ErfInv | UnaryOp::Erfc | UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf | UnaryOp::Lgamma) | OpKind::Binary(BinaryOp::Mulhi | BinaryOp::NextAfter | BinaryOp::Polygamma) | OpKind::Unary(UnaryOp::Sinh | UnaryOp::Square | UnaryOp::ChloTan) | OpKind::Binary(BinaryOp::Zeta) | OpKind::Chlo(ChloOp::ConstantLike)
        // OpKind::Binary(BinaryOp::Or) along the last dimensions, with any number of dimensions in front.
        | OpKind::Movement(MovementOp::Reshape | MovementOp::BitcastConvert) | OpKind::Linalg(LinalgOp::Fft | LinalgOp::TriangularSolve | LinalgOp::Cholesky) | OpKind::Chlo(ChloOp::TopK)
        // Placements and collectives that do not name a dimension; shardings get one more.
        | OpKind::Collective(CollectiveOp::AllReduce | CollectiveOp::CollectiveBroadcast | CollectiveOp::CollectivePermute | CollectiveOp::CollectiveReduce | CollectiveOp::CrossReplicaSum)
        | OpKind::Check(CheckOp::Probe) | OpKind::Sdy(SdyOp::AllGather | SdyOp::AllReduce | SdyOp::AllSlice | SdyOp::AllToAll | SdyOp::CollectivePermute | SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge | SdyOp::PropagationBarrier | SdyOp::ReduceScatter | SdyOp::ReplicatedToUnreduced | SdyOp::Reshard | SdyOp::ShardedToUnreduced | SdyOp::ShardingConstraint | SdyOp::ShardingGroup) => same(b, site, |_| {}),
        OpKind::Mixed(MixedOp::Clamp | MixedOp::Select) => movement::with_scalars(b, site),

        OpKind::Movement(MovementOp::Transpose) => same(b, site, |a| front(a, "permutation", 0, 1)),
        OpKind::Movement(MovementOp::BroadcastInDim) => same(b, site, |a| front(a, "broadcast_dimensions", 0, 1)),
        OpKind::Movement(MovementOp::Reverse) => same(b, site, |a| shift(a, "dimensions")),
        OpKind::Movement(MovementOp::Concatenate) => same(b, site, |a| next(a, "dimension")),
        OpKind::Body(BodyOp::Map) => {
            let rank = b.dims(site.op.results()[0]).len() as i64;
            closed(b, site, |b| same(b, site, |a| drop(a.set("dimensions", Attr::i64s(0..=rank)))))
        }
        OpKind::Body(BodyOp::Sort) => closed(b, site, |b| reduce::sort(b, site)),
        OpKind::Collective(CollectiveOp::AllGather) => same(b, site, |a| next(a, "all_gather_dim")),
        OpKind::Collective(CollectiveOp::ReduceScatter) => same(b, site, |a| next(a, "scatter_dimension")),
        OpKind::Collective(CollectiveOp::AllToAll) => same(b, site, |a| {
            next(a, "split_dimension");
            next(a, "concat_dimension");
        }),
        OpKind::Movement(MovementOp::Slice) => movement::slice(b, site),
        OpKind::Movement(MovementOp::Pad) => movement::pad(b, site),
        OpKind::Movement(MovementOp::Broadcast) => movement::broadcast(b, site),
        OpKind::Movement(MovementOp::GetDimensionSize) => movement::dimension_size(b, site),
        OpKind::Control(ControlOp::OptimizationBarrier) => movement::barrier(b, site),

        OpKind::Movement(MovementOp::DynamicSlice) => index::dynamic_slice(b, site),
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => index::dynamic_update_slice(b, site),
        OpKind::Movement(MovementOp::Gather) => index::gather(b, site),
        OpKind::Body(BodyOp::Scatter) => closed(b, site, |b| index::scatter(b, site)),

        OpKind::Contract(ContractOp::Dot) => contract::dot(b, site),
        OpKind::Contract(ContractOp::DotGeneral) => contract::dot_general(b, site),
        OpKind::Contract(ContractOp::Convolution) => conv::rule(b, site),
        OpKind::Linalg(LinalgOp::BatchNormGrad | LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining) => contract::batch_norm(b, site),

        OpKind::Body(BodyOp::Reduce) => closed(b, site, |b| reduce::reduce(b, site)),
        OpKind::Body(BodyOp::ReduceWindow) => closed(b, site, |b| reduce::reduce_window(b, site)),
        OpKind::Body(BodyOp::SelectAndScatter) => closed(b, site, |b| reduce::select_and_scatter(b, site)),

        OpKind::Control(ControlOp::While) => control::while_loop(b, site),
        OpKind::Control(ControlOp::Case | ControlOp::If) => control::branches(b, site),
        OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => control::computation(b, site),

        // No wide form: one example after the other.
        OpKind::Contract(ContractOp::Einsum | ContractOp::UnaryEinsum) | OpKind::Movement(MovementOp::TorchIndexSelect) | OpKind::Chlo(ChloOp::RaggedDot | ChloOp::Scan) | OpKind::Source(SourceOp::Rng | SourceOp::RngBitGenerator) | OpKind::Control(ControlOp::CustomCall) => {
            one_by_one::rule(b, site)
        }

        // These have no operands that could be batched.
        OpKind::Source(SourceOp::Constant | SourceOp::Iota | SourceOp::PartitionId | SourceOp::ReplicaId) | OpKind::Chlo(ChloOp::Constant) | OpKind::Sdy(SdyOp::Constant) | OpKind::Token(TokenOp::CreateToken) => {
            b.copy(site.id);
            Ok(())
        }

        OpKind::Control(ControlOp::Call | ControlOp::Composite) => refuse(b, "the call could not be inlined: its callee is missing, recursive or has several blocks"),
        OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize) => refuse(b, "quantized types name a dimension; batch the program before it is quantized"),
        OpKind::Dynamic(DynamicOp::BroadcastInDim | DynamicOp::Conv | DynamicOp::Gather | DynamicOp::Iota | DynamicOp::Pad | DynamicOp::Reshape | DynamicOp::Slice) | OpKind::Movement(MovementOp::SetDimensionSize) => refuse(b, "its shape is known only when it runs"),
        OpKind::Token(TokenOp::AfterAll) | OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart) | OpKind::Token(TokenOp::GetTupleElement | TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send | TokenOp::Tuple) => {
            refuse(b, "tokens and tuples have no batch dimension")
        }
        OpKind::Control(ControlOp::Module | ControlOp::Func | ControlOp::FuncReturn | ControlOp::HloReturn) | OpKind::Sdy(SdyOp::Return | SdyOp::Mesh) | OpKind::Check(CheckOp::ExpectAlmostEq | CheckOp::ExpectAlmostEqConst | CheckOp::ExpectClose | CheckOp::ExpectEq | CheckOp::ExpectEqConst | CheckOp::ExpectSerializedEq | CheckOp::Print | CheckOp::RunParallel) => refuse(b, "it has no value"),
        OpKind::Unregistered => refuse(b, "no batching rule"),
    }
}

/// The same operation on operands that all have the batch.
fn same(b: &mut Batch<'_>, site: &Site, edit: impl FnOnce(&mut AttrDict)) -> Result<(), BatchError> {
    let operands = b.all_lifted(&site.xs)?;
    let results = b.same(site, &operands, edit);
    b.give(site, &results);
    Ok(())
}

/// `rule`, or one example after the other if a body captures a batched value.
fn closed(
    b: &mut Batch<'_>,
    site: &Site,
    rule: impl FnOnce(&mut Batch<'_>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
    let outside = crate::activity::captures(b.module(), site.id);
    if outside.into_iter().any(|v| b.is_on(b.now(v))) { one_by_one::rule(b, site) } else { rule(b) }
}

/// Shifts the dimensions that attribute `name` lists.
pub(super) fn shift(attrs: &mut AttrDict, name: &str) {
    if let Some(list) = attrs.get(name).and_then(Attr::as_i64s) {
        attrs.set(name, Attr::i64s(list.into_iter().map(|d| d + 1)));
    }
}

/// Shifts the numbers that attribute `name` lists by `by` and puts `first` in front.
pub(super) fn front(attrs: &mut AttrDict, name: &str, first: i64, by: i64) {
    if let Some(list) = attrs.get(name).and_then(Attr::as_i64s) {
        attrs.set(name, Attr::i64s([first].into_iter().chain(list.into_iter().map(|d| d + by))));
    }
}

/// Shifts the dimension that attribute `name` gives.
pub(super) fn next(attrs: &mut AttrDict, name: &str) {
    if let Some(Attr::Int(dim, ty)) = attrs.get(name).cloned() {
        attrs.set(name, Attr::Int(dim + 1, ty));
    }
}
