//! Micro-kernels of words: up to 12 rows by two vectors with AVX-512, 6 rows by two with AVX2.
//!
//! Both operands are packed.

use super::micro::{Micro, Packed};
use super::words::{Bytes, Shorts};
use std::arch::x86_64::*;

/// `sum + a b`; see [`Bytes`].
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot_bytes<const SIGNED: bool>(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    if SIGNED { _mm512_dpbusd_epi32(sum, a, b) } else { _mm512_dpbusd_epi32(sum, b, a) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot_shorts<const _S: bool>(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_dpwssd_epi32(sum, a, b)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn dot_halves<const _S: bool>(sum: __m512, a: __m512i, b: __m512i) -> __m512 {
    // SAFETY: both are 32 `bf16`, whatever their type is called.
    unsafe {
        _mm512_dpbf16_ps(sum, std::mem::transmute::<__m512i, __m512bh>(a), std::mem::transmute::<__m512i, __m512bh>(b))
    }
}

macro_rules! kernel {
    ($run:ident, $sum:ty, $features:literal, $dot:ident, $zero:ident, $load:ident, $store:ident, $add:ident, $sub:ident,
     $mask_load:ident, $mask_store:ident) => {
        /// A tile of `R` rows by `V` vectors. `OFFSET`: the sums of the columns times the bytes `offset` are subtracted.
        ///
        /// # Safety
        /// The features are there; `call.height == R`, `call.columns` are at most those of `V` vectors, and both
        /// operands are packed; the rest as [`Packed::micro`].
        #[target_feature(enable = $features)]
        unsafe fn $run<
            T: Packed<Sum = $sum>,
            const SIGNED: bool,
            const OFFSET: bool,
            const R: usize,
            const V: usize,
        >(
            call: &Micro<T>,
            offset: i8,
        ) {
            // SAFETY: the caller vouches for all elements named.
            unsafe {
                let (mut a, mut b) = (call.a.cast::<i32>(), call.b.cast::<i32>());
                let mut acc = [[$zero(); V]; R];
                let mut off = [$zero(); V];
                let offset = _mm512_set1_epi8(offset);
                for i in 0..call.rows {
                    for v in 0..V {
                        let at = call.c.offset(i as isize * call.c_row).wrapping_add(v * 16);
                        _mm_prefetch::<_MM_HINT_T0>(at.cast());
                    }
                }
                let far = call.b_step * (200 / (R * V) + 4) as isize;
                for _ in 0..call.depth {
                    let mut bs = [_mm512_setzero_si512(); V];
                    for v in 0..V {
                        _mm_prefetch::<_MM_HINT_T0>(b.wrapping_offset(far).wrapping_add(v * 16).cast());
                        bs[v] = _mm512_loadu_si512(b.add(v * 16).cast());
                        if OFFSET {
                            off[v] = $dot::<SIGNED>(off[v], offset, bs[v]);
                        }
                    }
                    for i in 0..R {
                        let x = _mm512_set1_epi32(*a.add(i));
                        for v in 0..V {
                            acc[i][v] = $dot::<SIGNED>(acc[i][v], x, bs[v]);
                        }
                    }
                    a = a.offset(call.a_step);
                    b = b.offset(call.b_step);
                }
                for (i, sums) in acc.iter().enumerate().take(call.rows) {
                    let c = call.c.offset(i as isize * call.c_row);
                    for (v, &sum) in sums.iter().enumerate() {
                        let sum = if OFFSET { $sub(sum, off[v]) } else { sum };
                        let at = c.wrapping_add(v * 16);
                        let left = call.columns.saturating_sub(v * 16);
                        if left >= 16 {
                            $store(at.cast(), if call.add { $add($load(at.cast()), sum) } else { sum });
                        } else if left > 0 {
                            let mask = __mmask16::MAX >> (16 - left);
                            let sum = if call.add { $add($mask_load(mask, at.cast()), sum) } else { sum };
                            $mask_store(at.cast(), mask, sum);
                        }
                    }
                }
            }
        }
    };
}

/// Calls `$run` for the number of rows and vectors at hand.
macro_rules! choose {
    ($run:ident, $call:ident, $t:ty, $signed:tt, $has_offset:tt, $offset:expr, [$($r:literal)*]) => {
        match ($call.height, $call.columns > 16) {
            $(($r, false) => $run::<$t, { $signed }, { $has_offset }, $r, 1>($call, $offset),
              ($r, true) => $run::<$t, { $signed }, { $has_offset }, $r, 2>($call, $offset),)*
            (height, _) => unreachable!("a tile of {height} rows"),
        }
    };
}

kernel!(
    run_bytes,
    i32,
    "avx512f,avx512vnni",
    dot_bytes,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_add_epi32,
    _mm512_sub_epi32,
    _mm512_maskz_loadu_epi32,
    _mm512_mask_storeu_epi32
);
kernel!(
    run_shorts,
    i32,
    "avx512f,avx512vnni",
    dot_shorts,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_add_epi32,
    _mm512_sub_epi32,
    _mm512_maskz_loadu_epi32,
    _mm512_mask_storeu_epi32
);
kernel!(
    run_halves,
    f32,
    "avx512f,avx512bf16",
    dot_halves,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_add_ps,
    _mm512_sub_ps,
    _mm512_maskz_loadu_ps,
    _mm512_mask_storeu_ps
);

/// One tile of [`Bytes`]. Those without an offset have one of 0, so that few loops are compiled.
///
/// # Safety
/// AVX-512 VNNI is there; the rest as [`Packed::micro`].
pub(super) unsafe fn tile_bytes<const SIGNED: bool>(call: &Micro<Bytes<SIGNED, true>>, offset: i8) {
    // SAFETY: the caller's.
    unsafe { choose!(run_bytes, call, Bytes<SIGNED, true>, SIGNED, true, offset, [1 2 3 4 5 6 7 8 9 10 11 12]) }
}

/// One tile of [`Shorts`].
///
/// # Safety
/// AVX-512 VNNI is there; the rest as [`Packed::micro`].
pub(super) unsafe fn tile_shorts<T: Packed<Sum = i32>>(call: &Micro<T>) {
    // SAFETY: the caller's.
    unsafe { choose!(run_shorts, call, T, false, false, 0, [1 2 3 4 5 6 7 8 9 10 11 12]) }
}

/// One tile of [`Halves`](super::words::Halves).
///
/// # Safety
/// AVX-512 BF16 is there; the rest as [`Packed::micro`].
pub(super) unsafe fn tile_halves<T: Packed<Sum = f32>>(call: &Micro<T>) {
    // SAFETY: the caller's.
    unsafe { choose!(run_halves, call, T, false, false, 0, [1 2 3 4 5 6 7 8 9 10 11 12]) }
}

/// One tile of [`Shorts`] with AVX2, at most 6 rows by 16 columns.
///
/// # Safety
/// AVX2 is there; the rest as [`Packed::micro`].
pub(super) unsafe fn narrow_shorts(call: &Micro<Shorts>) {
    // SAFETY: the caller's.
    unsafe {
        match call.height {
            1 => run_narrow::<1>(call),
            2 => run_narrow::<2>(call),
            3 => run_narrow::<3>(call),
            4 => run_narrow::<4>(call),
            5 => run_narrow::<5>(call),
            6 => run_narrow::<6>(call),
            height => unreachable!("a tile of {height} rows"),
        }
    }
}

/// A tile of `R` rows.
///
/// # Safety
/// As [`narrow_shorts`], and `call.height == R`.
#[target_feature(enable = "avx2")]
unsafe fn run_narrow<const R: usize>(call: &Micro<Shorts>) {
    // SAFETY: the caller vouches for all elements named.
    unsafe {
        let (mut a, mut b) = (call.a.cast::<i32>(), call.b.cast::<__m256i>());
        let mut acc = [[_mm256_setzero_si256(); 2]; R];
        for _ in 0..call.depth {
            let bs = [_mm256_loadu_si256(b), _mm256_loadu_si256(b.add(1))];
            for i in 0..R {
                let x = _mm256_set1_epi32(*a.add(i));
                for v in 0..2 {
                    acc[i][v] = _mm256_add_epi32(acc[i][v], _mm256_madd_epi16(x, bs[v]));
                }
            }
            a = a.offset(call.a_step);
            b = b.byte_offset(call.b_step * 4);
        }
        let tile: [[i32; 16]; R] = std::mem::transmute_copy(&acc);
        call.finish(&tile);
    }
}
