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

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use check::Elems;
pub(crate) use check::{bounds, duplicate, type_list, types_agree};
pub use error::InferError;

use crate::op::{
    BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp, SdyOp,
    SourceOp, TokenOp,
};
use crate::{AttrDict, Dims, ElementType, Module, OpId, OpKind, RegionId, TensorType, Type, ValueId};

/// Result types of an operation.
pub type Types = SmallVec<[Type; 1]>;

/// What a body takes and returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Body<'a> {
    /// Types of its arguments.
    pub args: &'a [&'a Type],
    /// Types it returns; `None` while it has no terminator.
    pub returns: Option<&'a [&'a Type]>,
}

/// The types that a body takes, and those it returns.
type Signature<'m> = (SmallVec<[&'m Type; 4]>, Option<SmallVec<[&'m Type; 2]>>);

fn signature(module: &Module, region: RegionId) -> Signature<'_> {
    let Some(&block) = module.region(region).blocks().first() else { return Signature::default() };
    let ty = |&value: &ValueId| module.ty(value);
    let args = module.block(block).args().iter().map(ty).collect();
    (args, module.terminator(block).map(|t| module.op(t).operands().iter().map(ty).collect()))
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

    /// The tensor type of these extents: the one that the module has already, if it does.
    fn tensor_type(&self, dims: Dims, elem: ElementType) -> Type {
        let ty = TensorType { dims, elem, encoding: None };
        let known = self.values.and_then(|(module, _)| module.context.find(&ty));
        Type::Tensor(known.unwrap_or_else(|| Arc::new(ty)))
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

/// The type rule of operation `op` of `module`, applied to the operation as it is.
pub fn infer_op(module: &Module, op: OpId) -> Result<Types, InferError> {
    let data = module.op(op);
    let (mut operands, mut wanted) = (SmallVec::<[&Type; 4]>::new(), SmallVec::<[&Type; 2]>::new());
    data.operands().iter().for_each(|&v| operands.push(module.ty(v)));
    data.results().iter().for_each(|&v| wanted.push(module.ty(v)));
    let signatures: SmallVec<[Signature; 2]> = data.regions().iter().map(|&r| signature(module, r)).collect();
    let bodies: SmallVec<[Body; 2]> =
        signatures.iter().map(|(args, returns)| Body { args, returns: returns.as_deref() }).collect();
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
    // Types are interned: those of results and further operands are often the first one.
    let first = match t.operands.first() {
        Some(Type::Tensor(ty)) => Arc::as_ptr(ty),
        _ => std::ptr::null(),
    };
    let too_large = |ty: &Type| matches!(ty, Type::Tensor(ty) if Arc::as_ptr(ty) != first && !ty.fits());
    let refuse = |ty: &Type| InferError::Mismatch { op: t.kind.name(), detail: too_many_bytes(ty) };
    if let Some(ty) = t.operands.first().filter(|ty| matches!(ty, Type::Tensor(ty) if !ty.fits())) {
        return Err(refuse(ty));
    }
    if let Some(ty) = t.operands.iter().skip(1).chain(t.wanted).find(|ty| too_large(ty)) {
        return Err(refuse(ty));
    }
    let types = rule(t)?;
    types.iter().find(|ty| too_large(ty)).map_or(Ok(()), |ty| Err(refuse(ty)))?;
    Ok(types)
}

/// What is wrong with a type that does not [fit](TensorType::fits).
pub(crate) fn too_many_bytes(ty: &Type) -> String {
    format!("has a value of type {ty}: more than {} bytes", crate::MOST_BYTES)
}

fn rule(t: &OpTypes) -> Result<Types, InferError> {
    match t.kind {
        OpKind::Unary(op) => elementwise::unary(t, op),
        OpKind::Binary(op) => elementwise::binary(t, op),
        OpKind::Mixed(op) => match op {
            MixedOp::Clamp => elementwise::clamp(t),
            MixedOp::Compare => elementwise::compare(t),
            MixedOp::Convert => elementwise::convert(t),
            MixedOp::ReducePrecision => elementwise::reduce_precision(t),
            MixedOp::Select => elementwise::select(t),
            // Quantized types are refused before they get here.
            MixedOp::UniformDequantize | MixedOp::UniformQuantize => control::declared(t),
        },
        OpKind::Source(op) => match op {
            SourceOp::Constant => source::constant(t),
            SourceOp::Iota => source::iota(t),
            SourceOp::PartitionId | SourceOp::ReplicaId => source::device_number(t),
            SourceOp::Rng => source::rng(t),
            SourceOp::RngBitGenerator => source::rng_bit_generator(t),
        },
        OpKind::Movement(op) => match op {
            MovementOp::BitcastConvert => movement::bitcast_convert(t),
            MovementOp::Broadcast => movement::broadcast(t),
            MovementOp::BroadcastInDim => movement::broadcast_in_dim(t),
            MovementOp::Concatenate => movement::concatenate(t),
            MovementOp::DynamicSlice => index::dynamic_slice(t),
            MovementOp::DynamicUpdateSlice => index::dynamic_update_slice(t),
            MovementOp::Gather => index::gather(t),
            MovementOp::GetDimensionSize => movement::get_dimension_size(t),
            MovementOp::Pad => movement::pad(t),
            MovementOp::Reshape => movement::reshape(t),
            MovementOp::Reverse => movement::reverse(t),
            MovementOp::SetDimensionSize => movement::set_dimension_size(t),
            MovementOp::Slice => movement::slice(t),
            MovementOp::TorchIndexSelect => movement::torch_index_select(t),
            MovementOp::Transpose => movement::transpose(t),
        },
        OpKind::Dynamic(op) => match op {
            DynamicOp::BroadcastInDim => dynamic::broadcast_in_dim(t),
            DynamicOp::Conv => contract::dynamic_conv(t),
            DynamicOp::Gather => index::dynamic_gather(t),
            DynamicOp::Iota => dynamic::iota(t),
            DynamicOp::Pad => dynamic::pad(t),
            DynamicOp::Reshape => dynamic::reshape(t),
            DynamicOp::Slice => dynamic::slice(t),
        },
        OpKind::Contract(op) => match op {
            ContractOp::Convolution => contract::convolution(t),
            ContractOp::Dot => contract::dot(t),
            ContractOp::DotGeneral => contract::dot_general(t),
            ContractOp::Einsum => contract::einsum(t, 2),
            ContractOp::UnaryEinsum => contract::einsum(t, 1),
        },
        OpKind::Linalg(op) => match op {
            LinalgOp::Cholesky => linalg::cholesky(t),
            LinalgOp::TriangularSolve => linalg::triangular_solve(t),
            LinalgOp::Fft => linalg::fft(t),
            LinalgOp::BatchNormGrad => {
                linalg::batch_norm(t, &["operand", "scale", "mean", "variance", "grad_output"], &[0, 4], 3)
            }
            LinalgOp::BatchNormInference => {
                linalg::batch_norm(t, &["operand", "scale", "offset", "mean", "variance"], &[0], 1)
            }
            LinalgOp::BatchNormTraining => linalg::batch_norm(t, &["operand", "scale", "offset"], &[0], 3),
        },
        OpKind::Body(op) => match op {
            BodyOp::Map => reduce::map(t),
            BodyOp::Reduce => reduce::reduce(t),
            BodyOp::ReduceWindow => window::reduce_window(t),
            BodyOp::Scatter => index::scatter(t),
            BodyOp::SelectAndScatter => window::select_and_scatter(t),
            BodyOp::Sort => reduce::sort(t),
        },
        OpKind::Control(op) => match op {
            ControlOp::Case => control::branches(t, ElementType::I32),
            ControlOp::If => control::branches(t, ElementType::I1),
            ControlOp::While => control::while_loop(t),
            ControlOp::OptimizationBarrier => control::pass_through(t),
            // The verifier looks at these itself.
            ControlOp::Module
            | ControlOp::Func
            | ControlOp::Call
            | ControlOp::FuncReturn
            | ControlOp::HloReturn
            | ControlOp::AsyncDone
            | ControlOp::AsyncStart
            | ControlOp::Composite
            | ControlOp::CustomCall => control::declared(t),
        },
        OpKind::Token(op) => match op {
            TokenOp::AfterAll => control::after_all(t),
            TokenOp::CreateToken => control::create_token(t),
            TokenOp::GetTupleElement => control::get_tuple_element(t),
            TokenOp::Infeed | TokenOp::Recv => control::receive(t),
            TokenOp::Outfeed => control::outfeed(t),
            TokenOp::Send => control::send(t),
            TokenOp::Tuple => control::tuple(t),
        },
        OpKind::Collective(op) => match op {
            CollectiveOp::AllGather => collective::all_gather(t),
            CollectiveOp::AllReduce => collective::all_reduce(t),
            CollectiveOp::AllToAll => collective::all_to_all(t),
            CollectiveOp::CollectiveBroadcast => collective::collective_broadcast(t),
            CollectiveOp::CollectivePermute => collective::collective_permute(t),
            CollectiveOp::CollectiveReduce => collective::collective_reduce(t),
            CollectiveOp::CrossReplicaSum => collective::cross_replica_sum(t),
            CollectiveOp::RaggedAllToAll => collective::ragged_all_to_all(t),
            CollectiveOp::ReduceScatter => collective::reduce_scatter(t),
        },
        OpKind::Chlo(op) => match op {
            ChloOp::Constant => source::constant(t),
            ChloOp::ConstantLike => chlo::constant_like(t),
            ChloOp::RaggedDot => chlo::ragged_dot(t),
            ChloOp::Scan => chlo::scan(t),
            ChloOp::TopK => chlo::top_k(t),
        },
        OpKind::Sdy(op) => match op {
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::ShardedToUnreduced
            | SdyOp::PropagationBarrier => sdy::placed(t),
            // A token may be placed on one device.
            SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge | SdyOp::ShardingConstraint | SdyOp::Reshard => {
                sdy::identity(t)
            }
            SdyOp::Constant => source::constant(t),
            SdyOp::NamedComputation => sdy::named_computation(t),
            SdyOp::ShardingGroup => sdy::sharding_group(t),
            SdyOp::Return | SdyOp::Mesh | SdyOp::ManualComputation => control::declared(t),
        },
        OpKind::Check(op) => match op {
            CheckOp::ExpectAlmostEq | CheckOp::ExpectClose | CheckOp::ExpectEq => {
                t.operand_count(2)?;
                elementwise::same_type(t, 2, Elems::ANY)?;
                Ok(smallvec![])
            }
            CheckOp::ExpectAlmostEqConst | CheckOp::ExpectEqConst | CheckOp::ExpectSerializedEq | CheckOp::Print => {
                t.operand_count(1)?;
                t.tensor(0, "operand")?;
                Ok(smallvec![])
            }
            CheckOp::Probe => elementwise::same_type(t, 1, Elems::ANY),
            CheckOp::RunParallel => control::declared(t),
        },
        OpKind::Unregistered => control::declared(t),
    }
}
