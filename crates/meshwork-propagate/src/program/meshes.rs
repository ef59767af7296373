//! The meshes that a module defines, by name, and the one that several placements share.

use std::sync::Arc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpId};
use meshwork_mesh::{AxisRef, Mesh, MeshRef, Sharding};

/// The `sdy.mesh` operations of a module, in order.
pub fn mesh_ops(module: &Module) -> Vec<OpId> {
    module.ops_in(module.body()).filter(|&op| module.op(op).kind() == SdyOp::Mesh).collect()
}

/// The mesh that an `sdy.mesh` defines.
pub fn mesh_of_op(module: &Module, op: OpId) -> Option<&Arc<Mesh>> {
    match module.op(op).attr("mesh")? {
        Attr::Mesh(mesh) => Some(mesh),
        _ => None,
    }
}

/// The meshes of a module by name.
#[derive(Clone, Debug, Default)]
pub struct Meshes {
    by_name: HashMap<Arc<str>, Arc<Mesh>>,
}

impl Meshes {
    /// The meshes that `module` defines.
    pub fn of(module: &Module) -> Meshes {
        let named = mesh_ops(module).into_iter().filter_map(|op| {
            let name: Arc<str> = module.symbol_name(op)?.into();
            Some((name, mesh_of_op(module, op)?.clone()))
        });
        Meshes { by_name: named.collect() }
    }

    /// The mesh that `mesh` refers to; `None` if the name is not defined.
    pub fn get<'a>(&'a self, mesh: &'a MeshRef) -> Option<&'a Arc<Mesh>> {
        match mesh {
            MeshRef::Symbol(name) => self.by_name.get(name),
            MeshRef::Inline(mesh) => Some(mesh),
        }
    }

    /// The mesh of a placement.
    pub fn mesh<'a>(&'a self, sharding: &'a Sharding) -> Option<&'a Arc<Mesh>> {
        self.get(&sharding.mesh)
    }

    /// The one mesh of all these placements, where an empty mesh agrees with every other; `None` if there is
    /// none, they differ, or one is not defined.
    pub fn common<'a>(&'a self, shardings: impl IntoIterator<Item = &'a Sharding>) -> Option<(MeshRef, &'a Arc<Mesh>)> {
        let mut found: Option<(&MeshRef, &Arc<Mesh>)> = None;
        for sharding in shardings {
            let mesh = self.mesh(sharding)?;
            match found {
                Some((_, first)) if !first.is_empty() => {
                    if !mesh.is_empty() && mesh != first {
                        return None;
                    }
                }
                _ => found = Some((&sharding.mesh, mesh)),
            }
        }
        found.map(|(name, mesh)| (name.clone(), mesh))
    }

    /// The mesh of the first placement that is not on a single device.
    pub fn first_spread<'a>(&self, shardings: impl IntoIterator<Item = &'a Sharding>) -> Option<MeshRef> {
        let spread = |s: &&Sharding| self.mesh(s).is_some_and(|mesh| !mesh.is_maximal());
        shardings.into_iter().find(spread).map(|s| s.mesh.clone())
    }
}

/// The axes, and parts of axes, of `axes` that overlap with none of `taken`, in the order of `axes`.
pub fn axes_without(axes: &[AxisRef], taken: &[AxisRef], mesh: &Mesh) -> Vec<AxisRef> {
    let mut taken = taken.to_vec();
    taken.sort();
    let mut rest = vec![];
    for axis in axes {
        let mut left = Some(axis.clone());
        while let Some(part) = left {
            let Some(first) = taken.iter().find(|t| t.overlaps(&part)) else {
                rest.push(part);
                break;
            };
            rest.extend(part.prefix_without_overlap(first));
            left = part.suffix_without_overlap(first, mesh);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_an_axis() -> Result<(), meshwork_mesh::MeshError> {
        let mesh = Mesh::new([("a", 8), ("b", 2)])?;
        let all = [AxisRef::full("a"), AxisRef::full("b")];
        let middle = [AxisRef::sub("a", 2, 2)];
        let rest = axes_without(&all, &middle, &mesh);
        assert_eq!(rest, [AxisRef::sub("a", 1, 2), AxisRef::sub("a", 4, 2), AxisRef::full("b")]);
        assert_eq!(axes_without(&all, &all, &mesh), []);
        Ok(())
    }

    #[test]
    fn an_empty_mesh_agrees_with_all() -> Result<(), meshwork_mesh::MeshError> {
        let (a, b) = (Mesh::linear("a", 2)?, Mesh::linear("b", 2)?);
        let on = |mesh: &Mesh| Sharding::fully_open(mesh.clone(), 1);
        let meshes = Meshes::default();
        let (empty, on_a, on_b) = (on(&Mesh::empty()), on(&a), on(&b));
        assert_eq!(meshes.common([&empty, &on_a, &empty]).map(|(_, m)| (**m).clone()), Some(a));
        assert_eq!(meshes.common([&on_a, &empty, &on_b]), None);
        Ok(())
    }
}
