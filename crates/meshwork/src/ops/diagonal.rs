//! Triangles and diagonals of matrices, and products of all pairs.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let f = jit(|x: Tensor| (x.diag(0), x.outer(&x).triu(0), x.outer(&x).trace()));
//! let (diagonal, upper, trace) = f.call(&Array::from([1.0f32, 2.0]))?;
//! assert_eq!(diagonal.to_vec::<f32>()?, [1.0, 0.0, 0.0, 2.0]);
//! assert_eq!(upper.to_vec::<f32>()?, [1.0, 2.0, 0.0, 4.0]);
//! assert_eq!(trace.item::<f32>()?, 5.0);
//! # Ok::<(), meshwork::Error>(())
//! ```

use super::create::{arange, iota, zeros};
use super::elementwise::select;
use super::movement::concatenate;
use crate::Tensor;
use crate::element::{Number, Operand};
use crate::error::fail;
use crate::{ElementType, ElementType::I32};

impl Tensor {
    /// The elements on and above the diagonal `k` of the last two dimensions; zero elsewhere.
    #[track_caller]
    pub fn triu(&self, k: i64) -> Tensor {
        if self.rank() < 2 {
            fail("triu", format!("{} is not a matrix", self.describe()));
        }
        let shape = &self.shape()[self.rank() - 2..];
        let zero: Operand = if self.dtype() == ElementType::I1 { false.into() } else { 0.into() };
        select((iota(shape, I32, 0) + k).le(iota(shape, I32, 1)), self, zero)
    }

    /// The diagonal `k` of the last two dimensions, as the last dimension of the result.
    #[track_caller]
    pub fn diagonal(&self, k: i64) -> Tensor {
        let &[.., rows, columns] = self.shape() else { fail("diagonal", format!("{} is no matrix", self.describe())) };
        let (down, right) = ((-k).max(0), k.max(0));
        let n = (rows - down).min(columns - right).max(0);
        let rank = self.rank();
        let square = self.narrow("diagonal", rank - 2, down.min(rows), (down.min(rows) + n).min(rows));
        let square = square.narrow("diagonal", rank - 1, right.min(columns), (right.min(columns) + n).min(columns));
        let on = iota([n, n], I32, 0).eq(iota([n, n], I32, 1));
        match self.dtype() {
            ElementType::I1 => (square & on).any(&[-1]),
            _ => select(on, square, 0).sum(&[-1]),
        }
    }

    /// Of a vector, the matrix with it on diagonal `k` and zero elsewhere; of a matrix, its [`diagonal`](Tensor::diagonal).
    #[track_caller]
    pub fn diag(&self, k: i64) -> Tensor {
        match self.rank() {
            1 => self.diag_embed(k),
            2 => self.diagonal(k),
            _ => fail("diag", format!("{} is neither a vector nor a matrix", self.describe())),
        }
    }

    /// Matrices with the last dimension on diagonal `k`, and zero elsewhere.
    #[track_caller]
    pub fn diag_embed(&self, k: i64) -> Tensor {
        let n = self.dim(-1);
        let on = iota([n, n], I32, 0).eq(iota([n, n], I32, 1));
        let zero: Operand = if self.dtype() == ElementType::I1 { false.into() } else { 0.into() };
        let square = select(on, self.expand_dims(-1), zero);
        let mut around = vec![(0, 0); self.rank() - 1];
        around.extend([((-k).max(0), k.max(0)), (k.max(0), (-k).max(0))]);
        let value = if self.dtype() == ElementType::I1 { Number::Bool(false) } else { Number::Int(0) };
        square.pad(&around, value)
    }

    /// The sum of the diagonal of the last two dimensions.
    #[track_caller]
    pub fn trace(&self) -> Tensor {
        self.diagonal(0).sum(&[-1])
    }

    /// The products of all pairs of elements of both, as vectors.
    #[track_caller]
    pub fn outer(&self, other: &Tensor) -> Tensor {
        self.flatten().expand_dims(1) * other.flatten().expand_dims(0)
    }

    /// Each element of this one times the whole of the other, in its place: the Kronecker product.
    #[track_caller]
    pub fn kron(&self, other: &Tensor) -> Tensor {
        let rank = self.rank().max(other.rank());
        let whole = |x: &Tensor| [vec![1; rank - x.rank()], x.shape().to_vec()].concat();
        let (a, b) = (whole(self), whole(other));
        let wide = |x: &[i64], first: bool| -> Vec<i64> {
            x.iter().flat_map(|&n| if first { [n, 1] } else { [1, n] }).collect()
        };
        let product = self.reshape(wide(&a, true)) * other.reshape(wide(&b, false));
        product.reshape(a.iter().zip(&b).map(|(x, y)| x * y).collect::<Vec<_>>())
    }

    /// The products of both along the last dimension, summed; they broadcast, and the first is conjugated.
    #[track_caller]
    pub fn vecdot(&self, other: &Tensor) -> Tensor {
        let left = if self.dtype().is_complex() { self.conj() } else { self.clone() };
        (left * other).sum(&[-1])
    }

    /// The sum of products over the last `n` dimensions of this and the first `n` of the other.
    #[track_caller]
    pub fn tensordot(&self, other: &Tensor, n: usize) -> Tensor {
        if n > self.rank() || n > other.rank() {
            fail("tensordot", format!("over {n} dimensions of {} and {}", self.describe(), other.describe()));
        }
        let from = (self.rank() - n) as i64;
        let dims = crate::DotDims {
            lhs_contract: (from..self.rank() as i64).collect(),
            rhs_contract: (0..n as i64).collect(),
            ..Default::default()
        };
        self.dot_general(other, dims)
    }

    /// The cross product of vectors of three elements along the last dimension.
    #[track_caller]
    pub fn cross(&self, other: &Tensor) -> Tensor {
        if self.shape().last() != Some(&3) || other.shape().last() != Some(&3) {
            fail("cross", format!("of {} and {}; the last extents must be 3", self.describe(), other.describe()));
        }
        self.roll(-1, -1) * other.roll(1, -1) - self.roll(1, -1) * other.roll(-1, -1)
    }
}

/// A matrix of ones on and below diagonal `k`, and zeros above.
#[track_caller]
pub fn tri(rows: i64, columns: i64, k: i64, dtype: ElementType) -> Tensor {
    (iota([rows, columns], I32, 0) + k).ge(iota([rows, columns], I32, 1)).to(dtype)
}

/// Rows and columns, `i32`, of the elements of an `n` by `n` matrix on and below diagonal `k`.
#[track_caller]
pub fn tril_indices(n: i64, k: i64) -> (Tensor, Tensor) {
    indices_where(n, |row, column| column <= row + k)
}

/// Rows and columns, `i32`, of the elements of an `n` by `n` matrix on and above diagonal `k`.
#[track_caller]
pub fn triu_indices(n: i64, k: i64) -> (Tensor, Tensor) {
    indices_where(n, |row, column| column >= row + k)
}

#[track_caller]
fn indices_where(n: i64, choose: impl Fn(i64, i64) -> bool) -> (Tensor, Tensor) {
    let all = (0..n).flat_map(|row| (0..n).map(move |column| (row, column)));
    let (rows, columns): (Vec<i32>, Vec<i32>) =
        all.filter(|&(r, c)| choose(r, c)).map(|(r, c)| (r as i32, c as i32)).unzip();
    let constant = |list: Vec<i32>| match crate::Array::from_vec([list.len() as i64], list) {
        Ok(array) => Tensor::constant(&array),
        Err(e) => fail("indices", e.to_string()),
    };
    (constant(rows), constant(columns))
}

/// One tensor for each vector, each of the shape of all lengths: its elements along its own dimension, repeated along
/// the others. (NumPy's order `ij`; exchange the first two for `xy`.)
#[track_caller]
pub fn meshgrid(vectors: &[&Tensor]) -> Vec<Tensor> {
    let shape: Vec<i64> = vectors.iter().map(|x| x.size()).collect();
    let mut out = vec![];
    for (d, x) in vectors.iter().enumerate() {
        let mut own = vec![1; shape.len()];
        own[d] = shape[d];
        out.push(x.reshape(own).broadcast_to(&shape));
    }
    out
}

/// The matrix with these on its diagonal, one after the other, and zero elsewhere.
#[track_caller]
pub fn block_diag(blocks: &[&Tensor]) -> Tensor {
    let Some(first) = blocks.first() else { fail("block_diag", "no matrices given") };
    if let Some(odd) = blocks.iter().find(|b| b.rank() != 2) {
        fail("block_diag", format!("{} is not a matrix", odd.describe()));
    }
    let width: i64 = blocks.iter().map(|b| b.dim(1)).sum();
    let (mut rows, mut left) = (vec![], 0);
    for block in blocks {
        let right = width - left - block.dim(1);
        rows.push(block.pad(&[(0, 0), (left, right)], 0));
        left += block.dim(1);
    }
    if rows.is_empty() { zeros([0, 0], first.dtype()) } else { concatenate(&rows, 0) }
}

/// The positions along each dimension of `shape` of these positions in the flattened tensor.
#[track_caller]
pub fn unravel_index(positions: &Tensor, shape: &[i64]) -> Vec<Tensor> {
    let mut rest = positions.clone();
    let mut out = vec![];
    for &extent in shape.iter().rev() {
        out.push(rest.remainder(extent));
        rest = rest.floor_divide(extent);
    }
    out.reverse();
    out
}

/// The powers of `x` from `n - 1` down to 0, as columns: a Vandermonde matrix.
#[track_caller]
pub fn vander(x: &Tensor, n: i64) -> Tensor {
    x.expand_dims(-1).pow((n - 1) as f64 - arange(n, x.dtype()))
}
