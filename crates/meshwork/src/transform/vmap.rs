//! Functions of one example as functions of many.

use std::sync::Arc;

use meshwork_autodiff::BatchOptions;
use meshwork_ir::TensorType;
use meshwork_mesh::DimSharding;

use crate::Tensor;
use crate::error::fail;
use crate::tensor::normalize;
use crate::trace;
use crate::trace::inline::inline;
use crate::tree::{Path, Tree, leaves, replace};

/// `f`, written for one example, on all of them at once: the examples are the slices of `xs` along the first
/// dimension, and the results are stacked along a new first dimension.
///
/// The function is traced once, for one example, and every operation is then widened; loops stay loops. Tensors that
/// it captures are the same for all examples. For other dimensions and arguments that all examples share, see
/// [`Vmap`].
///
/// ```
/// use meshwork::prelude::*;
///
/// // The gradient of each example for itself.
/// let slopes = jit(|x: Tensor| vmap(|x: Tensor| grad(|x: Tensor| x.square().sum_all(), x), x));
/// let x = Array::from_fn([2, 3], |i| (3 * i[0] + i[1]) as f32);
/// assert_eq!(slopes.call(&x)?.to_vec::<f32>()?, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn vmap<A: Tree, B: Tree>(f: impl FnOnce(A) -> B, xs: A) -> B {
    Vmap::new().map(f, xs)
}

/// [`vmap`] along other dimensions.
///
/// ```
/// use meshwork::prelude::*;
///
/// // Columns of x against one shared vector.
/// let f = jit(|x: Tensor, w: Tensor| {
///     Vmap::new().in_axes([Some(1), None]).map(|(x, w): (Tensor, Tensor)| (x * w).sum_all(), (x, w))
/// });
/// let x = Array::from_vec([2, 3], vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(f.call((&x, &Array::from([1.0f32, 10.0])))?.to_vec::<f32>()?, [41.0, 52.0, 63.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Vmap {
    ins: MapAxes,
    outs: MapAxes,
    placement: DimSharding,
}

/// The dimension that runs over the examples: the same for all tensors, or one for each member of a tuple. `None` means that all
/// examples share it. Negative numbers count from the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapAxes {
    /// For all tensors.
    All(Option<i64>),
    /// For the members of a tuple, list or array.
    Members(Vec<Option<i64>>),
}

impl Default for MapAxes {
    fn default() -> MapAxes {
        MapAxes::All(Some(0))
    }
}

impl From<i64> for MapAxes {
    fn from(axis: i64) -> MapAxes {
        MapAxes::All(Some(axis))
    }
}

impl From<Option<i64>> for MapAxes {
    fn from(axis: Option<i64>) -> MapAxes {
        MapAxes::All(axis)
    }
}

impl<const N: usize> From<[Option<i64>; N]> for MapAxes {
    fn from(axes: [Option<i64>; N]) -> MapAxes {
        MapAxes::Members(axes.to_vec())
    }
}

impl From<Vec<Option<i64>>> for MapAxes {
    fn from(axes: Vec<Option<i64>>) -> MapAxes {
        MapAxes::Members(axes)
    }
}

impl MapAxes {
    /// The dimension of the tensor at `path`.
    #[track_caller]
    fn of(&self, what: &str, path: &str) -> Option<i64> {
        let list = match self {
            MapAxes::All(axis) => return *axis,
            MapAxes::Members(list) => list,
        };
        let member = path.split('/').next().and_then(|first| first.parse::<usize>().ok());
        match member.and_then(|m| list.get(m)) {
            Some(axis) => *axis,
            None => {
                fail("vmap", format!("{what} lists {} members; there is none for the tensor at {path:?}", list.len()))
            }
        }
    }
}

impl Vmap {
    /// Along the first dimension of all arguments and results.
    pub fn new() -> Vmap {
        Vmap::default()
    }

    /// The dimension of the arguments that runs over the examples.
    pub fn in_axes(mut self, axes: impl Into<MapAxes>) -> Vmap {
        self.ins = axes.into();
        self
    }

    /// The dimension of the results that runs over the examples.
    pub fn out_axes(mut self, axes: impl Into<MapAxes>) -> Vmap {
        self.outs = axes.into();
        self
    }

    /// Splits the examples over a mesh axis wherever the function places a tensor; without it, propagation decides.
    pub fn over(mut self, axis: &str) -> Vmap {
        self.placement = DimSharding::closed([axis]);
        self
    }

    /// Applies `f`, written for one example, to the examples of `xs`.
    #[track_caller]
    pub fn map<A: Tree, B: Tree>(&self, f: impl FnOnce(A) -> B, xs: A) -> B {
        let mut inputs: Vec<(String, Tensor)> = vec![];
        xs.tensors(&mut Path::default(), &mut |p, t| inputs.push((p.to_string(), t.clone())));
        let mut size: Option<(i64, String)> = None;
        let (mut in_axes, mut types) = (vec![], vec![]);
        for (path, x) in &inputs {
            let axis = self.ins.of("in_axes", path).map(|axis| x.axis("vmap", axis));
            let mut dims = x.shape().to_vec();
            if let Some(axis) = axis {
                let extent = dims.remove(axis);
                match &size {
                    Some((known, first)) if *known != extent => fail(
                        "vmap",
                        format!("{extent} examples at {path:?}, but {known} at {first:?}: {}", x.describe()),
                    ),
                    Some(_) => {}
                    None => size = Some((extent, path.clone())),
                }
            }
            in_axes.push(axis);
            types.push(Arc::new(TensorType::new(dims, x.dtype())));
        }
        let Some((size, _)) = size else { fail("vmap", "no argument has a dimension of examples") };
        let (guard, tensors) = trace::start(types.iter(), trace::placing("vmap"));
        let out = f(replace(&xs, &tensors));
        let mut out_axes = vec![];
        out.tensors(&mut Path::default(), &mut |p, t| {
            out_axes.push(self.outs.of("out_axes", p).map(|axis| normalize("vmap", axis, t.rank() + 1)));
        });
        let finished = trace::finish(guard, "vmap", &leaves(&out));
        let options = BatchOptions { size, in_axes, out_axes, placement: self.placement.clone() };
        let module = match meshwork_autodiff::vmap(&finished.module, "main", &options) {
            Ok(module) => module,
            Err(e) => fail("vmap", e.to_string()),
        };
        let args: Vec<Tensor> = inputs.into_iter().map(|(_, t)| t).chain(finished.captures).collect();
        replace(&out, &inline("vmap", &module, &args))
    }
}
