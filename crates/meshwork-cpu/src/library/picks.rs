//! Positions that index vectors name: blocks of byte offsets, which gather reads from and scatter writes to.

use meshwork_ir::ElementType;

use super::dynamic::read_index;
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
    /// Adds what this component of vectors of `i32`, `by` bytes apart, means.
    ///
    /// # Safety
    /// As [`Picks::fill`]; position and stride are within 32 bits.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn add_narrow(&self, outside: Outside, vectors: *const u8, by: isize, out: &mut [isize]) {
        let (most, stride) = (self.most as i32, self.stride as i32);
        // SAFETY: the caller's.
        let index = |i: usize| unsafe { vectors.offset(self.at + i as isize * by).cast::<i32>().read_unaligned() };
        let far = |at: i32| (i64::from(at) * i64::from(stride)) as isize;
        match outside {
            Outside::Clamped => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o += far(index(i).clamp(0, most));
                }
            }
            Outside::Nowhere => {
                for (i, o) in out.iter_mut().enumerate() {
                    let at = index(i);
                    // Below zero is far above as an unsigned number.
                    let inside = (at as u32 <= most as u32) & (*o != NOWHERE);
                    *o = if inside { *o + far(at) } else { NOWHERE };
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

/// Vectors of one block.
pub(super) const BLOCK: usize = 1024;

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
        if dims.contains(&0) {
            return;
        }
        let mut offsets = [0isize; BLOCK];
        let (n, outer) = dims.split_last().map_or((1, &[][..]), |(&n, outer)| (n, outer));
        let [step, by, batch] = self.nest.strides.last().copied().unwrap_or_default();
        let base = frame.ptr(self.buf).cast_const();
        walk(outer, &self.nest.strides[..outer.len()], at, &mut |[with, index, from]| {
            for first in (0..n).step_by(BLOCK) {
                let block = &mut offsets[..BLOCK.min(n - first)];
                let skipped = first as isize;
                // SAFETY: the caller's.
                unsafe {
                    let vectors = base.offset(self.start + index + skipped * by);
                    self.fill(vectors, by, from + skipped * batch, batch, block);
                }
                visit(with + skipped * step, step, block);
            }
        });
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
                ElementType::I32 if wide() && self.is_narrow() => self.of_narrow(vectors, by, from, batch, out),
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

    /// Whether positions and strides are within 32 bits.
    #[cfg(target_arch = "x86_64")]
    fn is_narrow(&self) -> bool {
        let fits = |c: &Component| i32::try_from(c.most).is_ok() && i32::try_from(c.stride).is_ok();
        self.components.iter().all(fits)
    }

    /// [`of`](Picks::of) for `i32`, in the processor's longer vectors.
    ///
    /// # Safety
    /// As [`fill`](Picks::fill); AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn of_narrow(&self, vectors: *const u8, by: isize, from: isize, batch: isize, out: &mut [isize]) {
        for (i, o) in out.iter_mut().enumerate() {
            *o = from + i as isize * batch;
        }
        for c in &self.components {
            // SAFETY: the caller's; the same for steps that the compiler knows.
            unsafe {
                match by {
                    4 => c.add_narrow(self.outside, vectors, 4, out),
                    8 => c.add_narrow(self.outside, vectors, 8, out),
                    by => c.add_narrow(self.outside, vectors, by, out),
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
