//! What the placements of the program ask for: the layout of each value, its local type, and what makes no sense.

use meshwork_ir::identity::identity;
use meshwork_ir::{BlockId, Def, ElementType, OpId, Type, ValueId, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program;
use smallvec::SmallVec;

use super::{Relation, Result, Splitter};
use crate::PartitionError;
use crate::layout::Layout;

impl Splitter<'_> {
    /// The layout that propagation chose for `v`, its parts combined; replicated if it chose none.
    pub fn want(&mut self, v: ValueId) -> Layout {
        if let Some(layout) = &self.wants[v.index()] {
            return layout.clone();
        }
        let extents = self.extents(v);
        let at = match self.src.value(v).def() {
            Def::Result(op, _) => Some(op),
            Def::Arg(block, _) => self.src.block_parent_op(block),
        };
        // No operation sends indices.
        let movable = self.src.ty(v).elem() != Some(ElementType::Index);
        let layout = program::sharding_of(self.src, v)
            .filter(|_| movable)
            .and_then(|s| self.layout_of_sharding(&s, &extents, at?).ok())
            .map_or_else(|| Layout::replicated(&extents), |layout| layout.reduced());
        self.wants[v.index()] = Some(layout.clone());
        layout
    }

    /// The layout that `v` is placed in: as [`want`](Splitter::want), and in parts where its placement says so.
    pub fn placed(&mut self, v: ValueId) -> Layout {
        let layout = self.want(v);
        let Some(sharding) = program::sharding_of(self.src, v).filter(|s| !s.unreduced.is_empty()) else {
            return layout;
        };
        let relation = self.meshes.relation(&sharding, self.atoms);
        // What does not fit the mesh was refused at the start.
        let parts = relation.atoms_of(&sharding.unreduced, self.atoms).unwrap_or_default();
        layout.with_partial(parts, sharding.reduction.into())
    }

    /// Every placement in the function must make sense on this mesh.
    pub(super) fn check_placements(&self, func: OpId, block: BlockId) -> Result<()> {
        let check = |sharding: &Sharding, ty: &Type, at: OpId| {
            let layout = self.layout_of_sharding(sharding, ty.dims(), at)?;
            match (&layout.partial, ty.elem()) {
                (Some((_, combine)), Some(elem)) if identity(*combine, elem).is_none() => {
                    self.unsupported(at, format!("values of {elem} have no parts to combine as {sharding} asks for"))
                }
                _ => Ok(layout),
            }
        };
        for &arg in self.src.block(block).args() {
            if let Some(sharding) = program::sharding_of(self.src, arg) {
                self.local_type(arg, &check(&sharding, self.src.ty(arg), func)?)?;
            }
        }
        for op in self.src.ops_below_block(block, Walk::PreOrder) {
            for &r in self.src.op(op).results() {
                if let Some(sharding) = program::sharding_of(self.src, r) {
                    check(&sharding, self.src.ty(r), op)?;
                    self.check_free(op, &sharding)?;
                }
            }
        }
        for (i, ty) in self.src.func_type(func).results.iter().enumerate() {
            if let Some(sharding) = program::func_result_sharding(self.src, func, i) {
                check(sharding, ty, func)?;
            }
        }
        Ok(())
    }

    /// The placement of a result of `op` must not name an axis that a manual computation around it holds.
    fn check_free(&self, op: OpId, sharding: &Sharding) -> Result<()> {
        let mut around = self.src.parent_op(op);
        while let Some(parent) = around {
            let manual = program::manual_axes(self.src, parent);
            if let Some(axis) = sharding.dim_axes().find(|a| manual.iter().any(|m| m.name == a.name)) {
                let what = format!("its sharding {sharding} uses axis {axis}, which is manual here");
                return Err(PartitionError::Invalid { op: self.src.place(op), what });
            }
            around = self.src.parent_op(parent);
        }
        Ok(())
    }

    /// The ordinary layout that `sharding` asks for, in parts if it does.
    pub fn layout_of_sharding(&self, sharding: &Sharding, extents: &[i64], at: OpId) -> Result<Layout> {
        let atoms = self.atoms;
        let relation = self.meshes.relation(sharding, atoms);
        let lists: Option<SmallVec<[_; 4]>> = sharding.dims.iter().map(|d| relation.atoms_of(&d.axes, atoms)).collect();
        let parts = relation.atoms_of(&sharding.unreduced, atoms);
        match lists.zip(parts) {
            _ if matches!(*relation, Relation::Single(_)) => Ok(Layout::replicated(extents)),
            // Whole on a mesh is whole on any: what was exported for one device may run on many.
            None if sharding.has_no_axes() && sharding.dims.len() == extents.len() => Ok(Layout::replicated(extents)),
            Some((lists, parts)) if lists.len() == extents.len() => {
                Ok(Layout::ordinary(extents, &lists, atoms).with_partial(parts, sharding.reduction.into()))
            }
            _ => Err(PartitionError::Invalid {
                op: self.src.place(at),
                what: format!(
                    "its sharding {sharding} does not fit a value of rank {} on the mesh the program is split over, {}",
                    extents.len(),
                    atoms.mesh()
                ),
            }),
        }
    }

    /// The local type of `v` in `layout`.
    pub fn local_type(&self, v: ValueId, layout: &Layout) -> Result<Type> {
        match self.src.ty(v) {
            Type::Tensor(t) if t.is_static() && (t.elem != ElementType::Index || !layout.is_split()) => {
                Ok(t.with_dims(layout.local_extents()).into())
            }
            Type::Token => Ok(Type::Token),
            other => Err(PartitionError::Unsupported {
                op: self.src.def_op(v).map_or("an argument".into(), |op| self.src.place(op)),
                what: format!("values of type {other} cannot be split"),
            }),
        }
    }
}
