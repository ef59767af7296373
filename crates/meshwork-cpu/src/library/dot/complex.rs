//! Micro-kernels of complex numbers for AVX-512: up to 6 rows by two vectors, in 24 registers.
//!
//! Rows of `B` are real and imaginary parts in turn. They are multiplied by the real parts of `A` and by its imaginary parts, which
//! are sums of their own, put together at the end.

use super::micro::{LONG_SUM, Micro};
use crate::library::num::Complex;
use std::arch::x86_64::*;

/// Calls `$run` for the number of rows and vectors at hand.
macro_rules! choose {
    ($run:ident, $call:ident, $fused:literal, $vectors:expr, [$($r:literal)*]) => {
        match ($call.height, $vectors) {
            $(($r, 1) => $run::<$r, 1, $fused>($call),
              ($r, 2) => $run::<$r, 2, $fused>($call),)*
            (height, vectors) => unreachable!("a tile of {height} rows by {vectors} vectors of complex numbers"),
        }
    };
}

macro_rules! kernel {
    ($tile:ident, $run:ident, $t:ty, $mask:ty, $lanes:literal, $zero:ident, $load:ident, $store:ident, $set:ident,
     $fma:ident, $mul:ident, $add:ident, $addsub:ident, $swap:ident::<$order:literal>, $mask_load:ident, $mask_store:ident) => {
        /// One tile; see [`Packed::micro`](super::micro::Packed::micro).
        ///
        /// # Safety
        /// AVX-512F is there; the rest as [`Packed::micro`](super::micro::Packed::micro).
        #[inline]
        pub(crate) unsafe fn $tile(call: &Micro<Complex<$t>>) {
            let vectors = (2 * call.columns).div_ceil($lanes);
            // SAFETY: the caller's.
            unsafe {
                if call.depth >= LONG_SUM {
                    choose!($run, call, true, vectors, [1 2 3 4 5 6])
                } else {
                    choose!($run, call, false, vectors, [1 2 3 4 5 6])
                }
            }
        }

        /// A tile of `R` rows by `V` vectors. `FUSED`: products are not rounded before they are added.
        ///
        /// # Safety
        /// As the kernel above, `call.height == R`, and `call.columns` are at most those of `V` vectors.
        #[target_feature(enable = "avx512f")]
        unsafe fn $run<const R: usize, const V: usize, const FUSED: bool>(call: &Micro<Complex<$t>>) {
            // SAFETY: the caller vouches for all elements named.
            unsafe {
                let mut by_real = [[$zero(); V]; R];
                let mut by_imaginary = [[$zero(); V]; R];
                let (mut a, mut b) = (call.a, call.b);
                for _ in 0..call.depth {
                    let mut bs = [$zero(); V];
                    for v in 0..V {
                        bs[v] = $load(b.cast::<$t>().add(v * $lanes));
                    }
                    for i in 0..R {
                        let x = a.offset(i as isize * call.a_row);
                        let (re, im) = ($set((*x).re), $set((*x).im));
                        for v in 0..V {
                            if FUSED {
                                by_real[i][v] = $fma(re, bs[v], by_real[i][v]);
                                by_imaginary[i][v] = $fma(im, bs[v], by_imaginary[i][v]);
                            } else {
                                by_real[i][v] = $add(by_real[i][v], $mul(re, bs[v]));
                                by_imaginary[i][v] = $add(by_imaginary[i][v], $mul(im, bs[v]));
                            }
                        }
                    }
                    (a, b) = (a.offset(call.a_step), b.offset(call.b_step));
                }
                for i in 0..call.rows.min(R) {
                    let c = call.c.offset(i as isize * call.c_row).cast::<$t>();
                    for v in 0..V {
                        // Real parts are differences, imaginary parts are sums.
                        let crossed = $swap::<$order>(by_imaginary[i][v]);
                        let sum = $addsub(by_real[i][v], $set(1.0), crossed);
                        let at = c.wrapping_add(v * $lanes);
                        let left = (2 * call.columns).saturating_sub(v * $lanes);
                        if left >= $lanes {
                            $store(at, if call.add { $add($load(at), sum) } else { sum });
                        } else if left > 0 {
                            let mask = <$mask>::MAX >> ($lanes - left);
                            $mask_store(at, mask, if call.add { $add($mask_load(mask, at), sum) } else { sum });
                        }
                    }
                }
            }
        }
    };
}

kernel!(
    tile_c64,
    run_c64,
    f32,
    __mmask16,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_mul_ps,
    _mm512_add_ps,
    _mm512_fmaddsub_ps,
    _mm512_permute_ps::<0xB1>,
    _mm512_maskz_loadu_ps,
    _mm512_mask_storeu_ps
);
kernel!(
    tile_c128,
    run_c128,
    f64,
    __mmask8,
    8,
    _mm512_setzero_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm512_mul_pd,
    _mm512_add_pd,
    _mm512_fmaddsub_pd,
    _mm512_permute_pd::<0x55>,
    _mm512_maskz_loadu_pd,
    _mm512_mask_storeu_pd
);
