//! Placements as users write them: one entry per dimension, each a list of mesh axis names.

use std::fmt;
use std::sync::Arc;

use crate::{AxisRef, DimSharding, Mesh, MeshRef, Reduction, Sharding, ShardingError, axis_list, verify_sharding};

/// Which mesh axes split which dimension. Made by [`P!`](macro@crate::P); dimensions that are not named are not split.
///
/// Dimensions are closed: propagation leaves them as they are. [`open`](P::open) lets it split them further.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct P {
    dims: Arc<Vec<DimSharding>>,
    /// Where `..` stands among them.
    rest: Option<usize>,
    replicated: Vec<AxisRef>,
    unreduced: Vec<AxisRef>,
    reduction: Reduction,
}

/// The entry of one dimension in [`P!`](macro@crate::P): axis names, major to minor.
pub trait Axes: Sized {
    /// The names.
    fn axes(self) -> Vec<AxisRef>;

    /// The entry: these axes, and no others.
    fn entry(self) -> DimSharding {
        DimSharding::closed(self.axes())
    }
}

/// The entry of one dimension in [`P!`](macro@crate::P), open or with a priority; see [`dim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dim(DimSharding);

/// An entry of [`P!`](macro@crate::P) that says more than its axes.
///
/// ```
/// use meshwork_mesh::{P, dim};
///
/// // The batch over `data`, first of all; the features as propagation finds best.
/// let p = P![dim("data").priority(0), dim([]).open().priority(1)];
/// assert_eq!(p.to_string(), r#"P![dim("data").priority(0), dim([]).open().priority(1)]"#);
/// ```
pub fn dim(axes: impl Axes) -> Dim {
    Dim(axes.entry())
}

impl Dim {
    /// Propagation may split it further.
    pub fn open(mut self) -> Dim {
        self.0.is_closed = false;
        self
    }

    /// When propagation looks at it: 0 first.
    pub fn priority(mut self, priority: i64) -> Dim {
        self.0.priority = Some(priority);
        self
    }
}

impl Axes for Dim {
    fn axes(self) -> Vec<AxisRef> {
        self.0.axes
    }

    fn entry(self) -> DimSharding {
        self.0
    }
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

impl Axes for Vec<AxisRef> {
    fn axes(self) -> Vec<AxisRef> {
        self
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
/// `..` stands for any number of dimensions that are not split, so `P![.., "x"]` splits the last dimension of arrays of
/// any rank. [`dim`] makes entries that are open or have a priority.
///
/// ```
/// use meshwork_mesh::P;
///
/// assert_eq!(P!["x", _].to_string(), r#"P!["x", _]"#);
/// assert_eq!(P![_, ["x", "y"]].to_string(), r#"P![_, ["x", "y"]]"#);
/// assert_eq!(P!["x", .., "y"].for_rank(4), P!["x", _, _, "y"]);
/// ```
#[macro_export]
macro_rules! P {
    (@dims [$($done:expr,)*]) => { $crate::P::of_entries(vec![$($done),*]) };
    (@dims [$($done:expr,)*] _ $(, $($rest:tt)*)?) => {
        $crate::P!(@dims [$($done,)* Some($crate::Axes::entry([])),] $($($rest)*)?)
    };
    (@dims [$($done:expr,)*] .. $(, $($rest:tt)*)?) => {
        $crate::P!(@dims [$($done,)* None,] $($($rest)*)?)
    };
    (@dims [$($done:expr,)*] $axes:expr $(, $($rest:tt)*)?) => {
        $crate::P!(@dims [$($done,)* Some($crate::Axes::entry($axes)),] $($($rest)*)?)
    };
    ($($dims:tt)*) => { $crate::P!(@dims [] $($dims)*) };
}

impl P {
    /// These axes per dimension, closed.
    pub fn of(dims: Vec<Vec<AxisRef>>) -> P {
        P { dims: Arc::new(dims.into_iter().map(DimSharding::closed).collect()), ..P::default() }
    }

    /// These entries, where `None` stands for any number of dimensions that are not split. Of several, the first does.
    pub fn of_entries(entries: Vec<Option<DimSharding>>) -> P {
        let rest = entries.iter().position(Option::is_none);
        P { dims: Arc::new(entries.into_iter().flatten().collect()), rest, ..P::default() }
    }

    /// The placement for arrays of this rank: `..` written out. One that names more dimensions stays as it is.
    pub fn for_rank(&self, rank: usize) -> P {
        let Some(at) = self.rest.filter(|_| self.dims.len() <= rank) else { return self.clone() };
        let (head, tail) = self.dims.split_at(at);
        let whole = vec![DimSharding::closed(Vec::<AxisRef>::new()); rank - self.dims.len()];
        P { dims: Arc::new([head, &whole, tail].concat()), rest: None, ..self.clone() }
    }

    /// Whether `..` stands among its dimensions, so that it depends on the rank of an array what they are.
    pub fn is_elided(&self) -> bool {
        self.rest.is_some()
    }

    /// A copy on every device.
    ///
    /// For weights under pure data parallelism, as long as they fit on each device, and for whatever is small: norms,
    /// biases, scalars, counters.
    pub fn replicated() -> P {
        P::default()
    }

    /// The first dimension, the batch, over `axis`.
    ///
    /// For inputs, labels and activations. With replicated weights it is data parallelism: the forward pass needs no
    /// communication, and each gradient is summed once over `axis`.
    pub fn data_parallel(axis: &str) -> P {
        P![axis]
    }

    /// The last dimension, the features, over `axis`, whatever the rank.
    ///
    /// For activations between a column- and a row-parallel layer, and for the heads of attention; embeddings of
    /// shape vocabulary x features rather take [`row_parallel`](P::row_parallel).
    pub fn model_parallel(axis: &str) -> P {
        P![.., axis]
    }

    /// The columns of a matrix over `axis`: each device makes a part of the outputs.
    ///
    /// For the first matrix of a pair (up-projection, query, key and value), and for its bias. It needs no
    /// communication forward; its outputs are split by features.
    pub fn column_parallel(axis: &str) -> P {
        P![.., axis]
    }

    /// The rows of a matrix over `axis`: each device uses a part of the inputs, and the outputs are summed over `axis`.
    ///
    /// For the second matrix of a pair (down-projection, output of attention), whose inputs are split by features
    /// already, and for embeddings. Its bias is replicated.
    pub fn row_parallel(axis: &str) -> P {
        P![.., axis, _]
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

    /// Axes over which devices hold parts that add up to the array.
    ///
    /// ```
    /// use meshwork_mesh::P;
    ///
    /// assert_eq!(P!["x"].unreduced(&["y"]).to_string(), r#"P!["x"].unreduced(&["y"])"#);
    /// ```
    pub fn unreduced(self, axes: &[&str]) -> P {
        self.parts(Reduction::Sum, axes)
    }

    /// Axes over which devices hold parts of the array, to be combined by `reduction`.
    pub fn parts(mut self, reduction: Reduction, axes: &[&str]) -> P {
        self.unreduced = axes.iter().map(|&a| a.into()).collect();
        self.reduction = reduction;
        self
    }

    /// The entries of the dimensions that are named.
    pub fn dims(&self) -> &[DimSharding] {
        &self.dims
    }

    /// With `axis` as the most minor one of dimension `dim`, counted as if `..` stood for nothing.
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
        if !other.unreduced.is_empty() {
            out.unreduced.extend(other.unreduced.iter().cloned());
            out.reduction = other.reduction;
        }
        out
    }

    /// The sharding of a tensor of this rank on `mesh`, which programs call `name`.
    pub fn sharding(&self, name: MeshRef, mesh: &Mesh, rank: usize) -> Result<Sharding, ShardingError> {
        if self.dims.len() > rank {
            return Err(ShardingError::Rank { sharding: self.dims.len(), tensor: rank });
        }
        if self.rest.is_some() {
            return self.for_rank(rank).sharding(name, mesh, rank);
        }
        let mut dims = Vec::with_capacity(rank);
        dims.extend_from_slice(&self.dims);
        dims.resize(rank, DimSharding { is_closed: true, ..DimSharding::default() });
        let mut sharding = Sharding::new(name, dims).with_unreduced(self.reduction, self.unreduced.iter().cloned());
        sharding.replicated = self.replicated.clone();
        if axis_list::mesh_parts(sharding.axes(), mesh).is_some() {
            axis_list::sort_and_merge(&mut sharding.unreduced, mesh);
        }
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
        let mut entries: Vec<String> = self.dims.iter().map(entry_text).collect();
        if let Some(at) = self.rest {
            entries.insert(at.min(entries.len()), "..".into());
        }
        write!(f, "P![{}]", entries.join(", "))?;
        if !self.replicated.is_empty() {
            let axes: Vec<String> = self.replicated.iter().map(ToString::to_string).collect();
            write!(f, ".copies_over(&[{}])", axes.join(", "))?;
        }
        if !self.unreduced.is_empty() {
            let axes = self.unreduced.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            match self.reduction {
                Reduction::Sum => write!(f, ".unreduced(&[{axes}])")?,
                other => write!(f, ".parts(Reduction::{other:?}, &[{axes}])")?,
            }
        }
        Ok(())
    }
}

fn entry_text(d: &DimSharding) -> String {
    let axes = d.axes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let list = if d.axes.len() == 1 { axes } else { format!("[{axes}]") };
    match (d.is_closed, d.priority) {
        (true, None) if d.axes.is_empty() => "_".into(),
        (true, None) => list,
        (closed, priority) => {
            let open = if closed { "" } else { ".open()" };
            let priority = priority.map(|p| format!(".priority({p})")).unwrap_or_default();
            format!("dim({list}){open}{priority}")
        }
    }
}

/// Why a placement does not fit, in the terms of [`P!`](macro@crate::P).
pub fn explain(error: &ShardingError) -> String {
    match error {
        ShardingError::Rank { sharding, tensor } => {
            format!("it names {sharding} dimensions, and there are {tensor}; one entry per dimension, _ for none")
        }
        other => other.to_string(),
    }
}
