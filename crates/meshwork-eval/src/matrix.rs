//! Dense matrices of complex numbers and the factorizations of linear algebra, in `f64`.
//!
//! Real matrices are complex ones without imaginary parts; every routine keeps them so.

use std::ops::{Index, IndexMut, Range};

use meshwork_mesh::sort_by;

use super::special::Cplx;

/// Which triangle of a matrix counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Triangle {
    Lower,
    Upper,
}

impl Triangle {
    /// The lower one if `lower` holds.
    pub(crate) fn lower_if(lower: bool) -> Triangle {
        if lower { Triangle::Lower } else { Triangle::Upper }
    }

    /// The triangle of the transposed matrix.
    pub(crate) fn other(self) -> Triangle {
        Triangle::lower_if(self == Triangle::Upper)
    }

    /// Whether row `i`, column `j` is in it; the diagonal is.
    pub(crate) fn contains(self, i: usize, j: usize) -> bool {
        if self == Triangle::Lower { j <= i } else { j >= i }
    }
}

/// A matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<Cplx>,
}

impl Index<(usize, usize)> for Matrix {
    type Output = Cplx;
    fn index(&self, (i, j): (usize, usize)) -> &Cplx {
        &self.values[i * self.columns + j]
    }
}

impl IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (i, j): (usize, usize)) -> &mut Cplx {
        &mut self.values[i * self.columns + j]
    }
}

impl Matrix {
    /// The matrix with element `f(i, j)` in row `i`, column `j`.
    pub(crate) fn new(rows: usize, columns: usize, f: impl Fn(usize, usize) -> Cplx) -> Matrix {
        let values = (0..rows * columns).map(|n| f(n / columns, n % columns)).collect();
        Matrix { rows, columns, values }
    }

    pub(crate) fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix::new(rows, columns, |_, _| Cplx::ZERO)
    }

    pub(crate) fn identity(rows: usize, columns: usize) -> Matrix {
        Matrix::new(rows, columns, |i, j| if i == j { Cplx::ONE } else { Cplx::ZERO })
    }

    /// The conjugate transpose.
    pub(crate) fn adjoint(&self) -> Matrix {
        Matrix::new(self.columns, self.rows, |i, j| self[(j, i)].conj())
    }

    /// The Hermitian matrix of which this holds a triangle.
    pub(crate) fn hermitian(&self, triangle: Triangle) -> Matrix {
        Matrix::new(self.rows, self.columns, |i, j| match (i == j, triangle.contains(i, j)) {
            (true, _) => Cplx::new(self[(i, i)].re, 0.0),
            (false, true) => self[(i, j)],
            (false, false) => self[(j, i)].conj(),
        })
    }

    /// The matrix product.
    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        let sum = |i, j| (0..self.columns).fold(Cplx::ZERO, |sum, k| sum + self[(i, k)] * other[(k, j)]);
        Matrix::new(self.rows, other.columns, sum)
    }

    /// Rows `rows` and columns `columns`.
    pub(crate) fn block(&self, rows: Range<usize>, columns: Range<usize>) -> Matrix {
        Matrix::new(rows.len(), columns.len(), |i, j| self[(rows.start + i, columns.start + j)])
    }

    /// The columns in this order.
    pub(crate) fn reordered(&self, order: &[usize]) -> Matrix {
        Matrix::new(self.rows, order.len(), |i, j| self[(i, order[j])])
    }

    /// The squared length of column `j`.
    pub(crate) fn length2(&self, j: usize) -> f64 {
        (0..self.rows).map(|i| self[(i, j)].norm2()).sum()
    }
}

/// `a / b`; a real divisor keeps infinities and signed zeros of the quotient.
pub(crate) fn divide(a: Cplx, b: Cplx) -> Cplx {
    if b.im == 0.0 { Cplx::new(a.re / b.re, a.im / b.re) } else { (a * b.conj()).scale(1.0 / b.norm2()) }
}

/// `L` with `a = L L*` from the lower triangle of `a`; the row (from 1) at which `a` turns out not to be positive
/// definite.
pub(crate) fn cholesky(a: &Matrix) -> Result<Matrix, usize> {
    let n = a.rows;
    let mut l = Matrix::zeros(n, n);
    for j in 0..n {
        let square = a[(j, j)].re - (0..j).map(|k| l[(j, k)].norm2()).sum::<f64>();
        if square.is_nan() || square <= 0.0 {
            return Err(j + 1);
        }
        let pivot = square.sqrt();
        l[(j, j)] = Cplx::new(pivot, 0.0);
        for i in j + 1..n {
            let sum = (0..j).fold(a[(i, j)], |sum, k| sum - l[(i, k)] * l[(j, k)].conj());
            l[(i, j)] = sum.scale(1.0 / pivot);
        }
    }
    Ok(l)
}

/// Solves `t x = b` in place for a triangular `t`.
pub(crate) fn solve_triangular(t: &Matrix, b: &mut Matrix, triangle: Triangle) {
    let n = t.rows;
    for step in 0..n {
        let (i, others) = match triangle {
            Triangle::Lower => (step, 0..step),
            Triangle::Upper => (n - 1 - step, n - step..n),
        };
        for c in 0..b.columns {
            let sum = others.clone().fold(b[(i, c)], |sum, k| sum - t[(i, k)] * b[(k, c)]);
            b[(i, c)] = divide(sum, t[(i, i)]);
        }
    }
}

/// `a = P L U` in place, as LAPACK's `getrf`: `L` without its unit diagonal below, `U` above, row `i` was swapped
/// with row `pivots[i]`. The second result is the first zero pivot, from 1, or 0.
pub(crate) fn lu(a: &mut Matrix) -> (Vec<usize>, usize) {
    let mut pivots = vec![];
    let mut singular = 0;
    for k in 0..a.rows.min(a.columns) {
        // LAPACK compares |re| + |im|, and takes the first of equals.
        let size = |v: Cplx| v.re.abs() + v.im.abs();
        let best = (k..a.rows).fold(k, |best, i| if size(a[(i, k)]) > size(a[(best, k)]) { i } else { best });
        pivots.push(best);
        if a[(best, k)] == Cplx::ZERO {
            if singular == 0 {
                singular = k + 1;
            }
            continue;
        }
        for j in 0..a.columns {
            (a[(k, j)], a[(best, j)]) = (a[(best, j)], a[(k, j)]);
        }
        for i in k + 1..a.rows {
            let factor = divide(a[(i, k)], a[(k, k)]);
            a[(i, k)] = factor;
            for j in k + 1..a.columns {
                a[(i, j)] = a[(i, j)] - factor * a[(k, j)];
            }
        }
    }
    (pivots, singular)
}

/// Sweeps of Jacobi's methods; they converge quadratically, a dozen is plenty.
const SWEEPS: usize = 60;

/// Calls `rotate` for all pairs of columns, again and again until it changes none of them.
fn sweep(n: usize, mut rotate: impl FnMut(usize, usize) -> bool) {
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                rotated |= rotate(p, q);
            }
        }
        if !rotated {
            return;
        }
    }
}

/// Singular values, largest first, of a matrix with at least as many rows as columns, with the left vectors as
/// columns of `u` (same shape as `a`) and the right ones as columns of `v`: one-sided Jacobi.
pub(crate) fn svd(a: &Matrix) -> (Matrix, Vec<f64>, Matrix) {
    let n = a.columns;
    let (mut u, mut v) = (a.clone(), Matrix::identity(n, n));
    sweep(n, |p, q| {
        let (pp, qq) = (u.length2(p), u.length2(q));
        let pq = (0..u.rows).fold(Cplx::ZERO, |sum, i| sum + u[(i, p)].conj() * u[(i, q)]);
        let size = pq.norm2().sqrt();
        if size == 0.0 || size <= 1e-15 * (pp * qq).sqrt() || !size.is_finite() {
            return false;
        }
        let rotation = Rotation::new(pp, qq, pq);
        rotation.apply(&mut u, p, q);
        rotation.apply(&mut v, p, q);
        true
    });
    let sizes: Vec<f64> = (0..n).map(|j| u.length2(j).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    sort_by(&mut order, |&a, &b| sizes[b].total_cmp(&sizes[a]));
    let values: Vec<f64> = order.iter().map(|&j| sizes[j]).collect();
    let (u, v) = (u.reordered(&order), v.reordered(&order));
    let kept = |j: usize| values[j] > values[0] * 1e-300 && values[j] > 0.0;
    let mut left = Matrix::new(u.rows, n, |i, j| if kept(j) { u[(i, j)].scale(1.0 / values[j]) } else { Cplx::ZERO });
    complete_basis(&mut left);
    (left, values, v)
}

/// A rotation of two columns.
struct Rotation {
    cos: f64,
    sin: f64,
    phase: Cplx,
}

impl Rotation {
    /// The one that makes columns of squared lengths `pp` and `qq` and inner product `pq` orthogonal.
    fn new(pp: f64, qq: f64, pq: Cplx) -> Rotation {
        let size = pq.norm2().sqrt();
        let zeta = (qq - pp) / (2.0 * size);
        let t = if zeta == 0.0 { 1.0 } else { zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt()) };
        let cos = 1.0 / (1.0 + t * t).sqrt();
        Rotation { cos, sin: cos * t, phase: pq.scale(1.0 / size) }
    }

    fn apply(&self, m: &mut Matrix, p: usize, q: usize) {
        for i in 0..m.rows {
            let (x, y) = (m[(i, p)], m[(i, q)] * self.phase.conj());
            m[(i, p)] = x.scale(self.cos) - y.scale(self.sin);
            m[(i, q)] = (x.scale(self.sin) + y.scale(self.cos)) * self.phase;
        }
    }

    /// Its adjoint from the left: rows `p` and `q` instead of columns.
    fn apply_adjoint(&self, m: &mut Matrix, p: usize, q: usize) {
        for j in 0..m.columns {
            let (x, y) = (m[(p, j)], m[(q, j)] * self.phase);
            m[(p, j)] = x.scale(self.cos) - y.scale(self.sin);
            m[(q, j)] = (x.scale(self.sin) + y.scale(self.cos)) * self.phase.conj();
        }
    }
}

/// Replaces zero columns by unit vectors orthogonal to all others.
pub(crate) fn complete_basis(m: &mut Matrix) {
    for j in 0..m.columns {
        if m.length2(j) > 0.0 {
            continue;
        }
        // Of all unit vectors take the one that is least covered by the other columns.
        let covered = |i: usize| (0..m.columns).map(|c| m[(i, c)].norm2()).sum::<f64>();
        let Some(axis) = (0..m.rows).min_by(|&a, &b| covered(a).total_cmp(&covered(b))) else { return };
        m[(axis, j)] = Cplx::ONE;
        // Twice, for accuracy.
        for c in (0..m.columns).chain(0..m.columns).filter(|&c| c != j) {
            let dot = (0..m.rows).fold(Cplx::ZERO, |sum, i| sum + m[(i, c)].conj() * m[(i, j)]);
            (0..m.rows).for_each(|i| m[(i, j)] = m[(i, j)] - dot * m[(i, c)]);
        }
        let size = m.length2(j).sqrt();
        (0..m.rows).for_each(|i| m[(i, j)] = m[(i, j)].scale(1.0 / size));
    }
}

/// Eigenvalues of a Hermitian matrix, smallest first, and the eigenvectors as columns: cyclic Jacobi.
pub(crate) fn eigh(a: &Matrix) -> (Vec<f64>, Matrix) {
    let n = a.rows;
    let (mut a, mut v) = (a.clone(), Matrix::identity(n, n));
    sweep(n, |p, q| {
        let (pp, qq, pq) = (a[(p, p)].re, a[(q, q)].re, a[(p, q)]);
        let size = pq.norm2().sqrt();
        if size <= 1e-17 * (pp.abs() + qq.abs()) || size < f64::MIN_POSITIVE || !size.is_finite() {
            return false;
        }
        let rotation = Rotation::new(pp, qq, pq);
        rotation.apply(&mut a, p, q);
        rotation.apply_adjoint(&mut a, p, q);
        (a[(p, q)], a[(q, p)]) = (Cplx::ZERO, Cplx::ZERO);
        rotation.apply(&mut v, p, q);
        true
    });
    let mut order: Vec<usize> = (0..n).collect();
    sort_by(&mut order, |&x, &y| a[(x, x)].re.total_cmp(&a[(y, y)].re));
    (order.iter().map(|&i| a[(i, i)].re).collect(), v.reordered(&order))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(rows: usize, columns: usize, complex: bool) -> Matrix {
        let mut seed = 12345u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        let values = (0..rows * columns).map(|_| Cplx::new(next(), if complex { next() } else { 0.0 })).collect();
        Matrix { rows, columns, values }
    }

    pub(crate) fn near(a: &Matrix, b: &Matrix) -> bool {
        a.values.iter().zip(&b.values).all(|(&x, &y)| (x - y).abs() < 1e-10)
    }

    #[test]
    fn cholesky_squares_to_the_matrix() {
        for complex in [false, true] {
            for n in [0, 1, 2, 5] {
                let a = sample(n, n, complex);
                let mut positive = a.times(&a.adjoint());
                for i in 0..n {
                    positive[(i, i)] = positive[(i, i)] + Cplx::ONE;
                }
                let l = cholesky(&positive).unwrap();
                assert!(near(&l.times(&l.adjoint()), &positive));
            }
        }
        assert_eq!(cholesky(&Matrix { rows: 1, columns: 1, values: vec![Cplx::new(-1.0, 0.0)] }), Err(1));
    }

    #[test]
    fn lu_gives_back_the_permuted_matrix() {
        for (rows, columns) in [(3, 3), (4, 2), (2, 4)] {
            let a = sample(rows, columns, true);
            let mut f = a.clone();
            let (pivots, singular) = lu(&mut f);
            assert_eq!(singular, 0);
            let depth = rows.min(columns);
            let (mut l, mut u) = (Matrix::identity(rows, depth), Matrix::zeros(depth, columns));
            for i in 0..rows {
                for j in 0..columns {
                    if i > j { l[(i, j)] = f[(i, j)] } else { u[(i, j)] = f[(i, j)] }
                }
            }
            let mut permuted = a;
            for (i, &p) in pivots.iter().enumerate() {
                for j in 0..columns {
                    permuted.values.swap(i * columns + j, p * columns + j);
                }
            }
            assert!(near(&l.times(&u), &permuted));
        }
        assert_eq!(lu(&mut Matrix::zeros(2, 2)).1, 1);
    }

    #[test]
    fn svd_and_eigh_reconstruct() {
        for complex in [false, true] {
            for (rows, columns) in [(1, 1), (4, 3), (5, 5)] {
                let a = sample(rows, columns, complex);
                let (u, s, v) = svd(&a);
                let mut us = u.clone();
                for i in 0..rows {
                    for (j, &size) in s.iter().enumerate() {
                        us[(i, j)] = u[(i, j)].scale(size);
                    }
                }
                assert!(near(&us.times(&v.adjoint()), &a));
                assert!(near(&u.adjoint().times(&u), &Matrix::identity(columns, columns)));
                assert!(s.windows(2).all(|w| w[0] >= w[1]));
                let h = a.adjoint().times(&a);
                let (values, w) = eigh(&h);
                let mut wd = w.clone();
                for i in 0..columns {
                    for (j, &value) in values.iter().enumerate() {
                        wd[(i, j)] = w[(i, j)].scale(value);
                    }
                }
                assert!(near(&wd.times(&w.adjoint()), &h));
            }
        }
    }

    #[test]
    fn svd_of_a_singular_matrix_still_has_orthonormal_vectors() {
        let (u, s, _) = svd(&Matrix::zeros(3, 2));
        assert_eq!(s, [0.0, 0.0]);
        assert!(near(&u.adjoint().times(&u), &Matrix::identity(2, 2)));
    }
}
