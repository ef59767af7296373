//! Packing several neighbors along the depth into one word.

use super::micro::Packed;
use super::pack::{Index, Packer};
use crate::library::num::{Bf16, Cast, Element, Narrow, Rounded};
use crate::library::transpose::{Planes, transpose};

/// Reads elements of one type as parts of a word.
pub(super) trait Part<L>: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// What is in memory.
    type Raw: Copy;
    /// As a part.
    fn load(self, raw: Self::Raw) -> L;
}

/// Bytes with some of their bits turned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flipped(pub u8);

impl Part<u8> for Flipped {
    type Raw = u8;
    #[inline(always)]
    fn load(self, raw: u8) -> u8 {
        raw ^ self.0
    }
}

macro_rules! shorts {
    ($($raw:ty)*) => {$(
        impl Part<u16> for Cast<$raw> {
            type Raw = $raw;
            #[inline(always)]
            fn load(self, raw: $raw) -> u16 {
                raw as u16
            }
        }
    )*};
}
shorts!(i8 u8 i16);

impl Part<u16> for Bf16 {
    type Raw = u16;
    #[inline(always)]
    fn load(self, raw: u16) -> u16 {
        raw
    }
}

impl Part<u16> for Rounded {
    type Raw = f32;
    #[inline(always)]
    fn load(self, raw: f32) -> u16 {
        Bf16.store(raw)
    }
}

impl Part<u16> for Narrow {
    type Raw = u8;
    #[inline(always)]
    fn load(self, raw: u8) -> u16 {
        (Element::<f32>::load(self, raw).to_bits() >> 16) as u16
    }
}

/// `N` of which make a word.
pub(super) trait Lane<const N: usize>: Copy + Default {
    /// The word, the first in its low bits.
    fn join(parts: [Self; N]) -> u32;
}

impl Lane<4> for u8 {
    #[inline(always)]
    fn join([a, b, c, d]: [u8; 4]) -> u32 {
        u32::from(a) | u32::from(b) << 8 | u32::from(c) << 16 | u32::from(d) << 24
    }
}

impl Lane<2> for u16 {
    #[inline(always)]
    fn join([a, b]: [u16; 2]) -> u32 {
        u32::from(a) | u32::from(b) << 16
    }
}

/// Packs words of `N` elements each; those beyond the depth are zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grouped<P, const N: usize> {
    pub part: P,
    /// Elements along the depth.
    pub depth: usize,
}

/// Words along the depth that are put together at a time before they are transposed.
const CHUNK: usize = 32;

/// Most rows or columns of a panel.
const WIDEST: usize = 32;

impl<P, const N: usize> Grouped<P, N> {
    /// Whether word `k` has all its elements.
    fn is_full(&self, k: usize) -> bool {
        (k + 1) * N <= self.depth
    }

    /// Word `k` of the elements that are at `inner` from `from` on.
    ///
    /// # Safety
    /// They are valid.
    unsafe fn word<L: Lane<N>>(&self, from: *const u8, inner: &Index, k: usize) -> u32
    where
        P: Part<L>,
    {
        L::join(std::array::from_fn(|e| match k * N + e {
            // SAFETY: the element exists.
            at if at < self.depth => unsafe {
                self.part.load(from.offset(inner.at(at)).cast::<P::Raw>().read_unaligned())
            },
            _ => L::default(),
        }))
    }

    /// `n` words from `k` on of one row: `to[w]`.
    ///
    /// # Safety
    /// As [`word`](Self::word), for each; `to` has room.
    #[inline(always)]
    unsafe fn along<L: Lane<N>>(&self, from: *const u8, inner: &Index, k: usize, to: &mut [u32])
    where
        P: Part<L>,
    {
        let n = to.len();
        let dense = inner.step() == size_of::<P::Raw>() as isize;
        // SAFETY: in the whole function: elements that the caller named.
        unsafe {
            if dense && self.is_full(k + n - 1) && inner.run(k * N, n * N) == n * N {
                let from = from.offset(inner.at(k * N)).cast::<[P::Raw; N]>();
                for (w, to) in to.iter_mut().enumerate() {
                    *to = L::join(from.add(w).read_unaligned().map(|raw| self.part.load(raw)));
                }
            } else {
                for (w, to) in to.iter_mut().enumerate() {
                    *to = self.word(from, inner, k + w);
                }
            }
        }
    }

    /// Word `k` of `width` neighbors: `to[i]`.
    ///
    /// # Safety
    /// As [`word`](Self::word), for each of them; `to` has room.
    #[inline(always)]
    unsafe fn across<L: Lane<N>>(&self, from: *const u8, inner: &Index, k: usize, to: *mut u32, width: usize)
    where
        P: Part<L>,
    {
        // SAFETY: in the whole function: elements that the caller named.
        unsafe {
            if !self.is_full(k) {
                for i in 0..width {
                    to.add(i).write(self.word(from.add(i * size_of::<P::Raw>()), inner, k));
                }
                return;
            }
            let lines = std::array::from_fn(|e| from.offset(inner.at(k * N + e)).cast::<P::Raw>());
            let mut i = 0;
            while i + 16 <= width {
                self.line::<L, 16>(lines.map(|l| l.add(i)), to.add(i));
                i += 16;
            }
            while i + 4 <= width {
                self.line::<L, 4>(lines.map(|l| l.add(i)), to.add(i));
                i += 4;
            }
            for i in i..width {
                self.line::<L, 1>(lines.map(|l| l.add(i)), to.add(i));
            }
        }
    }

    /// `WIDTH` words of which `lines` has the parts.
    ///
    /// # Safety
    /// All are valid for as many.
    #[inline(always)]
    unsafe fn line<L: Lane<N>, const WIDTH: usize>(&self, lines: [*const P::Raw; N], to: *mut u32)
    where
        P: Part<L>,
    {
        // SAFETY: the caller's.
        unsafe {
            let raw = lines.map(|l| l.cast::<[P::Raw; WIDTH]>().read_unaligned());
            let to = to.cast::<[u32; WIDTH]>();
            for j in 0..WIDTH {
                (*to)[j] = L::join(std::array::from_fn(|e| self.part.load(raw[e][j])));
            }
        }
    }

    /// See [`Packer::pack`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn panel<L: Lane<N>>(
        &self,
        from: *const u8,
        (outer, outer_at, have): (&Index, usize, usize),
        (inner, depth_at, depth): (&Index, usize, usize),
        to: *mut u32,
        width: usize,
    ) where
        P: Part<L>,
    {
        // SAFETY: in the whole function: elements of the panel and of the operand that the caller named.
        unsafe {
            for k in 0..depth {
                for i in have..width {
                    to.add(k * width + i).write(0);
                }
            }
            let mut i = 0;
            while i < have {
                let rows = outer.run(outer_at + i, have - i);
                let from = from.offset(outer.at(outer_at + i));
                let (to, step) = (to.add(i), outer.step());
                i += rows;
                if step == size_of::<P::Raw>() as isize && rows > 1 {
                    for k in 0..depth {
                        self.across(from, inner, depth_at + k, to.add(k * width), rows);
                    }
                    continue;
                }
                let mut staged = [[0; CHUNK]; WIDEST];
                for k in (0..depth).step_by(CHUNK) {
                    let n = CHUNK.min(depth - k);
                    for (r, row) in staged[..rows].iter_mut().enumerate() {
                        self.along(from.offset(r as isize * step), inner, depth_at + k, &mut row[..n]);
                    }
                    let planes = Planes {
                        from: staged.as_ptr().cast(),
                        from_stride: (CHUNK * size_of::<u32>()) as isize,
                        to: to.add(k * width).cast(),
                        to_stride: (width * size_of::<u32>()) as isize,
                    };
                    transpose(planes, n, rows, size_of::<u32>());
                }
            }
        }
    }

    /// See [`Packer::pack_group`]; the outer positions are adjacent.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn panels<L: Lane<N>>(
        &self,
        from: *const u8,
        panels: usize,
        (inner, depth_at, depth): (&Index, usize, usize),
        (to, apart): (*mut u32, usize),
        width: usize,
    ) where
        P: Part<L>,
    {
        for k in 0..depth {
            for p in 0..panels {
                // SAFETY: the caller's.
                unsafe {
                    let from = from.add(p * width * size_of::<P::Raw>());
                    self.across(from, inner, depth_at + k, to.add(p * apart + k * width), width);
                }
            }
        }
    }
}

macro_rules! packers {
    ($($lane:ty, $n:literal;)*) => {$(
        impl<T: Packed, P: Part<$lane>> Packer<T> for Grouped<P, $n> {
            unsafe fn pack(
                &self,
                from: *const u8,
                outer: (&Index, usize, usize),
                depth: (&Index, usize, usize),
                to: *mut T,
                width: usize,
            ) {
                const { assert!(size_of::<T>() == size_of::<u32>() && T::TERMS == $n) };
                // SAFETY: the caller's.
                unsafe { self.panel::<$lane>(from, outer, depth, to.cast(), width) }
            }

            unsafe fn pack_group(
                &self,
                from: *const u8,
                (outer, outer_at, panels): (&Index, usize, usize),
                depth: (&Index, usize, usize),
                to: *mut T,
                apart: usize,
                width: usize,
            ) -> bool {
                let n = panels * width;
                if outer.step() != size_of::<P::Raw>() as isize || outer.run(outer_at, n) < n {
                    return false;
                }
                // SAFETY: the caller's.
                unsafe { self.panels::<$lane>(from.offset(outer.at(outer_at)), panels, depth, (to.cast(), apart), width) };
                true
            }
        }
    )*};
}
packers! { u8, 4; u16, 2; }
