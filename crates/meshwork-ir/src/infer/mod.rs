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
//! let types = infer(&OpTypes::new(OpKind::Movement(meshwork_ir::op::MovementOp::Transpose), &[&x], &attrs))?;
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

use crate::op::{
    BinaryOp, BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp,
    SdyOp, SourceOp, TokenOp, UnaryOp,
};
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
            (OpKind::Source(SourceOp::Constant), Some(crate::Attr::Dense(d))) => check::dense_ints(d),
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
    match t.kind {
        // Structure and other dialects: the verifier looks at these itself.
        OpKind::Control(
            ControlOp::Module | ControlOp::Func | ControlOp::Call | ControlOp::FuncReturn | ControlOp::HloReturn,
        )
        | OpKind::Sdy(SdyOp::Return | SdyOp::Mesh | SdyOp::ManualComputation)
        | OpKind::Unregistered
        | OpKind::Control(
            ControlOp::CustomCall | ControlOp::Composite | ControlOp::AsyncStart | ControlOp::AsyncDone,
        ) => control::declared(t),

        OpKind::Unary(
            UnaryOp::Cbrt
            | UnaryOp::Cosine
            | UnaryOp::Exponential
            | UnaryOp::ExponentialMinusOne
            | UnaryOp::Log
            | UnaryOp::LogPlusOne
            | UnaryOp::Logistic
            | UnaryOp::Rsqrt
            | UnaryOp::Sine
            | UnaryOp::Sqrt
            | UnaryOp::Tan
            | UnaryOp::Tanh,
        ) => elementwise::approximate(t),
        OpKind::Unary(UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::RoundNearestAfz | UnaryOp::RoundNearestEven) => {
            elementwise::same_type(t, 1, Elems::FLOAT)
        }
        OpKind::Unary(UnaryOp::CountLeadingZeros | UnaryOp::Popcnt) => elementwise::same_type(t, 1, Elems::INT),
        OpKind::Unary(UnaryOp::Not) => elementwise::same_type(t, 1, Elems::PRED_INT),
        OpKind::Unary(UnaryOp::Negate) => elementwise::same_type(t, 1, Elems::NUMBER),
        OpKind::Unary(UnaryOp::Sign) => elementwise::same_type(t, 1, Elems::SIGNED_NUMBER),
        OpKind::Unary(UnaryOp::Abs) => elementwise::unary_to(t, Elems::SIGNED_NUMBER, ElementType::real_part),
        OpKind::Unary(UnaryOp::Imag | UnaryOp::Real) => {
            elementwise::unary_to(t, Elems::FLOAT_COMPLEX, ElementType::real_part)
        }
        OpKind::Unary(UnaryOp::IsFinite) => elementwise::unary_to(t, Elems::FLOAT, |_| ElementType::I1),
        OpKind::Mixed(MixedOp::Convert) => elementwise::convert(t),
        OpKind::Mixed(MixedOp::ReducePrecision) => elementwise::reduce_precision(t),
        // Quantized types are refused before they get here.
        OpKind::Mixed(MixedOp::UniformDequantize | MixedOp::UniformQuantize) => control::declared(t),

        OpKind::Binary(BinaryOp::Add | BinaryOp::Maximum | BinaryOp::Minimum | BinaryOp::Multiply) => {
            elementwise::same_type(t, 2, Elems::ANY)
        }
        OpKind::Binary(BinaryOp::Divide | BinaryOp::Power | BinaryOp::Remainder | BinaryOp::Subtract) => {
            elementwise::same_type(t, 2, Elems::NUMBER)
        }
        OpKind::Binary(BinaryOp::Atan2) => elementwise::same_type(t, 2, Elems::FLOAT_COMPLEX),
        OpKind::Binary(BinaryOp::And | BinaryOp::Or | BinaryOp::Xor) => elementwise::same_type(t, 2, Elems::PRED_INT),
        OpKind::Binary(BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical) => {
            elementwise::same_type(t, 2, Elems::INT)
        }
        OpKind::Mixed(MixedOp::Compare) => elementwise::compare(t),
        OpKind::Binary(BinaryOp::Complex) => elementwise::complex(t),
        OpKind::Mixed(MixedOp::Clamp) => elementwise::clamp(t),
        OpKind::Mixed(MixedOp::Select) => elementwise::select(t),

        OpKind::Source(SourceOp::Constant) | OpKind::Chlo(ChloOp::Constant) | OpKind::Sdy(SdyOp::Constant) => {
            source::constant(t)
        }
        OpKind::Source(SourceOp::Iota) => source::iota(t),
        OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId) => source::device_number(t),
        OpKind::Source(SourceOp::Rng) => source::rng(t),
        OpKind::Source(SourceOp::RngBitGenerator) => source::rng_bit_generator(t),

        OpKind::Movement(MovementOp::BitcastConvert) => movement::bitcast_convert(t),
        OpKind::Movement(MovementOp::Broadcast) => movement::broadcast(t),
        OpKind::Movement(MovementOp::BroadcastInDim) => movement::broadcast_in_dim(t),
        OpKind::Movement(MovementOp::Concatenate) => movement::concatenate(t),
        OpKind::Movement(MovementOp::GetDimensionSize) => movement::get_dimension_size(t),
        OpKind::Movement(MovementOp::Pad) => movement::pad(t),
        OpKind::Movement(MovementOp::Reshape) => movement::reshape(t),
        OpKind::Movement(MovementOp::Reverse) => movement::reverse(t),
        OpKind::Movement(MovementOp::SetDimensionSize) => movement::set_dimension_size(t),
        OpKind::Movement(MovementOp::Slice) => movement::slice(t),
        OpKind::Movement(MovementOp::TorchIndexSelect) => movement::torch_index_select(t),
        OpKind::Movement(MovementOp::Transpose) => movement::transpose(t),

        OpKind::Movement(MovementOp::DynamicSlice) => index::dynamic_slice(t),
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => index::dynamic_update_slice(t),
        OpKind::Movement(MovementOp::Gather) => index::gather(t),
        OpKind::Dynamic(DynamicOp::Gather) => index::dynamic_gather(t),
        OpKind::Body(BodyOp::Scatter) => index::scatter(t),

        OpKind::Dynamic(DynamicOp::BroadcastInDim) => dynamic::broadcast_in_dim(t),
        OpKind::Dynamic(DynamicOp::Conv) => contract::dynamic_conv(t),
        OpKind::Dynamic(DynamicOp::Iota) => dynamic::iota(t),
        OpKind::Dynamic(DynamicOp::Pad) => dynamic::pad(t),
        OpKind::Dynamic(DynamicOp::Reshape) => dynamic::reshape(t),
        OpKind::Dynamic(DynamicOp::Slice) => dynamic::slice(t),

        OpKind::Contract(ContractOp::Convolution) => contract::convolution(t),
        OpKind::Contract(ContractOp::Dot) => contract::dot(t),
        OpKind::Contract(ContractOp::DotGeneral) => contract::dot_general(t),
        OpKind::Contract(ContractOp::Einsum) => contract::einsum(t, 2),
        OpKind::Contract(ContractOp::UnaryEinsum) => contract::einsum(t, 1),

        OpKind::Linalg(LinalgOp::Cholesky) => linalg::cholesky(t),
        OpKind::Linalg(LinalgOp::TriangularSolve) => linalg::triangular_solve(t),
        OpKind::Linalg(LinalgOp::Fft) => linalg::fft(t),
        OpKind::Linalg(LinalgOp::BatchNormGrad) => {
            linalg::batch_norm(t, &["operand", "scale", "mean", "variance", "grad_output"], &[0, 4], 3)
        }
        OpKind::Linalg(LinalgOp::BatchNormInference) => {
            linalg::batch_norm(t, &["operand", "scale", "offset", "mean", "variance"], &[0], 1)
        }
        OpKind::Linalg(LinalgOp::BatchNormTraining) => linalg::batch_norm(t, &["operand", "scale", "offset"], &[0], 3),

        OpKind::Body(BodyOp::Map) => reduce::map(t),
        OpKind::Body(BodyOp::Reduce) => reduce::reduce(t),
        OpKind::Body(BodyOp::Sort) => reduce::sort(t),
        OpKind::Body(BodyOp::ReduceWindow) => window::reduce_window(t),
        OpKind::Body(BodyOp::SelectAndScatter) => window::select_and_scatter(t),

        OpKind::Control(ControlOp::Case) => control::branches(t, ElementType::I32),
        OpKind::Control(ControlOp::If) => control::branches(t, ElementType::I1),
        OpKind::Control(ControlOp::While) => control::while_loop(t),

        OpKind::Collective(CollectiveOp::AllGather) => collective::all_gather(t),
        OpKind::Collective(CollectiveOp::AllReduce) => collective::all_reduce(t),
        OpKind::Collective(CollectiveOp::AllToAll) => collective::all_to_all(t),
        OpKind::Collective(CollectiveOp::CollectiveBroadcast) => collective::collective_broadcast(t),
        OpKind::Collective(CollectiveOp::CollectivePermute) => collective::collective_permute(t),
        OpKind::Collective(CollectiveOp::CollectiveReduce) => collective::collective_reduce(t),
        OpKind::Collective(CollectiveOp::CrossReplicaSum) => collective::cross_replica_sum(t),
        OpKind::Collective(CollectiveOp::ReduceScatter) => collective::reduce_scatter(t),

        OpKind::Token(TokenOp::AfterAll) => control::after_all(t),
        OpKind::Token(TokenOp::CreateToken) => control::create_token(t),
        OpKind::Token(TokenOp::GetTupleElement) => control::get_tuple_element(t),
        OpKind::Token(TokenOp::Infeed | TokenOp::Recv) => control::receive(t),
        OpKind::Control(ControlOp::OptimizationBarrier) => control::pass_through(t),
        OpKind::Token(TokenOp::Outfeed) => control::outfeed(t),
        OpKind::Token(TokenOp::Send) => control::send(t),
        OpKind::Token(TokenOp::Tuple) => control::tuple(t),

        OpKind::Unary(
            UnaryOp::Acos
            | UnaryOp::Acosh
            | UnaryOp::Asin
            | UnaryOp::Asinh
            | UnaryOp::Atan
            | UnaryOp::Atanh
            | UnaryOp::BesselI1e
            | UnaryOp::Conj
            | UnaryOp::Cosh
            | UnaryOp::Sinh
            | UnaryOp::Square
            | UnaryOp::ChloTan,
        ) => elementwise::same_type(t, 1, Elems::FLOAT_COMPLEX),
        OpKind::Unary(UnaryOp::AsinAcosKernel) => elementwise::same_type(t, 1, Elems::COMPLEX),
        OpKind::Unary(UnaryOp::Digamma | UnaryOp::Erf | UnaryOp::ErfInv | UnaryOp::Erfc | UnaryOp::Lgamma) => {
            elementwise::same_type(t, 1, Elems::FLOAT)
        }
        OpKind::Unary(UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf) => {
            elementwise::unary_to(t, Elems::FLOAT, |_| ElementType::I1)
        }
        OpKind::Binary(BinaryOp::NextAfter | BinaryOp::Polygamma | BinaryOp::Zeta) => {
            elementwise::same_type(t, 2, Elems::FLOAT)
        }
        OpKind::Binary(BinaryOp::Mulhi) => elementwise::same_type(t, 2, Elems::INT),
        OpKind::Chlo(ChloOp::ConstantLike) => chlo::constant_like(t),
        OpKind::Chlo(ChloOp::RaggedDot) => chlo::ragged_dot(t),
        OpKind::Chlo(ChloOp::Scan) => chlo::scan(t),
        OpKind::Chlo(ChloOp::TopK) => chlo::top_k(t),

        OpKind::Sdy(
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::ShardedToUnreduced
            | SdyOp::PropagationBarrier,
        ) => sdy::placed(t),
        // A token may be placed on one device.
        OpKind::Sdy(SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge | SdyOp::ShardingConstraint | SdyOp::Reshard) => {
            sdy::identity(t)
        }
        OpKind::Sdy(SdyOp::NamedComputation) => sdy::named_computation(t),
        OpKind::Sdy(SdyOp::ShardingGroup) => sdy::sharding_group(t),

        OpKind::Check(CheckOp::ExpectAlmostEq | CheckOp::ExpectClose | CheckOp::ExpectEq) => {
            t.operand_count(2)?;
            elementwise::same_type(t, 2, Elems::ANY)?;
            Ok(smallvec![])
        }
        OpKind::Check(
            CheckOp::ExpectAlmostEqConst | CheckOp::ExpectEqConst | CheckOp::ExpectSerializedEq | CheckOp::Print,
        ) => {
            t.operand_count(1)?;
            t.tensor(0, "operand")?;
            Ok(smallvec![])
        }
        OpKind::Check(CheckOp::Probe) => elementwise::same_type(t, 1, Elems::ANY),
        OpKind::Check(CheckOp::RunParallel) => control::declared(t),
    }
}
