//! Arrangement of dimensions and parts: NumPy's names that `movement` does not have.
//!
//! ```
//! use meshwork::prelude::*;
//! use meshwork::{hstack, vstack};
//!
//! let f = jit(|x: Tensor| (x.repeat(2, 0), x.array_split(2, 0).remove(0), vstack(&[x.clone(), x.clone()])));
//! let (twice, first, rows) = f.call(&Array::from([1i32, 2, 3]))?;
//! assert_eq!(twice.to_vec::<i32>()?, [1, 1, 2, 2, 3, 3]);
//! assert_eq!(first.to_vec::<i32>()?, [1, 2]);
//! assert_eq!(rows.shape(), [2, 3]);
//! # let _ = hstack;
//! # Ok::<(), meshwork::Error>(())
//! ```

use meshwork_ir::Type;

use super::broadcast::common_shape;
use super::movement::concatenate;
use crate::error::fail;
use crate::tensor::normalize;
use crate::trace::compose::emit_all;
use crate::{Shape, Tensor};

impl Tensor {
    /// The dimensions in reverse order, as NumPy's `transpose` without axes. ([`t`](Tensor::t) exchanges the last two.)
    #[track_caller]
    pub fn transpose(&self) -> Tensor {
        self.permute(&(0..self.rank() as i64).rev().collect::<Vec<_>>())
    }

    /// Dimension `from` moved to position `to` of the result.
    #[track_caller]
    pub fn moveaxis(&self, from: i64, to: i64) -> Tensor {
        let (from, to) = (self.axis("moveaxis", from), self.axis("moveaxis", to));
        let mut order: Vec<i64> = (0..self.rank() as i64).collect();
        let moved = order.remove(from);
        order.insert(to, moved);
        self.permute(&order)
    }

    /// Each element `times` times after itself along `axis`. ([`tile`](Tensor::tile) repeats the whole.)
    #[track_caller]
    pub fn repeat(&self, times: i64, axis: i64) -> Tensor {
        let axis = self.axis("repeat", axis);
        if times < 0 {
            fail("repeat", format!("{times} times"));
        }
        let mut wide = self.shape().to_vec();
        wide.insert(axis + 1, times);
        let map: Vec<i64> = (0..self.rank() as i64).map(|d| if d as usize > axis { d + 1 } else { d }).collect();
        let mut shape = self.shape().to_vec();
        shape[axis] *= times;
        self.spread("repeat", Type::tensor(wide, self.dtype()), &map).reshape(shape)
    }

    /// Each slice along `axis` as often as `counts` says, `total` in all: what is missing repeats the last slice, and
    /// what is too much is cut off. The counts are data, the total is known while tracing.
    #[track_caller]
    pub fn repeat_by(&self, counts: &Tensor, total: i64, axis: i64) -> Tensor {
        let axis = self.axis("repeat_by", axis) as i64;
        let ends = counts.to(crate::ElementType::I32).cumsum(0);
        let at = super::create::arange(total, crate::ElementType::I32);
        let from = ends.expand_dims(0).le(at.expand_dims(1)).to(crate::ElementType::I32).sum(&[1]);
        self.take(&from.clamp(0, self.dim(axis) - 1), axis)
    }

    /// The slices along `axis`, without it.
    #[track_caller]
    pub fn unstack(&self, axis: i64) -> Vec<Tensor> {
        let axis = self.axis("unstack", axis);
        let mut out = vec![];
        for i in 0..self.shape()[axis] {
            out.push(self.narrow("unstack", axis, i, i + 1).squeeze(axis as i64));
        }
        out
    }

    /// Cut in `parts` along `axis`; the first ones are longer by one if they cannot be equal.
    #[track_caller]
    pub fn array_split(&self, parts: i64, axis: i64) -> Vec<Tensor> {
        let axis = self.axis("array_split", axis);
        if parts < 1 {
            fail("array_split", format!("in {parts} parts"));
        }
        let n = self.shape()[axis];
        let (mut out, mut from) = (vec![], 0);
        for i in 0..parts {
            let to = from + n / parts + i64::from(i < n % parts);
            out.push(self.narrow("array_split", axis, from, to));
            from = to;
        }
        out
    }

    /// Cut before each of the positions `at` along `axis`.
    #[track_caller]
    pub fn split_at(&self, at: &[i64], axis: i64) -> Vec<Tensor> {
        let axis = self.axis("split_at", axis);
        let n = self.shape()[axis];
        let (mut out, mut from) = (vec![], 0);
        for &to in at.iter().chain([&n]) {
            if to < from || to > n {
                fail("split_at", format!("positions {at:?} of axis {axis} with extent {n} do not ascend"));
            }
            out.push(self.narrow("split_at", axis, from, to));
            from = to;
        }
        out
    }

    /// The first and the last of several dimensions, and those between, as one.
    #[track_caller]
    pub fn collapse(&self, first: i64, last: i64) -> Tensor {
        let (first, last) = (self.axis("collapse", first), self.axis("collapse", last));
        if first > last {
            fail("collapse", format!("dimensions {first} to {last} of {}", self.describe()));
        }
        let shape = self.shape();
        let one: i64 = shape[first..=last].iter().product();
        self.reshape([&shape[..first], &[one], &shape[last + 1..]].concat())
    }

    /// At least one dimension: a scalar becomes a vector.
    #[track_caller]
    pub fn atleast_1d(&self) -> Tensor {
        if self.rank() == 0 { self.reshape([1]) } else { self.clone() }
    }

    /// At least two dimensions: a vector becomes a row.
    #[track_caller]
    pub fn atleast_2d(&self) -> Tensor {
        if self.rank() < 2 { self.atleast_1d().expand_dims(0) } else { self.clone() }
    }

    /// Turned by `times` quarters, from the first of the two axes to the second.
    #[track_caller]
    pub fn rot90(&self, times: i64, axes: [i64; 2]) -> Tensor {
        let [a, b] = axes;
        match times.rem_euclid(4) {
            0 => self.clone(),
            1 => self.flip(&[b]).swap_axes(a, b),
            2 => self.flip(&[a, b]),
            _ => self.swap_axes(a, b).flip(&[b]),
        }
    }

    /// The tensor as dimensions `map` of one of shape `shape`; the others repeat it.
    #[track_caller]
    pub fn broadcast_in_dim(&self, shape: impl Shape, map: &[i64]) -> Tensor {
        let shape = &shape.extents()[..];
        let fits = |(&d, &n): (&i64, &i64)| shape.get(d as usize).is_some_and(|&m| n == 1 || n == m);
        if map.len() != self.rank() || !map.iter().zip(self.shape()).all(fits) {
            fail("broadcast_in_dim", format!("{} as dimensions {map:?} of {shape:?}", self.describe()));
        }
        self.spread("broadcast_in_dim", Type::tensor(shape.iter().copied(), self.dtype()), map)
    }

    /// `n` positions from `start` on along `axis`; `start` is an integer scalar of the program. A start past the end
    /// means the last `n`.
    #[track_caller]
    pub fn dynamic_slice_in_dim(&self, start: &Tensor, n: i64, axis: i64) -> Tensor {
        let axis = self.axis("dynamic_slice_in_dim", axis);
        let mut sizes = self.shape().to_vec();
        sizes[axis] = n;
        self.dynamic_slice(&starts_at(start, axis, self.rank()), &sizes)
    }

    /// The tensor with `update` from position `start` on along `axis`.
    #[track_caller]
    pub fn dynamic_update_slice_in_dim(&self, update: &Tensor, start: &Tensor, axis: i64) -> Tensor {
        let axis = self.axis("dynamic_update_slice_in_dim", axis);
        self.dynamic_update_slice(update, &starts_at(start, axis, self.rank()))
    }

    /// The slice at position `at`, an integer scalar of the program, along `axis`, which stays with extent 1.
    #[track_caller]
    pub fn dynamic_index_in_dim(&self, at: &Tensor, axis: i64) -> Tensor {
        self.dynamic_slice_in_dim(at, 1, axis)
    }

    /// The tensor with `update` at position `at` along `axis`, which `update` lacks or has with extent 1.
    #[track_caller]
    pub fn dynamic_update_index_in_dim(&self, update: &Tensor, at: &Tensor, axis: i64) -> Tensor {
        let axis = self.axis("dynamic_update_index_in_dim", axis) as i64;
        let update = if update.rank() + 1 == self.rank() { update.expand_dims(axis) } else { update.clone() };
        self.dynamic_update_slice_in_dim(&update, at, axis)
    }

    /// The slice at position `at`, which is known while tracing, along `axis`, which stays with extent 1.
    #[track_caller]
    pub fn index_in_dim(&self, at: i64, axis: i64) -> Tensor {
        let axis = self.axis("index_in_dim", axis);
        let at = normalize("index_in_dim", at, self.shape()[axis] as usize) as i64;
        self.narrow("index_in_dim", axis, at, at + 1)
    }
}

#[track_caller]
fn starts_at(start: &Tensor, axis: usize, rank: usize) -> Vec<Tensor> {
    let mut starts = vec![start.zeros_like(); rank];
    starts[axis] = start.clone();
    starts
}

/// Tensors one below the other: vectors are rows.
#[track_caller]
pub fn vstack(parts: &[Tensor]) -> Tensor {
    let mut rows = vec![];
    for part in parts {
        rows.push(part.atleast_2d());
    }
    concatenate(&rows, 0)
}

/// Tensors beside each other: along the second dimension, vectors along their only one.
#[track_caller]
pub fn hstack(parts: &[Tensor]) -> Tensor {
    let mut columns = vec![];
    for part in parts {
        columns.push(part.atleast_1d());
    }
    let axis = if columns.first().is_some_and(|c| c.rank() == 1) { 0 } else { 1 };
    concatenate(&columns, axis)
}

/// The shape that all these shapes broadcast to.
#[track_caller]
pub fn broadcast_shapes(shapes: &[&[i64]]) -> Vec<i64> {
    let mut out = vec![];
    for shape in shapes {
        out = common_shape("broadcast_shapes", &out, shape).to_vec();
    }
    out
}

/// All tensors, repeated to one shape.
#[track_caller]
pub fn broadcast_arrays(tensors: &[&Tensor]) -> Vec<Tensor> {
    let shapes: Vec<&[i64]> = tensors.iter().map(|t| t.shape()).collect();
    let shape = broadcast_shapes(&shapes);
    let mut out = vec![];
    for tensor in tensors {
        out.push(tensor.broadcast_to(&shape));
    }
    out
}

/// The same values, all of which are computed before anything that uses one of the results.
#[track_caller]
pub fn optimization_barrier(tensors: &[Tensor]) -> Vec<Tensor> {
    let inputs: Vec<&Tensor> = tensors.iter().collect();
    emit_all("optimization_barrier", &inputs, |b, v| b.optimization_barrier(v))
}
