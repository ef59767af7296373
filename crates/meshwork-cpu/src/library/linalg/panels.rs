//! Reductions to tridiagonal and bidiagonal form, panel by panel: inside a panel the matrix stays as it is and what the
//! panel's reflectors do to it is kept as two tall matrices, which are then subtracted as one product.
//!
//! Matrices are row-major without gaps; reflectors are stored as in [`householder`](super::householder). The columns of
//! tall matrices are contiguous. Only the product of the matrix and a vector reads the whole of it, once per column.

use rustfft::num_traits::One;

use super::field::{Dot, Field, Scale, Subtract, dots, kernel, totals, wide};
use super::householder::reflector;
use super::product::{Operand, Sign, accumulate, subtract_lower};
use crate::step::Scratch;

/// Columns of a panel.
const PANEL: usize = 32;

/// Order up to which reflectors are applied one by one.
const BASE: usize = 96;

/// Numbers that are summed side by side: those of 64 bytes if they are real, and never fewer than 8.
const LANES: usize = 8;
const SHORT_LANES: usize = 16;

kernel! {
    [T: Field] LowerTimes(a: &[T], row: usize, v: &[T], y: &mut [T]) -> () = lower_times(a, row, v, y)
}

kernel! {
    [T: Field] AdjointTimes(a: &[T], row: usize, v: &[T], y: &mut [T]) -> () = adjoint_times(a, row, v, y)
}

kernel! {
    [T: Field] Times(a: &[T], row: usize, u: &[T], y: &mut [T]) -> () = times(a, row, u, y)
}

kernel! {
    [T: Field] TwoDots(x: &[T], ys: [&[T]; 2]) -> [T; 2] = dots(x, ys)
}

kernel! {
    [T: Field] SubtractTwo(y: &mut [T], factors: [T; 2], xs: [&[T]; 2]) -> () = subtract_two(y, factors, xs)
}

kernel! {
    [T: Field] SubtractOuter(a: &mut [T], row: usize, v: &[T], factor: T, x: &[T]) -> () = subtract_outer(a, row, v, factor, x)
}

kernel! {
    [T: Field] SubtractPair(a: &mut [T], row: usize, v: &[T], w: &[T]) -> () = subtract_pair(a, row, v, w)
}

/// `y -= f x + f' x'`.
#[inline(always)]
fn subtract_two<T: Field>(y: &mut [T], [f, g]: [T; 2], [x, z]: [&[T]; 2]) {
    y.iter_mut().zip(x).zip(z).for_each(|((y, &x), &z)| *y = *y - (f * x + g * z));
}

/// `A - factor v x*` in place, for rows of `A` that are `row` apart.
#[inline(always)]
fn subtract_outer<T: Field>(a: &mut [T], row: usize, v: &[T], factor: T, x: &[T]) {
    for (i, &v) in v.iter().enumerate() {
        subtract_conjugate(&mut a[i * row..i * row + x.len()], v * factor, x);
    }
}

/// `A - v w* - w v*` in place in the lower triangle of `A`, whose rows are `row` apart.
#[inline(always)]
fn subtract_pair<T: Field>(a: &mut [T], row: usize, v: &[T], w: &[T]) {
    for (i, (&v_i, &w_i)) in v.iter().zip(w).enumerate() {
        for ((a, w), v) in a[i * row..][..i + 1].iter_mut().zip(w).zip(v) {
            *a = *a - (v_i * w.conj() + w_i * v.conj());
        }
    }
}

/// `Σ conj(y) x` for each of two `y`.
fn two_dots<T: Field>(x: &[T], ys: [&[T]; 2]) -> [T; 2] {
    wide(TwoDots, (x, ys)).map(|sum| sum.conj())
}

/// `y = A v` for the Hermitian `A` whose lower triangle has rows `row` apart.
#[inline(always)]
fn lower_times<T: Field>(a: &[T], row: usize, v: &[T], y: &mut [T]) {
    y.fill(T::zero());
    let fours = v.len() / 4 * 4;
    for i in (0..fours).step_by(4) {
        if size_of::<T>() == 4 {
            lower_rows::<T, 4, SHORT_LANES>(a, row, v, y, i);
        } else {
            lower_rows::<T, 4, LANES>(a, row, v, y, i);
        }
    }
    for i in fours..v.len() {
        lower_rows::<T, 1, LANES>(a, row, v, y, i);
    }
}

/// Adds what `ROWS` rows from `i` on contribute to [`lower_times`].
#[inline(always)]
fn lower_rows<T: Field, const ROWS: usize, const LANES: usize>(a: &[T], row: usize, v: &[T], y: &mut [T], i: usize) {
    let (mut rows, mut factors) = ([a; ROWS], [T::zero(); ROWS]);
    for r in 0..ROWS {
        (rows[r], factors[r]) = (&a[(i + r) * row..(i + r) * row + i + r + 1], v[i + r]);
    }
    // The last columns before the diagonal in fewer lanes.
    let (long, short) = (i / LANES * LANES, i / 4 * 4);
    let first = lower_columns::<T, ROWS, LANES>(rows, factors, v, y, (0, long));
    let second = lower_columns::<T, ROWS, 4>(rows, factors, v, y, (long, short));
    for r in 0..ROWS {
        let mut sum = first[r] + second[r] + v[i + r].scale(rows[r][i + r].re());
        for c in short..i + r {
            sum = sum + rows[r][c] * v[c];
            y[c] = y[c] + rows[r][c].conj() * v[i + r];
        }
        y[i + r] = y[i + r] + sum;
    }
}

/// Adds `conj(row) factor` of each row to `y` and gives `row v`, both in columns `from..to`, a multiple of `LANES`.
#[inline(always)]
fn lower_columns<T: Field, const ROWS: usize, const LANES: usize>(
    rows: [&[T]; ROWS],
    factors: [T; ROWS],
    v: &[T],
    y: &mut [T],
    (from, to): (usize, usize),
) -> [T; ROWS] {
    let mut sums = [[T::zero(); LANES]; ROWS];
    for c in (from..to).step_by(LANES) {
        let (v_c, y_c) = (&v[c..c + LANES], &mut y[c..c + LANES]);
        let mut added = [T::zero(); LANES];
        added.copy_from_slice(y_c);
        for r in 0..ROWS {
            let a_c = &rows[r][c..c + LANES];
            for l in 0..LANES {
                sums[r][l] = sums[r][l] + a_c[l] * v_c[l];
                added[l] = added[l] + a_c[l].conj() * factors[r];
            }
        }
        y_c.copy_from_slice(&added);
    }
    totals(sums)
}

/// `y = A* v` for rows of `A` that are `row` apart.
#[inline(always)]
fn adjoint_times<T: Field>(a: &[T], row: usize, v: &[T], y: &mut [T]) {
    y.fill(T::zero());
    let fours = v.len() / 4 * 4;
    for i in (0..fours).step_by(4) {
        let mut rows = [a; 4];
        for (r, to) in rows.iter_mut().enumerate() {
            *to = &a[(i + r) * row..(i + r) * row + y.len()];
        }
        for (c, y) in y.iter_mut().enumerate() {
            let pair = |r: usize| rows[r][c].conj() * v[i + r];
            *y = *y + ((pair(0) + pair(1)) + (pair(2) + pair(3)));
        }
    }
    for i in fours..v.len() {
        subtract_conjugate(y, -v[i], &a[i * row..i * row + y.len()]);
    }
}

/// `y -= factor conj(x)`.
#[inline(always)]
fn subtract_conjugate<T: Field>(y: &mut [T], factor: T, x: &[T]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = *y - factor * x.conj());
}

/// `y = A u` for rows of `A` that are `row` apart.
#[inline(always)]
fn times<T: Field>(a: &[T], row: usize, u: &[T], y: &mut [T]) {
    /// What four rows give.
    #[inline(always)]
    fn some<T: Field, const LANES: usize>(rows: [&[T]; 4], u: &[T]) -> [T; 4] {
        let full = u.len() / LANES * LANES;
        let mut sums = [[T::zero(); LANES]; 4];
        for c in (0..full).step_by(LANES) {
            let u_c = &u[c..c + LANES];
            for r in 0..4 {
                let a_c = &rows[r][c..c + LANES];
                for l in 0..LANES {
                    sums[r][l] = sums[r][l] + a_c[l] * u_c[l];
                }
            }
        }
        let mut found = totals(sums);
        for r in 0..4 {
            found[r] = (full..u.len()).fold(found[r], |sum, c| sum + rows[r][c] * u[c]);
        }
        found
    }
    let fours = y.len() / 4 * 4;
    for i in (0..fours).step_by(4) {
        let mut rows = [a; 4];
        for (r, to) in rows.iter_mut().enumerate() {
            *to = &a[(i + r) * row..(i + r) * row + u.len()];
        }
        let found = if size_of::<T>() == 4 { some::<T, SHORT_LANES>(rows, u) } else { some::<T, LANES>(rows, u) };
        y[i..i + 4].copy_from_slice(&found);
    }
    for i in fours..y.len() {
        y[i] = a[i * row..i * row + u.len()].iter().zip(u).fold(T::zero(), |sum, (&a, &u)| sum + a * u);
    }
}

/// `a = Q T Q*` in place from the lower triangle of a Hermitian `a`: `T` has `diagonal` and `beside` it, the reflectors
/// of `Q` stand below its subdiagonal. What is above the diagonal is lost.
pub(super) fn tridiagonal<T: Field>(
    a: &mut [T],
    n: usize,
    diagonal: &mut [T::Real],
    beside: &mut [T::Real],
    taus: &mut [T],
    scratch: &mut Scratch,
) {
    let mut k = 0;
    while n - k > BASE {
        let ends = (&mut diagonal[k..k + PANEL], &mut beside[k..k + PANEL]);
        let panel = tridiagonal_panel(a, n, k, ends, &mut taus[k..k + PANEL]);
        // A - V W* - W V*, for V, W and V again in the panel's rows.
        let (m, done) = (n - k, PANEL);
        let left = Operand { at: panel.as_ptr(), row: 1, column: m as isize, conj: false };
        let right = Operand { at: panel[PANEL * m..].as_ptr(), row: m as isize, column: 1, conj: true };
        let at = (k + done) * n + k + done;
        // SAFETY: the rest of the matrix, and rows of the panel.
        unsafe {
            let (left, right) = (left.from(done, 0), right.from(0, done));
            subtract_lower(a[at..].as_mut_ptr(), n, left, right, [m - done, 2 * PANEL], scratch);
        }
        k += PANEL;
    }
    tridiagonal_rest(a, n, k, (diagonal, beside), taus);
}

/// Reduces the panel of columns from `k` on. Gives `V`, `W` and `V` again, as rows of `n - k` elements: `A - V W* - W V*` is
/// what the rest of the matrix becomes.
fn tridiagonal_panel<T: Field>(
    a: &mut [T],
    n: usize,
    k: usize,
    (diagonal, beside): (&mut [T::Real], &mut [T::Real]),
    taus: &mut [T],
) -> Vec<T> {
    let m = n - k;
    let mut panel = vec![T::zero(); 3 * PANEL * m];
    let mut column = vec![T::zero(); m];
    for i in 0..PANEL {
        let (known_v, rest) = panel.split_at_mut(PANEL * m);
        let (known_w, again) = rest.split_at_mut(PANEL * m);
        (i..m).for_each(|r| column[r] = a[(k + r) * n + k + i]);
        for (v, w) in known_v.chunks_exact(m).zip(known_w.chunks_exact(m)).take(i) {
            wide(SubtractTwo, (&mut column[i..], [w[i].conj(), v[i].conj()], [&v[i..], &w[i..]]));
        }
        diagonal[i] = column[i].re();
        column[i] = T::real(diagonal[i]);
        taus[i] = reflector(&mut column, i + 1, i + 2, 1, m - i - 2);
        beside[i] = column[i + 1].re();
        (i..m).for_each(|r| a[(k + r) * n + k + i] = column[r]);
        let (known_v, v) = known_v[..(i + 1) * m].split_at_mut(i * m);
        let (known_w, w) = known_w[..(i + 1) * m].split_at_mut(i * m);
        v[i + 1] = T::one();
        v[i + 2..].copy_from_slice(&column[i + 2..]);
        let (v, w) = (&v[i + 1..], &mut w[i + 1..]);
        wide(LowerTimes, (&a[(k + i + 1) * n + k + i + 1..], n, v, &mut *w));
        for (v_p, w_p) in known_v.chunks_exact(m).zip(known_w.chunks_exact(m)) {
            let (v_p, w_p) = (&v_p[i + 1..], &w_p[i + 1..]);
            let factors = two_dots(v, [w_p, v_p]);
            wide(SubtractTwo, (&mut *w, factors, [v_p, w_p]));
        }
        finish(w, v, taus[i]);
        again[i * m + i + 1..(i + 1) * m].copy_from_slice(v);
    }
    panel
}

/// From `w = A v`, what the reflector of `v` takes from both sides: `A - v w* - w v*`.
fn finish<T: Field>(w: &mut [T], v: &[T], tau: T) {
    let half = T::Real::one() / (T::Real::one() + T::Real::one());
    wide(Scale, (&mut *w, tau));
    let shift = (tau * wide(Dot, (&*w, v))).scale(half);
    wide(Subtract, (w, shift, v));
}

/// The columns from `k` on, one reflector after the other.
fn tridiagonal_rest<T: Field>(
    a: &mut [T],
    n: usize,
    k: usize,
    (diagonal, beside): (&mut [T::Real], &mut [T::Real]),
    taus: &mut [T],
) {
    let (mut v, mut w) = (vec![T::zero(); n - k], vec![T::zero(); n - k]);
    for j in k..n.saturating_sub(1) {
        let (first, m) = (j + 1, n - j - 1);
        let (v, w) = (&mut v[..m], &mut w[..m]);
        (0..m).for_each(|r| v[r] = a[(first + r) * n + j]);
        taus[j] = reflector(v, 0, 1, 1, m - 1);
        (0..m).for_each(|r| a[(first + r) * n + j] = v[r]);
        beside[j] = v[0].re();
        v[0] = T::one();
        wide(LowerTimes, (&a[first * n + first..], n, &*v, &mut *w));
        finish(w, v, taus[j]);
        wide(SubtractPair, (&mut a[first * n + first..], n, &*v, &*w));
    }
    for j in k..n {
        diagonal[j] = a[j * n + j].re();
        a[j * n + j] = T::real(diagonal[j]);
    }
}

/// `a = U B V*` in place for `m >= n`: `B` has a real `diagonal` and elements `beside` it to the right. The reflectors of
/// `U` stand below the diagonal, those of `V` in rows from one column after the diagonal on.
pub(super) fn bidiagonal<T: Field>(
    a: &mut [T],
    [m, n]: [usize; 2],
    (diagonal, beside): (&mut [T::Real], &mut [T::Real]),
    (left_taus, right_taus): (&mut [T], &mut [T]),
    scratch: &mut Scratch,
) {
    let mut k = 0;
    while n - k > BASE {
        let ends = (&mut diagonal[k..k + PANEL], &mut beside[k..k + PANEL]);
        let taus = (&mut left_taus[k..k + PANEL], &mut right_taus[k..k + PANEL]);
        let [tall, long] = bidiagonal_panel(a, [m, n], k, ends, taus);
        // A - V Y* - X U*, for V and X in the rows of the first and Y and U in those of the second.
        let (rows, columns) = (m - k, n - k);
        let left = Operand { at: tall.as_ptr(), row: 1, column: rows as isize, conj: false }.from(PANEL, 0);
        let right = Operand { at: long.as_ptr(), row: columns as isize, column: 1, conj: true }.from(0, PANEL);
        k += PANEL;
        // SAFETY: the rest of the matrix, and rows of the panels.
        unsafe {
            let to = (a[k * n + k..].as_mut_ptr(), n as isize);
            accumulate(to, Sign::Minus, left, right, [m - k, n - k, 2 * PANEL], scratch);
        }
    }
    bidiagonal_rest(a, [m, n], k, (diagonal, beside), (left_taus, right_taus));
}

/// Reduces the panel of columns and rows from `k` on. Gives `V` and `X` as rows of `m - k` elements and `Y` and `U` as rows of
/// `n - k`: `A - V Y* - X U*` is what the rest of the matrix becomes.
fn bidiagonal_panel<T: Field>(
    a: &mut [T],
    [m, n]: [usize; 2],
    k: usize,
    (diagonal, beside): (&mut [T::Real], &mut [T::Real]),
    (left_taus, right_taus): (&mut [T], &mut [T]),
) -> [Vec<T>; 2] {
    let (rows, columns) = (m - k, n - k);
    let (mut tall, mut long) = (vec![T::zero(); 2 * PANEL * rows], vec![T::zero(); 2 * PANEL * columns]);
    let mut column = vec![T::zero(); rows];
    for i in 0..PANEL {
        let (v, x) = tall.split_at_mut(PANEL * rows);
        let (y, u) = long.split_at_mut(PANEL * columns);
        let rows_of = |r: usize| (k + r) * n + k;
        // The column, and its reflector.
        (i..rows).for_each(|r| column[r] = a[rows_of(r) + i]);
        for p in 0..i {
            let factors = [y[p * columns + i].conj(), u[p * columns + i].conj()];
            let known = [&v[p * rows + i..(p + 1) * rows], &x[p * rows + i..(p + 1) * rows]];
            wide(SubtractTwo, (&mut column[i..], factors, known));
        }
        left_taus[i] = reflector(&mut column, i, i + 1, 1, rows - i - 1);
        diagonal[i] = column[i].re();
        (i..rows).for_each(|r| a[rows_of(r) + i] = column[r]);
        let (known_v, v_i) = v.split_at_mut(i * rows);
        v_i[i] = T::one();
        v_i[i + 1..rows].copy_from_slice(&column[i + 1..]);
        let v_i = &v_i[i..rows];
        // What it does to the columns after it.
        let (known_y, y_i) = y.split_at_mut(i * columns);
        let y_i = &mut y_i[i + 1..columns];
        wide(AdjointTimes, (&a[rows_of(i) + i + 1..], n, v_i, &mut *y_i));
        for p in 0..i {
            let factors = two_dots(v_i, [&known_v[p * rows + i..(p + 1) * rows], &x[p * rows + i..(p + 1) * rows]]);
            let after = p * columns + i + 1..(p + 1) * columns;
            wide(SubtractTwo, (&mut *y_i, factors, [&known_y[after.clone()], &u[after]]));
        }
        wide(Scale, (&mut *y_i, left_taus[i]));
        // The row, conjugated, and its reflector.
        let row = &mut a[rows_of(i) + i + 1..rows_of(i) + columns];
        row.iter_mut().for_each(|a| *a = a.conj());
        for p in 0..i {
            let factors = [known_v[p * rows + i].conj(), x[p * rows + i].conj()];
            let after = p * columns + i + 1..(p + 1) * columns;
            wide(SubtractTwo, (&mut *row, factors, [&known_y[after.clone()], &u[after]]));
        }
        wide(Subtract, (&mut *row, T::one(), &*y_i));
        right_taus[i] = reflector(row, 0, 1, 1, columns - i - 2);
        beside[i] = row[0].re();
        let (known_u, u_i) = u.split_at_mut(i * columns);
        u_i[i + 1] = T::one();
        u_i[i + 2..columns].copy_from_slice(&row[1..]);
        let u_i = &u_i[i + 1..columns];
        // What that one does to the rows after it.
        let (known_x, x_i) = x.split_at_mut(i * rows);
        let x_i = &mut x_i[i + 1..rows];
        wide(Times, (&a[rows_of(i + 1) + i + 1..], n, u_i, &mut *x_i));
        for p in 0..i {
            let after = p * columns + i + 1..(p + 1) * columns;
            let factors = two_dots(u_i, [&known_y[after.clone()], &known_u[after]]);
            let below = p * rows + i + 1..(p + 1) * rows;
            wide(SubtractTwo, (&mut *x_i, factors, [&known_v[below.clone()], &known_x[below]]));
        }
        let own = wide(Dot, (&*y_i, u_i));
        wide(Subtract, (&mut *x_i, own, &v_i[1..]));
        wide(Scale, (x_i, right_taus[i]));
    }
    [tall, long]
}

/// The columns and rows from `k` on, one reflector after the other.
fn bidiagonal_rest<T: Field>(
    a: &mut [T],
    [m, n]: [usize; 2],
    k: usize,
    (diagonal, beside): (&mut [T::Real], &mut [T::Real]),
    (left_taus, right_taus): (&mut [T], &mut [T]),
) {
    let (mut tall, mut long) = (vec![T::zero(); m - k], vec![T::zero(); n - k]);
    for j in k..n {
        let (rows, columns) = (m - j, n - j - 1);
        let (v, sums) = (&mut tall[..rows], &mut long[..columns]);
        (0..rows).for_each(|r| v[r] = a[(j + r) * n + j]);
        left_taus[j] = reflector(v, 0, 1, 1, rows - 1);
        (0..rows).for_each(|r| a[(j + r) * n + j] = v[r]);
        diagonal[j] = v[0].re();
        v[0] = T::one();
        if j + 1 == n {
            break;
        }
        // Y* = (A* v)* times the conjugate of tau.
        wide(AdjointTimes, (&a[j * n + j + 1..], n, &*v, &mut *sums));
        wide(SubtractOuter, (&mut a[j * n + j + 1..], n, &*v, left_taus[j].conj(), &*sums));
        // The reflector that maps the adjoint of the row maps the row from the right.
        let row = &mut a[j * n + j + 1..(j + 1) * n];
        row.iter_mut().for_each(|a| *a = a.conj());
        right_taus[j] = reflector(row, 0, 1, 1, columns - 1);
        beside[j] = row[0].re();
        sums.copy_from_slice(row);
        sums[0] = T::one();
        let products = &mut v[1..];
        wide(Times, (&a[(j + 1) * n + j + 1..], n, &*sums, &mut *products));
        wide(SubtractOuter, (&mut a[(j + 1) * n + j + 1..], n, &*products, right_taus[j], &*sums));
    }
}
