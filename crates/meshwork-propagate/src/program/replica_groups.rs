//! Replica groups that name a mesh and axes: `#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [...]>`.

use meshwork_ir::attr::GroupAxes;
use meshwork_ir::{Attr, Module, OpId};
use meshwork_mesh::MeshRef;

const GROUPS: &str = "replica_groups";

/// The mesh that the replica groups of `op` are made of; `None` if they are not written with a mesh.
pub fn mesh_in_replica_groups(module: &Module, op: OpId) -> Option<&MeshRef> {
    match module.op(op).attr(GROUPS)? {
        Attr::GroupAxes(groups) => Some(&groups.mesh),
        _ => None,
    }
}

/// Makes the replica groups of `op`, if they are written with a mesh, groups of `mesh`.
pub fn set_mesh_in_replica_groups(module: &mut Module, op: OpId, mesh: impl Into<MeshRef>) {
    if let Some(Attr::GroupAxes(groups)) = module.op(op).attr(GROUPS) {
        let groups = GroupAxes { mesh: mesh.into(), axes: groups.axes.clone() };
        module.op_mut(op).attrs.set(GROUPS, Attr::GroupAxes(groups.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_ir::OpSpec;
    use meshwork_ir::op::CollectiveOp;
    use meshwork_ir::text::parse_attr;
    use meshwork_mesh::Mesh;

    fn with_groups(text: &str) -> (Module, OpId) {
        let mut module = Module::new();
        let groups = parse_attr(text).expect("an attribute");
        let op = module.push(module.body(), OpSpec::new(CollectiveOp::AllReduce).attr(GROUPS, groups));
        (module, op)
    }

    #[test]
    fn meshes_move_in_and_out() -> Result<(), meshwork_mesh::MeshError> {
        let lifted = "#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = \"x\">]>";
        let (mut module, op) = with_groups(lifted);
        assert_eq!(mesh_in_replica_groups(&module, op), Some(&"m".into()));
        let mesh = Mesh::new([("x", 2), ("y", 1)])?.with_device_ids(vec![1, 0])?;
        set_mesh_in_replica_groups(&mut module, op, mesh.clone());
        assert_eq!(mesh_in_replica_groups(&module, op), Some(&mesh.into()));
        set_mesh_in_replica_groups(&mut module, op, "m");
        assert_eq!(module.op(op).attr(GROUPS).map(Attr::to_string).as_deref(), Some(lifted));
        Ok(())
    }

    #[test]
    fn other_groups_have_no_mesh() {
        let (mut module, op) = with_groups("dense<[[0, 1]]> : tensor<1x2xi64>");
        assert_eq!(mesh_in_replica_groups(&module, op), None);
        set_mesh_in_replica_groups(&mut module, op, "m");
        assert!(matches!(module.op(op).attr(GROUPS), Some(Attr::Dense(_))));
    }
}
