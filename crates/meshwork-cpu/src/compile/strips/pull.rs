//! What the strips compute for themselves instead of reading it: masks, and whatever else is as large as a matrix of scores
//! and cheaper to compute than to read.

use meshwork_ir::op::{MovementOp, SourceOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};

use super::find::{Component, count};
use super::labels::{Labels, from_result};
use crate::fuse::{cost, has_lanes, is_arithmetic};

/// Operations that are computed in the strips for one operand.
const MOST: u32 = 24;

/// Cost of an operation up to which it is computed in the strips.
const CHEAP: u32 = 4;

/// The op that makes `value`, if the strips are to do it.
pub(super) fn pulled(module: &Module, component: &Component, value: ValueId, labels: &Labels) -> Option<OpId> {
    let mut budget = MOST;
    let op = module.def_op(value)?;
    (is_wanted(module, component, value) && fits(module, component, (value, labels), &mut budget)).then_some(op)
}

/// Whether `value` is a number repeated, a count, or as large as a matrix of the component and cheap.
fn is_wanted(module: &Module, component: &Component, value: ValueId) -> bool {
    let Some(op) = module.def_op(value).filter(|_| !component.is_inside(module, value)) else { return false };
    let data = module.op(op);
    if !data.results().iter().chain(data.operands()).all(|&v| module.ty(v).elem().is_some_and(has_lanes)) {
        return false;
    }
    let large = count(module, value) * 2 >= component.matrix;
    match data.kind() {
        OpKind::Source(SourceOp::Constant) => is_splat(module, op),
        OpKind::Source(SourceOp::Iota) => true,
        OpKind::Movement(MovementOp::BroadcastInDim) => large || is_repeated(module, data.operands()[0]),
        OpKind::Movement(MovementOp::Transpose | MovementOp::Reshape) => large,
        kind => large && is_arithmetic(module, op) && cost(kind) <= CHEAP,
    }
}

/// Whether what is wanted for `value` takes no more operations than are left.
fn fits(module: &Module, component: &Component, (value, labels): (ValueId, &Labels), budget: &mut u32) -> bool {
    if !is_wanted(module, component, value) {
        return true;
    }
    let Some(op) = module.def_op(value) else { return true };
    if *budget == 0 {
        return false;
    }
    *budget -= 1;
    let data = module.op(op);
    if data.operands().is_empty() {
        return true;
    }
    let Some(carried) = from_result(module, op, labels) else { return false };
    data.operands().iter().zip(&carried.operands).all(|(&v, l)| fits(module, component, (v, l), budget))
}

fn is_repeated(module: &Module, value: ValueId) -> bool {
    module.def_op(value).is_some_and(|op| is_splat(module, op))
}

fn is_splat(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    data.kind() == OpKind::Source(SourceOp::Constant)
        && matches!(data.attr("value"), Some(Attr::Dense(dense)) if dense.splat_bytes().is_some())
}
