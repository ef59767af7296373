//! Schur forms by QR steps on a Hessenberg matrix: double shifts for real matrices, Wilkinson's for complex ones.
//!
//! Matrices are row-major and of order `n`. `t` is Hessenberg and becomes (quasi-)triangular, `z` is multiplied from the
//! right by what it was turned with. Both functions say whether the steps converged. Inside, `z` is transposed, so that
//! its columns are turned along memory. Without `z` (an empty slice) only the blocks on the diagonal are those of the Schur
//! form: nothing outside the block that steps work on is turned.

use rustfft::num_complex::Complex;
use rustfft::num_traits::{Float, Zero};

use super::field::{kernel, wide};

/// Steps for one eigenvalue before it is given up.
const STEPS: usize = 300;

/// Every so many steps an unusual shift is used, in case the usual one runs in a circle.
const UNUSUAL: usize = 10;

/// The real Schur form: blocks of order 2 are pairs of complex eigenvalues, with equal diagonal elements.
pub(super) fn real<R: Float>(t: &mut [R], z: &mut [R], n: usize) -> bool {
    transpose(z, n);
    let is_done = wide(RealSteps, (t, &mut *z, n));
    transpose(z, n);
    is_done
}

/// The rows and columns that steps on a block turn: those of the block from its row `first` to `last`, or all if the whole
/// Schur form is wanted.
#[derive(Clone, Copy)]
struct Window {
    first: usize,
    end: usize,
}

impl Window {
    fn new<T>(z: &[T], n: usize, first: usize, last: usize) -> Window {
        if z.is_empty() { Window { first, end: last + 1 } } else { Window { first: 0, end: n } }
    }
}

/// A square matrix in place.
fn transpose<T>(m: &mut [T], n: usize) {
    let rows = if m.is_empty() { 0 } else { n };
    for i in 0..rows {
        (0..i).for_each(|j| m.swap(i * n + j, j * n + i));
    }
}

kernel! {
    [R: Float] RealSteps(t: &mut [R], z: &mut [R], n: usize) -> bool = real_steps(t, z, n)
}

#[inline(always)]
fn real_steps<R: Float>(t: &mut [R], z: &mut [R], n: usize) -> bool {
    let two = R::one() + R::one();
    let (mut end, mut steps) = (n, 0);
    while end > 0 {
        let last = end - 1;
        let first = block_start(t, n, last, |v: R| v.abs());
        match last - first {
            0 => (end, steps) = (last, 0),
            1 => {
                standardize(t, z, n, first, Window::new(z, n, first, last));
                (end, steps) = (first, 0);
            }
            _ => {
                steps += 1;
                if steps > STEPS {
                    return false;
                }
                let at = |i: usize, j: usize| t[i * n + j];
                let (mut sum, mut product) = (
                    at(last - 1, last - 1) + at(last, last),
                    at(last - 1, last - 1) * at(last, last) - at(last - 1, last) * at(last, last - 1),
                );
                if steps % UNUSUAL == 0 {
                    let size = at(last, last - 1).abs() + at(last - 1, last - 2).abs();
                    (sum, product) = (size + size / two, size * size);
                }
                let window = Window::new(z, n, first, last);
                // The first column of (T - a)(T - b) for the two shifts.
                let f = first;
                let mut v = [
                    at(f, f) * (at(f, f) - sum) + at(f, f + 1) * at(f + 1, f) + product,
                    at(f + 1, f) * (at(f, f) + at(f + 1, f + 1) - sum),
                    at(f + 1, f) * at(f + 2, f + 1),
                ];
                for k in first..last {
                    let width = 3.min(last - k + 1);
                    if k > first {
                        (0..width).for_each(|i| v[i] = t[(k + i) * n + k - 1]);
                    }
                    reflect(t, z, n, k, &v[..width], last, window);
                    if k > first {
                        (1..width).for_each(|i| t[(k + i) * n + k - 1] = R::zero());
                    }
                }
            }
        }
    }
    true
}

/// Where the block that ends at `last` starts: after the last negligible element below the diagonal, which becomes zero.
fn block_start<T: Copy + Zero, R: Float>(t: &mut [T], n: usize, last: usize, size: impl Fn(T) -> R) -> usize {
    for k in (1..=last).rev() {
        let around = size(t[k * n + k]) + size(t[(k - 1) * n + k - 1]);
        if size(t[k * n + k - 1]) <= R::epsilon() * around {
            t[k * n + k - 1] = T::zero();
            return k;
        }
    }
    0
}

/// Reflects rows and columns from `k` on so that `v` becomes a multiple of a unit vector.
#[inline(always)]
fn reflect<R: Float>(t: &mut [R], z: &mut [R], n: usize, k: usize, v: &[R], last: usize, window: Window) {
    let most = v.iter().fold(R::zero(), |most, x| most.max(x.abs()));
    if most.is_zero() || !most.is_finite() {
        return;
    }
    let mut u = [R::zero(); 3];
    u.iter_mut().zip(v).for_each(|(u, &x)| *u = x / most);
    let length = u.iter().fold(R::zero(), |sum, &x| sum + x * x).sqrt();
    u[0] = u[0] + if u[0].is_sign_negative() { -length } else { length };
    let factor = (R::one() + R::one()) / u.iter().fold(R::zero(), |sum, &x| sum + x * x);
    let width = v.len();
    reflect_rows(t, n, k, k.saturating_sub(1).max(window.first)..window.end, width, u, factor);
    if !z.is_empty() {
        reflect_rows(z, n, k, 0..n, width, u, factor);
    }
    for row in t.chunks_exact_mut(n).take((k + 4).min(last + 1)).skip(window.first) {
        let row = &mut row[k..k + width];
        if let [a, b, c] = row {
            let dot = (*a * u[0] + *b * u[1] + *c * u[2]) * factor;
            (*a, *b, *c) = (*a - dot * u[0], *b - dot * u[1], *c - dot * u[2]);
        } else if let [a, b] = row {
            let dot = (*a * u[0] + *b * u[1]) * factor;
            (*a, *b) = (*a - dot * u[0], *b - dot * u[1]);
        }
    }
}

/// Reflects the `width` rows from `k` on, in these columns.
#[inline(always)]
fn reflect_rows<R: Float>(
    m: &mut [R],
    n: usize,
    k: usize,
    columns: std::ops::Range<usize>,
    width: usize,
    u: [R; 3],
    factor: R,
) {
    let (a, rest) = m[k * n..].split_at_mut(n);
    let (b, rest) = rest.split_at_mut(n);
    let pairs = a[columns.clone()].iter_mut().zip(&mut b[columns.clone()]);
    if width == 2 {
        for (a, b) in pairs {
            let dot = (*a * u[0] + *b * u[1]) * factor;
            (*a, *b) = (*a - dot * u[0], *b - dot * u[1]);
        }
        return;
    }
    for ((a, b), c) in pairs.zip(&mut rest[columns]) {
        let dot = (*a * u[0] + *b * u[1] + *c * u[2]) * factor;
        (*a, *b, *c) = (*a - dot * u[0], *b - dot * u[1], *c - dot * u[2]);
    }
}

/// Turns the block of order 2 at `k` so that its diagonal elements are equal, or so that it is triangular if its
/// eigenvalues are real.
fn standardize<R: Float>(t: &mut [R], z: &mut [R], n: usize, k: usize, window: Window) {
    let two = R::one() + R::one();
    let at = |i: usize, j: usize| t[(k + i) * n + k + j];
    let (a, b, c, d) = (at(0, 0), at(0, 1), at(1, 0), at(1, 1));
    let half = (a - d) / two;
    let root = half * half + b * c;
    let is_pair = root < R::zero();
    let angle = if is_pair {
        (d - a).atan2(b + c) / two
    } else {
        // The direction of an eigenvector.
        let value = (a + d) / two + if half.is_sign_negative() { -root.sqrt() } else { root.sqrt() };
        if c.abs() > b.abs() { c.atan2(value - d) } else { (value - a).atan2(b) }
    };
    let (sin, cos) = angle.sin_cos();
    for j in k..window.end {
        let (x, y) = (t[k * n + j], t[(k + 1) * n + j]);
        (t[k * n + j], t[(k + 1) * n + j]) = (cos * x + sin * y, cos * y - sin * x);
    }
    for row in t.chunks_exact_mut(n).take(k + 2).skip(window.first) {
        (row[k], row[k + 1]) = (cos * row[k] + sin * row[k + 1], cos * row[k + 1] - sin * row[k]);
    }
    let columns = if z.is_empty() { 0 } else { n };
    for j in 0..columns {
        let (x, y) = (z[k * n + j], z[(k + 1) * n + j]);
        (z[k * n + j], z[(k + 1) * n + j]) = (cos * x + sin * y, cos * y - sin * x);
    }
    let is_split = !is_pair || t[k * n + k + 1] * t[(k + 1) * n + k] >= R::zero();
    if is_split {
        t[(k + 1) * n + k] = R::zero();
    } else {
        let mean = (t[k * n + k] + t[(k + 1) * n + k + 1]) / two;
        (t[k * n + k], t[(k + 1) * n + k + 1]) = (mean, mean);
    }
}

/// The eigenvalues of a real Schur form.
pub(super) fn eigenvalues<R: Float>(t: &[R], n: usize) -> Vec<Complex<R>> {
    let mut out: Vec<Complex<R>> = vec![];
    while out.len() < n {
        let k = out.len();
        let re = t[k * n + k];
        if k + 1 < n && !t[(k + 1) * n + k].is_zero() {
            let im = (t[k * n + k + 1].abs() * t[(k + 1) * n + k].abs()).sqrt();
            out.extend([Complex::new(re, im), Complex::new(re, -im)]);
        } else {
            out.push(Complex::new(re, R::zero()));
        }
    }
    out
}

/// The Schur form of a complex matrix.
pub(super) fn complex<R: Float>(t: &mut [Complex<R>], z: &mut [Complex<R>], n: usize) -> bool {
    transpose(z, n);
    let is_done = wide(ComplexSteps, (t, &mut *z, n));
    transpose(z, n);
    is_done
}

kernel! {
    [R: Float] ComplexSteps(t: &mut [Complex<R>], z: &mut [Complex<R>], n: usize) -> bool = complex_steps(t, z, n)
}

#[inline(always)]
fn complex_steps<R: Float>(t: &mut [Complex<R>], z: &mut [Complex<R>], n: usize) -> bool {
    let two = R::one() + R::one();
    let (mut end, mut steps) = (n, 0);
    let mut turns = vec![];
    while end > 0 {
        let last = end - 1;
        let first = block_start(t, n, last, |v: Complex<R>| v.norm());
        if first == last {
            (end, steps) = (last, 0);
            continue;
        }
        steps += 1;
        if steps > STEPS {
            return false;
        }
        let at = |i: usize, j: usize| t[i * n + j];
        let (a, d) = (at(last - 1, last - 1), at(last, last));
        let half = (a - d).unscale(two);
        let root = (half * half + at(last - 1, last) * at(last, last - 1)).sqrt();
        // The eigenvalue of the last block of order 2 that is nearer to its last element.
        let shift = match (half + root).norm() < (half - root).norm() {
            _ if steps % UNUSUAL == 0 => d + Complex::new(at(last, last - 1).norm(), R::zero()),
            true => d + half + root,
            false => d + half - root,
        };
        let window = Window::new(z, n, first, last);
        (first..=last).for_each(|k| t[k * n + k] = t[k * n + k] - shift);
        turns.clear();
        for k in first..last {
            let (x, y) = (t[k * n + k], t[(k + 1) * n + k]);
            let length = x.norm().hypot(y.norm());
            let (c, s) = match length.is_zero() {
                true => (Complex::new(R::one(), R::zero()), Complex::new(R::zero(), R::zero())),
                false => (x.unscale(length), y.unscale(length)),
            };
            let (upper, lower) = t.split_at_mut((k + 1) * n);
            for (x, y) in upper[k * n + k..k * n + window.end].iter_mut().zip(&mut lower[k..window.end]) {
                (*x, *y) = (c.conj() * *x + s.conj() * *y, c * *y - s * *x);
            }
            turns.push((k, c, s));
        }
        for &(k, c, s) in &turns {
            for row in t.chunks_exact_mut(n).take(k + 2).skip(window.first) {
                (row[k], row[k + 1]) = (row[k] * c + row[k + 1] * s, row[k + 1] * c.conj() - row[k] * s.conj());
            }
            if z.is_empty() {
                continue;
            }
            let (upper, lower) = z.split_at_mut((k + 1) * n);
            for (x, y) in upper[k * n..].iter_mut().zip(&mut lower[..n]) {
                (*x, *y) = (*x * c + *y * s, *y * c.conj() - *x * s.conj());
            }
        }
        (first..=last).for_each(|k| t[k * n + k] = t[k * n + k] + shift);
    }
    true
}
