//! Writes meshes into the placements that name them and removes the symbols.

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{
    Meshes, mesh_in_replica_groups, mesh_ops, set_mesh_in_replica_groups, transform_shardings,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-inline-meshes",
    summary: "Write meshes into the placements that name them and remove the symbols",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let meshes = Meshes::of(module);
    transform_shardings(module, |sharding, _| {
        let mesh = meshes.mesh(sharding)?;
        Some(Sharding { mesh: mesh.clone().into(), ..sharding.clone() })
    });
    for op in module.all_ops(Walk::PreOrder) {
        if let Some(mesh) = mesh_in_replica_groups(module, op).and_then(|named| meshes.get(named)) {
            set_mesh_in_replica_groups(module, op, mesh.clone());
        }
    }
    for mesh in mesh_ops(module) {
        module.erase(mesh);
    }
    Ok(())
}
