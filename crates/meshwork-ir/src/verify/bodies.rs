//! Bodies: how many an operation has, and how their blocks end.

use super::{Check, Context};
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
    use OpKind::*;
    match kind {
        // A declaration has no body, and other dialects may end a function.
        Module | Func | Unregistered | CustomCall | Composite => Rule::Any,
        Map | Reduce | ReduceWindow | Scatter | Sort | AllReduce | ReduceScatter | CollectiveReduce | AsyncStart
        | ChloScan => Rule::Exactly(1, HloReturn),
        SelectAndScatter | If | While => Rule::Exactly(2, HloReturn),
        Case => Rule::AtLeast(1, HloReturn),
        SdyManualComputation | SdyNamedComputation => Rule::Exactly(1, SdyReturn),
        Call
        | FuncReturn
        | HloReturn
        | SdyReturn
        | Abs
        | Cbrt
        | Ceil
        | Convert
        | Cosine
        | CountLeadingZeros
        | Exponential
        | ExponentialMinusOne
        | Floor
        | Imag
        | IsFinite
        | Log
        | LogPlusOne
        | Logistic
        | Negate
        | Not
        | Popcnt
        | Real
        | ReducePrecision
        | RoundNearestAfz
        | RoundNearestEven
        | Rsqrt
        | Sign
        | Sine
        | Sqrt
        | Tan
        | Tanh
        | UniformDequantize
        | UniformQuantize
        | Add
        | And
        | Atan2
        | Compare
        | Complex
        | Divide
        | Maximum
        | Minimum
        | Multiply
        | Or
        | Power
        | Remainder
        | ShiftLeft
        | ShiftRightArithmetic
        | ShiftRightLogical
        | Subtract
        | Xor
        | Clamp
        | Select
        | Constant
        | Iota
        | PartitionId
        | ReplicaId
        | Rng
        | RngBitGenerator
        | BitcastConvert
        | Broadcast
        | BroadcastInDim
        | Concatenate
        | DynamicSlice
        | DynamicUpdateSlice
        | Gather
        | GetDimensionSize
        | Pad
        | Reshape
        | Reverse
        | SetDimensionSize
        | Slice
        | TorchIndexSelect
        | Transpose
        | DynamicBroadcastInDim
        | DynamicConv
        | DynamicGather
        | DynamicIota
        | DynamicPad
        | DynamicReshape
        | RealDynamicSlice
        | Cholesky
        | Convolution
        | Dot
        | DotGeneral
        | Einsum
        | UnaryEinsum
        | Fft
        | TriangularSolve
        | BatchNormGrad
        | BatchNormInference
        | BatchNormTraining
        | AllGather
        | AllToAll
        | CollectiveBroadcast
        | CollectivePermute
        | CrossReplicaSum
        | AfterAll
        | AsyncDone
        | CreateToken
        | GetTupleElement
        | Infeed
        | OptimizationBarrier
        | Outfeed
        | Recv
        | Send
        | Tuple
        | ChloAcos
        | ChloAcosh
        | ChloAsin
        | ChloAsinAcosKernel
        | ChloAsinh
        | ChloAtan
        | ChloAtanh
        | ChloBesselI1e
        | ChloConj
        | ChloCosh
        | ChloDigamma
        | ChloErf
        | ChloErfInv
        | ChloErfc
        | ChloIsInf
        | ChloIsNegInf
        | ChloIsPosInf
        | ChloLgamma
        | ChloMulhi
        | ChloNextAfter
        | ChloPolygamma
        | ChloSinh
        | ChloSquare
        | ChloTan
        | ChloZeta
        | ChloConstant
        | ChloConstantLike
        | ChloRaggedDot
        | ChloTopK
        | SdyAllGather
        | SdyAllReduce
        | SdyAllSlice
        | SdyAllToAll
        | SdyCollectivePermute
        | SdyConstant
        | SdyDataFlowEdge
        | SdyFuncDataFlowEdge
        | SdyMesh
        | SdyPropagationBarrier
        | SdyReduceScatter
        | SdyReplicatedToUnreduced
        | SdyReshard
        | SdyShardedToUnreduced
        | SdyShardingConstraint
        | SdyShardingGroup
        | CheckExpectAlmostEq
        | CheckExpectAlmostEqConst
        | CheckExpectClose
        | CheckExpectEq
        | CheckExpectEqConst
        | CheckExpectSerializedEq
        | InterpreterPrint
        | InterpreterProbe
        | InterpreterRunParallel => Rule::None,
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
