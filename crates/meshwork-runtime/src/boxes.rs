//! Copying boxes: rectangular parts of dense arrays, as few long runs as possible.

use std::ops::Range;

/// A copy of a box between two arrays: dimensions outermost first, then a run of neighboring bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct BoxCopy {
    from: usize,
    to: usize,
    /// Extent, bytes from one to the next in the source and in the target.
    dims: Vec<(usize, usize, usize)>,
    run: usize,
}

/// A box in a dense array: the array's extents and where the box starts in it.
pub struct Region<'a> {
    /// Extents of the array.
    pub dims: &'a [i64],
    /// Where the box starts in it.
    pub start: &'a [i64],
}

impl BoxCopy {
    /// A copy of the elements of `size` bytes of a box of extents `lengths`.
    pub fn new(from: &Region<'_>, to: &Region<'_>, lengths: &[i64], size: usize) -> BoxCopy {
        let mut copy = BoxCopy { from: 0, to: 0, dims: vec![], run: size };
        let (mut step_from, mut step_to) = (size, size);
        for d in (0..lengths.len()).rev() {
            copy.from += from.start[d].max(0) as usize * step_from;
            copy.to += to.start[d].max(0) as usize * step_to;
            let length = lengths[d].max(0) as usize;
            // As long as both sides go on without a gap it is one run.
            if copy.dims.is_empty() && step_from == copy.run && step_to == copy.run {
                copy.run *= length
            } else {
                copy.dims.push((length, step_from, step_to))
            }
            step_from *= from.dims[d].max(0) as usize;
            step_to *= to.dims[d].max(0) as usize;
        }
        copy.dims.reverse();
        copy.dims.retain(|d| d.0 != 1);
        copy
    }

    /// The same copy from an array that starts `bytes` later.
    pub fn later(mut self, bytes: usize) -> BoxCopy {
        self.from += bytes;
        self
    }

    /// How many bytes are copied.
    pub fn bytes(&self) -> usize {
        self.dims.iter().map(|d| d.0).product::<usize>() * self.run
    }

    /// Where it starts in the source and in the target, if it is one run.
    pub fn span(&self) -> Option<(usize, usize)> {
        self.dims.is_empty().then_some((self.from, self.to))
    }

    /// The bytes between the first and the last that are read, and the same of what is written.
    pub fn reach(&self) -> (Range<usize>, Range<usize>) {
        let last = |step: fn(&(usize, usize, usize)) -> usize| {
            self.dims.iter().map(|d| d.0.saturating_sub(1) * step(d)).sum::<usize>() + self.run
        };
        (self.from..self.from + last(|d| d.1), self.to..self.to + last(|d| d.2))
    }

    /// The same copy in pieces of about `bytes` bytes.
    pub fn pieces(self, bytes: usize, out: &mut Vec<BoxCopy>) {
        if self.bytes() <= bytes {
            out.push(self);
            return;
        }
        let Some(&(length, from, to)) = self.dims.first() else {
            let mut at = 0;
            while at < self.run {
                let run = bytes.next_multiple_of(64).min(self.run - at);
                out.push(BoxCopy { from: self.from + at, to: self.to + at, dims: vec![], run });
                at += run;
            }
            return;
        };
        let row = self.bytes() / length.max(1);
        let rows = (bytes / row.max(1)).max(1);
        let mut at = 0;
        while at < length {
            let count = rows.min(length - at);
            let mut piece = self.clone();
            piece.from += at * from;
            piece.to += at * to;
            piece.dims[0].0 = count;
            if count == 1 {
                piece.dims.remove(0);
                piece.pieces(bytes, out);
            } else {
                out.push(piece);
            }
            at += count;
        }
    }

    /// Calls `f` with the offsets in both arrays and the length of each run, at most `longest` bytes, in row-major order.
    pub fn runs<E>(&self, longest: usize, f: &mut impl FnMut(usize, usize, usize) -> Result<(), E>) -> Result<(), E> {
        let mut index = vec![0; self.dims.len()];
        let count = self.dims.iter().map(|d| d.0).product::<usize>();
        for _ in 0..count {
            let offset = |step: fn(&(usize, usize, usize)) -> usize| {
                self.dims.iter().zip(&index).map(|(d, i)| step(d) * i).sum::<usize>()
            };
            let (from, to) = (self.from + offset(|d| d.1), self.to + offset(|d| d.2));
            let mut at = 0;
            while at < self.run {
                let length = longest.min(self.run - at);
                f(from + at, to + at, length)?;
                at += length;
            }
            for d in (0..index.len()).rev() {
                index[d] += 1;
                if index[d] < self.dims[d].0 {
                    break;
                }
                index[d] = 0;
            }
        }
        Ok(())
    }

    /// Copies.
    ///
    /// # Safety
    /// Both arrays are as large as their extents say, and do not overlap.
    pub unsafe fn run(&self, from: *const u8, to: *mut u8) {
        // SAFETY: the offsets of a box are inside its arrays.
        unsafe { walk(&self.dims, self.run, from.add(self.from), to.add(self.to)) }
    }

    /// Copies past the caches.
    ///
    /// # Safety
    /// As for [`run`](BoxCopy::run).
    pub unsafe fn stream(&self, from: *const u8, to: *mut u8) {
        if self.dims.is_empty() {
            // SAFETY: the box is one run inside its arrays.
            return unsafe { crate::stream::copy(from.add(self.from), to.add(self.to), self.run) };
        }
        // SAFETY: the same contract.
        unsafe { self.run(from, to) }
    }
}

unsafe fn walk(dims: &[(usize, usize, usize)], run: usize, from: *const u8, to: *mut u8) {
    match dims {
        // SAFETY: by the contract of `BoxCopy::run`.
        [] => unsafe { std::ptr::copy_nonoverlapping(from, to, run) },
        &[(length, step_from, step_to)] => {
            for i in 0..length {
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(from.add(i * step_from), to.add(i * step_to), run) };
            }
        }
        [(length, step_from, step_to), rest @ ..] => {
            for i in 0..*length {
                // SAFETY: as above.
                unsafe { walk(rest, run, from.add(i * step_from), to.add(i * step_to)) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_of_a_matrix_moves_whole_or_in_pieces() {
        let from: Vec<u8> = (0..6 * 7).collect();
        let copy = BoxCopy::new(
            &Region { dims: &[6, 7], start: &[1, 2] },
            &Region { dims: &[5, 4], start: &[0, 1] },
            &[4, 3],
            1,
        );
        for bytes in [1, 3, 7, 100] {
            let mut pieces = vec![];
            copy.clone().pieces(bytes, &mut pieces);
            assert_eq!(pieces.iter().map(BoxCopy::bytes).sum::<usize>(), 12);
            let mut to = vec![0u8; 20];
            for piece in &pieces {
                // SAFETY: the arrays have the extents given.
                unsafe { piece.run(from.as_ptr(), to.as_mut_ptr()) };
            }
            for r in 0..5 {
                for c in 0..4 {
                    let want = if r < 4 && c >= 1 { from[(r + 1) * 7 + c + 1] } else { 0 };
                    assert_eq!(to[r * 4 + c], want);
                }
            }
        }
    }

    #[test]
    fn whole_rows_are_one_run() {
        let at = Region { dims: &[4, 8], start: &[2, 0] };
        let copy = BoxCopy::new(&at, &Region { dims: &[2, 8], start: &[0, 0] }, &[2, 8], 4);
        assert_eq!((copy.dims.len(), copy.run, copy.from), (0, 64, 64));
        let none = BoxCopy::new(&at, &at, &[0, 8], 4);
        assert_eq!(none.bytes(), 0);
    }
}
