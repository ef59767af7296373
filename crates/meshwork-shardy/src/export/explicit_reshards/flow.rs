//! Reshards where values enter and leave regions, calls and functions.

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Def, Module, OpId, OpKind, Use, ValueId};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{
    argument_owners, callee_name, func_result_sharding, manual_axes, result_owners, sharding_list, sharding_of,
    stored_sharding, without_manual_axes,
};

use super::{Context, Version, same_placement, unreduced};
use crate::export::cursor::Cursor;

/// Makes the value in `slot` placed like `target`; no target means a copy everywhere.
fn reshard_to(
    cx: &Context,
    module: &mut Module,
    at: &mut Cursor,
    slot: Use,
    target: Option<&Sharding>,
    version: Version,
) -> Result<(), String> {
    let mut placed = unreduced::complete(cx, module, at, slot, target)?;
    if let Some(target) = target
        && let Some(spread) = unreduced::spread(cx, module, at, slot, target)?
    {
        placed = Some(spread);
    }
    if version == Version::Full && !same_placement(placed.as_ref(), target) {
        let closed = || placed.as_ref().map(|s| Sharding::fully_closed(s.mesh.clone(), s.rank()));
        if let Some(target) = target.cloned().or_else(closed) {
            let value = module.op(slot.op).operands()[slot.operand as usize];
            let reshard = at.reshard(module, value, target);
            module.set_operand(slot.op, slot.operand as usize, reshard);
        }
    }
    Ok(())
}

/// Places the value in `slot` like `target` right after its definition.
fn reshard_source(
    cx: &Context,
    module: &mut Module,
    slot: Use,
    target: Option<&Sharding>,
    version: Version,
) -> Result<(), String> {
    let value = module.op(slot.op).operands()[slot.operand as usize];
    let mut at = Cursor::after_value(module, value);
    reshard_to(cx, module, &mut at, slot, target, version)
}

/// Places what `func` returns as its results say.
pub fn reshard_returned(cx: &Context, module: &mut Module, func: OpId) -> Result<(), String> {
    let Some(terminator) = module.body_of(func, 0).and_then(|body| module.terminator(body)) else { return Ok(()) };
    let mut at = Cursor::Before(terminator);
    for i in 0..module.op(terminator).operands().len() {
        let target = func_result_sharding(module, func, i).cloned();
        reshard_to(cx, module, &mut at, Use { op: terminator, operand: i as u32 }, target.as_ref(), cx.version)?;
    }
    Ok(())
}

/// Places the operands of a call like the arguments of the function.
pub fn reshard_call_operands(cx: &Context, module: &mut Module, call: OpId, version: Version) -> Result<(), String> {
    let name = callee_name(module, call).unwrap_or_default();
    let func = module.func(name).ok_or_else(|| format!("calls @{name}, which is not defined"))?;
    let args = module.body_of(func, 0).map_or(&[][..], |body| module.block(body).args());
    let of_args: Vec<Option<Sharding>> = args.iter().map(|&v| sharding_of(module, v)).collect();
    let operands = module.op(call).operands();
    let rank = |v: ValueId| module.ty(v).rank().unwrap_or(0);
    let targets: Vec<Sharding> = match cx.meshes.first_spread(of_args.iter().flatten()) {
        Some(mesh) => {
            let open = |v| Sharding::fully_open(mesh.clone(), rank(v));
            of_args.into_iter().zip(operands).map(|(s, &v)| s.unwrap_or_else(|| open(v))).collect()
        }
        None => {
            let of_operands: Vec<Sharding> = operands.iter().filter_map(|&v| sharding_of(module, v)).collect();
            let Some(mesh) = cx.meshes.first_spread(&of_operands) else { return Ok(()) };
            operands.iter().map(|&v| Sharding::fully_closed(mesh.clone(), rank(v))).collect()
        }
    };
    for (i, target) in targets.iter().enumerate() {
        reshard_source(cx, module, Use { op: call, operand: i as u32 }, Some(target), version)?;
    }
    Ok(())
}

/// Places all sources of each data-flow edge of `op` like the edge's owner.
pub fn reshard_edge_sources(cx: &Context, module: &mut Module, op: OpId, version: Version) -> Result<(), String> {
    let owners: Vec<ValueId> = result_owners(module, op).into_iter().chain(argument_owners(module, op)).collect();
    for owner in owners {
        let target = owner_target(module, op, owner);
        for slot in source_slots(module, op, owner) {
            reshard_source(cx, module, slot, target.as_ref(), version)?;
        }
    }
    Ok(())
}

/// The placement that sources of the edge of `owner` need, as seen where the sources are.
fn owner_target(module: &Module, op: OpId, owner: ValueId) -> Option<Sharding> {
    match (module.op(op).kind(), module.value(owner).def()) {
        (OpKind::Sdy(SdyOp::ManualComputation), Def::Arg(_, i)) => {
            sharding_list(module, op, "in_shardings")?.get(i as usize).cloned()
        }
        (OpKind::Sdy(SdyOp::ManualComputation), Def::Result(..)) => {
            Some(without_manual_axes(&stored_sharding(module, owner)?, manual_axes(module, op)))
        }
        _ => stored_sharding(module, owner),
    }
}

/// The operands that flow into the edge of `owner`.
fn source_slots(module: &Module, op: OpId, owner: ValueId) -> Vec<Use> {
    let (index, is_argument) = match module.value(owner).def() {
        Def::Arg(_, i) => (i, true),
        Def::Result(_, i) => (i, false),
    };
    let own = Use { op, operand: index };
    let returned = |region: usize| {
        let terminator = module.body_of(op, region).and_then(|body| module.terminator(body))?;
        ((index as usize) < module.op(terminator).operands().len()).then_some(Use { op: terminator, operand: index })
    };
    match module.op(op).kind() {
        OpKind::Control(ControlOp::While) => std::iter::once(own).chain(returned(1)).collect(),
        OpKind::Control(ControlOp::Case) => (0..module.op(op).regions().len()).filter_map(returned).collect(),
        OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) if !is_argument => {
            returned(0).into_iter().collect()
        }
        _ => vec![own],
    }
}
