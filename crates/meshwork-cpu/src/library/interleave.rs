//! Lines interleaved into one of groups of neighbors, and taken apart again: `2..=16` lines of elements of 1 to 8 bytes.
//!
//! Vectors of lines are the columns of a matrix. Where each vector is interleaved with the one half of them further, the bits of the place of
//! an element, line and column, are rotated by one: as often as the number of lines has bits, and lines are groups; as often as a vector
//! has elements, and groups are lines. If there are 3, 5, 6 or 7 lines, or 9 to 15, groups are as long as if there were a power of two:
//! what is behind a group is overwritten by the next one.
//!
//! The instructions work on both halves of a vector alike: the upper half is the next block of 16 bytes of each line.

use std::arch::x86_64::*;

/// Lines of elements, and the groups that they are interleaved into.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// The first line, and the bytes from one to the next.
    pub lines: *mut u8,
    pub pitch: isize,
    /// The first group; groups follow one another.
    pub groups: *mut u8,
}

/// Interleaves `n` elements of each of `count` lines. Returns how many groups were written, from the first on; the others are fewer than two
/// blocks have elements, or all if the processor has no such instructions.
///
/// # Safety
/// Lines and groups have that many elements of `size` bytes, and do not overlap.
pub(super) unsafe fn interleave(at: Lines, count: usize, n: usize, size: usize) -> usize {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 is there; the rest is the caller's.
    unsafe { choose::<true>(at, count, n, size) }
}

/// The same the other way: elements of groups become lines.
///
/// # Safety
/// As [`interleave`].
pub(super) unsafe fn deinterleave(at: Lines, count: usize, n: usize, size: usize) -> usize {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 is there; the rest is the caller's.
    unsafe { choose::<false>(at, count, n, size) }
}

/// # Safety
/// As [`interleave`]; AVX2 is there.
#[target_feature(enable = "avx2")]
unsafe fn choose<const INTERLEAVE: bool>(at: Lines, count: usize, n: usize, size: usize) -> usize {
    // SAFETY: the caller's.
    unsafe {
        match (size, count) {
            (1, 2) => blocks::<1, 2, INTERLEAVE>(at, count, n),
            // Compilers have their own way for three bytes.
            (1, 4) => blocks::<1, 4, INTERLEAVE>(at, count, n),
            (1, 5..=8) => blocks::<1, 8, INTERLEAVE>(at, count, n),
            (1, 9..=16) => blocks::<1, 16, INTERLEAVE>(at, count, n),
            (2, 2) => blocks::<2, 2, INTERLEAVE>(at, count, n),
            (2, 3..=4) => blocks::<2, 4, INTERLEAVE>(at, count, n),
            (2, 5..=8) => blocks::<2, 8, INTERLEAVE>(at, count, n),
            (2, 9..=16) => blocks::<2, 16, INTERLEAVE>(at, count, n),
            (4, 2) => blocks::<4, 2, INTERLEAVE>(at, count, n),
            (4, 3..=4) => blocks::<4, 4, INTERLEAVE>(at, count, n),
            (4, 5..=8) => blocks::<4, 8, INTERLEAVE>(at, count, n),
            (4, 9..=16) => blocks::<4, 16, INTERLEAVE>(at, count, n),
            (8, 2) => blocks::<8, 2, INTERLEAVE>(at, count, n),
            (8, 3..=4) => blocks::<8, 4, INTERLEAVE>(at, count, n),
            (8, 5..=8) => blocks::<8, 8, INTERLEAVE>(at, count, n),
            (8, 9..=16) => blocks::<8, 16, INTERLEAVE>(at, count, n),
            _ => 0,
        }
    }
}

/// Bytes of a block: half a vector.
const BLOCK: usize = 16;

/// Two places of 16 bytes as one vector.
///
/// # Safety
/// Both are there; AVX2 is.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn both(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let low = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
        _mm256_inserti128_si256::<1>(low, _mm_loadu_si128(high.cast()))
    }
}

/// Whole blocks of each of `count` lines, at most `PADDED`, a power of two; returns how many groups that are.
///
/// # Safety
/// As [`interleave`]; AVX2 is there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn blocks<const SIZE: usize, const PADDED: usize, const INTERLEAVE: bool>(
    at: Lines,
    count: usize,
    n: usize,
) -> usize {
    let each = BLOCK / SIZE;
    // What is behind the last group is not there.
    let blocks = if count < PADDED { n.saturating_sub(1) / each } else { n / each };
    let group_bytes = each * count * SIZE;
    for pair in 0..blocks.div_ceil(2) {
        // The last pair is twice the same block, or the last two, of which one has been done.
        let low = (2 * pair).min(blocks.saturating_sub(2));
        let high = (low + 1).min(blocks - 1);
        // SAFETY: in all calls: elements of the lines, and of groups of which one more follows if they are longer than they should be.
        unsafe {
            let line = |j: usize| at.lines.offset(j.min(count - 1) as isize * at.pitch);
            let groups = [at.groups.add(low * group_bytes), at.groups.add(high * group_bytes)];
            if INTERLEAVE {
                let mut v: [__m256i; PADDED] = [_mm256_setzero_si256(); PADDED];
                for (j, v) in v.iter_mut().enumerate() {
                    *v = both(line(j).add(low * BLOCK), line(j).add(high * BLOCK));
                }
                for _ in 0..PADDED.ilog2() {
                    v = rotated::<SIZE, PADDED>(v);
                }
                // In this order: what is behind the last group of the first block is the first one of the next.
                put::<SIZE, PADDED, 0>(groups[0], count, v);
                put::<SIZE, PADDED, 1>(groups[1], count, v);
            } else {
                let mut v = get::<SIZE, PADDED>(groups.map(<*mut u8>::cast_const), count);
                for _ in 0..each.ilog2() {
                    v = rotated::<SIZE, PADDED>(v);
                }
                for (j, &v) in v.iter().enumerate().take(count) {
                    _mm_storeu_si128(line(j).add(low * BLOCK).cast(), _mm256_castsi256_si128(v));
                    _mm_storeu_si128(line(j).add(high * BLOCK).cast(), _mm256_extracti128_si256::<1>(v));
                }
            }
        }
    }
    blocks * each
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotated<const SIZE: usize, const PADDED: usize>(v: [__m256i; PADDED]) -> [__m256i; PADDED] {
    let mut out = v;
    for (i, out) in out.iter_mut().enumerate() {
        let (a, b) = (v[i / 2], v[i / 2 + PADDED / 2]);
        *out = match (SIZE, i % 2) {
            (1, 0) => _mm256_unpacklo_epi8(a, b),
            (1, _) => _mm256_unpackhi_epi8(a, b),
            (2, 0) => _mm256_unpacklo_epi16(a, b),
            (2, _) => _mm256_unpackhi_epi16(a, b),
            (4, 0) => _mm256_unpacklo_epi32(a, b),
            (4, _) => _mm256_unpackhi_epi32(a, b),
            (_, 0) => _mm256_unpacklo_epi64(a, b),
            (_, _) => _mm256_unpackhi_epi64(a, b),
        };
    }
    out
}

/// Writes groups of `PADDED` elements, of which `count` stay: those in the lower halves of the vectors, or in the upper ones.
///
/// # Safety
/// There is room for all groups, and for one more if they are too long; AVX2 is there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put<const SIZE: usize, const PADDED: usize, const HALF: i32>(
    groups: *mut u8,
    count: usize,
    v: [__m256i; PADDED],
) {
    let (bytes, kept) = (PADDED * SIZE, count * SIZE);
    // Groups in a vector, or vectors in a group.
    let (many, per_group) = (BLOCK / bytes.min(BLOCK), bytes.div_ceil(BLOCK));
    for (i, v) in v.into_iter().enumerate() {
        let v = _mm256_extracti128_si256::<HALF>(v);
        let (group, part) = (i / per_group * many, i % per_group);
        // SAFETY: in all arms: the caller's.
        unsafe {
            let to = groups.add(group * kept + part * BLOCK);
            if bytes >= BLOCK {
                if part * BLOCK < kept {
                    _mm_storeu_si128(to.cast(), v);
                }
            } else if kept == bytes {
                _mm_storeu_si128(to.cast(), v);
            } else if bytes == 8 {
                _mm_storel_epi64(to.cast(), v);
                _mm_storel_epi64(to.add(kept).cast(), _mm_unpackhi_epi64(v, v));
            } else {
                let mut all = [0u8; BLOCK];
                _mm_storeu_si128(all.as_mut_ptr().cast(), v);
                for (group, from) in all.chunks_exact(bytes).enumerate() {
                    std::ptr::copy_nonoverlapping(from.as_ptr(), to.add(group * kept), PADDED * SIZE);
                }
            }
        }
    }
}

/// Reads groups of `count` elements as ones of `PADDED`, those of two blocks.
///
/// # Safety
/// All groups are there, and one more if they are too long; AVX2 is there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn get<const SIZE: usize, const PADDED: usize>(groups: [*const u8; 2], count: usize) -> [__m256i; PADDED] {
    let (bytes, kept) = (PADDED * SIZE, count * SIZE);
    let (many, per_group) = (BLOCK / bytes.min(BLOCK), bytes.div_ceil(BLOCK));
    let mut out = [_mm256_setzero_si256(); PADDED];
    for (i, out) in out.iter_mut().enumerate() {
        let (group, part) = (i / per_group * many, i % per_group);
        // What no line needs is not read.
        let part = if part * BLOCK < kept { part } else { 0 };
        // SAFETY: in all arms: the caller's.
        unsafe {
            let from = groups.map(|groups| groups.add(group * kept + part * BLOCK));
            *out = if bytes >= BLOCK || kept == bytes {
                both(from[0], from[1])
            } else if bytes == 8 {
                let half = |from: *const u8| {
                    _mm_unpacklo_epi64(_mm_loadl_epi64(from.cast()), _mm_loadl_epi64(from.add(kept).cast()))
                };
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(half(from[0])), half(from[1]))
            } else {
                let mut all = [0u8; 2 * BLOCK];
                for (half, from) in all.chunks_exact_mut(BLOCK).zip(from) {
                    for (group, to) in half.chunks_exact_mut(bytes).enumerate() {
                        std::ptr::copy_nonoverlapping(from.add(group * kept), to.as_mut_ptr(), PADDED * SIZE);
                    }
                }
                _mm256_loadu_si256(all.as_ptr().cast())
            };
        }
    }
    out
}
