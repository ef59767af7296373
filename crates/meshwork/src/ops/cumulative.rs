//! Running sums, products and extremes, by doubling: after step k each element has combined 2^k of its predecessors.
//!
//! The steps are shifts and elementwise operations, so that a sharded dimension needs neighbors, not everything.

use meshwork_ir::{OpKind, OpSpec};

use super::reduce::Combine;
use crate::Tensor;
use crate::trace::compose::emit;

impl Tensor {
    /// The sums of all elements up to and with each one along `axis`.
    #[track_caller]
    pub fn cumsum(&self, axis: i64) -> Tensor {
        self.running("cumsum", axis, Combine::Sum)
    }

    /// The products of all elements up to and with each one along `axis`.
    #[track_caller]
    pub fn cumprod(&self, axis: i64) -> Tensor {
        self.running("cumprod", axis, Combine::Product)
    }

    /// The largest of all elements up to and with each one along `axis`.
    #[track_caller]
    pub fn cummax(&self, axis: i64) -> Tensor {
        self.running("cummax", axis, Combine::Max)
    }

    /// The smallest of all elements up to and with each one along `axis`.
    #[track_caller]
    pub fn cummin(&self, axis: i64) -> Tensor {
        self.running("cummin", axis, Combine::Min)
    }

    #[track_caller]
    fn running(&self, op: &str, axis: i64, how: Combine) -> Tensor {
        how.check(op, self);
        let axis = self.axis(op, axis);
        let n = self.shape()[axis];
        let neutral = how.neutral(self.dtype());
        let zeros = vec![0; self.rank()];
        let kind: OpKind = how.kind();
        let mut x = self.clone();
        let mut distance = 1;
        while distance < n {
            let (mut low, mut high) = (zeros.clone(), zeros.clone());
            (low[axis], high[axis]) = (distance, -distance);
            x = emit(op, &[&x], |b, v| {
                let fill = b.constant(&neutral)?;
                let shifted = b.pad(v[0], fill, &low, &high, &zeros)?;
                b.value(OpSpec::new(kind).operands([v[0], shifted]))
            });
            distance *= 2;
        }
        x
    }
}
