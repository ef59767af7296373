//! Micro-kernels for AVX-512: up to 6 rows by four vectors, or 14 rows by one or two, in at most 28 registers.

use super::micro::Micro;
use std::arch::x86_64::*;

/// Calls `$run` for the number of rows and vectors at hand.
macro_rules! choose {
    ($run:ident, $call:ident, $packed:literal, $vectors:expr, [$($r:literal)*], [$($tall:literal)*]) => {
        match ($call.height, $vectors) {
            $(($r, 1) => $run::<$r, 1, $packed>($call),
              ($r, 2) => $run::<$r, 2, $packed>($call),
              ($r, 3) => $run::<$r, 3, $packed>($call),
              ($r, 4) => $run::<$r, 4, $packed>($call),)*
            $(($tall, 1) => $run::<$tall, 1, $packed>($call),
              ($tall, 2) => $run::<$tall, 2, $packed>($call),)*
            (height, vectors) => unreachable!("a tile of {height} rows by {vectors} vectors"),
        }
    };
}

/// Sums of a tile that are kept in registers only if they are copied before they are written.
const MANY: usize = 20;

macro_rules! kernel {
    ($tile:ident, $run:ident, $t:ty, $mask:ty, $lanes:literal, $zero:ident, $load:ident, $store:ident, $set:ident,
     $fma:ident, $add:ident, $mask_load:ident, $mask_store:ident) => {
        /// One tile; see [`Packed::micro`](super::micro::Packed::micro).
        ///
        /// # Safety
        /// AVX-512F is there; the rest as [`Packed::micro`](super::micro::Packed::micro).
        #[inline]
        pub(crate) unsafe fn $tile(call: &Micro<$t>) {
            let vectors = call.columns.div_ceil($lanes);
            // SAFETY: the caller's.
            unsafe {
                if call.a_row == 1 && call.height > 1 { choose!($run, call, true, vectors, [2 3 4 5 6], [7 8 9 10 11 12 13 14]) } else { choose!($run, call, false, vectors, [1 2 3 4 5 6], [7 8 9 10 11 12 13 14]) }
            }
        }

        /// A tile of `R` rows by `V` vectors. `PACKED`: the rows of `A` are neighbors; else its depth is contiguous
        /// (or there is only one row).
        ///
        /// # Safety
        /// As the kernel above, `call.height == R`, and `call.columns` are at most those of `V` vectors.
        #[target_feature(enable = "avx512f")]
        unsafe fn $run<const R: usize, const V: usize, const PACKED: bool>(call: &Micro<$t>) {
            // SAFETY: the caller vouches for all elements named.
            unsafe {
                let mut acc = [[$zero(); V]; R];
                let (mut a, mut b) = (call.a, call.b);
                let (row, step, next) = (call.a_row, call.a_step, call.b_step);
                for i in 0..call.rows {
                    for v in 0..V {
                        let at = call.c.offset(i as isize * call.c_row).wrapping_add(v * $lanes);
                        _mm_prefetch::<_MM_HINT_T0>(at.cast());
                    }
                }
                // Some 200 cycles ahead: what the third-level cache takes.
                let far = next * (200 / (R * V) + 4) as isize;
                let pair = |a: *const $t, b: *const $t, u: isize, acc: &mut [[_; V]; R]| {
                    let mut bs = [$zero(); V];
                    for v in 0..V {
                        _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(far).wrapping_add(v * $lanes).cast());
                        bs[v] = $load(b.add(v * $lanes));
                    }
                    for i in 0..R {
                        let at = if PACKED { i as isize } else { i as isize * row + u * step };
                        let x = $set(*a.offset(at));
                        for v in 0..V {
                            acc[i][v] = $fma(x, bs[v], acc[i][v]);
                        }
                    }
                };
                for _ in 0..call.depth / 2 {
                    pair(a, b, 0, &mut acc);
                    if PACKED {
                        a = a.offset(step);
                    }
                    pair(a, b.offset(next), 1, &mut acc);
                    a = a.offset(if PACKED { step } else { 2 * step });
                    b = b.offset(2 * next);
                }
                if call.depth % 2 == 1 {
                    pair(a, b, 0, &mut acc);
                }
                let mut tile = [[$zero(); V]; R];
                let sums = if R * V < MANY {
                    &acc
                } else {
                    // A loop of so many rows is not unrolled: sums that it indexes would be in memory all the time.
                    for (sums, to) in acc.iter().zip(&mut tile) {
                        for (&sum, to) in sums.iter().zip(to) {
                            $store(std::ptr::from_mut(to).cast(), sum);
                        }
                    }
                    &tile
                };
                for (i, sums) in sums.iter().enumerate().take(call.rows) {
                    let c = call.c.offset(i as isize * call.c_row);
                    for (v, &sum) in sums.iter().enumerate() {
                        let at = c.wrapping_add(v * $lanes);
                        let left = call.columns.saturating_sub(v * $lanes);
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
    tile_f32,
    run_f32,
    f32,
    __mmask16,
    16,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_maskz_loadu_ps,
    _mm512_mask_storeu_ps
);
kernel!(
    tile_f64,
    run_f64,
    f64,
    __mmask8,
    8,
    _mm512_setzero_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd,
    _mm512_maskz_loadu_pd,
    _mm512_mask_storeu_pd
);
