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

    /// Whether its elements are read as they are stored: real numbers always are.
    fn is_plain(self) -> bool {
        !self.conj || !T::ELEM.is_complex()
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
    // Rows that meet few columns are not worth a copy.
    let is_in_place = n <= 2 * width && a.is_plain() && (a.column == 1 || a.row == 1);
    let packed_rows = if is_in_place { 0 } else { m.next_multiple_of(height) };
    let memory = scratch.panels((packed_rows + columns) * depth * size_of::<T>()).cast::<T>();
    // SAFETY: in the whole function: elements of the three matrices and of the scratch memory.
    unsafe {
        let (packed_a, packed_b) = (memory, memory.add(packed_rows * depth));
        for k0 in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - k0);
            if !is_in_place {
                pack_rows(packed_a, a.from(0, k0), [m, depth], height);
            }
            for j0 in (0..n).step_by(COLUMNS) {
                let wide = COLUMNS.min(n - j0);
                for j in (0..wide).step_by(width) {
                    let have = width.min(wide - j);
                    pack_columns(packed_b.add(j * depth), sign, b.from(k0, j0 + j), [depth, have], width);
                }
                for j in (0..wide).step_by(width) {
                    for i0 in (0..m).step_by(height) {
                        let rows = height.min(m - i0);
                        let (a, a_row, a_step) = if is_in_place {
                            (a.from(i0, k0).at, a.row, a.column)
                        } else {
                            (packed_a.add(i0 * depth).cast_const(), 1, rows as isize)
                        };
                        T::micro(&Micro {
                            depth,
                            a,
                            a_row,
                            a_step,
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

/// Copies `m` rows of `A` so that those of a tile of `height` rows are side by side.
///
/// # Safety
/// All elements are valid.
unsafe fn pack_rows<T: Field>(to: *mut T, a: Operand<T>, [m, depth]: [usize; 2], height: usize) {
    for i0 in (0..m).step_by(height) {
        let rows = height.min(m - i0);
        // SAFETY: the caller's.
        unsafe {
            let to = to.add(i0 * depth);
            let put = |i: usize, p: usize| *to.add(p * rows + i) = a.get(i0 + i, p);
            // Along memory, whichever way the matrix lies.
            if a.row == 1 {
                (0..depth).for_each(|p| (0..rows).for_each(|i| put(i, p)));
            } else {
                (0..rows).for_each(|i| (0..depth).for_each(|p| put(i, p)));
            }
        }
    }
}

/// Copies `have` columns of `B` or `-B` as rows of `width` elements, the last of them zero.
///
/// # Safety
/// All elements are valid.
unsafe fn pack_columns<T: Field>(to: *mut T, sign: Sign, b: Operand<T>, [depth, have]: [usize; 2], width: usize) {
    // SAFETY: the caller's, in the whole function.
    unsafe {
        if b.column == 1 && b.is_plain() {
            for p in 0..depth {
                let (from, to) = (b.from(p, 0).at, to.add(p * width));
                match sign {
                    Sign::Plus => std::ptr::copy_nonoverlapping(from, to, have),
                    Sign::Minus => (0..have).for_each(|w| *to.add(w) = -*from.add(w)),
                }
            }
        } else {
            let put = |p: usize, w: usize| {
                let value = b.get(p, w);
                *to.add(p * width + w) = if sign == Sign::Minus { -value } else { value };
            };
            if b.column == 1 {
                (0..depth).for_each(|p| (0..have).for_each(|w| put(p, w)));
            } else {
                (0..have).for_each(|w| (0..depth).for_each(|p| put(p, w)));
            }
        }
        if have < width {
            for p in 0..depth {
                (have..width).for_each(|w| *to.add(p * width + w) = T::zero());
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
