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
//! use meshwork_ir::build::FuncBuilder;
//! use meshwork_ir::infer::infer_op;
//! use meshwork_ir::{ElementType, Module, Type};
//!
//! let mut module = Module::new();
//! let mut f = FuncBuilder::new(&mut module, "main", [Type::tensor([2, 3], ElementType::F32)]);
//! let x = f.arg(0);
//! let turned = f.transpose(x, &[1, 0])?;
//! let op = f.module().def_op(turned).expect("the result of an operation");
//! assert_eq!(infer_op(f.module(), op)?[0].to_string(), "tensor<3x2xf32>");
//! # Ok::<(), Box<dyn std::error::Error>>(())
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

use std::ops::{Deref, Index};

use smallvec::SmallVec;

use check::Elems;
pub(crate) use check::{bounds, duplicate, type_list, types_agree};
pub use error::InferError;

use crate::module::TypeId;
use crate::op::{
    BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp, SdyOp,
    SourceOp, TokenOp,
};
use crate::{AttrDict, ElementType, Module, OpId, OpKind, RegionId, TensorType, Type, ValueId};

/// Result types of an operation.
pub type Types = SmallVec<[Type; 1]>;

/// A result type that a rule finds.
#[derive(Clone, Debug)]
pub(crate) enum ResultType {
    /// A type that the module has.
    Known(TypeId),
    /// A type that may be new to it.
    New(Type),
}

/// The result types that a rule finds: nearly always one.
#[derive(Clone, Debug)]
pub(crate) enum ResultTypes {
    One(ResultType),
    Several(Vec<ResultType>),
}

impl Deref for ResultTypes {
    type Target = [ResultType];

    fn deref(&self) -> &[ResultType] {
        match self {
            ResultTypes::One(result) => std::slice::from_ref(result),
            ResultTypes::Several(results) => results,
        }
    }
}

impl<R: Into<ResultType>> From<R> for ResultTypes {
    fn from(result: R) -> ResultTypes {
        ResultTypes::One(result.into())
    }
}

impl FromIterator<ResultType> for ResultTypes {
    fn from_iter<I: IntoIterator<Item = ResultType>>(results: I) -> ResultTypes {
        ResultTypes::Several(results.into_iter().collect())
    }
}

/// What is wrong, kept apart so that passing on what is right costs little.
pub(crate) type Wrong = Box<InferError>;

/// What a rule says: the result types, or what is wrong.
pub(crate) type Inferred = Result<ResultTypes, Wrong>;

impl From<Type> for ResultType {
    fn from(ty: Type) -> ResultType {
        ResultType::New(ty)
    }
}

impl ResultType {
    /// The type, of an operation of `module`.
    pub(crate) fn ty<'a>(&'a self, module: &'a Module) -> &'a Type {
        match self {
            ResultType::Known(id) => module.context.ty(*id),
            ResultType::New(ty) => ty,
        }
    }
}

/// The types of some values.
#[derive(Clone, Copy)]
pub(crate) struct TypesOf<'a> {
    module: &'a Module,
    values: &'a [ValueId],
}

impl<'a> TypesOf<'a> {
    fn len(self) -> usize {
        self.values.len()
    }

    fn get(self, index: usize) -> Option<&'a Type> {
        self.values.get(index).map(|&v| self.module.ty(v))
    }

    fn id(self, index: usize) -> TypeId {
        self.module.type_id(self.values[index])
    }

    fn iter(self) -> impl ExactSizeIterator<Item = &'a Type> + DoubleEndedIterator + Clone {
        self.values.iter().map(move |&v| self.module.ty(v))
    }

    /// The type of the value, if it is the only one.
    fn only(self) -> Option<&'a Type> {
        self.get(0).filter(|_| self.len() == 1)
    }

    /// The types as results.
    fn same(self) -> ResultTypes {
        self.values.iter().map(|&v| ResultType::Known(self.module.type_id(v))).collect()
    }

    /// Whether they are as many as `others`, and each can be the same at run time.
    fn agree(self, others: TypesOf<'_>) -> bool {
        self.len() == others.len()
            && (0..self.len()).all(|i| self.id(i) == others.id(i) || types_agree(&self[i], &others[i]))
    }
}

impl Index<usize> for TypesOf<'_> {
    type Output = Type;

    fn index(&self, index: usize) -> &Type {
        self.module.ty(self.values[index])
    }
}

/// What a type rule looks at: an operation of a module, or one that it is about to get.
#[derive(Clone, Copy)]
pub(crate) struct OpTypes<'a> {
    pub(crate) module: &'a Module,
    pub(crate) kind: OpKind,
    operands: TypesOf<'a>,
    pub(crate) attrs: &'a AttrDict,
    /// Its bodies; empty while there are none.
    pub(crate) regions: &'a [RegionId],
    /// Declared result types; empty while there are none.
    pub(crate) wanted: &'a [TypeId],
}

impl<'a> OpTypes<'a> {
    /// An operation without bodies, with these result types declared.
    pub(crate) fn new(
        module: &'a Module,
        kind: OpKind,
        operands: &'a [ValueId],
        attrs: &'a AttrDict,
        wanted: &'a [TypeId],
    ) -> OpTypes<'a> {
        OpTypes { module, kind, operands: TypesOf { module, values: operands }, attrs, regions: &[], wanted }
    }

    /// A result of the type of operand `index`.
    fn same(&self, index: usize) -> ResultType {
        ResultType::Known(self.operands.id(index))
    }

    /// A result that is a tensor of these extents.
    fn result(&self, dims: &[i64], elem: ElementType) -> ResultType {
        match self.module.context.find(dims, elem) {
            Some(id) => ResultType::Known(id),
            None => ResultType::New(Type::tensor(dims.iter().copied(), elem)),
        }
    }

    /// A result of the shape of `x` and elements of type `elem`.
    fn result_like(&self, x: &TensorType, elem: ElementType) -> ResultType {
        if x.encoding.is_none() { self.result(&x.dims, elem) } else { ResultType::New(x.with_elem(elem).into()) }
    }

    /// The elements of operand `index`, if it is an integer constant.
    fn constant(&self, index: usize) -> Option<Vec<i64>> {
        let op = self.module.op(self.module.def_op(*self.operands.values.get(index)?)?);
        match (op.kind(), op.attr("value")) {
            (OpKind::Source(SourceOp::Constant), Some(crate::Attr::Dense(d))) => check::dense_ints(d),
            _ => None,
        }
    }
}

/// The type rule of operation `op` of `module`, applied to the operation as it is.
pub fn infer_op(module: &Module, op: OpId) -> Result<Types, InferError> {
    let types = infer_results(module, op).map_err(|wrong| *wrong)?;
    Ok(types.iter().map(|result| result.ty(module).clone()).collect())
}

/// [`infer_op`], with the numbers of types that the module has.
pub(crate) fn infer_results(module: &Module, op: OpId) -> Inferred {
    let op = module.op(op);
    let wanted: SmallVec<[TypeId; 2]> = op.results().iter().map(|&v| module.type_id(v)).collect();
    infer(&OpTypes { regions: op.regions(), ..OpTypes::new(module, op.kind(), op.operands(), &op.attrs, &wanted) })
}

/// The result types of an operation, or what is wrong with its operands, attributes or bodies.
#[inline]
pub(crate) fn infer(t: &OpTypes) -> Inferred {
    let check = |ty: &Type| match ty {
        Type::Tensor(tensor) if !tensor.fits() => Err(t.mismatch(too_many_bytes(ty))),
        _ => Ok(()),
    };
    if t.module.context.is_oversized() {
        t.operands.iter().chain(t.wanted.iter().map(|&id| t.module.context.ty(id))).try_for_each(check)?;
    }
    let types = rule(t)?;
    match &types {
        ResultTypes::One(ResultType::Known(_)) => {}
        ResultTypes::One(ResultType::New(ty)) => check(ty)?,
        ResultTypes::Several(results) => {
            for result in results {
                if let ResultType::New(ty) = result {
                    check(ty)?;
                }
            }
        }
    }
    Ok(types)
}

/// What is wrong with a type that does not [fit](TensorType::fits).
pub(crate) fn too_many_bytes(ty: &Type) -> String {
    format!("has a value of type {ty}: more than {} bytes", crate::MOST_BYTES)
}

fn rule(t: &OpTypes) -> Inferred {
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
                Ok(ResultTypes::Several(vec![]))
            }
            CheckOp::ExpectAlmostEqConst | CheckOp::ExpectEqConst | CheckOp::ExpectSerializedEq | CheckOp::Print => {
                t.operand_count(1)?;
                t.tensor(0, "operand")?;
                Ok(ResultTypes::Several(vec![]))
            }
            CheckOp::Probe => elementwise::same_type(t, 1, Elems::ANY),
            CheckOp::RunParallel => control::declared(t),
        },
        OpKind::Unregistered => control::declared(t),
    }
}
