//! Recognizing what the body of a reduction or a scatter does to each of its operands.

use meshwork_ir::op::BinaryOp;
use meshwork_ir::{BlockId, Module, OpKind};

/// How a body combines an old element with a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Combiner {
    Add,
    Multiply,
    Maximum,
    Minimum,
    /// The new element takes the place of the old one.
    Replace,
}

/// The combiner of result `index` of a body with arguments (old elements, new elements), if it is one of the known.
pub(super) fn recognise(module: &Module, body: BlockId, index: usize) -> Option<Combiner> {
    let args = module.block(body).args();
    let count = args.len() / 2;
    let (old, new) = (*args.get(index)?, *args.get(count + index)?);
    let returned = *module.returned(body).get(index)?;
    if returned == new {
        return Some(Combiner::Replace);
    }
    let op = module.op(module.def_op(returned)?);
    if op.operands() != [old, new] && op.operands() != [new, old] {
        return None;
    }
    match op.kind() {
        OpKind::Binary(BinaryOp::Add) => Some(Combiner::Add),
        OpKind::Binary(BinaryOp::Multiply) => Some(Combiner::Multiply),
        OpKind::Binary(BinaryOp::Maximum) => Some(Combiner::Maximum),
        OpKind::Binary(BinaryOp::Minimum) => Some(Combiner::Minimum),
        _ => None,
    }
}
