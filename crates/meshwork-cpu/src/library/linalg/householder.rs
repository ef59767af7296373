//! Householder reflectors as LAPACK stores them: QR with and without pivoting, products of reflectors, reduction to
//! Hessenberg form.
//!
//! A reflector is `H = I - tau v v*` with `v[0] = 1`; the rest of `v` stands below the diagonal. `H*` maps the column
//! it was made from to a real multiple of the first unit vector. All matrices are row-major without gaps.

use std::ops::Range;

use rustfft::num_traits::{Float, One, Zero};

use super::factor::{from_columns, into_columns};
use super::field::{Field, Scale, dot, dots, kernel, length, norm, subtract, wide};
use super::product::{Operand, Sign, accumulate};
use crate::step::Scratch;

/// Reflectors that are applied as one product.
pub(super) const BLOCK: usize = 32;

/// Makes the reflector of the column that starts with `alpha` and goes on in `tail`, each `row` after the other: gives
/// `tau`, and leaves the multiple of the unit vector in the place of `alpha` and `v` in that of `tail`.
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
    if row == 1 {
        wide(Scale, (&mut a[tail..tail + count], scale));
    } else {
        (0..count).for_each(|i| a[at(i)] = a[at(i)] * scale);
    }
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

kernel! {
    [T: Field] Reflect(a: &mut [T], n: usize, v: &[T], tau: T, at: (usize, (usize, usize)), sums: &mut [T]) -> () =
        reflect(a, n, v, tau, at.0, at.1, sums)
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
        qr_panel(a, [m, n], k, taus, scratch);
        if k + width < n {
            // SAFETY: the panel, and the columns after it.
            unsafe {
                let triangle = triangle(a.as_ptr(), [m, n], k, &taus[k..k + width], scratch);
                follow(a.as_mut_ptr(), [m, n], k, &triangle, (k + width, n), scratch);
            }
        }
    }
}

/// Factors the columns of the panel from `k` on, in a copy whose columns are contiguous.
pub(super) fn qr_panel<T: Field>(a: &mut [T], [m, n]: [usize; 2], k: usize, taus: &mut [T], scratch: &mut Scratch) {
    let size = [m - k, BLOCK.min(m.min(n) - k)];
    let memory = scratch.get(size[0] * size[1] * size_of::<T>()).cast::<T>();
    let panel = a[k * n + k..].as_mut_ptr();
    // SAFETY: rows of the panel; as many elements of the scratch memory.
    unsafe {
        let columns = std::slice::from_raw_parts_mut(memory, size[0] * size[1]);
        into_columns(panel, n, size, columns);
        qr_columns(columns, size[0], &mut taus[k..k + size[1]]);
        from_columns(columns, panel, n, size);
    }
}

/// Factors a matrix of `m` rows that is given by its columns, one after the other: as many as there are `taus`.
fn qr_columns<T: Field>(columns: &mut [T], m: usize, taus: &mut [T]) {
    for (j, tau) in taus.iter_mut().enumerate() {
        let (known, rest) = columns.split_at_mut((j + 1) * m);
        let column = &mut known[j * m..];
        *tau = reflector(column, j, j + 1, 1, m - j - 1);
        if *tau == T::zero() {
            continue;
        }
        let head = std::mem::replace(&mut column[j], T::one());
        wide(ReflectColumns, (&column[j..], tau.conj(), rest, m));
        column[j] = head;
    }
}

kernel! {
    [T: Field] ReflectColumns(v: &[T], factor: T, columns: &mut [T], m: usize) -> () = reflect_columns(v, factor, columns, m)
}

/// Columns that a reflector is applied to at a time.
const SOME: usize = 4;

/// `x - factor v v* x` for the ends `x` of columns of `m` elements, which are as long as `v`.
#[inline(always)]
fn reflect_columns<T: Field>(v: &[T], factor: T, columns: &mut [T], m: usize) {
    let from = m - v.len();
    let mut groups = columns.chunks_exact_mut(SOME * m);
    for group in &mut groups {
        let mut others = [v; SOME];
        for (c, other) in others.iter_mut().enumerate() {
            *other = &group[c * m + from..(c + 1) * m];
        }
        let sums = dots(v, others);
        for (sum, other) in sums.into_iter().zip(group.chunks_exact_mut(m)) {
            subtract(&mut other[from..], factor * sum, v);
        }
    }
    for other in groups.into_remainder().chunks_exact_mut(m) {
        let sum = dot(v, &other[from..]);
        subtract(&mut other[from..], factor * sum, v);
    }
}

/// Applies the adjoint of the reflectors of the panel from `k` on, with their [`triangle`], to columns `from..to` of `a`.
///
/// # Safety
/// `a` is valid for `m × n` elements, and nothing else uses these columns meanwhile or writes the panel.
pub(super) unsafe fn follow<T: Field>(
    a: *mut T,
    [m, n]: [usize; 2],
    k: usize,
    triangle: &[T],
    (from, to): (usize, usize),
    scratch: &mut Scratch,
) {
    // SAFETY: the caller's.
    unsafe {
        let block = Reflectors::new(a, [m, n], k, BLOCK.min(m.min(n) - k), triangle);
        block.apply_to(a.add(k * n + from), n, to - from, Adjoint::Yes, scratch)
    }
}

/// Whether the conjugate transpose is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Adjoint {
    No,
    Yes,
}

/// A product of `width` neighboring reflectors as `I - V T V*`. The first rows of `V`, a unit lower triangle, are a copy; the
/// others are read where they stand.
struct Reflectors<'a, T> {
    head: Vec<T>,
    tail: Operand<T>,
    /// `T`, if it is known.
    triangle: &'a [T],
    /// Rows of `V`, and of these how many are in `head`.
    rows: usize,
    in_head: usize,
    width: usize,
}

/// The factor `T` of the reflectors in the columns of the `m × n` matrix `a` from `first` on.
///
/// # Safety
/// `a` is valid.
pub(super) unsafe fn triangle<T: Field>(
    a: *const T,
    size: [usize; 2],
    first: usize,
    taus: &[T],
    scratch: &mut Scratch,
) -> Vec<T> {
    let k = taus.len();
    let mut gram = vec![T::zero(); k * k];
    // SAFETY: the caller's; matrices of order `k`.
    unsafe {
        let Reflectors { head, tail, rows, in_head, .. } = Reflectors::new(a, size, first, k, &[]);
        let (to, head) = ((gram.as_mut_ptr(), k as isize), Operand::rows(head.as_ptr(), k));
        accumulate(to, Sign::Plus, head.adjoint(), head, [k, k, in_head], scratch);
        accumulate(to, Sign::Plus, tail.adjoint(), tail, [k, k, rows - in_head], scratch);
    }
    // That of one more reflector: a column of -tau T V* v above tau.
    let mut t = vec![T::zero(); k * k];
    for j in 0..k {
        for i in 0..j {
            let sum = (i..j).fold(T::zero(), |sum, p| sum + t[i * k + p] * gram[p * k + j]);
            t[i * k + j] = -taus[j] * sum;
        }
        t[j * k + j] = taus[j];
    }
    t
}

/// The elements of the triangles of all blocks of so many reflectors, each in a place for the largest.
pub(super) fn triangles_len(reflectors: usize) -> usize {
    reflectors.div_ceil(BLOCK) * BLOCK * BLOCK
}

/// Writes the [`triangle`] of block `block` of the reflectors in `a` to its place among all of them.
///
/// # Safety
/// `a` is valid, and nothing else uses that place.
pub(super) unsafe fn put_triangle<T: Field>(
    a: *const T,
    size: [usize; 2],
    taus: &[T],
    block: usize,
    triangles: *mut T,
    scratch: &mut Scratch,
) {
    let k = block * BLOCK;
    let width = BLOCK.min(taus.len() - k);
    // SAFETY: the caller's.
    unsafe {
        let found = triangle(a, size, k, &taus[k..k + width], scratch);
        std::ptr::copy_nonoverlapping(found.as_ptr(), triangles.add(k * BLOCK), found.len());
    }
}

impl<'a, T: Field> Reflectors<'a, T> {
    /// The `width` reflectors in the columns of the `m × n` matrix `a` from `first` on.
    ///
    /// # Safety
    /// `a` is valid, and these columns stay as they are while the value is used.
    unsafe fn new(a: *const T, [m, n]: [usize; 2], first: usize, width: usize, triangle: &'a [T]) -> Reflectors<'a, T> {
        let rows = m - first;
        let in_head = rows.min(width);
        let panel = Operand::rows(a, n).from(first, first);
        let mut head = vec![T::zero(); width * width];
        for i in 0..in_head {
            // SAFETY: the caller's.
            (0..i).for_each(|j| head[i * width + j] = unsafe { panel.get(i, j) });
            head[i * width + i] = T::one();
        }
        Reflectors { head, tail: panel.from(in_head, 0), triangle, rows, in_head, width }
    }

    /// Applies the product (or its adjoint) to so many columns from `target` on, which is in the first row of `V`.
    ///
    /// # Safety
    /// They are valid, and nothing else uses them meanwhile.
    unsafe fn apply_to(&self, target: *mut T, n: usize, columns: usize, adjoint: Adjoint, scratch: &mut Scratch) {
        let k = self.width;
        let mut dots = vec![T::zero(); k * columns];
        let mut factors = vec![T::zero(); k * columns];
        let below = self.rows - self.in_head;
        // SAFETY: the caller's; the others are of these sizes.
        unsafe {
            let (head, rest) = (Operand::rows(self.head.as_ptr(), k), target.add(self.in_head * n));
            let to = (dots.as_mut_ptr(), columns as isize);
            let source = Operand::rows(target.cast_const(), n);
            accumulate(to, Sign::Plus, head.adjoint(), source, [k, columns, self.in_head], scratch);
            let source = source.from(self.in_head, 0);
            accumulate(to, Sign::Plus, self.tail.adjoint(), source, [k, columns, below], scratch);
            let t = Operand::rows(self.triangle.as_ptr(), k);
            let t = if adjoint == Adjoint::Yes { t.adjoint() } else { t };
            let to = (factors.as_mut_ptr(), columns as isize);
            accumulate(to, Sign::Plus, t, Operand::rows(dots.as_ptr(), columns), [k, columns, k], scratch);
            let source = Operand::rows(factors.as_ptr(), columns);
            accumulate((target, n as isize), Sign::Minus, head, source, [self.in_head, columns, k], scratch);
            accumulate((rest, n as isize), Sign::Minus, self.tail, source, [below, columns, k], scratch);
        }
    }
}

/// Columns `columns` of the `n` columns of `Q = H₀ H₁ ...` from so many reflectors that [`qr`] leaves in `a`, with the triangles
/// of all their blocks.
///
/// # Safety
/// `out` is valid for `m × n` elements, and nothing else uses these columns meanwhile.
pub(super) unsafe fn product<T: Field>(
    a: &[T],
    [m, n]: [usize; 2],
    (reflectors, triangles): (usize, &[T]),
    out: *mut T,
    columns: Range<usize>,
    scratch: &mut Scratch,
) {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        for i in 0..m {
            let row = std::slice::from_raw_parts_mut(out.add(i * n + columns.start), columns.len());
            row.fill(T::zero());
            if columns.contains(&i) {
                row[i - columns.start] = T::one();
            }
        }
        for k in (0..reflectors).step_by(BLOCK).rev() {
            // Columns before the reflectors are not changed by them.
            let first = columns.start.max(k);
            if first < columns.end {
                let width = BLOCK.min(reflectors - k);
                let block = Reflectors::new(a.as_ptr(), [m, n], k, width, &triangles[k * BLOCK..]);
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
        if columns > 0 && m > k {
            // SAFETY: the caller's; the reflectors are in `a`.
            unsafe {
                let triangle = triangle(a.as_ptr(), [m, n], k, &taus[k..k + width], scratch);
                let block = Reflectors::new(a.as_ptr(), [m, n], k, width, &triangle);
                block.apply_to(c.add(k * row), row, columns, adjoint, scratch)
            }
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
        wide(Reflect, (&mut *a, n, &v[..], taus[k].conj(), (k, (k + 1, n)), &mut sums[..]));
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
        wide(HessenbergColumn, (&mut *a, n, k, &v[..], taus[k], &mut sums[..]));
    }
}

kernel! {
    [T: Field] HessenbergColumn(a: &mut [T], n: usize, k: usize, v: &[T], tau: T, sums: &mut [T]) -> () =
        hessenberg_column(a, n, k, v, tau, sums)
}

/// Applies the reflector of column `k` from both sides.
#[inline(always)]
fn hessenberg_column<T: Field>(a: &mut [T], n: usize, k: usize, v: &[T], tau: T, sums: &mut [T]) {
    let conjugate: Vec<T> = v.iter().map(|v| v.conj()).collect();
    for row in a.chunks_exact_mut(n) {
        let row = &mut row[k + 1..];
        let factor = dot(&conjugate, row) * tau;
        subtract(row, factor, &conjugate);
    }
    reflect(a, n, v, tau.conj(), k + 1, (k + 1, n), sums);
}

/// The Schur form of `a` in place, and its vectors in `z`; whether it was found. If `z` is empty, only the blocks on the
/// diagonal of `a` are those of the Schur form.
pub(super) fn schur<T: Field>(a: &mut [T], z: &mut [T], n: usize, scratch: &mut Scratch) -> bool {
    z.fill(T::zero());
    (0..n.min(z.len())).for_each(|i| z[i * n + i] = T::one());
    if n < 2 {
        return true;
    }
    let mut taus = vec![T::zero(); n - 1];
    hessenberg(a, n, &mut taus);
    if !z.is_empty() {
        let below = super::eigen::below_first_row(a, n);
        multiply(&below, [n - 1; 2], &taus, &mut z[n..], n, Adjoint::No, scratch);
    }
    for i in 2..n {
        a[i * n..i * n + i - 1].fill(T::zero());
    }
    T::schur(a, z, n)
}
