//! The table of pretty forms: how each operation is written.
//!
//! Most forms are operands, then `key = value` pairs, then attributes, then types; the table says them. The
//! others have a reader of their own.

use super::op::Draft;
use super::{Parsed, Parser};
use crate::{ElementType, OpKind};

/// The pretty form of an operation.
pub(super) enum Form<'a> {
    /// It has none.
    GenericOnly,
    /// `%a, %b, key = value {attrs} : type` for this many operands, all of the result's type; a functional type
    /// where they are not.
    Same(usize, &'static [Key]),
    /// `%a, %b, key = value {attrs} : (types) -> types`.
    Functional(&'static [Key]),
    /// `key = value {attrs} : type`: no operands, one result.
    Source(&'static [Key]),
    /// `%a, %b {attrs} : type, type -> type`.
    Arrow,
    /// `%a, %b, key = value {attrs} : type`: the type of all operands, no result.
    Effect(&'static [Key]),
    /// `%a key=value {attrs} : type`: one operand, the result of the same type if there is one.
    Placed(&'static [Key]),
    /// A form of its own.
    Own(fn(&mut Parser<'a>, &mut Draft) -> Parsed<()>),
}

/// A `key = value` pair.
pub(super) struct Key {
    /// The key as written.
    pub word: &'static str,
    /// The attribute it gives.
    pub attr: &'static str,
    /// How the value is written.
    pub value: Val,
    /// Whether it may be left out.
    pub optional: bool,
}

/// How the value of a key is written.
#[derive(Clone, Copy)]
pub(super) enum Val {
    /// `1`, of this type.
    Number(ElementType),
    /// `[1, 2]`.
    Ints,
    /// `true`.
    Bool,
    /// `"text"`.
    Str,
    /// A case of this StableHLO enum.
    Enum(&'static str),
    /// `e8m7`: the attributes `exponent_bits` and `mantissa_bits`.
    Format,
    /// `<@mesh, [{}]>`.
    Sharding,
    /// A case of an `sdy` enum of this name.
    SdyEnum(&'static str, &'static [&'static str]),
}

const fn key(word: &'static str, attr: &'static str, value: Val) -> Key {
    Key { word, attr, value, optional: false }
}

const fn optional(word: &'static str, attr: &'static str, value: Val) -> Key {
    Key { word, attr, value, optional: true }
}

const I64: Val = Val::Number(ElementType::I64);

/// Keys of `check.expect_almost_eq` and its kin.
pub(super) const TOLERANCE: &[Key] = &[optional("tolerance", "tolerance", Val::Number(ElementType::F64))];

/// Keys of `chlo.top_k`.
pub(super) const TOP_K: &[Key] = &[key("k", "k", I64), optional("is_stable", "is_stable", Val::Bool)];

/// Keys of `check.expect_close`.
pub(super) const ULPS: &[Key] = &[
    key("max_ulp_difference", "max_ulp_difference", Val::Number(ElementType::UI64)),
    optional("min_ulp_difference", "min_ulp_difference", Val::Number(ElementType::UI64)),
];
const DIM: &[Key] = &[key("dim", "dimension", I64)];
const SHARDING: &[Key] = &[optional("sharding", "sharding", Val::Sharding)];

/// Keys of the collectives of `sdy`.
pub(super) const OUT_SHARDING: &[Key] = &[key("out_sharding", "out_sharding", Val::Sharding)];

/// The pretty form of `kind`.
pub(super) fn form<'a>(kind: OpKind) -> Form<'a> {
    use Form::*;
    use OpKind::*;
    match kind {
        Module => Own(Parser::nested_module),
        Func => Own(Parser::func),
        Call => Own(Parser::call),
        FuncReturn | HloReturn | SdyReturn => Own(Parser::return_op),

        Abs | Cbrt | Ceil | Convert | Cosine | CountLeadingZeros | Exponential | ExponentialMinusOne | Floor | Imag
        | Log | LogPlusOne | Logistic | Negate | Not | Popcnt | Real | RoundNearestAfz | RoundNearestEven | Rsqrt
        | Sign | Sine | Sqrt | Tan | Tanh | UniformDequantize | UniformQuantize => Same(1, &[]),
        ReducePrecision => Same(1, const { &[key("format", "exponent_bits", Val::Format)] }),
        Cholesky => Same(1, const { &[optional("lower", "lower", Val::Bool)] }),
        Reverse => Same(1, const { &[key("dims", "dimensions", Val::Ints)] }),
        Add | And | Atan2 | Divide | Maximum | Minimum | Multiply | Or | Power | Remainder | ShiftLeft
        | ShiftRightArithmetic | ShiftRightLogical | Subtract | Xor => Same(2, &[]),
        Clamp => Same(3, &[]),
        InterpreterProbe => Same(1, const { &[key("probe_id", "probe_id", Val::Str)] }),

        IsFinite | BitcastConvert | DynamicUpdateSlice | Reshape | DynamicReshape | RealDynamicSlice | DynamicPad => {
            Functional(&[])
        }
        DynamicIota => Functional(const { &[key("dim", "iota_dimension", I64)] }),
        Rng => Functional(const { &[key("distribution", "rng_distribution", Val::Enum("rng_distribution"))] }),
        RngBitGenerator => Functional(const { &[key("algorithm", "rng_algorithm", Val::Enum("rng_algorithm"))] }),
        Broadcast => Functional(const { &[key("sizes", "broadcast_sizes", Val::Ints)] }),
        BroadcastInDim | DynamicBroadcastInDim => {
            Functional(const { &[key("dims", "broadcast_dimensions", Val::Ints)] })
        }
        Concatenate | GetDimensionSize | SetDimensionSize => Functional(DIM),
        DynamicSlice => Functional(const { &[key("sizes", "slice_sizes", Val::Ints)] }),
        Pad => Functional(
            const {
                &[
                    key("low", "edge_padding_low", Val::Ints),
                    key("high", "edge_padding_high", Val::Ints),
                    key("interior", "interior_padding", Val::Ints),
                ]
            },
        ),
        Transpose => Functional(const { &[key("dims", "permutation", Val::Ints)] }),
        Einsum | UnaryEinsum => Functional(const { &[key("config", "einsum_config", Val::Str)] }),
        Fft => Functional(
            const { &[key("type", "fft_type", Val::Enum("fft_type")), key("length", "fft_length", Val::Ints)] },
        ),

        Iota => Source(const { &[key("dim", "iota_dimension", I64)] }),
        CreateToken | PartitionId | ReplicaId => Source(&[]),

        Complex => Own(Parser::complex),
        Compare => Own(Parser::compare),
        Select => Own(Parser::select),
        Constant | ChloConstant | SdyConstant => Own(Parser::constant),
        Slice => Own(Parser::slice),
        Dot => Own(Parser::dot),
        DotGeneral => Own(Parser::dot_general),
        Convolution => Own(Parser::convolution),
        Reduce => Own(Parser::reduce),
        While => Own(Parser::while_op),
        AfterAll => Own(Parser::after_all),
        Composite => Own(Parser::composite),
        CustomCall => Own(Parser::custom_call),
        GetTupleElement => Own(Parser::get_tuple_element),
        OptimizationBarrier => Own(Parser::optimization_barrier),
        Tuple => Own(Parser::tuple),

        TorchIndexSelect
        | Gather
        | DynamicGather
        | DynamicConv
        | TriangularSolve
        | BatchNormGrad
        | BatchNormInference
        | BatchNormTraining
        | Map
        | ReduceWindow
        | Scatter
        | SelectAndScatter
        | Sort
        | Case
        | If
        | AllGather
        | AllReduce
        | AllToAll
        | CollectiveBroadcast
        | CollectivePermute
        | CollectiveReduce
        | CrossReplicaSum
        | ReduceScatter
        | AsyncDone
        | AsyncStart
        | Infeed
        | Outfeed
        | Recv
        | Send
        | ChloConstantLike
        | ChloRaggedDot
        | InterpreterRunParallel
        | Unregistered => GenericOnly,

        ChloAcos | ChloAcosh | ChloAsin | ChloAsinAcosKernel | ChloAsinh | ChloAtan | ChloAtanh | ChloBesselI1e
        | ChloConj | ChloCosh | ChloDigamma | ChloErf | ChloErfInv | ChloErfc | ChloIsInf | ChloIsNegInf
        | ChloIsPosInf | ChloLgamma | ChloMulhi | ChloNextAfter | ChloPolygamma | ChloSinh | ChloSquare | ChloTan
        | ChloZeta => Arrow,
        ChloTopK => Own(Parser::top_k),
        ChloScan => Own(Parser::scan),

        SdyMesh => Own(Parser::mesh),
        SdyShardingConstraint | SdyReshard => Own(Parser::sharding_constraint),
        SdyManualComputation => Own(Parser::manual_computation),
        SdyNamedComputation => Own(Parser::named_computation),
        SdyAllGather => Own(|p, d| p.dims_collective(d, "gathering_axes")),
        SdyAllSlice => Own(|p, d| p.dims_collective(d, "slicing_axes")),
        SdyReduceScatter => Own(|p, d| p.dims_collective(d, "reduce_scatter_axes")),
        SdyShardedToUnreduced => Own(|p, d| p.dims_collective(d, "axes")),
        SdyAllReduce => Own(|p, d| p.axes_collective(d, "reduction_axes")),
        SdyReplicatedToUnreduced => Own(|p, d| p.axes_collective(d, "axes")),
        SdyAllToAll => Own(Parser::sdy_all_to_all),
        SdyCollectivePermute => Placed(OUT_SHARDING),
        SdyDataFlowEdge => Placed(SHARDING),
        SdyFuncDataFlowEdge => Placed(&[]),
        SdyShardingGroup => Placed(const { &[key("group_id", "group_id", I64)] }),
        SdyPropagationBarrier => Placed(
            const {
                &[key(
                    "allowed_direction",
                    "allowed_direction",
                    Val::SdyEnum("propagation_direction", super::place::DIRECTIONS),
                )]
            },
        ),

        CheckExpectEq | InterpreterPrint => Effect(&[]),
        CheckExpectAlmostEq => Effect(TOLERANCE),
        CheckExpectSerializedEq => Effect(
            const { &[key("probe_id", "probe_id", Val::Str), optional("iter", "iteration", Val::Number(ElementType::UI32))] },
        ),
        CheckExpectEqConst | CheckExpectAlmostEqConst => Own(Parser::expect_const),
        CheckExpectClose => Own(Parser::expect_close),
    }
}
