//! Gather of single elements, each named by one index of 32 bits, with the processor's gathering loads.

#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;

use meshwork_ir::ElementType;

/// A run of indices that are side by side, as are the elements that they name in the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    /// The type of the indices: `i32` or `ui32`.
    pub index: ElementType,
    /// Bytes of an element: 4 or 8.
    pub size: usize,
    /// The largest position. Others are brought to the nearest one that there is.
    pub most: i32,
    /// Bytes from one position to the next; those to the last one are within 31 bits.
    pub stride: i32,
}

impl Elements {
    /// Copies the elements that `n` indices name, `from` the first position on.
    ///
    /// # Safety
    /// All of it is valid memory, `to` overlaps nothing, and AVX2 is there.
    pub(super) unsafe fn copy(&self, to: *mut u8, from: *const u8, indices: *const i32, n: usize) {
        // SAFETY: the caller's.
        unsafe {
            match (self.size, self.index) {
                (4, ElementType::I32) => self.of_4::<true>(to.cast(), from, indices, n),
                (4, _) => self.of_4::<false>(to.cast(), from, indices, n),
                (_, ElementType::I32) => self.of_8::<true>(to.cast(), from, indices, n),
                _ => self.of_8::<false>(to.cast(), from, indices, n),
            }
        }
    }

    /// Bytes from the first position to those that indices name.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn offsets<const SIGNED: bool>(&self, indices: __m256i) -> __m256i {
        let (most, stride) = (_mm256_set1_epi32(self.most), _mm256_set1_epi32(self.stride));
        let at = if SIGNED { _mm256_max_epi32(indices, _mm256_setzero_si256()) } else { indices };
        _mm256_mullo_epi32(_mm256_min_epu32(at, most), stride)
    }

    /// Bytes from the first position to the one that `index` names.
    #[inline(always)]
    fn offset<const SIGNED: bool>(&self, index: i32) -> usize {
        let at = if SIGNED { index.max(0) } else { index } as u32;
        at.min(self.most as u32) as usize * self.stride as usize
    }

    /// # Safety
    /// As [`copy`](Elements::copy).
    #[target_feature(enable = "avx2")]
    unsafe fn of_4<const SIGNED: bool>(&self, to: *mut u32, from: *const u8, indices: *const i32, n: usize) {
        let full = n / 8 * 8;
        // SAFETY: the caller's.
        unsafe {
            for i in (0..full).step_by(8) {
                let offsets = self.offsets::<SIGNED>(_mm256_loadu_si256(indices.add(i).cast()));
                let values = _mm256_i32gather_epi32::<1>(from.cast(), offsets);
                _mm256_storeu_si256(to.add(i).cast(), values);
            }
            for i in full..n {
                let value = from.add(self.offset::<SIGNED>(indices.add(i).read_unaligned()));
                to.add(i).write_unaligned(value.cast::<u32>().read_unaligned());
            }
        }
    }

    /// # Safety
    /// As [`copy`](Elements::copy).
    #[target_feature(enable = "avx2")]
    unsafe fn of_8<const SIGNED: bool>(&self, to: *mut u64, from: *const u8, indices: *const i32, n: usize) {
        let full = n / 8 * 8;
        // SAFETY: the caller's.
        unsafe {
            for i in (0..full).step_by(8) {
                let offsets = self.offsets::<SIGNED>(_mm256_loadu_si256(indices.add(i).cast()));
                let low = _mm256_i32gather_epi64::<1>(from.cast(), _mm256_castsi256_si128(offsets));
                let high = _mm256_i32gather_epi64::<1>(from.cast(), _mm256_extracti128_si256::<1>(offsets));
                _mm256_storeu_si256(to.add(i).cast(), low);
                _mm256_storeu_si256(to.add(i + 4).cast(), high);
            }
            for i in full..n {
                let value = from.add(self.offset::<SIGNED>(indices.add(i).read_unaligned()));
                to.add(i).write_unaligned(value.cast::<u64>().read_unaligned());
            }
        }
    }
}
