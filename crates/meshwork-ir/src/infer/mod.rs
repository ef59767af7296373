//! Result types from operand types and attributes: the type rule of every operation.
//!
//! A rule sees operand types, attributes, the signatures of the bodies and, where they exist already, the declared
//! result types. It checks everything the operation asks of them and returns the result types. The
//! [builder](crate::build) uses the rules to find result types, the [verifier](crate::verify) to check declared ones.
//!
//! - Extents that are not known (`?`) agree with every extent.
//! - Results that do not follow from the operands (of `reshape`, `iota`, `convert`, ...) are taken from the
//!   declared ones, after a check.
//! - While an operation has no bodies yet, what they would say is not checked.
//!
//! ```
//! use meshwork_ir::infer::{OpTypes, infer};
//! use meshwork_ir::{Attr, AttrDict, ElementType, OpKind, Type};
//!
//! let x = Type::tensor([2, 3], ElementType::F32);
//! let attrs: AttrDict = [("permutation", Attr::i64s([1, 0]))].into_iter().collect();
//! let types = infer(&OpTypes::new(OpKind::Transpose, &[&x], &attrs))?;
//! assert_eq!(types[0].to_string(), "tensor<3x2xf32>");
//! # Ok::<(), meshwork_ir::infer::InferError>(())
//! ```

mod check;
mod chlo;
mod collective;
mod contract;
mod control;
mod dynamic;
mod elementwise;
mod error;
mod index;
mod linalg;
mod movement;
mod reduce;
mod sdy;
mod source;
#[cfg(test)]
mod tests;
mod window;

use smallvec::{SmallVec, smallvec};

use check::Elems;
pub(crate) use check::{bounds, duplicate, type_list, types_agree};
pub use error::InferError;

use crate::{AttrDict, BlockId, ElementType, Module, OpId, OpKind, RegionId, Type, ValueId};

/// Result types of an operation.
pub type Types = SmallVec<[Type; 1]>;

/// What a body takes and returns.
#[derive(Clone, Debug, Default)]
pub struct Body<'a> {
    /// Types of its arguments.
    pub args: Vec<&'a Type>,
    /// Types it returns; `None` while it has no terminator.
    pub returns: Option<Vec<&'a Type>>,
}

impl<'a> Body<'a> {
    /// The signature of `block`.
    pub fn of(module: &'a Module, block: BlockId) -> Body<'a> {
        let types = |values: &[ValueId]| values.iter().map(|&v| module.ty(v)).collect();
        Body {
            args: types(module.block(block).args()),
            returns: module.terminator(block).map(|t| types(module.op(t).operands())),
        }
    }
}

/// What a type rule looks at.
#[derive(Clone, Copy)]
pub struct OpTypes<'a> {
    /// Which operation.
    pub kind: OpKind,
    /// Operand types.
    pub operands: &'a [&'a Type],
    /// Attributes.
    pub attrs: &'a AttrDict,
    /// Bodies, one per region; empty while there are none.
    pub bodies: &'a [Body<'a>],
    /// Declared result types; empty while there are none.
    pub wanted: &'a [&'a Type],
    /// The module and operands, to look for operands that are constants.
    pub values: Option<(&'a Module, &'a [ValueId])>,
}

impl<'a> OpTypes<'a> {
    /// An operation without bodies and declared results.
    pub fn new(kind: OpKind, operands: &'a [&'a Type], attrs: &'a AttrDict) -> OpTypes<'a> {
        OpTypes { kind, operands, attrs, bodies: &[], wanted: &[], values: None }
    }

    /// The elements of operand `index`, if it is an integer constant.
    fn constant(&self, index: usize) -> Option<Vec<i64>> {
        let (module, values) = self.values?;
        let op = module.op(module.def_op(*values.get(index)?)?);
        match (op.kind(), op.attr("value")) {
            (OpKind::Constant, Some(crate::Attr::Dense(d))) => check::dense_ints(d),
            _ => None,
        }
    }
}

/// The type rule of operation `op` of `module`, applied to what it says of itself.
pub fn infer_op(module: &Module, op: OpId) -> Result<Types, InferError> {
    let data = module.op(op);
    let (mut operands, mut wanted) = (SmallVec::<[&Type; 4]>::new(), SmallVec::<[&Type; 2]>::new());
    data.operands().iter().for_each(|&v| operands.push(module.ty(v)));
    data.results().iter().for_each(|&v| wanted.push(module.ty(v)));
    let first = |r: RegionId| module.region(r).blocks().first().copied();
    let body = |&r| first(r).map_or_else(Body::default, |b| Body::of(module, b));
    let bodies: Vec<Body> = data.regions().iter().map(body).collect();
    infer(&OpTypes {
        kind: data.kind(),
        operands: &operands,
        attrs: &data.attrs,
        bodies: &bodies,
        wanted: &wanted,
        values: Some((module, data.operands())),
    })
}

/// The result types of an operation, or what is wrong with its operands, attributes or bodies.
pub fn infer(t: &OpTypes) -> Result<Types, InferError> {
    use OpKind::*;
    match t.kind {
        // Structure and other dialects: the verifier looks at these itself.
        Module | Func | Call | FuncReturn | HloReturn | SdyReturn | SdyMesh | SdyManualComputation | Unregistered
        | CustomCall | Composite | AsyncStart | AsyncDone => control::declared(t),

        Cbrt | Cosine | Exponential | ExponentialMinusOne | Log | LogPlusOne | Logistic | Rsqrt | Sine | Sqrt | Tan
        | Tanh => elementwise::approximate(t),
        Ceil | Floor | RoundNearestAfz | RoundNearestEven => elementwise::same_type(t, 1, Elems::FLOAT),
        CountLeadingZeros | Popcnt => elementwise::same_type(t, 1, Elems::INT),
        Not => elementwise::same_type(t, 1, Elems::PRED_INT),
        Negate => elementwise::same_type(t, 1, Elems::NUMBER),
        Sign => elementwise::same_type(t, 1, Elems::SIGNED_NUMBER),
        Abs => elementwise::unary_to(t, Elems::SIGNED_NUMBER, ElementType::real_part),
        Imag | Real => elementwise::unary_to(t, Elems::FLOAT_COMPLEX, ElementType::real_part),
        IsFinite => elementwise::unary_to(t, Elems::FLOAT, |_| ElementType::I1),
        Convert => elementwise::convert(t),
        ReducePrecision => elementwise::reduce_precision(t),
        // Quantized types are refused before they get here.
        UniformDequantize | UniformQuantize => control::declared(t),

        Add | Maximum | Minimum | Multiply => elementwise::same_type(t, 2, Elems::ANY),
        Divide | Power | Remainder | Subtract => elementwise::same_type(t, 2, Elems::NUMBER),
        Atan2 => elementwise::same_type(t, 2, Elems::FLOAT_COMPLEX),
        And | Or | Xor => elementwise::same_type(t, 2, Elems::PRED_INT),
        ShiftLeft | ShiftRightArithmetic | ShiftRightLogical => elementwise::same_type(t, 2, Elems::INT),
        Compare => elementwise::compare(t),
        Complex => elementwise::complex(t),
        Clamp => elementwise::clamp(t),
        Select => elementwise::select(t),

        Constant | ChloConstant | SdyConstant => source::constant(t),
        Iota => source::iota(t),
        PartitionId | ReplicaId => source::device_number(t),
        Rng => source::rng(t),
        RngBitGenerator => source::rng_bit_generator(t),

        BitcastConvert => movement::bitcast_convert(t),
        Broadcast => movement::broadcast(t),
        BroadcastInDim => movement::broadcast_in_dim(t),
        Concatenate => movement::concatenate(t),
        GetDimensionSize => movement::get_dimension_size(t),
        Pad => movement::pad(t),
        Reshape => movement::reshape(t),
        Reverse => movement::reverse(t),
        SetDimensionSize => movement::set_dimension_size(t),
        Slice => movement::slice(t),
        TorchIndexSelect => movement::torch_index_select(t),
        Transpose => movement::transpose(t),

        DynamicSlice => index::dynamic_slice(t),
        DynamicUpdateSlice => index::dynamic_update_slice(t),
        Gather => index::gather(t),
        DynamicGather => index::dynamic_gather(t),
        Scatter => index::scatter(t),

        DynamicBroadcastInDim => dynamic::broadcast_in_dim(t),
        DynamicConv => contract::dynamic_conv(t),
        DynamicIota => dynamic::iota(t),
        DynamicPad => dynamic::pad(t),
        DynamicReshape => dynamic::reshape(t),
        RealDynamicSlice => dynamic::slice(t),

        Convolution => contract::convolution(t),
        Dot => contract::dot(t),
        DotGeneral => contract::dot_general(t),
        Einsum => contract::einsum(t, 2),
        UnaryEinsum => contract::einsum(t, 1),

        Cholesky => linalg::cholesky(t),
        TriangularSolve => linalg::triangular_solve(t),
        Fft => linalg::fft(t),
        BatchNormGrad => linalg::batch_norm(t, &["operand", "scale", "mean", "variance", "grad_output"], &[0, 4], 3),
        BatchNormInference => linalg::batch_norm(t, &["operand", "scale", "offset", "mean", "variance"], &[0], 1),
        BatchNormTraining => linalg::batch_norm(t, &["operand", "scale", "offset"], &[0], 3),

        Map => reduce::map(t),
        Reduce => reduce::reduce(t),
        Sort => reduce::sort(t),
        ReduceWindow => window::reduce_window(t),
        SelectAndScatter => window::select_and_scatter(t),

        Case => control::branches(t, ElementType::I32),
        If => control::branches(t, ElementType::I1),
        While => control::while_loop(t),

        AllGather => collective::all_gather(t),
        AllReduce => collective::all_reduce(t),
        AllToAll => collective::all_to_all(t),
        CollectiveBroadcast => collective::collective_broadcast(t),
        CollectivePermute => collective::collective_permute(t),
        CollectiveReduce => collective::collective_reduce(t),
        CrossReplicaSum => collective::cross_replica_sum(t),
        ReduceScatter => collective::reduce_scatter(t),

        AfterAll => control::after_all(t),
        CreateToken => control::create_token(t),
        GetTupleElement => control::get_tuple_element(t),
        Infeed | Recv => control::receive(t),
        OptimizationBarrier => control::pass_through(t),
        Outfeed => control::outfeed(t),
        Send => control::send(t),
        Tuple => control::tuple(t),

        ChloAcos | ChloAcosh | ChloAsin | ChloAsinh | ChloAtan | ChloAtanh | ChloBesselI1e | ChloConj | ChloCosh
        | ChloSinh | ChloSquare | ChloTan => elementwise::same_type(t, 1, Elems::FLOAT_COMPLEX),
        ChloAsinAcosKernel => elementwise::same_type(t, 1, Elems::COMPLEX),
        ChloDigamma | ChloErf | ChloErfInv | ChloErfc | ChloLgamma => elementwise::same_type(t, 1, Elems::FLOAT),
        ChloIsInf | ChloIsNegInf | ChloIsPosInf => elementwise::unary_to(t, Elems::FLOAT, |_| ElementType::I1),
        ChloNextAfter | ChloPolygamma | ChloZeta => elementwise::same_type(t, 2, Elems::FLOAT),
        ChloMulhi => elementwise::same_type(t, 2, Elems::INT),
        ChloConstantLike => chlo::constant_like(t),
        ChloRaggedDot => chlo::ragged_dot(t),
        ChloScan => chlo::scan(t),
        ChloTopK => chlo::top_k(t),

        SdyAllGather
        | SdyAllReduce
        | SdyAllSlice
        | SdyAllToAll
        | SdyCollectivePermute
        | SdyReduceScatter
        | SdyReplicatedToUnreduced
        | SdyShardedToUnreduced
        | SdyPropagationBarrier => sdy::placed(t),
        // A token may be placed on one device.
        SdyDataFlowEdge | SdyFuncDataFlowEdge | SdyShardingConstraint | SdyReshard => sdy::identity(t),
        SdyNamedComputation => sdy::named_computation(t),
        SdyShardingGroup => sdy::sharding_group(t),

        CheckExpectAlmostEq | CheckExpectClose | CheckExpectEq => {
            t.operand_count(2)?;
            elementwise::same_type(t, 2, Elems::ANY)?;
            Ok(smallvec![])
        }
        CheckExpectAlmostEqConst | CheckExpectEqConst | CheckExpectSerializedEq | InterpreterPrint => {
            t.operand_count(1)?;
            t.tensor(0, "operand")?;
            Ok(smallvec![])
        }
        InterpreterProbe => elementwise::same_type(t, 1, Elems::ANY),
        InterpreterRunParallel => control::declared(t),
    }
}
