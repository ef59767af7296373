//! Lines interleaved into one of groups of neighbors, and taken apart again: `2..=16` lines of elements of 1 to 8 bytes.
//!
//! Vectors of lines are the columns of a matrix. Where each vector is interleaved with the one half of them further, the bits of the place of
//! an element, line and column, are rotated by one: as often as the number of lines has bits, and lines are groups; as often as a vector
//! has elements, and groups are lines. If there are 3, 5, 6 or 7 lines, or 9 to 15, groups are as long as if there were a power of two:
//! what is behind a group is overwritten by the next one.

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
/// vectors have elements.
///
/// # Safety
/// Lines and groups have that many elements of `size` bytes, and do not overlap.
pub(super) unsafe fn interleave(at: Lines, count: usize, n: usize, size: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { choose::<true>(at, count, n, size) }
}

/// The same the other way: elements of groups become lines.
///
/// # Safety
/// As [`interleave`].
pub(super) unsafe fn deinterleave(at: Lines, count: usize, n: usize, size: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { choose::<false>(at, count, n, size) }
}

/// # Safety
/// As [`interleave`].
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

/// Bytes of a vector.
const VECTOR: usize = 16;

/// Whole vectors of each of `count` lines, at most `PADDED`, a power of two; returns how many groups that are.
///
/// # Safety
/// As [`interleave`].
#[inline(always)]
unsafe fn blocks<const SIZE: usize, const PADDED: usize, const INTERLEAVE: bool>(
    at: Lines,
    count: usize,
    n: usize,
) -> usize {
    let each = VECTOR / SIZE;
    // What is behind the last group is not there.
    let blocks = if count < PADDED { n.saturating_sub(1) / each } else { n / each };
    for block in 0..blocks {
        // SAFETY: in all calls: elements of the lines, and of groups of which one more follows if they are longer than they should be.
        unsafe {
            let line = |j: usize| at.lines.offset(j.min(count - 1) as isize * at.pitch).add(block * VECTOR);
            let groups = at.groups.add(block * each * count * SIZE);
            if INTERLEAVE {
                let mut v: [__m128i; PADDED] = std::array::from_fn(|j| _mm_loadu_si128(line(j).cast()));
                for _ in 0..PADDED.ilog2() {
                    v = rotated::<SIZE, PADDED>(v);
                }
                put::<SIZE, PADDED>(groups, count, v);
            } else {
                let mut v = get::<SIZE, PADDED>(groups, count);
                for _ in 0..each.ilog2() {
                    v = rotated::<SIZE, PADDED>(v);
                }
                for (j, &v) in v.iter().enumerate().take(count) {
                    _mm_storeu_si128(line(j).cast(), v);
                }
            }
        }
    }
    blocks * each
}

#[inline(always)]
fn rotated<const SIZE: usize, const PADDED: usize>(v: [__m128i; PADDED]) -> [__m128i; PADDED] {
    std::array::from_fn(|i| {
        let (a, b) = (v[i / 2], v[i / 2 + PADDED / 2]);
        // SAFETY: the processor has these instructions.
        unsafe {
            match (SIZE, i % 2) {
                (1, 0) => _mm_unpacklo_epi8(a, b),
                (1, _) => _mm_unpackhi_epi8(a, b),
                (2, 0) => _mm_unpacklo_epi16(a, b),
                (2, _) => _mm_unpackhi_epi16(a, b),
                (4, 0) => _mm_unpacklo_epi32(a, b),
                (4, _) => _mm_unpackhi_epi32(a, b),
                (_, 0) => _mm_unpacklo_epi64(a, b),
                (_, _) => _mm_unpackhi_epi64(a, b),
            }
        }
    })
}

/// Writes groups of `PADDED` elements, of which `count` stay.
///
/// # Safety
/// There is room for all groups, and for one more if they are too long.
#[inline(always)]
unsafe fn put<const SIZE: usize, const PADDED: usize>(groups: *mut u8, count: usize, v: [__m128i; PADDED]) {
    let (bytes, kept) = (PADDED * SIZE, count * SIZE);
    // SAFETY: in all arms: the caller's.
    unsafe {
        if bytes >= VECTOR {
            let per_group = bytes / VECTOR;
            for (i, &v) in v.iter().enumerate() {
                let (group, part) = (i / per_group, i % per_group);
                if part * VECTOR < kept {
                    _mm_storeu_si128(groups.add(group * kept + part * VECTOR).cast(), v);
                }
            }
        } else if kept == bytes {
            for (i, &v) in v.iter().enumerate() {
                _mm_storeu_si128(groups.add(i * VECTOR).cast(), v);
            }
        } else {
            for (i, &v) in v.iter().enumerate() {
                let mut all = [0u8; VECTOR];
                _mm_storeu_si128(all.as_mut_ptr().cast(), v);
                for (group, bytes) in all.chunks_exact(bytes).enumerate() {
                    let to = groups.add((i * VECTOR / (PADDED * SIZE) + group) * kept);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, PADDED * SIZE);
                }
            }
        }
    }
}

/// Reads groups of `count` elements as ones of `PADDED`.
///
/// # Safety
/// All groups are there, and one more if they are too long.
#[inline(always)]
unsafe fn get<const SIZE: usize, const PADDED: usize>(groups: *const u8, count: usize) -> [__m128i; PADDED] {
    let (bytes, kept) = (PADDED * SIZE, count * SIZE);
    std::array::from_fn(|i| {
        // SAFETY: in all arms: the caller's.
        unsafe {
            if bytes >= VECTOR {
                let per_group = bytes / VECTOR;
                let (group, part) = (i / per_group, i % per_group);
                let part = if part * VECTOR < kept { part } else { 0 };
                _mm_loadu_si128(groups.add(group * kept + part * VECTOR).cast())
            } else if kept == bytes {
                _mm_loadu_si128(groups.add(i * VECTOR).cast())
            } else {
                let mut all = [0u8; VECTOR];
                for (group, to) in all.chunks_exact_mut(bytes).enumerate() {
                    let from = groups.add((i * VECTOR / (PADDED * SIZE) + group) * kept);
                    std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), PADDED * SIZE);
                }
                _mm_loadu_si128(all.as_ptr().cast())
            }
        }
    })
}
