//! Transposition of two-dimensional tiles: `to[i][j] = from[j][i]` with both inner directions contiguous.

#[cfg(target_arch = "x86_64")]
use super::interleave::{Lines, deinterleave, interleave};
use crate::kernel::Stores;
#[cfg(target_arch = "x86_64")]
use sse2::{bytes, halves};

/// The locations of a matrix and its transpose: `to` row `i` at `i * to_stride`, `from` row `j` at `j * from_stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes {
    pub from: *const u8,
    pub from_stride: isize,
    pub to: *mut u8,
    pub to_stride: isize,
}

impl Planes {
    /// The same from row `i` of `to` and row `j` of `from` on, for elements of `size` bytes.
    ///
    /// # Safety
    /// The element exists.
    unsafe fn at(self, i: usize, j: usize, size: usize) -> Planes {
        // SAFETY: the caller vouches for both places.
        unsafe {
            Planes {
                from: self.from.offset(j as isize * self.from_stride + (i * size) as isize),
                to: self.to.offset(i as isize * self.to_stride + (j * size) as isize),
                ..self
            }
        }
    }
}

/// Edge of the square tiles that are finished one after another, in elements.
const TILE: usize = 16;

/// Transposes `rows × columns` (of `to`) elements of `size` bytes: 1, 2, 4, 8 or 16.
///
/// # Safety
/// Both planes are valid for all elements and do not overlap.
pub(crate) unsafe fn transpose(p: Planes, rows: usize, columns: usize, size: usize) {
    // SAFETY: the caller's.
    unsafe { transpose_to(p, rows, columns, size, Stores::Cached) }
}

/// [`transpose`] with a choice where stores go; they go past the caches only if they can: elements of 4 and 8
/// bytes in rows that are aligned to vectors.
///
/// # Safety
/// Both planes are valid for all elements and do not overlap.
pub(crate) unsafe fn transpose_to(p: Planes, rows: usize, columns: usize, size: usize, stores: Stores) {
    // Planes of fewer rows or columns than a square are lines that are interleaved into one, or one that is taken apart.
    let edge = [16, 8, 8, 4, 4][size.ilog2() as usize];
    #[cfg(target_arch = "x86_64")]
    let (p, rows, columns) = {
        let has_squares = |n: usize| size >= 4 && n.is_multiple_of(edge);
        let is_few = |n: usize| (2..=16).contains(&n) && size <= 8 && !has_squares(n);
        // SAFETY: in both arms: the caller's; what is left starts at an element or behind the last one.
        unsafe {
            if is_few(columns) && rows >= 16 && p.to_stride == (columns * size) as isize {
                let at = Lines { lines: p.from.cast_mut(), pitch: p.from_stride, groups: p.to };
                let done = interleave(at, columns, rows, size);
                (p.at(done, 0, size), rows - done, columns)
            } else if is_few(rows) && columns >= 16 && p.from_stride == (rows * size) as isize {
                let at = Lines { lines: p.to, pitch: p.to_stride, groups: p.from.cast_mut() };
                let done = deinterleave(at, rows, columns, size);
                (p.at(0, done, size), rows, columns - done)
            } else {
                (p, rows, columns)
            }
        }
    };
    if rows.min(columns) == 0 {
        return;
    }
    if rows.min(columns) < edge {
        // SAFETY: the caller's.
        return unsafe {
            match size {
                1 => lines::<u8>(p, rows, columns),
                2 => lines::<u16>(p, rows, columns),
                4 => lines::<u32>(p, rows, columns),
                8 => lines::<u64>(p, rows, columns),
                _ => lines::<u128>(p, rows, columns),
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    if (size == 4 || size == 8) && std::arch::is_x86_feature_detected!("avx2") {
        let aligned = p.to.addr().is_multiple_of(32) && p.to_stride % 32 == 0 && columns.is_multiple_of(edge);
        // SAFETY: AVX2 is there; the rest is the caller's.
        unsafe {
            return match (size, aligned && stores == Stores::PastCaches) {
                (4, false) => avx2::all_words::<false>(p, rows, columns),
                (4, true) => avx2::all_words::<true>(p, rows, columns),
                (_, false) => avx2::all_doubles::<false>(p, rows, columns),
                (_, true) => avx2::all_doubles::<true>(p, rows, columns),
            };
        }
    }
    // SAFETY: as the caller's.
    unsafe {
        match size {
            1 => blocked::<u8>(p, rows, columns, 16, bytes),
            2 => blocked::<u16>(p, rows, columns, 8, halves),
            4 => blocked::<u32>(p, rows, columns, 8, square::<u32, 8>),
            8 => blocked::<u64>(p, rows, columns, 4, square::<u64, 4>),
            _ => blocked::<u128>(p, rows, columns, 4, square::<u128, 4>),
        }
    }
}

/// Transposes planes of few rows or columns.
///
/// # Safety
/// As [`transpose`]; elements are of the size of `T`.
unsafe fn lines<T: Copy + Default>(p: Planes, rows: usize, columns: usize) {
    /// The same in the processor's longer vectors.
    ///
    /// # Safety
    /// As [`lines`]; AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn in_long_vectors<T: Copy + Default>(p: Planes, rows: usize, columns: usize) {
        // SAFETY: the caller's.
        unsafe { few::<T>(p, rows, columns) }
    }
    #[cfg(target_arch = "x86_64")]
    if rows.max(columns) >= 16 && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: AVX2 is there; the rest is the caller's.
        return unsafe { in_long_vectors::<T>(p, rows, columns) };
    }
    // SAFETY: the caller's.
    unsafe { few::<T>(p, rows, columns) }
}

/// Chooses the loop for the number of lines.
///
/// # Safety
/// As [`lines`].
#[inline(always)]
unsafe fn few<T: Copy + Default>(p: Planes, rows: usize, columns: usize) {
    let size = size_of::<T>() as isize;
    macro_rules! choose {
        ($($n:literal)*) => {
            match (rows, columns) {
                $((_, $n) if p.to_stride == $n * size => interleaved::<T, $n>(p, rows),)*
                $(($n, _) if p.from_stride == $n * size => part::<T, $n>(p, columns),)*
                _ if rows.min(columns) >= 4 => blocked::<T>(p, rows, columns, 4, square::<T, 4>),
                _ => rim::<T>(p, 0..rows, 0..columns),
            }
        };
    }
    // SAFETY: the caller's.
    unsafe { choose!(2 3 4 5 6 7 8) }
}

/// `N` lines of `n` elements each become one of groups of `N`.
///
/// # Safety
/// As [`transpose`], for `n` rows and `N` columns that fill them.
#[inline(always)]
unsafe fn interleaved<T: Copy, const N: usize>(p: Planes, n: usize) {
    let from: [*const T; N] = std::array::from_fn(|j| p.from.wrapping_offset(j as isize * p.from_stride).cast());
    let to = p.to.cast::<T>();
    for i in 0..n {
        for (j, from) in from.iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { to.add(i * N + j).write_unaligned(from.add(i).read_unaligned()) };
        }
    }
}

/// One line of `n` groups of `N` elements becomes `N` lines.
///
/// # Safety
/// As [`transpose`], for `N` rows and `n` columns that follow one another in `from`.
#[inline(always)]
unsafe fn part<T: Copy, const N: usize>(p: Planes, n: usize) {
    let to: [*mut T; N] = std::array::from_fn(|i| p.to.wrapping_offset(i as isize * p.to_stride).cast());
    let from = p.from.cast::<T>();
    for j in 0..n {
        for (i, to) in to.iter().enumerate() {
            // SAFETY: the caller's.
            unsafe { to.add(j).write_unaligned(from.add(j * N + i).read_unaligned()) };
        }
    }
}

/// Covers the matrix by tiles of squares of `edge` elements, each done by `whole`. What is left of rows and columns that are no multiple of `edge`
/// is done by squares that share elements with those before, or element by element if it is little.
///
/// # Safety
/// As [`transpose`]; elements are of the size of `T`, there are at least `edge` rows and columns, and `whole` transposes
/// `edge × edge` elements.
#[inline(always)]
unsafe fn blocked<T: Copy>(p: Planes, rows: usize, columns: usize, edge: usize, whole: impl Fn(Planes)) {
    let (size, tile) = (size_of::<T>(), TILE.max(edge));
    let in_squares = |n: usize| if 3 * (n % edge) >= edge { n } else { n - n % edge };
    let (full_rows, full_columns) = (in_squares(rows), in_squares(columns));
    for j0 in (0..full_columns).step_by(tile) {
        let j1 = (j0 + tile).min(full_columns);
        for i in (0..full_rows).step_by(edge) {
            for j in (j0..j1).step_by(edge) {
                // SAFETY: inside the matrix.
                whole(unsafe { p.at(i.min(rows - edge), j.min(columns - edge), size) });
            }
        }
    }
    // SAFETY: inside the matrix.
    unsafe {
        rim::<T>(p, 0..full_rows, full_columns..columns);
        rim::<T>(p, full_rows..rows, 0..columns);
    }
}

/// Element by element.
///
/// # Safety
/// As [`transpose`]; elements are of the size of `T`.
#[inline(always)]
unsafe fn rim<T: Copy>(p: Planes, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) {
    for i in rows {
        for j in columns.clone() {
            // SAFETY: the caller vouches for all elements.
            unsafe {
                let q = p.at(i, j, size_of::<T>());
                q.to.cast::<T>().write_unaligned(q.from.cast::<T>().read_unaligned());
            }
        }
    }
}

/// One square through registers, as the compiler sees fit.
#[inline(always)]
fn square<T: Copy + Default, const EDGE: usize>(p: Planes) {
    let mut tile = [[T::default(); EDGE]; EDGE];
    // SAFETY: `blocked` passes squares inside the matrix; nothing is aligned.
    unsafe {
        for (j, row) in tile.iter_mut().enumerate() {
            *row = p.from.offset(j as isize * p.from_stride).cast::<[T; EDGE]>().read_unaligned();
        }
        for i in 0..EDGE {
            let column: [T; EDGE] = std::array::from_fn(|j| tile[j][i]);
            p.to.offset(i as isize * p.to_stride).cast::<[T; EDGE]>().write_unaligned(column);
        }
    }
}

/// Squares of one vector per line. Where each line is interleaved with the one half of them further, the bits of the place of an element,
/// line and column, are rotated by one: as often as a line has bits, and lines are columns.
#[cfg(target_arch = "x86_64")]
mod sse2 {
    use super::Planes;
    use std::arch::x86_64::*;

    macro_rules! square {
        ($name:ident, $edge:literal, $rounds:literal, $low:ident, $high:ident) => {
            /// One square.
            #[inline]
            pub(super) fn $name(p: Planes) {
                // SAFETY: `blocked` passes squares inside the matrix; nothing is aligned.
                unsafe {
                    let mut lines: [__m128i; $edge] =
                        std::array::from_fn(|j| _mm_loadu_si128(p.from.offset(j as isize * p.from_stride).cast()));
                    for _ in 0..$rounds {
                        lines = std::array::from_fn(|i| {
                            let (a, b) = (lines[i / 2], lines[i / 2 + $edge / 2]);
                            if i % 2 == 0 { $low(a, b) } else { $high(a, b) }
                        });
                    }
                    for (i, &line) in lines.iter().enumerate() {
                        _mm_storeu_si128(p.to.offset(i as isize * p.to_stride).cast(), line);
                    }
                }
            }
        };
    }
    square!(bytes, 16, 4, _mm_unpacklo_epi8, _mm_unpackhi_epi8);
    square!(halves, 8, 3, _mm_unpacklo_epi16, _mm_unpackhi_epi16);
}

/// A square of bytes.
#[cfg(not(target_arch = "x86_64"))]
fn bytes(p: Planes) {
    square::<u8, 16>(p)
}

/// A square of elements of two bytes.
#[cfg(not(target_arch = "x86_64"))]
fn halves(p: Planes) {
    square::<u16, 8>(p)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::Planes;
    use std::arch::x86_64::*;

    /// Elements of four bytes.
    ///
    /// # Safety
    /// As [`super::transpose`]; AVX2 is there.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn all_words<const PAST: bool>(p: Planes, rows: usize, columns: usize) {
        // SAFETY: the caller's.
        unsafe { super::blocked::<u32>(p, rows, columns, 8, |q| words::<PAST>(q)) };
        if PAST {
            // Others may look once the thread says that it is done: the stores come first.
            _mm_sfence();
        }
    }

    /// Elements of eight bytes.
    ///
    /// # Safety
    /// As [`super::transpose`]; AVX2 is there.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn all_doubles<const PAST: bool>(p: Planes, rows: usize, columns: usize) {
        // SAFETY: the caller's.
        unsafe { super::blocked::<u64>(p, rows, columns, 4, |q| doubles::<PAST>(q)) };
        if PAST {
            _mm_sfence();
        }
    }

    /// 8 × 8 elements of four bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn words<const PAST: bool>(p: Planes) {
        // SAFETY: `blocked` passes squares inside the matrix.
        unsafe {
            let row = |j: isize| _mm256_loadu_ps(p.from.offset(j * p.from_stride).cast());
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let (r4, r5, r6, r7) = (row(4), row(5), row(6), row(7));
            let (t0, t1) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
            let (t2, t3) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
            let (t4, t5) = (_mm256_unpacklo_ps(r4, r5), _mm256_unpackhi_ps(r4, r5));
            let (t6, t7) = (_mm256_unpacklo_ps(r6, r7), _mm256_unpackhi_ps(r6, r7));
            let (u0, u1) = (_mm256_shuffle_ps::<0x44>(t0, t2), _mm256_shuffle_ps::<0xEE>(t0, t2));
            let (u2, u3) = (_mm256_shuffle_ps::<0x44>(t1, t3), _mm256_shuffle_ps::<0xEE>(t1, t3));
            let (u4, u5) = (_mm256_shuffle_ps::<0x44>(t4, t6), _mm256_shuffle_ps::<0xEE>(t4, t6));
            let (u6, u7) = (_mm256_shuffle_ps::<0x44>(t5, t7), _mm256_shuffle_ps::<0xEE>(t5, t7));
            let put = |i: isize, v: __m256| {
                if PAST {
                    _mm256_stream_ps(p.to.offset(i * p.to_stride).cast(), v)
                } else {
                    _mm256_storeu_ps(p.to.offset(i * p.to_stride).cast(), v)
                }
            };
            put(0, _mm256_permute2f128_ps::<0x20>(u0, u4));
            put(1, _mm256_permute2f128_ps::<0x20>(u1, u5));
            put(2, _mm256_permute2f128_ps::<0x20>(u2, u6));
            put(3, _mm256_permute2f128_ps::<0x20>(u3, u7));
            put(4, _mm256_permute2f128_ps::<0x31>(u0, u4));
            put(5, _mm256_permute2f128_ps::<0x31>(u1, u5));
            put(6, _mm256_permute2f128_ps::<0x31>(u2, u6));
            put(7, _mm256_permute2f128_ps::<0x31>(u3, u7));
        }
    }

    /// 4 × 4 elements of eight bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn doubles<const PAST: bool>(p: Planes) {
        // SAFETY: `blocked` passes squares inside the matrix.
        unsafe {
            let row = |j: isize| _mm256_loadu_pd(p.from.offset(j * p.from_stride).cast());
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let (t0, t1) = (_mm256_unpacklo_pd(r0, r1), _mm256_unpackhi_pd(r0, r1));
            let (t2, t3) = (_mm256_unpacklo_pd(r2, r3), _mm256_unpackhi_pd(r2, r3));
            let put = |i: isize, v: __m256d| {
                if PAST {
                    _mm256_stream_pd(p.to.offset(i * p.to_stride).cast(), v)
                } else {
                    _mm256_storeu_pd(p.to.offset(i * p.to_stride).cast(), v)
                }
            };
            put(0, _mm256_permute2f128_pd::<0x20>(t0, t2));
            put(1, _mm256_permute2f128_pd::<0x20>(t1, t3));
            put(2, _mm256_permute2f128_pd::<0x31>(t0, t2));
            put(3, _mm256_permute2f128_pd::<0x31>(t1, t3));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes_and_uneven_edges() {
        for (size, stores) in [1, 2, 4, 8, 16].into_iter().flat_map(|s| [(s, Stores::Cached), (s, Stores::PastCaches)])
        {
            let few = (1..=17).flat_map(|n| [(n, 2), (2, n), (n, 67), (67, n), (n, 64), (64, n), (n, 16), (16, n)]);
            let sizes = few.chain([(0, 3), (7, 5), (16, 16), (33, 19), (40, 70), (24, 40)]);
            for ((rows, columns), gap) in sizes.flat_map(|s| [(s, 0), (s, 3)]) {
                let from: Vec<u8> = (0..(rows + gap) * columns * size).map(|i| (i * 7 + i / 251) as u8).collect();
                let mut to = vec![0u8; rows * (columns + gap) * size + 64];
                // Aligned, so that stores can go past the caches where the number of columns allows it.
                let start = to.as_ptr().align_offset(64);
                let p = Planes {
                    from: from.as_ptr(),
                    from_stride: ((rows + gap) * size) as isize,
                    to: to[start..].as_mut_ptr(),
                    to_stride: ((columns + gap) * size) as isize,
                };
                // SAFETY: both hold rows * columns elements and their gaps.
                unsafe { transpose_to(p, rows, columns, size, stores) };
                for i in 0..rows {
                    for j in 0..columns {
                        let (a, b) = ((j * (rows + gap) + i) * size, start + (i * (columns + gap) + j) * size);
                        assert_eq!(from[a..a + size], to[b..b + size], "{size} {rows}x{columns} at {i} {j} {stores:?}");
                    }
                    let end = start + (i * (columns + gap) + columns) * size;
                    assert!(
                        to[end..end + gap * size].iter().all(|&b| b == 0),
                        "{size} {rows}x{columns}: behind row {i}"
                    );
                }
            }
        }
    }
}
