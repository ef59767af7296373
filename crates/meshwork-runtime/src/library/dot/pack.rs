//! Packing: panels of an operand laid out in the order in which the micro-kernel reads them.

use std::sync::Arc;

use super::micro::Tile;
use crate::library::num::Element;
use crate::library::transpose::{Planes, transpose};

/// Byte offsets of the positions along one side of an operand.
#[derive(Clone, Debug)]
pub(crate) enum Index {
    /// Equal steps.
    Stride(isize),
    /// Anything: several dimensions that are not one run.
    Table(Arc<[isize]>),
}

impl Index {
    /// The offsets of the row-major positions of dimensions with these extents and byte strides.
    pub(crate) fn new(dims: &[i64], strides: &[i64]) -> Index {
        let kept: Vec<usize> = (0..dims.len()).filter(|&d| dims[d] != 1).collect();
        let one_run = kept.windows(2).all(|w| strides[w[0]] == strides[w[1]] * dims[w[1]]);
        match kept.last() {
            None => Index::Stride(0),
            Some(&last) if one_run => Index::Stride(strides[last] as isize),
            Some(_) => Index::Table(crate::library::nest::offsets(dims, strides).into()),
        }
    }

    /// The offset of position `i`.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> isize {
        match self {
            Index::Stride(s) => i as isize * s,
            Index::Table(t) => t[i],
        }
    }

    /// The step, if all positions `from..from + n` are equally far apart.
    #[inline]
    pub(crate) fn step(&self, from: usize, n: usize) -> Option<isize> {
        match self {
            Index::Stride(s) => Some(*s),
            Index::Table(_) if n < 2 => Some(0),
            Index::Table(t) => {
                let step = t[from + 1] - t[from];
                t[from..from + n].windows(2).all(|w| w[1] - w[0] == step).then_some(step)
            }
        }
    }
}

/// Depth that is converted at a time before it is transposed.
const CHUNK: usize = 32;

/// Writes `to[k * width + i]` for `width` outer positions from `outer_at` on, of which `have` exist (the others are
/// zero), and `depth` positions from `depth_at` on.
///
/// # Safety
/// `from` plus the offsets is valid for all elements named, `to` for `width * depth` numbers; `width <= 16`.
pub(crate) unsafe fn panel<T: Tile, E: Element<T>>(
    e: E,
    from: *const u8,
    (outer, outer_at, have): (&Index, usize, usize),
    (inner, depth_at, depth): (&Index, usize, usize),
    to: *mut T,
    width: usize,
) {
    let raw = size_of::<E::Raw>() as isize;
    let read = |at: isize| -> T {
        // SAFETY: the caller's.
        e.load(unsafe { from.offset(at).cast::<E::Raw>().read_unaligned() })
    };
    let (along, across) = (inner.step(depth_at, depth), outer.step(outer_at, have));
    if have > 1 && across == Some(raw) || have == 1 && width == 1 {
        let first = outer.at(outer_at);
        // SAFETY: the caller's.
        unsafe {
            return match (width, have) {
                (16, 16) => lines::<T, E, 16>(e, from.offset(first), (inner, depth_at, depth), to),
                (8, 8) => lines::<T, E, 8>(e, from.offset(first), (inner, depth_at, depth), to),
                (6, 6) => lines::<T, E, 6>(e, from.offset(first), (inner, depth_at, depth), to),
                (4, 4) => lines::<T, E, 4>(e, from.offset(first), (inner, depth_at, depth), to),
                _ => {
                    for k in 0..depth {
                        let at = first + inner.at(depth_at + k);
                        for i in 0..width {
                            let v = if i < have { read(at + i as isize * raw) } else { T::default() };
                            to.add(k * width + i).write(v);
                        }
                    }
                }
            };
        }
    }
    let size = size_of::<T>();
    if E::SAME
        && along == Some(raw)
        && have == width
        && width >= 4
        && let Some(row) = across
    {
        // SAFETY: the caller's.
        let from = unsafe { from.offset(outer.at(outer_at) + inner.at(depth_at)) };
        let planes = Planes { from, from_stride: row, to: to.cast(), to_stride: (width * size) as isize };
        // SAFETY: `depth × width` numbers on both sides.
        return unsafe { transpose(planes, depth, width, size) };
    }
    if along == Some(raw) && width >= 4 && depth >= 8 {
        let mut rows = [[T::default(); CHUNK]; 16];
        let mut k = 0;
        while k < depth {
            let n = CHUNK.min(depth - k);
            let start = inner.at(depth_at + k);
            for i in 0..have {
                let at = start + outer.at(outer_at + i);
                for (j, v) in rows[i][..n].iter_mut().enumerate() {
                    *v = read(at + j as isize * raw);
                }
            }
            let planes = Planes {
                from: rows.as_ptr().cast(),
                from_stride: (CHUNK * size) as isize,
                // SAFETY: inside the panel.
                to: unsafe { to.add(k * width) }.cast(),
                to_stride: (width * size) as isize,
            };
            // SAFETY: `n × width` numbers on both sides.
            unsafe { transpose(planes, n, width, size) };
            k += n;
        }
        return;
    }
    for k in 0..depth {
        let at = inner.at(depth_at + k);
        for i in 0..width {
            let v = if i < have { read(at + outer.at(outer_at + i)) } else { T::default() };
            // SAFETY: inside the panel.
            unsafe { to.add(k * width + i).write(v) };
        }
    }
}

/// `WIDTH` neighbours.
///
/// # Safety
/// As [`panel`].
#[inline(always)]
unsafe fn numbers<T: Tile, E: Element<T>, const WIDTH: usize>(e: E, from: *const u8, to: *mut T) {
    // SAFETY: the caller's.
    unsafe {
        let raw = from.cast::<[E::Raw; WIDTH]>().read_unaligned();
        let to = to.cast::<[T; WIDTH]>();
        for i in 0..WIDTH {
            (*to)[i] = e.load(raw[i]);
        }
    }
}

/// `depth` lines of `WIDTH` neighbours each.
///
/// # Safety
/// As [`panel`].
#[inline(always)]
unsafe fn lines<T: Tile, E: Element<T>, const WIDTH: usize>(
    e: E,
    from: *const u8,
    (inner, depth_at, depth): (&Index, usize, usize),
    to: *mut T,
) {
    // SAFETY: the caller's.
    let line = |k: usize, at: isize| unsafe { numbers::<T, E, WIDTH>(e, from.offset(at), to.add(k * WIDTH)) };
    match inner {
        Index::Stride(s) => (0..depth).for_each(|k| line(k, (depth_at + k) as isize * s)),
        Index::Table(t) => t[depth_at..depth_at + depth].iter().enumerate().for_each(|(k, &at)| line(k, at)),
    }
}

/// Packs panels of one element type.
pub(crate) trait Packer<T>: Send + Sync + std::fmt::Debug {
    /// See [`panel`].
    ///
    /// # Safety
    /// As [`panel`].
    unsafe fn pack(
        &self,
        from: *const u8,
        outer: (&Index, usize, usize),
        depth: (&Index, usize, usize),
        to: *mut T,
        width: usize,
    );

    /// Packs full panels (as many as the third item of `outer` says) of `width` neighbours at once, `apart` numbers
    /// apart, so that memory is read in order; false if the outer positions are no neighbours.
    ///
    /// # Safety
    /// As [`panel`], for each of the panels.
    unsafe fn pack_group(
        &self,
        from: *const u8,
        outer: (&Index, usize, usize),
        depth: (&Index, usize, usize),
        to: *mut T,
        apart: usize,
        width: usize,
    ) -> bool;

    /// Writes `n` numbers as elements.
    ///
    /// # Safety
    /// `from` is valid for `n` numbers, `to` for `n` elements.
    unsafe fn write(&self, from: *const T, to: *mut u8, n: usize);
}

/// The packer of an [`Element`].
#[derive(Debug)]
pub(crate) struct Of<E>(pub E);

impl<T: Tile, E: Element<T>> Packer<T> for Of<E> {
    unsafe fn pack(
        &self,
        from: *const u8,
        outer: (&Index, usize, usize),
        depth: (&Index, usize, usize),
        to: *mut T,
        width: usize,
    ) {
        // SAFETY: the caller's.
        unsafe { panel(self.0, from, outer, depth, to, width) }
    }

    unsafe fn pack_group(
        &self,
        from: *const u8,
        (outer, outer_at, panels): (&Index, usize, usize),
        (inner, depth_at, depth): (&Index, usize, usize),
        to: *mut T,
        apart: usize,
        width: usize,
    ) -> bool {
        let raw = size_of::<E::Raw>();
        if outer.step(outer_at, panels * width) != Some(raw as isize) {
            return false;
        }
        let first = outer.at(outer_at);
        for k in 0..depth {
            // SAFETY: the caller's.
            unsafe {
                let line = from.offset(first + inner.at(depth_at + k));
                for p in 0..panels {
                    let (from, to) = (line.add(p * width * raw), to.add(p * apart + k * width));
                    match width {
                        16 => numbers::<T, E, 16>(self.0, from, to),
                        8 => numbers::<T, E, 8>(self.0, from, to),
                        6 => numbers::<T, E, 6>(self.0, from, to),
                        4 => numbers::<T, E, 4>(self.0, from, to),
                        _ => (0..width).for_each(|i| numbers::<T, E, 1>(self.0, from.add(i * raw), to.add(i))),
                    }
                }
            }
        }
        true
    }

    unsafe fn write(&self, from: *const T, to: *mut u8, n: usize) {
        for i in 0..n {
            // SAFETY: the caller's.
            unsafe { to.cast::<E::Raw>().add(i).write_unaligned(self.0.store(*from.add(i))) };
        }
    }
}
