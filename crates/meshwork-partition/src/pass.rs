//! `meshwork opt -meshwork-partition`: replaces every function that has placements by its per-device form.

use meshwork_ir::op::SourceOp;
use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, Pass, PassOptions, ValueMap, Walk};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_propagate::program;

use crate::collective::write_device_lists;
use crate::compile::cuts;
use crate::layout::atoms::Atoms;
use crate::plan::cost::Machine;
use crate::prepare::prepare;
use crate::split::split_function;
use crate::split::wide::Exchange;
use crate::{Algorithms, PartitionError, donation};

/// The pass.
pub const PASS: Pass = Pass {
    name: "meshwork-partition",
    summary: "Split every function that has placements into its per-device form",
    options: &[
        ("replica-count", "more than 1: devices are replicas, found by replica_id instead of partition_id"),
        ("partition-count", "number of partitions; the mesh decides, this is accepted for symmetry"),
    ],
    run,
};

/// What the ids of devices count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeviceIds {
    Partitions,
    Replicas,
}

fn run(module: &mut Module, options: &PassOptions, out: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let devices = if options.get("replica-count").and_then(|c| c.parse::<i64>().ok()).is_some_and(|c| c > 1) {
        DeviceIds::Replicas
    } else {
        DeviceIds::Partitions
    };
    remove_dead(module);
    prepare(module);
    for func in module.funcs().collect::<Vec<_>>() {
        let Some(mesh) = mesh_of_func(module, func) else { continue };
        let local = match split_one(module, func, &mesh) {
            Ok(local) => local,
            Err(error) => {
                out.push(error.diagnostic());
                return Err(Failed);
            }
        };
        if let Err(message) = replace(module, func, local, devices) {
            out.push(Diagnostic::at(module.op(func), message));
            return Err(Failed);
        }
    }
    Ok(())
}

fn split_one(module: &Module, func: OpId, mesh: &Mesh) -> Result<Module, PartitionError> {
    let atoms = Atoms::cut(mesh, &Machine::default().links, cuts(module, mesh));
    let split = split_function(module, func, &atoms, &Machine::default(), &Algorithms::default(), Exchange::Plain)?;
    let (mut local, collectives) = (split.module, split.collectives);
    write_device_lists(&mut local, &collectives, &atoms);
    donation::carry(module, func, &mut local);
    Ok(local)
}

/// Puts the only function of `local` in place of `func`.
fn replace(module: &mut Module, func: OpId, mut local: Module, devices: DeviceIds) -> Result<(), String> {
    if devices == DeviceIds::Replicas {
        for op in local.all_ops(Walk::PreOrder) {
            if local.op(op).kind() == SourceOp::PartitionId {
                local.set_kind(op, SourceOp::ReplicaId);
            } else {
                // Without channels and global ids, groups and pairs name replicas.
                local.op_mut(op).attrs.retain(|name, _| name != "channel_handle" && name != "use_global_device_ids");
            }
        }
    }
    let Some(from) = local.entry() else { return Err("splitting gave no function".into()) };
    let body = module.body();
    let copy = module.import_op(&local, from, body, &mut ValueMap::default())?;
    let visibility = module.op(func).attr("sym_visibility").cloned();
    match visibility {
        Some(v) => drop(module.op_mut(copy).attrs.set("sym_visibility", v)),
        None => drop(module.op_mut(copy).attrs.remove("sym_visibility")),
    }
    module.move_before(copy, func);
    module.erase(func);
    Ok(())
}

/// The mesh that the placements of `func` refer to; the largest if there are several.
fn mesh_of_func(module: &Module, func: OpId) -> Option<Mesh> {
    let body = module.body_of(func, 0)?;
    let mut meshes: Vec<Mesh> = vec![];
    let mut add = |s: Option<Sharding>| {
        let named = s.as_ref().and_then(|s| Some((s.mesh_name()?.clone(), s.mesh.inline())));
        if let Some((name, _)) = named
            && let Some(op) = module.symbol(&name)
            && let Some(Attr::Mesh(mesh)) = module.op(op).attr("mesh")
        {
            meshes.push((**mesh).clone());
        }
    };
    for &arg in module.block(body).args() {
        add(program::sharding_of(module, arg));
    }
    for i in 0..module.func_type(func).results.len() {
        add(program::func_result_sharding(module, func, i).cloned());
    }
    for op in module.ops_below_block(body, Walk::PreOrder) {
        for &r in module.op(op).results() {
            add(program::sharding_of(module, r));
        }
    }
    meshes.into_iter().max_by_key(|mesh| (mesh.device_count(), mesh.device_ids().is_none()))
}
