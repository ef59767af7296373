//! Loop nests over strided boxes: extents with one byte stride per operand, brought to as few loops as possible.

use std::ops::Range;

use meshwork_mesh::sort_by_key;

/// A box of elements as `N` operands see it: per dimension an extent and each operand's byte stride.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nest<const N: usize> {
    /// Extents, outermost first; none is 1, and if one is 0 it is the only one.
    pub dims: Vec<usize>,
    /// Byte strides of each dimension.
    pub strides: Vec<[isize; N]>,
}

impl<const N: usize> Nest<N> {
    /// The box with these extents and strides: dimensions of extent 1 are dropped, the others ordered by the stride
    /// of operand 0 (largest first), and neighbors that are one run for every operand become one dimension.
    pub(crate) fn new(dims: &[i64], strides: [&[i64]; N]) -> Nest<N> {
        if dims.contains(&0) {
            return Nest { dims: vec![0], strides: vec![[0; N]] };
        }
        let stride = |d: usize| strides.map(|s| s[d] as isize);
        let mut loops: Vec<(usize, [isize; N])> =
            (0..dims.len()).filter(|&d| dims[d] != 1).map(|d| (dims[d] as usize, stride(d))).collect();
        sort_by_key(&mut loops, |(_, s)| std::cmp::Reverse(s[0].unsigned_abs()));
        let mut out = Nest { dims: vec![], strides: vec![] };
        for (n, s) in loops {
            match (out.dims.last_mut(), out.strides.last_mut()) {
                (Some(outer), Some(step)) if (0..N).all(|i| step[i] == s[i] * n as isize) => {
                    *outer *= n;
                    *step = s;
                }
                _ => {
                    out.dims.push(n);
                    out.strides.push(s);
                }
            }
        }
        out
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.dims.iter().product()
    }
}

/// Calls `visit` with the byte offsets of each index below `dims`, in row-major order, starting from `at`.
pub(crate) fn walk<const N: usize>(
    dims: &[usize],
    strides: &[[isize; N]],
    at: [isize; N],
    visit: &mut dyn FnMut([isize; N]),
) {
    match (dims, strides) {
        ([n, inner_dims @ ..], [step, inner_strides @ ..]) => {
            let mut at = at;
            for _ in 0..*n {
                if inner_dims.is_empty() {
                    visit(at)
                } else {
                    walk(inner_dims, inner_strides, at, visit)
                }
                for i in 0..N {
                    at[i] += step[i];
                }
            }
        }
        _ => visit(at),
    }
}

/// The byte offset of every index below `dims` in row-major order.
pub(crate) fn offsets(dims: &[i64], strides: &[i64]) -> Vec<isize> {
    let extents: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
    let steps: Vec<[isize; 1]> = strides.iter().map(|&s| [s as isize]).collect();
    let mut out = Vec::with_capacity(extents.iter().product());
    walk(&extents, &steps, [0], &mut |[at]| out.push(at));
    out
}

/// Piece `part` of `n` things in `parts` pieces whose borders are multiples of `grain`, as equal as possible.
pub(crate) fn piece(n: usize, parts: usize, part: usize, grain: usize) -> Range<usize> {
    let grains = n.div_ceil(grain);
    let border = |p: usize| (grains * p / parts * grain).min(n);
    border(part)..border(part + 1)
}

/// In how many parts work of `size` (in any measure) is cut so that each is about `each`, at most `most`.
pub(crate) fn parts_of(size: usize, each: usize, most: usize) -> usize {
    (size / each.max(1)).clamp(1, most.clamp(1, MOST_PARTS))
}

/// No step has more parts.
pub(crate) const MOST_PARTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_contiguous_dimensions() {
        let n = Nest::new(&[2, 1, 3, 4], [&[48, 7, 16, 4], &[48, 0, 16, 4]]);
        assert_eq!((n.dims, n.strides), (vec![24], vec![[4, 4]]));
        let n = Nest::new(&[3, 4], [&[16, 4], &[4, 12]]);
        assert_eq!((n.dims, n.strides), (vec![3, 4], vec![[16, 4], [4, 12]]));
        assert_eq!(Nest::new(&[3, 0], [&[0, 4]]).len(), 0);
        assert_eq!(Nest::<1>::new(&[], [&[]]).len(), 1);
    }

    #[test]
    fn walks_in_row_major_order() {
        assert_eq!(offsets(&[2, 3], &[100, -1]), [0, -1, -2, 100, 99, 98]);
        assert_eq!(offsets(&[], &[]), [0]);
        assert!(offsets(&[2, 0], &[1, 1]).is_empty());
    }

    #[test]
    fn pieces_cover_everything_once() {
        for (n, parts, grain) in [(0, 1, 1), (10, 3, 1), (100, 7, 16), (5, 5, 16), (64, 4, 16)] {
            let mut at = 0;
            for part in 0..parts {
                let r = piece(n, parts, part, grain);
                assert_eq!(r.start, at);
                at = r.end;
            }
            assert_eq!(at, n);
        }
    }
}
