//! Data-flow edges: which values of a region op must have the same placement.
//!
//! An edge joins *sources* (operands of the op, operands of its terminators) with *targets* (results, block
//! arguments). One target, the *owner*, represents them all; an `sdy.data_flow_edge` on the owner carries
//! the placement.
//!
//! | op | edge | sources | owner | other targets |
//! |---|---|---|---|---|
//! | while | per result | operand, body return | result | cond argument, body argument |
//! | case | per result | return of each branch | result | |
//! | optimization_barrier | per result | operand | result | |
//! | named and manual computation | per argument | operand | argument | |
//! | named and manual computation | per result | body return | result | |

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{BlockId, Def, Module, OpId, OpKind, Use, ValueId, Values};
use smallvec::smallvec;

/// Whether data-flow edges belong to ops of this kind.
pub fn has_data_flow(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Control(ControlOp::While | ControlOp::Case | ControlOp::OptimizationBarrier)
            | OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation)
    )
}

/// The op that defines `value`, or whose region has it as an argument; `None` for arguments of no op.
pub fn owning_op(module: &Module, value: ValueId) -> Option<OpId> {
    match module.value(value).def() {
        Def::Result(op, _) => Some(op),
        Def::Arg(block, _) => module.block_parent_op(block),
    }
}

/// The owners of the edges of `op` that are block arguments.
pub fn argument_owners(module: &Module, op: OpId) -> Values {
    match module.op(op).kind() {
        OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => {
            body(module, op).map_or(Values::new(), |b| module.block(b).args().iter().copied().collect())
        }
        _ => Values::new(),
    }
}

/// The owners of the edges of `op` that are results.
pub fn result_owners(module: &Module, op: OpId) -> Values {
    if has_data_flow(module.op(op).kind()) { module.op(op).results().iter().copied().collect() } else { Values::new() }
}

/// The owner of the edge that `target` belongs to; `None` if it is not a target.
pub fn owner_of_target(module: &Module, target: ValueId) -> Option<ValueId> {
    let op = owning_op(module, target)?;
    match module.op(op).kind() {
        OpKind::Control(ControlOp::While) => match module.value(target).def() {
            Def::Result(..) => Some(target),
            Def::Arg(_, i) => module.op(op).results().get(i as usize).copied(),
        },
        OpKind::Control(ControlOp::Case | ControlOp::OptimizationBarrier) => module.def_op(target).map(|_| target),
        OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => Some(target),
        _ => None,
    }
}

/// The `sdy.data_flow_edge` on `owner`: its only user.
pub fn edge_of_owner(module: &Module, owner: ValueId) -> Option<OpId> {
    match module.value(owner).uses() {
        [only] if module.op(only.op).kind() == SdyOp::DataFlowEdge => Some(only.op),
        _ => None,
    }
}

/// The `sdy.data_flow_edge` that `target` belongs to.
pub fn edge_of_target(module: &Module, target: ValueId) -> Option<OpId> {
    edge_of_owner(module, owner_of_target(module, target)?)
}

/// The `sdy.data_flow_edge` that the operand slot `source` flows into.
///
/// As in Shardy, operands of named and manual computations are not found: their edge looks at them when its own
/// turn comes, and is not woken by them.
pub fn edge_of_source(module: &Module, source: Use) -> Option<OpId> {
    let user = module.op(source.op);
    let is_return = user.kind().is_terminator();
    let op = if is_return { module.parent_op(source.op)? } else { source.op };
    let found = match module.op(op).kind() {
        OpKind::Control(ControlOp::While | ControlOp::Case | ControlOp::OptimizationBarrier) => true,
        OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => is_return,
        _ => false,
    };
    let owner = *module.op(op).results().get(source.operand as usize)?;
    if found { edge_of_owner(module, owner) } else { None }
}

/// The sources of the edge of `owner`, in Shardy's order.
pub fn edge_sources(module: &Module, owner: ValueId) -> Values {
    let Some(op) = owning_op(module, owner) else { return Values::new() };
    let data = module.op(op);
    match (data.kind(), module.value(owner).def()) {
        (OpKind::Control(ControlOp::While), Def::Result(_, i)) => {
            let returned = module.body_of(op, 1).and_then(|b| module.returned(b).get(i as usize));
            data.operands().get(i as usize).into_iter().chain(returned).copied().collect()
        }
        (OpKind::Control(ControlOp::Case), Def::Result(_, i)) => {
            let branch = |index| module.returned(module.body_of(op, index)?).get(i as usize).copied();
            (0..data.regions().len()).filter_map(branch).collect()
        }
        (OpKind::Control(ControlOp::OptimizationBarrier), Def::Result(_, i)) => {
            data.operands().get(i as usize).into_iter().copied().collect()
        }
        (OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation), Def::Arg(_, i)) => {
            data.operands().get(i as usize).into_iter().copied().collect()
        }
        (OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation), Def::Result(_, i)) => {
            let returned = body(module, op).and_then(|b| module.returned(b).get(i as usize));
            returned.into_iter().copied().collect()
        }
        _ => Values::new(),
    }
}

/// The targets of the edge of `owner` other than the owner itself.
pub fn non_owner_targets(module: &Module, owner: ValueId) -> Values {
    let Def::Result(op, i) = module.value(owner).def() else { return Values::new() };
    if module.op(op).kind() != ControlOp::While {
        return Values::new();
    }
    let argument = |region| module.block(module.body_of(op, region)?).args().get(i as usize).copied();
    match (argument(0), argument(1)) {
        (Some(cond), Some(body)) => smallvec![cond, body],
        _ => Values::new(),
    }
}

fn body(module: &Module, op: OpId) -> Option<BlockId> {
    module.body_of(op, 0)
}
