//! One rule per operation: from batched operands to batched results.

use meshwork_ir::op::{
    BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, LinalgOp, MixedOp, MovementOp, SdyOp, SourceOp,
    TokenOp,
};
use meshwork_ir::{Attr, AttrDict, OpKind};

use super::state::{Batch, Site};
use super::{BatchError, contract, control, conv, index, movement, one_by_one, reduce};

/// Batches the operation of `site`, which has a batched operand or capture.
pub(super) fn apply(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    const SHAPE: &str = "its shape is known only when it runs";
    const NO_VALUE: &str = "it has no value";
    const TOKENS: &str = "tokens and tuples have no batch dimension";
    let refuse = |b: &Batch<'_>, why: &str| Err(BatchError::no_rule(b.module(), site.id, why));
    // It has no operands that could be batched.
    let copy = |b: &mut Batch<'_>| {
        b.copy(site.id);
        Ok(())
    };
    match site.op.kind() {
        // Each element for itself: all operands get the batch.
        OpKind::Unary(_) | OpKind::Binary(_) => same(b, site, |_| {}),
        OpKind::Mixed(op) => match op {
            MixedOp::Compare | MixedOp::Convert | MixedOp::ReducePrecision => same(b, site, |_| {}),
            MixedOp::Clamp | MixedOp::Select => movement::with_scalars(b, site),
            MixedOp::UniformDequantize | MixedOp::UniformQuantize => {
                refuse(b, "quantized types name a dimension; batch the program before it is quantized")
            }
        },
        OpKind::Source(op) => match op {
            SourceOp::Constant | SourceOp::Iota | SourceOp::PartitionId | SourceOp::ReplicaId => copy(b),
            SourceOp::Rng | SourceOp::RngBitGenerator => one_by_one::rule(b, site),
        },
        OpKind::Movement(op) => match op {
            // Along the last dimensions, with any number of dimensions in front.
            MovementOp::Reshape | MovementOp::BitcastConvert => same(b, site, |_| {}),
            MovementOp::Transpose => same(b, site, |a| front(a, "permutation", 0, 1)),
            MovementOp::BroadcastInDim => same(b, site, |a| front(a, "broadcast_dimensions", 0, 1)),
            MovementOp::Reverse => same(b, site, |a| shift(a, "dimensions")),
            MovementOp::Concatenate => same(b, site, |a| next(a, "dimension")),
            MovementOp::Slice => movement::slice(b, site),
            MovementOp::Pad => movement::pad(b, site),
            MovementOp::Broadcast => movement::broadcast(b, site),
            MovementOp::GetDimensionSize => movement::dimension_size(b, site),
            MovementOp::DynamicSlice => index::dynamic_slice(b, site),
            MovementOp::DynamicUpdateSlice => index::dynamic_update_slice(b, site),
            MovementOp::Gather => index::gather(b, site),
            MovementOp::TorchIndexSelect => one_by_one::rule(b, site),
            MovementOp::SetDimensionSize => refuse(b, SHAPE),
        },
        OpKind::Dynamic(_) => refuse(b, SHAPE),
        OpKind::Contract(op) => match op {
            ContractOp::Dot => contract::dot(b, site),
            ContractOp::DotGeneral => contract::dot_general(b, site),
            ContractOp::Convolution => conv::rule(b, site),
            ContractOp::Einsum | ContractOp::UnaryEinsum => one_by_one::rule(b, site),
        },
        OpKind::Linalg(op) => match op {
            LinalgOp::Fft | LinalgOp::TriangularSolve | LinalgOp::Cholesky => same(b, site, |_| {}),
            LinalgOp::BatchNormGrad | LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining => {
                contract::batch_norm(b, site)
            }
        },
        OpKind::Body(op) => closed(b, site, |b| match op {
            BodyOp::Map => {
                let rank = b.dims(site.op.results()[0]).len() as i64;
                same(b, site, |a| drop(a.set("dimensions", Attr::i64s(0..=rank))))
            }
            BodyOp::Sort => reduce::sort(b, site),
            BodyOp::Scatter => index::scatter(b, site),
            BodyOp::Reduce => reduce::reduce(b, site),
            BodyOp::ReduceWindow => reduce::reduce_window(b, site),
            BodyOp::SelectAndScatter => reduce::select_and_scatter(b, site),
        }),
        OpKind::Control(op) => match op {
            ControlOp::While => control::while_loop(b, site),
            ControlOp::Case | ControlOp::If => control::branches(b, site),
            ControlOp::OptimizationBarrier => movement::barrier(b, site),
            // LAPACK's routines take stacks of matrices.
            ControlOp::CustomCall if is_stacked(&site.op) => same(b, site, |_| {}),
            ControlOp::CustomCall => one_by_one::rule(b, site),
            ControlOp::Call | ControlOp::Composite => {
                refuse(b, "the call could not be inlined: its callee is missing, recursive or has several blocks")
            }
            ControlOp::AsyncDone | ControlOp::AsyncStart => refuse(b, TOKENS),
            ControlOp::Module | ControlOp::Func | ControlOp::FuncReturn | ControlOp::HloReturn => refuse(b, NO_VALUE),
        },
        OpKind::Token(TokenOp::CreateToken) => copy(b),
        OpKind::Token(_) => refuse(b, TOKENS),
        OpKind::Collective(op) => match op {
            // These do not name a dimension.
            CollectiveOp::AllReduce
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::CollectiveReduce
            | CollectiveOp::CrossReplicaSum => same(b, site, |_| {}),
            CollectiveOp::RaggedAllToAll => {
                refuse(b, "its rows are numbered by a table, which has no place for examples")
            }
            CollectiveOp::AllGather => same(b, site, |a| next(a, "all_gather_dim")),
            CollectiveOp::ReduceScatter => same(b, site, |a| next(a, "scatter_dimension")),
            CollectiveOp::AllToAll => same(b, site, |a| {
                next(a, "split_dimension");
                next(a, "concat_dimension");
            }),
        },
        OpKind::Chlo(op) => match op {
            ChloOp::ConstantLike | ChloOp::TopK => same(b, site, |_| {}),
            // No wide form: one example after the other.
            ChloOp::RaggedDot | ChloOp::Scan => one_by_one::rule(b, site),
            ChloOp::Constant => copy(b),
        },
        OpKind::Sdy(op) => match op {
            SdyOp::NamedComputation | SdyOp::ManualComputation => control::computation(b, site),
            SdyOp::Constant => copy(b),
            SdyOp::Return | SdyOp::Mesh => refuse(b, NO_VALUE),
            // Placements: shardings get one more dimension.
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::DataFlowEdge
            | SdyOp::FuncDataFlowEdge
            | SdyOp::PropagationBarrier
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::Reshard
            | SdyOp::ShardedToUnreduced
            | SdyOp::ShardingConstraint
            | SdyOp::ShardingGroup => same(b, site, |_| {}),
        },
        OpKind::Check(CheckOp::Probe) => same(b, site, |_| {}),
        OpKind::Check(_) => refuse(b, NO_VALUE),
        OpKind::Unregistered => refuse(b, "no batching rule"),
    }
}

/// Whether a custom call takes dimensions in front of those of one example.
fn is_stacked(op: &meshwork_ir::Op) -> bool {
    op.call_target().is_some_and(|target| target.starts_with("lapack_"))
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
