//! Positions that index vectors name: blocks of byte offsets, which gather reads from and scatter writes to.

use meshwork_ir::ElementType;

use super::dynamic::read_index;
#[cfg(target_arch = "x86_64")]
use super::elements::Elements;
use super::nest::{Nest, walk};
#[cfg(target_arch = "x86_64")]
use crate::kernel::interp::loops::wide;
use crate::step::{Buf, Frame, View};

/// One component of the index vectors.
#[derive(Clone, Copy, Debug)]
struct Component {
    /// Bytes from the first component.
    at: isize,
    /// Bytes of one step along the dimension that it is for.
    stride: isize,
    /// The largest position there.
    most: i64,
}

impl Component {
    /// Whether positions and bytes of steps are within 31 bits.
    #[cfg(target_arch = "x86_64")]
    fn is_narrow(&self) -> bool {
        let fits = |v: i64| (0..=i64::from(i32::MAX)).contains(&v);
        fits(self.most) && fits(self.stride as i64)
    }

    /// Sets places that start as `base` says to what this component of vectors of 32-bit numbers, `by` bytes apart, means.
    ///
    /// # Safety
    /// As [`Picks::fill`]; the component is narrow.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn put_narrow(
        &self,
        picks: &Picks,
        vectors: *const u8,
        by: isize,
        base: impl Fn(usize, isize) -> isize,
        out: &mut [isize],
    ) {
        // Copies, since the compiler cannot know that `out` is none of these.
        let (most, stride) = (self.most as u32, self.stride as u32);
        // SAFETY: the caller's.
        let vectors = unsafe { vectors.offset(self.at) };
        // SAFETY: the caller's.
        let index = move |i: usize| unsafe { vectors.offset(i as isize * by).cast::<i32>().read_unaligned() };
        // One multiplication of 32 by 32 bits, which vectors have.
        let far = move |at: u32| (u64::from(at) * u64::from(stride)) as isize;
        match picks.outside {
            Outside::Clamped if picks.elem == ElementType::I32 => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o = base(i, *o) + far((index(i).max(0) as u32).min(most));
                }
            }
            Outside::Clamped => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o = base(i, *o) + far((index(i) as u32).min(most));
                }
            }
            Outside::Nowhere => {
                for (i, o) in out.iter_mut().enumerate() {
                    // Below zero is far above as an unsigned number.
                    let (at, start) = (index(i) as u32, base(i, *o));
                    let inside = (at <= most) & (start != NOWHERE);
                    *o = if inside { start + far(at) } else { NOWHERE };
                }
            }
        }
    }
}

/// Index vectors, and for each the place of something that goes with it: a window of a result or of updates.
#[derive(Debug)]
pub(super) struct Picks {
    buf: Buf,
    elem: ElementType,
    components: Vec<Component>,
    outside: Outside,
    start: isize,
    /// The vectors: byte strides of what goes with them, of the vectors, and of positions by batching dimensions.
    pub nest: Nest<3>,
}

/// What becomes of positions out of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outside {
    /// The nearest one is meant.
    Clamped,
    /// There is no such place: [`NOWHERE`].
    Nowhere,
}

/// The offset of a position that is not there.
pub(super) const NOWHERE: isize = isize::MIN;

/// Vectors of one block, and of one of a short list: to clear room for more would take longer than to go through them.
pub(super) const BLOCK: usize = 1024;
const SHORT: usize = 256;

/// How index vectors name positions of an operand: dimension numbers of a gather or a scatter.
pub(super) struct Naming<'a> {
    pub vector_dim: i64,
    pub map: &'a [i64],
    pub operand_batching: &'a [i64],
    pub indices_batching: &'a [i64],
}

impl Picks {
    /// The vectors of `indices`: `strides` are the operand's, `most` the largest position along each of its dimensions, `with`
    /// the byte strides along the dimensions of the vectors of what goes with them.
    pub(super) fn new(
        indices: &View,
        naming: &Naming<'_>,
        strides: &[i64],
        most: &[i64],
        with: &[i64],
        outside: Outside,
    ) -> Picks {
        let v = naming.vector_dim as usize;
        let walked: Vec<usize> = (0..indices.dims.len()).filter(|&d| d != v).collect();
        let pick = |list: &[i64]| -> Vec<i64> { walked.iter().map(|&d| list[d]).collect() };
        let batched = |d: &usize| {
            let pairs = naming.indices_batching.iter().zip(naming.operand_batching);
            pairs.filter(|(i, _)| **i == *d as i64).map(|(_, &o)| strides[o as usize]).sum::<i64>()
        };
        let batch: Vec<i64> = walked.iter().map(batched).collect();
        let step = indices.strides.get(v).map_or(0, |&s| s as isize);
        let component = |(c, &d): (usize, &i64)| Component {
            at: c as isize * step,
            stride: strides[d as usize] as isize,
            most: most[d as usize],
        };
        Picks {
            buf: indices.buf,
            elem: indices.elem,
            components: naming.map.iter().enumerate().map(component).collect(),
            outside,
            start: indices.offset as isize,
            nest: Nest::new(&pick(&indices.dims), [with, &pick(&indices.strides), &batch]),
        }
    }

    /// Goes through the vectors of a box of `dims` from `at` on, a block of at most [`BLOCK`] neighbors at a time: calls `visit`
    /// with the place of what goes with the first one, the bytes to the next, and the offsets that the vectors name.
    ///
    /// # Safety
    /// The box is inside the nest, and the buffer is valid.
    pub(super) unsafe fn blocks(
        &self,
        frame: &Frame<'_>,
        dims: &[usize],
        at: [isize; 3],
        visit: &mut impl FnMut(isize, isize, &[isize]),
    ) {
        // SAFETY: the caller's.
        unsafe {
            match dims.last() {
                None | Some(..=SHORT) => self.blocks_of::<SHORT>(frame, dims, at, visit),
                Some(_) => self.blocks_of::<BLOCK>(frame, dims, at, visit),
            }
        }
    }

    /// The same in blocks of at most `N`.
    ///
    /// # Safety
    /// As [`blocks`](Picks::blocks).
    unsafe fn blocks_of<const N: usize>(
        &self,
        frame: &Frame<'_>,
        dims: &[usize],
        at: [isize; 3],
        visit: &mut impl FnMut(isize, isize, &[isize]),
    ) {
        let mut offsets = [0isize; N];
        let [step, by, batch] = self.nest.strides.last().copied().unwrap_or_default();
        // SAFETY: the caller's.
        unsafe {
            self.rows(frame, dims, at, &mut |with, vectors, from, n| {
                for first in (0..n).step_by(N) {
                    let block = &mut offsets[..N.min(n - first)];
                    let skipped = first as isize;
                    self.fill(vectors.offset(skipped * by), by, from + skipped * batch, batch, block);
                    visit(with + skipped * step, step, block);
                }
            });
        }
    }

    /// Goes through the rows of vectors of a box of `dims` from `at` on: calls `visit` with the place of what goes with the first
    /// one, the first vector, what batching dimensions add to its position, and how many there are.
    ///
    /// # Safety
    /// The box is inside the nest, and the buffer is valid.
    unsafe fn rows(
        &self,
        frame: &Frame<'_>,
        dims: &[usize],
        at: [isize; 3],
        visit: &mut impl FnMut(isize, *const u8, isize, usize),
    ) {
        if dims.contains(&0) {
            return;
        }
        let (n, outer) = dims.split_last().map_or((1, &[][..]), |(&n, outer)| (n, outer));
        let base = frame.ptr(self.buf).cast_const();
        walk(outer, &self.nest.strides[..outer.len()], at, &mut |[with, index, from]| {
            // SAFETY: the caller's.
            visit(with, unsafe { base.offset(self.start + index) }, from, n);
        });
    }

    /// Gathering loads of elements of `size` bytes, if there are such for all vectors: of one index each, of 32 bits and side by
    /// side as the elements are, to positions within 31 bits.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn elements(&self, size: usize) -> Option<Elements> {
        let (&[c], Some(&[step, by, batch])) = (&self.components[..], self.nest.strides.last()) else { return None };
        let near = c.is_narrow() && c.most.saturating_mul(c.stride as i64) <= i64::from(i32::MAX);
        let plain = matches!(self.elem, ElementType::I32 | ElementType::UI32) && matches!(size, 4 | 8);
        let dense = step == size as isize && by == 4 && batch == 0;
        let fits = wide() && self.outside == Outside::Clamped && near && plain && dense;
        fits.then_some(Elements { index: self.elem, size, most: c.most as i32, stride: c.stride as i32 })
    }

    /// Copies the `elements` that vectors of a box name, from `from` on, to their places after `to`.
    ///
    /// # Safety
    /// As [`blocks`](Picks::blocks); all elements are valid.
    #[cfg(target_arch = "x86_64")]
    pub(super) unsafe fn copy_elements(
        &self,
        elements: &Elements,
        frame: &Frame<'_>,
        (dims, at): (&[usize], [isize; 3]),
        (from, to): (*const u8, *mut u8),
    ) {
        // SAFETY: the caller's.
        unsafe {
            self.rows(frame, dims, at, &mut |with, vectors, start, n| {
                elements.copy(to.offset(with), from.offset(start), vectors.offset(self.components[0].at).cast(), n);
            });
        }
    }

    /// The offsets of vectors `by` bytes apart, to which `from`, `from + batch`, … are added.
    ///
    /// # Safety
    /// There are so many vectors.
    unsafe fn fill(&self, vectors: *const u8, by: isize, from: isize, batch: isize, out: &mut [isize]) {
        // SAFETY: in the whole function: the caller's.
        unsafe {
            match self.elem {
                #[cfg(target_arch = "x86_64")]
                ElementType::I32 | ElementType::UI32 if wide() && self.is_narrow(batch) => {
                    self.of_narrow(vectors, by, from, batch, out);
                }
                ElementType::I32 => {
                    self.of(vectors, by, from, batch, out, |p| i64::from(p.cast::<i32>().read_unaligned()))
                }
                ElementType::I64 => self.of(vectors, by, from, batch, out, |p| p.cast::<i64>().read_unaligned()),
                ElementType::UI32 => {
                    self.of(vectors, by, from, batch, out, |p| i64::from(p.cast::<u32>().read_unaligned()));
                }
                elem => self.of(vectors, by, from, batch, out, |p| read_index(p, elem)),
            }
        }
    }

    /// Whether all components are narrow, and so is `batch`.
    #[cfg(target_arch = "x86_64")]
    fn is_narrow(&self, batch: isize) -> bool {
        (0..=i32::MAX as isize).contains(&batch) && self.components.iter().all(Component::is_narrow)
    }

    /// [`of`](Picks::of) for numbers of 32 bits, in the processor's longer vectors.
    ///
    /// # Safety
    /// As [`fill`](Picks::fill); AVX2 is there, and all is narrow.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn of_narrow(&self, vectors: *const u8, by: isize, from: isize, batch: isize, out: &mut [isize]) {
        let Some((first, others)) = self.components.split_first() else {
            for (i, o) in out.iter_mut().enumerate() {
                *o = from + i as isize * batch;
            }
            return;
        };
        let step = batch as u32;
        let stepped = move |i: usize, _| from + (u64::from(i as u32) * u64::from(step)) as isize;
        // SAFETY: the caller's; the same for steps that the compiler knows.
        unsafe {
            match (by, batch) {
                (4, 0) => first.put_narrow(self, vectors, 4, move |_, _| from, out),
                (4, _) => first.put_narrow(self, vectors, 4, stepped, out),
                (8, 0) => first.put_narrow(self, vectors, 8, move |_, _| from, out),
                (by, _) => first.put_narrow(self, vectors, by, stepped, out),
            }
            for c in others {
                match by {
                    8 => c.put_narrow(self, vectors, 8, |_, o| o, out),
                    by => c.put_narrow(self, vectors, by, |_, o| o, out),
                }
            }
        }
    }

    /// # Safety
    /// As [`fill`](Picks::fill); `read` reads an index.
    #[inline(always)]
    unsafe fn of(
        &self,
        vectors: *const u8,
        by: isize,
        from: isize,
        batch: isize,
        out: &mut [isize],
        read: impl Fn(*const u8) -> i64,
    ) {
        for (i, o) in out.iter_mut().enumerate() {
            *o = from + i as isize * batch;
        }
        for c in &self.components {
            // SAFETY: the caller's.
            let first = unsafe { vectors.offset(c.at) };
            let index = |i: usize| {
                // SAFETY: the caller's.
                read(unsafe { first.offset(i as isize * by) })
            };
            match self.outside {
                Outside::Clamped => {
                    for (i, o) in out.iter_mut().enumerate() {
                        *o += index(i).clamp(0, c.most) as isize * c.stride;
                    }
                }
                Outside::Nowhere => {
                    for (i, o) in out.iter_mut().enumerate() {
                        let at = index(i);
                        // Below zero is far above as an unsigned number.
                        let inside = at as u64 <= c.most as u64 && *o != NOWHERE;
                        *o = if inside { *o + at as isize * c.stride } else { NOWHERE };
                    }
                }
            }
        }
    }
}
