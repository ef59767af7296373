//! Placements as interned numbers: equal placements have equal ids, and hold small axes instead of names.

use std::rc::Rc;
use std::sync::Arc;

use meshwork_ir::Module;
use meshwork_ir::hash::HashMap;
use meshwork_mesh::{AxisRef, DimSharding, Mesh, MeshRef, Reduction, Sharding};
use smallvec::SmallVec;

use crate::factors::{Axis, AxisList};
use crate::program::Meshes;

/// One dimension of a [`Placement`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Dim {
    /// The axes that split it, major to minor.
    pub axes: AxisList,
    /// Whether propagation may not split it further.
    pub closed: bool,
    /// The priority, where one is written.
    pub priority: Option<i64>,
}

/// A [`Sharding`] with small axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Placement {
    /// The mesh.
    pub mesh: MeshId,
    /// One entry per dimension.
    pub dims: SmallVec<[Dim; 2]>,
    /// Axes that must hold copies.
    pub replicated: AxisList,
    /// Axes over which devices hold partial results.
    pub unreduced: AxisList,
    /// How partial results are combined.
    pub reduction: Reduction,
}

impl Placement {
    /// Whether no axis appears anywhere.
    pub fn has_no_axes(&self) -> bool {
        self.replicated.is_empty() && self.unreduced.is_empty() && self.dims.iter().all(|d| d.axes.is_empty())
    }

    /// No axes, every dimension open.
    pub fn open(mesh: MeshId, rank: usize) -> Placement {
        Placement {
            mesh,
            dims: std::iter::repeat_with(Dim::default).take(rank).collect(),
            replicated: AxisList::new(),
            unreduced: AxisList::new(),
            reduction: Reduction::Sum,
        }
    }
}

/// A mesh as a module names it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct MeshId(u16);

/// An interned placement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PlacementId(u32);

struct MeshEntry {
    reference: MeshRef,
    mesh: Arc<Mesh>,
    /// The first mesh that is equal to this one.
    same_as: MeshId,
}

/// The meshes and placements of one module.
#[derive(Default)]
pub struct Placements {
    named: Meshes,
    meshes: Vec<MeshEntry>,
    by_reference: HashMap<MeshRef, MeshId>,
    list: Vec<Rc<Placement>>,
    ids: HashMap<Rc<Placement>, PlacementId>,
    /// Shardings that were converted already.
    converted: HashMap<Sharding, PlacementId>,
}

/// What is wrong with a sharding that cannot be converted.
pub type BadSharding = String;

impl Placements {
    /// No placements yet; the meshes of `module`.
    pub fn of(module: &Module) -> Placements {
        Placements { named: Meshes::of(module), ..Placements::default() }
    }

    /// The placement `id`.
    pub fn get(&self, id: PlacementId) -> &Rc<Placement> {
        &self.list[id.0 as usize]
    }

    /// The id of a placement.
    pub fn intern(&mut self, placement: Placement) -> PlacementId {
        if let Some(&id) = self.ids.get(&placement) {
            return id;
        }
        let id = PlacementId(self.list.len() as u32);
        let shared = Rc::new(placement);
        self.list.push(shared.clone());
        self.ids.insert(shared, id);
        id
    }

    /// Number of different placements so far.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no placement yet.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The mesh `id`.
    pub fn mesh(&self, id: MeshId) -> &Mesh {
        &self.meshes[id.0 as usize].mesh
    }

    /// The mesh that all `placements` share: the first that is not empty, if no other differs from it. Equal
    /// meshes under different names are the same; a maximal mesh is never shared.
    pub fn common_mesh(&self, placements: impl IntoIterator<Item = PlacementId>) -> Option<MeshId> {
        let mut common: Option<MeshId> = None;
        for id in placements {
            let mesh = self.get(id).mesh;
            match common {
                Some(c) if c == mesh || self.is_empty_mesh(mesh) => {}
                Some(c) if !self.is_empty_mesh(c) => {
                    if self.meshes[c.0 as usize].same_as != self.meshes[mesh.0 as usize].same_as {
                        return None;
                    }
                }
                _ => common = Some(mesh),
            }
        }
        common.filter(|&m| !self.mesh(m).is_maximal())
    }

    fn is_empty_mesh(&self, id: MeshId) -> bool {
        let mesh = self.mesh(id);
        mesh.axes().is_empty() && !mesh.is_maximal()
    }

    fn intern_mesh(&mut self, reference: &MeshRef) -> Result<MeshId, BadSharding> {
        if let Some(&id) = self.by_reference.get(reference) {
            return Ok(id);
        }
        let Some(mesh) = self.named.get(reference).cloned() else {
            let name = reference.symbol().map_or("", |n| n);
            return Err(format!("unknown mesh: @{name}; define it with sdy.mesh @{name} = <...>"));
        };
        if let Some(axis) = mesh.axes().iter().find(|a| u32::try_from(a.size).is_err()) {
            return Err(format!(
                "mesh axis \"{}\" has {} devices; at most 2^32 - 1 are supported",
                axis.name, axis.size
            ));
        }
        let id = u16::try_from(self.meshes.len()).map(MeshId).map_err(|_| "more than 65535 meshes".to_string())?;
        let same = self.meshes.iter().find(|m| m.mesh == mesh).map_or(id, |m| m.same_as);
        self.meshes.push(MeshEntry { reference: reference.clone(), mesh, same_as: same });
        self.by_reference.insert(reference.clone(), id);
        Ok(id)
    }

    /// The small form of an axis of `mesh`.
    pub fn axis(&self, axis: &AxisRef, mesh: MeshId) -> Result<Axis, BadSharding> {
        let mesh = self.mesh(mesh);
        let unknown = || format!("unknown axis name: \"{}\" is not an axis of {mesh}", axis.name);
        let id = mesh.axis_index(&axis.name).ok_or_else(unknown)?;
        let part = |n: i64| u32::try_from(n).map_err(|_| format!("axis {axis} has a part that is out of range"));
        let (pre, size) = (part(axis.pre_size())?, part(axis.size(mesh))?);
        if pre == 0 || size == 0 {
            return Err(format!("axis {axis} has a part of size 0"));
        }
        let id = u16::try_from(id).map_err(|_| format!("{mesh} has more than 65535 axes"))?;
        Ok(Axis { id, pre, size })
    }

    fn axes(&self, axes: &[AxisRef], mesh: MeshId) -> Result<AxisList, BadSharding> {
        axes.iter().map(|a| self.axis(a, mesh)).collect()
    }

    /// The placement of a sharding.
    pub fn import(&mut self, sharding: &Sharding) -> Result<PlacementId, BadSharding> {
        if let Some(&id) = self.converted.get(sharding) {
            return Ok(id);
        }
        let mesh = self.intern_mesh(&sharding.mesh)?;
        let mut dims = SmallVec::with_capacity(sharding.dims.len());
        for dim in &sharding.dims {
            dims.push(Dim { axes: self.axes(&dim.axes, mesh)?, closed: dim.is_closed, priority: dim.priority });
        }
        let id = self.intern(Placement {
            mesh,
            dims,
            replicated: self.axes(&sharding.replicated, mesh)?,
            unreduced: self.axes(&sharding.unreduced, mesh)?,
            reduction: sharding.reduction,
        });
        self.converted.insert(sharding.clone(), id);
        Ok(id)
    }

    /// The reference by name of a small axis.
    pub fn axis_ref(&self, axis: Axis, mesh: MeshId) -> AxisRef {
        let full = &self.mesh(mesh).axes()[axis.id as usize];
        if i64::from(axis.size) == full.size {
            AxisRef::full(full.name.clone())
        } else {
            AxisRef::sub(full.name.clone(), i64::from(axis.pre), i64::from(axis.size))
        }
    }

    /// The sharding of a placement.
    pub fn export(&self, id: PlacementId) -> Sharding {
        let placement = self.get(id);
        let axes = |list: &[Axis]| list.iter().map(|&a| self.axis_ref(a, placement.mesh)).collect();
        let dims = placement.dims.iter();
        Sharding {
            mesh: self.meshes[placement.mesh.0 as usize].reference.clone(),
            dims: dims
                .map(|d| DimSharding { axes: axes(&d.axes), is_closed: d.closed, priority: d.priority })
                .collect(),
            replicated: axes(&placement.replicated),
            unreduced: axes(&placement.unreduced),
            reduction: placement.reduction,
        }
    }
}
