//! Householder reflectors as LAPACK stores them: QR with and without pivoting, products of reflectors, reduction to
//! Hessenberg form.
//!
//! A reflector is `H = I - tau v v*` with `v[0] = 1`; the rest of `v` stands below the diagonal. `H*` maps the column
//! it was made from to a real multiple of the first unit vector. All matrices are row-major without gaps.

use std::ops::Range;

use rustfft::num_traits::{Float, One, Zero};

use super::field::{Field, dot, length, norm, subtract, wide};
use super::product::{Operand, Sign, accumulate};
use crate::step::Scratch;

/// Reflectors that are applied as one product.
pub(super) const BLOCK: usize = 32;

/// Makes the reflector of the column that starts with `alpha` and goes on in `tail`, each `row` after the other: gives
/// `tau`, and leaves the multiple of the unit vector in the place of `alpha` and `v` in that of `tail`.
#[inline(always)]
pub(super) fn reflector<T: Field>(a: &mut [T], alpha: usize, tail: usize, row: usize, count: usize) -> T {
    let at = |i: usize| tail + i * row;
    let length = if row == 1 { length(&a[tail..tail + count]) } else { norm((0..count).map(|i| a[at(i)])) };
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
    for k in (0..least).step_by(BLOCK) {
        let width = BLOCK.min(least - k);
        qr_panel(a, [m, n], k, taus);
        if k + width < n {
            let block = Reflectors::new(a, [m, n], k, &taus[k..k + width]);
            block.apply(a, n, (k + width, n), Adjoint::Yes, scratch);
        }
    }
}

/// Factors the columns of the panel from `k` on.
pub(super) fn qr_panel<T: Field>(a: &mut [T], [m, n]: [usize; 2], k: usize, taus: &mut [T]) {
    let width = BLOCK.min(m.min(n) - k);
    let mut sums = vec![T::zero(); width];
    for j in k..k + width {
        taus[j] = reflector(a, j * n + j, (j + 1) * n + j, n, m - j - 1);
        let v = stored(a, m, n, j, 0);
        wide(|| reflect(a, n, &v, taus[j].conj(), j, (j + 1, k + width), &mut sums));
    }
}

/// Applies the reflectors of the panel from `k` on to columns `from..to` of `a`.
///
/// # Safety
/// `a` is valid for `m × n` elements, and nothing else uses these columns meanwhile or writes the panel.
pub(super) unsafe fn follow<T: Field>(
    a: *mut T,
    [m, n]: [usize; 2],
    k: usize,
    taus: &[T],
    (from, to): (usize, usize),
    adjoint: Adjoint,
    scratch: &mut Scratch,
) {
    if from >= to {
        return;
    }
    // SAFETY: the caller's.
    let element = |i: usize, j: usize| unsafe { *a.add(i * n + j) };
    let block = Reflectors::of(element, m, k, taus);
    // SAFETY: the caller's.
    unsafe { block.apply_to(a.add(k * n + from), n, to - from, adjoint, scratch) }
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
        Reflectors::of(|i, j| a[i * n + j], m, first, taus)
    }

    /// The same by a function of row and column.
    fn of(element: impl Fn(usize, usize) -> T, m: usize, first: usize, taus: &[T]) -> Reflectors<T> {
        let (rows, width) = (m - first, taus.len());
        let v: Vec<T> = (0..rows * width)
            .map(|at| match (at / width, at % width) {
                (i, j) if i == j => T::one(),
                (i, j) if i > j => element(first + i, first + j),
                _ => T::zero(),
            })
            .collect();
        // T of one more reflector: a column of -tau T V* v above tau.
        let mut t = vec![T::zero(); width * width];
        for j in 0..width {
            let mut dots = vec![T::zero(); j];
            wide(|| {
                for i in j..rows {
                    let row = &v[i * width..(i + 1) * width];
                    dots.iter_mut().zip(row).for_each(|(dot, x)| *dot = *dot + x.conj() * row[j]);
                }
            });
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
        if from < to && self.rows > 0 {
            // SAFETY: `c` has rows of `n` elements up to the last of `v`.
            unsafe { self.apply_to(c[self.first * n + from..].as_mut_ptr(), n, to - from, adjoint, scratch) }
        }
    }

    /// The same to so many columns from `target` on, which is in the first row of `v`.
    ///
    /// # Safety
    /// They are valid, and nothing else uses them meanwhile.
    unsafe fn apply_to(&self, target: *mut T, n: usize, columns: usize, adjoint: Adjoint, scratch: &mut Scratch) {
        let k = self.width;
        let mut dots = vec![T::zero(); k * columns];
        let mut factors = vec![T::zero(); k * columns];
        let v = Operand::rows(self.v.as_ptr(), k);
        // SAFETY: the caller's; the others are of these sizes.
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

/// Columns `columns` of the `n` columns of `Q = H₀ H₁ ...` from the reflectors that [`qr`] leaves in `a`.
///
/// # Safety
/// `out` is valid for `m × n` elements, and nothing else uses these columns meanwhile.
pub(super) unsafe fn product<T: Field>(
    a: &[T],
    [m, n]: [usize; 2],
    taus: &[T],
    out: *mut T,
    columns: Range<usize>,
    scratch: &mut Scratch,
) {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        for i in 0..m {
            for j in columns.clone() {
                *out.add(i * n + j) = if i == j { T::one() } else { T::zero() };
            }
        }
        for k in (0..taus.len()).step_by(BLOCK).rev() {
            let width = BLOCK.min(taus.len() - k);
            // Columns before the reflectors are not changed by them.
            let first = columns.start.max(k);
            if first < columns.end {
                let block = Reflectors::new(a, [m, n], k, &taus[k..k + width]);
                block.apply_to(out.add(k * n + first), n, columns.end - first, Adjoint::No, scratch);
            }
        }
    }
}

/// `Q C` or `Q* C` in place for `C` of `m × columns` and `Q` from the reflectors in the `n` columns of `a`.
pub(super) fn multiply<T: Field>(
    a: &[T],
    size: [usize; 2],
    taus: &[T],
    c: &mut [T],
    columns: usize,
    adjoint: Adjoint,
    scratch: &mut Scratch,
) {
    // SAFETY: all of `c`.
    unsafe { multiply_columns(a, size, taus, (c.as_mut_ptr(), columns, columns), adjoint, scratch) }
}

/// The same for a `C` whose rows are so many elements apart, and so many columns of it.
///
/// # Safety
/// They are valid, and nothing else uses them meanwhile.
pub(super) unsafe fn multiply_columns<T: Field>(
    a: &[T],
    [m, n]: [usize; 2],
    taus: &[T],
    (c, row, columns): (*mut T, usize, usize),
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
        if columns > 0 && m > k {
            // SAFETY: the caller's.
            unsafe { block.apply_to(c.add(k * row), row, columns, adjoint, scratch) }
        }
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
            let conjugate: Vec<T> = v.iter().map(|v| v.conj()).collect();
            for row in a.chunks_exact_mut(n) {
                let row = &mut row[k + 1..];
                let factor = dot(&conjugate, row) * taus[k];
                subtract(row, factor, &conjugate);
            }
            reflect(a, n, &v, taus[k].conj(), k + 1, (k + 1, n), &mut sums);
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
