//! Products of matrices and single vectors, which are as fast as the matrix streams from memory.

use std::ops::Range;

use super::columns::{Columns, MOST_BYTES};
use super::pack::Index;
use super::product::Product;
use super::subnormal::Subnormals;
use crate::library::dot::micro::Tile;
use crate::library::nest::{parts_of, piece};
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// `y[b][i] = Σ M[b][i, k] x[b][k]`: a [`Product`] with one row or one column.
#[derive(Debug)]
pub(crate) struct Matvec<T: Tile> {
    product: Product<T>,
    /// Whether the matrix is `A`.
    left: bool,
    /// Whether the matrix is contiguous along the sums.
    along: bool,
    parts: usize,
}

impl<T: Tile> Matvec<T> {
    /// The product as this kind of work, if it is one and its matrix is contiguous in some direction.
    pub(crate) fn new(product: Product<T>) -> Option<Matvec<T>> {
        let left = product.columns == 1;
        let (m, rows) = if left { (&product.a, product.rows) } else { (&product.b, product.columns) };
        let unit = size_of::<T>() as isize;
        let along = match (&m.outer, &m.depth) {
            (Index::Stride(_), Index::Stride(d)) if *d == unit => true,
            (Index::Stride(o), Index::Stride(_)) if *o == unit => false,
            _ => return None,
        };
        let one = product.rows == 1 || product.columns == 1;
        if !one || !m.same || !product.out_same || !product.dense || product.accumulate {
            return None;
        }
        let batch = m.batch.len();
        // Neighboring rows are read in lines as long as a part has rows: short ones are fetched badly.
        let least = if along { 64 } else { 512 };
        let most = if batch > 1 { batch } else { rows.div_ceil(least) };
        let parts = parts_of(batch * rows * product.depth * size_of::<T>(), 256 << 10, most);
        Some(Matvec { product, left, along, parts })
    }

    /// Buffers it reads.
    pub(crate) fn reads(&self) -> Vec<Buf> {
        vec![self.product.a.buf, self.product.b.buf]
    }

    /// # Safety
    /// As [`Work::run`].
    unsafe fn rows(&self, frame: &Frame<'_>, scratch: &mut Scratch, batch: usize, rows: Range<usize>) {
        let p = &self.product;
        let (m, v, all) = if self.left { (&p.a, &p.b, p.rows) } else { (&p.b, &p.a, p.columns) };
        let is_list = matches!(v.depth, Index::Stride(step) if step == size_of::<T>() as isize);
        // SAFETY: the trait's contract; what is packed has room for the vector.
        unsafe {
            let from = frame.ptr(v.buf).offset(v.batch[batch]).cast_const();
            let x: *const T = if v.same && is_list {
                from.cast()
            } else {
                let x = scratch.get(p.depth * size_of::<T>()).cast::<T>();
                v.packer.pack(from, (&v.outer, 0, 1), (&v.depth, 0, p.depth), x, 1);
                x
            };
            let at = m.batch[batch] + m.outer.at(rows.start);
            let call = Call {
                matrix: frame.ptr(m.buf).offset(at).cast_const().cast::<T>(),
                row: m.outer.step() / size_of::<T>() as isize,
                step: m.depth.step() / size_of::<T>() as isize,
                x,
                y: frame.ptr(p.c).cast::<T>().add(batch * all + rows.start),
                rows: rows.len(),
                depth: p.depth,
            };
            if self.along { along(&call) } else { across(&call) }
        }
    }
}

impl<T: Tile> Work for Matvec<T> {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let p = &self.product;
        (p.a.batch.len() * p.rows * p.columns * p.depth * size_of::<T>()) as u64 / 15 + 50
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let _zero = Subnormals::are_zero();
        let batch = self.product.a.batch.len();
        let rows = if self.left { self.product.rows } else { self.product.columns };
        match batch {
            // SAFETY: the trait's contract; parts are disjoint ranges of the result.
            1 => unsafe { self.rows(frame, scratch, 0, piece(rows, self.parts, part, 16)) },
            _ => {
                for b in piece(batch, self.parts, part, 1) {
                    // SAFETY: as above.
                    unsafe { self.rows(frame, scratch, b, 0..rows) };
                }
            }
        }
        Ok(())
    }
}

/// One range of rows; strides in elements.
struct Call<T> {
    matrix: *const T,
    row: isize,
    step: isize,
    x: *const T,
    y: *mut T,
    rows: usize,
    depth: usize,
}

/// Rows of more bytes are read one after another, so that memory is read in one stream.
const SHORT_ROW: usize = 4096;

/// Rows whose depth is contiguous; four short ones at a time.
///
/// # Safety
/// All elements that `call` names are valid; `call.step == 1`.
unsafe fn along<T: Tile>(call: &Call<T>) {
    let short = if call.depth * size_of::<T>() <= SHORT_ROW { call.rows / 4 * 4 } else { 0 };
    // SAFETY: the caller's.
    unsafe { T::many_dots((call.matrix, call.row), call.x, call.depth, call.y, short / 4) };
    for i in short..call.rows {
        // SAFETY: the caller's.
        unsafe { call.y.add(i).write(T::dot(call.matrix.offset(i as isize * call.row), call.x, call.depth)) };
    }
}

/// Rows that are neighbors: four columns of the matrix at a time on a stretch of the result that stays in L1.
///
/// # Safety
/// All elements that `call` names are valid; `call.row == 1`.
unsafe fn across<T: Tile>(call: &Call<T>) {
    if call.rows * call.depth * size_of::<T>() <= MOST_BYTES {
        let &Call { matrix, step, x, depth, y, rows, .. } = call;
        // SAFETY: the caller's.
        return unsafe { Columns { matrix, step, x, depth, y, rows }.run() };
    }
    const STRETCH: usize = 2048;
    for start in (0..call.rows).step_by(STRETCH) {
        let n = STRETCH.min(call.rows - start);
        // SAFETY: the caller's.
        unsafe {
            let y = call.y.add(start);
            let column = |k: usize| call.matrix.offset(k as isize * call.step).add(start);
            std::slice::from_raw_parts_mut(y, n).fill(T::default());
            let full = call.depth / 4 * 4;
            for k in (0..full).step_by(4) {
                let m = std::array::from_fn(|c| column(k + c));
                T::add_columns(y, m, std::array::from_fn(|c| *call.x.add(k + c)), n);
            }
            for k in full..call.depth {
                let (m, x) = (column(k), *call.x.add(k));
                for i in 0..n {
                    *y.add(i) = (*y.add(i)).add_product::<false>(*m.add(i), x);
                }
            }
        }
    }
}
