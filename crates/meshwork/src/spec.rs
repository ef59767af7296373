//! Placements as people write them: one entry per dimension, names of mesh axes.

use std::fmt;
use std::sync::Arc;

use meshwork_mesh::{AxisRef, DimSharding, Mesh, MeshRef, Sharding, ShardingError, verify_sharding};

/// The symbol of the mesh in programs.
pub(crate) const MESH: &str = "mesh";

/// Which mesh axes split which dimension. Made by [`P!`](macro@crate::P); dimensions that are not named are not split.
///
/// Dimensions are closed: propagation leaves them as they are. [`open`](P::open) lets it split them further.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct P {
    dims: Arc<Vec<DimSharding>>,
    replicated: Vec<AxisRef>,
}

/// The entry of one dimension in [`P!`](macro@crate::P): axis names, major to minor.
pub trait Axes {
    /// The names.
    fn axes(self) -> Vec<AxisRef>;
}

impl Axes for &str {
    fn axes(self) -> Vec<AxisRef> {
        vec![self.into()]
    }
}

impl Axes for &String {
    fn axes(self) -> Vec<AxisRef> {
        vec![self.as_str().into()]
    }
}

impl<const N: usize> Axes for [&str; N] {
    fn axes(self) -> Vec<AxisRef> {
        self.into_iter().map(Into::into).collect()
    }
}

impl Axes for Option<&str> {
    fn axes(self) -> Vec<AxisRef> {
        self.into_iter().map(Into::into).collect()
    }
}

/// A placement: `P!["x"]` splits the first dimension over the mesh axis `x`, `P![_, ["x", "y"]]` the second one over
/// `x` and then `y`, `P![]` nothing: every device holds a copy.
///
/// ```
/// use meshwork::prelude::*;
///
/// assert_eq!(P!["x", _].to_string(), r#"P!["x", _]"#);
/// assert_eq!(P![_, ["x", "y"]].to_string(), r#"P![_, ["x", "y"]]"#);
/// ```
#[macro_export]
macro_rules! P {
    (@dims [$($done:expr,)*]) => { $crate::P::of(vec![$($done),*]) };
    (@dims [$($done:expr,)*] _ $(, $($rest:tt)*)?) => {
        $crate::P!(@dims [$($done,)* vec![],] $($($rest)*)?)
    };
    (@dims [$($done:expr,)*] $axes:expr $(, $($rest:tt)*)?) => {
        $crate::P!(@dims [$($done,)* $crate::Axes::axes($axes),] $($($rest)*)?)
    };
    ($($dims:tt)*) => { $crate::P!(@dims [] $($dims)*) };
}

impl P {
    /// These axes per dimension, closed.
    pub fn of(dims: Vec<Vec<AxisRef>>) -> P {
        P { dims: Arc::new(dims.into_iter().map(DimSharding::closed).collect()), replicated: vec![] }
    }

    /// A copy on every device: for weights under data parallelism, and for small tensors.
    pub fn replicated() -> P {
        P::default()
    }

    /// The first dimension, the batch, over `axis`: for inputs and activations.
    pub fn data_parallel(axis: &str) -> P {
        P![axis]
    }

    /// The columns of a matrix over `axis`: each device makes a part of the outputs. For the first layer of a pair.
    pub fn column_parallel(axis: &str) -> P {
        P![_, axis]
    }

    /// The rows of a matrix over `axis`: each device uses a part of the inputs, and the outputs are summed. For the
    /// second layer of a pair.
    pub fn row_parallel(axis: &str) -> P {
        P![axis, _]
    }

    /// Lets propagation split every dimension further.
    pub fn open(mut self) -> P {
        Arc::make_mut(&mut self.dims).iter_mut().for_each(|d| d.is_closed = false);
        self
    }

    /// When propagation looks at the named dimensions: 0 first.
    pub fn priority(mut self, priority: i64) -> P {
        let dims = Arc::make_mut(&mut self.dims).iter_mut();
        dims.filter(|d| !d.axes.is_empty() || !d.is_closed).for_each(|d| d.priority = Some(priority));
        self
    }

    /// Axes that have to hold copies.
    pub fn copies_over(mut self, axes: &[&str]) -> P {
        self.replicated = axes.iter().map(|&a| a.into()).collect();
        self
    }

    /// The entries of the dimensions that are named.
    pub fn dims(&self) -> &[DimSharding] {
        &self.dims
    }

    /// With `axis` as the most minor one of dimension `dim`.
    pub fn with_axis(&self, dim: usize, axis: &str) -> P {
        let mut out = self.clone();
        let dims = Arc::make_mut(&mut out.dims);
        if dims.len() <= dim {
            dims.resize(dim + 1, DimSharding { is_closed: true, ..DimSharding::default() });
        }
        dims[dim].axes.push(axis.into());
        out
    }

    /// With the axes of `other` added to those of each dimension, minor to them.
    pub fn merge(&self, other: &P) -> P {
        let mut out = self.clone();
        let named = self.dims.len().max(other.dims.len());
        let dims = Arc::make_mut(&mut out.dims);
        dims.resize(named, DimSharding { is_closed: true, ..DimSharding::default() });
        for (own, more) in dims.iter_mut().zip(&*other.dims) {
            own.axes.extend(more.axes.iter().cloned());
            own.is_closed &= more.is_closed;
            own.priority = own.priority.or(more.priority);
        }
        out.replicated.extend(other.replicated.iter().cloned());
        out
    }

    /// The sharding of a tensor of this rank on `mesh`, which programs call `name`.
    pub fn sharding(&self, name: MeshRef, mesh: &Mesh, rank: usize) -> Result<Sharding, ShardingError> {
        if self.dims.len() > rank {
            return Err(ShardingError::Rank { sharding: self.dims.len(), tensor: rank });
        }
        let mut dims = Vec::with_capacity(rank);
        dims.extend_from_slice(&self.dims);
        dims.resize(rank, DimSharding { is_closed: true, ..DimSharding::default() });
        let mut sharding = Sharding::new(name, dims);
        sharding.replicated = self.replicated.clone();
        verify_sharding(&sharding, mesh, Some(rank))?;
        Ok(sharding)
    }
}

impl AsRef<P> for P {
    fn as_ref(&self) -> &P {
        self
    }
}

impl fmt::Display for P {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = |d: &DimSharding| match &d.axes[..] {
            [] => "_".to_string(),
            [one] => one.to_string(),
            several => format!("[{}]", several.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        write!(f, "P![{}]", self.dims.iter().map(entry).collect::<Vec<_>>().join(", "))
    }
}
