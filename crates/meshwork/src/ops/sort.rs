//! Sorting, and the positions that sort.

use meshwork_ir::ElementType;
use meshwork_ir::build::{Direction, Stability};

use crate::Tensor;
use crate::error::fail;
use crate::ops::create::iota;
use crate::trace::compose::emit_all;

impl Tensor {
    /// The elements in ascending order along `axis`.
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
    pub fn top_k(&self, k: i64) -> (Tensor, Tensor) {
        let n = self.dim(-1);
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
        if self.dtype().is_complex() {
            fail(op, format!("{} has no order", self.describe()));
        }
        let positions = iota(self.shape(), ElementType::I32, axis);
        let mut out = emit_all(op, &[self, &positions], |b, v| {
            b.sort(v, axis, Stability::Stable, |b, a| Ok([b.compare(order, a[0], a[1])?]))
        })
        .into_iter();
        match (out.next(), out.next()) {
            (Some(values), Some(positions)) => (values, positions),
            _ => fail(op, "a sort of two tensors has two results"),
        }
    }
}
