//! Sorting, and the positions that sort.

use meshwork_ir::build::{BuildError, Builder, Direction, Stability};
use meshwork_ir::op::MixedOp;
use meshwork_ir::{Attr, ElementType, OpKind, OpSpec, ValueId};

use crate::Tensor;
use crate::error::fail;
use crate::ops::create::iota;
use crate::trace::compose::emit_all;

impl Tensor {
    /// The elements in ascending order along `axis`; NaNs come last, and zeros of both signs are equal.
    #[track_caller]
    pub fn sort(&self, axis: i64) -> Tensor {
        self.sorted("sort", axis, Direction::Lt).0
    }

    /// The positions, `i32`, that bring the elements in ascending order along `axis`; equals keep their order.
    #[track_caller]
    pub fn argsort(&self, axis: i64) -> Tensor {
        self.sorted("argsort", axis, Direction::Lt).1
    }

    /// The `k` largest elements of the last dimension, largest first, and their positions.
    #[track_caller]
    pub fn top_k(&self, k: impl crate::Int) -> (Tensor, Tensor) {
        let (k, n) = (k.int(), self.dim(-1));
        if k < 0 || k > n {
            fail("top_k", format!("the {k} largest of {n} elements, shape {:?}", self.shape()));
        }
        let (values, positions) = self.sorted("top_k", -1, Direction::Gt);
        let last = self.rank() - 1;
        (values.narrow("top_k", last, 0, k), positions.narrow("top_k", last, 0, k))
    }

    #[track_caller]
    fn sorted(&self, op: &str, axis: i64, order: Direction) -> (Tensor, Tensor) {
        let axis = self.axis(op, axis) as i64;
        let positions = iota(self.shape(), ElementType::I32, axis);
        self.sorted_with(op, &positions, axis, order)
    }

    /// This tensor in order along `axis`, equals as they are, and `values`, of the same shape, moved in the same way.
    #[track_caller]
    pub(crate) fn sorted_with(&self, op: &str, values: &Tensor, axis: i64, order: Direction) -> (Tensor, Tensor) {
        let axis = self.axis(op, axis) as i64;
        if self.dtype().is_complex() {
            fail(op, format!("{} has no order", self.describe()));
        }
        let mut out = emit_all(op, &[self, values], |b, v| {
            b.sort(v, axis, Stability::Stable, |b, a| Ok([in_order(b, order, a[0], a[1])?]))
        })
        .into_iter();
        match (out.next(), out.next()) {
            (Some(values), Some(positions)) => (values, positions),
            _ => fail(op, "a sort of two tensors has two results"),
        }
    }
}

/// Whether `x` comes before `y`. Comparisons with NaN are all false, which is no order, so floats are compared in the total
/// order: ascending with one zero and one NaN, and descending as they are, like JAX's `sort` and `top_k`.
fn in_order(b: &mut Builder<'_>, order: Direction, x: ValueId, y: ValueId) -> Result<ValueId, BuildError> {
    let Some(elem) = b.ty(x).elem().filter(|e| e.is_float()) else { return b.compare(order, x, y) };
    let (mut x, mut y) = (x, y);
    if order == Direction::Lt {
        let (zero, nan) = (b.scalar(elem, 0.0)?, b.scalar(elem, f64::NAN)?);
        for v in [&mut x, &mut y] {
            let is_zero = b.compare(Direction::Eq, *v, zero)?;
            let one_zero = b.select(is_zero, zero, *v)?;
            let is_nan = b.compare(Direction::Ne, *v, *v)?;
            *v = b.select(is_nan, nan, one_zero)?;
        }
    }
    let spec = OpSpec::new(OpKind::Mixed(MixedOp::Compare))
        .operands([x, y])
        .attr("comparison_direction", Attr::hlo_enum("comparison_direction", order.text()))
        .attr("compare_type", Attr::hlo_enum("comparison_type", "TOTALORDER"));
    b.value(spec)
}
