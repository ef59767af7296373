//! Where a value is, as the model sees it: for each mesh axis the dimension that it splits, or none.

use meshwork_mesh::{AxisRef, DimSharding, Mesh, Sharding};

/// The most axes that the model looks at; more split nothing.
pub(super) const MOST_AXES: usize = 8;
const NONE: u8 = u8::MAX;

/// For each axis the dimension that it splits. Axes on one dimension split it in the order of the mesh.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Place([u8; MOST_AXES]);

impl Place {
    /// Whole on every device.
    pub(super) const WHOLE: Place = Place([NONE; MOST_AXES]);

    /// The dimension that `axis` splits.
    pub(super) fn dim(&self, axis: usize) -> Option<usize> {
        (self.0[axis] != NONE).then_some(self.0[axis] as usize)
    }

    /// The same with `dim` split by `axis`.
    pub(super) fn with(mut self, axis: usize, dim: usize) -> Place {
        self.0[axis] = dim as u8;
        self
    }

    /// How many parts there are, given the sizes of the axes.
    pub(super) fn parts(&self, sizes: &[i64]) -> f64 {
        (0..sizes.len()).filter(|&a| self.dim(a).is_some()).map(|a| sizes[a] as f64).product()
    }

    /// Whether no dimension has more parts than elements.
    pub(super) fn fits(&self, dims: &[i64], sizes: &[i64]) -> bool {
        dims.iter().enumerate().all(|(d, &extent)| {
            let parts: i64 = (0..sizes.len()).filter(|&a| self.dim(a) == Some(d)).map(|a| sizes[a]).product();
            parts <= extent.max(1)
        })
    }

    /// The place that a sharding of whole axes stands for, if it leaves nothing open.
    pub(super) fn of(sharding: &Sharding, mesh: &Mesh) -> Option<Place> {
        let mut place = Place::WHOLE;
        for (d, dim) in sharding.dims.iter().enumerate() {
            if !dim.is_closed {
                return None;
            }
            for axis in &dim.axes {
                let at = mesh
                    .axis_index(&axis.name)
                    .filter(|&at| at < MOST_AXES && *axis == AxisRef::full(axis.name.clone()))?;
                place = place.with(at, d);
            }
        }
        Some(place)
    }

    /// The closed sharding of a value of this rank.
    pub(super) fn sharding(&self, rank: usize, mesh: &Mesh, mesh_name: &str) -> Sharding {
        let axes = |d: usize| {
            let on = mesh.axes().iter().take(MOST_AXES).enumerate().filter(move |(a, _)| self.dim(*a) == Some(d));
            on.map(|(_, axis)| AxisRef::full(axis.name.clone()))
        };
        let dims = (0..rank).map(|d| DimSharding { axes: axes(d).collect(), is_closed: true, priority: None });
        Sharding::new(mesh_name, dims)
    }
}
