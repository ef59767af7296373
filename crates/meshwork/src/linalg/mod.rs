//! Linear algebra, as `jax.numpy.linalg` and `jax.scipy.linalg` have it: on matrices in the last two dimensions, in stacks.
//!
//! | | |
//! |---|---|
//! | [`solve`], [`inv`], [`det`], [`slogdet`], [`lu`] | by LU factors with row exchanges |
//! | [`cholesky`], [`cho_solve`], [`solve_triangular`] | positive definite and triangular systems |
//! | [`qr`], [`svd`], [`eigh`], [`eigvals`] | factors, singular values and eigenvalues |
//! | [`lstsq`], [`pinv`], [`matrix_rank`], [`norm`], [`matrix_norm`] | least squares, ranks, norms |
//! | [`expm`], [`matrix_power`] | functions of matrices |
//!
//! Gradients exist of all but [`lu`], [`eig`] and [`eigvals`]; those of factors need them to be unique, as JAX's do. A mesh
//! splits stacks; one matrix is worked on by one device. Elements are `f32`, `f64` or complex. They run on the CPU
//! engine and the evaluator.
//!
//! ```
//! use meshwork::linalg;
//! use meshwork::prelude::*;
//!
//! let f = jit(|a: Tensor, b: Tensor| (linalg::solve(&a, &b), linalg::det(&a), linalg::eigh(&a).0));
//! let a = Array::from_vec([2, 2], vec![2.0f32, 1.0, 1.0, 2.0])?;
//! let (x, det, values) = f.call((&a, &Array::from([3.0f32, 3.0])))?;
//! assert!(x.all_close(&Array::from([1.0f32, 1.0]), 1e-6));
//! assert!((det.item::<f32>()? - 3.0).abs() < 1e-5);
//! assert!(values.all_close(&Array::from([1.0f32, 3.0]), 1e-5));
//! # Ok::<(), meshwork::Error>(())
//! ```

mod factor;
mod function;
mod lapack;
mod system;

pub use factor::{cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals};
pub use function::{expm, lstsq, matrix_norm, matrix_power, matrix_rank, multi_dot, norm, norm_by, pinv};
pub use system::{cho_factor, cho_solve, det, inv, lu, slogdet, solve, solve_triangular};

use crate::Tensor;
use crate::error::fail;

/// Checks that the last two dimensions are square matrices, and returns their extent.
#[track_caller]
fn square(op: &str, a: &Tensor) -> i64 {
    matrix(op, a);
    match a.shape() {
        &[.., rows, columns] if rows == columns => rows,
        shape => fail(op, format!("matrices of shape {shape:?} are not square")),
    }
}

/// Checks that there are matrices, of a type that the routines take.
#[track_caller]
fn matrix(op: &str, a: &Tensor) {
    if a.rank() < 2 {
        fail(op, format!("{} is not a matrix", a.describe()));
    }
    let real = a.dtype().real_part();
    if !matches!(real, crate::ElementType::F32 | crate::ElementType::F64) {
        fail(op, format!("{} where f32, f64 or complex numbers are needed; convert with .to(F32)", a.describe()));
    }
}

/// The conjugate of the transposed matrices.
#[track_caller]
fn adjoint(a: &Tensor) -> Tensor {
    if a.dtype().is_complex() { a.t().conj() } else { a.t() }
}
