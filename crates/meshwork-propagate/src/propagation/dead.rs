//! Which ops may be removed because nothing uses them, as MLIR's greedy driver decides it.

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, Walk};

/// Whether `op` has no uses and no effects.
pub fn is_trivially_dead(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    data.results().iter().all(|&v| module.value(v).uses().is_empty())
        && !data.kind().is_terminator()
        && match effects(module, op) {
            Effects::Free => true,
            Effects::OfRegions => {
                module.ops_below(op, Walk::PreOrder).into_iter().all(|inner| effects(module, inner) != Effects::Some)
            }
            Effects::Some => false,
        }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effects {
    Free,
    /// Those of the ops in its regions.
    OfRegions,
    Some,
}

fn effects(module: &Module, op: OpId) -> Effects {
    let data = module.op(op);
    match data.kind() {
        OpKind::Control(ControlOp::If | ControlOp::Case | ControlOp::While)
        | OpKind::Body(_)
        | OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => Effects::OfRegions,
        // Constraints and edges say something about other values even when unused.
        OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge) => Effects::Some,
        OpKind::Sdy(op) if op.is_collective() => Effects::Some,
        OpKind::Control(ControlOp::CustomCall)
            if data.attr("has_side_effect").and_then(Attr::as_bool) == Some(false) =>
        {
            Effects::Free
        }
        OpKind::Control(ControlOp::HloReturn) | OpKind::Sdy(SdyOp::Return) => Effects::Free,
        kind if kind.is_pure() => Effects::Free,
        _ => Effects::Some,
    }
}
