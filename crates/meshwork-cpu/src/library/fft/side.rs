//! Groups of lines that are transformed side by side: from memory to lanes, the transform, and back.
//!
//! Two real lines are the real and the imaginary parts of one complex line. Its spectrum is their sum, and they are told
//! apart by what a real line's spectrum is: the second half mirrors the first.

use rustfft::FftNum;
use rustfft::num_traits::Float;

use super::Kind;
use super::lanes::Stages;
use super::vector::Vector;
use crate::library::dot::{has_avx512, has_fma};
use crate::library::transpose::{Planes, transpose};

/// Bytes of the two buffers: more than the second-level cache has room for is better done line by line.
const ROOM: usize = 1 << 20;

/// A number type with vectors.
pub(super) trait Wide: FftNum + Float {
    /// Lanes of the processor's longest vectors; none if those are too short.
    fn lanes() -> Option<usize>;

    /// Transforms the group.
    ///
    /// # Safety
    /// As [`Group::run`]; there are [`lanes`](Wide::lanes).
    unsafe fn run(group: &Group<'_, Self>);
}

macro_rules! wide {
    ($($t:ty, $long:ty, $short:ty;)*) => {$(
        impl Wide for $t {
            fn lanes() -> Option<usize> {
                let long = has_avx512().then_some(<$long>::LANES);
                long.or_else(|| has_fma().then_some(<$short>::LANES))
            }

            unsafe fn run(group: &Group<'_, $t>) {
                /// # Safety
                /// As [`Group::run`].
                #[target_feature(enable = "avx512f,avx2,fma")]
                unsafe fn long(group: &Group<'_, $t>) {
                    // SAFETY: the caller's.
                    unsafe { group.run::<$long>() }
                }
                /// # Safety
                /// As [`Group::run`].
                #[target_feature(enable = "avx2,fma")]
                unsafe fn short(group: &Group<'_, $t>) {
                    // SAFETY: the caller's.
                    unsafe { group.run::<$short>() }
                }
                // SAFETY: the caller's, and the processor has been asked.
                unsafe {
                    if has_avx512() { long(group) } else { short(group) }
                }
            }
        }
    )*};
}
wide! {
    f32, std::arch::x86_64::__m512, std::arch::x86_64::__m256;
    f64, std::arch::x86_64::__m512d, std::arch::x86_64::__m256d;
}

/// The stages of transforms of `n` elements, if side by side is how `lines` of them are best done.
pub(super) fn stages<T: Wide>(n: usize, kind: Kind, lines: usize, inner: usize) -> Option<Stages<T>> {
    let lanes = T::lanes()?;
    // Powers of two in place are what the other algorithm is best at.
    let is_other = kind == Kind::Complex && inner == 1 && n.is_power_of_two();
    let is_fit = 4 * (n + 2) * lanes * size_of::<T>() <= ROOM && lines >= lanes && n > 1;
    if is_fit && !is_other { Stages::new(n) } else { None }
}

/// Some lines, as many as there are lanes or (real ones) twice as many, or fewer.
pub(super) struct Group<'a, T> {
    pub stages: &'a Stages<T>,
    pub kind: Kind,
    pub is_inverse: bool,
    pub scale: T,
    pub from: *const T,
    pub to: *mut T,
    /// Numbers from one line to the next; 0 if elements of lines are `inner` complex numbers apart and lines are neighbors.
    pub from_line: usize,
    pub to_line: usize,
    pub inner: usize,
    pub lines: usize,
    /// Room for [`numbers`](Group::numbers).
    pub memory: *mut T,
}

impl<T: Wide> Group<'_, T> {
    /// Numbers of the two buffers.
    pub(super) fn numbers(n: usize) -> usize {
        4 * (n + 2) * T::lanes().unwrap_or(0)
    }

    /// Transforms the lines.
    ///
    /// # Safety
    /// All lines are valid, `to` overlaps nothing else, and the processor has these vectors.
    #[inline(always)]
    unsafe fn run<V: Vector<Number = T>>(&self) {
        let (n, lanes) = (self.stages.n, V::LANES);
        // SAFETY: in the whole function: elements of the lines and of the buffers.
        unsafe {
            let full = if self.kind == Kind::Complex { lanes } else { 2 * lanes };
            if self.lines < full {
                // Lanes without a line must not add to the others' rounding.
                std::ptr::write_bytes(self.memory, 0, 4 * (n + 2) * lanes);
            }
            let mut x = self.memory;
            let mut y = x.add(2 * (n + 2) * lanes);
            match self.kind {
                Kind::Complex if self.from_line == 0 => self.split::<V>(x),
                Kind::Complex => self.lift::<V>(self.from, self.from_line, x, 2 * n, self.lines),
                Kind::Forward => {
                    // Every other line is the imaginary part of the one before.
                    let (evens, odds) = (self.lines.div_ceil(2), self.lines / 2);
                    self.lift_parts::<V>(self.from, x, evens);
                    self.lift_parts::<V>(self.from.add(self.from_line), x.add(lanes), odds);
                }
                Kind::Backward => {
                    self.join::<V>(x, y);
                }
            }
            if self.stages.run::<V>(x, y) {
                (x, y) = (y, x);
            }
            match self.kind {
                Kind::Complex if self.from_line == 0 => self.merge::<V>(x),
                Kind::Complex => {
                    if self.is_inverse {
                        self.reversed::<V>(x, y);
                        x = y;
                    }
                    self.lower::<V>(x, self.to, self.to_line, 2 * n, self.lines);
                }
                Kind::Forward => self.separate::<V>(x, y),
                Kind::Backward => {
                    self.reversed::<V>(x, y);
                    let (evens, odds) = (self.lines.div_ceil(2), self.lines / 2);
                    self.lower_parts::<V>(y, self.to, evens);
                    self.lower_parts::<V>(y.add(lanes), self.to.add(self.to_line), odds);
                }
            }
        }
    }

    /// Lines of `count` numbers to vectors.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn lift<V: Vector<Number = T>>(&self, from: *const T, line: usize, x: *mut T, count: usize, lines: usize) {
        let (size, vector) = (size_of::<T>(), (V::LANES * size_of::<T>()) as isize);
        let planes = Planes { from: from.cast(), from_stride: (line * size) as isize, to: x.cast(), to_stride: vector };
        // SAFETY: the caller's.
        unsafe { transpose(planes, count, lines.min(V::LANES), size) }
    }

    /// Vectors to lines of `count` numbers.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn lower<V: Vector<Number = T>>(&self, x: *const T, to: *mut T, line: usize, count: usize, lines: usize) {
        let (size, vector) = (size_of::<T>(), (V::LANES * size_of::<T>()) as isize);
        let planes = Planes { from: x.cast(), from_stride: vector, to: to.cast(), to_stride: (line * size) as isize };
        // SAFETY: the caller's.
        unsafe { transpose(planes, lines.min(V::LANES), count, size) }
    }

    /// Every other real line to every other vector.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn lift_parts<V: Vector<Number = T>>(&self, from: *const T, x: *mut T, lines: usize) {
        let (size, vector) = (size_of::<T>(), (2 * V::LANES * size_of::<T>()) as isize);
        let from_stride = (2 * self.from_line * size) as isize;
        let planes = Planes { from: from.cast(), from_stride, to: x.cast(), to_stride: vector };
        // SAFETY: the caller's.
        unsafe { transpose(planes, self.stages.n, lines, size) }
    }

    /// Every other vector to every other real line.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn lower_parts<V: Vector<Number = T>>(&self, x: *const T, to: *mut T, lines: usize) {
        let (size, vector) = (size_of::<T>(), (2 * V::LANES * size_of::<T>()) as isize);
        let to_stride = (2 * self.to_line * size) as isize;
        let planes = Planes { from: x.cast(), from_stride: vector, to: to.cast(), to_stride };
        // SAFETY: the caller's.
        unsafe { transpose(planes, lines, self.stages.n, size) }
    }

    /// Neighboring complex lines to vectors.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn split<V: Vector<Number = T>>(&self, x: *mut T) {
        for k in 0..self.stages.n {
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (self.from.add(2 * k * self.inner), x.add(2 * k * V::LANES));
                if self.lines == V::LANES {
                    (0..V::LANES).for_each(|l| {
                        *to.add(l) = *from.add(2 * l);
                        *to.add(V::LANES + l) = *from.add(2 * l + 1);
                    });
                } else {
                    (0..self.lines).for_each(|l| {
                        *to.add(l) = *from.add(2 * l);
                        *to.add(V::LANES + l) = *from.add(2 * l + 1);
                    });
                }
            }
        }
    }

    /// Vectors to neighboring complex lines.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn merge<V: Vector<Number = T>>(&self, x: *const T) {
        for k in 0..self.stages.n {
            let source = if self.is_inverse && k > 0 { self.stages.n - k } else { k };
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (x.add(2 * source * V::LANES), self.to.add(2 * k * self.inner));
                let put = |l: usize| {
                    *to.add(2 * l) = *from.add(l) * self.scale;
                    *to.add(2 * l + 1) = *from.add(V::LANES + l) * self.scale;
                };
                if self.lines == V::LANES {
                    (0..V::LANES).for_each(put);
                } else {
                    (0..self.lines).for_each(put);
                }
            }
        }
    }

    /// The inverse transform from the forward one: its elements in the other direction, scaled.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn reversed<V: Vector<Number = T>>(&self, x: *const T, y: *mut T) {
        let n = self.stages.n;
        // SAFETY: the caller's.
        unsafe {
            let scale = V::splat(self.scale);
            for k in 0..n {
                let from = x.add(2 * V::LANES * if k > 0 { n - k } else { 0 });
                let to = y.add(2 * V::LANES * k);
                V::load(from).mul(scale).store(to);
                V::load(from.add(V::LANES)).mul(scale).store(to.add(V::LANES));
            }
        }
    }

    /// Tells the spectra of pairs of real lines apart and writes the first half of each.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn separate<V: Vector<Number = T>>(&self, x: *const T, y: *mut T) {
        let (n, lanes) = (self.stages.n, V::LANES);
        let want = n / 2 + 1;
        // SAFETY: the caller's; two halves of spectra fit into a buffer.
        unsafe {
            let half = V::splat(T::from_f64(0.5).unwrap_or_else(T::one));
            let odd = y.add(2 * want * lanes);
            for k in 0..want {
                let (a, b) = (x.add(2 * k * lanes), x.add(2 * ((n - k) % n) * lanes));
                let (a_re, a_im) = (V::load(a).mul(half), V::load(a.add(lanes)).mul(half));
                let (b_re, b_im) = (V::load(b).mul(half), V::load(b.add(lanes)).mul(half));
                let (even, odd) = (y.add(2 * k * lanes), odd.add(2 * k * lanes));
                a_re.add(b_re).store(even);
                a_im.sub(b_im).store(even.add(lanes));
                a_im.add(b_im).store(odd);
                b_re.sub(a_re).store(odd.add(lanes));
            }
            let (evens, odds) = (self.lines.div_ceil(2), self.lines / 2);
            self.lower::<V>(y, self.to, 2 * self.to_line, 2 * want, evens);
            self.lower::<V>(odd, self.to.add(self.to_line), 2 * self.to_line, 2 * want, odds);
        }
    }

    /// Joins the halves of spectra of pairs of real lines to whole ones of complex lines. The imaginary parts of the first
    /// and (of an even length) last element count as zero.
    ///
    /// # Safety
    /// As [`run`](Group::run).
    #[inline(always)]
    unsafe fn join<V: Vector<Number = T>>(&self, x: *mut T, y: *mut T) {
        let (n, lanes) = (self.stages.n, V::LANES);
        let have = n / 2 + 1;
        // SAFETY: the caller's; two halves of spectra fit into a buffer.
        unsafe {
            let odd = y.add(2 * have * lanes);
            let (evens, odds) = (self.lines.div_ceil(2), self.lines / 2);
            self.lift::<V>(self.from, 2 * self.from_line, y, 2 * have, evens);
            self.lift::<V>(self.from.add(self.from_line), 2 * self.from_line, odd, 2 * have, odds);
            for k in 0..have {
                let (even, odd) = (y.add(2 * k * lanes), odd.add(2 * k * lanes));
                let (a, b) = (x.add(2 * k * lanes), x.add(2 * (n - k) * lanes));
                let (even_re, odd_re) = (V::load(even), V::load(odd));
                if k == 0 || 2 * k == n {
                    even_re.store(a);
                    odd_re.store(a.add(lanes));
                    continue;
                }
                let (even_im, odd_im) = (V::load(even.add(lanes)), V::load(odd.add(lanes)));
                even_re.sub(odd_im).store(a);
                even_im.add(odd_re).store(a.add(lanes));
                even_re.add(odd_im).store(b);
                odd_re.sub(even_im).store(b.add(lanes));
            }
        }
    }
}
