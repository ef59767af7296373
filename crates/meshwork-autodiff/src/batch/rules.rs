//! One rule per operation: from batched operands to batched results.

use meshwork_ir::{Attr, AttrDict, OpKind};

use super::state::{Batch, Site};
use super::{BatchError, contract, control, conv, index, movement, one_by_one, reduce};

/// Batches the operation of `site`, which has a batched operand or capture.
pub(super) fn apply(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    use OpKind::*;
    let refuse = |b: &Batch<'_>, why: &str| Err(BatchError::no_rule(b.module(), site.id, why));
    match site.op.kind() {
        // Each element for itself: all operands get the batch.
        Abs | Cbrt | Ceil | Convert | Cosine | CountLeadingZeros | Exponential | ExponentialMinusOne | Floor | Imag
        | IsFinite | Log | LogPlusOne | Logistic | Negate | Not | Popcnt | Real | ReducePrecision
        | RoundNearestAfz | RoundNearestEven | Rsqrt | Sign | Sine | Sqrt | Tan | Tanh | Add | And | Atan2 | Compare
        | Complex | Divide | Maximum | Minimum | Multiply | Or | Power | Remainder | ShiftLeft
        | ShiftRightArithmetic | ShiftRightLogical | Subtract | Xor | ChloAcos | ChloAcosh | ChloAsin
        | ChloAsinAcosKernel | ChloAsinh | ChloAtan | ChloAtanh | ChloBesselI1e | ChloConj | ChloCosh | ChloDigamma
        | ChloErf | ChloErfInv | ChloErfc | ChloIsInf | ChloIsNegInf | ChloIsPosInf | ChloLgamma | ChloMulhi
        | ChloNextAfter | ChloPolygamma | ChloSinh | ChloSquare | ChloTan | ChloZeta | ChloConstantLike
        // Or along the last dimensions, with any number of dimensions in front.
        | Reshape | BitcastConvert | Fft | TriangularSolve | Cholesky | ChloTopK
        // Placements and collectives that do not name a dimension; shardings get one more.
        | AllReduce | CollectiveBroadcast | CollectivePermute | CollectiveReduce | CrossReplicaSum
        | InterpreterProbe | SdyAllGather | SdyAllReduce | SdyAllSlice | SdyAllToAll | SdyCollectivePermute
        | SdyDataFlowEdge | SdyFuncDataFlowEdge | SdyPropagationBarrier | SdyReduceScatter
        | SdyReplicatedToUnreduced | SdyReshard | SdyShardedToUnreduced | SdyShardingConstraint
        | SdyShardingGroup => same(b, site, |_| {}),
        Clamp | Select => movement::with_scalars(b, site),

        Transpose => same(b, site, |a| front(a, "permutation", 0, 1)),
        BroadcastInDim => same(b, site, |a| front(a, "broadcast_dimensions", 0, 1)),
        Reverse => same(b, site, |a| shift(a, "dimensions")),
        Concatenate => same(b, site, |a| next(a, "dimension")),
        Map => {
            let rank = b.dims(site.op.results()[0]).len() as i64;
            closed(b, site, |b| same(b, site, |a| drop(a.set("dimensions", Attr::i64s(0..=rank)))))
        }
        Sort => closed(b, site, |b| reduce::sort(b, site)),
        AllGather => same(b, site, |a| next(a, "all_gather_dim")),
        ReduceScatter => same(b, site, |a| next(a, "scatter_dimension")),
        AllToAll => same(b, site, |a| {
            next(a, "split_dimension");
            next(a, "concat_dimension");
        }),
        Slice => movement::slice(b, site),
        Pad => movement::pad(b, site),
        Broadcast => movement::broadcast(b, site),
        GetDimensionSize => movement::dimension_size(b, site),
        OptimizationBarrier => movement::barrier(b, site),

        DynamicSlice => index::dynamic_slice(b, site),
        DynamicUpdateSlice => index::dynamic_update_slice(b, site),
        Gather => index::gather(b, site),
        Scatter => closed(b, site, |b| index::scatter(b, site)),

        Dot => contract::dot(b, site),
        DotGeneral => contract::dot_general(b, site),
        Convolution => conv::rule(b, site),
        BatchNormGrad | BatchNormInference | BatchNormTraining => contract::batch_norm(b, site),

        Reduce => closed(b, site, |b| reduce::reduce(b, site)),
        ReduceWindow => closed(b, site, |b| reduce::reduce_window(b, site)),
        SelectAndScatter => closed(b, site, |b| reduce::select_and_scatter(b, site)),

        While => control::while_loop(b, site),
        Case | If => control::branches(b, site),
        SdyNamedComputation | SdyManualComputation => control::computation(b, site),

        // No wide form: one example after the other.
        Einsum | UnaryEinsum | TorchIndexSelect | ChloRaggedDot | ChloScan | Rng | RngBitGenerator | CustomCall => {
            one_by_one::rule(b, site)
        }

        // These have no operands that could be batched.
        Constant | Iota | PartitionId | ReplicaId | ChloConstant | SdyConstant | CreateToken => {
            b.copy(site.id);
            Ok(())
        }

        Call | Composite => refuse(b, "the call could not be inlined: its callee is missing, recursive or has several blocks"),
        UniformDequantize | UniformQuantize => refuse(b, "quantized types name a dimension; batch the program before it is quantized"),
        DynamicBroadcastInDim | DynamicConv | DynamicGather | DynamicIota | DynamicPad | DynamicReshape
        | RealDynamicSlice | SetDimensionSize => refuse(b, "its shape is known only when it runs"),
        AfterAll | AsyncDone | AsyncStart | GetTupleElement | Infeed | Outfeed | Recv | Send | Tuple => {
            refuse(b, "tokens and tuples have no batch dimension")
        }
        Module | Func | FuncReturn | HloReturn | SdyReturn | SdyMesh | CheckExpectAlmostEq
        | CheckExpectAlmostEqConst | CheckExpectClose | CheckExpectEq | CheckExpectEqConst
        | CheckExpectSerializedEq | InterpreterPrint | InterpreterRunParallel => refuse(b, "it has no value"),
        Unregistered => refuse(b, "there is no rule for it"),
    }
}

/// The same operation on operands that all have the batch.
fn same(b: &mut Batch<'_>, site: &Site, edit: impl FnOnce(&mut AttrDict)) -> Result<(), BatchError> {
    let operands = b.all_lifted(&site.xs)?;
    let results = b.same(site, &operands, edit);
    b.give(site, &results);
    Ok(())
}

/// `rule`, unless a body uses a batched value from outside: then one example after the other.
fn closed(
    b: &mut Batch<'_>,
    site: &Site,
    rule: impl FnOnce(&mut Batch<'_>) -> Result<(), BatchError>,
) -> Result<(), BatchError> {
    let outside = crate::activity::captures(b.module(), site.id);
    match outside.into_iter().any(|v| b.is_on(b.now(v))) {
        true => one_by_one::rule(b, site),
        false => rule(b),
    }
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
