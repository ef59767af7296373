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

use crate::GradError;
use crate::reverse::{Reverse, Site};

/// Gives cotangents to the operands of `site`.
pub(crate) fn apply(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    use OpKind::*;
    let no_rule = |r, why| refuse(r, site, why);
    match site.op.kind() {
        Abs | Cbrt | Cosine | Exponential | ExponentialMinusOne | Log | LogPlusOne | Logistic | Negate | Rsqrt
        | Sine | Sqrt | Tan | Tanh | ChloAcos | ChloAcosh | ChloAsin | ChloAsinh | ChloAtan | ChloAtanh
        | ChloBesselI1e | ChloConj | ChloCosh | ChloDigamma | ChloErf | ChloErfInv | ChloErfc | ChloLgamma
        | ChloSinh | ChloSquare | ChloTan | Real | Imag | Convert | ReducePrecision => unary::rule(r, site),
        Add | Subtract | Multiply | Divide | Maximum | Minimum | Power | Remainder | Atan2 | Complex
        | ChloPolygamma | ChloZeta => elementwise::binary(r, site),
        Clamp => elementwise::clamp(r, site),
        Select => elementwise::select(r, site),

        // Constant wherever they have a derivative at all, or made of integers.
        Ceil | Floor | RoundNearestAfz | RoundNearestEven | Sign | CountLeadingZeros | IsFinite | Not | Popcnt
        | And | Or | Xor | Compare | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical | ChloIsInf
        | ChloIsNegInf | ChloIsPosInf | ChloMulhi | BitcastConvert | Constant | Iota | PartitionId | ReplicaId
        | RngBitGenerator | GetDimensionSize | ChloConstant | ChloConstantLike | SdyConstant | CreateToken
        | AfterAll => Ok(()),

        BroadcastInDim => movement::broadcast_in_dim(r, site),
        Broadcast => movement::broadcast(r, site),
        Reshape => movement::reshape(r, site),
        Transpose => movement::transpose(r, site),
        Slice => movement::slice(r, site),
        Pad => movement::pad(r, site),
        Concatenate => movement::concatenate(r, site),
        Reverse => movement::reverse(r, site),
        DynamicSlice => movement::dynamic_slice(r, site),
        DynamicUpdateSlice => movement::dynamic_update_slice(r, site),

        Dot => contract::dot(r, site),
        DotGeneral => contract::dot_general(r, site),
        Convolution => conv::rule(r, site),
        Fft => linalg::fft(r, site),
        TriangularSolve => linalg::triangular_solve(r, site),
        Cholesky => linalg::cholesky(r, site),
        BatchNormTraining => linalg::batch_norm_training(r, site),
        BatchNormInference => linalg::batch_norm_inference(r, site),
        BatchNormGrad => expand::batch_norm_grad(r, site),
        Einsum | UnaryEinsum => expand::einsum(r, site),
        Map => expand::map(r, site),
        ChloRaggedDot => ragged::rule(r, site),

        Reduce => reduce::rule(r, site),
        ReduceWindow => window::rule(r, site),
        SelectAndScatter => window::select_and_scatter(r, site),
        Gather => gather::rule(r, site),
        Scatter => scatter::rule(r, site),
        Sort => sort::sort(r, site),
        ChloTopK => sort::top_k(r, site),

        While => loops::rule(r, site),
        ChloScan => scan::rule(r, site),
        Case | If => branch::rule(r, site),
        SdyNamedComputation => checkpoint::rule(r, site),

        // The cotangent is moved as the value is, in the other direction.
        OptimizationBarrier => movement::barrier(r, site),
        SdyShardingConstraint | SdyReshard | SdyPropagationBarrier => movement::placed(r, site),
        SdyDataFlowEdge | SdyFuncDataFlowEdge | InterpreterProbe => Ok(r.give(site.x(0), site.ct)?),

        Call => no_rule(r, "the call could not be inlined: its callee is missing, recursive or has several blocks"),
        CustomCall => no_rule(r, "what a custom call computes is not known here; differentiate a version without it"),
        Rng => no_rule(r, "random numbers that depend on differentiated bounds; scale numbers from fixed bounds"),
        SdyManualComputation => manual::computation(r, site),
        AllReduce | CrossReplicaSum => manual::all_reduce(r, site),
        AllGather => manual::all_gather(r, site),
        ReduceScatter => manual::reduce_scatter(r, site),
        AllToAll => manual::all_to_all(r, site),
        CollectivePermute => manual::collective_permute(r, site),
        CollectiveBroadcast => manual::collective_broadcast(r, site),
        CollectiveReduce => manual::collective_reduce(r, site),
        AsyncDone
        | AsyncStart
        | SdyAllGather
        | SdyAllReduce
        | SdyAllSlice
        | SdyAllToAll
        | SdyCollectivePermute
        | SdyReduceScatter
        | SdyReplicatedToUnreduced
        | SdyShardedToUnreduced => {
            no_rule(r, "it is written for single devices; differentiate the global program, before it is split")
        }
        DynamicBroadcastInDim
        | DynamicConv
        | DynamicGather
        | DynamicIota
        | DynamicPad
        | DynamicReshape
        | RealDynamicSlice
        | SetDimensionSize => no_rule(r, "its shape is known only when it runs"),
        UniformDequantize | UniformQuantize => no_rule(r, "quantized types have no derivative"),
        ChloNextAfter => no_rule(r, "it moves by less than a derivative can say; use its first operand instead"),
        ChloAsinAcosKernel | Composite | TorchIndexSelect | Tuple | GetTupleElement | Infeed | Outfeed | Recv
        | Send | Unregistered => no_rule(r, "there is no rule for it"),

        // These have no results that could have a cotangent.
        Module
        | Func
        | FuncReturn
        | HloReturn
        | SdyReturn
        | SdyMesh
        | SdyShardingGroup
        | CheckExpectAlmostEq
        | CheckExpectAlmostEqConst
        | CheckExpectClose
        | CheckExpectEq
        | CheckExpectEqConst
        | CheckExpectSerializedEq
        | InterpreterPrint
        | InterpreterRunParallel => no_rule(r, "it has no value"),
    }
}

fn refuse(r: &Reverse<'_>, site: &Site, why: &str) -> Result<(), GradError> {
    Err(GradError::no_rule(r.module(), site.id, why))
}
