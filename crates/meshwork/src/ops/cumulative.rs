//! Running sums, products and extremes, by doubling: after step k each element has combined 2^k of its predecessors.
//!
//! The steps are shifts and elementwise operations, so that a sharded dimension needs neighbors, not everything.

use meshwork_ir::build::Direction;
use meshwork_ir::{ElementType, OpKind, OpSpec, Type};

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
        let shape = self.shape().to_vec();
        let n = shape[axis];
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
                let all = b.value(OpSpec::new(kind).operands([v[0], shifted]))?;
                if !matches!(how, Combine::Max | Combine::Min) {
                    return Ok(all);
                }
                // What has nothing at this distance before it stays, and keeps its slope: an infinity would share it with
                // the filling, NaN lose it.
                let at = b.iota(Type::tensor(shape.iter().copied(), ElementType::I32), axis as i64)?;
                let first = b.splat(shape.iter().copied(), ElementType::I32, distance as f64)?;
                let has_one = b.compare(Direction::Ge, at, first)?;
                b.select(has_one, all, v[0])
            });
            distance *= 2;
        }
        x
    }
}
