//! `f16` on a unit that multiplies `bf16`: each number is the sum of two of them, exactly.
//!
//! A number has 11 bits, a `bf16` 8: the first part is the number rounded, the second what is left, three bits of it. A word of `A`
//! holds both parts of one number; words of `B` hold the first part twice, and in the next tile the second part twice. So two
//! tiles of 16 numbers sum all four products of parts. What is not finite has no second part. Its products with parts that are
//! zero are NaN, so that a block of sums with a NaN is [computed again](again) from the numbers.

use std::arch::x86_64::*;
use std::ops::Range;

use super::pack::{Matrix, Pack};
use super::source::Source;
use super::unit::{PANEL, ROW, ROWS, Sums, TILE};

/// `f16` as its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Split {
    /// Both parts of each number, for `A`.
    Both,
    /// One part twice, for `B`: the first, or the second.
    First,
    Second,
}

impl Split {
    /// The words of `n` neighbors.
    ///
    /// # Safety
    /// As [`Source::along`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn words(self, from: *const u8, n: usize) -> __m512i {
        let mask = ((1u32 << n) - 1) as u16;
        // SAFETY: the caller's.
        let number = _mm512_cvtph_ps(unsafe { _mm256_maskz_loadu_epi16(mask, from.cast()) });
        // SAFETY: both are 32 bytes.
        let rounded: __m256i = unsafe { std::mem::transmute(_mm512_cvtneps_pbh(number)) };
        let low = _mm512_cvtepu16_epi32(rounded);
        let first = _mm512_slli_epi32::<16>(low);
        let infinity = _mm512_set1_ps(f32::INFINITY);
        let is_finite = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(_mm512_abs_ps(number), infinity);
        let second = _mm512_castps_si512(_mm512_maskz_sub_ps(is_finite, number, _mm512_castsi512_ps(first)));
        match self {
            Split::Both => _mm512_or_si512(low, second),
            Split::First => _mm512_or_si512(low, first),
            Split::Second => _mm512_or_si512(_mm512_srli_epi32::<16>(second), second),
        }
    }
}

impl Source for Split {
    const SIZE: usize = 2;
    const TERMS: usize = 1;
    const PASSES: usize = 2;

    fn in_pass(self, pass: usize) -> Split {
        match (self, pass) {
            (Split::Both, _) => Split::Both,
            (_, 0) => Split::First,
            _ => Split::Second,
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn along(self, from: *const u8, n: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { self.words(from, n) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn across(self, lines: &[*const u8], n: usize) -> __m512i {
        match lines {
            // SAFETY: the caller's.
            [line, ..] => unsafe { self.words(*line, n) },
            [] => _mm512_setzero_si512(),
        }
    }
}

/// Whether one of the sums is NaN.
pub(super) fn has_nan(sums: &Sums, rows: usize, columns: usize) -> bool {
    let is_nan = |half: usize| {
        sums.0[half].iter().flatten().fold(false, |found, &bits| found | (bits & 0x7FFF_FFFF > 0x7F80_0000))
    };
    // What is beyond the last row or column is not written.
    (0..4).any(|half| half / 2 * ROWS < rows && half % 2 * ROWS < columns && is_nan(half))
}

/// Tiles of the depth that are packed at a time: two of the same numbers.
const BOTH: usize = 2;

/// A panel of both tiles.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Panel([[[u32; ROW / 4]; ROWS]; 2 * BOTH]);

impl Panel {
    /// # Safety
    /// As [`Pack::pack`].
    unsafe fn packed(pack: &dyn Pack, m: &Matrix<'_>, outer: Range<usize>, tile: usize) -> Panel {
        let mut panel = Panel([[[0; ROW / 4]; ROWS]; 2 * BOTH]);
        // SAFETY: the caller's; a panel has at most two tiles of each depth.
        unsafe { pack.pack(m, outer, tile..tile + BOTH, panel.0.as_mut_ptr().cast(), BOTH * 2 * TILE) };
        panel
    }
}

/// The sums of the rows `rows` and the columns `columns`, a panel each, over all `tiles` of the depth, by the numbers themselves.
///
/// # Safety
/// As [`Pack::pack`].
pub(super) unsafe fn again(
    (a, a_pack): (&Matrix<'_>, &dyn Pack),
    (b, b_pack): (&Matrix<'_>, &dyn Pack),
    (rows, columns): (Range<usize>, Range<usize>),
    tiles: usize,
) -> Sums {
    let mut sums = [[0f32; PANEL]; PANEL];
    let (a_tiles, b_tiles) = (rows.len().div_ceil(ROWS), columns.len().div_ceil(ROWS));
    let high = |word: u32| f32::from_bits(word & 0xFFFF_0000);
    for tile in (0..tiles).step_by(BOTH) {
        // SAFETY: the caller's.
        let (a, b) = unsafe {
            (Panel::packed(a_pack, a, rows.clone(), tile).0, Panel::packed(b_pack, b, columns.clone(), tile).0)
        };
        for k in 0..ROWS {
            let mut line = [0f32; PANEL];
            for (j, v) in line.iter_mut().enumerate().take(b_tiles * ROWS) {
                let part = |pass: usize| high(b[pass * b_tiles + j / ROWS][k][j % ROWS]);
                *v = part(0) + part(1);
            }
            for (i, sums) in sums.iter_mut().enumerate().take(a_tiles * ROWS) {
                let word = a[i / ROWS][i % ROWS][k];
                let number = high(word << 16) + high(word);
                (0..PANEL).for_each(|j| sums[j] += number * line[j]);
            }
        }
    }
    let mut out = Sums([[[0; ROWS]; ROWS]; 4]);
    for (i, j) in (0..PANEL).flat_map(|i| (0..PANEL).map(move |j| (i, j))) {
        out.0[i / ROWS * 2 + j / ROWS][i % ROWS][j % ROWS] = sums[i][j].to_bits();
    }
    out
}
