//! Solution of triangular systems by halves: what is known is subtracted as a product.

use super::field::{Field, wide};
use super::product::{Operand, Sign, accumulate};
use crate::step::Scratch;

/// Order from which on a system is halved.
const BASE: usize = 32;

/// Right-hand sides that are solved side by side.
const LANES: usize = 16;

/// What the diagonal of a triangle is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Diagonal {
    Stored,
    Ones,
}

/// Solves `L X = B` in place for a lower triangular `L` of order `n`: row `i` of the `columns` right-hand sides starts
/// `i * row` after `x`.
///
/// # Safety
/// All elements are valid, and `x` does not overlap `l`.
pub(super) unsafe fn solve<T: Field>(
    l: Operand<T>,
    diagonal: Diagonal,
    (x, row): (*mut T, isize),
    [n, columns]: [usize; 2],
    scratch: &mut Scratch,
) {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        if n > BASE {
            let half = (n / 2).next_multiple_of(BASE);
            let below = x.offset(half as isize * row);
            solve(l, diagonal, (x, row), [half, columns], scratch);
            let known = Operand { at: x.cast_const(), row, column: 1, conj: false };
            let size = [n - half, columns, half];
            accumulate((below, row), Sign::Minus, l.from(half, 0), known, size, scratch);
            return solve(l.from(half, half), diagonal, (below, row), [n - half, columns], scratch);
        }
        for j in (0..columns).step_by(LANES) {
            let have = LANES.min(columns - j);
            let mut tile = [[T::zero(); LANES]; BASE];
            for i in 0..n {
                std::ptr::copy_nonoverlapping(x.offset(i as isize * row).add(j), tile[i].as_mut_ptr(), have);
            }
            wide(|| base(l, diagonal, &mut tile[..n]));
            for i in 0..n {
                std::ptr::copy_nonoverlapping(tile[i].as_ptr(), x.offset(i as isize * row).add(j), have);
            }
        }
    }
}

/// Solves `X L* = B` in place, or `X Lᵀ = B` if `l` is conjugated, for the `rows` rows of `x`, which are `row` apart.
///
/// # Safety
/// As [`solve`].
pub(super) unsafe fn solve_right<T: Field>(
    l: Operand<T>,
    (x, row): (*mut T, isize),
    [rows, n]: [usize; 2],
    scratch: &mut Scratch,
) {
    // SAFETY: in the whole function: the caller's.
    unsafe {
        if n > BASE {
            let half = (n / 2).next_multiple_of(BASE);
            solve_right(l, (x, row), [rows, half], scratch);
            let known = Operand { at: x.cast_const(), row, column: 1, conj: false };
            let size = [rows, n - half, half];
            accumulate((x.add(half), row), Sign::Minus, known, l.from(half, 0).adjoint(), size, scratch);
            return solve_right(l.from(half, half), (x.add(half), row), [rows, n - half], scratch);
        }
        let conj = Operand { conj: !l.conj, ..l };
        for i in (0..rows).step_by(LANES) {
            let have = LANES.min(rows - i);
            let mut tile = [[T::zero(); LANES]; BASE];
            let at = |r: usize, j: usize| x.offset((i + r) as isize * row).add(j);
            (0..have).for_each(|r| (0..n).for_each(|j| tile[j][r] = *at(r, j)));
            wide(|| base(conj, Diagonal::Stored, &mut tile[..n]));
            (0..have).for_each(|r| (0..n).for_each(|j| *at(r, j) = tile[j][r]));
        }
    }
}

/// Solves `L X = B` for a few right-hand sides side by side.
///
/// # Safety
/// `l` is valid for as many rows as `x` has.
#[inline(always)]
unsafe fn base<T: Field>(l: Operand<T>, diagonal: Diagonal, x: &mut [[T; LANES]]) {
    for i in 0..x.len() {
        let (known, rest) = x.split_at_mut(i);
        let row = &mut rest[0];
        for (j, solved) in known.iter().enumerate() {
            // SAFETY: the caller's.
            let factor = unsafe { l.get(i, j) };
            for lane in 0..LANES {
                row[lane] = row[lane] - factor * solved[lane];
            }
        }
        if diagonal == Diagonal::Stored {
            // SAFETY: the caller's.
            let pivot = unsafe { l.get(i, i) };
            row.iter_mut().for_each(|v| *v = v.over(pivot));
        }
    }
}
