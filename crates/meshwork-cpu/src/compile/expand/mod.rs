//! Operations that are written as others: what they stand for has kernels already.

mod bodies;
mod calls;
mod folds;
mod moving;
mod next;
mod normalize;
mod order;
mod products;
mod truth;

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{BinaryOp, BodyOp, ChloOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MixedOp, MovementOp};
use meshwork_ir::transform::canonicalize::Pattern;
use meshwork_ir::{Attr, Module, OpId, OpKind, Scalar, ValueId};

/// Which operation is written how.
pub(crate) const PATTERNS: &[(OpKind, Pattern)] = &[
    (OpKind::Dynamic(DynamicOp::BroadcastInDim), moving::broadcast_in_dim),
    (OpKind::Dynamic(DynamicOp::Conv), moving::convolution),
    (OpKind::Dynamic(DynamicOp::Gather), moving::gather),
    (OpKind::Dynamic(DynamicOp::Iota), moving::iota),
    (OpKind::Dynamic(DynamicOp::Pad), moving::pad),
    (OpKind::Dynamic(DynamicOp::Reshape), moving::reshape),
    (OpKind::Dynamic(DynamicOp::Slice), moving::slice),
    (OpKind::Movement(MovementOp::GetDimensionSize), moving::dimension_size),
    (OpKind::Movement(MovementOp::TorchIndexSelect), moving::index_select),
    (OpKind::Chlo(ChloOp::ConstantLike), moving::constant_like),
    (OpKind::Contract(ContractOp::Einsum), products::einsum),
    (OpKind::Contract(ContractOp::UnaryEinsum), products::einsum),
    (OpKind::Chlo(ChloOp::RaggedDot), products::ragged),
    (OpKind::Contract(ContractOp::Dot), products::mixed),
    (OpKind::Contract(ContractOp::DotGeneral), products::mixed),
    (OpKind::Contract(ContractOp::Convolution), products::mixed),
    (OpKind::Linalg(LinalgOp::Cholesky), products::widened),
    (OpKind::Linalg(LinalgOp::TriangularSolve), products::widened),
    (OpKind::Chlo(ChloOp::TopK), calls::top_k_of_narrow),
    (OpKind::Linalg(LinalgOp::BatchNormInference), normalize::inference),
    (OpKind::Linalg(LinalgOp::BatchNormTraining), normalize::training),
    (OpKind::Linalg(LinalgOp::BatchNormGrad), normalize::gradient),
    (OpKind::Body(BodyOp::Map), bodies::map),
    (OpKind::Body(BodyOp::Reduce), folds::reduce),
    (OpKind::Body(BodyOp::ReduceWindow), folds::running),
    (OpKind::Chlo(ChloOp::Scan), bodies::scan),
    (OpKind::Control(ControlOp::CustomCall), calls::known),
    (OpKind::Mixed(MixedOp::Compare), compare),
    (OpKind::Binary(BinaryOp::NextAfter), next::half),
];

fn compare(module: &mut Module, op: OpId) -> bool {
    order::compare(module, op) || truth::compare(module, op)
}

/// Replaces `op` by what `build` makes of it, if that can be made.
pub(super) fn replace(
    module: &mut Module,
    op: OpId,
    build: impl FnOnce(&mut Builder<'_>) -> Result<Option<Vec<ValueId>>, BuildError>,
) -> bool {
    let loc = module.op(op).loc.clone();
    let mut builder = Builder::before(module, op);
    builder.set_loc(loc);
    // What was begun in vain has no use and goes with other dead operations.
    let Ok(Some(values)) = build(&mut builder) else { return false };
    replace_by(module, op, &values)
}

/// Replaces `op` by `values`, if they are of its types.
fn replace_by(module: &mut Module, op: OpId, values: &[ValueId]) -> bool {
    let results = module.op(op).results();
    if results.len() != values.len() || results.iter().zip(values).any(|(&r, &v)| module.ty(r) != module.ty(v)) {
        return false;
    }
    module.replace_op(op, values);
    true
}

/// The integers of `value`, if it is a constant.
fn integers(module: &Module, value: ValueId) -> Option<Vec<i64>> {
    match module.op(module.def_op(value)?).attr("value")? {
        Attr::Dense(dense) => Some(dense.to_literal()?.to_i64s()),
        _ => None,
    }
}

/// The element that `value` is, if it is a constant of one.
fn scalar(module: &Module, value: ValueId) -> Option<Scalar> {
    match module.op(module.def_op(value)?).attr("value")? {
        Attr::Dense(dense) => dense.to_literal().filter(|l| l.len() == 1).map(|l| l.get(0)),
        _ => None,
    }
}
