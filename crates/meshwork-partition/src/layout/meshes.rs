//! The meshes of a program, as seen from the one it is split over.
//!
//! Inside the per-device program every value is on the mesh the program is split over. Other meshes matter where they
//! are visible from outside: at the borders of functions and of manual computations. There a mesh over the same devices
//! in another order is one permute away, and a single device is one broadcast away.

use std::borrow::Cow;
use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module};
use meshwork_mesh::{AxisRef, Mesh, MeshRef, Sharding};

use crate::layout::atoms::{AtomList, Atoms};

/// Pairs of devices: what is on the first goes to the second.
pub type DevicePairs = Arc<[(i64, i64)]>;

/// How a mesh relates to the one the program is split over.
#[derive(Clone, PartialEq, Debug)]
pub enum Relation {
    /// It is that mesh, or the empty one, which stands for any.
    Same,
    /// The whole value is on this device.
    Single(i64),
    /// Its axes cut the same devices, perhaps under other names and in another order.
    Other(Other),
    /// It has another number of devices.
    Foreign,
}

/// Another mesh over the same devices.
#[derive(Clone, PartialEq, Debug)]
pub struct Other {
    /// Its axes, in atoms of its own.
    atoms: Atoms,
    /// The axes of the program's mesh in the device order of this one; `None` if the orders are equal.
    pub reordered: Option<Arc<Mesh>>,
    /// Where each device's shard belongs on the program's mesh; empty if the orders are equal.
    pub to_program: DevicePairs,
}

/// The meshes that a program defines, by name.
pub struct Meshes {
    known: Vec<(Arc<str>, Relation)>,
}

impl Meshes {
    /// How the meshes of `module` relate to the mesh of `atoms`.
    pub fn of(module: &Module, atoms: &Atoms) -> Meshes {
        let defined = module.ops_in(module.body()).filter(|&op| module.op(op).kind() == SdyOp::Mesh);
        let known = defined.filter_map(|op| match module.op(op).attr("mesh") {
            Some(Attr::Mesh(mesh)) => Some((module.symbol_name(op)?.into(), relation(mesh, atoms))),
            _ => None,
        });
        Meshes { known: known.collect() }
    }

    /// Whether some mesh is a single device of several.
    pub fn has_single(&self) -> bool {
        self.known.iter().any(|(_, relation)| matches!(relation, Relation::Single(_)))
    }

    /// How the mesh of `sharding` relates to the program's.
    pub fn relation(&self, sharding: &Sharding, atoms: &Atoms) -> Cow<'_, Relation> {
        match &sharding.mesh {
            MeshRef::Symbol(name) => {
                let known = self.known.iter().find(|(known, _)| known == name);
                Cow::Borrowed(known.map_or(&Relation::Same, |(_, relation)| relation))
            }
            MeshRef::Inline(mesh) => Cow::Owned(relation(mesh, atoms)),
        }
    }
}

impl Relation {
    /// `axes` of this mesh in atoms of the program's; `None` if they do not cut its devices.
    pub fn atoms_of<'a>(&self, axes: impl IntoIterator<Item = &'a AxisRef>, atoms: &Atoms) -> Option<AtomList> {
        match self {
            Relation::Same => atoms.of_axes(axes),
            Relation::Single(_) => Some(AtomList::new()),
            Relation::Other(other) => {
                let place = |&own: &u8| {
                    let (own, all) = (other.atoms.info(own), atoms.all());
                    all.into_iter().find(|&a| (atoms.info(a).stride, atoms.size(a)) == (own.stride, own.size))
                };
                other.atoms.of_axes(axes)?.iter().map(place).collect()
            }
            Relation::Foreign => None,
        }
    }
}

fn relation(mesh: &Mesh, atoms: &Atoms) -> Relation {
    let program = atoms.mesh();
    match (mesh.axes().is_empty(), mesh.device_ids()) {
        (true, Some(&[device])) if device >= 0 && device < program.device_count() => Relation::Single(device),
        (true, None) => Relation::Same,
        _ if mesh == program => Relation::Same,
        _ if mesh.device_count() != program.device_count() => Relation::Foreign,
        _ => Relation::Other(other(mesh, atoms)),
    }
}

fn other(mesh: &Mesh, atoms: &Atoms) -> Other {
    let own = Atoms::of(mesh);
    if mesh.device_ids() == atoms.mesh().device_ids() {
        return Other { atoms: own, reordered: None, to_program: Arc::new([]) };
    }
    let pairs = (0..mesh.device_count()).map(|p| (own.device(p), atoms.device(p))).collect();
    let axes = atoms.mesh().axes().iter().map(|a| (a.name.clone(), a.size));
    let reordered = Mesh::from_raw(axes, mesh.device_ids().map(<[i64]>::to_vec));
    Other { atoms: own, reordered: Some(Arc::new(reordered)), to_program: pairs }
}

/// The pairs the other way round.
pub fn reversed(pairs: &DevicePairs) -> DevicePairs {
    pairs.iter().map(|&(from, to)| (to, from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_of_another_mesh_are_found_by_the_devices_they_cut() {
        let atoms = Atoms::of(&Mesh::new([("x", 2), ("y", 4)]).unwrap());
        let other = relation(&Mesh::new([("a", 4), ("b", 2)]).unwrap(), &atoms);
        let list = other.atoms_of(&[AxisRef::full("a")], &atoms).unwrap();
        assert_eq!(atoms.to_axes(&list), [AxisRef::full("x"), AxisRef::sub("y", 1, 2)]);
        // 3 x 2 does not cut 2 x 3.
        let six = Atoms::of(&Mesh::new([("x", 2), ("y", 3)]).unwrap());
        let other = relation(&Mesh::new([("a", 3), ("b", 2)]).unwrap(), &six);
        assert_eq!(other.atoms_of(&[AxisRef::full("a")], &six), None);
    }

    #[test]
    fn an_order_leads_to_the_program_by_pairs() {
        let atoms = Atoms::of(&Mesh::new([("x", 4)]).unwrap());
        let turned = Mesh::new([("x", 4)]).unwrap().with_device_ids(vec![1, 2, 3, 0]).unwrap();
        let Relation::Other(other) = relation(&turned, &atoms) else { panic!("not a mesh over the same devices") };
        assert_eq!(other.to_program[..], [(1, 0), (2, 1), (3, 2), (0, 3)]);
        assert_eq!(relation(&Mesh::maximal(3).unwrap(), &atoms), Relation::Single(3));
        assert_eq!(relation(&Mesh::new([("x", 8)]).unwrap(), &atoms), Relation::Foreign);
    }
}
