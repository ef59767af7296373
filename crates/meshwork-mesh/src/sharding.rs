//! A sharding: which axes of a mesh split which dimension of an array, and how.
//!
//! Per dimension there is an ordered list of axes, major to minor. Axes that appear nowhere hold
//! copies. `replicated` axes hold copies and must stay so; over `unreduced` axes the devices hold partial
//! results which still have to be combined by `reduction`.
//!
//! Values here are plain data: [`crate::verify`] says whether one fits a mesh and a tensor.

use std::sync::Arc;

use crate::axis::AxisRef;
use crate::axis_list;
use crate::error::ShardingError;
use crate::mesh::Mesh;

/// The mesh of a sharding: a symbol to look up, or the mesh itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MeshRef {
    /// The name of a mesh defined elsewhere, without the `@`.
    Symbol(Arc<str>),
    /// The mesh itself.
    Inline(Arc<Mesh>),
}

impl MeshRef {
    /// The name, if this is a symbol.
    pub fn symbol(&self) -> Option<&Arc<str>> {
        match self {
            MeshRef::Symbol(name) => Some(name),
            MeshRef::Inline(_) => None,
        }
    }

    /// The mesh, if it is inline.
    pub fn inline(&self) -> Option<&Arc<Mesh>> {
        match self {
            MeshRef::Symbol(_) => None,
            MeshRef::Inline(mesh) => Some(mesh),
        }
    }
}

impl From<&str> for MeshRef {
    fn from(name: &str) -> Self {
        MeshRef::Symbol(name.into())
    }
}

impl From<Arc<str>> for MeshRef {
    fn from(name: Arc<str>) -> Self {
        MeshRef::Symbol(name)
    }
}

impl From<Mesh> for MeshRef {
    fn from(mesh: Mesh) -> Self {
        MeshRef::Inline(Arc::new(mesh))
    }
}

impl From<Arc<Mesh>> for MeshRef {
    fn from(mesh: Arc<Mesh>) -> Self {
        MeshRef::Inline(mesh)
    }
}

impl From<&MeshRef> for MeshRef {
    fn from(mesh: &MeshRef) -> Self {
        mesh.clone()
    }
}

/// How partial results are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reduction {
    /// By addition.
    #[default]
    Sum,
    /// By the larger one.
    Max,
    /// By the smaller one.
    Min,
}

/// How one dimension is sharded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DimSharding {
    /// The axes that split the dimension, major to minor.
    pub axes: Vec<AxisRef>,
    /// Whether propagation may not shard it further.
    pub is_closed: bool,
    /// When propagation looks at it: 0 first, which is also meant by `None`.
    pub priority: Option<i64>,
}

impl DimSharding {
    /// Split by these axes and no further.
    pub fn closed<A: Into<AxisRef>>(axes: impl IntoIterator<Item = A>) -> Self {
        Self { axes: axes.into_iter().map(Into::into).collect(), is_closed: true, priority: None }
    }

    /// Split by these axes, and by more where propagation finds them.
    pub fn open<A: Into<AxisRef>>(axes: impl IntoIterator<Item = A>) -> Self {
        Self { is_closed: false, ..Self::closed(axes) }
    }

    /// The same with a priority.
    pub fn with_priority(self, priority: i64) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// The priority, 0 if none is written.
    pub fn priority_or_default(&self) -> i64 {
        self.priority.unwrap_or(0)
    }

    /// Into how many shards the dimension is split.
    pub fn num_shards(&self, mesh: &Mesh) -> i64 {
        axis_list::product(&self.axes, mesh)
    }
}

/// How an array is placed on a mesh.
///
/// ```
/// use meshwork_mesh::{DimSharding, Mesh, Sharding};
/// let mesh = Mesh::grid(("data", 2), ("model", 4))?;
/// let sharding = Sharding::new("mesh", [DimSharding::closed(["data"]), DimSharding::open(["model"])]);
/// assert_eq!(sharding.to_string(), r#"<@mesh, [{"data"}, {"model", ?}]>"#);
/// assert_eq!(sharding.local_shape(&mesh, &[8, 102])?, [4, 26]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sharding {
    /// The mesh that the axes belong to.
    pub mesh: MeshRef,
    /// One entry per dimension.
    pub dims: Vec<DimSharding>,
    /// Axes that must hold copies, in mesh order.
    pub replicated: Vec<AxisRef>,
    /// Axes over which devices hold partial results, in mesh order.
    pub unreduced: Vec<AxisRef>,
    /// How partial results are combined; `Sum` by default.
    pub reduction: Reduction,
}

impl Sharding {
    /// The sharding with these dimensions.
    pub fn new(mesh: impl Into<MeshRef>, dims: impl IntoIterator<Item = DimSharding>) -> Self {
        Self {
            mesh: mesh.into(),
            dims: dims.into_iter().collect(),
            replicated: Vec::new(),
            unreduced: Vec::new(),
            reduction: Reduction::Sum,
        }
    }

    /// A copy on every device, and propagation may not change that: the same as
    /// [`Sharding::fully_closed`].
    pub fn replicated(mesh: impl Into<MeshRef>, rank: usize) -> Self {
        Self::fully_closed(mesh, rank)
    }

    /// No axes, every dimension open: what a value without any sharding means.
    pub fn fully_open(mesh: impl Into<MeshRef>, rank: usize) -> Self {
        Self::new(mesh, vec![DimSharding::default(); rank])
    }

    /// No axes, every dimension closed.
    pub fn fully_closed(mesh: impl Into<MeshRef>, rank: usize) -> Self {
        Self::fully_open(mesh, rank).closed()
    }

    /// Closed, with these axes on these dimensions; negative dimensions count from the end, so that
    /// one description fits arrays of several ranks.
    ///
    /// ```
    /// use meshwork_mesh::Sharding;
    /// let rows: &[(i64, &[&str])] = &[(-2, &["x"])];
    /// assert_eq!(Sharding::on_dims("m", rows, 2)?.to_string(), r#"<@m, [{"x"}, {}]>"#);
    /// assert_eq!(Sharding::on_dims("m", rows, 3)?.to_string(), r#"<@m, [{}, {"x"}, {}]>"#);
    /// # Ok::<(), meshwork_mesh::ShardingError>(())
    /// ```
    pub fn on_dims<A: Into<AxisRef> + Clone>(
        mesh: impl Into<MeshRef>,
        axes: &[(i64, &[A])],
        rank: usize,
    ) -> Result<Self, ShardingError> {
        let mut sharding = Self::fully_closed(mesh, rank);
        let mut seen = vec![false; rank];
        for &(dim, axes) in axes {
            let index = if dim < 0 { dim.checked_add(rank as i64) } else { Some(dim) };
            let index = index.and_then(|index| usize::try_from(index).ok()).filter(|&i| i < rank);
            let index = index.ok_or(ShardingError::DimOutOfRange { dim, rank })?;
            if std::mem::replace(&mut seen[index], true) {
                return Err(ShardingError::RepeatedDim { dim });
            }
            sharding.dims[index].axes = axes.iter().cloned().map(Into::into).collect();
        }
        Ok(sharding)
    }

    /// The first dimension (the batch) over `axis`, a copy of the rest.
    pub fn data_parallel(
        mesh: impl Into<MeshRef>,
        rank: usize,
        axis: impl Into<AxisRef>,
    ) -> Result<Self, ShardingError> {
        Self::model_parallel(mesh, rank, 0, axis)
    }

    /// One dimension, which may be negative, over `axis`.
    pub fn model_parallel(
        mesh: impl Into<MeshRef>,
        rank: usize,
        dim: i64,
        axis: impl Into<AxisRef>,
    ) -> Result<Self, ShardingError> {
        Self::on_dims(mesh, &[(dim, &[axis.into()])], rank)
    }

    /// The columns of a weight over `axis` (its last dimension): each device makes part of the outputs.
    pub fn column_parallel(
        mesh: impl Into<MeshRef>,
        rank: usize,
        axis: impl Into<AxisRef>,
    ) -> Result<Self, ShardingError> {
        Self::model_parallel(mesh, rank, -1, axis)
    }

    /// The rows of a weight over `axis` (its second to last dimension): each device uses part of the
    /// inputs, and the outputs are partial sums over `axis`.
    pub fn row_parallel(
        mesh: impl Into<MeshRef>,
        rank: usize,
        axis: impl Into<AxisRef>,
    ) -> Result<Self, ShardingError> {
        Self::model_parallel(mesh, rank, -2, axis)
    }

    /// The same with these replicated axes.
    pub fn with_replicated<A: Into<AxisRef>>(self, axes: impl IntoIterator<Item = A>) -> Self {
        Self { replicated: axes.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same with partial results over these axes.
    pub fn with_unreduced<A: Into<AxisRef>>(self, reduction: Reduction, axes: impl IntoIterator<Item = A>) -> Self {
        let unreduced: Vec<AxisRef> = axes.into_iter().map(Into::into).collect();
        let reduction = if unreduced.is_empty() { Reduction::Sum } else { reduction };
        Self { unreduced, reduction, ..self }
    }

    /// The same with every dimension closed.
    pub fn closed(self) -> Self {
        self.map_dims(|dim| DimSharding { is_closed: true, ..dim })
    }

    /// The same with every dimension open.
    pub fn opened(self) -> Self {
        self.map_dims(|dim| DimSharding { is_closed: false, ..dim })
    }

    /// The same without priorities.
    pub fn without_priorities(self) -> Self {
        self.map_dims(|dim| DimSharding { priority: None, ..dim })
    }

    fn map_dims(mut self, change: impl Fn(DimSharding) -> DimSharding) -> Self {
        self.dims = self.dims.into_iter().map(change).collect();
        self
    }
}
