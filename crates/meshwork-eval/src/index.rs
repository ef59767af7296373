//! Walking tensors in row-major order, and copying strided boxes between them.
//!
//! All data movement ops are one [`copy_box`] with the right strides and offsets.

use meshwork_ir::{ElementType, Literal};

/// Extents as `usize`. The caller vouches that they are static.
pub(crate) fn extents(dims: &[i64]) -> Vec<usize> {
    dims.iter().map(|&d| d as usize).collect()
}

/// Row-major strides in elements. They may wrap around for a tensor without elements, where none is used.
pub(crate) fn strides(dims: &[i64]) -> Vec<isize> {
    let mut out = vec![1isize; dims.len()];
    for d in (1..dims.len()).rev() {
        out[d - 1] = out[d].wrapping_mul(dims[d] as isize);
    }
    out
}

/// Element `i` of an index tensor; unsigned values beyond `i64` become the largest one.
pub(crate) fn index_at(x: &Literal, i: usize) -> i64 {
    match x.get_i64(i) {
        v if v < 0 && x.elem() == ElementType::UI64 => i64::MAX,
        v => v,
    }
}

/// All elements of an index tensor.
pub(crate) fn indices_of(x: &Literal) -> Vec<i64> {
    (0..x.len()).map(|i| index_at(x, i)).collect()
}

/// Where the elements of a box stand in a tensor: the position of the first, and the distance between neighbours
/// along each dimension, in elements.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Position of the first element.
    pub offset: isize,
    /// Distance between neighbours per dimension.
    pub strides: Vec<isize>,
}

impl View {
    /// The whole of a tensor with these extents.
    pub(crate) fn whole(dims: &[i64]) -> View {
        View { offset: 0, strides: strides(dims) }
    }

    /// The box that starts at `start` in a tensor with these extents.
    pub(crate) fn at(dims: &[i64], start: &[i64]) -> View {
        let strides = strides(dims);
        let offset = strides.iter().zip(start).map(|(&s, &i)| s * i as isize).sum();
        View { offset, strides }
    }
}

/// Counts through all indices below `dims` in row-major order, and keeps `N` linear positions up to date.
///
/// ```text
/// let mut walk = Walk::new(&dims, [&a, &b]);
/// while let Some([i, j]) = walk.next() { .. }
/// ```
pub(crate) struct Walk<const N: usize> {
    dims: Vec<usize>,
    index: Vec<usize>,
    strides: [Vec<isize>; N],
    at: [isize; N],
    state: State,
}

#[derive(PartialEq)]
enum State {
    Fresh,
    Running,
    Done,
}

impl<const N: usize> Walk<N> {
    /// Walks all indices below `dims`, following these views.
    pub(crate) fn new(dims: &[usize], views: [&View; N]) -> Walk<N> {
        Walk {
            state: if dims.contains(&0) { State::Done } else { State::Fresh },
            dims: dims.to_vec(),
            index: vec![0; dims.len()],
            strides: std::array::from_fn(|n| views[n].strides.clone()),
            at: std::array::from_fn(|n| views[n].offset),
        }
    }

    /// The index of the last step.
    pub(crate) fn index(&self) -> &[usize] {
        &self.index
    }

    /// The positions of the next index.
    pub(crate) fn next(&mut self) -> Option<[isize; N]> {
        match self.state {
            State::Done => return None,
            State::Fresh => {
                self.state = State::Running;
                return Some(self.at);
            }
            State::Running => {}
        }
        for d in (0..self.dims.len()).rev() {
            self.index[d] += 1;
            for n in 0..N {
                self.at[n] += self.strides[n][d];
            }
            if self.index[d] < self.dims[d] {
                return Some(self.at);
            }
            for n in 0..N {
                self.at[n] -= self.strides[n][d] * self.dims[d] as isize;
            }
            self.index[d] = 0;
        }
        self.state = State::Done;
        None
    }
}

/// Copies the box of extents `dims` seen through `from` in `src` to where `to` puts it in `dst`.
///
/// Both literals have the same element type and both views stay inside them.
pub(crate) fn copy_box(dst: &mut Literal, to: &View, src: &Literal, from: &View, dims: &[usize]) {
    let size = src.elem().storage_bytes();
    // The longest run at the end that is contiguous on both sides is copied in one piece.
    let mut run = 1usize;
    let mut outer = dims.len();
    while outer > 0
        && (dims[outer - 1] == 1 || (to.strides[outer - 1] == run as isize && from.strides[outer - 1] == run as isize))
    {
        run *= dims[outer - 1];
        outer -= 1;
    }
    if run == 0 {
        return;
    }
    let cut = |v: &View| View { offset: v.offset, strides: v.strides[..outer].to_vec() };
    let mut walk = Walk::new(&dims[..outer], [&cut(to), &cut(from)]);
    let (dst, src) = (dst.bytes_mut(), src.bytes());
    // Sizes known to the compiler make single-element copies cheap.
    match run * size {
        1 => {
            while let Some([t, f]) = walk.next() {
                dst[t as usize] = src[f as usize];
            }
        }
        4 => copy_pieces::<4>(dst, src, size, &mut walk),
        8 => copy_pieces::<8>(dst, src, size, &mut walk),
        n => {
            while let Some([t, f]) = walk.next() {
                let (t, f) = (t as usize * size, f as usize * size);
                dst[t..t + n].copy_from_slice(&src[f..f + n]);
            }
        }
    }
}

fn copy_pieces<const BYTES: usize>(dst: &mut [u8], src: &[u8], size: usize, walk: &mut Walk<2>) {
    while let Some([t, f]) = walk.next() {
        let (t, f) = (t as usize * size, f as usize * size);
        dst[t..t + BYTES].copy_from_slice(&src[f..f + BYTES]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_row_major_and_stops() {
        let mut walk = Walk::new(&[2, 3], [&View::whole(&[2, 3]), &View { offset: 5, strides: vec![0, -1] }]);
        let mut seen = vec![];
        while let Some([a, b]) = walk.next() {
            seen.push((a, b));
        }
        assert_eq!(seen, [(0, 5), (1, 4), (2, 3), (3, 5), (4, 4), (5, 3)]);
        assert!(walk.next().is_none());
    }

    #[test]
    fn scalar_has_one_index_and_empty_none() {
        let mut scalar = Walk::new(&[], [&View::whole(&[])]);
        assert_eq!(scalar.next(), Some([0]));
        assert_eq!(scalar.next(), None);
        let mut empty = Walk::new(&[3, 0], [&View::whole(&[3, 0])]);
        assert_eq!(empty.next(), None);
    }
}
