//! Reshape, transpose, pad, roll, concatenate and similar operations.

use meshwork_ir::{Dims, Type};

use super::broadcast::same_dtype;
use crate::element::{Fill, Number, Operand};
use crate::error::fail;
use crate::tensor::normalize;
use crate::trace::compose::{emit, emit_list};
use crate::{Shape, Tensor};

impl Tensor {
    /// The same elements in row-major order under another shape; one extent may be -1 and is then worked out.
    #[track_caller]
    pub fn reshape(&self, shape: impl Shape) -> Tensor {
        self.with_extents(shape.extents())
    }

    #[track_caller]
    fn with_extents(&self, mut shape: Dims) -> Tensor {
        let open: Vec<usize> = (0..shape.len()).filter(|&i| shape[i] == -1).collect();
        let known: i64 = shape.iter().filter(|&&d| d != -1).product();
        match open[..] {
            [] => {}
            [one] if known > 0 && self.size() % known == 0 => shape[one] = self.size() / known,
            [_] => {
                fail("reshape", format!("{} elements of shape {:?} do not fill {shape:?}", self.size(), self.shape()))
            }
            _ => fail("reshape", format!("more than one extent of {shape:?} is open")),
        }
        if shape.iter().any(|&d| d < 0) || shape.iter().product::<i64>() != self.size() {
            let (from, n) = (self.shape(), self.size());
            fail(
                "reshape",
                format!("shape {from:?} has {n} elements, {shape:?} has {}", shape.iter().product::<i64>()),
            );
        }
        if shape[..] == *self.shape() { self.clone() } else { emit("reshape", &[self], |b, v| b.reshape(v[0], shape)) }
    }

    /// All elements as one dimension.
    #[track_caller]
    pub fn flatten(&self) -> Tensor {
        self.reshape([-1])
    }

    /// The tensor with a new dimension of extent 1 at `axis` of the result.
    #[track_caller]
    pub fn expand_dims(&self, axis: i64) -> Tensor {
        let at = normalize("expand_dims", axis, self.rank() + 1);
        let mut shape = self.shape().to_vec();
        shape.insert(at, 1);
        self.reshape(shape)
    }

    /// The tensor without dimension `axis`, which has extent 1.
    #[track_caller]
    pub fn squeeze(&self, axis: i64) -> Tensor {
        let at = self.axis("squeeze", axis);
        let mut shape = self.shape().to_vec();
        if shape.remove(at) != 1 {
            fail("squeeze", format!("axis {at} of shape {:?} has extent {}, not 1", self.shape(), self.shape()[at]));
        }
        self.reshape(shape)
    }

    /// The dimensions in another order: dimension `i` of the result is dimension `order[i]`.
    #[track_caller]
    pub fn permute(&self, order: &[i64]) -> Tensor {
        let axes = self.dims_of("permute", order);
        if axes.len() != self.rank() {
            fail("permute", format!("{order:?} does not name each axis of shape {:?} once", self.shape()));
        }
        if axes.iter().copied().eq(0..self.rank() as i64) {
            return self.clone();
        }
        emit("permute", &[self], |b, v| b.transpose(v[0], &axes))
    }

    /// The last two dimensions exchanged.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        self.swap_axes(-1, -2)
    }

    /// Two dimensions exchanged.
    #[track_caller]
    pub fn swap_axes(&self, a: i64, b: i64) -> Tensor {
        let (a, b) = (self.axis("swap_axes", a), self.axis("swap_axes", b));
        let mut order: Vec<i64> = (0..self.rank() as i64).collect();
        order.swap(a, b);
        self.permute(&order)
    }

    /// The elements backwards along `axes`.
    #[track_caller]
    pub fn flip(&self, axes: &[i64]) -> Tensor {
        let axes: Vec<i64> = self.axes("flip", axes).into_iter().map(|a| a as i64).collect();
        emit("flip", &[self], |b, v| b.reverse(v[0], &axes))
    }

    /// `value` around the tensor: how many before and after, per dimension. Negative counts cut off.
    #[track_caller]
    pub fn pad(&self, before_after: &[(i64, i64)], value: impl Into<Number>) -> Tensor {
        if before_after.len() != self.rank() {
            fail("pad", format!("{} pairs for {}", before_after.len(), self.describe()));
        }
        for (d, (&(low, high), &n)) in before_after.iter().zip(self.shape()).enumerate() {
            if n + low + high < 0 {
                fail("pad", format!("axis {d} of extent {n} cannot lose {}", -(low + high)));
            }
        }
        let low: Vec<i64> = before_after.iter().map(|p| p.0).collect();
        let high: Vec<i64> = before_after.iter().map(|p| p.1).collect();
        let value = value.into().fill("pad", &[], self.dtype());
        emit("pad", &[self, &value], |b, v| b.pad(v[0], v[1], &low, &high, &vec![0; low.len()]))
    }

    /// The elements moved by `shift` along `axis`; what falls off one end comes in at the other.
    ///
    /// `roll(1, 0)` puts the last element first.
    #[track_caller]
    pub fn roll(&self, shift: i64, axis: i64) -> Tensor {
        let axis = self.axis("roll", axis);
        let n = self.shape()[axis];
        if n == 0 || shift.rem_euclid(n) == 0 {
            return self.clone();
        }
        let cut = n - shift.rem_euclid(n);
        let (front, back) = (self.narrow("roll", axis, cut, n), self.narrow("roll", axis, 0, cut));
        concatenate(&[front, back], axis as i64)
    }

    /// Positions `from..to` of one dimension.
    #[track_caller]
    pub(crate) fn narrow(&self, op: &str, axis: usize, from: i64, to: i64) -> Tensor {
        let (mut start, mut limit) = (vec![0; self.rank()], self.shape().to_vec());
        (start[axis], limit[axis]) = (from, to);
        emit(op, &[self], |b, v| b.slice(v[0], &start, &limit, &vec![1; limit.len()]))
    }

    /// The tensor `times` times after itself along `axis`.
    #[track_caller]
    pub fn tile(&self, times: i64, axis: i64) -> Tensor {
        let axis = self.axis("tile", axis);
        if times < 0 {
            fail("tile", format!("{times} times"));
        }
        let mut wide = self.shape().to_vec();
        wide.insert(axis, times);
        let map: Vec<i64> = (0..self.rank() as i64).map(|d| if d as usize >= axis { d + 1 } else { d }).collect();
        let mut shape = self.shape().to_vec();
        shape[axis] *= times;
        self.spread("tile", Type::tensor(wide, self.dtype()), &map).reshape(shape)
    }

    /// Cut in `parts` equal parts along `axis`.
    #[track_caller]
    pub fn split(&self, parts: i64, axis: i64) -> Vec<Tensor> {
        let axis = self.axis("split", axis);
        let n = self.shape()[axis];
        if parts < 1 || n % parts != 0 {
            fail("split", format!("axis {axis} of extent {n} does not split in {parts} equal parts"));
        }
        let size = n / parts;
        let mut out = vec![];
        for i in 0..parts {
            out.push(self.narrow("split", axis, i * size, (i + 1) * size));
        }
        out
    }

    /// The elements on and below the diagonal `k` of the last two dimensions; zero elsewhere.
    #[track_caller]
    pub fn tril(&self, k: i64) -> Tensor {
        if self.rank() < 2 {
            fail("tril", format!("{} is not a matrix", self.describe()));
        }
        let shape = &self.shape()[self.rank() - 2..];
        let row = super::create::iota(shape, meshwork_ir::ElementType::I32, 0);
        let column = super::create::iota(shape, meshwork_ir::ElementType::I32, 1);
        let zero: Operand = 0.into();
        super::elementwise::select((row + k).ge(column), self, zero)
    }
}

/// Tensors one after the other along `axis`.
#[track_caller]
pub fn concatenate(parts: &[Tensor], axis: i64) -> Tensor {
    let Some(first) = parts.first() else { fail("concatenate", "no tensors given") };
    let axis = first.axis("concatenate", axis);
    for (i, part) in parts.iter().enumerate() {
        same_dtype("concatenate", first, part);
        let differs = |d: usize| d != axis && part.shape()[d] != first.shape()[d];
        if part.rank() != first.rank() || (0..first.rank()).any(differs) {
            let (a, b) = (first.shape(), part.shape());
            fail(
                "concatenate",
                format!("part {i} of shape {b:?} does not fit part 0 of shape {a:?} along axis {axis}"),
            );
        }
    }
    let inputs: Vec<&Tensor> = parts.iter().collect();
    emit_list("concatenate", &inputs, |b, v| b.concatenate(v, axis as i64))
}

/// Tensors of one shape along a new dimension `axis` of the result.
#[track_caller]
pub fn stack(parts: &[Tensor], axis: i64) -> Tensor {
    let Some(first) = parts.first() else { fail("stack", "no tensors given") };
    let at = normalize("stack", axis, first.rank() + 1) as i64;
    let mut wide = vec![];
    for (i, part) in parts.iter().enumerate() {
        if part.shape() != first.shape() {
            fail("stack", format!("part {i} has shape {:?}, part 0 has {:?}", part.shape(), first.shape()));
        }
        wide.push(part.expand_dims(at));
    }
    concatenate(&wide, at)
}
