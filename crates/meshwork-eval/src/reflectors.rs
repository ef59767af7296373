//! Householder reflectors as LAPACK stores them: QR with and without pivoting, reduction to Hessenberg form.

use super::matrix::{Matrix, divide};
use super::special::Cplx;

/// Makes the reflector of column `k` from row `first` on, which maps it to a real multiple of a unit vector: leaves that
/// in row `first` and the reflector below it, and gives its factor.
fn make(a: &mut Matrix, k: usize, first: usize) -> Cplx {
    let tail: f64 = (first + 1..a.rows).map(|i| a[(i, k)].norm2()).sum();
    let alpha = a[(first, k)];
    if tail == 0.0 && alpha.im == 0.0 {
        return Cplx::ZERO;
    }
    let beta = -(alpha.norm2() + tail).sqrt().copysign(alpha.re);
    for i in first + 1..a.rows {
        a[(i, k)] = divide(a[(i, k)], alpha - Cplx::new(beta, 0.0));
    }
    a[(first, k)] = Cplx::new(beta, 0.0);
    Cplx::new((beta - alpha.re) / beta, -alpha.im / beta)
}

/// The reflector in column `k`, from row `first` on.
fn stored(a: &Matrix, k: usize, first: usize) -> Vec<Cplx> {
    (first..a.rows).map(|i| if i == first { Cplx::ONE } else { a[(i, k)] }).collect()
}

/// `(I - tau v v*)` on columns `from..` of `target`, with `v` starting at row `first`.
fn reflect(v: &[Cplx], tau: Cplx, target: &mut Matrix, first: usize, from: usize) {
    for j in from..target.columns {
        let dot = (0..v.len()).fold(Cplx::ZERO, |sum, i| sum + v[i].conj() * target[(first + i, j)]);
        for (i, &vi) in v.iter().enumerate() {
            target[(first + i, j)] = target[(first + i, j)] - tau * dot * vi;
        }
    }
}

/// `a = Q R` in place, as LAPACK's `geqrf`: `R` in the upper triangle, the reflectors below it; their factors.
pub(crate) fn qr(a: &mut Matrix) -> Vec<Cplx> {
    (0..a.rows.min(a.columns)).map(|k| eliminate(a, k)).collect()
}

/// One step of [`qr`].
fn eliminate(a: &mut Matrix, k: usize) -> Cplx {
    let tau = make(a, k, k);
    reflect(&stored(a, k, k), tau.conj(), a, k, k + 1);
    tau
}

/// The first `columns` columns of `Q` from [`qr`]'s reflectors.
pub(crate) fn q_of(reflectors: &Matrix, taus: &[Cplx], columns: usize) -> Matrix {
    let mut q = Matrix::identity(reflectors.rows, columns);
    for k in (0..taus.len()).rev() {
        reflect(&stored(reflectors, k, k), taus[k], &mut q, k, 0);
    }
    q
}

/// `a P = Q R` in place, as LAPACK's `geqp3`: the longest remaining column is next. Columns with a nonzero entry in `order`
/// come first; it becomes the order of the columns, from 1.
pub(crate) fn pivoted_qr(a: &mut Matrix, order: &mut [i64]) -> Vec<Cplx> {
    let (fixed, free): (Vec<usize>, Vec<usize>) = (0..a.columns).partition(|&j| order[j] != 0);
    let fixed_count = fixed.len();
    let places: Vec<usize> = fixed.into_iter().chain(free).collect();
    *a = a.reordered(&places);
    order.iter_mut().zip(&places).for_each(|(to, &j)| *to = j as i64 + 1);
    let mut taus = vec![];
    for k in 0..a.rows.min(a.columns) {
        let length = |a: &Matrix, j: usize| (k..a.rows).map(|i| a[(i, j)].norm2()).sum::<f64>();
        let first = if k < fixed_count { a.columns } else { k };
        let longest = (first..a.columns).fold(k, |best, j| if length(a, j) > length(a, best) { j } else { best });
        let mut columns: Vec<usize> = (0..a.columns).collect();
        columns.swap(k, longest);
        order.swap(k, longest);
        *a = a.reordered(&columns);
        taus.push(eliminate(a, k));
    }
    taus
}

/// `a = Q H Q*` in place, as LAPACK's `gehrd`: `H` with zeros below its subdiagonal, where the reflectors stand; their
/// factors. Of a Hermitian matrix `H` is tridiagonal.
pub(crate) fn hessenberg(a: &mut Matrix) -> Vec<Cplx> {
    let mut taus = vec![];
    for k in 0..a.rows.saturating_sub(1) {
        let tau = make(a, k, k + 1);
        let v = stored(a, k, k + 1);
        reflect(&v, tau.conj(), a, k + 1, k + 1);
        // A H is the adjoint of H* A*.
        let mut rows = a.adjoint();
        reflect(&v, tau.conj(), &mut rows, k + 1, 0);
        *a = rows.adjoint();
        taus.push(tau);
    }
    taus
}

/// `Q` and `H` of [`hessenberg`]'s result.
pub(crate) fn unpacked(packed: &Matrix, taus: &[Cplx]) -> (Matrix, Matrix) {
    let n = packed.rows;
    let mut q = Matrix::identity(n, n);
    for k in (0..taus.len()).rev() {
        reflect(&stored(packed, k, k + 1), taus[k], &mut q, k + 1, 0);
    }
    (q, Matrix::new(n, n, |i, j| if i > j + 1 { Cplx::ZERO } else { packed[(i, j)] }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::tests::{near, sample};

    #[test]
    fn qr_gives_back_the_matrix_with_orthonormal_q() {
        for (rows, columns) in [(1, 1), (3, 3), (5, 2), (2, 5)] {
            let a = sample(rows, columns, true);
            let mut r = a.clone();
            let taus = qr(&mut r);
            let q = q_of(&r, &taus, rows);
            let r = Matrix::new(rows, columns, |i, j| if j < i { Cplx::ZERO } else { r[(i, j)] });
            assert!(near(&q.times(&r), &a));
            assert!(near(&q.adjoint().times(&q), &Matrix::identity(rows, rows)));
        }
    }

    #[test]
    fn pivoted_qr_gives_back_the_columns_in_their_order() {
        for fixed in [[0, 0, 0, 0], [0, 0, 1, 0]] {
            let a = sample(5, 4, true);
            let (mut r, mut order) = (a.clone(), fixed.to_vec());
            let taus = pivoted_qr(&mut r, &mut order);
            let q = q_of(&r, &taus, 5);
            let sizes: Vec<f64> = (0..4).map(|k| r[(k, k)].abs()).collect();
            assert!(sizes.windows(2).skip(usize::from(fixed[2] != 0)).all(|w| w[0] >= w[1]));
            assert!(fixed[2] == 0 || order[0] == 3);
            let r = Matrix::new(5, 4, |i, j| if j < i { Cplx::ZERO } else { r[(i, j)] });
            let order: Vec<usize> = order.iter().map(|&j| j as usize - 1).collect();
            assert!(near(&q.times(&r), &a.reordered(&order)));
        }
    }

    #[test]
    fn hessenberg_gives_back_the_matrix() {
        for n in [0, 1, 2, 5] {
            let a = sample(n, n, true);
            let mut packed = a.clone();
            let taus = hessenberg(&mut packed);
            let (q, h) = unpacked(&packed, &taus);
            assert!(near(&q.times(&h).times(&q.adjoint()), &a));
        }
    }
}
