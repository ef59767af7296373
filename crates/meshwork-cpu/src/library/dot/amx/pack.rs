//! Packing: the tiles of an operand in the order in which products read them.
//!
//! A panel is 32 rows of `A` or columns of `B` over the depth: for each 64 bytes of depth two tiles side by side, or one
//! where it has at most 16. A tile of `A` has a row of words for each row of the matrix; one of `B` has a row for each
//! word of the depth. Whichever of the two directions is contiguous in memory, the tile is read by vectors, and transposed in registers
//! if it has to lie the other way.

use std::arch::x86_64::*;
use std::ops::Range;

use super::source::Source;
use super::unit::{PANEL, ROW, ROWS, TILE};
use crate::library::dot::pack::Index;

/// Which operand a matrix is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// `A`: tiles have its rows.
    Rows,
    /// `B`: tiles have its columns.
    Columns,
}

/// A matrix in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    pub from: *const u8,
    /// Rows of `A`, columns of `B`.
    pub outer: &'a Index,
    /// The direction that is summed over, of so many elements.
    pub depth: &'a Index,
    pub terms: usize,
    pub role: Role,
}

/// Packs elements of one type.
pub(crate) trait Pack: Send + Sync + std::fmt::Debug {
    /// Packs the panels of the positions `outer`, which start at a multiple of [`PANEL`], for the tiles `tiles` of the
    /// depth. The panels are `apart` bytes apart.
    ///
    /// # Safety
    /// The unit is available; all elements named are valid, and `to` has room.
    unsafe fn pack(&self, m: &Matrix<'_>, outer: Range<usize>, tiles: Range<usize>, to: *mut u8, apart: usize);
}

/// Packs by a [`Source`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct By<S>(pub S);

impl<S: Source> Pack for By<S> {
    unsafe fn pack(&self, m: &Matrix<'_>, outer: Range<usize>, tiles: Range<usize>, to: *mut u8, apart: usize) {
        // Side by side where their columns are neighbors, so that memory is read in long lines.
        let group = if m.outer.step() == S::SIZE as isize { outer.len().max(1) } else { PANEL };
        for first in outer.clone().step_by(group) {
            for t in tiles.clone() {
                for i in (first..outer.end.min(first + group)).step_by(PANEL) {
                    let have = PANEL.min(outer.end - i);
                    let count = have.div_ceil(ROWS);
                    for half in 0..count {
                        let rows = ROWS.min(have - half * ROWS);
                        // SAFETY: the caller's; the tile is inside its panel.
                        unsafe {
                            let at = (i - outer.start) / PANEL * apart + ((t - tiles.start) * count + half) * TILE;
                            tile(self.0, m, i + half * ROWS, rows, t, to.add(at));
                        }
                    }
                }
            }
        }
    }
}

/// Bytes of a panel of `positions` rows or columns and `tiles` of the depth.
pub(crate) fn panel_bytes(positions: usize, tiles: usize) -> usize {
    positions.div_ceil(ROWS).min(2) * tiles * TILE
}

/// One tile: `have` positions from `outer` on, and part `t` of the depth.
///
/// # Safety
/// As [`Pack::pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,avx512vbmi")]
unsafe fn tile<S: Source>(s: S, m: &Matrix<'_>, outer: usize, have: usize, t: usize, to: *mut u8) {
    let each = ROW / 4 * S::TERMS;
    let (s, t) = (s.in_pass(t % S::PASSES), t / S::PASSES);
    let (k, n) = (t * each, each.min(m.terms - t * each));
    let mut rows = [_mm512_setzero_si512(); ROWS];
    // SAFETY: the caller's.
    unsafe {
        let role = if m.depth.step() == S::SIZE as isize && m.depth.run(k, n) == n {
            let from = m.from.offset(m.depth.at(k));
            if n == each && have == ROWS {
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = s.along(from.offset(m.outer.at(outer + i)), each);
                }
            } else {
                for (i, row) in rows.iter_mut().enumerate().take(have) {
                    *row = s.along(from.offset(m.outer.at(outer + i)), n);
                }
            }
            Role::Rows
        } else if m.outer.step() == S::SIZE as isize && m.outer.run(outer, have) == have {
            let from = m.from.offset(m.outer.at(outer));
            match m.depth {
                Index::Stride(step) => {
                    lines(s, &mut rows, (k, n, have), m.terms, |e| from.wrapping_offset(e as isize * step))
                }
                table => lines(s, &mut rows, (k, n, have), m.terms, |e| from.wrapping_offset(table.at(e))),
            }
            Role::Columns
        } else {
            for (i, row) in rows.iter_mut().enumerate().take(have) {
                *row = scattered(s, m, outer + i, k, n);
            }
            Role::Rows
        };
        if role != m.role {
            rows = transposed(rows);
        }
        for (i, row) in rows.into_iter().enumerate() {
            _mm512_storeu_si512(to.add(i * ROW).cast(), row);
        }
    }
}

/// The words of `n` lines of depth from `k` on, `have` of each; element `e` of the depth is in the line that `at` gives.
///
/// # Safety
/// As [`Pack::pack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,avx512vbmi")]
unsafe fn lines<S: Source>(
    s: S,
    rows: &mut [__m512i; ROWS],
    (k, n, have): (usize, usize, usize),
    terms: usize,
    at: impl Fn(usize) -> *const u8,
) {
    let each = ROW / 4 * S::TERMS;
    // SAFETY: the caller's; prefetching reads nothing.
    unsafe {
        // Lines that are far apart are not foreseen by the processor.
        if k + 2 * each <= terms && at(1).addr().abs_diff(at(0).addr()) >= FAR {
            for e in k + each..k + 2 * each {
                _mm_prefetch::<_MM_HINT_T0>(at(e).cast());
            }
        }
        if n == each && have == ROWS {
            for (w, row) in rows.iter_mut().enumerate() {
                let lines: [_; 4] = std::array::from_fn(|e| at(k + w * S::TERMS + e % S::TERMS));
                *row = s.across(&lines[..S::TERMS], ROWS);
            }
            return;
        }
        for (w, row) in rows.iter_mut().enumerate().take(n.div_ceil(S::TERMS)) {
            let count = S::TERMS.min(n - w * S::TERMS);
            let lines: [_; 4] = std::array::from_fn(|e| at(k + w * S::TERMS + e.min(count - 1)));
            *row = s.across(&lines[..count], have);
        }
    }
}

/// Bytes between lines that are fetched ahead.
const FAR: usize = 1024;

/// The words of `n` elements that are in several runs, or not neighbors at all.
///
/// # Safety
/// As [`Pack::pack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,avx512vbmi")]
unsafe fn scattered<S: Source>(s: S, m: &Matrix<'_>, outer: usize, k: usize, n: usize) -> __m512i {
    // A row of a tile before elements become parts of words: at most 32 of four bytes, or 64 of one.
    let mut elements = [0u8; 2 * ROW];
    let dense = m.depth.step() == S::SIZE as isize;
    // SAFETY: the caller's; `n` elements fit.
    unsafe {
        let from = m.from.offset(m.outer.at(outer));
        let mut e = 0;
        while e < n {
            let run = if dense { m.depth.run(k + e, n - e) } else { 1 };
            let to = elements.as_mut_ptr().add(e * S::SIZE);
            std::ptr::copy_nonoverlapping(from.offset(m.depth.at(k + e)), to, run * S::SIZE);
            e += run;
        }
        s.along(elements.as_ptr(), n)
    }
}

/// A square of words with rows and columns exchanged.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(r: [__m512i; 16]) -> [__m512i; 16] {
    let zero = _mm512_setzero_si512();
    // Pairs of words, then of pairs, within each quarter of a row.
    let mut a = [zero; 16];
    for i in 0..8 {
        a[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    let mut b = [zero; 16];
    for i in 0..4 {
        for h in 0..2 {
            b[4 * i + 2 * h] = _mm512_unpacklo_epi64(a[4 * i + h], a[4 * i + 2 + h]);
            b[4 * i + 2 * h + 1] = _mm512_unpackhi_epi64(a[4 * i + h], a[4 * i + 2 + h]);
        }
    }
    // Then quarters: row `4 q + j` of the result is quarter `q` of b[j], b[4 + j], b[8 + j] and b[12 + j].
    let mut out = [zero; 16];
    for j in 0..4 {
        let even = _mm512_shuffle_i32x4::<0b10_00_10_00>(b[j], b[4 + j]);
        let odd = _mm512_shuffle_i32x4::<0b11_01_11_01>(b[j], b[4 + j]);
        let even_high = _mm512_shuffle_i32x4::<0b10_00_10_00>(b[8 + j], b[12 + j]);
        let odd_high = _mm512_shuffle_i32x4::<0b11_01_11_01>(b[8 + j], b[12 + j]);
        out[j] = _mm512_shuffle_i32x4::<0b10_00_10_00>(even, even_high);
        out[8 + j] = _mm512_shuffle_i32x4::<0b11_01_11_01>(even, even_high);
        out[4 + j] = _mm512_shuffle_i32x4::<0b10_00_10_00>(odd, odd_high);
        out[12 + j] = _mm512_shuffle_i32x4::<0b11_01_11_01>(odd, odd_high);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_transposed() {
        if !super::super::unit::is_available() {
            return;
        }
        let from: [[u32; 16]; 16] = std::array::from_fn(|i| std::array::from_fn(|j| (16 * i + j) as u32));
        // SAFETY: the processor has AVX-512, and a row of words is a vector.
        let to: [[u32; 16]; 16] =
            unsafe { std::mem::transmute(transposed(std::mem::transmute::<[[u32; 16]; 16], [__m512i; 16]>(from))) };
        for (i, j) in (0..16).flat_map(|i| (0..16).map(move |j| (i, j))) {
            assert_eq!(to[i][j], from[j][i], "{i}, {j}");
        }
    }
}
