//! Boxes of row-major arrays: where they overlap, and their runs of elements that lie together.

use std::ops::Range;

/// One range per dimension.
pub(crate) type Slice = Vec<Range<i64>>;

/// What two slices have in common; `None` if that is empty.
pub(crate) fn overlap(a: &[Range<i64>], b: &[Range<i64>]) -> Option<Slice> {
    let both: Slice = a.iter().zip(b).map(|(a, b)| a.start.max(b.start)..a.end.min(b.end)).collect();
    both.iter().all(|r| r.start < r.end).then_some(both)
}

/// The extents of a slice.
pub(crate) fn lengths(slice: &[Range<i64>]) -> Vec<i64> {
    slice.iter().map(|r| (r.end - r.start).max(0)).collect()
}

/// A place inside of an array.
pub(crate) struct At<'a> {
    /// Extents of the array.
    pub dims: &'a [i64],
    /// Where the box starts in it.
    pub start: &'a [i64],
}

/// The same box in two arrays, as runs of bytes that lie together in both.
pub(crate) struct Runs {
    /// Bytes of a run.
    length: usize,
    /// Of each outer dimension: extent, and bytes from one to the next in both arrays.
    outer: Vec<(i64, usize, usize)>,
    first: (usize, usize),
}

impl Runs {
    /// The box with extents `lengths` of elements of `size` bytes.
    pub(crate) fn new(a: &At<'_>, b: &At<'_>, lengths: &[i64], size: usize) -> Runs {
        let rank = lengths.len();
        let mut steps = vec![(size, size); rank];
        for d in (1..rank).rev() {
            steps[d - 1] = (steps[d].0 * a.dims[d] as usize, steps[d].1 * b.dims[d] as usize);
        }
        let first = (0..rank)
            .fold((0, 0), |(x, y), d| (x + a.start[d] as usize * steps[d].0, y + b.start[d] as usize * steps[d].1));
        // Behind the last dimension that is cut in either, elements lie together; so they do along that one.
        let is_whole = |&d: &usize| lengths[d] == a.dims[d] && lengths[d] == b.dims[d];
        let whole = (0..rank).rev().take_while(is_whole).count();
        let inner = (rank - whole).saturating_sub(1);
        let length = lengths[inner..].iter().product::<i64>() as usize * size;
        let outer = (0..inner).map(|d| (lengths[d], steps[d].0, steps[d].1)).collect();
        Runs { length, outer, first }
    }

    /// Calls `f` with the offsets in both arrays and the length of each run, in row-major order.
    pub(crate) fn each<E>(&self, mut f: impl FnMut(usize, usize, usize) -> Result<(), E>) -> Result<(), E> {
        if self.length == 0 || self.outer.iter().any(|&(n, _, _)| n == 0) {
            return Ok(());
        }
        let mut index = vec![0i64; self.outer.len()];
        let (mut x, mut y) = self.first;
        loop {
            f(x, y, self.length)?;
            let mut d = self.outer.len();
            loop {
                let Some(up) = d.checked_sub(1) else { return Ok(()) };
                d = up;
                let (extent, step_x, step_y) = self.outer[d];
                index[d] += 1;
                (x, y) = (x + step_x, y + step_y);
                if index[d] < extent {
                    break;
                }
                (x, y) = (x - extent as usize * step_x, y - extent as usize * step_y);
                index[d] = 0;
            }
        }
    }
}

/// Copies the box with extents `lengths` from one array of elements of `size` bytes to another.
pub(crate) fn copy(from: &[u8], from_at: &At<'_>, to: &mut [u8], to_at: &At<'_>, lengths: &[i64], size: usize) {
    let copied = Runs::new(from_at, to_at, lengths, size).each(|a, b, length| {
        to[b..b + length].copy_from_slice(&from[a..a + length]);
        Ok::<(), std::convert::Infallible>(())
    });
    copied.unwrap_or_else(|never| match never {});
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(a: &[i64], a_at: &[i64], b: &[i64], b_at: &[i64], lengths: &[i64]) -> Vec<(usize, usize, usize)> {
        let mut out = vec![];
        let runs = Runs::new(&At { dims: a, start: a_at }, &At { dims: b, start: b_at }, lengths, 2);
        runs.each(|x, y, n| {
            out.push((x, y, n));
            Ok::<(), ()>(())
        })
        .unwrap();
        out
    }

    #[test]
    fn whole_arrays_are_one_run() {
        assert_eq!(runs(&[3, 4], &[0, 0], &[3, 4], &[0, 0], &[3, 4]), [(0, 0, 24)]);
        assert_eq!(runs(&[], &[], &[], &[], &[]), [(0, 0, 2)]);
    }

    #[test]
    fn rows_are_one_run_and_columns_are_many() {
        assert_eq!(runs(&[4, 3], &[1, 0], &[2, 3], &[0, 0], &[2, 3]), [(6, 0, 12)]);
        assert_eq!(runs(&[2, 4], &[0, 1], &[2, 2], &[0, 0], &[2, 2]), [(2, 0, 4), (10, 4, 4)]);
    }

    #[test]
    fn three_dimensions_are_walked_in_order() {
        let got = runs(&[2, 2, 3], &[0, 0, 1], &[2, 2, 2], &[0, 0, 0], &[2, 2, 2]);
        assert_eq!(got, [(2, 0, 4), (8, 4, 4), (14, 8, 4), (20, 12, 4)]);
    }

    #[test]
    fn empty_boxes_have_no_runs() {
        assert!(runs(&[0, 3], &[0, 0], &[0, 3], &[0, 0], &[0, 3]).is_empty());
        assert!(runs(&[2, 3], &[1, 1], &[2, 3], &[0, 0], &[1, 0]).is_empty());
        assert!(runs(&[3, 2], &[1, 0], &[3, 2], &[0, 0], &[0, 1]).is_empty());
    }

    #[test]
    fn overlaps() {
        assert_eq!(overlap(&[0..4, 2..6], &[2..9, 0..3]), Some(vec![2..4, 2..3]));
        assert_eq!(overlap(&[0..4, 0..2], &[2..9, 2..3]), None);
        assert_eq!(overlap(&[], &[]), Some(vec![]));
    }
}
