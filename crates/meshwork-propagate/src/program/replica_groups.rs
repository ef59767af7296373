//! Replica groups that name a mesh and axes: `#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [...]>`.
//!
//! The attribute is kept as text; here its mesh is read and replaced.

use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::{Attr, Module, OpId};
use meshwork_mesh::Mesh;

/// The mesh of a replica group attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupMesh {
    /// `@name`.
    Symbol(Arc<str>),
    /// `#stablehlo.mesh<...>`.
    Inline(Mesh),
}

/// The mesh that the replica groups of `op` are made of; `None` if they are not written with a mesh.
pub fn mesh_in_replica_groups(module: &Module, op: OpId) -> Option<GroupMesh> {
    let text = groups_text(module, op)?;
    let mesh = &text[mesh_range(text)?];
    match mesh.strip_prefix('@') {
        Some(name) => Some(GroupMesh::Symbol(name.trim_matches('"').into())),
        None => parse_stablehlo_mesh(mesh).map(GroupMesh::Inline),
    }
}

/// Makes the replica groups of `op` refer to the mesh called `name`.
pub fn set_mesh_symbol(module: &mut Module, op: OpId, name: &str) {
    replace_mesh(module, op, &format!("@{name}"));
}

/// Writes `mesh` into the replica groups of `op`.
pub fn set_inline_mesh(module: &mut Module, op: OpId, mesh: &Mesh) {
    let axes: Vec<String> = mesh.axes().iter().map(|a| format!("<name = \"{}\", size = {}>", a.name, a.size)).collect();
    let ids = mesh.device_ids().map_or(String::new(), |ids| match ids {
        [only] => format!(", device_ids=dense<{only}> : tensor<1xi64>"),
        _ => format!(", device_ids=dense<{ids:?}> : tensor<{}xi64>", ids.len()),
    });
    replace_mesh(module, op, &format!("#stablehlo.mesh<axes=[{}]{ids}>", axes.join(", ")));
}

fn groups_text(module: &Module, op: OpId) -> Option<&str> {
    match module.op(op).attr("replica_groups")? {
        Attr::Opaque(text) if text.starts_with("#stablehlo.replica_group_mesh_axes<") => Some(text),
        _ => None,
    }
}

fn replace_mesh(module: &mut Module, op: OpId, mesh: &str) {
    let Some(text) = groups_text(module, op) else { return };
    let Some(range) = mesh_range(text) else { return };
    let new = format!("{}{mesh}{}", &text[..range.start], &text[range.end..]);
    module.op_mut(op).attrs.set("replica_groups", Attr::Opaque(new.into()));
}

/// The range of the value of the first `mesh = `: up to the comma at its own nesting depth.
fn mesh_range(text: &str) -> Option<Range<usize>> {
    let open = text.find('<')? + 1;
    let after_key = open + text[open..].find('=')? + 1;
    let start = after_key + (text[after_key..].len() - text[after_key..].trim_start().len());
    let mut depth = 0i32;
    for (i, c) in text[start..].char_indices() {
        match c {
            '<' | '[' => depth += 1,
            '>' | ']' => depth -= 1,
            _ => {}
        }
        if depth < 0 || (depth == 0 && c == ',') {
            return Some(start..start + text[start..start + i].trim_end().len());
        }
    }
    None
}

/// Reads `#stablehlo.mesh<axes = [<name = "x", size = 2>], device_ids = dense<[1, 0]> : tensor<2xi64>>`.
fn parse_stablehlo_mesh(text: &str) -> Option<Mesh> {
    let mut axes: Vec<(&str, i64)> = vec![];
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("name") {
        let (_, after) = after.split_once('"')?;
        let (name, after) = after.split_once('"')?;
        let (_, after) = after.split_once("size")?;
        let (_, after) = after.split_once('=')?;
        let (size, after) = after.split_once('>')?;
        axes.push((name, size.trim().parse().ok()?));
        rest = after;
    }
    let mesh = Mesh::new(axes).ok()?;
    match rest.split_once("dense<") {
        None => Some(mesh),
        Some((_, ids)) => {
            let ids = ids.split_once('>')?.0.trim_matches(['[', ']']);
            let ids: Option<Vec<i64>> = ids.split(',').map(|id| id.trim().parse().ok()).collect();
            mesh.with_device_ids(ids?).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_ir::OpSpec;
    use meshwork_ir::op::CollectiveOp;

    fn with_groups(text: &str) -> (Module, OpId) {
        let mut module = Module::new();
        let spec = OpSpec::new(CollectiveOp::AllReduce).attr("replica_groups", Attr::Opaque(text.into()));
        let op = module.push(module.body(), spec);
        (module, op)
    }

    #[test]
    fn meshes_move_in_and_out() -> Result<(), meshwork_mesh::MeshError> {
        let lifted = "#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = \"x\">]>";
        let (mut module, op) = with_groups(lifted);
        assert_eq!(mesh_in_replica_groups(&module, op), Some(GroupMesh::Symbol("m".into())));
        let mesh = Mesh::new([("x", 2), ("y", 1)])?.with_device_ids(vec![1, 0])?;
        set_inline_mesh(&mut module, op, &mesh);
        assert_eq!(mesh_in_replica_groups(&module, op), Some(GroupMesh::Inline(mesh)));
        set_mesh_symbol(&mut module, op, "m");
        assert_eq!(module.op(op).attr("replica_groups"), Some(&Attr::Opaque(lifted.into())));
        Ok(())
    }

    #[test]
    fn other_groups_have_no_mesh() {
        let (module, op) = with_groups("dense<[[0, 1]]> : tensor<1x2xi64>");
        assert_eq!(mesh_in_replica_groups(&module, op), None);
        let (module, op) = with_groups("#stablehlo.replica_group_mesh_axes<");
        assert_eq!(mesh_in_replica_groups(&module, op), None);
    }
}
