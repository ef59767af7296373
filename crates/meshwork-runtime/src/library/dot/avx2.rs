//! Micro-kernels for AVX2 with FMA: up to 6 rows by two vectors in twelve registers.

use super::micro::Micro;
use std::arch::x86_64::*;

macro_rules! kernel {
    ($tile:ident, $run:ident, $t:ty, $lanes:literal, $zero:ident, $load:ident, $store:ident, $set:ident,
     $fma:ident, $add:ident) => {
        /// One tile; see [`Tile::micro`](super::micro::Tile::micro).
        ///
        /// # Safety
        /// AVX2 and FMA are there; the rest as [`Tile::micro`](super::micro::Tile::micro).
        #[inline]
        pub(crate) unsafe fn $tile(call: &Micro<$t>) {
            // SAFETY: the caller's.
            unsafe {
                match (call.height, call.a_row == 1) {
                    (1, _) => $run::<1, false>(call),
                    (2, true) => $run::<2, true>(call),
                    (2, false) => $run::<2, false>(call),
                    (3, true) => $run::<3, true>(call),
                    (3, false) => $run::<3, false>(call),
                    (4, true) => $run::<4, true>(call),
                    (4, false) => $run::<4, false>(call),
                    (5, true) => $run::<5, true>(call),
                    (5, false) => $run::<5, false>(call),
                    (_, true) => $run::<6, true>(call),
                    (_, false) => $run::<6, false>(call),
                }
            }
        }

        /// A tile of `R` rows. `PACKED`: the rows of `A` are neighbours; else its depth is contiguous (or there is
        /// only one row).
        ///
        /// # Safety
        /// As the kernel above, and `call.height == R`.
        #[target_feature(enable = "avx2,fma")]
        unsafe fn $run<const R: usize, const PACKED: bool>(call: &Micro<$t>) {
            // SAFETY: the caller vouches for all elements named.
            unsafe {
                let mut acc = [[$zero(); 2]; R];
                let (mut a, mut b) = (call.a, call.b);
                let (row, step, next) = (call.a_row, call.a_step, call.b_step);
                for i in 0..call.rows {
                    _mm_prefetch::<_MM_HINT_T0>(call.c.offset(i as isize * call.c_row).cast());
                }
                let far = next * 32;
                for _ in 0..call.depth / 4 {
                    for u in 0..4 {
                        _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(far).cast());
                        let (b0, b1) = ($load(b), $load(b.add($lanes)));
                        for i in 0..R {
                            let x = if PACKED { *a.add(i) } else { *a.offset(i as isize * row + u * step) };
                            let x = $set(x);
                            acc[i][0] = $fma(x, b0, acc[i][0]);
                            acc[i][1] = $fma(x, b1, acc[i][1]);
                        }
                        if PACKED {
                            a = a.offset(step);
                        }
                        b = b.offset(next);
                    }
                    if !PACKED {
                        a = a.offset(4 * step);
                    }
                }
                for _ in 0..call.depth % 4 {
                    let (b0, b1) = ($load(b), $load(b.add($lanes)));
                    for i in 0..R {
                        let x = $set(*a.offset(i as isize * row));
                        acc[i][0] = $fma(x, b0, acc[i][0]);
                        acc[i][1] = $fma(x, b1, acc[i][1]);
                    }
                    a = a.offset(step);
                    b = b.offset(next);
                }
                if call.columns == 2 * $lanes {
                    for (i, sums) in acc.iter().enumerate() {
                        if i < call.rows {
                            let c = call.c.offset(i as isize * call.c_row);
                            for (j, &sum) in sums.iter().enumerate() {
                                let at = c.add(j * $lanes);
                                $store(at, if call.add { $add($load(at), sum) } else { sum });
                            }
                        }
                    }
                } else {
                    let mut tile = [[0.0; 2 * $lanes]; R];
                    for (sums, row) in acc.iter().zip(&mut tile) {
                        $store(row.as_mut_ptr(), sums[0]);
                        $store(row.as_mut_ptr().add($lanes), sums[1]);
                    }
                    call.finish(&tile);
                }
            }
        }
    };
}

kernel!(
    tile_f32,
    run_f32,
    f32,
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps
);
kernel!(
    tile_f64,
    run_f64,
    f64,
    4,
    _mm256_setzero_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd
);
