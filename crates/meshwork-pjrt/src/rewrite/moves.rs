//! Transposes, reshapes, broadcasts and slices that move nothing, or undo each other.

use meshwork_ir::build::Builder;
use meshwork_ir::op::MovementOp;
use meshwork_ir::{Module, OpId, OpKind, ValueId};

/// What the operand of `op` is made of, if that is an operation of `kind`.
fn source(module: &Module, op: OpId, kind: MovementOp) -> Option<OpId> {
    let def = module.def_op(*module.op(op).operands().first()?)?;
    (module.op(def).kind() == OpKind::Movement(kind)).then_some(def)
}

/// Replaces `op` by `value`, which has its type.
fn replace(module: &mut Module, op: OpId, value: ValueId) -> bool {
    let same = module.ty(module.op(op).results()[0]) == module.ty(value);
    if same {
        module.replace_op(op, &[value]);
    }
    same
}

/// A transpose of a transpose is one, or none.
pub(super) fn transpose(module: &mut Module, op: OpId) -> bool {
    let Some(inner) = source(module, op, MovementOp::Transpose) else { return false };
    let order = |op: OpId| module.op(op).i64s("permutation");
    let (Some(outer), Some(first)) = (order(op), order(inner)) else { return false };
    let both: Vec<i64> = outer.iter().map(|&d| first[d as usize]).collect();
    let x = module.op(inner).operands()[0];
    if both.is_sorted() {
        return replace(module, op, x);
    }
    let mut b = Builder::before(module, op);
    let Ok(value) = b.transpose(x, &both) else { return false };
    replace(module, op, value)
}

/// A reshape of a reshape is one, or none.
pub(super) fn reshape(module: &mut Module, op: OpId) -> bool {
    let Some(inner) = source(module, op, MovementOp::Reshape) else { return false };
    let x = module.op(inner).operands()[0];
    let ty = module.ty(module.op(op).results()[0]).clone();
    if *module.ty(x) == ty {
        return replace(module, op, x);
    }
    let mut b = Builder::before(module, op);
    let Ok(value) = b.reshape(x, ty.dims().to_vec()) else { return false };
    replace(module, op, value)
}

/// A broadcast that adds nothing but dimensions of one element is a reshape.
pub(super) fn broadcast(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (x, result) = (data.operands()[0], data.results()[0]);
    let elements = |v: ValueId| module.ty(v).as_tensor().and_then(|ty| ty.num_elements());
    let Some(order) = data.i64s("broadcast_dimensions") else { return false };
    let grows = elements(x).is_none() || elements(x) != elements(result);
    if grows || !order.is_sorted() || module.ty(x) == module.ty(result) {
        return false;
    }
    let dims = module.ty(result).dims().to_vec();
    let mut b = Builder::before(module, op);
    let Ok(value) = b.reshape(x, dims) else { return false };
    replace(module, op, value)
}

/// A slice of everything is nothing.
pub(super) fn slice(module: &mut Module, op: OpId) -> bool {
    let x = module.op(op).operands()[0];
    replace(module, op, x)
}
