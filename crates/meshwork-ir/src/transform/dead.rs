//! Removing operations whose results are unused.

use crate::op::{ControlOp, SdyOp};
use crate::{Module, OpId, OpKind, Walk};

/// Whether `op` does nothing but compute its results, so that it may be removed or shared.
///
/// An operation with bodies has the effects of the operations in them.
pub fn is_effect_free(module: &Module, op: OpId) -> bool {
    module.ops_below(op, Walk::PreOrder).into_iter().all(|inner| {
        let data = module.op(inner);
        match data.kind() {
            OpKind::Control(ControlOp::While | ControlOp::If | ControlOp::Case)
            | OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => true,
            OpKind::Control(ControlOp::CustomCall) => !data.flag("has_side_effect"),
            // The terminator of a body goes with it.
            kind => kind.is_pure() || (kind.is_terminator() && inner != op),
        }
    })
}

/// Whether `op` may be erased: no use of its results and no other effect.
pub fn is_dead(module: &Module, op: OpId) -> bool {
    let unused = module.op(op).results().iter().all(|&r| module.value(r).uses().is_empty());
    unused && is_effect_free(module, op)
}

/// Erases dead operations, and those that die with them. Tells whether there were any.
pub fn remove_dead(module: &mut Module) -> bool {
    // Users come after what they use, so one walk from the end sees most of them; operands are looked at again.
    let mut work = module.all_ops(Walk::PreOrder);
    let mut changed = false;
    while let Some(op) = work.pop() {
        if module.is_erased(op) || !is_dead(module, op) {
            continue;
        }
        let inside = module.ops_below(op, Walk::PreOrder);
        let operands = inside.iter().flat_map(|&o| module.op(o).operands().iter().copied());
        let sources: Vec<OpId> = operands.filter_map(|v| module.def_op(v)).collect();
        module.erase(op);
        changed = true;
        work.extend(sources);
    }
    changed
}
