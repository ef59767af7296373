//! Questions about a sharding: what it uses, what it splits, what each device holds in shape.

use std::sync::Arc;

use crate::axis::AxisRef;
use crate::axis_list;
use crate::error::ShardingError;
use crate::mesh::Mesh;
use crate::shard::ceil_div;
use crate::sharding::{MeshRef, Sharding};
use crate::verify::verify_divisible;

impl Sharding {
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The mesh, inline or found by its name through `lookup`.
    pub fn resolve_mesh<'a>(
        &'a self,
        lookup: impl FnOnce(&str) -> Option<&'a Mesh>,
    ) -> Result<&'a Mesh, ShardingError> {
        match &self.mesh {
            MeshRef::Inline(mesh) => Ok(mesh),
            MeshRef::Symbol(name) => lookup(name).ok_or_else(|| ShardingError::UnknownMesh { name: name.clone() }),
        }
    }

    /// Whether no dimension is split. Devices may still hold partial results.
    pub fn is_fully_replicated(&self) -> bool {
        self.dims.iter().all(|dim| dim.axes.is_empty())
    }

    /// Whether every dimension is closed.
    pub fn is_fully_closed(&self) -> bool {
        self.dims.iter().all(|dim| dim.is_closed)
    }

    /// Whether no dimension is split and all are open: the meaning of having no sharding.
    pub fn is_fully_open(&self) -> bool {
        self.dims.iter().all(|dim| dim.axes.is_empty() && !dim.is_closed)
    }

    /// Whether no axis appears anywhere.
    pub fn has_no_axes(&self) -> bool {
        self.axes().next().is_none()
    }

    /// All axes that appear: of the dimensions, then replicated, then unreduced.
    pub fn axes(&self) -> impl Iterator<Item = &AxisRef> {
        self.dim_axes().chain(&self.replicated).chain(&self.unreduced)
    }

    /// The axes that split dimensions.
    pub fn dim_axes(&self) -> impl Iterator<Item = &AxisRef> {
        self.dims.iter().flat_map(|dim| &dim.axes)
    }

    /// Whether `axis` overlaps with any axis that appears.
    pub fn uses(&self, axis: &AxisRef) -> bool {
        self.axes().any(|used| used.overlaps(axis))
    }

    /// Whether the axis of this name, or a part of it, appears.
    pub fn is_bound(&self, name: &str) -> bool {
        self.axes().any(|used| &*used.name == name)
    }

    /// The axes and parts of axes of the mesh that appear nowhere, in mesh order: over these the devices
    /// hold copies that propagation may still use.
    ///
    /// `None` if an axis is unknown or two cannot coexist.
    pub fn free_axes(&self, mesh: &Mesh) -> Option<Vec<AxisRef>> {
        let mut parts = axis_list::mesh_parts(self.axes(), mesh)?;
        parts.retain(|part| !self.uses(part));
        axis_list::sort_and_merge(&mut parts, mesh);
        Some(parts)
    }

    /// Into how many shards each dimension is split.
    pub fn num_shards(&self, mesh: &Mesh) -> Vec<i64> {
        self.dims.iter().map(|dim| dim.num_shards(mesh)).collect()
    }

    /// The shape of the buffer each device holds: each size divided by its number of shards, rounded up.
    ///
    /// Unknown sizes (below 0) stay. On a maximal mesh the shape stays as it is.
    pub fn local_shape(&self, mesh: &Mesh, shape: &[i64]) -> Result<Vec<i64>, ShardingError> {
        if mesh.is_maximal() && self.dims.is_empty() {
            return Ok(shape.to_vec());
        }
        self.check_rank(shape.len())?;
        let local = shape.iter().zip(&self.dims);
        Ok(local.map(|(&size, dim)| ceil_div(size, dim.num_shards(mesh))).collect())
    }

    /// The shape whose even split has this local shape.
    pub fn global_shape(&self, mesh: &Mesh, local: &[i64]) -> Result<Vec<i64>, ShardingError> {
        if mesh.is_maximal() && self.dims.is_empty() {
            return Ok(local.to_vec());
        }
        self.check_rank(local.len())?;
        let global = local.iter().zip(&self.dims).map(|(&size, dim)| match size {
            size if size < 0 => size,
            size => size.saturating_mul(dim.num_shards(mesh)),
        });
        Ok(global.collect())
    }

    /// Whether the sharding has the rank of this shape and splits all its dimensions evenly.
    pub fn is_even(&self, mesh: &Mesh, shape: &[i64]) -> bool {
        verify_divisible(self, mesh, shape).is_ok()
    }

    /// Whether both place an array the same way, apart from open dimensions, priorities and replicated axes.
    ///
    /// Two shardings that split nothing are equivalent on any meshes.
    pub fn is_equivalent(&self, other: &Sharding) -> bool {
        let trivial = |sharding: &Sharding| sharding.is_fully_replicated() && sharding.unreduced.is_empty();
        if trivial(self) || trivial(other) {
            return trivial(self) && trivial(other);
        }
        self.mesh == other.mesh
            && self.unreduced == other.unreduced
            && (self.unreduced.is_empty() || self.reduction == other.reduction)
            && self.dims.iter().map(|dim| &dim.axes).eq(other.dims.iter().map(|dim| &dim.axes))
    }

    /// The name of the mesh, if it is a symbol.
    pub fn mesh_name(&self) -> Option<&Arc<str>> {
        self.mesh.symbol()
    }

    pub(crate) fn check_rank(&self, tensor: usize) -> Result<(), ShardingError> {
        if self.rank() == tensor {
            return Ok(());
        }
        Err(ShardingError::Rank { sharding: self.rank(), tensor })
    }
}
