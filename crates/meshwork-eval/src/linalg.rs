//! Linear algebra ops on stacks of matrices: `cholesky` and `triangular_solve`.

use super::fault::Fault;
use super::matrix::{self, Matrix, Triangle};
use super::nums::{from_complex, to_complex};
use super::special::Cplx;
use meshwork_ir::Literal;

/// The matrices of the last two dimensions.
fn matrices(x: &Literal) -> Result<Vec<Matrix>, Fault> {
    let &[ref batch @ .., rows, columns] = x.dims() else {
        return Err(Fault::invalid(format!("a {} where matrices are needed", x.ty())));
    };
    let (rows, columns) = (rows as usize, columns as usize);
    let values = to_complex(x);
    let one = |n: usize| Matrix::new(rows, columns, |i, j| values[(n * rows + i) * columns + j]);
    Ok((0..batch.iter().product::<i64>() as usize).map(one).collect())
}

/// `stablehlo.cholesky`; NaN where a matrix is not positive definite. The other triangle is zero.
pub(crate) fn cholesky(a: &Literal, triangle: Triangle) -> Result<Literal, Fault> {
    let factors = matrices(a)?.into_iter().flat_map(|m| factor(&m, triangle).0.values).collect::<Vec<_>>();
    from_complex(a.dims(), a.elem(), &factors)
}

/// The Cholesky factor in `triangle`, all NaN if there is none, and 0 or the order of the leading minor that is not
/// positive.
pub(crate) fn factor(a: &Matrix, triangle: Triangle) -> (Matrix, usize) {
    match matrix::cholesky(&a.hermitian(triangle)) {
        Ok(l) if triangle == Triangle::Lower => (l, 0),
        Ok(l) => (l.adjoint(), 0),
        Err(at) => (Matrix::new(a.rows, a.rows, |_, _| Cplx::new(f64::NAN, 0.0)), at),
    }
}

/// How `triangular_solve` reads its matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transpose {
    /// As it is.
    No,
    /// Transposed.
    Yes,
    /// Transposed and conjugated.
    Adjoint,
}

/// The parameters of `triangular_solve`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Triangular {
    pub left: bool,
    pub triangle: Triangle,
    pub unit_diagonal: bool,
    pub transpose: Transpose,
}

/// `stablehlo.triangular_solve`: `op(a) x = b`, or `x op(a) = b`.
pub(crate) fn triangular_solve(a: &Literal, b: &Literal, how: Triangular) -> Result<Literal, Fault> {
    let mut out = vec![];
    for (t, b) in matrices(a)?.into_iter().zip(matrices(b)?) {
        out.extend(solution(&t, b, how).values);
    }
    from_complex(b.dims(), b.elem(), &out)
}

/// [`triangular_solve`] of one system.
pub(crate) fn solution(t: &Matrix, b: Matrix, how: Triangular) -> Matrix {
    // Only the triangle is read; a unit diagonal is not even stored.
    let mut triangle = how.triangle;
    let mut t = Matrix::new(t.rows, t.columns, |i, j| match (i == j && how.unit_diagonal, triangle.contains(i, j)) {
        (true, _) => Cplx::ONE,
        (false, true) => t[(i, j)],
        (false, false) => Cplx::ZERO,
    });
    if how.transpose != Transpose::No {
        t = t.adjoint();
        triangle = triangle.other();
    }
    if how.transpose == Transpose::Yes {
        t.values.iter_mut().for_each(|v| *v = v.conj());
    }
    if how.left {
        let mut x = b;
        matrix::solve_triangular(&t, &mut x, triangle);
        return x;
    }
    // x t = b is t* x* = b*.
    let mut x = b.adjoint();
    matrix::solve_triangular(&t.adjoint(), &mut x, triangle.other());
    x.adjoint()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{f64s, to_f64s};

    #[test]
    fn triangular_solve_reads_one_triangle_only() {
        let a = f64s(&[2, 2], &[2.0, 99.0, 1.0, 4.0]);
        let how = Triangular { left: true, triangle: Triangle::Lower, unit_diagonal: false, transpose: Transpose::No };
        let b = f64s(&[2, 1], &[2.0, 9.0]);
        assert_eq!(to_f64s(&triangular_solve(&a, &b, how).unwrap()), [1.0, 2.0]);
        let transposed = Triangular { transpose: Transpose::Yes, ..how };
        assert_eq!(to_f64s(&triangular_solve(&a, &b, transposed).unwrap()), [-0.125, 2.25]);
        let right = Triangular { left: false, ..how };
        let row = f64s(&[1, 2], &[4.0, 8.0]);
        assert_eq!(to_f64s(&triangular_solve(&a, &row, right).unwrap()), [1.0, 2.0]);
        let unit = Triangular { unit_diagonal: true, ..how };
        assert_eq!(to_f64s(&triangular_solve(&a, &b, unit).unwrap()), [2.0, 7.0]);
    }

    #[test]
    fn cholesky_of_a_batch_with_a_bad_matrix() {
        let a = f64s(&[2, 1, 1], &[4.0, -1.0]);
        let l = to_f64s(&cholesky(&a, Triangle::Lower).unwrap());
        assert_eq!(l[0], 2.0);
        assert!(l[1].is_nan());
        assert_eq!(cholesky(&f64s(&[0, 0], &[]), Triangle::Lower).unwrap().dims(), [0, 0]);
    }
}
