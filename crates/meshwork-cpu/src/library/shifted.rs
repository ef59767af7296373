//! Sums of shifted products along lines of neighbors, which some convolutions are.

use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};

use super::dot::micro::Tile;
use super::nest::{parts_of, piece};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// `out[p, i] = Σ x[p + tap, i] w[tap, i]` along lines of `n` elements.
#[derive(Debug)]
pub(super) struct Lines {
    pub x: Buf,
    pub w: Buf,
    pub out: Buf,
    /// Byte offsets of each line: input, kernel, result.
    pub lines: Vec<[isize; 3]>,
    /// Byte offsets of each tap: input, kernel.
    pub taps: Vec<[isize; 2]>,
    pub n: usize,
    /// Byte strides along a line: input, kernel; the result is contiguous.
    pub strides: [isize; 2],
}

impl Lines {
    /// Adds its step, of numbers of type `elem`, which is `f32` or `f64`.
    pub(super) fn emit(self, cx: &mut Lower<'_>, op: OpId, name: String, elem: ElementType) {
        let (reads, writes) = (vec![self.x, self.w], vec![self.out]);
        let parts = parts_of(self.lines.len() * self.n * self.taps.len(), 1 << 18, self.lines.len());
        let work: Arc<dyn Work> = match elem {
            ElementType::F64 => Arc::new(Typed::<f64> { all: self, parts, number: std::marker::PhantomData }),
            _ => Arc::new(Typed::<f32> { all: self, parts, number: std::marker::PhantomData }),
        };
        cx.step(op, name, work, reads, writes);
    }
}

/// [`Lines`] of numbers of one type, in parts.
#[derive(Debug)]
struct Typed<T> {
    all: Lines,
    parts: usize,
    number: std::marker::PhantomData<T>,
}

impl<T: Tile> Typed<T> {
    /// # Safety
    /// As [`Work::run`].
    unsafe fn line(&self, x: *const u8, w: *const u8, out: *mut T) {
        let size = size_of::<T>() as isize;
        let Lines { taps, n, strides: [xs, ws], .. } = &self.all;
        // SAFETY: in the whole function: elements of the operands that taps and positions name.
        unsafe {
            let done =
                if *xs == size && (*ws == size || *ws == 0) { T::sum_taps(taps, (x, w), *ws == 0, out, *n) } else { 0 };
            for i in done..*n {
                let mut sum = T::default();
                for &[dx, dw] in taps {
                    let x = x.offset(dx + i as isize * xs).cast::<T>().read_unaligned();
                    let w = w.offset(dw + i as isize * ws).cast::<T>().read_unaligned();
                    sum = sum.add_product::<false>(x, w);
                }
                out.add(i).write(sum);
            }
        }
    }
}

impl<T: Tile> Work for Typed<T> {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.all.lines.len() * (20 + self.all.n * self.all.taps.len() / 8)) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let all = &self.all;
        for &[x, w, out] in &all.lines[piece(all.lines.len(), self.parts, part, 1)] {
            // SAFETY: the trait's contract; parts are disjoint lines of the result.
            unsafe {
                let (x, w) = (frame.ptr(all.x).offset(x), frame.ptr(all.w).offset(w));
                self.line(x, w, frame.ptr(all.out).offset(out).cast());
            }
        }
        Ok(())
    }
}
