//! Linear algebra ops on stacks of matrices: `cholesky`, `triangular_solve`, and the LAPACK calls JAX exports on CPU.

use super::fault::Fault;
use super::matrix::{self, Matrix, Triangle};
use super::nums::{from_complex, from_f64, tensor, to_complex};
use super::special::Cplx;
use meshwork_ir::{ElementType, Literal, Scalar};

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

fn nan_matrix(n: usize) -> Matrix {
    Matrix::new(n, n, |_, _| Cplx::new(f64::NAN, 0.0))
}

/// `stablehlo.cholesky`; NaN where a matrix is not positive definite. The other triangle is zero.
pub(crate) fn cholesky(a: &Literal, triangle: Triangle) -> Result<Literal, Fault> {
    Ok(potrf(a, triangle)?.swap_remove(0))
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
        // Only the triangle is read; a unit diagonal is not even stored.
        let mut triangle = how.triangle;
        let mut t =
            Matrix::new(t.rows, t.columns, |i, j| match (i == j && how.unit_diagonal, triangle.contains(i, j)) {
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
            out.extend(x.values);
        } else {
            // x t = b is t* x* = b*.
            let mut x = b.adjoint();
            matrix::solve_triangular(&t.adjoint(), &mut x, triangle.other());
            out.extend(x.adjoint().values);
        }
    }
    from_complex(b.dims(), b.elem(), &out)
}

/// Integers stacked over the batch dimensions of `like`.
fn integers(like: &Literal, inner: &[usize], values: &[i64]) -> Result<Literal, Fault> {
    tensor(&stacked(like, inner), ElementType::I32, values.iter().map(|&v| Scalar::Int(v)))
}

/// Dimensions of a stack of `inner` shapes over the batch dimensions of `like`.
fn stacked(like: &Literal, inner: &[usize]) -> Vec<i64> {
    let batch = &like.dims()[..like.dims().len() - 2];
    batch.iter().copied().chain(inner.iter().map(|&d| d as i64)).collect()
}

fn sides(a: &Literal) -> (usize, usize) {
    let rank = a.dims().len();
    (a.dims()[rank - 2] as usize, a.dims()[rank - 1] as usize)
}

/// `potrf`: the factor, and per matrix 0 or the order of the leading minor that is not positive.
pub(crate) fn potrf(a: &Literal, triangle: Triangle) -> Result<Vec<Literal>, Fault> {
    let (mut out, mut info) = (vec![], vec![]);
    for m in matrices(a)? {
        let (factor, failed) = match matrix::cholesky(&m.hermitian(triangle)) {
            Ok(l) => (l, 0),
            Err(at) => (nan_matrix(m.rows), at as i64),
        };
        out.extend(if triangle == Triangle::Lower { factor } else { factor.adjoint() }.values);
        info.push(failed);
    }
    Ok(vec![from_complex(a.dims(), a.elem(), &out)?, integers(a, &[], &info)?])
}

/// `geqrf`: the packed factorization and the reflectors' factors.
pub(crate) fn geqrf(a: &Literal) -> Result<Vec<Literal>, Fault> {
    let (mut out, mut taus) = (vec![], vec![]);
    let all = matrices(a)?;
    let (rows, columns) = sides(a);
    for mut m in all {
        taus.extend(matrix::qr(&mut m));
        out.extend(m.values);
    }
    let tau = from_complex(&stacked(a, &[rows.min(columns)]), a.elem(), &taus)?;
    Ok(vec![from_complex(a.dims(), a.elem(), &out)?, tau])
}

/// `orgqr` and `ungqr`: the columns of `Q` from the packed factorization.
pub(crate) fn orgqr(a: &Literal, tau: &Literal) -> Result<Literal, Fault> {
    let taus = to_complex(tau);
    let each = tau.dims().last().copied().unwrap_or(0) as usize;
    let mut out = vec![];
    for (i, m) in matrices(a)?.into_iter().enumerate() {
        out.extend(matrix::q_of(&m, &taus[i * each..(i + 1) * each], m.columns).values);
    }
    from_complex(a.dims(), a.elem(), &out)
}

/// `getrf`: the packed factorization, the row swaps counted from 1, and per matrix 0 or the first zero pivot.
pub(crate) fn getrf(a: &Literal) -> Result<Vec<Literal>, Fault> {
    let (mut out, mut swaps, mut info) = (vec![], vec![], vec![]);
    let all = matrices(a)?;
    let (rows, columns) = sides(a);
    for mut m in all {
        let (pivots, singular) = matrix::lu(&mut m);
        swaps.extend(pivots.iter().map(|&p| p as i64 + 1));
        info.push(singular as i64);
        out.extend(m.values);
    }
    let pivots = integers(a, &[rows.min(columns)], &swaps)?;
    Ok(vec![from_complex(a.dims(), a.elem(), &out)?, pivots, integers(a, &[], &info)?])
}

/// `syevd` and `heevd`: eigenvectors as columns, eigenvalues in rising order, and zeros for success.
pub(crate) fn syevd(a: &Literal, triangle: Triangle) -> Result<Vec<Literal>, Fault> {
    let (mut vectors, mut values) = (vec![], vec![]);
    let all = matrices(a)?;
    let count = all.len();
    for m in all {
        let (w, v) = matrix::eigh(&m.hermitian(triangle));
        values.extend(w);
        vectors.extend(v.values);
    }
    let w = from_f64(&stacked(a, &[sides(a).0]), a.elem().real_part(), &values)?;
    Ok(vec![from_complex(a.dims(), a.elem(), &vectors)?, w, integers(a, &[], &vec![0; count])?])
}

/// Which singular vectors `gesdd` computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vectors {
    /// None: the results have the shapes of full bases, what they hold means nothing.
    None,
    /// As many as the shorter side.
    Thin,
    /// A full basis on both sides.
    Full,
}

/// `gesdd`: the operand (its contents mean nothing afterwards), the singular values, `U`, `V*` and zeros for success.
pub(crate) fn gesdd(a: &Literal, vectors: Vectors) -> Result<Vec<Literal>, Fault> {
    let all = matrices(a)?;
    let ((rows, columns), count) = (sides(a), all.len());
    let least = rows.min(columns);
    let (u_columns, v_rows) = match vectors {
        Vectors::Full | Vectors::None => (rows, columns),
        Vectors::Thin => (least, least),
    };
    let (mut values, mut left, mut right) = (vec![], vec![], vec![]);
    for m in all {
        let tall = rows >= columns;
        let (u, s, v) = matrix::svd(&if tall { m } else { m.adjoint() });
        // A wide matrix was factored as its adjoint.
        let (u, v) = if tall { (u, v) } else { (v, u) };
        values.extend(s);
        if vectors == Vectors::None {
            left.extend(vec![Cplx::ZERO; rows * u_columns]);
            right.extend(vec![Cplx::ZERO; v_rows * columns]);
            continue;
        }
        left.extend(widened(&u, u_columns).values);
        right.extend(widened(&v, v_rows).adjoint().values);
    }
    Ok(vec![
        a.clone(),
        from_f64(&stacked(a, &[least]), a.elem().real_part(), &values)?,
        from_complex(&stacked(a, &[rows, u_columns]), a.elem(), &left)?,
        from_complex(&stacked(a, &[v_rows, columns]), a.elem(), &right)?,
        integers(a, &[], &vec![0; count])?,
    ])
}

/// The orthonormal columns of `m` continued to `columns` of them.
fn widened(m: &Matrix, columns: usize) -> Matrix {
    let mut out = Matrix::new(m.rows, columns, |i, j| if j < m.columns { m[(i, j)] } else { Cplx::ZERO });
    matrix::complete_basis(&mut out);
    out
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

    #[test]
    fn full_svd_of_a_wide_matrix() {
        let a = f64s(&[1, 2], &[3.0, 4.0]);
        let parts = gesdd(&a, Vectors::Full).unwrap();
        assert_eq!(to_f64s(&parts[1]), [5.0]);
        assert_eq!((parts[2].dims(), parts[3].dims()), (&[1, 1][..], &[2, 2][..]));
        let values_only = gesdd(&a, Vectors::None).unwrap();
        assert_eq!((values_only[2].dims(), values_only[3].dims()), (&[1, 1][..], &[2, 2][..]));
    }
}
