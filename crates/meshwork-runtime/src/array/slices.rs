//! Slices of row-major arrays: where they overlap, and copies between them.

use std::ops::Range;

use crate::boxes::{BoxCopy, Region};

/// One range of indices per dimension.
pub type Slice = Vec<Range<i64>>;

/// What two slices have in common; `None` if that is empty.
pub fn overlap(a: &[Range<i64>], b: &[Range<i64>]) -> Option<Slice> {
    let both: Slice = a.iter().zip(b).map(|(a, b)| a.start.max(b.start)..a.end.min(b.end)).collect();
    both.iter().all(|r| r.start < r.end).then_some(both)
}

/// Where a slice starts.
pub fn starts(slice: &[Range<i64>]) -> Vec<i64> {
    slice.iter().map(|r| r.start).collect()
}

/// The extents of a slice.
pub fn lengths(slice: &[Range<i64>]) -> Vec<i64> {
    slice.iter().map(|r| (r.end - r.start).max(0)).collect()
}

/// Copies the box with extents `lengths` from one array of elements of `size` bytes to another.
pub fn copy(from: &[u8], from_at: &Region<'_>, to: &mut [u8], to_at: &Region<'_>, lengths: &[i64], size: usize) {
    let copied = BoxCopy::new(from_at, to_at, lengths, size).runs(usize::MAX, &mut |a, b, length| {
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
        let copy = BoxCopy::new(&Region { dims: a, start: a_at }, &Region { dims: b, start: b_at }, lengths, 2);
        copy.runs(usize::MAX, &mut |x, y, n| {
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
