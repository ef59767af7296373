//! Singular values and eigenvalues of one matrix, in LAPACK's forms. A matrix with an element that is not finite gives NaN.

use std::marker::PhantomData;

use rustfft::num_complex::Complex;
use rustfft::num_traits::{Float, One as _, Zero};

use meshwork_mesh::sort_by;

use super::Triangle;
use super::dense::{adjoint, lower_triangle};
use super::divide::{joined, rounded};
use super::field::{Field, norm};
use super::householder::{self, Adjoint};
use super::panels;
use super::product::{Operand, Sign, accumulate};
use super::spectrum::{self, Rows};
use super::stack::{One, Routine};
use crate::step::Scratch;

/// What LAPACK says of a problem that it could not solve.
const FAILED: i32 = 1;

fn nan<T: Field>() -> T {
    T::new(T::Real::nan(), T::Real::nan())
}

fn is_finite<T: Field>(values: &[T]) -> bool {
    values.iter().all(|v| v.is_finite())
}

/// `heevd`: eigenvectors as columns, eigenvalues in rising order, and 0 if all went well.
#[derive(Debug)]
pub(super) struct SelfAdjoint<T> {
    pub n: usize,
    pub triangle: Triangle,
    /// None of them, or all.
    pub vectors: Vectors,
    pub of: PhantomData<T>,
}

impl<T: Field> Routine for SelfAdjoint<T> {
    fn cost(&self) -> usize {
        self.n.pow(2) * (self.n + 20) * 2
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, scratch: &mut Scratch) {
        let n = self.n;
        // SAFETY: the operand and the results of the routine.
        let (a, vectors, values, info) =
            unsafe { (one.operand::<T>(0), one.result::<T>(0), one.result::<T::Real>(1), one.result::<i32>(2)) };
        info[0] = 0;
        if n == 0 {
            return;
        }
        let mut lower = vec![T::zero(); n * n];
        lower_triangle(a, n, self.triangle, &mut lower);
        if !is_finite(&lower) || !self.solve(&mut lower, vectors, values, scratch) {
            info[0] = FAILED;
            values.fill(T::Real::nan());
            vectors.fill(nan());
        }
    }
}

impl<T: Field> SelfAdjoint<T> {
    /// Eigenvalues and eigenvectors of a matrix in its lower triangle; whether they were found.
    fn solve(&self, lower: &mut [T], vectors: &mut [T], values: &mut [T::Real], scratch: &mut Scratch) -> bool {
        let n = self.n;
        let mut beside = vec![T::Real::zero(); n - 1];
        let mut taus = vec![T::zero(); n - 1];
        panels::tridiagonal(lower, n, values, &mut beside, &mut taus, scratch);
        // Squares must not overflow.
        let most = values.iter().chain(&beside).fold(T::Real::zero(), |most, v| most.max(v.abs()));
        let scale = if most.is_zero() { T::Real::one() } else { most };
        let scaled = |list: &[T::Real]| -> Vec<f64> { list.iter().map(|&v| number(v / scale)).collect() };
        let (mut diagonal, beside) = (scaled(values), scaled(&beside));
        if self.vectors == Vectors::None {
            let is_done = spectrum::symmetric(&mut diagonal, &beside, &mut Rows::none());
            sort_by(&mut diagonal, f64::total_cmp);
            values.iter_mut().zip(&diagonal).for_each(|(to, &v)| *to = rounded::<T::Real>(v) * scale);
            return is_done;
        }
        let Some(found) = T::symmetric(&diagonal, &beside, scratch) else { return false };
        values.iter_mut().zip(&found.values).for_each(|(to, &v)| *to = rounded::<T::Real>(v) * scale);
        columns_of(&found.rows, [n, n], vectors, n);
        let below = below_first_row(lower, n);
        householder::multiply(&below, [n - 1; 2], &taus, &mut vectors[n..], n, Adjoint::No, scratch);
        true
    }
}

/// Writes `count` rows of `n` real numbers as columns of `to`, whose rows have `width` elements.
fn columns_of<T: Field>(rows: &[T::Real], [count, n]: [usize; 2], to: &mut [T], width: usize) {
    const TILE: usize = 16;
    for first in (0..count).step_by(TILE) {
        for i in 0..n {
            for j in first..count.min(first + TILE) {
                to[i * width + j] = T::real(rows[j * n + i]);
            }
        }
    }
}

fn number<R: Float>(x: R) -> f64 {
    x.to_f64().unwrap_or(f64::NAN)
}

/// The reflectors of a reduction to Hessenberg or tridiagonal form as those of a factorization of the rows after the first.
pub(super) fn below_first_row<T: Field>(packed: &[T], n: usize) -> Vec<T> {
    let m = n - 1;
    let mut out = Vec::with_capacity(m * m);
    packed[n..].chunks_exact(n).for_each(|row| out.extend_from_slice(&row[..m]));
    out
}

/// Which singular vectors are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vectors {
    /// None: those results are zero.
    None,
    /// As many as the shorter side.
    Thin,
    /// A full basis on both sides.
    Full,
}

/// `gesdd`: the operand, singular values, `U`, `V*`, and 0 if all went well.
#[derive(Debug)]
pub(super) struct Singular<T> {
    pub size: [usize; 2],
    pub vectors: Vectors,
    pub of: PhantomData<T>,
}

/// `A = U S V*` of an `m × n` matrix with `m >= n`, with `width` columns of `U`; without vectors if that is 0.
struct Decomposition<T: Field> {
    values: Vec<T::Real>,
    u: Vec<T>,
    v: Vec<T>,
}

fn decompose<T: Field>(a: &[T], [m, n]: [usize; 2], width: usize, scratch: &mut Scratch) -> Option<Decomposition<T>> {
    let most = a.iter().fold(T::Real::zero(), |most, v| most.max(v.size()));
    if !is_finite(a) {
        return None;
    }
    // Squares must not overflow.
    let scale = if most.is_zero() { T::Real::one() } else { most };
    let mut a: Vec<T> = a.iter().map(|v| v.scale(scale.recip())).collect();
    // A tall matrix is first made square.
    let is_tall = m > n + n / 2;
    let mut outer = vec![];
    if is_tall {
        let mut taus = vec![T::zero(); n];
        householder::qr(&mut a, [m, n], &mut taus, scratch);
        outer = taus;
    }
    let rows = if is_tall { n } else { m };
    let mut square: Vec<T> = a[..rows * n].to_vec();
    if is_tall {
        (0..n).for_each(|i| square[i * n..i * n + i].fill(T::zero()));
    }
    let mut d = vec![T::Real::zero(); n];
    let mut e = vec![T::Real::zero(); n.saturating_sub(1)];
    let (mut left_taus, mut right_taus) = (vec![T::zero(); n], vec![T::zero(); n.saturating_sub(1)]);
    let taus = (&mut left_taus[..], &mut right_taus[..]);
    panels::bidiagonal(&mut square, [rows, n], (&mut d, &mut e), taus, scratch);
    let numbers = |list: &[T::Real]| -> Vec<f64> { list.iter().map(|&v| number(v)).collect() };
    let (mut d, mut e) = (numbers(&d), numbers(&e));
    let scaled = |v: &f64| rounded::<T::Real>(*v) * scale;
    if width == 0 {
        if !spectrum::bidiagonal(&mut d, &mut e, &mut Rows::none(), &mut Rows::none()) {
            return None;
        }
        sort_by(&mut d, f64::total_cmp);
        return Some(Decomposition { values: d.iter().rev().map(scaled).collect(), u: vec![], v: vec![] });
    }
    let mut found = T::bidiagonal(&d, &e, scratch)?;
    // From the largest to the smallest.
    let values = found.values.iter().rev().map(scaled).collect();
    found.left = joined(n * n, found.left.chunks_exact(n.max(1)).rev());
    found.right = joined(n * n, found.right[..n * n].chunks_exact(n.max(1)).rev());
    // The columns of U: those of the bidiagonal matrix under the reflectors, then what completes the basis.
    let mut u = vec![T::zero(); m * width];
    columns_of(&found.left, [n, n], &mut u, width);
    (n..width).for_each(|i| u[i * width + i] = T::one());
    householder::multiply(&square, [rows, n], &left_taus, &mut u[..rows * width], width, Adjoint::No, scratch);
    if is_tall {
        householder::multiply(&a, [m, n], &outer, &mut u, width, Adjoint::No, scratch);
    }
    let mut v = vec![T::zero(); n * n];
    columns_of(&found.right, [n, n], &mut v, n);
    if n > 1 {
        // Reflectors of the right side stand in rows, from one column after the diagonal on.
        let k = n - 1;
        let mut columns = vec![T::zero(); k * k];
        for (i, row) in square.chunks_exact(n).take(k).enumerate() {
            (0..k).for_each(|j| columns[j * k + i] = row[j + 1]);
        }
        householder::multiply(&columns, [k, k], &right_taus, &mut v[n..], n, Adjoint::No, scratch);
    }
    Some(Decomposition { values, u, v })
}

impl<T: Field> Routine for Singular<T> {
    fn cost(&self) -> usize {
        let [m, n] = self.size;
        m * n * (m.min(n) + 20) * 3
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, scratch: &mut Scratch) {
        let [m, n] = self.size;
        // SAFETY: the operand and the results of the routine.
        let (a, copy, values, left, right, info) = unsafe {
            let numbers = (one.result::<T>(0), one.result::<T::Real>(1), one.result::<T>(2), one.result::<T>(3));
            (one.operand::<T>(0), numbers.0, numbers.1, numbers.2, numbers.3, one.result::<i32>(4))
        };
        copy.copy_from_slice(a);
        info[0] = 0;
        left.fill(T::zero());
        right.fill(T::zero());
        // A wide matrix is decomposed as its adjoint.
        let is_wide = n > m;
        let (tall, long, short) = if is_wide { (adjoint(a, [m, n]), n, m) } else { (a.to_vec(), m, n) };
        let width = match self.vectors {
            Vectors::None => 0,
            Vectors::Thin => short,
            Vectors::Full => long,
        };
        let Some(parts) = decompose(&tall, [long, short], width, scratch) else {
            info[0] = FAILED;
            values.fill(T::Real::nan());
            left.fill(nan());
            right.fill(nan());
            return;
        };
        values.copy_from_slice(&parts.values);
        if self.vectors == Vectors::None {
            return;
        }
        if is_wide {
            left.copy_from_slice(&parts.v);
            right.copy_from_slice(&adjoint(&parts.u, [long, width]));
        } else {
            left.copy_from_slice(&parts.u);
            right.copy_from_slice(&adjoint(&parts.v, [short, short]));
        }
    }
}

/// `geev`: eigenvalues (of a real matrix their real and imaginary parts), left and right eigenvectors as complex columns,
/// and 0 if all went well. Vectors that are not wanted are zero.
#[derive(Debug)]
pub(super) struct General<T> {
    pub n: usize,
    pub left: bool,
    pub right: bool,
    pub of: PhantomData<T>,
}

impl<T: Field> Routine for General<T>
where
    Complex<T::Real>: Field<Real = T::Real>,
{
    fn cost(&self) -> usize {
        self.n.pow(2) * (self.n + 20) * 10
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, scratch: &mut Scratch) {
        let n = self.n;
        // SAFETY: the operand of the routine.
        let a = unsafe { one.operand::<T>(0) };
        let mut t = a.to_vec();
        // Eigenvalues alone are much less work.
        let mut z = vec![T::zero(); if self.left || self.right { n * n } else { 0 }];
        let is_done = is_finite(a) && householder::schur(&mut t, &mut z, n, scratch);
        let mut values = if is_done { T::eigenvalues(&t, n) } else { vec![nan(); n] };
        let complex = |m: &[T]| -> Vec<Complex<T::Real>> { m.iter().map(|v| Complex::new(v.re(), v.im())).collect() };
        let (mut t, mut z) = (complex(&t), complex(&z));
        if is_done && !z.is_empty() {
            triangular(&mut t, &mut z, n, &values);
        }
        let first = one.results() - 3;
        for (i, is_wanted, is_left) in [(first, self.left, true), (first + 1, self.right, false)] {
            // SAFETY: a result of the routine.
            let out = unsafe { one.result::<Complex<T::Real>>(i) };
            match (is_done, is_wanted) {
                (false, _) => out.fill(nan()),
                (true, false) => out.fill(Complex::zero()),
                (true, true) => vectors(&t, &z, n, is_left, &values, out, scratch),
            }
        }
        // SAFETY: the other results of the routine.
        unsafe {
            one.result::<i32>(first + 2)[0] = if is_done { 0 } else { FAILED };
            if first == 1 {
                one.result::<Complex<T::Real>>(0).copy_from_slice(&values);
            } else {
                let (re, im) = (one.result::<T::Real>(0), one.result::<T::Real>(1));
                re.iter_mut().zip(im).zip(values.drain(..)).for_each(|((re, im), v)| (*re, *im) = (v.re, v.im));
            }
        }
    }
}

/// Makes a real Schur form triangular: blocks of order 2 are turned by a unitary matrix.
fn triangular<R: Float>(t: &mut [Complex<R>], z: &mut [Complex<R>], n: usize, values: &[Complex<R>]) {
    for k in 0..n.saturating_sub(1) {
        let below = t[(k + 1) * n + k];
        if below.norm_sqr().is_zero() {
            continue;
        }
        // (value - d, c) is an eigenvector of the block for the first value.
        let x = values[k] - t[(k + 1) * n + k + 1];
        let length = x.norm().hypot(below.norm());
        let (c, s) = (x.unscale(length), below.unscale(length));
        for j in k..n {
            let (x, y) = (t[k * n + j], t[(k + 1) * n + j]);
            (t[k * n + j], t[(k + 1) * n + j]) = (c.conj() * x + s.conj() * y, c * y - s * x);
        }
        for (m, rows) in [(&mut *t, k + 2), (&mut *z, n)] {
            for row in m.chunks_exact_mut(n).take(rows) {
                (row[k], row[k + 1]) = (row[k] * c + row[k + 1] * s, row[k + 1] * c.conj() - row[k] * s.conj());
            }
        }
        t[(k + 1) * n + k] = Complex::new(R::zero(), R::zero());
        (t[k * n + k], t[(k + 1) * n + k + 1]) = (values[k], values[k + 1]);
    }
}

/// The eigenvectors of `Z T Z*` for a triangular `T`, as columns of length 1 whose largest element is real.
fn vectors<R: Float>(
    t: &[Complex<R>],
    z: &[Complex<R>],
    n: usize,
    is_left: bool,
    values: &[Complex<R>],
    out: &mut [Complex<R>],
    scratch: &mut Scratch,
) where
    Complex<R>: Field<Real = R>,
{
    let zero = || vec![Complex::new(R::zero(), R::zero()); n * n];
    let size = t.iter().fold(R::zero(), |most, v| most.max(v.norm()));
    let least = (R::epsilon() * size).max(R::min_positive_value());
    // Left eigenvectors are those of the adjoint, which is triangular from the other end.
    let turned = if is_left { adjoint(t, [n, n]) } else { vec![] };
    let t = if is_left { &turned } else { t };
    // Row `k` has the vector of eigenvalue `k` in terms of the Schur vectors.
    let mut rows = zero();
    for k in 0..n {
        let x = &mut rows[k * n..(k + 1) * n];
        x[k] = Complex::new(R::one(), R::zero());
        let order: Vec<usize> = if is_left { (k + 1..n).collect() } else { (0..k).rev().collect() };
        for r in order {
            let known = if is_left { k..r } else { r + 1..k + 1 };
            let products = t[r * n + known.start..r * n + known.end].iter().zip(&x[known]);
            let sum = products.fold(Complex::new(R::zero(), R::zero()), |sum, (a, b)| sum + a * b);
            let gap = t[k * n + k] - t[r * n + r];
            x[r] = sum / if gap.norm() < least { Complex::new(least, R::zero()) } else { gap };
        }
    }
    // The columns of Z Xᵀ.
    out.fill(Complex::new(R::zero(), R::zero()));
    // SAFETY: matrices of order `n`.
    unsafe {
        let (z, x) = (Operand::rows(z.as_ptr(), n), Operand::rows(rows.as_ptr(), n).transposed());
        accumulate((out.as_mut_ptr(), n as isize), Sign::Plus, z, x, [n; 3], scratch);
    }
    for j in 0..n {
        let is_second = j > 0 && !values[j].im.is_zero() && values[j] == values[j - 1].conj();
        if is_second {
            // Of a real matrix: conjugate eigenvalues have conjugate vectors.
            (0..n).for_each(|i| out[i * n + j] = out[i * n + j - 1].conj());
            continue;
        }
        let length = norm((0..n).map(|i| out[i * n + j]));
        let largest = (0..n).fold(0, |b, i| if out[i * n + j].norm_sqr() > out[b * n + j].norm_sqr() { i } else { b });
        let largest = out[largest * n + j];
        let turn = if largest.im.is_zero() {
            Complex::new(R::one(), R::zero())
        } else {
            largest.conj().unscale(largest.norm())
        };
        (0..n).for_each(|i| out[i * n + j] = (out[i * n + j] * turn).unscale(length));
    }
}
