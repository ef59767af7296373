//! The table of pretty forms: how each operation is written.
//!
//! Most forms are operands, then `key = value` pairs, then attributes, then types; the table says them. The
//! others have a reader of their own.

use super::op::Draft;
use super::{Parsed, Parser};
use crate::op::{
    BinaryOp, BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp,
    SdyOp, SourceOp, TokenOp, UnaryOp,
};
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
    match kind {
        OpKind::Control(ControlOp::Module) => Own(Parser::nested_module),
        OpKind::Control(ControlOp::Func) => Own(Parser::func),
        OpKind::Control(ControlOp::Call) => Own(Parser::call),
        OpKind::Control(ControlOp::FuncReturn | ControlOp::HloReturn) | OpKind::Sdy(SdyOp::Return) => {
            Own(Parser::return_op)
        }

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
        | OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize) => Same(1, &[]),
        OpKind::Mixed(MixedOp::ReducePrecision) => Same(1, const { &[key("format", "exponent_bits", Val::Format)] }),
        OpKind::Linalg(LinalgOp::Cholesky) => Same(1, const { &[optional("lower", "lower", Val::Bool)] }),
        OpKind::Movement(MovementOp::Reverse) => Same(1, const { &[key("dims", "dimensions", Val::Ints)] }),
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
        ) => Same(2, &[]),
        OpKind::Mixed(MixedOp::Clamp) => Same(3, &[]),
        OpKind::Check(CheckOp::Probe) => Same(1, const { &[key("probe_id", "probe_id", Val::Str)] }),

        OpKind::Unary(UnaryOp::IsFinite)
        | OpKind::Movement(MovementOp::BitcastConvert | MovementOp::DynamicUpdateSlice | MovementOp::Reshape)
        | OpKind::Dynamic(DynamicOp::Reshape | DynamicOp::Slice | DynamicOp::Pad) => Functional(&[]),
        OpKind::Dynamic(DynamicOp::Iota) => Functional(const { &[key("dim", "iota_dimension", I64)] }),
        OpKind::Source(SourceOp::Rng) => {
            Functional(const { &[key("distribution", "rng_distribution", Val::Enum("rng_distribution"))] })
        }
        OpKind::Source(SourceOp::RngBitGenerator) => {
            Functional(const { &[key("algorithm", "rng_algorithm", Val::Enum("rng_algorithm"))] })
        }
        OpKind::Movement(MovementOp::Broadcast) => Functional(const { &[key("sizes", "broadcast_sizes", Val::Ints)] }),
        OpKind::Movement(MovementOp::BroadcastInDim) | OpKind::Dynamic(DynamicOp::BroadcastInDim) => {
            Functional(const { &[key("dims", "broadcast_dimensions", Val::Ints)] })
        }
        OpKind::Movement(MovementOp::Concatenate | MovementOp::GetDimensionSize | MovementOp::SetDimensionSize) => {
            Functional(DIM)
        }
        OpKind::Movement(MovementOp::DynamicSlice) => Functional(const { &[key("sizes", "slice_sizes", Val::Ints)] }),
        OpKind::Movement(MovementOp::Pad) => Functional(
            const {
                &[
                    key("low", "edge_padding_low", Val::Ints),
                    key("high", "edge_padding_high", Val::Ints),
                    key("interior", "interior_padding", Val::Ints),
                ]
            },
        ),
        OpKind::Movement(MovementOp::Transpose) => Functional(const { &[key("dims", "permutation", Val::Ints)] }),
        OpKind::Contract(ContractOp::Einsum | ContractOp::UnaryEinsum) => {
            Functional(const { &[key("config", "einsum_config", Val::Str)] })
        }
        OpKind::Linalg(LinalgOp::Fft) => Functional(
            const { &[key("type", "fft_type", Val::Enum("fft_type")), key("length", "fft_length", Val::Ints)] },
        ),

        OpKind::Source(SourceOp::Iota) => Source(const { &[key("dim", "iota_dimension", I64)] }),
        OpKind::Token(TokenOp::CreateToken) | OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId) => {
            Source(&[])
        }

        OpKind::Binary(BinaryOp::Complex) => Own(Parser::complex),
        OpKind::Mixed(MixedOp::Compare) => Own(Parser::compare),
        OpKind::Mixed(MixedOp::Select) => Own(Parser::select),
        OpKind::Source(SourceOp::Constant) | OpKind::Chlo(ChloOp::Constant) | OpKind::Sdy(SdyOp::Constant) => {
            Own(Parser::constant)
        }
        OpKind::Movement(MovementOp::Slice) => Own(Parser::slice),
        OpKind::Contract(ContractOp::Dot) => Own(Parser::dot),
        OpKind::Contract(ContractOp::DotGeneral) => Own(Parser::dot_general),
        OpKind::Contract(ContractOp::Convolution) => Own(Parser::convolution),
        OpKind::Body(BodyOp::Reduce) => Own(Parser::reduce),
        OpKind::Control(ControlOp::While) => Own(Parser::while_op),
        OpKind::Token(TokenOp::AfterAll) => Own(Parser::after_all),
        OpKind::Control(ControlOp::Composite) => Own(Parser::composite),
        OpKind::Control(ControlOp::CustomCall) => Own(Parser::custom_call),
        OpKind::Token(TokenOp::GetTupleElement) => Own(Parser::get_tuple_element),
        OpKind::Control(ControlOp::OptimizationBarrier) => Own(Parser::optimization_barrier),
        OpKind::Token(TokenOp::Tuple) => Own(Parser::tuple),

        OpKind::Movement(MovementOp::TorchIndexSelect | MovementOp::Gather)
        | OpKind::Dynamic(DynamicOp::Gather | DynamicOp::Conv)
        | OpKind::Linalg(
            LinalgOp::TriangularSolve
            | LinalgOp::BatchNormGrad
            | LinalgOp::BatchNormInference
            | LinalgOp::BatchNormTraining,
        )
        | OpKind::Body(
            BodyOp::Map | BodyOp::ReduceWindow | BodyOp::Scatter | BodyOp::SelectAndScatter | BodyOp::Sort,
        )
        | OpKind::Control(ControlOp::Case | ControlOp::If)
        | OpKind::Collective(
            CollectiveOp::AllGather
            | CollectiveOp::AllReduce
            | CollectiveOp::AllToAll
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::CollectiveReduce
            | CollectiveOp::CrossReplicaSum
            | CollectiveOp::ReduceScatter,
        )
        | OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart)
        | OpKind::Token(TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send)
        | OpKind::Chlo(ChloOp::ConstantLike | ChloOp::RaggedDot)
        | OpKind::Check(CheckOp::RunParallel)
        | OpKind::Unregistered => GenericOnly,

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
            | UnaryOp::Lgamma,
        )
        | OpKind::Binary(BinaryOp::Mulhi | BinaryOp::NextAfter | BinaryOp::Polygamma)
        | OpKind::Unary(UnaryOp::Sinh | UnaryOp::Square | UnaryOp::ChloTan)
        | OpKind::Binary(BinaryOp::Zeta) => Arrow,
        OpKind::Chlo(ChloOp::TopK) => Own(Parser::top_k),
        OpKind::Chlo(ChloOp::Scan) => Own(Parser::scan),

        OpKind::Sdy(SdyOp::Mesh) => Own(Parser::mesh),
        OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard) => Own(Parser::sharding_constraint),
        OpKind::Sdy(SdyOp::ManualComputation) => Own(Parser::manual_computation),
        OpKind::Sdy(SdyOp::NamedComputation) => Own(Parser::named_computation),
        OpKind::Sdy(SdyOp::AllGather) => Own(|p, d| p.dims_collective(d, "gathering_axes")),
        OpKind::Sdy(SdyOp::AllSlice) => Own(|p, d| p.dims_collective(d, "slicing_axes")),
        OpKind::Sdy(SdyOp::ReduceScatter) => Own(|p, d| p.dims_collective(d, "reduce_scatter_axes")),
        OpKind::Sdy(SdyOp::ShardedToUnreduced) => Own(|p, d| p.dims_collective(d, "axes")),
        OpKind::Sdy(SdyOp::AllReduce) => Own(|p, d| p.axes_collective(d, "reduction_axes")),
        OpKind::Sdy(SdyOp::ReplicatedToUnreduced) => Own(|p, d| p.axes_collective(d, "axes")),
        OpKind::Sdy(SdyOp::AllToAll) => Own(Parser::sdy_all_to_all),
        OpKind::Sdy(SdyOp::CollectivePermute) => Placed(OUT_SHARDING),
        OpKind::Sdy(SdyOp::DataFlowEdge) => Placed(SHARDING),
        OpKind::Sdy(SdyOp::FuncDataFlowEdge) => Placed(&[]),
        OpKind::Sdy(SdyOp::ShardingGroup) => Placed(const { &[key("group_id", "group_id", I64)] }),
        OpKind::Sdy(SdyOp::PropagationBarrier) => Placed(
            const {
                &[key(
                    "allowed_direction",
                    "allowed_direction",
                    Val::SdyEnum("propagation_direction", super::place::DIRECTIONS),
                )]
            },
        ),

        OpKind::Check(CheckOp::ExpectEq | CheckOp::Print) => Effect(&[]),
        OpKind::Check(CheckOp::ExpectAlmostEq) => Effect(TOLERANCE),
        OpKind::Check(CheckOp::ExpectSerializedEq) => Effect(
            const { &[key("probe_id", "probe_id", Val::Str), optional("iter", "iteration", Val::Number(ElementType::UI32))] },
        ),
        OpKind::Check(CheckOp::ExpectEqConst | CheckOp::ExpectAlmostEqConst) => Own(Parser::expect_const),
        OpKind::Check(CheckOp::ExpectClose) => Own(Parser::expect_close),
    }
}
