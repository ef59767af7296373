//! The mesh on which an op computes, where its tensors agree on one.

use meshwork_mesh::{MeshRef, Sharding};
use meshwork_propagate::program::Meshes;

/// The mesh of most tensors that are split; `None` if no tensor has a placement, their meshes have different axes, or
/// they are on a single device. Meshes that differ in the order of devices only agree.
pub fn common_mesh(meshes: &Meshes, shardings: &[Option<Sharding>]) -> Option<MeshRef> {
    let placed: Vec<&Sharding> = shardings.iter().flatten().collect();
    let default = agreed_mesh(meshes, &placed)?;
    if meshes.get(&default)?.is_maximal() {
        return None;
    }
    let (mut counts, mut best): (Vec<(&MeshRef, usize)>, (usize, &MeshRef)) = (vec![], (0, &default));
    for sharding in placed.into_iter().filter(|s| !s.is_fully_replicated()) {
        let i = counts.iter().position(|(mesh, _)| *mesh == &sharding.mesh).unwrap_or_else(|| {
            counts.push((&sharding.mesh, 0));
            counts.len() - 1
        });
        counts[i].1 += 1;
        if counts[i].1 > best.0 {
            best = (counts[i].1, &sharding.mesh);
        }
    }
    Some(best.1.clone())
}

/// The first mesh that is not empty, or the last one in natural device order; `None` if axes differ.
fn agreed_mesh(meshes: &Meshes, placed: &[&Sharding]) -> Option<MeshRef> {
    let mut found: Option<&Sharding> = None;
    for sharding in placed {
        let mesh = meshes.mesh(sharding)?;
        match found.and_then(|s| meshes.mesh(s)).filter(|first| !first.is_empty()) {
            None => found = Some(sharding),
            Some(_) if mesh.is_empty() => {}
            Some(first) => {
                if first.is_maximal() != mesh.is_maximal() || !first.same_axes(mesh) {
                    return None;
                }
                if mesh.device_ids().is_none() {
                    found = Some(sharding);
                }
            }
        }
    }
    found.map(|s| s.mesh.clone())
}
