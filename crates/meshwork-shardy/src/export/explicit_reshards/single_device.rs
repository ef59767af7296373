//! Ops that compute on one device: what they take is moved there, what they make is copied everywhere.

use meshwork_ir::{Module, OpId, Type};
use meshwork_mesh::{MeshRef, Sharding};
use meshwork_propagate::program::{func_result_sharding, mesh_of_op, mesh_ops, set_sharding, sharding_of};

use super::Context;
use crate::export::cursor::Cursor;

/// Arguments and results of functions may not live on a single device.
pub fn check_boundary(cx: &Context, module: &Module, func: OpId) -> Result<(), String> {
    let message = |what: &str, i: usize| {
        format!(
            "{what} {i} cannot have a single-device (maximal) sharding attribute: place it on the mesh and reshard \
             it inside"
        )
    };
    let args = module.body_of(func, 0).map_or(&[][..], |body| module.block(body).args());
    let is_single = |s: Option<Sharding>| s.is_some_and(|s| cx.is_single_device(&s));
    if let Some(i) = args.iter().position(|&v| is_single(sharding_of(module, v))) {
        return Err(message("function argument", i));
    }
    let results = 0..module.func_type(func).results.len();
    match results.into_iter().find(|&i| is_single(func_result_sharding(module, func, i).cloned())) {
        Some(i) => Err(message("function result", i)),
        None => Ok(()),
    }
}

/// Moves operands to the device of `op` by way of copies everywhere, and results back; tokens stay.
pub fn process(cx: &Context, module: &mut Module, op: OpId, results: &[Option<Sharding>]) -> Result<(), String> {
    let mut on_device = results.iter().flatten().filter(|s| cx.is_single_device(s)).cloned();
    let Some(first) = on_device.next() else { return Ok(()) };
    let device = |s: &Sharding| cx.meshes.mesh(s).and_then(|mesh| mesh.maximal_device());
    let mut last = first.mesh.clone();
    for other in on_device {
        if device(&other) != device(&first) {
            return Err(format!("has conflicting single-device result shardings {first} and {other}"));
        }
        last = other.mesh;
    }
    let Some(global) = global_mesh(module) else { return Ok(()) };
    let single = Sharding::fully_closed(last, 0);
    reshard_operands(cx, module, op, &single, &global);
    reshard_results(cx, module, op, results, &global);
    for value in module.op(op).results().to_vec() {
        match module.ty(value) {
            Type::Tensor(_) => set_sharding(module, value, single.clone()),
            Type::Token => set_sharding(module, value, Sharding::fully_closed(global.clone(), 0)),
            _ => {}
        }
    }
    Ok(())
}

/// The first mesh of the module that has axes.
fn global_mesh(module: &Module) -> Option<MeshRef> {
    let has_axes = |&op: &OpId| mesh_of_op(module, op).is_some_and(|mesh| !mesh.axes().is_empty());
    let op = mesh_ops(module).into_iter().find(has_axes)?;
    Some(MeshRef::from(module.symbol_name(op)?))
}

fn reshard_operands(cx: &Context, module: &mut Module, op: OpId, single: &Sharding, global: &MeshRef) {
    let mut at = Cursor::Before(op);
    for i in 0..module.op(op).operands().len() {
        let operand = module.op(op).operands()[i];
        let Type::Tensor(ty) = module.ty(operand) else { continue };
        let copies = Sharding::fully_closed(global.clone(), ty.rank());
        let placed = sharding_of(module, operand).unwrap_or_else(|| copies.clone());
        let same_mesh = |mesh: &MeshRef| placed.mesh == *mesh || cx.meshes.get(&placed.mesh).is_none();
        if placed.is_equivalent(single) && same_mesh(&single.mesh) {
            continue;
        }
        let mut input = operand;
        if !(placed.is_fully_replicated() && same_mesh(global)) {
            input = at.reshard(module, input, copies);
        }
        let moved = at.reshard(module, input, single.clone());
        module.set_operand(op, i, moved);
    }
}

fn reshard_results(cx: &Context, module: &mut Module, op: OpId, shardings: &[Option<Sharding>], global: &MeshRef) {
    let mut at = Cursor::After(op);
    for (result, wanted) in module.op(op).results().to_vec().into_iter().zip(shardings) {
        let Type::Tensor(ty) = module.ty(result) else { continue };
        let copies = Sharding::fully_closed(global.clone(), ty.rank());
        let wanted = wanted.clone().filter(|s| !cx.is_single_device(s)).unwrap_or_else(|| copies.clone());
        let copied = at.reshard(module, result, copies.clone());
        let mut seen = copied;
        if wanted != copies {
            seen = at.reshard(module, copied, wanted);
        }
        module.replace_uses_if(result, seen, |m, u| m.op(u.op).results().first() != Some(&copied));
    }
}
