//! Sums of strips of several chunks, added up in order and rounded to the type of the result.

use std::sync::Arc;

use crate::library::dot::pack::Elements;
use crate::library::nest::piece;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// `to[i] = Σ from[c][i]` over the chunks `c`, in order.
#[derive(Clone, Debug)]
pub(crate) struct SumChunks<T> {
    pub from: Buf,
    pub to: Buf,
    pub chunks: usize,
    /// Numbers of a chunk.
    pub count: usize,
    /// Elements of the result, of `size` bytes each.
    pub elements: Arc<dyn Elements<T>>,
    pub size: usize,
}

/// Numbers that are added up at a time.
const RUN: usize = 256;

impl<T> Work for SumChunks<T>
where
    T: Copy + Default + std::ops::AddAssign + std::fmt::Debug + Send + Sync,
{
    fn parts(&self) -> usize {
        (self.count * self.chunks / (64 << 10)).clamp(1, 64)
    }

    fn cost(&self) -> u64 {
        (self.count * (self.chunks + 1) / 4) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let (from, to) = (frame.ptr(self.from).cast::<T>(), frame.ptr(self.to));
        let range = piece(self.count, self.parts(), part, 1);
        for start in range.clone().step_by(RUN) {
            let n = RUN.min(range.end - start);
            let mut sums = [T::default(); RUN];
            for chunk in 0..self.chunks {
                for (i, sum) in sums[..n].iter_mut().enumerate() {
                    // SAFETY: inside the buffer.
                    *sum += unsafe { *from.add(chunk * self.count + start + i) };
                }
            }
            // SAFETY: this part's elements.
            unsafe { self.elements.write(sums.as_ptr(), to.add(start * self.size), n) };
        }
        Ok(())
    }
}
