//! Matrix products.

use meshwork_ir::attr::DotDims;

use super::broadcast::{common_shape, same_dtype};
use crate::Tensor;
use crate::error::fail;
use crate::tensor::dims;
use crate::trace::compose::emit;

impl Tensor {
    /// The product of matrices, by NumPy's rules: leading dimensions are batches and broadcast; a vector on the left
    /// is a row, on the right a column, and that dimension is dropped from the result.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let f = jit(|a: Tensor, b: Tensor| a.matmul(&b));
    /// let a = Array::from_vec([2, 2], vec![1.0f32, 2.0, 3.0, 4.0])?;
    /// assert_eq!(f.call((&a, &Array::from([1.0f32, 10.0])))?.to_vec::<f32>()?, [21.0, 43.0]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: impl AsRef<Tensor>) -> Tensor {
        self.times_matrix(other.as_ref())
    }

    #[track_caller]
    fn times_matrix(&self, other: &Tensor) -> Tensor {
        let (a, b) = (self.shape(), other.shape());
        same_dtype("matmul", self, other);
        if a.is_empty() || b.is_empty() {
            fail("matmul", format!("{a:?} x {b:?}: a scalar is not a matrix; multiply with *"));
        }
        let (inner_a, inner_b) = (a.len() - 1, b.len().saturating_sub(2));
        if a[inner_a] != b[inner_b] {
            let (left, right) = (a[inner_a], b[inner_b]);
            fail("matmul", format!("{a:?} x {b:?}: inner dimensions differ: {left} (left) vs {right} (right)"));
        }
        let batch_a = &a[..a.len().saturating_sub(2)];
        let batch_b = &b[..b.len().saturating_sub(2)];
        if batch_b.is_empty() {
            // The batches of the left are further rows.
            let over = [[inner_a as i64], [inner_b as i64]];
            return emit("matmul", &[self, other], |b, v| b.dot_over(v[0], v[1], [&[], &[]], [&over[0], &over[1]]));
        }
        let batch = common_shape("matmul", batch_a, batch_b);
        let whole = |own: &[i64]| dims(batch.iter().chain(own).copied());
        let x = self.broadcast_to(whole(&a[a.len().saturating_sub(2)..]));
        let y = other.broadcast_to(whole(&b[b.len() - 2..]));
        let n = batch.len() as i64;
        let (batch, over) = (dims(0..n), [[x.rank() as i64 - 1], [n]]);
        emit("matmul", &[&x, &y], |b, v| b.dot_over(v[0], v[1], [&batch, &batch], [&over[0], &over[1]]))
    }

    /// The product over given pairs of dimensions; see StableHLO's `dot_general`.
    #[track_caller]
    pub fn dot_general(&self, other: &Tensor, dims: DotDims) -> Tensor {
        same_dtype("dot_general", self, other);
        emit("dot_general", &[self, other], |b, v| b.dot_general(v[0], v[1], dims))
    }
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}
