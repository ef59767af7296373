//! Householder reflectors as LAPACK stores them: QR with and without pivoting, products of reflectors, reduction to
//! Hessenberg and to tridiagonal form.
//!
//! A reflector is `H = I - tau v v*` with `v[0] = 1`; the rest of `v` stands below the diagonal. `H*` maps the column
//! it was made from to a real multiple of the first unit vector. All matrices are row-major without gaps.

use rustfft::num_traits::{Float, One, Zero};

use super::field::{Field, norm, subtract, wide};
use super::product::{Operand, Sign, accumulate};
use crate::step::Scratch;

/// Reflectors that are applied as one product.
const BLOCK: usize = 32;

/// Makes the reflector of the column that starts with `alpha` and goes on in `tail`, each `row` after the other: gives
/// `tau`, and leaves the multiple of the unit vector in the place of `alpha` and `v` in that of `tail`.
fn reflector<T: Field>(a: &mut [T], alpha: usize, tail: usize, row: usize, count: usize) -> T {
    let at = |i: usize| tail + i * row;
    let length = norm((0..count).map(|i| a[at(i)]));
    let head = a[alpha];
    if length.is_zero() && head.im().is_zero() {
        return T::zero();
    }
    let size = norm([head, T::real(length)].into_iter());
    let beta = if head.re().is_sign_negative() { size } else { -size };
    let scale = T::one() / (head - T::real(beta));
    (0..count).for_each(|i| a[at(i)] = a[at(i)] * scale);
    a[alpha] = T::real(beta);
    T::new((beta - head.re()) / beta, -head.im() / beta)
}

/// `(I - tau v v*)` on columns `from..to` of the rows from `k` on; `v` starts at row `k`.
#[inline(always)]
fn reflect<T: Field>(a: &mut [T], n: usize, v: &[T], tau: T, k: usize, (from, to): (usize, usize), sums: &mut [T]) {
    if tau == T::zero() || from >= to {
        return;
    }
    let sums = &mut sums[..to - from];
    sums.fill(T::zero());
    for (i, v) in v.iter().enumerate() {
        subtract(sums, -v.conj(), &a[(k + i) * n + from..(k + i) * n + to]);
    }
    for (i, &v) in v.iter().enumerate() {
        subtract(&mut a[(k + i) * n + from..(k + i) * n + to], tau * v, sums);
    }
}

/// The reflector stored in column `k` below row `k + below`, from there on.
fn stored<T: Field>(a: &[T], m: usize, n: usize, k: usize, below: usize) -> Vec<T> {
    let first = k + below;
    (first..m).map(|i| if i == first { T::one() } else { a[i * n + k] }).collect()
}

/// `a = Q R` in place: `R` above, the reflectors of `Q = H₀ H₁ ...` below the diagonal, their factors in `taus`.
pub(super) fn qr<T: Field>(a: &mut [T], [m, n]: [usize; 2], taus: &mut [T], scratch: &mut Scratch) {
    let least = m.min(n);
    let mut sums = vec![T::zero(); BLOCK];
    for k in (0..least).step_by(BLOCK) {
        let width = BLOCK.min(least - k);
        for j in k..k + width {
            taus[j] = reflector(a, j * n + j, (j + 1) * n + j, n, m - j - 1);
            let v = stored(a, m, n, j, 0);
            wide(|| reflect(a, n, &v, taus[j].conj(), j, (j + 1, k + width), &mut sums));
        }
        if k + width < n {
            let block = Reflectors::new(a, [m, n], k, &taus[k..k + width]);
            block.apply(a, n, (k + width, n), Adjoint::Yes, scratch);
        }
    }
}

/// Whether the conjugate transpose is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Adjoint {
    No,
    Yes,
}

/// A product of neighboring reflectors as `I - V T V*`, with `V` from row `first` on.
struct Reflectors<T> {
    v: Vec<T>,
    t: Vec<T>,
    first: usize,
    rows: usize,
    width: usize,
}

impl<T: Field> Reflectors<T> {
    /// The reflectors in the columns of `a` from `first` on.
    fn new(a: &[T], [m, n]: [usize; 2], first: usize, taus: &[T]) -> Reflectors<T> {
        let (rows, width) = (m - first, taus.len());
        let v: Vec<T> = (0..rows * width)
            .map(|at| match (at / width, at % width) {
                (i, j) if i == j => T::one(),
                (i, j) if i > j => a[(first + i) * n + first + j],
                _ => T::zero(),
            })
            .collect();
        // T of one more reflector: a column of -tau T V* v above tau.
        let mut t = vec![T::zero(); width * width];
        for j in 0..width {
            let mut dots = vec![T::zero(); j];
            for i in j..rows {
                let row = &v[i * width..(i + 1) * width];
                dots.iter_mut().zip(row).for_each(|(dot, x)| *dot = *dot + x.conj() * row[j]);
            }
            for i in 0..j {
                let sum = (i..j).fold(T::zero(), |sum, k| sum + t[i * width + k] * dots[k]);
                t[i * width + j] = -taus[j] * sum;
            }
            t[j * width + j] = taus[j];
        }
        Reflectors { v, t, first, rows, width }
    }

    /// Applies the product (or its adjoint) to columns `from..to` of `c`, which has rows of `n`.
    fn apply(&self, c: &mut [T], n: usize, (from, to): (usize, usize), adjoint: Adjoint, scratch: &mut Scratch) {
        let (k, columns) = (self.width, to - from);
        if columns == 0 || self.rows == 0 {
            return;
        }
        let at = self.first * n + from;
        let target = c[at..].as_mut_ptr();
        let mut dots = vec![T::zero(); k * columns];
        let mut factors = vec![T::zero(); k * columns];
        let v = Operand::rows(self.v.as_ptr(), k);
        // SAFETY: `c` has rows of `n` elements up to the last of `v`; the others are of these sizes.
        unsafe {
            let source = Operand::rows(target.cast_const(), n);
            let dots = (dots.as_mut_ptr(), columns as isize);
            accumulate(dots, Sign::Plus, v.adjoint(), source, [k, columns, self.rows], scratch);
            let t = Operand::rows(self.t.as_ptr(), k);
            let t = if adjoint == Adjoint::Yes { t.adjoint() } else { t };
            let factors = (factors.as_mut_ptr(), columns as isize);
            let source = Operand::rows(dots.0.cast_const(), columns);
            accumulate(factors, Sign::Plus, t, source, [k, columns, k], scratch);
            let source = Operand::rows(factors.0.cast_const(), columns);
            accumulate((target, n as isize), Sign::Minus, v, source, [self.rows, columns, k], scratch);
        }
    }
}

/// The first `n` columns of `Q = H₀ H₁ ...` from the reflectors that [`qr`] left in `a`, in its place.
pub(super) fn product<T: Field>(a: &mut [T], [m, n]: [usize; 2], taus: &[T], scratch: &mut Scratch) {
    let reflectors = a.to_vec();
    a.fill(T::zero());
    (0..m.min(n)).for_each(|i| a[i * n + i] = T::one());
    for k in (0..taus.len()).step_by(BLOCK).rev() {
        let width = BLOCK.min(taus.len() - k);
        let block = Reflectors::new(&reflectors, [m, n], k, &taus[k..k + width]);
        block.apply(a, n, (k, n), Adjoint::No, scratch);
    }
}

/// `Q C` or `Q* C` in place for `C` of `m × columns` and `Q` from the reflectors in the `n` columns of `a`.
pub(super) fn multiply<T: Field>(
    a: &[T],
    [m, n]: [usize; 2],
    taus: &[T],
    c: &mut [T],
    columns: usize,
    adjoint: Adjoint,
    scratch: &mut Scratch,
) {
    let mut blocks: Vec<usize> = (0..taus.len()).step_by(BLOCK).collect();
    if adjoint == Adjoint::No {
        blocks.reverse();
    }
    for k in blocks {
        let width = BLOCK.min(taus.len() - k);
        let block = Reflectors::new(a, [m, n], k, &taus[k..k + width]);
        block.apply(c, columns, (0, columns), adjoint, scratch);
    }
}

/// `a P = Q R` in place with the longest remaining column next; `order` has a nonzero entry for each column that is to
/// come first and becomes the order of the columns, from 1.
pub(super) fn pivoted_qr<T: Field>(a: &mut [T], [m, n]: [usize; 2], order: &mut [i32], taus: &mut [T]) {
    let (fixed, free): (Vec<usize>, Vec<usize>) = (0..n).partition(|&j| order[j] != 0);
    let fixed_count = fixed.len();
    let places: Vec<usize> = fixed.into_iter().chain(free).collect();
    let before = a.to_vec();
    for i in 0..m {
        (0..n).for_each(|j| a[i * n + j] = before[i * n + places[j]]);
    }
    order.iter_mut().zip(&places).for_each(|(to, &j)| *to = j as i32 + 1);
    let column = |a: &[T], j: usize, k: usize| norm((k..m).map(|i| a[i * n + j]));
    let mut lengths: Vec<T::Real> = (0..n).map(|j| column(a, j, 0)).collect();
    let mut exact = lengths.clone();
    let mut sums = vec![T::zero(); n];
    for k in 0..m.min(n) {
        if k >= fixed_count {
            let longest = (k..n).fold(k, |best, j| if lengths[j] > lengths[best] { j } else { best });
            if longest != k {
                (0..m).for_each(|i| a.swap(i * n + k, i * n + longest));
                order.swap(k, longest);
                (lengths[longest], exact[longest]) = (lengths[k], exact[k]);
            }
        }
        taus[k] = reflector(a, k * n + k, (k + 1) * n + k, n, m - k - 1);
        let v = stored(a, m, n, k, 0);
        wide(|| reflect(a, n, &v, taus[k].conj(), k, (k + 1, n), &mut sums));
        // Lengths go down by what the new row has; they are computed again when too many digits have cancelled.
        for j in k + 1..n {
            if lengths[j].is_zero() {
                continue;
            }
            let ratio = a[k * n + j].abs() / lengths[j];
            let left = (T::Real::one() - ratio * ratio).max(T::Real::zero());
            if left * (lengths[j] / exact[j]).powi(2) <= T::Real::epsilon().sqrt() {
                lengths[j] = column(a, j, k + 1);
                exact[j] = lengths[j];
            } else {
                lengths[j] = lengths[j] * left.sqrt();
            }
        }
    }
}

/// `a = Q H Q*` in place: the Hessenberg matrix `H`, the reflectors of `Q` below its subdiagonal.
pub(super) fn hessenberg<T: Field>(a: &mut [T], n: usize, taus: &mut [T]) {
    let mut sums = vec![T::zero(); n];
    for k in 0..n.saturating_sub(1) {
        taus[k] = reflector(a, (k + 1) * n + k, (k + 2) * n + k, n, n - k - 2);
        let v = stored(a, n, n, k, 1);
        wide(|| {
            for row in a.chunks_exact_mut(n) {
                let row = &mut row[k + 1..];
                let dot = row.iter().zip(&v).fold(T::zero(), |sum, (&x, &v)| sum + x * v) * taus[k];
                row.iter_mut().zip(&v).for_each(|(x, v)| *x = *x - dot * v.conj());
            }
            reflect(a, n, &v, taus[k].conj(), k + 1, (k + 1, n), &mut sums);
        });
    }
}

/// `a = Q T Q*` in place from the lower triangle of a Hermitian `a`: `T` has `diagonal` and `beside` it, the reflectors
/// of `Q` stand below its subdiagonal.
pub(super) fn tridiagonal<T: Field>(
    a: &mut [T],
    n: usize,
    diagonal: &mut [T::Real],
    beside: &mut [T::Real],
    taus: &mut [T],
) {
    let half = T::Real::one() / (T::Real::one() + T::Real::one());
    for k in 0..n.saturating_sub(1) {
        taus[k] = reflector(a, (k + 1) * n + k, (k + 2) * n + k, n, n - k - 2);
        beside[k] = a[(k + 1) * n + k].re();
        let (v, first) = (stored(a, n, n, k, 1), k + 1);
        let row = |i: usize| (first + i) * n + first..(first + i) * n + first + i;
        wide(|| {
            // A v by the lower triangle alone.
            let mut x = vec![T::zero(); v.len()];
            for i in 0..v.len() {
                let mut sum = v[i].scale(a[row(i).end].re());
                for ((&a, &v_j), x_j) in a[row(i)].iter().zip(&v).zip(&mut x) {
                    sum = sum + a * v_j;
                    *x_j = *x_j + a.conj() * v[i];
                }
                x[i] = x[i] + sum;
            }
            x.iter_mut().for_each(|x| *x = *x * taus[k]);
            let dot = x.iter().zip(&v).fold(T::zero(), |sum, (x, &v)| sum + x.conj() * v);
            let shift = (taus[k] * dot).scale(half);
            subtract(&mut x, shift, &v);
            for i in 0..v.len() {
                for ((a, x_j), v_j) in a[row(i).start..=row(i).end].iter_mut().zip(&x).zip(&v) {
                    *a = *a - (v[i] * x_j.conj() + x[i] * v_j.conj());
                }
            }
        });
    }
    for k in 0..n {
        diagonal[k] = a[k * n + k].re();
        a[k * n + k] = T::real(diagonal[k]);
    }
}

/// `a = U B V*` in place for `m >= n`: `B` has a real `diagonal` and elements `beside` it to the right. The reflectors of
/// `U` stand below the diagonal, those of `V` in rows from one column after the diagonal on.
pub(super) fn bidiagonal<T: Field>(
    a: &mut [T],
    [m, n]: [usize; 2],
    (diagonal, beside): (&mut [T::Real], &mut [T::Real]),
    (left_taus, right_taus): (&mut [T], &mut [T]),
) {
    let mut sums = vec![T::zero(); n];
    for k in 0..n {
        left_taus[k] = reflector(a, k * n + k, (k + 1) * n + k, n, m - k - 1);
        diagonal[k] = a[k * n + k].re();
        let v = stored(a, m, n, k, 0);
        wide(|| reflect(a, n, &v, left_taus[k].conj(), k, (k + 1, n), &mut sums));
        if k + 1 == n {
            break;
        }
        // The reflector that maps the adjoint of the row maps the row from the right.
        let first = k * n + k + 1;
        let end = (k + 1) * n;
        a[first..end].iter_mut().for_each(|v| *v = v.conj());
        right_taus[k] = reflector(a, first, first + 1, 1, n - k - 2);
        beside[k] = a[first].re();
        let u: Vec<T> = (first..end).map(|at| if at == first { T::one() } else { a[at] }).collect();
        let tau = right_taus[k];
        wide(|| {
            for row in a[end..m * n].chunks_exact_mut(n) {
                let row = &mut row[k + 1..];
                let dot = row.iter().zip(&u).fold(T::zero(), |sum, (&x, &u)| sum + x * u) * tau;
                row.iter_mut().zip(&u).for_each(|(x, u)| *x = *x - dot * u.conj());
            }
        });
    }
}

/// The Schur form of `a` in place, and its vectors in `z`; whether it was found.
pub(super) fn schur<T: Field>(a: &mut [T], z: &mut [T], n: usize, scratch: &mut Scratch) -> bool {
    z.fill(T::zero());
    (0..n).for_each(|i| z[i * n + i] = T::one());
    if n < 2 {
        return true;
    }
    let mut taus = vec![T::zero(); n - 1];
    hessenberg(a, n, &mut taus);
    let m = n - 1;
    let below = super::eigen::below_first_row(a, n);
    multiply(&below, [m, m], &taus, &mut z[n..], n, Adjoint::No, scratch);
    for i in 2..n {
        a[i * n..i * n + i - 1].fill(T::zero());
    }
    T::schur(a, z, n)
}
