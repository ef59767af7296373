//! Products inside a factorization: a block of a matrix minus (or plus) the product of two others, one thread.

use super::field::Field;
use crate::library::dot::micro::Micro;
use crate::step::Scratch;

/// A matrix in memory: element `(i, j)` is at `i * row + j * column` from `at`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<T> {
    pub at: *const T,
    pub row: isize,
    pub column: isize,
    /// Whether its elements are conjugated when they are read.
    pub conj: bool,
}

impl<T: Field> Operand<T> {
    /// Rows of `row` elements each.
    pub(super) fn rows(at: *const T, row: usize) -> Operand<T> {
        Operand { at, row: row as isize, column: 1, conj: false }
    }

    /// The transposed matrix.
    pub(super) fn transposed(self) -> Operand<T> {
        Operand { row: self.column, column: self.row, ..self }
    }

    /// The conjugate transpose.
    pub(super) fn adjoint(self) -> Operand<T> {
        Operand { conj: !self.conj, ..self.transposed() }
    }

    /// The matrix from row `i` and column `j` on.
    pub(super) fn from(self, i: usize, j: usize) -> Operand<T> {
        Operand { at: self.at.wrapping_offset(i as isize * self.row + j as isize * self.column), ..self }
    }

    /// Element `(i, j)`.
    ///
    /// # Safety
    /// It is valid.
    #[inline(always)]
    pub(super) unsafe fn get(self, i: usize, j: usize) -> T {
        // SAFETY: the caller's.
        let value = unsafe { *self.at.offset(i as isize * self.row + j as isize * self.column) };
        if self.conj { value.conj() } else { value }
    }
}

/// Whether a product is added or subtracted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sign {
    Plus,
    Minus,
}

/// Depth and columns that are packed at a time.
const DEPTH: usize = 256;
const COLUMNS: usize = 512;

/// `C ± A B` in place, for `C` of `m × n` with rows `c_row` apart and a depth of `k`.
///
/// # Safety
/// All elements are valid; `C` overlaps neither `A` nor `B`.
pub(super) unsafe fn accumulate<T: Field>(
    (c, c_row): (*mut T, isize),
    sign: Sign,
    a: Operand<T>,
    b: Operand<T>,
    [m, n, k]: [usize; 3],
    scratch: &mut Scratch,
) {
    if m == 0 || n == 0 || k == 0 {
        return;
    }
    let tile = T::shape(m, n);
    let (height, width) = (tile.rows, tile.columns);
    let depth = k.min(DEPTH);
    let columns = n.min(COLUMNS).next_multiple_of(width);
    let memory = scratch.panels((m.next_multiple_of(height) + columns) * depth * size_of::<T>()).cast::<T>();
    // SAFETY: in the whole function: elements of the three matrices and of the scratch memory.
    unsafe {
        let (packed_a, packed_b) = (memory, memory.add(m.next_multiple_of(height) * depth));
        for k0 in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - k0);
            for i0 in (0..m).step_by(height) {
                let rows = height.min(m - i0);
                let to = packed_a.add(i0 * depth);
                let put = |i: usize, p: usize| {
                    let value = a.get(i0 + i, k0 + p);
                    *to.add(p * rows + i) = if sign == Sign::Minus { -value } else { value };
                };
                // Along memory, whichever way the matrix lies.
                if a.row == 1 {
                    (0..depth).for_each(|p| (0..rows).for_each(|i| put(i, p)));
                } else {
                    (0..rows).for_each(|i| (0..depth).for_each(|p| put(i, p)));
                }
            }
            for j0 in (0..n).step_by(COLUMNS) {
                let wide = COLUMNS.min(n - j0);
                for j in (0..wide).step_by(width) {
                    let have = width.min(wide - j);
                    let to = packed_b.add(j * depth);
                    let put = |p: usize, w: usize| *to.add(p * width + w) = b.get(k0 + p, j0 + j + w);
                    if b.column == 1 && !b.conj {
                        for p in 0..depth {
                            let from = b.from(k0 + p, j0 + j).at;
                            std::ptr::copy_nonoverlapping(from, to.add(p * width), have);
                        }
                    } else if b.column == 1 {
                        (0..depth).for_each(|p| (0..have).for_each(|w| put(p, w)));
                    } else {
                        (0..have).for_each(|w| (0..depth).for_each(|p| put(p, w)));
                    }
                    if have < width {
                        for p in 0..depth {
                            (have..width).for_each(|w| *to.add(p * width + w) = T::zero());
                        }
                    }
                }
                for j in (0..wide).step_by(width) {
                    for i0 in (0..m).step_by(height) {
                        let rows = height.min(m - i0);
                        T::micro(&Micro {
                            depth,
                            a: packed_a.add(i0 * depth),
                            a_row: 1,
                            a_step: rows as isize,
                            b: packed_b.add(j * depth),
                            b_step: width as isize,
                            c: c.offset(i0 as isize * c_row).add(j0 + j),
                            c_row,
                            height: rows,
                            width,
                            rows,
                            columns: width.min(wide - j),
                            add: true,
                        });
                    }
                }
            }
        }
    }
}

/// `C - A B` in place, in the lower triangle of `C` and a little beyond; `C` has `n` rows `row` apart, and the depth is `k`.
///
/// # Safety
/// As [`accumulate`].
pub(super) unsafe fn subtract_lower<T: Field>(
    c: *mut T,
    row: usize,
    a: Operand<T>,
    b: Operand<T>,
    [n, k]: [usize; 2],
    scratch: &mut Scratch,
) {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        let half = if n > 64 { n / 2 } else { 0 };
        if half > 0 {
            subtract_lower(c, row, a, b, [half, k], scratch);
            let at = (c.add(half * row), row as isize);
            accumulate(at, Sign::Minus, a.from(half, 0), b, [n - half, half, k], scratch);
            let rest = c.add(half * row + half);
            return subtract_lower(rest, row, a.from(half, 0), b.from(0, half), [n - half, k], scratch);
        }
        accumulate((c, row as isize), Sign::Minus, a, b, [n, n, k], scratch);
    }
}
