//! Manual computations whose mesh has the program's axes in another device order.
//!
//! Which device is at a position of a mesh shows in nothing but device numbers. So a computation on another order is the same
//! computation on the program's mesh, with every device number in it replaced by that of the device at the same position,
//! and nothing has to move at its border.

use std::sync::Arc;

use meshwork_ir::op::{MovementOp, SdyOp, SourceOp};
use meshwork_ir::transform::inline::inline_calls;
use meshwork_ir::{Attr, Dense, ElementType, Literal, Module, OpId, OpKind, OpSpec, Type, Walk};
use meshwork_mesh::{Mesh, MeshRef, Sharding};
use meshwork_propagate::program;

use crate::collective::matrix_attr;
use crate::compile::mesh_of;

/// Puts manual computations that leave axes free on the program's mesh, if theirs differs in the device order only.
pub(crate) fn unify(module: &mut Module) {
    let Some((name, mesh)) = mesh_of(module) else { return };
    let is_manual = |module: &Module, op: OpId| module.op(op).kind() == SdyOp::ManualComputation;
    // The outermost ones, with their meshes.
    let others = |module: &Module| -> Vec<(OpId, String, Mesh)> {
        let ops = module.all_ops(Walk::PreOrder).into_iter().filter(|&op| {
            let mut around = std::iter::successors(module.parent_op(op), |&op| module.parent_op(op));
            is_manual(module, op) && !around.any(|op| is_manual(module, op))
        });
        let meshes = ops.filter_map(|op| mesh_of_manual(module, op).map(|(name, own)| (op, name, own)));
        let differs = |(op, own_name, own): &(OpId, String, Mesh)| {
            let has_free_axes = program::manual_axes(module, *op).len() < own.axes().len();
            *own_name != name && has_free_axes && own.same_axes(&mesh) && own.device_ids() != mesh.device_ids()
        };
        meshes.filter(differs).collect()
    };
    if others(module).is_empty() {
        return;
    }
    // Functions that they call have device numbers, too.
    inline_calls(module);
    for (op, own_name, own) in others(module) {
        relabel(module, op, (&own_name, &own), (&name, &mesh));
    }
}

/// The mesh of the operands and results of a manual computation, by name.
fn mesh_of_manual(module: &Module, op: OpId) -> Option<(String, Mesh)> {
    let lists = ["in_shardings", "out_shardings"].into_iter().filter_map(|name| match module.op(op).attr(name) {
        Some(Attr::ShardingPerValue(list)) => list.first(),
        _ => None,
    });
    let name = lists.filter_map(|sharding| sharding.mesh.symbol()).next()?.to_string();
    match module.op(module.symbol(&name)?).attr("mesh")? {
        Attr::Mesh(mesh) => Some((name, (**mesh).clone())),
        _ => None,
    }
}

/// Makes what `op` and its body say of one mesh hold for another with the same axes.
pub fn relabel(module: &mut Module, op: OpId, from: (&str, &Mesh), to: (&str, &Mesh)) {
    let ids = |mesh: &Mesh| match mesh.device_ids() {
        Some(ids) => ids.to_vec(),
        None => (0..mesh.device_count()).collect(),
    };
    let (old, new) = (ids(from.1), ids(to.1));
    let mut renamed: Vec<i64> = vec![0; old.len()];
    old.iter().zip(&new).for_each(|(&old, &new)| renamed[old as usize] = new);
    let mut original: Vec<i64> = vec![0; old.len()];
    old.iter().zip(&new).for_each(|(&old, &new)| original[new as usize] = old);
    for inner in std::iter::once(op).chain(module.ops_below(op, Walk::PreOrder)) {
        for (name, attr) in module.op(inner).attrs.clone().iter() {
            if let Some(attr) = on_mesh(attr, from.0, to.0).or_else(|| with_devices(name, attr, &renamed)) {
                module.op_mut(inner).attrs.set(name.clone(), attr);
            }
        }
        if let Some(mesh) = group_mesh(module, inner, from.0, to.0, &renamed) {
            program::set_mesh_in_replica_groups(module, inner, mesh);
        }
        if module.op(inner).kind() == OpKind::Source(SourceOp::PartitionId) {
            look_up(module, inner, &original);
        }
    }
}

/// `attr` with the mesh `to` where it has `from`, if it has.
fn on_mesh(attr: &Attr, from: &str, to: &str) -> Option<Attr> {
    let moved = |s: &Sharding| match s.mesh.symbol() {
        Some(name) if **name == *from => Sharding { mesh: MeshRef::Symbol(to.into()), ..s.clone() },
        _ => s.clone(),
    };
    match attr {
        Attr::Sharding(s) => Some(Attr::Sharding(Arc::new(moved(s)))),
        Attr::ShardingPerValue(list) => Some(Attr::ShardingPerValue(list.iter().map(moved).collect())),
        _ => None,
    }
}

/// The mesh whose axes are the groups of `op`, if they are axes: `to` instead of `from`, and any other with its devices
/// under their new numbers.
fn group_mesh(module: &Module, op: OpId, from: &str, to: &str, renamed: &[i64]) -> Option<MeshRef> {
    let Attr::GroupAxes(groups) = module.op(op).attr("replica_groups")? else { return None };
    if groups.mesh.symbol().is_some_and(|name| **name == *from) {
        return Some(to.into());
    }
    let mesh = groups.mesh_in(module)?;
    let ids: Option<Vec<i64>> =
        (0..mesh.device_count()).map(|p| renamed.get(mesh.device_at_position(p)? as usize).copied()).collect();
    Some((**mesh).clone().with_device_ids(ids?).ok()?.without_identity_ids().into())
}

/// Lists of devices with other numbers; -1 fills up groups that are smaller than others.
fn with_devices(name: &str, attr: &Attr, renamed: &[i64]) -> Option<Attr> {
    let Attr::Dense(dense) = attr else { return None };
    if !matches!(name, "replica_groups" | "source_target_pairs") {
        return None;
    }
    let matrix = dense.to_literal()?;
    let new = |id: i64| usize::try_from(id).ok().and_then(|id| renamed.get(id)).copied().unwrap_or(id);
    let ids: Vec<i64> = matrix.to_i64s().into_iter().map(new).collect();
    Some(matrix_attr(&Literal::from_i64s(matrix.dims().iter().copied(), ElementType::I64, &ids)?))
}

/// Lets `op`, which gives the number of the device, give the number in `original` instead.
fn look_up(module: &mut Module, op: OpId, original: &[i64]) {
    let (id, count) = (module.result(op), original.len() as i64);
    let Some(table) = Literal::from_i64s([count], ElementType::UI32, original) else { return };
    let value = Attr::Dense(Arc::new(Dense::from_literal(&table)));
    let of = |dims: &[i64]| Type::tensor(dims.iter().copied(), ElementType::UI32);
    let table = module.push_after(op, OpSpec::new(SourceOp::Constant).results([of(&[count])]).attr("value", value));
    let spec = OpSpec::new(MovementOp::DynamicSlice).operands([module.result(table), id]).results([of(&[1])]);
    let slice = module.push_after(table, spec.attr("slice_sizes", Attr::i64s(vec![1])));
    let spec = OpSpec::new(MovementOp::Reshape).operands([module.result(slice)]).results([of(&[])]);
    let number = module.push_after(slice, spec);
    let number = module.result(number);
    module.replace_uses_if(id, number, |_, u| u.op != slice);
}
