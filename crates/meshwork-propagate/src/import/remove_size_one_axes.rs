//! Removes axes of size one from placements; the meshes keep them.

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_mesh::{AxisRef, Mesh, Sharding};

use crate::meshes::{Meshes, mesh_of_op, mesh_ops};
use crate::walker::transform_shardings;

/// The pass.
pub const PASS: Pass =
    Pass { name: "sdy-remove-size-one-axes", summary: "Remove axes of size one from placements", options: &[], run };

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let has_size_one = |mesh: &Mesh| mesh.axes().iter().any(|axis| axis.size == 1);
    if !mesh_ops(module).into_iter().filter_map(|op| mesh_of_op(module, op)).any(|mesh| has_size_one(mesh)) {
        return Ok(());
    }
    let meshes = Meshes::of(module);
    transform_shardings(module, |sharding, _| {
        let mesh = meshes.mesh(sharding).filter(|mesh| has_size_one(mesh))?;
        Some(without_size_one(sharding, mesh))
    });
    Ok(())
}

fn without_size_one(sharding: &Sharding, mesh: &Mesh) -> Sharding {
    let mut sharding = sharding.clone();
    let drop_from = |axes: &mut Vec<AxisRef>| axes.retain(|axis| axis.size(mesh) != 1);
    for dim in &mut sharding.dims {
        drop_from(&mut dim.axes);
        // A closed dimension without axes may not carry a priority.
        if dim.axes.is_empty() && dim.is_closed {
            dim.priority = None;
        }
    }
    drop_from(&mut sharding.replicated);
    drop_from(&mut sharding.unreduced);
    sharding
}
