//! The routines on one matrix: Cholesky, triangular systems, LU, Householder reflectors, tridiagonal systems.

use std::marker::PhantomData;

use rustfft::num_complex::Complex;
use rustfft::num_traits::Float;

use super::field::Field;
use super::householder::{self, Adjoint};
use super::lanes::{self, Place, Systems};
use super::panels;
use super::product::Operand;
use super::stack::{One, Routine};
use super::triangular::{self, Diagonal};
use super::tridiagonal::{self, Diagonals, Singular};
use super::{Triangle, factor};
use crate::step::Scratch;

/// The conjugate transpose of an `m × n` matrix.
pub(super) fn adjoint<T: Field>(a: &[T], [m, n]: [usize; 2]) -> Vec<T> {
    /// Rows and columns of a block that stays in the cache.
    const SIDE: usize = 16;
    let mut out = vec![T::zero(); m * n];
    for (i0, j0) in (0..m).step_by(SIDE).flat_map(|i| (0..n).step_by(SIDE).map(move |j| (i, j))) {
        for i in i0..m.min(i0 + SIDE) {
            (j0..n.min(j0 + SIDE)).for_each(|j| out[j * m + i] = a[i * n + j].conj());
        }
    }
    out
}

/// One triangle of a Hermitian matrix of order `n` as the lower one, with zeros above.
pub(super) fn lower_triangle<T: Field>(a: &[T], n: usize, triangle: Triangle, out: &mut [T]) {
    for (i, row) in out.chunks_exact_mut(n.max(1)).enumerate() {
        match triangle {
            Triangle::Lower => row[..i + 1].copy_from_slice(&a[i * n..i * n + i + 1]),
            Triangle::Upper => row[..i + 1].iter_mut().enumerate().for_each(|(j, v)| *v = a[j * n + i].conj()),
        }
        row[i + 1..].fill(T::zero());
    }
}

/// `L` with `A = L L*`, or `L*`; all NaN if `A` is not positive definite. A second result is the row where that shows.
#[derive(Debug)]
pub(super) struct Cholesky<T> {
    pub n: usize,
    pub triangle: Triangle,
    pub of: PhantomData<T>,
}

impl<T: Field> Routine for Cholesky<T> {
    fn cost(&self) -> usize {
        self.n.pow(2) * (self.n + 20) / 30
    }

    fn lanes(&self) -> usize {
        lanes::width::<T>(self.n * self.n)
    }

    unsafe fn run_lanes(&self, ones: &[One<'_>], scratch: &mut Scratch) {
        if let Some(beside) = T::BESIDE {
            // SAFETY: matrices of order `n`, and a number.
            unsafe { (beside.cholesky)(self.n, self.triangle, ones, scratch) }
        }
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, scratch: &mut Scratch) {
        let n = self.n;
        // SAFETY: matrices of order `n`, and a number.
        let (a, out): (&[T], &mut [T]) = unsafe { (one.operand(0), one.result(0)) };
        lower_triangle(a, n, self.triangle, out);
        // SAFETY: a matrix of order `n`.
        let done = unsafe { factor::cholesky(out.as_mut_ptr(), n, n, scratch) };
        if done.is_err() {
            out.fill(T::real(T::Real::nan()));
        } else {
            // Updates went a little beyond the triangle.
            (0..n).for_each(|i| out[i * n + i + 1..(i + 1) * n].fill(T::zero()));
        }
        if self.triangle == Triangle::Upper && done.is_ok() {
            let factor = adjoint(out, [n, n]);
            out.copy_from_slice(&factor);
        }
        if one.results() > 1 {
            // SAFETY: a number.
            unsafe { one.result::<i32>(1)[0] = done.err().unwrap_or(0) as i32 };
        }
    }
}

/// How a triangular system reads its matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Transpose {
    No,
    Yes,
    Adjoint,
}

/// `op(A) X = B` or `X op(A) = B` for a triangular `A` of order `n`.
#[derive(Debug)]
pub(super) struct Solve<T> {
    /// Rows and columns of `B`.
    pub rows: usize,
    pub columns: usize,
    pub left: bool,
    pub triangle: Triangle,
    pub diagonal: Diagonal,
    pub transpose: Transpose,
    pub of: PhantomData<T>,
}

/// Right-hand sides of one piece.
const SIDES: usize = 64;

impl<T: Field> Solve<T> {
    /// The order of the matrix, and how many right-hand sides there are.
    fn sizes(&self) -> (usize, usize) {
        if self.left { (self.rows, self.columns) } else { (self.columns, self.rows) }
    }
}

impl<T: Field> Routine for Solve<T> {
    fn cost(&self) -> usize {
        let (n, sides) = self.sizes();
        n * sides * (n + 20) / 20 + 20
    }

    fn lanes(&self) -> usize {
        let (n, sides) = self.sizes();
        // Many right-hand sides are lanes themselves.
        if sides <= 8 { lanes::width::<T>(n * (n + sides)) } else { 1 }
    }

    unsafe fn run_lanes(&self, ones: &[One<'_>], scratch: &mut Scratch) {
        let (n, sides) = self.sizes();
        let (order, width) = (n as isize, sides as isize);
        let plain = Place { start: 0, row: order, column: 1 };
        // As below: on the right it is opᵀ(A) Xᵀ = Bᵀ.
        let is_flipped = (self.transpose != Transpose::No) == self.left;
        let systems = Systems {
            n,
            sides,
            triangle: if is_flipped { Place { row: 1, column: order, ..plain } } else { plain },
            solution: Place {
                start: 0,
                row: if self.left { width } else { 1 },
                column: if self.left { 1 } else { order },
            },
            diagonal: self.diagonal,
        };
        let is_lower = (self.triangle == Triangle::Lower) != is_flipped;
        let systems = if is_lower { systems } else { systems.reversed() };
        if let Some(beside) = T::BESIDE {
            // SAFETY: matrices of these sizes.
            unsafe { (beside.solve)(systems, ones, scratch) }
        }
    }

    fn pieces(&self) -> usize {
        self.sizes().1.div_ceil(SIDES).max(1)
    }

    unsafe fn run(&self, one: &One<'_>, piece: usize, scratch: &mut Scratch) {
        let (n, sides) = self.sizes();
        let first = piece * SIDES;
        let sides = SIDES.min(sides - first);
        // On the right it is opᵀ(A) Xᵀ = Bᵀ.
        // SAFETY: in the whole function: elements of the matrices; each piece writes its own right-hand sides.
        unsafe {
            let a = Operand::rows(one.operand::<T>(0).as_ptr(), n);
            let b: &[T] = one.operand(1);
            let out: *mut T = one.result_start(0);
            let conj = self.transpose == Transpose::Adjoint;
            let is_flipped = (self.transpose != Transpose::No) == self.left;
            let mut l = if is_flipped { a.transposed() } else { a };
            l.conj = conj;
            let is_lower = (self.triangle == Triangle::Lower) != is_flipped;
            // An upper triangle is a lower one from its last corner on.
            let reversed = |l: Operand<T>| Operand { row: -l.row, column: -l.column, ..l.from(n - 1, n - 1) };
            if !is_lower && n > 0 {
                l = reversed(l);
            }
            let place = |x: *mut T, row: usize| match is_lower || n == 0 {
                true => (x, row as isize),
                false => (x.add((n - 1) * row), -(row as isize)),
            };
            if self.left {
                for i in 0..n {
                    let at = i * self.columns + first;
                    std::ptr::copy_nonoverlapping(b[at..at + sides].as_ptr(), out.add(at), sides);
                }
                let x = place(out.wrapping_add(first), self.columns);
                return triangular::solve(l, self.diagonal, x, [n, sides], scratch);
            }
            let rows = &b[first * n..(first + sides) * n];
            let mut x: Vec<T> = (0..n * sides).map(|at| rows[at % sides * n + at / sides]).collect();
            triangular::solve(l, self.diagonal, place(x.as_mut_ptr(), sides), [n, sides], scratch);
            for s in 0..sides {
                (0..n).for_each(|k| *out.add((first + s) * n + k) = x[k * sides + s]);
            }
        }
    }
}

/// LAPACK's `getrf`: packed factors, row swaps from 1, the first zero pivot.
#[derive(Debug)]
pub(super) struct Lu<T> {
    pub size: [usize; 2],
    pub of: PhantomData<T>,
}

impl<T: Field> Routine for Lu<T> {
    fn cost(&self) -> usize {
        self.size[0] * self.size[1] * (self.size[0].min(self.size[1]) + 20) / 20
    }

    fn lanes(&self) -> usize {
        lanes::width::<T>(self.size[0] * self.size[1])
    }

    unsafe fn run_lanes(&self, ones: &[One<'_>], scratch: &mut Scratch) {
        if let Some(beside) = T::BESIDE {
            // SAFETY: matrices of this size, pivots and a number.
            unsafe { (beside.lu)(self.size, ones, scratch) }
        }
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, scratch: &mut Scratch) {
        // SAFETY: matrices of this size, pivots and a number.
        unsafe {
            let (out, pivots) = (one.result::<T>(0), one.result::<i32>(1));
            out.copy_from_slice(one.operand(0));
            let singular = factor::lu(out.as_mut_ptr(), self.size[1], self.size, pivots, scratch);
            pivots.iter_mut().for_each(|p| *p += 1);
            one.result::<i32>(2)[0] = singular as i32;
        }
    }
}

/// What is done with Householder reflectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reflect {
    /// `geqrf`: packed factors and `tau`.
    Qr,
    /// `orgqr`: the columns of `Q` from packed factors and `tau`.
    Product,
    /// `ormqr`: `Q C`, `Q* C`, `C Q` or `C Q*`, for `C` of this size.
    Multiply { left: bool, adjoint: bool, size: [usize; 2] },
    /// `geqp3`: packed factors, order of columns, `tau`.
    PivotedQr,
    /// `gehrd`: packed factors, `tau`, zero.
    Hessenberg,
    /// `sytrd`: packed factors, two diagonals, `tau`, zero.
    Tridiagonal(Triangle),
}

/// Columns of one piece of a product of reflectors.
const COLUMNS: usize = 128;

/// Routines on Householder reflectors; `size` is that of the first operand.
#[derive(Debug)]
pub(super) struct Reflection<T> {
    pub what: Reflect,
    pub size: [usize; 2],
    pub of: PhantomData<T>,
}

impl<T: Field> Routine for Reflection<T> {
    fn cost(&self) -> usize {
        let [m, n] = self.size;
        m * n * (m.min(n) + 20) / 8
    }

    fn pieces(&self) -> usize {
        // Columns of a product do not depend on each other.
        match self.what {
            Reflect::Product => self.size[1].div_ceil(COLUMNS).max(1),
            Reflect::Multiply { left: true, size, .. } => size[1].div_ceil(COLUMNS).max(1),
            _ => 1,
        }
    }

    unsafe fn run(&self, one: &One<'_>, piece: usize, scratch: &mut Scratch) {
        let [m, n] = self.size;
        // SAFETY: in the whole function: operands and results of the routine, by its description; each piece of a product
        // writes its own columns.
        unsafe {
            let mine = |n: usize| piece * COLUMNS..((piece + 1) * COLUMNS).min(n);
            if self.what == Reflect::Product {
                let (a, taus, out) = (one.operand::<T>(0), one.operand::<T>(1), one.result_start::<T>(0));
                let mut triangles = vec![T::zero(); householder::triangles_len(taus.len())];
                for block in 0..taus.len().div_ceil(householder::BLOCK) {
                    householder::put_triangle(a.as_ptr(), [m, n], taus, block, triangles.as_mut_ptr(), scratch);
                }
                return householder::product(a, [m, n], (taus.len(), &triangles), out, mine(n), scratch);
            }
            if let Reflect::Multiply { left, adjoint: conj, size } = self.what {
                let (a, taus) = (one.operand::<T>(0), one.operand::<T>(1));
                let how = |conj: bool| if conj { Adjoint::Yes } else { Adjoint::No };
                if left {
                    let (c, out, mine) = (one.operand::<T>(2), one.result_start::<T>(0), mine(size[1]));
                    for i in 0..size[0] {
                        let at = i * size[1] + mine.start;
                        std::ptr::copy_nonoverlapping(c[at..].as_ptr(), out.add(at), mine.len());
                    }
                    let to = (out.add(mine.start), size[1], mine.len());
                    return householder::multiply_columns(a, [m, n], taus, to, how(conj), scratch);
                }
                let out = one.result::<T>(0);
                out.copy_from_slice(one.operand(2));
                // C Q is the adjoint of Q* C*.
                let mut c = adjoint(out, size);
                householder::multiply(a, [m, n], taus, &mut c, size[0], how(!conj), scratch);
                return out.copy_from_slice(&adjoint(&c, [size[1], size[0]]));
            }
            let out = one.result::<T>(0);
            out.copy_from_slice(one.operand(0));
            match self.what {
                Reflect::Qr => householder::qr(out, [m, n], one.result(1), scratch),
                Reflect::PivotedQr => {
                    let order = one.result::<i32>(1);
                    order.copy_from_slice(one.operand(1));
                    householder::pivoted_qr(out, [m, n], order, one.result(2));
                }
                Reflect::Hessenberg => {
                    householder::hessenberg(out, n, one.result(1));
                    one.result::<i32>(2)[0] = 0;
                }
                Reflect::Tridiagonal(triangle) => {
                    let (diagonal, beside, taus) = (one.result(1), one.result(2), one.result::<T>(3));
                    // From the other end, the upper triangle is the lower one.
                    let is_upper = triangle == Triangle::Upper;
                    if is_upper {
                        out.reverse();
                    }
                    panels::tridiagonal(out, n, diagonal, beside, taus, scratch);
                    // LAPACK leaves the other triangle as it is.
                    let other = one.operand::<T>(0);
                    for i in 0..n {
                        let at = |j: usize| if is_upper { n * n - 1 - (i * n + j) } else { i * n + j };
                        (i + 1..n).for_each(|j| out[i * n + j] = other[at(j)]);
                    }
                    if is_upper {
                        out.reverse();
                        diagonal.reverse();
                        beside.reverse();
                        taus.reverse();
                    }
                    one.result::<i32>(4)[0] = 0;
                }
                Reflect::Product | Reflect::Multiply { .. } => {}
            }
        }
    }
}

/// LAPACK's `gees`: the Schur form and its vectors, the eigenvalues (of a real matrix their real and imaginary parts), zero,
/// and 0 if the steps converged. A matrix with an element that is not finite gives NaN.
#[derive(Debug)]
pub(super) struct Schur<T> {
    pub n: usize,
    pub of: PhantomData<T>,
}

impl<T: Field> Routine for Schur<T> {
    fn cost(&self) -> usize {
        self.n.pow(2) * (self.n + 20) * 10
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, scratch: &mut Scratch) {
        let n = self.n;
        // SAFETY: the operand and the results of the routine.
        let (a, t, z) = unsafe { (one.operand::<T>(0), one.result::<T>(0), one.result::<T>(1)) };
        t.copy_from_slice(a);
        let is_done = a.iter().all(|v| v.is_finite()) && householder::schur(t, z, n, scratch);
        let mut values = T::eigenvalues(t, n);
        if !is_done {
            let nan = T::Real::nan();
            [t, z].into_iter().for_each(|m| m.fill(T::new(nan, nan)));
            values.fill(Complex::new(nan, nan));
        }
        let first_number = one.results() - 2;
        // SAFETY: the results of the routine.
        unsafe {
            if first_number == 3 {
                let w = one.result::<T>(2);
                w.iter_mut().zip(&values).for_each(|(w, v)| *w = T::new(v.re, v.im));
            } else {
                let (re, im) = (one.result::<T::Real>(2), one.result::<T::Real>(3));
                re.iter_mut().zip(im).zip(&values).for_each(|((re, im), v)| (*re, *im) = (v.re, v.im));
            }
            one.result::<i32>(first_number)[0] = 0;
            one.result::<i32>(first_number + 1)[0] = i32::from(!is_done);
        }
    }
}

/// LAPACK's `gtsv` (which gives the diagonals as they were, and 0 or the first zero pivot), or the solution alone of a
/// matrix that may be singular.
#[derive(Debug)]
pub(super) struct Tridiagonal<T> {
    /// Rows and columns of the right-hand sides.
    pub size: [usize; 2],
    pub singular: Singular,
    pub of: PhantomData<T>,
}

impl<T: Field> Routine for Tridiagonal<T> {
    fn cost(&self) -> usize {
        self.size[0] * (self.size[1] * 3 + 20)
    }

    fn lanes(&self) -> usize {
        match self.singular {
            Singular::Report => lanes::width_in_line::<T>(self.size[0] * (self.size[1] + 3)),
            Singular::Perturb => 1,
        }
    }

    unsafe fn run_lanes(&self, ones: &[One<'_>], scratch: &mut Scratch) {
        if let Some(beside) = T::BESIDE {
            // SAFETY: three diagonals, the right-hand sides, and a number.
            unsafe { (beside.tridiagonal)(self.size, ones, scratch) }
        }
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, _: &mut Scratch) {
        // SAFETY: three diagonals and the right-hand sides.
        unsafe {
            let m = Diagonals { lower: one.operand(0), diagonal: one.operand(1), upper: one.operand(2) };
            let b = one.operand::<T>(3);
            if self.singular == Singular::Perturb {
                let out = one.result::<T>(0);
                out.copy_from_slice(b);
                tridiagonal::solve(m, out, self.size[1], self.singular);
                return;
            }
            (0..3).for_each(|i| one.result::<T>(i).copy_from_slice(one.operand(i)));
            let out = one.result::<T>(3);
            out.copy_from_slice(b);
            one.result::<i32>(4)[0] = tridiagonal::solve(m, out, self.size[1], self.singular);
        }
    }
}
