//! The numbers of linear algebra, real and complex, and loops over rows of them.

use meshwork_ir::ElementType;
use rustfft::num_complex::{self, Complex};
use rustfft::num_traits::{Float, Zero};

use super::divide::{self, Eigen};
use super::lanes::Beside;
use super::schur;
use super::singular::{self, Singular};
use crate::library::dot::micro::Tile;
use crate::step::Scratch;

/// A real or complex number.
pub(super) trait Field:
    num_complex::ComplexFloat<Real: Send + Sync + std::fmt::Debug + Default + 'static> + Tile
{
    /// Its element type.
    const ELEM: ElementType;

    /// `re + i im`; a real number has no `im`.
    fn new(re: Self::Real, im: Self::Real) -> Self;

    /// A real number.
    fn real(re: Self::Real) -> Self {
        Self::new(re, Self::Real::zero())
    }

    /// `self * factor`.
    fn scale(self, factor: Self::Real) -> Self {
        Self::new(self.re() * factor, self.im() * factor)
    }

    /// `self / divisor`; keeps infinities and signed zeros of a division by a real number.
    fn over(self, divisor: Self) -> Self {
        if divisor.im().is_zero() {
            Self::new(self.re() / divisor.re(), self.im() / divisor.re())
        } else {
            self / divisor
        }
    }

    /// The Schur form of the Hessenberg matrix `t` of order `n`, by [`schur`].
    fn schur(t: &mut [Self], z: &mut [Self], n: usize) -> bool;

    /// Eigenvalues and eigenvectors of a real tridiagonal matrix, by [`divide`].
    fn symmetric(diagonal: &[f64], beside: &[f64], scratch: &mut Scratch) -> Option<Eigen<Self::Real>>;

    /// Singular values and vectors of a real bidiagonal matrix, by [`singular`].
    fn bidiagonal(diagonal: &[f64], beside: &[f64], scratch: &mut Scratch) -> Option<Singular<Self::Real>>;

    /// The eigenvalues on the diagonal of a Schur form.
    fn eigenvalues(t: &[Self], n: usize) -> Vec<Complex<Self::Real>>;

    /// Routines for several matrices side by side, if there are such.
    const BESIDE: Option<Beside>;

    /// `|re| + |im|`.
    fn size(self) -> Self::Real {
        self.re().abs() + self.im().abs()
    }
}

macro_rules! fields {
    ($($real:ty, $elem:ident, $complex_elem:ident, $width:literal;)*) => {$(
        impl Field for $real {
            const ELEM: ElementType = ElementType::$elem;
            const BESIDE: Option<Beside> = Some(Beside::new::<$real, $width>());
            #[inline(always)]
            fn new(re: $real, _: $real) -> $real {
                re
            }
            fn schur(t: &mut [$real], z: &mut [$real], n: usize) -> bool {
                schur::real(t, z, n)
            }
            fn symmetric(diagonal: &[f64], beside: &[f64], scratch: &mut Scratch) -> Option<Eigen<$real>> {
                divide::symmetric(diagonal, beside, scratch)
            }
            fn bidiagonal(diagonal: &[f64], beside: &[f64], scratch: &mut Scratch) -> Option<Singular<$real>> {
                singular::bidiagonal(diagonal, beside, scratch)
            }
            fn eigenvalues(t: &[$real], n: usize) -> Vec<Complex<$real>> {
                schur::eigenvalues(t, n)
            }
        }

        impl Field for Complex<$real> {
            const ELEM: ElementType = ElementType::$complex_elem;
            const BESIDE: Option<Beside> = None;
            #[inline(always)]
            fn new(re: $real, im: $real) -> Complex<$real> {
                Complex { re, im }
            }
            fn schur(t: &mut [Self], z: &mut [Self], n: usize) -> bool {
                schur::complex(t, z, n)
            }
            fn symmetric(diagonal: &[f64], beside: &[f64], scratch: &mut Scratch) -> Option<Eigen<$real>> {
                divide::symmetric(diagonal, beside, scratch)
            }
            fn bidiagonal(diagonal: &[f64], beside: &[f64], scratch: &mut Scratch) -> Option<Singular<$real>> {
                singular::bidiagonal(diagonal, beside, scratch)
            }
            fn eigenvalues(t: &[Self], n: usize) -> Vec<Self> {
                (0..n).map(|k| t[k * n + k]).collect()
            }
        }
    )*};
}
fields! { f32, F32, C64, 16; f64, F64, C128, 8; }

/// A loop that [`wide`] runs. Its `run` is always inlined: a closure of some size would not be, and stay as it is compiled for
/// every processor. [`kernel!`] makes one of a function.
pub(super) trait Kernel<A> {
    /// What it gives.
    type Out;

    /// Runs it.
    fn run(self, args: A) -> Self::Out;
}

/// `kernel! { [T: Field] Name(x: &mut [T], n: usize) -> bool = function(x, n) }` makes [`Kernel`] `Name` of a function that is
/// always inlined.
macro_rules! kernel {
    ([$($generics:tt)*] $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $call:expr) => {
        pub(super) struct $name;

        impl<$($generics)*> $crate::library::linalg::field::Kernel<($($ty,)*)> for $name {
            type Out = $out;

            #[inline(always)]
            fn run(self, ($($arg,)*): ($($ty,)*)) -> $out {
                $call
            }
        }
    };
}
pub(super) use kernel;

/// `y -= factor x`.
#[inline(always)]
pub(super) fn subtract<T: Field>(y: &mut [T], factor: T, x: &[T]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = *y - factor * x);
}

/// `Σ conj(x) y`, in several lanes.
#[inline(always)]
pub(super) fn dot<T: Field>(x: &[T], y: &[T]) -> T {
    dots(x, [y])[0]
}

/// `Σ conj(x) y` for each of several `y` that are as long.
#[inline(always)]
pub(super) fn dots<T: Field, const N: usize>(x: &[T], ys: [&[T]; N]) -> [T; N] {
    /// The sums from `from` to `to`, which are `LANES` apart or a multiple of it.
    #[inline(always)]
    fn span<T: Field, const N: usize, const LANES: usize>(x: &[T], ys: [&[T]; N], from: usize, to: usize) -> [T; N] {
        let mut sums = [[T::zero(); LANES]; N];
        for i in (from..to).step_by(LANES) {
            let x = &x[i..i + LANES];
            for c in 0..N {
                let y = &ys[c][i..i + LANES];
                for l in 0..LANES {
                    sums[c][l] = sums[c][l] + x[l].conj() * y[l];
                }
            }
        }
        totals(sums)
    }
    let mut ys = ys;
    for y in &mut ys {
        *y = &y[..x.len()];
    }
    let (long, short) = (x.len() / LONG * LONG, x.len() / SHORT * SHORT);
    let (first, second) = (span::<T, N, LONG>(x, ys, 0, long), span::<T, N, SHORT>(x, ys, long, short));
    let mut sums = [T::zero(); N];
    for c in 0..N {
        let rest = (short..x.len()).fold(T::zero(), |sum, i| sum + x[i].conj() * ys[c][i]);
        sums[c] = first[c] + (second[c] + rest);
    }
    sums
}

/// Lanes of sums, and of what remains.
const LONG: usize = 16;
const SHORT: usize = 4;

/// The sum of lanes, by halves.
#[inline(always)]
pub(super) fn total<T: Copy + std::ops::Add<Output = T>, const N: usize>(lanes: [T; N]) -> T {
    // Without this, the compiler lays the loops before it out for these few sums: in pairs instead of whole vectors.
    let mut lanes = std::hint::black_box(lanes);
    let mut half = N / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = lanes[l] + lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// The [`total`] of each of several lanes. A loop, since closures of array functions are not inlined into code for wide lanes.
#[inline(always)]
pub(super) fn totals<T: Field, const N: usize, const LANES: usize>(lanes: [[T; LANES]; N]) -> [T; N] {
    let mut out = [T::zero(); N];
    for c in 0..N {
        out[c] = total(lanes[c]);
    }
    out
}

/// The square root of a sum of squares, if those were neither huge nor tiny: then they have lost nothing.
#[inline(always)]
fn root<R: Float>(square: R) -> Option<R> {
    let small = R::min_positive_value() / R::epsilon().powi(3);
    (square > small && square.is_finite()).then(|| square.sqrt())
}

/// The Euclidean norm of neighbors, without overflow.
pub(super) fn length<T: Field>(values: &[T]) -> T::Real {
    root(wide(Dot, (values, values)).re()).unwrap_or_else(|| scaled_norm(values.iter().copied()))
}

kernel! {
    [T: Field] Dot(x: &[T], y: &[T]) -> T = dot(x, y)
}

kernel! {
    [T: Field] Scale(y: &mut [T], factor: T) -> () = y.iter_mut().for_each(|y| *y = *y * factor)
}

kernel! {
    [T: Field] Subtract(y: &mut [T], factor: T, x: &[T]) -> () = subtract(y, factor, x)
}

/// The Euclidean norm, without overflow.
pub(super) fn norm<T: Field>(values: impl Iterator<Item = T> + Clone) -> T::Real {
    let square = |v: T| v.re() * v.re() + v.im() * v.im();
    let sum = values.clone().fold(T::Real::zero(), |sum, v| sum + square(v));
    root(sum).unwrap_or_else(|| scaled_norm(values))
}

/// The Euclidean norm by way of the largest element.
#[cold]
fn scaled_norm<T: Field>(values: impl Iterator<Item = T> + Clone) -> T::Real {
    let larger = |most: T::Real, v: T| if v.size() <= most { most } else { v.size() };
    let most = values.clone().fold(T::Real::zero(), larger);
    if most.is_zero() || !most.is_finite() {
        return most;
    }
    let square = |v: T| (v.re() / most).powi(2) + (v.im() / most).powi(2);
    most * values.fold(T::Real::zero(), |sum, v| sum + square(v)).sqrt()
}

/// Runs a kernel compiled for AVX-512, or for AVX2 and FMA, where the processor has them.
#[inline]
pub(super) fn wide<A, K: Kernel<A>>(kernel: K, args: A) -> K::Out {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx2,fma")]
        fn widest<A, K: Kernel<A>>(kernel: K, args: A) -> K::Out {
            kernel.run(args)
        }
        #[target_feature(enable = "avx2,fma")]
        fn inside<A, K: Kernel<A>>(kernel: K, args: A) -> K::Out {
            kernel.run(args)
        }
        match *LANES {
            // SAFETY: the processor has all of it.
            Lanes::Avx512 => return unsafe { widest(kernel, args) },
            // SAFETY: the processor has both.
            Lanes::Avx2 => return unsafe { inside(kernel, args) },
            Lanes::Any => {}
        }
    }
    narrow(kernel, args)
}

/// For other processors: a function, so that a kernel is compiled for them once, not in each place that runs it.
#[inline(never)]
fn narrow<A, K: Kernel<A>>(kernel: K, args: A) -> K::Out {
    kernel.run(args)
}

/// The widest lanes of all kinds that the processor has.
#[cfg(target_arch = "x86_64")]
enum Lanes {
    Any,
    Avx2,
    Avx512,
}

#[cfg(target_arch = "x86_64")]
static LANES: std::sync::LazyLock<Lanes> = std::sync::LazyLock::new(|| {
    use std::arch::is_x86_feature_detected as has;
    match (crate::library::dot::has_fma(), crate::library::dot::has_avx512()) {
        (true, true) if has!("avx512dq") && has!("avx512vl") => Lanes::Avx512,
        (true, _) => Lanes::Avx2,
        _ => Lanes::Any,
    }
});
