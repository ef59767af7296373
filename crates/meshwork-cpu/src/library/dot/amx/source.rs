//! Elements in memory as words of a tile: two `bf16`, or four bytes.

use std::arch::x86_64::*;

use crate::library::num::{Element, Narrow};

/// Reads elements of one type as parts of words. A word has its first element in its low bits.
pub(crate) trait Source: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// Bytes of an element.
    const SIZE: usize;
    /// Elements of a word.
    const TERMS: usize;
    /// Tiles of the same elements, one after the other.
    const PASSES: usize = 1;

    /// What the tile of a pass holds of its elements.
    fn in_pass(self, _pass: usize) -> Self {
        self
    }

    /// The 16 words of `n` neighbors, at most as many as they hold; what is missing is zero.
    ///
    /// # Safety
    /// The processor has the extensions of `unit`; the elements are valid.
    unsafe fn along(self, from: *const u8, n: usize) -> __m512i;

    /// `n` words, at most 16, whose parts are neighbors in `lines`; what is missing is zero.
    ///
    /// # Safety
    /// As [`along`](Source::along); there are at most [`TERMS`](Source::TERMS) lines.
    unsafe fn across(self, lines: &[*const u8], n: usize) -> __m512i;
}

/// The lowest `n` bits.
fn first(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// Sixteen lines of 16-bit parts as words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn joined(low: __m256i, high: __m256i) -> __m512i {
    _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(high)))
}

/// `bf16` as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halves;

impl Source for Halves {
    const SIZE: usize = 2;
    const TERMS: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn along(self, from: *const u8, n: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_loadu_epi16(first(n) as u32, from.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn across(self, lines: &[*const u8], n: usize) -> __m512i {
        let line = |i: usize| match lines.get(i) {
            // SAFETY: the caller's.
            Some(at) => unsafe { _mm256_maskz_loadu_epi16(first(n) as u16, at.cast()) },
            None => _mm256_setzero_si256(),
        };
        joined(line(0), line(1))
    }
}

/// `f32`, rounded to `bf16`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded;

impl Rounded {
    /// # Safety
    /// As [`Source::along`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn line(from: *const u8, n: usize) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_loadu_ps(first(n) as u16, from.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    fn halves(low: __m512, high: __m512) -> __m512i {
        // SAFETY: both are 64 bytes.
        unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
    }
}

impl Source for Rounded {
    const SIZE: usize = 4;
    const TERMS: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn along(self, from: *const u8, n: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { Self::halves(Self::line(from, n.min(16)), Self::line(from.wrapping_add(64), n.saturating_sub(16))) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn across(self, lines: &[*const u8], n: usize) -> __m512i {
        let line = |i: usize| match lines.get(i) {
            // SAFETY: the caller's.
            Some(&at) => unsafe { Self::line(at, n) },
            None => _mm512_setzero_ps(),
        };
        let both = Self::halves(line(0), line(1));
        joined(_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64::<1>(both))
    }
}

/// Floats of at most eight bits, which are exact in `bf16`, by tables of the high and the low byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eighths {
    high: &'static [u8; 256],
    low: &'static [u8; 256],
}

impl Eighths {
    /// Elements that `narrow` reads.
    pub(crate) fn new(narrow: Narrow) -> Eighths {
        // Kept for the life of the process, like the tables of `Narrow`, one for each element type.
        use std::collections::HashMap;
        use std::sync::{LazyLock, Mutex, PoisonError};
        static MADE: LazyLock<Mutex<HashMap<[[u8; 256]; 2], Eighths>>> = LazyLock::new(Mutex::default);
        let bits = |b: usize| (Element::<f32>::load(narrow, b as u8).to_bits() >> 16) as u16;
        let tables = [8, 0].map(|shift| std::array::from_fn(|b| (bits(b) >> shift) as u8));
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        *made.entry(tables).or_insert_with(|| {
            let [high, low] = tables.map(|t| &*Box::leak(Box::new(t)));
            Eighths { high, low }
        })
    }

    /// `table[i]` for each of the bytes `i`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    fn look_up(table: &[u8; 256], i: __m512i) -> __m512i {
        // SAFETY: four times 64 bytes are in the table.
        let part = |p: usize| unsafe { _mm512_loadu_si512(table.as_ptr().add(64 * p).cast()) };
        let small = _mm512_permutex2var_epi8(part(0), i, part(1));
        let large = _mm512_permutex2var_epi8(part(2), i, part(3));
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(i), small, large)
    }

    /// 32 bytes as `bf16`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    fn halves(self, bytes: __m256i) -> __m512i {
        let i = _mm512_cvtepu8_epi16(bytes);
        let low = _mm512_and_si512(Self::look_up(self.low, i), _mm512_set1_epi16(0xFF));
        _mm512_or_si512(_mm512_slli_epi16::<8>(Self::look_up(self.high, i)), low)
    }
}

impl Source for Eighths {
    const SIZE: usize = 1;
    const TERMS: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    unsafe fn along(self, from: *const u8, n: usize) -> __m512i {
        let mask = first(n) as u32;
        // SAFETY: the caller's. What byte 0 stands for need not be zero: it is masked again.
        unsafe { _mm512_maskz_mov_epi16(mask, self.halves(_mm256_maskz_loadu_epi8(mask, from.cast()))) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    unsafe fn across(self, lines: &[*const u8], n: usize) -> __m512i {
        let mask = first(n) as u16;
        let line = |i: usize| match lines.get(i) {
            // SAFETY: the caller's.
            Some(at) => (unsafe { _mm_maskz_loadu_epi8(mask, at.cast()) }, mask),
            None => (_mm_setzero_si128(), 0),
        };
        let ((low, some_low), (high, some_high)) = (line(0), line(1));
        let both = self.halves(_mm256_set_m128i(high, low));
        let both = _mm512_maskz_mov_epi16(u32::from(some_low) | u32::from(some_high) << 16, both);
        joined(_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64::<1>(both))
    }
}

/// Bytes as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes;

impl Source for Bytes {
    const SIZE: usize = 1;
    const TERMS: usize = 4;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn along(self, from: *const u8, n: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_loadu_epi8(first(n), from.cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn across(self, lines: &[*const u8], n: usize) -> __m512i {
        let line = |i: usize| match lines.get(i) {
            // SAFETY: the caller's.
            Some(at) => _mm512_cvtepu8_epi32(unsafe { _mm_maskz_loadu_epi8(first(n) as u16, at.cast()) }),
            None => _mm512_setzero_si512(),
        };
        let low = _mm512_or_si512(line(0), _mm512_slli_epi32::<8>(line(1)));
        let high = _mm512_or_si512(line(2), _mm512_slli_epi32::<8>(line(3)));
        _mm512_or_si512(low, _mm512_slli_epi32::<16>(high))
    }
}
