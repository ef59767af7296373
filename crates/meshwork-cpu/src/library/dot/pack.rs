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
    /// Several dimensions that are not one run.
    Table {
        /// The offset of each position.
        at: Arc<[isize]>,
        /// Positions come in runs of this many, aligned to it, with equal steps.
        run: usize,
        /// The step within a run.
        step: isize,
    },
}

impl Index {
    /// The offsets of the row-major positions of dimensions with these extents and byte strides.
    pub(crate) fn new(dims: &[i64], strides: &[i64]) -> Index {
        let kept: Vec<usize> = (0..dims.len()).filter(|&d| dims[d] != 1).collect();
        // Without a dimension there is one position, and with an empty one there is none.
        let Some(&last) = kept.last().filter(|_| !dims.contains(&0)) else { return Index::Stride(0) };
        let mut run = dims[last] as usize;
        for pair in kept.windows(2).rev() {
            if strides[pair[0]] != strides[pair[1]] * dims[pair[1]] {
                let at = crate::library::nest::offsets(dims, strides).into();
                return Index::Table { at, run, step: strides[last] as isize };
            }
            run *= dims[pair[0]] as usize;
        }
        Index::Stride(strides[last] as isize)
    }

    /// The offset of position `i`.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> isize {
        match self {
            Index::Stride(s) => i as isize * s,
            Index::Table { at, .. } => at[i],
        }
    }

    /// The distance of neighbors within a run.
    #[inline(always)]
    pub(crate) fn step(&self) -> isize {
        match self {
            Index::Stride(s) => *s,
            Index::Table { step, .. } => *step,
        }
    }

    /// How many of the positions `from..from + n` from the first on are equally far apart.
    #[inline(always)]
    pub(crate) fn run(&self, from: usize, n: usize) -> usize {
        match self {
            Index::Stride(_) => n,
            Index::Table { run, .. } => n.min(run - from % run),
        }
    }
}

/// Depth that is converted at a time before it is transposed.
const CHUNK: usize = 32;

/// Writes `to[k * width + i]` for `width` outer positions from `outer_at` on, of which `have` exist (the others are
/// zero), and `depth` positions from `depth_at` on.
///
/// # Safety
/// `from` plus the offsets is valid for all elements named, `to` for `width * depth` numbers; `width <= 64`.
pub(crate) unsafe fn panel<T: Tile, E: Element<T>>(
    e: E,
    from: *const u8,
    (outer, outer_at, have): (&Index, usize, usize),
    (inner, depth_at, depth): (&Index, usize, usize),
    to: *mut T,
    width: usize,
) {
    // SAFETY: in the whole function: elements of the panel and of the operand that the caller named.
    unsafe {
        if have < width {
            for k in 0..depth {
                for i in have..width {
                    to.add(k * width + i).write(T::default());
                }
            }
        }
        let mut i = 0;
        while i < have {
            let rows = outer.run(outer_at + i, have - i);
            let mut k = 0;
            while k < depth {
                let n = inner.run(depth_at + k, depth - k);
                let from = from.offset(outer.at(outer_at + i) + inner.at(depth_at + k));
                block(e, (from, outer.step(), inner.step()), to.add(k * width + i), width, rows, n);
                k += n;
            }
            i += rows;
        }
    }
}

/// Writes `to[k * width + i]` for `rows × depth` elements at equal steps across and along.
///
/// # Safety
/// As [`panel`].
unsafe fn block<T: Tile, E: Element<T>>(
    e: E,
    (from, across, along): (*const u8, isize, isize),
    to: *mut T,
    width: usize,
    rows: usize,
    depth: usize,
) {
    let raw = size_of::<E::Raw>() as isize;
    // SAFETY: the caller's.
    let read = |at: isize| -> T { e.load(unsafe { from.offset(at).cast::<E::Raw>().read_unaligned() }) };
    // SAFETY: in the whole function: elements that the caller named.
    unsafe {
        if across == raw && rows > 1 {
            match (width, rows) {
                (64, 64) if has::<T, 64>() => return lines::<T, E, 64>(e, from, along, to, depth),
                (32, 32) if has::<T, 32>() => return lines::<T, E, 32>(e, from, along, to, depth),
                (16, 16) if has::<T, 16>() => return lines::<T, E, 16>(e, from, along, to, depth),
                (14, 14) if has::<T, 14>() => return lines::<T, E, 14>(e, from, along, to, depth),
                (8, 8) if has::<T, 8>() => return lines::<T, E, 8>(e, from, along, to, depth),
                (6, 6) if has::<T, 6>() => return lines::<T, E, 6>(e, from, along, to, depth),
                (4, 4) if has::<T, 4>() => return lines::<T, E, 4>(e, from, along, to, depth),
                _ => {}
            }
        } else if along == raw && rows >= 4 && depth >= 8 {
            let size = size_of::<T>();
            if E::SAME {
                let planes = Planes { from, from_stride: across, to: to.cast(), to_stride: (width * size) as isize };
                return transpose(planes, depth, rows, size);
            }
            let mut staged = [[T::default(); CHUNK]; 64];
            for k in (0..depth).step_by(CHUNK) {
                let n = CHUNK.min(depth - k);
                for i in 0..rows {
                    let at = i as isize * across + k as isize * raw;
                    for (j, v) in staged[i][..n].iter_mut().enumerate() {
                        *v = read(at + j as isize * raw);
                    }
                }
                let planes = Planes {
                    from: staged.as_ptr().cast(),
                    from_stride: (CHUNK * size) as isize,
                    to: to.add(k * width).cast(),
                    to_stride: (width * size) as isize,
                };
                transpose(planes, n, rows, size);
            }
            return;
        }
        for k in 0..depth {
            for i in 0..rows {
                to.add(k * width + i).write(read(i as isize * across + k as isize * along));
            }
        }
    }
}

/// Whether panels of `T` can be this wide: the compiler leaves out the loops of others.
#[inline(always)]
const fn has<T: Tile, const WIDTH: usize>() -> bool {
    const {
        let (mut i, mut found) = (0, false);
        while i < T::WIDTHS.len() {
            found |= T::WIDTHS[i] == WIDTH;
            i += 1;
        }
        found
    }
}

/// `WIDTH` neighbors.
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

/// `depth` lines of `WIDTH` neighbors each.
///
/// # Safety
/// As [`panel`].
#[inline(always)]
unsafe fn lines<T: Tile, E: Element<T>, const WIDTH: usize>(
    e: E,
    from: *const u8,
    along: isize,
    to: *mut T,
    depth: usize,
) {
    for k in 0..depth {
        // SAFETY: the caller's.
        unsafe { numbers::<T, E, WIDTH>(e, from.offset(k as isize * along), to.add(k * WIDTH)) };
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

    /// Packs full panels (as many as the third item of `outer` says) of `width` neighbors at once, `apart` numbers
    /// apart, so that memory is read in order; false if the outer positions are not adjacent.
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
}

/// Writes numbers as elements of one type.
pub(crate) trait Writer<T>: Send + Sync + std::fmt::Debug {
    /// Writes `n` numbers as elements.
    ///
    /// # Safety
    /// `from` is valid for `n` numbers, `to` for `n` elements.
    unsafe fn write(&self, from: *const T, to: *mut u8, n: usize);
}

/// An element type of operands and results.
pub(crate) trait Elements<T>: Packer<T> + Writer<T> {}

impl<T, P: Packer<T> + Writer<T>> Elements<T> for P {}

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
        if outer.step() != raw as isize || outer.run(outer_at, panels * width) < panels * width {
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
                        64 if has::<T, 64>() => numbers::<T, E, 64>(self.0, from, to),
                        32 if has::<T, 32>() => numbers::<T, E, 32>(self.0, from, to),
                        16 if has::<T, 16>() => numbers::<T, E, 16>(self.0, from, to),
                        14 if has::<T, 14>() => numbers::<T, E, 14>(self.0, from, to),
                        8 if has::<T, 8>() => numbers::<T, E, 8>(self.0, from, to),
                        6 if has::<T, 6>() => numbers::<T, E, 6>(self.0, from, to),
                        4 if has::<T, 4>() => numbers::<T, E, 4>(self.0, from, to),
                        _ => (0..width).for_each(|i| numbers::<T, E, 1>(self.0, from.add(i * raw), to.add(i))),
                    }
                }
            }
        }
        true
    }
}

impl<T: Tile, E: Element<T>> Writer<T> for Of<E> {
    unsafe fn write(&self, from: *const T, to: *mut u8, n: usize) {
        for i in 0..n {
            // SAFETY: the caller's.
            unsafe { to.cast::<E::Raw>().add(i).write_unaligned(self.0.store(*from.add(i))) };
        }
    }
}
