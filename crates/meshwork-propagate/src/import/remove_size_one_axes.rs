//! Removes axes of size one from placements; the meshes keep them.

use meshwork_ir::Module;
use meshwork_mesh::{AxisRef, Mesh, Sharding};

use crate::program::{Meshes, mesh_of_op, mesh_ops, transform_shardings};

/// Removes axes of size one from placements.
pub fn remove_size_one_axes(module: &mut Module) {
    let has_size_one = |mesh: &Mesh| mesh.axes().iter().any(|axis| axis.size == 1);
    if !mesh_ops(module).into_iter().filter_map(|op| mesh_of_op(module, op)).any(|mesh| has_size_one(mesh)) {
        return;
    }
    let meshes = Meshes::of(module);
    transform_shardings(module, |sharding, _| {
        let mesh = meshes.mesh(sharding).filter(|mesh| has_size_one(mesh))?;
        Some(without_size_one(sharding, mesh))
    });
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
