//! Micro-kernels for AVX2 with FMA: up to 6 rows by two vectors in twelve registers.

use super::micro::Micro;
use std::arch::x86_64::*;

/// Taps of one sum: long ones are sums of such sums, so that they round less.
const TAPS: usize = 1024;

macro_rules! kernel {
    ($tile:ident, $run:ident, $t:ty, $lanes:literal, $zero:ident, $load:ident, $store:ident, $set:ident,
     $fma:ident, $add:ident) => {
        /// One tile; see [`Packed::micro`](super::micro::Packed::micro).
        ///
        /// # Safety
        /// AVX2 and FMA are there; the rest as [`Packed::micro`](super::micro::Packed::micro).
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

        /// A tile of `R` rows. `PACKED`: the rows of `A` are neighbors; else its depth is contiguous (or there is
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

/// The sums of the lanes of four vectors.
#[target_feature(enable = "avx2")]
fn sums_ps(v: [__m256; 4]) -> [f32; 4] {
    let pairs = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    let all = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    // SAFETY: both are 16 bytes of numbers.
    unsafe { std::mem::transmute(all) }
}

/// The sums of the lanes of four vectors.
#[target_feature(enable = "avx2")]
fn sums_pd(v: [__m256d; 4]) -> [f64; 4] {
    let (low, high) = (_mm256_hadd_pd(v[0], v[1]), _mm256_hadd_pd(v[2], v[3]));
    let straight = _mm256_blend_pd(low, high, 0b1100);
    let all = _mm256_add_pd(straight, _mm256_permute2f128_pd(low, high, 0x21));
    // SAFETY: both are 32 bytes of numbers.
    unsafe { std::mem::transmute(all) }
}

/// A mask of the first `n` of eight lanes.
#[target_feature(enable = "avx2")]
fn first_ps(n: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// A mask of the first `n` of four lanes.
#[target_feature(enable = "avx2")]
fn first_pd(n: usize) -> __m256i {
    _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3))
}

macro_rules! vectors {
    ($dot:ident, $dots:ident, $many:ident, $sums:ident, $first:ident, $masked:ident, $columns:ident, $taps:ident, $t:ty, $vector:ty, $lanes:literal, $zero:ident, $load:ident, $store:ident, $set:ident,
     $fma:ident, $add:ident) => {
        /// See [`Tile::dot`](super::micro::Tile::dot).
        ///
        /// # Safety
        /// AVX2 and FMA are there; the rest as there.
        #[target_feature(enable = "avx2,fma")]
        pub(crate) unsafe fn $dot(a: *const $t, x: *const $t, n: usize) -> $t {
            // SAFETY: the caller vouches for all elements named.
            unsafe {
                let mut acc = [$zero(); 8];
                let mut k = 0;
                while k + 8 * $lanes <= n {
                    for u in 0..8 {
                        acc[u] = $fma($load(a.add(k + u * $lanes)), $load(x.add(k + u * $lanes)), acc[u]);
                    }
                    k += 8 * $lanes;
                }
                while k + $lanes <= n {
                    acc[0] = $fma($load(a.add(k)), $load(x.add(k)), acc[0]);
                    k += $lanes;
                }
                let (s0, s1) = ($add(acc[0], acc[1]), $add(acc[2], acc[3]));
                let (s2, s3) = ($add(acc[4], acc[5]), $add(acc[6], acc[7]));
                let mut lanes = [0.0; $lanes];
                $store(lanes.as_mut_ptr(), $add($add(s0, s1), $add(s2, s3)));
                let mut sum = 0.0;
                while k < n {
                    sum += *a.add(k) * *x.add(k);
                    k += 1;
                }
                sum + lanes.iter().sum::<$t>()
            }
        }

        /// See [`Tile::dots`](super::micro::Tile::dots).
        ///
        /// # Safety
        /// AVX2 and FMA are there; the rest as there.
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        pub(crate) unsafe fn $dots(a: *const $t, row: isize, x: *const $t, n: usize) -> [$t; 4] {
            // SAFETY: the caller vouches for all elements named; masks leave out what is not.
            unsafe {
                let rows = [a, a.offset(row), a.offset(2 * row), a.offset(3 * row)];
                let (mut even, mut odd) = ([$zero(); 4], [$zero(); 4]);
                let mut k = 0;
                while k + 2 * $lanes <= n {
                    let (x0, x1) = ($load(x.add(k)), $load(x.add(k + $lanes)));
                    for r in 0..4 {
                        even[r] = $fma($load(rows[r].add(k)), x0, even[r]);
                        odd[r] = $fma($load(rows[r].add(k + $lanes)), x1, odd[r]);
                    }
                    k += 2 * $lanes;
                }
                if k + $lanes <= n {
                    let x0 = $load(x.add(k));
                    for r in 0..4 {
                        even[r] = $fma($load(rows[r].add(k)), x0, even[r]);
                    }
                    k += $lanes;
                }
                if k < n {
                    let rest = $first(n - k);
                    let x1 = $masked(x.add(k), rest);
                    for r in 0..4 {
                        odd[r] = $fma($masked(rows[r].add(k), rest), x1, odd[r]);
                    }
                }
                $sums(std::array::from_fn(|r| $add(even[r], odd[r])))
            }
        }

        /// See [`Tile::many_dots`](super::micro::Tile::many_dots).
        ///
        /// # Safety
        /// AVX2 and FMA are there; the rest as there.
        #[target_feature(enable = "avx2,fma")]
        pub(crate) unsafe fn $many((a, row): (*const $t, isize), x: *const $t, n: usize, y: *mut $t, fours: usize) {
            for i in 0..fours {
                // SAFETY: the caller vouches for all elements named.
                unsafe {
                    let sums = $dots(a.offset(4 * i as isize * row), row, x, n);
                    y.add(4 * i).cast::<[$t; 4]>().write_unaligned(sums);
                }
            }
        }

        /// See [`Tile::add_columns`](super::micro::Tile::add_columns).
        ///
        /// # Safety
        /// AVX2 and FMA are there; the rest as there.
        #[target_feature(enable = "avx2,fma")]
        pub(crate) unsafe fn $columns(y: *mut $t, m: [*const $t; 4], x: [$t; 4], n: usize) {
            // SAFETY: the caller vouches for all elements named.
            unsafe {
                let v = [$set(x[0]), $set(x[1]), $set(x[2]), $set(x[3])];
                let mut i = 0;
                while i + $lanes <= n {
                    let even = $fma($load(m[0].add(i)), v[0], $load(y.add(i)));
                    let even = $fma($load(m[1].add(i)), v[1], even);
                    let even = $fma($load(m[2].add(i)), v[2], even);
                    $store(y.add(i), $fma($load(m[3].add(i)), v[3], even));
                    i += $lanes;
                }
                while i < n {
                    let sum = *m[0].add(i) * x[0] + *m[1].add(i) * x[1] + *m[2].add(i) * x[2] + *m[3].add(i) * x[3];
                    *y.add(i) += sum;
                    i += 1;
                }
            }
        }

        /// See [`Tile::sum_taps`](super::micro::Tile::sum_taps).
        ///
        /// # Safety
        /// AVX2 and FMA are there; the rest as there.
        #[target_feature(enable = "avx2,fma")]
        pub(crate) unsafe fn $taps(
            taps: &[[isize; 2]],
            (x, w): (*const u8, *const u8),
            one_weight: bool,
            out: *mut $t,
            n: usize,
        ) -> usize {
            /// `WIDE` vectors at once, and so many taps that there are four sums.
            ///
            /// # Safety
            /// As that of the function around it.
            #[target_feature(enable = "avx2,fma")]
            unsafe fn sum<const WIDE: usize, const ONE: bool>(
                taps: &[[isize; 2]],
                (x, w): (*const $t, *const $t),
                out: *mut $t,
            ) {
                let beside = 4 / WIDE;
                let (first, rest) = taps.split_at(taps.len().min(TAPS));
                let mut total = [$zero(); 4];
                // SAFETY: the caller vouches for all elements named, here and below.
                unsafe { sum_block::<WIDE, ONE>(first, (x, w), &mut total) };
                for block in rest.chunks(TAPS) {
                    let mut acc = [$zero(); 4];
                    // SAFETY: as above.
                    unsafe { sum_block::<WIDE, ONE>(block, (x, w), &mut acc) };
                    for u in 0..4 {
                        total[u] = $add(total[u], acc[u]);
                    }
                }
                for u in 0..WIDE {
                    let sum = (1..beside).fold(total[u], |sum, at| $add(sum, total[at * WIDE + u]));
                    // SAFETY: as above.
                    unsafe { $store(out.add(u * $lanes), sum) };
                }
            }
            /// Adds the products of some taps.
            ///
            /// # Safety
            /// As that of the function around it.
            #[inline]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn sum_block<const WIDE: usize, const ONE: bool>(
                taps: &[[isize; 2]],
                xw: (*const $t, *const $t),
                to: &mut [$vector; 4],
            ) {
                let (beside, mut acc) = (4 / WIDE, *to);
                let groups = taps.chunks_exact(beside);
                for tap in groups.remainder() {
                    // SAFETY: the caller vouches for all elements named.
                    unsafe { add::<WIDE, ONE>(&mut acc, *tap, xw) };
                }
                for group in groups {
                    for at in 0..beside {
                        // SAFETY: as above.
                        unsafe { add::<WIDE, ONE>(&mut acc[at * WIDE..], group[at], xw) };
                    }
                }
                *to = acc;
            }
            /// Adds the products of one tap.
            ///
            /// # Safety
            /// As that of the function around it.
            #[inline]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn add<const WIDE: usize, const ONE: bool>(
                acc: &mut [$vector],
                [dx, dw]: [isize; 2],
                (x, w): (*const $t, *const $t),
            ) {
                // SAFETY: the caller vouches for all elements named.
                unsafe {
                    let (x, w) = (x.byte_offset(dx), w.byte_offset(dw));
                    for u in 0..WIDE {
                        let weight = if ONE { $set(*w) } else { $load(w.add(u * $lanes)) };
                        acc[u] = $fma($load(x.add(u * $lanes)), weight, acc[u]);
                    }
                }
            }
            if n < $lanes {
                return 0;
            }
            let mut i = 0;
            while i < n {
                // The last vector ends where the line does.
                let wide = [4, 2, 1].into_iter().find(|w| i + w * $lanes <= n);
                let at = if wide.is_some() { i } else { n - $lanes };
                // SAFETY: the caller vouches for all elements named.
                unsafe {
                    let (x, w, out) = (x.cast::<$t>().add(at), w.cast::<$t>(), out.add(at));
                    let w = if one_weight { w } else { w.add(at) };
                    match (wide, one_weight) {
                        (Some(4), true) => sum::<4, true>(taps, (x, w), out),
                        (Some(4), false) => sum::<4, false>(taps, (x, w), out),
                        (Some(2), true) => sum::<2, true>(taps, (x, w), out),
                        (Some(2), false) => sum::<2, false>(taps, (x, w), out),
                        (_, true) => sum::<1, true>(taps, (x, w), out),
                        (_, false) => sum::<1, false>(taps, (x, w), out),
                    }
                }
                i = at + wide.unwrap_or(1) * $lanes;
            }
            n
        }
    };
}

vectors!(
    dot_f32,
    dots_f32,
    many_f32,
    sums_ps,
    first_ps,
    _mm256_maskload_ps,
    columns_f32,
    taps_f32,
    f32,
    __m256,
    8,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps
);
vectors!(
    dot_f64,
    dots_f64,
    many_f64,
    sums_pd,
    first_pd,
    _mm256_maskload_pd,
    columns_f64,
    taps_f64,
    f64,
    __m256d,
    4,
    _mm256_setzero_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd
);
