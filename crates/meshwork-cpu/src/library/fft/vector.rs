//! Vectors of the processor: as many lanes of one number type as its registers have.

use std::arch::x86_64::*;

/// Some lanes of `T`. Functions are to be called where the processor has the vectors only: their callers are compiled for it.
pub(super) trait Vector: Copy {
    type Number: Copy;
    const LANES: usize;

    /// # Safety
    /// The processor has these vectors, and `at` is valid for all lanes.
    unsafe fn load(at: *const Self::Number) -> Self;
    /// # Safety
    /// The processor has these vectors, and `at` is valid for all lanes.
    unsafe fn store(self, at: *mut Self::Number);
    /// # Safety
    /// The processor has these vectors.
    unsafe fn splat(x: Self::Number) -> Self;
    /// # Safety
    /// The processor has these vectors.
    unsafe fn add(self, b: Self) -> Self;
    /// # Safety
    /// The processor has these vectors.
    unsafe fn sub(self, b: Self) -> Self;
    /// # Safety
    /// The processor has these vectors.
    unsafe fn mul(self, b: Self) -> Self;
    /// `self b + c`.
    ///
    /// # Safety
    /// The processor has these vectors.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// `self b - c`.
    ///
    /// # Safety
    /// The processor has these vectors.
    unsafe fn mul_sub(self, b: Self, c: Self) -> Self;
    /// `c - self b`.
    ///
    /// # Safety
    /// The processor has these vectors.
    unsafe fn sub_mul(self, b: Self, c: Self) -> Self;
}

macro_rules! vectors {
    ($($v:ty, $t:ty, $lanes:expr, $load:ident $store:ident $set:ident $add:ident $sub:ident $mul:ident $fma:ident $fms:ident $fnma:ident;)*) => {$(
        impl Vector for $v {
            type Number = $t;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn load(at: *const $t) -> $v {
                // SAFETY: the caller's.
                unsafe { $load(at) }
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut $t) {
                // SAFETY: the caller's.
                unsafe { $store(at, self) }
            }
            #[inline(always)]
            unsafe fn splat(x: $t) -> $v {
                // SAFETY: the caller's.
                unsafe { $set(x) }
            }
            #[inline(always)]
            unsafe fn add(self, b: $v) -> $v {
                // SAFETY: the caller's.
                unsafe { $add(self, b) }
            }
            #[inline(always)]
            unsafe fn sub(self, b: $v) -> $v {
                // SAFETY: the caller's.
                unsafe { $sub(self, b) }
            }
            #[inline(always)]
            unsafe fn mul(self, b: $v) -> $v {
                // SAFETY: the caller's.
                unsafe { $mul(self, b) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, b: $v, c: $v) -> $v {
                // SAFETY: the caller's.
                unsafe { $fma(self, b, c) }
            }
            #[inline(always)]
            unsafe fn mul_sub(self, b: $v, c: $v) -> $v {
                // SAFETY: the caller's.
                unsafe { $fms(self, b, c) }
            }
            #[inline(always)]
            unsafe fn sub_mul(self, b: $v, c: $v) -> $v {
                // SAFETY: the caller's.
                unsafe { $fnma(self, b, c) }
            }
        }
    )*};
}
vectors! {
    __m512, f32, 16, _mm512_loadu_ps _mm512_storeu_ps _mm512_set1_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_fmadd_ps _mm512_fmsub_ps _mm512_fnmadd_ps;
    __m512d, f64, 8, _mm512_loadu_pd _mm512_storeu_pd _mm512_set1_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_fmadd_pd _mm512_fmsub_pd _mm512_fnmadd_pd;
    __m256, f32, 8, _mm256_loadu_ps _mm256_storeu_ps _mm256_set1_ps _mm256_add_ps _mm256_sub_ps _mm256_mul_ps _mm256_fmadd_ps _mm256_fmsub_ps _mm256_fnmadd_ps;
    __m256d, f64, 4, _mm256_loadu_pd _mm256_storeu_pd _mm256_set1_pd _mm256_add_pd _mm256_sub_pd _mm256_mul_pd _mm256_fmadd_pd _mm256_fmsub_pd _mm256_fnmadd_pd;
}
