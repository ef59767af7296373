//! Sorts the manual axes of manual computations, and lists those a placement does not mention as replicated.

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, Walk};
use meshwork_mesh::{AxisRef, Mesh, MeshRef, Sharding, axis_list, sort_by};

use crate::program::{Meshes, axes_without, manual_axes, sharding_list};

/// Sorts the manual axes of manual computations, and lists those that a placement does not mention as replicated.
pub fn clean_up_manual_axes(module: &mut Module, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let meshes = Meshes::of(module);
    let mut result = Ok(());
    for op in module.all_ops(Walk::PostOrder) {
        if module.op(op).kind() == SdyOp::ManualComputation {
            result = result.and(clean_up(module, &meshes, op, diags));
        }
    }
    result
}

fn clean_up(module: &mut Module, meshes: &Meshes, op: OpId, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let list = |name| sharding_list(module, op, name).unwrap_or(&[]);
    let (ins, outs) = (list("in_shardings"), list("out_shardings"));
    let mut manual = manual_axes(module, op).to_vec();
    if ins.is_empty() && outs.is_empty() {
        let empty_body = module
            .body_of(op, 0)
            .and_then(|b| module.block(b).first())
            .is_none_or(|first| module.op(first).kind().is_terminator());
        if manual.is_empty() || empty_body {
            return Ok(());
        }
        let names: Vec<&str> = manual.iter().map(|a| &*a.name).collect();
        let message = format!(
            "manual computation over axes {names:?} has a body but neither operands nor results, so that its mesh \
             is not known; give it an operand or a result"
        );
        diags.push(Diagnostic::at(module.op(op), message));
        return Err(Failed);
    }
    let Some((mesh_ref, mesh)) = meshes.common(ins.iter().chain(outs)) else {
        let message = "the in_shardings and out_shardings of a manual computation are on different meshes";
        diags.push(Diagnostic::at(module.op(op), message));
        return Err(Failed);
    };
    sort_by(&mut manual, |a, b| a.cmp_in(b, mesh));
    let operands: Vec<bool> = module.op(op).operands().iter().map(|&v| module.ty(v).as_tensor().is_some()).collect();
    let results: Vec<bool> = module.op(op).results().iter().map(|&v| module.ty(v).as_tensor().is_some()).collect();
    let new_ins = with_replicated(ins, &operands, &manual, mesh, &mesh_ref);
    let new_outs = with_replicated(outs, &results, &manual, mesh, &mesh_ref);
    let attrs = &mut module.op_mut(op).attrs;
    attrs.set("manual_axes", Attr::Axes(manual.into()));
    attrs.set("in_shardings", Attr::ShardingPerValue(new_ins.into()));
    attrs.set("out_shardings", Attr::ShardingPerValue(new_outs.into()));
    Ok(())
}

fn with_replicated(
    shardings: &[Sharding],
    is_tensor: &[bool],
    manual: &[AxisRef],
    mesh: &Mesh,
    mesh_ref: &MeshRef,
) -> Vec<Sharding> {
    let one = |(sharding, &is_tensor): (&Sharding, &bool)| {
        let used: Vec<AxisRef> = sharding.axes().cloned().collect();
        let unused = axes_without(manual, &used, mesh);
        let mut sharding = sharding.clone();
        if is_tensor && !unused.is_empty() {
            sharding.mesh = mesh_ref.clone();
            sharding.replicated.extend(unused);
            axis_list::sort_and_merge(&mut sharding.replicated, mesh);
        }
        sharding
    };
    shardings.iter().zip(is_tensor).map(one).collect()
}
