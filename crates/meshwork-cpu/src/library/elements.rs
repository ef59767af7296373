//! Gather of single elements, each named by one index of 32 bits, with the processor's gathering loads where they are fast.

#![cfg(target_arch = "x86_64")]

use std::arch::x86_64::*;
use std::sync::LazyLock;

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

/// Whether the processor gathers faster than it loads one by one. Intel's do; a Zen 4 takes longer.
static HAS_FAST_GATHERS: LazyLock<bool> = LazyLock::new(|| {
    let leaf = __cpuid(0);
    [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat() == *b"GenuineIntel"
});

impl Elements {
    /// Copies the elements that `n` indices name, `from` the first position on.
    ///
    /// # Safety
    /// All of it is valid memory, `to` overlaps nothing, and AVX2 is there.
    pub(super) unsafe fn copy(&self, to: *mut u8, from: *const u8, indices: *const i32, n: usize) {
        // SAFETY: the caller's.
        unsafe {
            match (self.size, self.index, *HAS_FAST_GATHERS) {
                (4, ElementType::I32, true) => self.of_4::<true>(to.cast(), from, indices, n),
                (4, _, true) => self.of_4::<false>(to.cast(), from, indices, n),
                (_, ElementType::I32, true) => self.of_8::<true>(to.cast(), from, indices, n),
                (_, _, true) => self.of_8::<false>(to.cast(), from, indices, n),
                (4, ElementType::I32, false) => self.one_by_one::<u32, true>(to.cast(), from, indices, n),
                (4, _, false) => self.one_by_one::<u32, false>(to.cast(), from, indices, n),
                (_, ElementType::I32, false) => self.one_by_one::<u64, true>(to.cast(), from, indices, n),
                (_, _, false) => self.one_by_one::<u64, false>(to.cast(), from, indices, n),
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

    /// Positions in vectors, loads one by one.
    ///
    /// # Safety
    /// As [`copy`](Elements::copy).
    #[target_feature(enable = "avx2")]
    unsafe fn one_by_one<T: Copy, const SIGNED: bool>(
        &self,
        to: *mut T,
        from: *const u8,
        indices: *const i32,
        n: usize,
    ) {
        let full = n / 8 * 8;
        let mut offsets = [0u32; 8];
        // SAFETY: the caller's.
        unsafe {
            for i in (0..full).step_by(8) {
                let some = self.offsets::<SIGNED>(_mm256_loadu_si256(indices.add(i).cast()));
                _mm256_storeu_si256(offsets.as_mut_ptr().cast(), some);
                let values = offsets.map(|o| from.add(o as usize).cast::<T>().read_unaligned());
                to.add(i).cast::<[T; 8]>().write_unaligned(values);
            }
            for i in full..n {
                let value = from.add(self.offset::<SIGNED>(indices.add(i).read_unaligned()));
                to.add(i).write_unaligned(value.cast::<T>().read_unaligned());
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways, for indices in and out of range, all lengths up to a few vectors, and each type.
    #[test]
    fn gathering_and_loading_one_by_one_agree() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            return;
        }
        let table: Vec<u64> = (0..40).map(|i| i * 0x0101_0101_0101).collect();
        let indices: Vec<i32> = (0..37).map(|i| (i * 7919) % 61 - 12).chain([i32::MIN, i32::MAX]).collect();
        let from = table.as_ptr().cast::<u8>();
        for n in 0..=indices.len() {
            for index in [ElementType::I32, ElementType::UI32] {
                let place =
                    |i: i32| if index == ElementType::I32 { i.max(0) as u32 } else { i as u32 }.min(19) as usize;
                let known: Vec<u64> = indices[..n].iter().map(|&i| table[2 * place(i)]).collect();
                let narrow: Vec<u32> = known.iter().map(|&v| v as u32).collect();
                let elements = Elements { index, size: 8, most: 19, stride: 16 };
                let (mut a, mut b) = (vec![0u64; n], vec![0u64; n]);
                let (mut c, mut d) = (vec![0u32; n], vec![0u32; n]);
                // SAFETY: all positions up to the most are in the table, and the processor has AVX2.
                unsafe {
                    let i = indices.as_ptr();
                    if index == ElementType::I32 {
                        elements.of_8::<true>(a.as_mut_ptr(), from, i, n);
                        elements.one_by_one::<u64, true>(b.as_mut_ptr(), from, i, n);
                        elements.of_4::<true>(c.as_mut_ptr(), from, i, n);
                        elements.one_by_one::<u32, true>(d.as_mut_ptr(), from, i, n);
                    } else {
                        elements.of_8::<false>(a.as_mut_ptr(), from, i, n);
                        elements.one_by_one::<u64, false>(b.as_mut_ptr(), from, i, n);
                        elements.of_4::<false>(c.as_mut_ptr(), from, i, n);
                        elements.one_by_one::<u32, false>(d.as_mut_ptr(), from, i, n);
                    }
                }
                assert_eq!([&a, &b], [&known; 2], "{n} indices of type {index}");
                assert_eq!([&c, &d], [&narrow; 2], "{n} indices of type {index}");
            }
        }
    }
}
