//! Parts along an axis: slices, updates, joins.

use super::{Axis, NamedTensor};
use crate::error::fail;
use crate::{ElementType, Index, Tensor};

impl NamedTensor {
    /// One index of the axis at `dim`, all of the others.
    fn indices(&self, dim: usize, index: Index) -> Vec<Index> {
        let all = Index::Range { start: None, end: None, step: 1 };
        (0..self.axes().len()).map(|d| if d == dim { index.clone() } else { all.clone() }).collect()
    }

    /// The positions `range` of an axis: `x.slice("pos", 1..5)`, `x.slice("pos", -1..)`.
    ///
    /// ```
    /// use meshwork::named::{Axis, NamedTensor};
    /// use meshwork::prelude::*;
    ///
    /// let (batch, pos) = (Axis::new("batch", 2), Axis::new("pos", 4));
    /// let x = NamedTensor::host(Array::from([[1i32, 2, 3, 4], [5, 6, 7, 8]]), [&batch, &pos])?;
    /// let (shifted, last) = jit(|x: NamedTensor| (x.slice("pos", 1..), x.index("pos", -1))).call(&x)?;
    /// assert_eq!(format!("{:?} {:?}", shifted.axes(), last.axes()), "[batch=2, pos=3] [batch=2]");
    /// assert_eq!(last.array().to_vec::<i32>()?, [4, 8]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn slice(&self, name: &str, range: impl Into<Index>) -> NamedTensor {
        let dim = self.position("slice", name);
        let range = range.into();
        if !matches!(range, Index::Range { .. }) {
            fail("slice", format!("one position of {name:?} is taken by index, a range of them by slice"));
        }
        let cut = self.array().slice(self.indices(dim, range));
        let mut axes = self.axes().to_vec();
        axes[dim] = axes[dim].resize(cut.shape()[dim]);
        NamedTensor::new(cut, axes)
    }

    /// One position of an axis, which goes away: a number, or a scalar tensor that the program computes.
    #[track_caller]
    pub fn index(&self, name: &str, at: impl Into<Index>) -> NamedTensor {
        let at = at.into();
        if !matches!(at, Index::At(_) | Index::Computed(_)) {
            fail("index", format!("several positions of {name:?} are taken by slice or take"));
        }
        self.without("index", &[name], |t, dims| t.slice(self.indices(dims[0] as usize, at)))
    }

    /// With the positions `range` of an axis replaced by `part`, whose axis is that long.
    #[track_caller]
    pub fn updated_slice(&self, name: &str, range: impl Into<Index>, part: &NamedTensor) -> NamedTensor {
        let dim = self.position("updated_slice", name);
        let names: Vec<&str> = self.axes().iter().map(Axis::name).collect();
        let part = part.rearrange(&names);
        self.apply(|t| t.at(self.indices(dim, range.into())).set(part.array()))
    }

    /// Each position of an axis, which goes away.
    #[track_caller]
    pub fn unbind(&self, name: &str) -> Vec<NamedTensor> {
        let dim = self.position("unbind", name);
        (0..self.axes()[dim].size()).map(|i| self.index(name, i)).collect()
    }

    /// Consecutive parts of an axis, each as long as one of `sizes` says; together they are all of it.
    #[track_caller]
    pub fn split(&self, name: &str, sizes: &[i64]) -> Vec<NamedTensor> {
        let dim = self.position("split", name);
        let size = self.axes()[dim].size();
        if sizes.iter().sum::<i64>() != size || sizes.iter().any(|&s| s < 0) {
            fail("split", format!("the sizes {sizes:?} do not cut {:?}", self.axes()[dim]));
        }
        let mut start = 0;
        let mut part = |size: i64| {
            start += size;
            self.slice(name, start - size..start)
        };
        sizes.iter().map(|&size| part(size)).collect()
    }

    /// With the positions of an axis moved up by `shift`, those past the end to its start.
    #[track_caller]
    pub fn roll(&self, name: &str, shift: i64) -> NamedTensor {
        let dim = self.position("roll", name) as i64;
        self.apply(|t| t.roll(shift, dim))
    }

    /// With the positions of an axis in the opposite order.
    #[track_caller]
    pub fn flip(&self, name: &str) -> NamedTensor {
        let dim = self.position("flip", name) as i64;
        self.apply(|t| t.flip(&[dim]))
    }

    /// Several axes as one, `into`, which stands where the first of them did.
    #[track_caller]
    pub fn flatten_axes(&self, names: &[&str], into: &str) -> NamedTensor {
        let [first, ..] = names else { fail("flatten_axes", "no axes given") };
        let at = self.position("flatten_axes", first);
        let size = names.iter().map(|n| self.axes()[self.position("flatten_axes", n)].size()).product();
        let mut order: Vec<&str> = vec![];
        let mut axes = vec![];
        for (dim, axis) in self.axes().iter().enumerate() {
            if dim == at {
                order.extend(names);
                axes.push(Axis::new(into, size));
            } else if !names.contains(&axis.name()) {
                order.push(axis.name());
                axes.push(axis.clone());
            }
        }
        let shape: Vec<i64> = axes.iter().map(Axis::size).collect();
        NamedTensor::new(self.rearrange(&order).array().reshape(shape), axes)
    }

    /// A new last axis with 1 where its position is the element and 0 elsewhere.
    #[track_caller]
    pub fn one_hot(&self, classes: &Axis, dtype: ElementType) -> NamedTensor {
        let axes: Vec<Axis> = self.axes().iter().cloned().chain([classes.clone()]).collect();
        NamedTensor::new(self.array().one_hot(classes.size(), dtype), axes)
    }
}

/// Tensors one after the other along the axis `name`. Their other axes are the same, in any order.
///
/// ```
/// use meshwork::named::{Axis, NamedTensor, concatenate};
/// use meshwork::prelude::*;
///
/// let (batch, pos) = (Axis::new("batch", 2), Axis::new("pos", 3));
/// let x = NamedTensor::host(Array::zeros([2, 3], F32), [&batch, &pos])?;
/// let y = NamedTensor::host(Array::full([1, 2], 1.0f32), [&pos.resize(1), &batch])?;
/// let z = jit(|(x, y): (NamedTensor, NamedTensor)| concatenate("pos", &[&x, &y])).call(&(x, y))?;
/// assert_eq!(format!("{:?}", z.axes()), "[batch=2, pos=4]");
/// assert_eq!(z.array().to_vec::<f32>()?, [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn concatenate(name: &str, parts: &[&NamedTensor]) -> NamedTensor {
    let [first, ..] = parts else { fail("concatenate", "no tensors given") };
    let dim = first.position("concatenate", name);
    let names: Vec<&str> = first.axes().iter().map(Axis::name).collect();
    let tensors: Vec<Tensor> = parts.iter().map(|part| part.rearrange(&names).array().clone()).collect();
    let joined = crate::ops::concatenate(&tensors, dim as i64);
    let mut axes = first.axes().to_vec();
    axes[dim] = axes[dim].resize(joined.shape()[dim]);
    NamedTensor::new(joined, axes)
}

/// Tensors with the same axes, in any order, along a new first one.
#[track_caller]
pub fn stack(axis: &Axis, parts: &[&NamedTensor]) -> NamedTensor {
    let [first, ..] = parts else { fail("stack", "no tensors given") };
    if parts.len() as i64 != axis.size() {
        fail("stack", format!("{} tensors along {axis:?}", parts.len()));
    }
    let names: Vec<&str> = first.axes().iter().map(Axis::name).collect();
    let tensors: Vec<Tensor> = parts.iter().map(|part| part.rearrange(&names).array().clone()).collect();
    let axes = std::iter::once(axis.clone()).chain(first.axes().iter().cloned()).collect::<Vec<_>>();
    NamedTensor::new(crate::ops::stack(&tensors, 0), axes)
}
