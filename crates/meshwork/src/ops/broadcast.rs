//! Broadcasting: NumPy's rules, with both shapes in the message when they do not fit.

use meshwork_ir::{Dims, Type};

use crate::element::Operand;
use crate::error::fail;
use crate::tensor::dims;
use crate::trace::emit;
use crate::{ElementType, Tensor};

/// The shape that two shapes broadcast to: aligned at the end, extents equal or one of them 1.
#[track_caller]
pub(crate) fn common_shape(op: &str, a: &[i64], b: &[i64]) -> Dims {
    let rank = a.len().max(b.len());
    let mut out = Dims::from_elem(0, rank);
    for (i, extent) in out.iter_mut().enumerate() {
        let at = |s: &[i64]| (i + s.len()).checked_sub(rank).map_or(1, |j| s[j]);
        *extent = match (at(a), at(b)) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            (x, y) => fail(
                op,
                format!(
                    "shapes {a:?} and {b:?} do not broadcast: axis {} from the end has extents {x} and {y}, which have \
                     to be equal or 1",
                    rank - i
                ),
            ),
        };
    }
    out
}

impl Tensor {
    /// The tensor repeated to `shape` by NumPy's rules: shapes are aligned at the end, and axes of extent 1 repeat.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl AsRef<[i64]>) -> Tensor {
        let shape = shape.as_ref();
        if self.shape() == shape {
            return self.clone();
        }
        if common_shape("broadcast_to", self.shape(), shape)[..] != *shape {
            fail("broadcast_to", format!("a tensor of shape {:?} does not broadcast to {shape:?}", self.shape()));
        }
        let skip = (shape.len() - self.rank()) as i64;
        let map = dims((0..self.rank() as i64).map(|i| i + skip));
        emit("broadcast_to", &[self], |b, v| b.broadcast_in_dim(v[0], shape.iter().copied(), &map))
    }

    /// [`broadcast_to`](Tensor::broadcast_to) the shape of a tensor of the same element type, which it fits.
    #[track_caller]
    fn broadcast_like(&self, other: &Tensor) -> Tensor {
        let skip = (other.rank() - self.rank()) as i64;
        let map = dims((0..self.rank() as i64).map(|i| i + skip));
        self.spread("broadcast_to", Type::Tensor(other.ty.clone()), &map)
    }

    /// The tensor as dimensions `map` of one of type `ty`; the others repeat it.
    #[track_caller]
    pub(crate) fn spread(&self, op: &str, ty: Type, map: &[i64]) -> Tensor {
        emit(op, &[self], |b, v| b.broadcast_as(v[0], ty, map))
    }
}

/// Two operands in one shape and element type; at least one is a tensor.
#[track_caller]
pub(crate) fn together(op: &str, a: Operand, b: Operand) -> (Tensor, Tensor) {
    match (a, b) {
        (Operand::Tensor(a), Operand::Tensor(b)) => {
            if a.ty == b.ty {
                return (a, b);
            }
            same_dtype(op, &a, &b);
            let shape = common_shape(op, a.shape(), b.shape());
            match (*a.shape() == shape[..], *b.shape() == shape[..]) {
                (true, _) => {
                    let b = b.broadcast_like(&a);
                    (a, b)
                }
                (_, true) => (a.broadcast_like(&b), b),
                _ => (a.broadcast_to(&shape), b.broadcast_to(&shape)),
            }
        }
        (Operand::Tensor(a), Operand::Number(n)) => {
            let n = n.fill(op, a.shape(), a.dtype());
            (a, n)
        }
        (Operand::Number(n), Operand::Tensor(b)) => (n.fill(op, b.shape(), b.dtype()), b),
        (Operand::Number(a), Operand::Number(b)) => {
            (a.fill(op, &[], ElementType::F32), b.fill(op, &[], ElementType::F32))
        }
    }
}

/// Element types have to agree.
#[track_caller]
pub(crate) fn same_dtype(op: &str, a: &Tensor, b: &Tensor) {
    if a.dtype() != b.dtype() {
        fail(
            op,
            format!(
                "element types {} and {} differ (shapes {:?} and {:?}); convert one with .to(..)",
                a.dtype(),
                b.dtype(),
                a.shape(),
                b.shape()
            ),
        );
    }
}
