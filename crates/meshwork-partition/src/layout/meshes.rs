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

use crate::layout::atoms::{AtomList, Atoms, strides};
use crate::plan::cost::Links;

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
    /// The atom of the program's mesh for each of its own.
    places: AtomList,
    /// The axes of the program's mesh in the device order of this one; `None` if the orders are equal.
    pub reordered: Option<Arc<Mesh>>,
    /// Where each device's shard belongs on the program's mesh; empty if the orders are equal.
    pub to_program: DevicePairs,
}

/// The meshes that a program defines, by name.
pub struct Meshes {
    known: Vec<(Arc<str>, Arc<Mesh>, Relation)>,
}

impl Meshes {
    /// How the meshes of `module` relate to the mesh of `atoms`.
    pub fn of(module: &Module, atoms: &Atoms) -> Meshes {
        let defined = module.ops_in(module.body()).filter(|&op| module.op(op).kind() == SdyOp::Mesh);
        let known = defined.filter_map(|op| match module.op(op).attr("mesh") {
            Some(Attr::Mesh(mesh)) => Some((module.symbol_name(op)?.into(), mesh.clone(), relation(mesh, atoms))),
            _ => None,
        });
        Meshes { known: known.collect() }
    }

    /// Whether some mesh is a single device of several.
    pub fn has_single(&self) -> bool {
        self.known.iter().any(|(_, _, relation)| matches!(relation, Relation::Single(_)))
    }

    /// How the mesh of `sharding` relates to the program's, cut as the sharding cuts its axes.
    pub fn relation(&self, sharding: &Sharding, atoms: &Atoms) -> Cow<'_, Relation> {
        let (mesh, relation) = match &sharding.mesh {
            MeshRef::Symbol(name) => match self.known.iter().find(|(known, _, _)| known == name) {
                Some((_, mesh, relation)) => (mesh, Cow::Borrowed(relation)),
                None => return Cow::Borrowed(&Relation::Same),
            },
            MeshRef::Inline(mesh) => (mesh, Cow::Owned(relation(mesh, atoms))),
        };
        let is_known = matches!(*relation, Relation::Single(_) | Relation::Foreign);
        let axes = || sharding.dim_axes().chain(&sharding.unreduced);
        if is_known || relation.atoms_of(axes(), atoms).is_some() {
            return relation;
        }
        // Its sub-axes cut the devices elsewhere than the atoms do.
        let cuts = axes().filter_map(|axis| strides(mesh, axis)).flat_map(|(low, high)| [low, high]);
        Cow::Owned(Relation::Other(other(mesh, cuts, atoms)))
    }
}

impl Relation {
    /// `axes` of this mesh in atoms of the program's; `None` if they do not cut its devices.
    pub fn atoms_of<'a>(&self, axes: impl IntoIterator<Item = &'a AxisRef>, atoms: &Atoms) -> Option<AtomList> {
        match self {
            Relation::Same => atoms.of_axes(axes),
            Relation::Single(_) => Some(AtomList::new()),
            Relation::Other(other) => {
                let own = other.atoms.of_axes(axes)?;
                Some(own.iter().map(|&a| other.places[a as usize]).collect())
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
        _ => Relation::Other(other(mesh, [], atoms)),
    }
}

/// `mesh`, cut at the strides `cuts` and then, as far as it goes, where the program's is. Every atom takes the place of
/// one of its size in the program's mesh, of the one that cuts the same devices if there is one.
fn other(mesh: &Mesh, cuts: impl IntoIterator<Item = i64>, atoms: &Atoms) -> Other {
    let program = atoms.all();
    let cuts = cuts.into_iter().chain(program.iter().map(|&a| atoms.info(a).stride));
    let own = Atoms::cut(mesh, &Links::default(), cuts);
    let mut places: Vec<Option<u8>> = own
        .all()
        .iter()
        .map(|&a| {
            let cut = |b: &u8| (atoms.info(*b).stride, atoms.size(*b)) == (own.info(a).stride, own.size(a));
            program.iter().copied().find(cut)
        })
        .collect();
    for a in own.all() {
        if places[a as usize].is_none() {
            let free = |b: &u8| !places.contains(&Some(*b)) && atoms.size(*b) == own.size(a);
            places[a as usize] = program.iter().copied().find(free);
        }
    }
    // Meshes of as many devices have as many atoms of each size.
    let places: AtomList = places.into_iter().flatten().collect();
    let positions: Vec<i64> =
        (0..mesh.device_count()).map(|p| own.with_index(&own.all(), 0, atoms.index_at(&places, p))).collect();
    let order: Vec<i64> = positions.iter().map(|&p| own.device(p)).collect();
    if order.iter().zip(0..).all(|(&device, p)| device == atoms.device(p)) {
        return Other { atoms: own, places, reordered: None, to_program: Arc::new([]) };
    }
    let pairs = order.iter().zip(0..).map(|(&device, p)| (device, atoms.device(p))).collect();
    let axes = atoms.mesh().axes().iter().map(|a| (a.name.clone(), a.size));
    let reordered = Mesh::from_raw(axes, Some(order)).without_identity_ids();
    Other { atoms: own, places, reordered: Some(Arc::new(reordered)), to_program: pairs }
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
        // 3 x 2 does not cut 2 x 3: its devices are in another order there.
        let six = Atoms::of(&Mesh::new([("x", 2), ("y", 3)]).unwrap());
        let other = relation(&Mesh::new([("a", 3), ("b", 2)]).unwrap(), &six);
        let list = other.atoms_of(&[AxisRef::full("a")], &six).unwrap();
        assert_eq!(six.to_axes(&list), [AxisRef::full("y")]);
        let Relation::Other(other) = other else { panic!("not a mesh over the same devices") };
        assert_eq!(other.reordered.unwrap().device_ids().unwrap(), [0, 2, 4, 1, 3, 5]);
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
