//! Lets ops that live on one device run on that device only: others take zero, and a sum gives all of them the result.

use meshwork_ir::build::Builder;
use meshwork_ir::op::{ControlOp, SdyOp, TokenOp};
use meshwork_ir::{
    Diagnostic, ElementType, Failed, Module, OpId, OpSpec, Pass, PassOptions, Type, ValueId, ValueMap, Walk,
};
use meshwork_mesh::{AxisRef, MeshRef, Reduction, Sharding};
use meshwork_propagate::program::{Meshes, SHARDING, mesh_of_op, mesh_ops, sharding_of};

use super::cursor::Cursor;
use super::explicit_reshards::reductions::all_reduce;
use super::local::device::{DeviceId, device_id, scalar};
use super::local::indices::compare;
use super::rewrite::{Problem, before};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-resolve-single-device-sharding",
    summary: "Run ops that live on one device there only, and give the others their results",
    options: &[
        ("replica-count", "number of replicas (default 1)"),
        ("partition-count", "number of partitions (default 1)"),
    ],
    run,
};

fn run(module: &mut Module, options: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let kind = DeviceId::of(options, diags)?;
    let has_axes = |&op: &OpId| mesh_of_op(module, op).is_some_and(|mesh| !mesh.axes().is_empty());
    let Some(global) = mesh_ops(module).into_iter().find(has_axes) else { return Ok(()) };
    let name = MeshRef::from(module.symbol_name(global).unwrap_or_default());
    let axes = mesh_of_op(module, global).map_or(&[][..], |mesh| mesh.axes());
    let axes: Vec<AxisRef> = axes.iter().map(|a| AxisRef::full(a.name.clone())).collect();
    let meshes = Meshes::of(module);
    for op in module.all_ops(Walk::PostOrder) {
        let Some(device) = device_of(module, &meshes, op) else { continue };
        run_there(module, &meshes, op, device, kind, (&name, &axes))
            .map_err(|problem| problem.report(module, op, diags))?;
    }
    Ok(())
}

fn single_device(meshes: &Meshes, sharding: &Sharding) -> Option<i64> {
    meshes.mesh(sharding)?.maximal_device()
}

/// The device that `op` lives on, if it is one.
fn device_of(module: &Module, meshes: &Meshes, op: OpId) -> Option<i64> {
    if module.op(op).kind().dialect() == "sdy" {
        return None;
    }
    let tensors = module.op(op).results().iter().filter(|&&v| module.ty(v).as_tensor().is_some());
    tensors.filter_map(|&v| single_device(meshes, &sharding_of(module, v)?)).next()
}

fn run_there(
    module: &mut Module,
    meshes: &Meshes,
    op: OpId,
    device: i64,
    kind: DeviceId,
    (mesh, axes): (&MeshRef, &[AxisRef]),
) -> Result<(), Problem> {
    let loc = module.op(op).loc.clone();
    let mut b = before(module, op);
    let here = device_id(&mut b, kind)?;
    let there = scalar(&mut b, ElementType::I64, device)?;
    let is_there = compare(&mut b, "EQ", here, there)?;
    let results = module.op(op).results().to_vec();
    let types: Vec<Type> = results.iter().map(|&v| module.ty(v).clone()).collect();
    let spec = OpSpec::new(ControlOp::If).operands([is_there]).results(types.clone()).loc(loc.clone());
    let guarded = module.push_before(op, spec);
    // There: the op itself, on what its operands were before they were moved there.
    let yes = module.add_body(guarded, []);
    let copy = module.clone_op(op, &mut ValueMap::default());
    module.append(yes, copy);
    module.op_mut(copy).attrs.remove(SHARDING);
    let mut moved = vec![];
    for (i, operand) in module.op(copy).operands().to_vec().into_iter().enumerate() {
        if let Some(reshard) = module.def_op(operand).filter(|&def| is_move(module, meshes, def)) {
            let input = module.op(reshard).operands()[0];
            module.set_operand(copy, i, input);
            moved.push(reshard);
        }
    }
    let values = module.op(copy).results().to_vec();
    module.push(yes, OpSpec::new(ControlOp::HloReturn).operands(values).loc(loc.clone()));
    let no = module.add_body(guarded, []);
    let mut b = Builder::at_end(module, no);
    b.set_loc(loc.clone());
    let mut nothing = vec![];
    for ty in &types {
        nothing.push(match ty {
            Type::Tensor(t) => b.splat(t.dims.to_vec(), t.elem, 0.0)?,
            Type::Token => b.value(OpSpec::new(TokenOp::CreateToken).results([Type::Token]))?,
            other => return Err(format!("has a result of type {other}, which has no zero").into()),
        });
    }
    module.push(no, OpSpec::new(ControlOp::HloReturn).operands(nothing).loc(loc));
    give_to_all(module, guarded, &results, mesh, axes);
    module.erase(op);
    for reshard in moved {
        if !module.is_erased(reshard) && module.value(module.result(reshard)).uses().is_empty() {
            module.erase(reshard);
        }
    }
    Ok(())
}

/// Whether `op` moves a value to a single device.
fn is_move(module: &Module, meshes: &Meshes, op: OpId) -> bool {
    let sharding = sharding_of(module, module.op(op).results()[0]);
    module.op(op).kind() == SdyOp::Reshard && sharding.is_some_and(|s| single_device(meshes, &s).is_some())
}

/// Sums the results of `guarded` over all devices, and uses that instead of `results` and of copies of them.
fn give_to_all(module: &mut Module, guarded: OpId, results: &[ValueId], mesh: &MeshRef, axes: &[AxisRef]) {
    let mut at = Cursor::After(guarded);
    for (i, &result) in results.iter().enumerate() {
        let value = module.op(guarded).results()[i];
        let Type::Tensor(ty) = module.ty(value) else {
            module.replace_all_uses(result, value);
            continue;
        };
        let copies = Sharding::fully_closed(mesh.clone(), ty.rank());
        let summed = all_reduce(&mut at, module, value, axes.to_vec(), Reduction::Sum, copies.clone());
        let users: Vec<OpId> = module.value(result).uses().iter().map(|u| u.op).collect();
        for user in users {
            let is_copy = module.op(user).kind() == SdyOp::Reshard
                && module.op(user).attr("sharding").and_then(|a| a.as_sharding()) == Some(&copies);
            if is_copy {
                module.replace_op(user, &[summed]);
            }
        }
        module.replace_all_uses(result, summed);
    }
}
