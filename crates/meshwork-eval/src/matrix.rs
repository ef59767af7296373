//! Dense matrices of complex numbers and the factorisations of linear algebra, in `f64`.
//!
//! Real matrices are complex ones without imaginary parts; every routine keeps them so.

use super::nums::{C, c_mul};

/// A matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<C>,
}

pub(crate) fn conj(a: C) -> C {
    (a.0, -a.1)
}

fn sub(a: C, b: C) -> C {
    (a.0 - b.0, a.1 - b.1)
}

fn add(a: C, b: C) -> C {
    (a.0 + b.0, a.1 + b.1)
}

fn scale(a: C, by: f64) -> C {
    (a.0 * by, a.1 * by)
}

fn norm2(a: C) -> f64 {
    a.0 * a.0 + a.1 * a.1
}

pub(crate) fn div(a: C, b: C) -> C {
    // A real divisor keeps infinities and signed zeros of the quotient.
    if b.1 == 0.0 {
        return (a.0 / b.0, a.1 / b.0);
    }
    scale(c_mul(a, conj(b)), 1.0 / norm2(b))
}

impl Matrix {
    pub(crate) fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, values: vec![(0.0, 0.0); rows * columns] }
    }

    pub(crate) fn identity(rows: usize, columns: usize) -> Matrix {
        let mut out = Matrix::zeros(rows, columns);
        for i in 0..rows.min(columns) {
            out.set(i, i, (1.0, 0.0));
        }
        out
    }

    pub(crate) fn at(&self, i: usize, j: usize) -> C {
        self.values[i * self.columns + j]
    }

    pub(crate) fn set(&mut self, i: usize, j: usize, v: C) {
        self.values[i * self.columns + j] = v;
    }

    /// The conjugate transpose.
    pub(crate) fn adjoint(&self) -> Matrix {
        let mut out = Matrix::zeros(self.columns, self.rows);
        for i in 0..self.rows {
            for j in 0..self.columns {
                out.set(j, i, conj(self.at(i, j)));
            }
        }
        out
    }

    /// The Hermitian matrix of which this holds the lower (or upper) triangle.
    pub(crate) fn hermitian(&self, lower: bool) -> Matrix {
        let mut out = self.clone();
        for i in 0..self.rows {
            out.set(i, i, (self.at(i, i).0, 0.0));
            for j in 0..i {
                if lower {
                    out.set(j, i, conj(self.at(i, j)));
                } else {
                    out.set(i, j, conj(self.at(j, i)));
                }
            }
        }
        out
    }
}

/// `L` with `a = L L*` from the lower triangle of `a`; the row (from 1) at which `a` turns out not to be positive
/// definite.
pub(crate) fn cholesky(a: &Matrix) -> Result<Matrix, usize> {
    let n = a.rows;
    let mut l = Matrix::zeros(n, n);
    for j in 0..n {
        let square = a.at(j, j).0 - (0..j).map(|k| norm2(l.at(j, k))).sum::<f64>();
        if square.is_nan() || square <= 0.0 {
            return Err(j + 1);
        }
        let pivot = square.sqrt();
        l.set(j, j, (pivot, 0.0));
        for i in j + 1..n {
            let mut sum = a.at(i, j);
            for k in 0..j {
                sum = sub(sum, c_mul(l.at(i, k), conj(l.at(j, k))));
            }
            l.set(i, j, scale(sum, 1.0 / pivot));
        }
    }
    Ok(l)
}

/// Solves `t x = b` in place for a triangular `t`.
pub(crate) fn solve_triangular(t: &Matrix, b: &mut Matrix, lower: bool, unit: bool) {
    let n = t.rows;
    for step in 0..n {
        let i = if lower { step } else { n - 1 - step };
        let others = if lower { 0..i } else { i + 1..n };
        for c in 0..b.columns {
            let mut sum = b.at(i, c);
            for k in others.clone() {
                sum = sub(sum, c_mul(t.at(i, k), b.at(k, c)));
            }
            b.set(i, c, if unit { sum } else { div(sum, t.at(i, i)) });
        }
    }
}

/// `a = P L U` in place, as LAPACK's `getrf`: `L` without its unit diagonal below, `U` above, row `i` was swapped
/// with row `pivots[i]`. The second result is the first zero pivot, from 1, or 0.
pub(crate) fn lu(a: &mut Matrix) -> (Vec<usize>, usize) {
    let mut pivots = vec![];
    let mut singular = 0;
    for k in 0..a.rows.min(a.columns) {
        // LAPACK compares |re| + |im|.
        let size = |v: C| v.0.abs() + v.1.abs();
        let mut best = k;
        for i in k + 1..a.rows {
            if size(a.at(i, k)) > size(a.at(best, k)) {
                best = i;
            }
        }
        pivots.push(best);
        if a.at(best, k) == (0.0, 0.0) {
            if singular == 0 {
                singular = k + 1;
            }
            continue;
        }
        for j in 0..a.columns {
            let (x, y) = (a.at(k, j), a.at(best, j));
            a.set(k, j, y);
            a.set(best, j, x);
        }
        for i in k + 1..a.rows {
            let factor = div(a.at(i, k), a.at(k, k));
            a.set(i, k, factor);
            for j in k + 1..a.columns {
                a.set(i, j, sub(a.at(i, j), c_mul(factor, a.at(k, j))));
            }
        }
    }
    (pivots, singular)
}

/// `a = Q R` in place, as LAPACK's `geqrf`: `R` in the upper triangle, the reflectors below it; their factors.
pub(crate) fn qr(a: &mut Matrix) -> Vec<C> {
    let mut taus = vec![];
    for k in 0..a.rows.min(a.columns) {
        let tail: f64 = (k + 1..a.rows).map(|i| norm2(a.at(i, k))).sum();
        let alpha = a.at(k, k);
        if tail == 0.0 && alpha.1 == 0.0 {
            taus.push((0.0, 0.0));
            continue;
        }
        let beta = -(norm2(alpha) + tail).sqrt().copysign(alpha.0);
        let tau = ((beta - alpha.0) / beta, -alpha.1 / beta);
        let divisor = sub(alpha, (beta, 0.0));
        for i in k + 1..a.rows {
            a.set(i, k, div(a.at(i, k), divisor));
        }
        a.set(k, k, (beta, 0.0));
        apply_reflector(a, k, conj(tau), k + 1, None);
        taus.push(tau);
    }
    taus
}

/// `(I - tau v v*)` on columns `from..` of `target` (by default the matrix of reflectors itself), with `v` the
/// reflector in column `k`.
fn apply_reflector(reflectors: &mut Matrix, k: usize, tau: C, from: usize, target: Option<&mut Matrix>) {
    let v: Vec<C> = (k..reflectors.rows).map(|i| if i == k { (1.0, 0.0) } else { reflectors.at(i, k) }).collect();
    let target = target.unwrap_or(reflectors);
    for j in from..target.columns {
        let mut dot = (0.0, 0.0);
        for (i, &vi) in v.iter().enumerate() {
            dot = add(dot, c_mul(conj(vi), target.at(k + i, j)));
        }
        let factor = c_mul(tau, dot);
        for (i, &vi) in v.iter().enumerate() {
            target.set(k + i, j, sub(target.at(k + i, j), c_mul(factor, vi)));
        }
    }
}

/// The first `columns` columns of `Q` from [`qr`]'s reflectors.
pub(crate) fn q_of(reflectors: &Matrix, taus: &[C], columns: usize) -> Matrix {
    let mut q = Matrix::identity(reflectors.rows, columns);
    let mut reflectors = reflectors.clone();
    for k in (0..taus.len()).rev() {
        apply_reflector(&mut reflectors, k, taus[k], 0, Some(&mut q));
    }
    q
}

/// Sweeps of Jacobi's methods; they converge quadratically, a dozen is plenty.
const SWEEPS: usize = 60;

/// Singular values, largest first, of a matrix with at least as many rows as columns, with the left vectors as
/// columns of `u` (same shape as `a`) and the right ones as columns of `v`: one-sided Jacobi.
pub(crate) fn svd(a: &Matrix) -> (Matrix, Vec<f64>, Matrix) {
    let n = a.columns;
    let (mut u, mut v) = (a.clone(), Matrix::identity(n, n));
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let (mut pp, mut qq, mut pq) = (0.0, 0.0, (0.0, 0.0));
                for i in 0..u.rows {
                    pp += norm2(u.at(i, p));
                    qq += norm2(u.at(i, q));
                    pq = add(pq, c_mul(conj(u.at(i, p)), u.at(i, q)));
                }
                let size = norm2(pq).sqrt();
                if size == 0.0 || size <= 1e-15 * (pp * qq).sqrt() || !size.is_finite() {
                    continue;
                }
                rotated = true;
                let (c, s) = rotation(pp, qq, size);
                let phase = scale(pq, 1.0 / size);
                rotate_columns(&mut u, p, q, c, s, phase);
                rotate_columns(&mut v, p, q, c, s, phase);
            }
        }
        if !rotated {
            break;
        }
    }
    let sizes: Vec<f64> = (0..n).map(|j| (0..u.rows).map(|i| norm2(u.at(i, j))).sum::<f64>().sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| sizes[b].total_cmp(&sizes[a]));
    let largest = order.first().map_or(0.0, |&j| sizes[j]);
    let (mut left, mut right) = (Matrix::zeros(u.rows, n), Matrix::zeros(n, n));
    let mut values = vec![];
    for (to, &from) in order.iter().enumerate() {
        values.push(sizes[from]);
        for i in 0..n {
            right.set(i, to, v.at(i, from));
        }
        if sizes[from] > largest * 1e-300 && sizes[from] > 0.0 {
            for i in 0..u.rows {
                left.set(i, to, scale(u.at(i, from), 1.0 / sizes[from]));
            }
        }
    }
    complete_basis(&mut left);
    (left, values, right)
}

/// The rotation that makes two columns of squared lengths `pp` and `qq` and inner product `size` orthogonal.
fn rotation(pp: f64, qq: f64, size: f64) -> (f64, f64) {
    let zeta = (qq - pp) / (2.0 * size);
    let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
    let t = if zeta == 0.0 { 1.0 } else { t };
    let c = 1.0 / (1.0 + t * t).sqrt();
    (c, c * t)
}

fn rotate_columns(m: &mut Matrix, p: usize, q: usize, c: f64, s: f64, phase: C) {
    for i in 0..m.rows {
        let (x, y) = (m.at(i, p), c_mul(m.at(i, q), conj(phase)));
        m.set(i, p, sub(scale(x, c), scale(y, s)));
        m.set(i, q, c_mul(add(scale(x, s), scale(y, c)), phase));
    }
}

/// Replaces zero columns by unit vectors orthogonal to all others.
pub(crate) fn complete_basis(m: &mut Matrix) {
    for j in 0..m.columns {
        if (0..m.rows).any(|i| norm2(m.at(i, j)) > 0.0) {
            continue;
        }
        // Of all unit vectors take the one that is least covered by the other columns.
        let covered = |i: usize| (0..m.columns).map(|c| norm2(m.at(i, c))).sum::<f64>();
        let Some(axis) = (0..m.rows).min_by(|&a, &b| covered(a).total_cmp(&covered(b))) else { return };
        let mut column = vec![(0.0, 0.0); m.rows];
        column[axis] = (1.0, 0.0);
        // Twice, for accuracy.
        for _ in 0..2 {
            for c in (0..m.columns).filter(|&c| c != j) {
                let mut dot = (0.0, 0.0);
                for (i, &v) in column.iter().enumerate() {
                    dot = add(dot, c_mul(conj(m.at(i, c)), v));
                }
                for (i, v) in column.iter_mut().enumerate() {
                    *v = sub(*v, c_mul(dot, m.at(i, c)));
                }
            }
        }
        let size = column.iter().map(|&v| norm2(v)).sum::<f64>().sqrt();
        for (i, v) in column.into_iter().enumerate() {
            m.set(i, j, scale(v, 1.0 / size));
        }
    }
}

/// Eigenvalues of a Hermitian matrix, smallest first, and the eigenvectors as columns: cyclic Jacobi.
pub(crate) fn eigh(a: &Matrix) -> (Vec<f64>, Matrix) {
    let n = a.rows;
    let (mut a, mut v) = (a.clone(), Matrix::identity(n, n));
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let pq = a.at(p, q);
                let size = norm2(pq).sqrt();
                let (pp, qq) = (a.at(p, p).0, a.at(q, q).0);
                if size <= 1e-17 * (pp.abs() + qq.abs()) || size < f64::MIN_POSITIVE || !size.is_finite() {
                    continue;
                }
                rotated = true;
                let (c, s) = rotation(pp, qq, size);
                let phase = scale(pq, 1.0 / size);
                rotate_columns(&mut a, p, q, c, s, phase);
                let mut rows = a.adjoint();
                rotate_columns(&mut rows, p, q, c, s, phase);
                a = rows.adjoint();
                a.set(p, q, (0.0, 0.0));
                a.set(q, p, (0.0, 0.0));
                rotate_columns(&mut v, p, q, c, s, phase);
            }
        }
        if !rotated {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&x, &y| a.at(x, x).0.total_cmp(&a.at(y, y).0));
    let mut vectors = Matrix::zeros(n, n);
    for (to, &from) in order.iter().enumerate() {
        for i in 0..n {
            vectors.set(i, to, v.at(i, from));
        }
    }
    (order.iter().map(|&i| a.at(i, i).0).collect(), vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: usize, columns: usize, complex: bool) -> Matrix {
        let mut seed = 12345u64;
        let mut next = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as f64 / (1u64 << 31) as f64 - 0.5
        };
        let values = (0..rows * columns).map(|_| (next(), if complex { next() } else { 0.0 })).collect();
        Matrix { rows, columns, values }
    }

    fn product(a: &Matrix, b: &Matrix) -> Matrix {
        let mut out = Matrix::zeros(a.rows, b.columns);
        for i in 0..a.rows {
            for j in 0..b.columns {
                let sum = (0..a.columns).fold((0.0, 0.0), |s, k| add(s, c_mul(a.at(i, k), b.at(k, j))));
                out.set(i, j, sum);
            }
        }
        out
    }

    fn near(a: &Matrix, b: &Matrix) -> bool {
        a.values.iter().zip(&b.values).all(|(&x, &y)| norm2(sub(x, y)).sqrt() < 1e-10)
    }

    #[test]
    fn cholesky_squares_to_the_matrix() {
        for complex in [false, true] {
            for n in [0, 1, 2, 5] {
                let a = sample(n, n, complex);
                let mut positive = product(&a, &a.adjoint());
                for i in 0..n {
                    positive.set(i, i, add(positive.at(i, i), (1.0, 0.0)));
                }
                let l = cholesky(&positive).unwrap();
                assert!(near(&product(&l, &l.adjoint()), &positive));
            }
        }
        assert_eq!(cholesky(&Matrix { rows: 1, columns: 1, values: vec![(-1.0, 0.0)] }), Err(1));
    }

    #[test]
    fn qr_gives_back_the_matrix_with_orthonormal_q() {
        for (rows, columns) in [(1, 1), (3, 3), (5, 2), (2, 5)] {
            let a = sample(rows, columns, true);
            let mut r = a.clone();
            let taus = qr(&mut r);
            let q = q_of(&r, &taus, rows);
            for i in 0..rows {
                for j in 0..columns.min(i) {
                    r.set(i, j, (0.0, 0.0));
                }
            }
            assert!(near(&product(&q, &r), &a));
            assert!(near(&product(&q.adjoint(), &q), &Matrix::identity(rows, rows)));
        }
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
                    if i > j { l.set(i, j, f.at(i, j)) } else { u.set(i, j, f.at(i, j)) }
                }
            }
            let mut permuted = a;
            for (i, &p) in pivots.iter().enumerate() {
                for j in 0..columns {
                    permuted.values.swap(i * columns + j, p * columns + j);
                }
            }
            assert!(near(&product(&l, &u), &permuted));
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
                        us.set(i, j, scale(u.at(i, j), size));
                    }
                }
                assert!(near(&product(&us, &v.adjoint()), &a));
                assert!(near(&product(&u.adjoint(), &u), &Matrix::identity(columns, columns)));
                assert!(s.windows(2).all(|w| w[0] >= w[1]));
                let h = product(&a.adjoint(), &a);
                let (values, w) = eigh(&h);
                let mut wd = w.clone();
                for i in 0..columns {
                    for (j, &value) in values.iter().enumerate() {
                        wd.set(i, j, scale(w.at(i, j), value));
                    }
                }
                assert!(near(&product(&wd, &w.adjoint()), &h));
            }
        }
    }

    #[test]
    fn svd_of_a_singular_matrix_still_has_orthonormal_vectors() {
        let (u, s, _) = svd(&Matrix::zeros(3, 2));
        assert_eq!(s, [0.0, 0.0]);
        assert!(near(&product(&u.adjoint(), &u), &Matrix::identity(2, 2)));
    }
}
