//! Integers and arrays that are known before the program runs.

use meshwork_ir::op::{MovementOp, SourceOp};
use meshwork_ir::{Attr, Literal, Module, OpKind, ValueId};

/// The integers of `value`, if they are constants, however they are put together.
pub(super) fn integers(module: &Module, value: ValueId) -> Option<Vec<i64>> {
    let data = module.op(module.def_op(value)?);
    let count = || usize::try_from(module.ty(value).as_tensor()?.num_elements()?).ok();
    match data.kind() {
        OpKind::Source(SourceOp::Constant) => match data.attr("value") {
            Some(Attr::Dense(dense)) if dense.ty.elem.is_integer() && count()? <= 64 => {
                Some(dense.to_literal()?.to_i64s())
            }
            _ => None,
        },
        OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape) => {
            let of = integers(module, *data.operands().first()?)?;
            let count = count()?;
            match of.len() {
                1 if count <= 64 => Some(vec![of[0]; count]),
                n => (n == count).then_some(of),
            }
        }
        OpKind::Movement(MovementOp::Concatenate) if module.ty(value).dims().len() == 1 => {
            let parts = data.operands().iter().map(|&part| integers(module, part));
            Some(parts.collect::<Option<Vec<_>>>()?.concat())
        }
        _ => None,
    }
}

/// The elements of `value` in row-major order, if it is a constant, perhaps in another shape.
pub(super) fn elements(module: &Module, value: ValueId) -> Option<Literal> {
    let data = module.op(module.def_op(value)?);
    let total = |v: ValueId| module.ty(v).as_tensor().and_then(|ty| ty.num_elements());
    match data.kind() {
        OpKind::Source(SourceOp::Constant) => match data.attr("value") {
            Some(Attr::Dense(dense)) => dense.to_literal(),
            _ => None,
        },
        OpKind::Movement(MovementOp::Reshape) => elements(module, data.operands()[0]),
        // Dimensions are kept in order, so what adds none but of one element is a reshape.
        OpKind::Movement(MovementOp::BroadcastInDim) if total(data.operands()[0]) == total(value) => {
            let order = data.i64s("broadcast_dimensions")?;
            let is_sorted = order.is_sorted();
            if is_sorted { elements(module, data.operands()[0]) } else { None }
        }
        _ => None,
    }
}
