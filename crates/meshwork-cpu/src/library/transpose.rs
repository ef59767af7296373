//! Transposition of two-dimensional tiles: `to[i][j] = from[j][i]` with both inner directions contiguous.

use crate::kernel::Stores;

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
    #[cfg(target_arch = "x86_64")]
    if (size == 4 || size == 8) && std::arch::is_x86_feature_detected!("avx2") {
        let aligned = p.to.addr().is_multiple_of(32) && p.to_stride % 32 == 0;
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
            1 => blocked(p, rows, columns, 1, 16, square::<u8, 16>),
            2 => blocked(p, rows, columns, 2, 8, square::<u16, 8>),
            4 => blocked(p, rows, columns, 4, 8, square::<u32, 8>),
            8 => blocked(p, rows, columns, 8, 4, square::<u64, 4>),
            _ => blocked(p, rows, columns, 16, 4, square::<u128, 4>),
        }
    }
}

/// Covers the matrix by tiles of squares of `edge` elements, each done by `whole`; element by element at the rims.
///
/// # Safety
/// As [`transpose`]; `whole` transposes `edge × edge` elements.
#[inline(always)]
unsafe fn blocked(p: Planes, rows: usize, columns: usize, size: usize, edge: usize, whole: impl Fn(Planes)) {
    let (full_rows, full_columns) = (rows / edge * edge, columns / edge * edge);
    for j0 in (0..full_columns).step_by(TILE.max(edge)) {
        let j1 = (j0 + TILE.max(edge)).min(full_columns);
        for i in (0..full_rows).step_by(edge) {
            for j in (j0..j1).step_by(edge) {
                // SAFETY: inside the matrix.
                whole(unsafe { p.at(i, j, size) });
            }
        }
    }
    // SAFETY: inside the matrix.
    unsafe {
        rim(p, 0..full_rows, full_columns..columns, size);
        rim(p, full_rows..rows, 0..columns, size);
    }
}

/// Element by element.
///
/// # Safety
/// As [`transpose`].
unsafe fn rim(p: Planes, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, size: usize) {
    for i in rows {
        for j in columns.clone() {
            // SAFETY: the caller vouches for all elements.
            unsafe {
                let q = p.at(i, j, size);
                std::ptr::copy_nonoverlapping(q.from, q.to, size);
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
        unsafe { super::blocked(p, rows, columns, 4, 8, |q| words::<PAST>(q)) };
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
        unsafe { super::blocked(p, rows, columns, 8, 4, |q| doubles::<PAST>(q)) };
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
            for (rows, columns) in [(0, 3), (1, 1), (7, 5), (16, 16), (33, 19), (40, 70), (24, 40)] {
                let from: Vec<u8> = (0..rows * columns * size).map(|i| (i * 7 + i / 251) as u8).collect();
                let mut to = vec![0u8; from.len() + 64];
                // Aligned, so that stores can go past the caches where the number of columns allows it.
                let start = to.as_ptr().align_offset(64);
                let p = Planes {
                    from: from.as_ptr(),
                    from_stride: (rows * size) as isize,
                    to: to[start..].as_mut_ptr(),
                    to_stride: (columns * size) as isize,
                };
                // SAFETY: both hold rows * columns elements.
                unsafe { transpose_to(p, rows, columns, size, stores) };
                for i in 0..rows {
                    for j in 0..columns {
                        let (a, b) = ((j * rows + i) * size, start + (i * columns + j) * size);
                        assert_eq!(from[a..a + size], to[b..b + size], "{size} {rows}x{columns} at {i} {j} {stores:?}");
                    }
                }
            }
        }
    }
}
