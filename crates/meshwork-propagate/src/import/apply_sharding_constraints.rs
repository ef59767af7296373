//! Copies closed constraints to the values they constrain.
//!
//! - A fully closed `sdy.sharding_constraint`, or in_sharding of a manual computation, becomes the placement of
//!   its input if that has none and no other constraint on it wants another one. If the input is the target of
//!   a data-flow edge, all its other uses are made to go through the constraint instead, so that the other
//!   targets of the edge stay free.
//! - If an unplaced value goes through a chain of two or more constraints, each used once but the last, later
//!   uses of the value in the same block use the end of the chain.

use std::sync::Arc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, OpSpec, ValueId, Walk};
use meshwork_mesh::Sharding;

use super::add_data_flow_edges::{insert_after_value, replace_other_uses};
use crate::program::{edge_of_target, set_sharding, shardable_value, sharding_list, sharding_of};

/// Copies closed constraints to the values they constrain. Returns the constraints that were copied to their input,
/// in order.
pub fn apply_sharding_constraints(module: &mut Module) -> Vec<OpId> {
    let mut applied = vec![];
    let mut order = BlockOrder::default();
    for op in module.all_ops(Walk::PostOrder) {
        match module.op(op).kind() {
            OpKind::Sdy(SdyOp::ShardingConstraint) => {
                use_end_of_chain(module, op, &mut order);
                let input = module.op(op).operands()[0];
                if let Some(sharding) = constraint(module, op, 0).filter(|s| should_apply(module, input, s)) {
                    if is_edge(module, input) {
                        module.detach(op);
                        insert_after_value(module, input, op);
                        order.clear();
                        redirect(module, input, op, &sharding);
                    } else {
                        set_sharding(module, input, sharding);
                        applied.push(op);
                    }
                }
            }
            OpKind::Sdy(SdyOp::ManualComputation) => {
                for i in 0..module.op(op).operands().len() {
                    let input = module.op(op).operands()[i];
                    let Some(sharding) = constraint(module, op, i).filter(|s| should_apply(module, input, s)) else {
                        continue;
                    };
                    if is_edge(module, input) {
                        let spec = OpSpec::new(SdyOp::ShardingConstraint)
                            .operands([input])
                            .results([module.ty(input).clone()])
                            .attr("sharding", Attr::Sharding(Arc::new(sharding.clone())))
                            .loc(module.op(op).loc.clone());
                        let new = module.create(spec);
                        insert_after_value(module, input, new);
                        order.clear();
                        redirect(module, input, new, &sharding);
                    } else {
                        set_sharding(module, input, sharding);
                    }
                }
            }
            _ => {}
        }
    }
    applied
}

/// The placement that `user` wants for operand `operand`, if it is a constraint.
fn constraint(module: &Module, user: OpId, operand: usize) -> Option<Sharding> {
    match module.op(user).kind() {
        OpKind::Sdy(SdyOp::ShardingConstraint) => module.op(user).attr("sharding")?.as_sharding().cloned(),
        OpKind::Sdy(SdyOp::ManualComputation) => sharding_list(module, user, "in_shardings")?.get(operand).cloned(),
        _ => None,
    }
}

fn is_constraint(module: &Module, op: OpId) -> bool {
    matches!(module.op(op).kind(), OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::ManualComputation))
}

fn should_apply(module: &Module, input: ValueId, sharding: &Sharding) -> bool {
    let agrees = |op: OpId, operand: u32| {
        !is_constraint(module, op) || constraint(module, op, operand as usize).as_ref() == Some(sharding)
    };
    shardable_value(module, input).is_some()
        && sharding_of(module, input).is_none()
        && sharding.is_fully_closed()
        && module.value(input).uses().iter().all(|u| agrees(u.op, u.operand))
}

/// Whether `value` is a data-flow edge or a target of one.
fn is_edge(module: &Module, value: ValueId) -> bool {
    let is_edge_op = |op| module.op(op).kind() == SdyOp::DataFlowEdge;
    module.def_op(value).is_some_and(is_edge_op) || edge_of_target(module, value).is_some()
}

/// Makes all other uses of `input` go through `constraint`.
fn redirect(module: &mut Module, input: ValueId, constraint: OpId, sharding: &Sharding) {
    replace_other_uses(module, input, constraint);
    // Unreduced axes do not propagate, so the input needs them itself.
    if !sharding.unreduced.is_empty() {
        let rank = module.ty(input).rank().unwrap_or(0);
        let open = Sharding::fully_open(&sharding.mesh, rank);
        set_sharding(module, input, open.with_unreduced(sharding.reduction, &sharding.unreduced));
    }
}

/// If `head` starts a chain of constraints, makes later uses of its input use the end of the chain.
fn use_end_of_chain(module: &mut Module, head: OpId, order: &mut BlockOrder) {
    let Some(tail) = end_of_chain(module, head) else { return };
    let (input, result) = (module.op(head).operands()[0], module.result(tail));
    let Some(block) = module.op(tail).parent() else { return };
    module.replace_uses_if(input, result, |module, u| {
        u.op != head
            && module.op(u.op).kind() != ControlOp::FuncReturn
            && module.op(u.op).parent() == Some(block)
            && order.is_before(module, block, tail, u.op)
    });
}

fn end_of_chain(module: &Module, head: OpId) -> Option<OpId> {
    let input = module.op(head).operands()[0];
    let is_chain = |op: OpId| module.op(op).kind() == SdyOp::ShardingConstraint;
    if module.def_op(input).is_some_and(is_chain) || sharding_of(module, input).is_some() {
        return None;
    }
    let constrained = |value: ValueId, but: Option<OpId>| {
        module.value(value).uses().iter().any(|u| Some(u.op) != but && is_constraint(module, u.op))
    };
    if constrained(input, Some(head)) {
        return None;
    }
    let mut tail = head;
    while let [only] = module.value(module.result(tail)).uses()
        && is_chain(only.op)
    {
        tail = only.op;
    }
    (tail != head && !constrained(module.result(tail), None)).then_some(tail)
}

/// The position of each op in its block, for blocks that were looked up and have not changed since.
#[derive(Default)]
struct BlockOrder {
    blocks: HashMap<BlockId, HashMap<OpId, usize>>,
}

impl BlockOrder {
    fn is_before(&mut self, module: &Module, block: BlockId, first: OpId, second: OpId) -> bool {
        let number = || module.ops_in(block).zip(0..).collect();
        let positions = self.blocks.entry(block).or_insert_with(number);
        positions.get(&first) < positions.get(&second)
    }

    fn clear(&mut self) {
        self.blocks.clear();
    }
}
