//! Broadcasting: NumPy's rules, with both shapes in the message when they do not fit.

use meshwork_ir::{Dims, Type, ValueId};

use crate::element::Operand;
use crate::error::fail;
use crate::trace::compose::{Composer, compose, emit};
use crate::{ElementType, Shape, Tensor};

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
                    "shapes {a:?} and {b:?} do not broadcast: axis {} from the end has extents {x} and {y}, which \
                     must be equal or 1",
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
    pub fn broadcast_to(&self, shape: impl Shape) -> Tensor {
        self.stretched(&shape.extents())
    }

    #[track_caller]
    fn stretched(&self, shape: &[i64]) -> Tensor {
        if self.shape() == shape {
            return self.clone();
        }
        if common_shape("broadcast_to", self.shape(), shape)[..] != *shape {
            fail("broadcast_to", format!("a tensor of shape {:?} does not broadcast to {shape:?}", self.shape()));
        }
        compose("broadcast_to", [self], |s, [x]| s.stretch(x, shape))
    }

    /// The tensor as dimensions `map` of one of type `ty`; the others repeat it.
    #[track_caller]
    pub(crate) fn spread(&self, op: &str, ty: Type, map: &[i64]) -> Tensor {
        emit(op, &[self], |b, v| b.broadcast_as(v[0], ty, map))
    }
}

/// What `build` makes of two operands, brought to one shape and element type.
#[track_caller]
pub(crate) fn together(
    op: &str,
    a: &Operand,
    b: &Operand,
    build: &dyn Fn(&mut Composer<'_>, [ValueId; 2]) -> ValueId,
) -> Tensor {
    match (a, b) {
        (Operand::Tensor(a), Operand::Tensor(b)) => {
            if a.ty == b.ty {
                return compose(op, [a, b], build);
            }
            same_dtype(op, a, b);
            let shape = common_shape(op, a.shape(), b.shape());
            compose(op, [a, b], |s, pair| {
                let pair = pair.map(|x| s.stretch(x, &shape));
                build(s, pair)
            })
        }
        (Operand::Tensor(a), &Operand::Number(n)) => compose(op, [a], |s, [x]| {
            let n = s.fill_like(n, x);
            build(s, [x, n])
        }),
        (&Operand::Number(n), Operand::Tensor(b)) => compose(op, [b], |s, [y]| {
            let n = s.fill_like(n, y);
            build(s, [n, y])
        }),
        (Operand::Array(_), _) | (_, Operand::Array(_)) => {
            together(op, &a.clone().traced(), &b.clone().traced(), build)
        }
        (&Operand::Number(a), &Operand::Number(b)) => compose(op, [], |s, []| {
            let pair = [a, b].map(|n| s.fill(n, &[], ElementType::F32));
            build(s, pair)
        }),
    }
}

/// Checks that the element types agree.
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
