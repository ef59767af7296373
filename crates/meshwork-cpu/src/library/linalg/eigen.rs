//! Singular values and eigenvalues by `faer`, in LAPACK's forms. A matrix with an element that is not finite gives NaN.

use std::marker::PhantomData;

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self, ComputeSvdVectors};
use faer::traits::ComplexField;
use faer::{MatMut, MatRef, Par};
use rustfft::num_complex::{Complex, ComplexFloat};
use rustfft::num_traits::{Float, Zero};

use super::Triangle;
use super::field::{Field, norm};
use super::stack::{One, Routine};
use crate::step::Scratch;

/// A number that `faer` knows too.
pub(super) trait Known: Field + ComplexField {
    /// [`General`] on one matrix.
    ///
    /// # Safety
    /// Operands and results are as the routine expects them.
    unsafe fn eigen(problem: &General<Self>, one: &One<'_>);
}

/// What LAPACK says of a problem that it could not solve.
const FAILED: i32 = 1;

fn nan<T: Field>() -> T {
    let nan = <<T as ComplexFloat>::Real as Float>::nan();
    T::new(nan, nan)
}

fn all_finite<T: Field>(values: &[T]) -> bool {
    values.iter().all(|&v| ComplexFloat::is_finite(v))
}

fn zeros<T: Field>(n: usize) -> Vec<T> {
    vec![<T as Zero>::zero(); n]
}

/// Calls `f` with working memory of this size.
fn with_memory<R>(size: StackReq, f: impl FnOnce(&mut MemStack) -> R) -> R {
    let mut memory = MemBuffer::new(size);
    f(MemStack::new(&mut memory))
}

/// `heevd`: eigenvectors as columns, eigenvalues in rising order, and 0 if all went well.
#[derive(Debug)]
pub(super) struct SelfAdjoint<T> {
    pub n: usize,
    pub triangle: Triangle,
    pub of: PhantomData<T>,
}

impl<T: Known> Routine for SelfAdjoint<T> {
    fn cost(&self) -> usize {
        self.n.pow(2) * (self.n + 20)
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, _: &mut Scratch) {
        let n = self.n;
        // SAFETY: the operand and the results of the routine.
        let (a, vectors, values, info) = unsafe {
            (one.operand::<T>(0), one.result::<T>(0), one.result::<<T as ComplexFloat>::Real>(1), one.result::<i32>(2))
        };
        info[0] = 0;
        if n == 0 {
            return;
        }
        // By columns: the lower triangle.
        let lower: Vec<T> = (0..n * n)
            .map(|at| match (at % n, at / n, self.triangle) {
                (i, j, _) if i < j => <T as Zero>::zero(),
                (i, j, _) if i == j => Field::real(ComplexFloat::re(a[i * n + i])),
                (i, j, Triangle::Lower) => a[i * n + j],
                (i, j, Triangle::Upper) => ComplexFloat::conj(a[j * n + i]),
            })
            .collect();
        let (mut s, mut u) = (zeros::<T>(n), zeros::<T>(n * n));
        let size = evd::self_adjoint_evd_scratch::<T>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
        let is_done = all_finite(&lower)
            && with_memory(size, |memory| {
                let a = MatRef::from_column_major_slice(&lower, n, n);
                let u = MatMut::from_column_major_slice_mut(&mut u, n, n);
                let s = DiagMut::from_slice_mut(&mut s);
                evd::self_adjoint_evd(a, s, Some(u), Par::Seq, memory, Default::default()).is_ok()
            });
        if !is_done {
            info[0] = FAILED;
            (s, u) = (vec![nan(); n], vec![nan(); n * n]);
        }
        values.iter_mut().zip(&s).for_each(|(to, &v)| *to = ComplexFloat::re(v));
        to_rows(&u, [n, n], vectors);
    }
}

/// Writes the `m × n` matrix `from`, stored by columns, by rows.
fn to_rows<T: Copy>(from: &[T], [m, n]: [usize; 2], to: &mut [T]) {
    to.iter_mut().enumerate().for_each(|(at, v)| *v = from[at % n * m + at / n]);
}

/// Which singular vectors are computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Vectors {
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

impl<T: Known> Routine for Singular<T> {
    fn cost(&self) -> usize {
        let [m, n] = self.size;
        m * n * (m.min(n) + 20)
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, _: &mut Scratch) {
        let [m, n] = self.size;
        let least = m.min(n);
        // SAFETY: the operand and the results of the routine.
        let (a, copy, values, left, right, info) = unsafe {
            let values = one.result::<<T as ComplexFloat>::Real>(1);
            (one.operand::<T>(0), one.result::<T>(0), values, one.result::<T>(2), one.result::<T>(3), one.result(4))
        };
        copy.copy_from_slice(a);
        let info: &mut i32 = &mut info[0];
        *info = 0;
        let columns: Vec<T> = (0..m * n).map(|at| a[at % m * n + at / m]).collect();
        let (width, how) = match self.vectors {
            Vectors::None => ([0, 0], ComputeSvdVectors::No),
            Vectors::Thin => ([least, least], ComputeSvdVectors::Thin),
            Vectors::Full => ([m, n], ComputeSvdVectors::Full),
        };
        let (mut s, mut u, mut v) = (zeros::<T>(least), zeros::<T>(m * width[0]), zeros::<T>(n * width[1]));
        let size = svd::svd_scratch::<T>(m, n, how, how, Par::Seq, Default::default());
        let is_done = all_finite(a)
            && with_memory(size, |memory| {
                let a = MatRef::from_column_major_slice(&columns, m, n);
                let (u, v) = match self.vectors {
                    Vectors::None => (None, None),
                    Vectors::Thin | Vectors::Full => (
                        Some(MatMut::from_column_major_slice_mut(&mut u, m, width[0])),
                        Some(MatMut::from_column_major_slice_mut(&mut v, n, width[1])),
                    ),
                };
                svd::svd(a, DiagMut::from_slice_mut(&mut s), u, v, Par::Seq, memory, Default::default()).is_ok()
            });
        if !is_done {
            *info = FAILED;
            s.fill(nan());
            u.fill(nan());
            v.fill(nan());
        }
        values.iter_mut().zip(&s).for_each(|(to, &v)| *to = ComplexFloat::re(v));
        if self.vectors == Vectors::None {
            left.fill(<T as Zero>::zero());
            right.fill(<T as Zero>::zero());
            return;
        }
        to_rows(&u, [m, width[0]], left);
        right.iter_mut().zip(&v).for_each(|(to, &v)| *to = ComplexFloat::conj(v));
    }
}

/// `geev`: eigenvalues (of a real matrix their real and imaginary parts), left and right eigenvectors as complex
/// columns, and 0 if all went well. Vectors that are not wanted are zero.
#[derive(Debug)]
pub(super) struct General<T> {
    pub n: usize,
    pub left: bool,
    pub right: bool,
    pub of: PhantomData<T>,
}

impl<T: Known> Routine for General<T> {
    fn cost(&self) -> usize {
        self.n.pow(2) * (self.n + 20) * 4
    }

    unsafe fn run(&self, one: &One<'_>, _: usize, _: &mut Scratch) {
        // SAFETY: the caller's.
        unsafe { T::eigen(self, one) }
    }
}

impl<T> General<T> {
    fn wanted(&self) -> [ComputeEigenvectors; 2] {
        [self.left, self.right].map(|wanted| if wanted { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No })
    }
}

/// Scales each column to length 1, and turns it so that its largest element is real.
fn normalize<R: Float>(columns: &mut [Complex<R>], n: usize)
where
    Complex<R>: Field<Real = R>,
{
    for column in columns.chunks_exact_mut(n) {
        let length = norm(column.iter().copied());
        if length.is_zero() || !Float::is_finite(length) {
            continue;
        }
        column.iter_mut().for_each(|v| *v = v.unscale(length));
        let larger = |best: usize, i: usize| if column[i].norm_sqr() > column[best].norm_sqr() { i } else { best };
        let largest = (0..n).fold(0, larger);
        if column[largest].im.is_zero() {
            continue;
        }
        let turn = column[largest].conj().unscale(column[largest].norm());
        column.iter_mut().for_each(|v| *v = *v * turn);
        column[largest].im = R::zero();
    }
}

macro_rules! general {
    ($($real:ty)*) => {$(
        impl Known for Complex<$real> {
            unsafe fn eigen(problem: &General<Self>, one: &One<'_>) {
                type C = Complex<$real>;
                let n = problem.n;
                // SAFETY: the operand and the results of the routine.
                let (a, values, info) = unsafe { (one.operand::<C>(0), one.result::<C>(0), one.result::<i32>(3)) };
                info[0] = 0;
                if n == 0 {
                    return;
                }
                let [left, right] = problem.wanted();
                let (mut u, mut v) = (zeros::<C>(n * n), zeros::<C>(n * n));
                let size = evd::evd_scratch::<C>(n, left, right, Par::Seq, Default::default());
                let is_done = all_finite(a)
                    && with_memory(size, |memory| {
                        let a = MatRef::from_row_major_slice(a, n, n);
                        let u = problem.left.then_some(MatMut::from_column_major_slice_mut(&mut u, n, n));
                        let v = problem.right.then_some(MatMut::from_column_major_slice_mut(&mut v, n, n));
                        let s = DiagMut::from_slice_mut(values);
                        evd::evd_cplx::<$real>(a, s, u, v, Par::Seq, memory, Default::default()).is_ok()
                    });
                if !is_done {
                    info[0] = FAILED;
                    [&mut *values, &mut u, &mut v].into_iter().for_each(|x| x.fill(nan()));
                }
                for (i, mut columns) in [(1, u), (2, v)] {
                    normalize(&mut columns, n);
                    // SAFETY: the results of the routine.
                    to_rows(&columns, [n, n], unsafe { one.result(i) });
                }
            }
        }

        impl Known for $real {
            unsafe fn eigen(problem: &General<Self>, one: &One<'_>) {
                let n = problem.n;
                // SAFETY: the operand and the results of the routine.
                let (a, re, im, info) = unsafe {
                    (one.operand::<$real>(0), one.result::<$real>(0), one.result::<$real>(1), one.result::<i32>(4))
                };
                info[0] = 0;
                if n == 0 {
                    return;
                }
                let [left, right] = problem.wanted();
                let (mut u, mut v) = (zeros::<$real>(n * n), zeros::<$real>(n * n));
                let size = evd::evd_scratch::<$real>(n, left, right, Par::Seq, Default::default());
                let is_done = all_finite(a)
                    && with_memory(size, |memory| {
                        let a = MatRef::from_row_major_slice(a, n, n);
                        let u = problem.left.then_some(MatMut::from_column_major_slice_mut(&mut u, n, n));
                        let v = problem.right.then_some(MatMut::from_column_major_slice_mut(&mut v, n, n));
                        let (re, im) = (DiagMut::from_slice_mut(re), DiagMut::from_slice_mut(im));
                        evd::evd_real::<$real>(a, re, im, u, v, Par::Seq, memory, Default::default()).is_ok()
                    });
                if !is_done {
                    info[0] = FAILED;
                    [&mut *re, &mut *im, &mut u, &mut v].into_iter().for_each(|x| x.fill(nan()));
                }
                for (i, packed) in [(2, u), (3, v)] {
                    let mut columns = unpacked(&packed, im, n);
                    normalize(&mut columns, n);
                    // SAFETY: the results of the routine.
                    to_rows(&columns, [n, n], unsafe { one.result(i) });
                }
            }
        }
    )*};
}
general! { f32 f64 }

/// Complex columns: those of a conjugate pair share two real ones, the real and the imaginary part of the first.
fn unpacked<R: Float + Zero>(packed: &[R], im: &[R], n: usize) -> Vec<Complex<R>> {
    let mut out = Vec::with_capacity(n * n);
    let mut j = 0;
    while j < n {
        let column = |j: usize| &packed[j * n..(j + 1) * n];
        if im[j].is_zero() || im[j].is_nan() || j + 1 == n {
            out.extend(column(j).iter().map(|&re| Complex::new(re, R::zero())));
            j += 1;
            continue;
        }
        let pairs = || column(j).iter().zip(column(j + 1));
        out.extend(pairs().map(|(&re, &im)| Complex::new(re, im)));
        out.extend(pairs().map(|(&re, &im)| Complex::new(re, -im)));
        j += 2;
    }
    out
}
