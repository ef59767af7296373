//! Groups of devices as axes of a mesh: `#stablehlo.replica_group_mesh_axes<...>`.
//!
//! ```text
//! groups ::= `<` `mesh` `=` mesh `,` `axes` `=` `[` (axis (`,` axis)*)? `]` `>`
//! mesh   ::= `@` name | `#stablehlo.mesh` `<` `axes` `=` `[` (size (`,` size)*)? `]` (`,` `device_ids` `=` dense)? `>`
//! size   ::= `#stablehlo.mesh_axis`? `<` `name` `=` string `,` `size` `=` int `>`
//! axis   ::= `#stablehlo.axis_ref`? `<` `name` `=` string (`,` `sub_axis_info` `=` part)? `>`
//! part   ::= `#stablehlo.sub_axis_info`? (`(` int `)` int | `<` `(` int `)` int `>`)
//! ```
//!
//! Named fields stand in any order.

use std::fmt;
use std::sync::Arc;

use meshwork_mesh::{AxisRef, Cursor, Mesh, MeshRef, ParseError, SubAxis};

use super::{Attr, Dense, DenseData};
use crate::text::{parse_attr, quoted};
use crate::{ElementType, TensorType};

/// Groups of devices that differ only along some axes of a mesh.
///
/// The devices of a group are in the order of their indices along the list of axes, the first axis the slowest to change.
/// They are listed where they meet and nowhere before: a program for thousands of devices stays as small as it was written.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GroupAxes {
    /// The mesh, or its name.
    pub mesh: MeshRef,
    /// Axes and parts of axes.
    pub axes: Vec<AxisRef>,
}

type Read<T> = Result<T, ParseError>;

impl GroupAxes {
    /// What the attribute is called.
    pub(crate) const NAME: &str = "#stablehlo.replica_group_mesh_axes";

    /// Reads what follows the name in `text`, from the `<` at offset `at`; the groups, and where they end.
    pub(crate) fn read(text: &str, at: usize) -> Read<(GroupAxes, usize)> {
        let mut cursor = Cursor::at(text, at);
        let (mut mesh, mut axes) = (None, None);
        fields(&mut cursor, ["mesh", "axes"], |cursor, field| {
            match field {
                0 => mesh = Some(mesh_ref(text, cursor)?),
                _ => axes = Some(cursor.parse_list('[', ']', axis)?),
            }
            Ok(())
        })?;
        match (mesh, axes) {
            (Some(mesh), Some(axes)) => Ok((GroupAxes { mesh, axes }, cursor.position())),
            (None, _) => Err(cursor.error("groups of devices need a mesh")),
            (_, None) => Err(cursor.error("groups of devices need axes")),
        }
    }

    /// The mesh as an attribute of StableHLO.
    fn write_mesh(f: &mut fmt::Formatter<'_>, mesh: &Mesh) -> fmt::Result {
        f.write_str("#stablehlo.mesh<axes=[")?;
        for (i, axis) in mesh.axes().iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}<name = {}, size = {}>", quoted(axis.name.as_bytes()), axis.size)?;
        }
        f.write_str("]")?;
        if let Some(ids) = mesh.device_ids() {
            write!(f, ", device_ids={}", Attr::Dense(Arc::new(list_of_ids(ids))))?;
        }
        f.write_str(">")
    }
}

/// A constant of one dimension.
pub fn list_of_ids(ids: &[i64]) -> Dense {
    let ty = Arc::new(TensorType::new([ids.len() as i64], ElementType::I64));
    let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    let data = match ids {
        [_] => DenseData::Splat(bytes.into()),
        _ => DenseData::Full(bytes.into()),
    };
    Dense { ty, data }
}

impl fmt::Display for GroupAxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<mesh = ", GroupAxes::NAME)?;
        match &self.mesh {
            MeshRef::Symbol(name) => write!(f, "{}", Attr::Symbol(name.as_ref().into()))?,
            MeshRef::Inline(mesh) => GroupAxes::write_mesh(f, mesh)?,
        }
        f.write_str(", axes = [")?;
        for (i, axis) in self.axes.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}#stablehlo.axis_ref<name = {}", quoted(axis.name.as_bytes()))?;
            if let Some(SubAxis { pre_size, size }) = axis.sub {
                write!(f, ", sub_axis_info = ({pre_size}){size}")?;
            }
            f.write_str(">")?;
        }
        f.write_str("]>")
    }
}

/// Reads `<name = value, ...>`: fields in any order, each at most once. `value` reads the one at a place in `names`.
fn fields<'a, const N: usize>(
    cursor: &mut Cursor<'a>,
    names: [&str; N],
    mut value: impl FnMut(&mut Cursor<'a>, usize) -> Read<()>,
) -> Read<()> {
    let mut seen = [false; N];
    cursor.expect('<')?;
    loop {
        let Some(i) = names.iter().position(|name| cursor.eat_keyword(name)) else {
            return Err(cursor.expected(&format!("one of {}", names.join(", "))));
        };
        if std::mem::replace(&mut seen[i], true) {
            return Err(cursor.error(format!("field {} is given twice", names[i])));
        }
        cursor.expect('=')?;
        value(cursor, i)?;
        if !cursor.eat(',') {
            return cursor.expect('>');
        }
    }
}

fn mesh_ref<'a>(text: &'a str, cursor: &mut Cursor<'a>) -> Read<MeshRef> {
    if cursor.peek() == Some('@') {
        return Ok(MeshRef::Symbol(cursor.parse_symbol()?.into()));
    }
    if !cursor.eat_attribute("stablehlo.mesh") {
        return Err(cursor.expected("a mesh: '@name' or '#stablehlo.mesh<...>'"));
    }
    let (mut axes, mut ids) = (vec![], None);
    fields(cursor, ["axes", "device_ids"], |cursor, field| {
        match field {
            0 => axes = cursor.parse_list('[', ']', mesh_axis)?,
            _ => ids = Some(device_ids(text, cursor)?),
        }
        Ok(())
    })?;
    Ok(Mesh::from_raw(axes, ids).without_identity_ids().into())
}

fn mesh_axis(cursor: &mut Cursor<'_>) -> Read<(String, i64)> {
    let (mut name, mut size) = (None, None);
    cursor.eat_attribute("stablehlo.mesh_axis");
    fields(cursor, ["name", "size"], |cursor, field| {
        match field {
            0 => name = Some(cursor.parse_string()?),
            _ => size = Some(cursor.parse_integer()?),
        }
        Ok(())
    })?;
    name.zip(size).ok_or_else(|| cursor.error("an axis of a mesh needs a name and a size"))
}

/// Reads a list of integers, `dense<[1, 0]> : tensor<2xi64>`, as text of any kind that MLIR writes.
fn device_ids<'a>(text: &'a str, cursor: &mut Cursor<'a>) -> Read<Vec<i64>> {
    cursor.skip_trivia();
    let rest = cursor.rest();
    let end = rest.find("tensor<").and_then(|ty| Some(ty + rest[ty..].find('>')? + 1));
    // Ids differ: one number that stands for many is no list of them, however long it claims to be.
    let is_list = |d: &Dense| d.splat_bytes().is_none() || d.ty.num_elements() == Some(1);
    let list = end.and_then(|end| match parse_attr(&rest[..end]) {
        Ok(Attr::Dense(d)) if is_list(&d) => Some((d.to_i64s()?, end)),
        _ => None,
    });
    let Some((ids, length)) = list else {
        return Err(cursor.expected("device ids, such as 'dense<[1, 0]> : tensor<2xi64>'"));
    };
    *cursor = Cursor::at(text, cursor.position() + length);
    Ok(ids)
}

fn axis(cursor: &mut Cursor<'_>) -> Read<AxisRef> {
    let (mut name, mut sub) = (None, None);
    cursor.eat_attribute("stablehlo.axis_ref");
    fields(cursor, ["name", "sub_axis_info"], |cursor, field| {
        match field {
            0 => name = Some(cursor.parse_string()?),
            _ => sub = Some(sub_axis(cursor)?),
        }
        Ok(())
    })?;
    match name {
        Some(name) => Ok(AxisRef { name: name.into(), sub }),
        None => Err(cursor.error("a reference to an axis needs its name")),
    }
}

fn sub_axis(cursor: &mut Cursor<'_>) -> Read<SubAxis> {
    cursor.eat_attribute("stablehlo.sub_axis_info");
    let has_brackets = cursor.eat('<');
    cursor.expect('(')?;
    let pre_size = cursor.parse_integer()?;
    cursor.expect(')')?;
    let size = cursor.parse_integer()?;
    if has_brackets {
        cursor.expect('>')?;
    }
    Ok(SubAxis { pre_size, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Read<GroupAxes> {
        GroupAxes::read(text, 0).map(|(groups, _)| groups)
    }

    #[test]
    fn forms_of_one_attribute() {
        let mesh = Mesh::grid(("x", 2), ("y", 4)).unwrap();
        let axes = vec![AxisRef::sub("y", 2, 2), AxisRef::full("x")];
        let groups = GroupAxes { mesh: mesh.into(), axes };
        let printed = "#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes=[<name = \"x\", size = 2>, \
                       <name = \"y\", size = 4>]>, axes = [#stablehlo.axis_ref<name = \"y\", sub_axis_info = (2)2>, \
                       #stablehlo.axis_ref<name = \"x\">]>";
        assert_eq!(groups.to_string(), printed);
        assert_eq!(read(&printed[GroupAxes::NAME.len()..]), Ok(groups.clone()));
        let long = "<axes = [<sub_axis_info = #stablehlo.sub_axis_info<(2)2>, name = \"y\">, <name=\"x\">], \
                    mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<size = 2, name = \"x\">, \
                    #stablehlo.mesh_axis<name = \"y\", size = 4>]>> rest";
        assert_eq!(GroupAxes::read(long, 0), Ok((groups, long.len() - " rest".len())));
    }

    #[test]
    fn devices_in_another_order() {
        let text = "<mesh = #stablehlo.mesh<axes=[<name = \"x\", size = 2>], device_ids=dense<[1, 0]> : tensor<2xi64>>, \
                    axes = []>";
        let groups = read(text).unwrap();
        assert_eq!(groups.mesh.inline().and_then(|mesh| mesh.device_ids()), Some(&[1, 0][..]));
        assert_eq!(groups.to_string(), format!("{}{text}", GroupAxes::NAME));
        let hex = text.replace("[1, 0]", "\"0x01000000000000000000000000000000\"");
        assert_eq!(read(&hex), Ok(groups));
        let one = "<mesh = #stablehlo.mesh<axes=[], device_ids=dense<0> : tensor<1xi64>>, axes = []>";
        assert_eq!(read(one).unwrap().to_string(), format!("{}{one}", GroupAxes::NAME));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let message = |text: &str| read(text).map_err(|e| e.message).unwrap_err();
        assert_eq!(message("<axes = []>"), "groups of devices need a mesh");
        assert_eq!(message("<mesh = @m>"), "groups of devices need axes");
        assert_eq!(message("<mesh = @m, mesh = @m>"), "field mesh is given twice");
        assert_eq!(message("<mesh = 3, axes = []>"), "expected a mesh: '@name' or '#stablehlo.mesh<...>', found '3'");
        assert_eq!(message("<mesh = @m, axes = [<size = 2>]>"), "expected one of name, sub_axis_info, found 's'");
        let mesh = "<mesh = #stablehlo.mesh<axes=[<name = \"x\">]>, axes = []>";
        assert_eq!(message(mesh), "an axis of a mesh needs a name and a size");
        let ids = "<mesh = #stablehlo.mesh<axes=[], device_ids=[0]>, axes = []>";
        assert!(message(ids).starts_with("expected device ids, such as"));
        assert!(message(&ids.replace("[0]", "dense<0> : tensor<9000000000xi64>")).starts_with("expected device ids"));
    }
}
