//! The numbers of linear algebra, real and complex, and loops over rows of them.

use meshwork_ir::ElementType;
use rustfft::num_complex::{self, Complex};
use rustfft::num_traits::{Float, Zero};

use super::schur;
use crate::library::dot::micro::Tile;

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

    /// The eigenvalues on the diagonal of a Schur form.
    fn eigenvalues(t: &[Self], n: usize) -> Vec<Complex<Self::Real>>;

    /// `|re| + |im|`.
    fn size(self) -> Self::Real {
        self.re().abs() + self.im().abs()
    }
}

macro_rules! fields {
    ($($real:ty, $elem:ident, $complex_elem:ident;)*) => {$(
        impl Field for $real {
            const ELEM: ElementType = ElementType::$elem;
            #[inline(always)]
            fn new(re: $real, _: $real) -> $real {
                re
            }
            fn schur(t: &mut [$real], z: &mut [$real], n: usize) -> bool {
                schur::real(t, z, n)
            }
            fn eigenvalues(t: &[$real], n: usize) -> Vec<Complex<$real>> {
                schur::eigenvalues(t, n)
            }
        }

        impl Field for Complex<$real> {
            const ELEM: ElementType = ElementType::$complex_elem;
            #[inline(always)]
            fn new(re: $real, im: $real) -> Complex<$real> {
                Complex { re, im }
            }
            fn schur(t: &mut [Self], z: &mut [Self], n: usize) -> bool {
                schur::complex(t, z, n)
            }
            fn eigenvalues(t: &[Self], n: usize) -> Vec<Self> {
                (0..n).map(|k| t[k * n + k]).collect()
            }
        }
    )*};
}
fields! { f32, F32, C64; f64, F64, C128; }

/// `y -= factor x`.
#[inline(always)]
pub(super) fn subtract<T: Field>(y: &mut [T], factor: T, x: &[T]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = *y - factor * x);
}

/// The Euclidean norm, without overflow.
pub(super) fn norm<T: Field>(values: impl Iterator<Item = T> + Clone) -> T::Real {
    let larger = |most: T::Real, v: T| if v.size() <= most { most } else { v.size() };
    let most = values.clone().fold(T::Real::zero(), larger);
    if most.is_zero() || !most.is_finite() {
        return most;
    }
    let square = |v: T| (v.re() / most).powi(2) + (v.im() / most).powi(2);
    most * values.fold(T::Real::zero(), |sum, v| sum + square(v)).sqrt()
}

/// Runs `f` compiled for AVX2 and FMA where the processor has them.
#[inline(always)]
pub(super) fn wide<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn inside<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        if crate::library::dot::has_fma() {
            // SAFETY: the processor has both.
            return unsafe { inside(f) };
        }
    }
    f()
}
