//! Where the sharding of each value is stored in a module, and how to read and write it.
//!
//! | value | place |
//! |---|---|
//! | function argument, function result | argument or result attribute `sdy.sharding` |
//! | result of an ordinary op | the op's `sdy.sharding`, one entry per result |
//! | `sdy.sharding_constraint`, `sdy.reshard`, `sdy.data_flow_edge` | its `sharding` |
//! | `sdy` collectives | `out_sharding` |
//! | target of a data-flow edge | the edge if there is one, else its owner |
//! | argument and result of named and manual computations | `in_shardings`, `out_shardings` |
//! | arguments of other regions, such as the body of a reduce | none: reads give none, writes are dropped |

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Def, Module, OpId, OpKind, Type, ValueId};
use meshwork_mesh::Sharding;

use crate::program::{edge_of_target, manual_axes, owner_of_target, owning_op, with_manual_axes, without_manual_axes};

/// Name of the attribute that holds placements of results and function arguments.
pub const SHARDING: &str = "sdy.sharding";

/// The value whose placement `value` shares; `None` if it cannot have one.
pub fn shardable_value(module: &Module, value: ValueId) -> Option<ValueId> {
    if let Some(edge) = edge_of_target(module, value) {
        return module.op(edge).results().first().copied();
    }
    let Def::Arg(block, index) = module.value(value).def() else { return Some(value) };
    let op = module.block_parent_op(block)?;
    match module.op(op).kind() {
        OpKind::Control(ControlOp::Func) => Some(value),
        OpKind::Control(ControlOp::AsyncStart) => module.op(op).operands().get(index as usize).copied(),
        _ => owner_of_target(module, value),
    }
}

/// The attribute of an op that holds the placements of its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// One placement: the attribute of this name.
    Single(&'static str),
    /// One placement per result: the attribute of this name.
    PerValue(&'static str),
}

/// Where ops of this kind store the placements of their results.
pub fn result_slot(kind: OpKind) -> Slot {
    match kind {
        OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard | SdyOp::DataFlowEdge) => Slot::Single("sharding"),
        OpKind::Sdy(op) if op.is_collective() => Slot::Single("out_sharding"),
        OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => Slot::PerValue("out_shardings"),
        _ => Slot::PerValue(SHARDING),
    }
}

/// The list of shardings that `op` has under `name`.
pub fn sharding_list<'m>(module: &'m Module, op: OpId, name: &str) -> Option<&'m [Sharding]> {
    match module.op(op).attr(name)? {
        Attr::ShardingPerValue(list) => Some(list),
        _ => None,
    }
}

/// The placement of `value`, if it has one.
pub fn sharding_of(module: &Module, value: ValueId) -> Option<Sharding> {
    let value = shardable_value(module, value)?;
    stored_sharding(module, value)
}

/// The placement stored on `value` itself, which is a [`shardable_value`].
pub fn stored_sharding(module: &Module, value: ValueId) -> Option<Sharding> {
    let op = owning_op(module, value)?;
    match module.value(value).def() {
        Def::Arg(_, index) => match module.op(op).kind() {
            OpKind::Control(ControlOp::Func) => module.arg_attr(op, index as usize, SHARDING)?.as_sharding().cloned(),
            OpKind::Sdy(SdyOp::ManualComputation) => {
                let outer = sharding_list(module, op, "in_shardings")?.get(index as usize)?;
                Some(without_manual_axes(outer, manual_axes(module, op)))
            }
            OpKind::Sdy(SdyOp::NamedComputation) => {
                sharding_list(module, op, "in_shardings")?.get(index as usize).cloned()
            }
            _ => None,
        },
        Def::Result(_, index) => match result_slot(module.op(op).kind()) {
            Slot::Single(name) => module.op(op).attr(name)?.as_sharding().cloned(),
            Slot::PerValue(name) => sharding_list(module, op, name)?.get(index as usize).cloned(),
        },
    }
}

/// Sets the placement of `value`. Does nothing for a value that cannot have one.
///
/// The first placement among several results makes those of the others fully open on the same mesh.
pub fn set_sharding(module: &mut Module, value: ValueId, sharding: Sharding) {
    let Some(value) = shardable_value(module, value) else { return };
    let Some(op) = owning_op(module, value) else { return };
    let kind = module.op(op).kind();
    match (module.value(value).def(), kind) {
        (Def::Arg(_, index), OpKind::Control(ControlOp::Func)) => {
            module.set_arg_attr(op, index as usize, SHARDING, Some(Attr::Sharding(Arc::new(sharding))));
        }
        (Def::Arg(_, index), OpKind::Sdy(SdyOp::ManualComputation)) => {
            let Some(list) = sharding_list(module, op, "in_shardings") else { return };
            let Some(outer) = list.get(index as usize) else { return };
            let outer = with_manual_axes(outer, &sharding, manual_axes(module, op));
            set_in_list(module, op, "in_shardings", index as usize, outer, vec![]);
        }
        (Def::Arg(block, index), OpKind::Sdy(SdyOp::NamedComputation)) => {
            let types = module.block(block).args().iter().map(|&v| module.ty(v).clone()).collect();
            set_in_list(module, op, "in_shardings", index as usize, sharding, types);
        }
        (Def::Arg(..), _) => {}
        (Def::Result(_, index), kind) => match result_slot(kind) {
            Slot::Single(name) => drop(module.op_mut(op).attrs.set(name, Attr::Sharding(Arc::new(sharding)))),
            Slot::PerValue(name) => {
                let types = module.op(op).results().iter().map(|&v| module.ty(v).clone()).collect();
                set_in_list(module, op, name, index as usize, sharding, types);
            }
        },
    }
}

fn set_in_list(module: &mut Module, op: OpId, name: &str, index: usize, sharding: Sharding, types: Vec<Type>) {
    let mut list: Vec<Sharding> = match sharding_list(module, op, name) {
        Some(list) => list.to_vec(),
        None => types.iter().map(|t| Sharding::fully_open(sharding.mesh.clone(), t.rank().unwrap_or(0))).collect(),
    };
    if let Some(entry) = list.get_mut(index) {
        *entry = sharding;
        module.op_mut(op).attrs.set(name, Attr::ShardingPerValue(list.into()));
    }
}

/// The placement of result `index` of a function.
pub fn func_result_sharding(module: &Module, func: OpId, index: usize) -> Option<&Sharding> {
    module.res_attr(func, index, SHARDING)?.as_sharding()
}

/// Sets the placement of result `index` of a function.
pub fn set_func_result_sharding(module: &mut Module, func: OpId, index: usize, sharding: Sharding) {
    module.set_res_attr(func, index, SHARDING, Some(Attr::Sharding(Arc::new(sharding))));
}
