//! Factorizations by halves: Cholesky, and LU with row swaps as LAPACK's `getrf` has it.

use rustfft::num_traits::{Float, Zero};

use super::field::{Field, subtract, wide};
use super::product::{Operand, Sign, accumulate, subtract_lower};
use super::triangular::{Diagonal, solve, solve_right};
use crate::step::Scratch;

/// Order up to which a matrix is factored row by row.
const BASE: usize = 24;

/// Columns up to which `lu` goes column by column.
const NARROW: usize = 16;

/// `L` with `A = L L*`, in place in the lower triangle of rows `row` apart; nothing else is read. The row (from 1) at
/// which `A` turns out not to be positive definite.
///
/// # Safety
/// `a` is valid for `n` rows.
pub(super) unsafe fn cholesky<T: Field>(a: *mut T, row: usize, n: usize, scratch: &mut Scratch) -> Result<(), usize> {
    // SAFETY: in the whole function: the caller's; blocks that are written overlap none that is read.
    unsafe {
        if n > BASE {
            let half = n.div_ceil(2).next_multiple_of(8).min(n);
            let (below, rest) = (a.add(half * row), a.add(half * row + half));
            cholesky(a, row, half, scratch)?;
            solve_right(Operand::rows(a, row), (below, row as isize), [n - half, half], scratch);
            let rows = Operand::rows(below.cast_const(), row);
            subtract_lower(rest, row, rows, rows.adjoint(), [n - half, half], scratch);
            return cholesky(rest, row, n - half, scratch).map_err(|at| at + half);
        }
        for i in 0..n {
            for j in 0..=i {
                let (x, y) = (a.add(i * row), a.add(j * row));
                let sum = (0..j).fold(*x.add(j), |sum, k| sum - *x.add(k) * (*y.add(k)).conj());
                if j < i {
                    *x.add(j) = sum.scale((*y.add(j)).re().recip());
                } else if sum.re() > T::Real::zero() {
                    *x.add(j) = T::real(sum.re().sqrt());
                } else {
                    return Err(i + 1);
                }
            }
        }
        Ok(())
    }
}

/// `A = P L U` in place: `L` without its unit diagonal below, `U` above; row `i` was swapped with row `pivots[i]`. Gives
/// the first column (from 1) whose pivot is zero, or 0. `a` has rows `row` apart.
///
/// # Safety
/// `a` is valid for `m × n` elements; `pivots` has `min(m, n)` entries.
pub(super) unsafe fn lu<T: Field>(
    a: *mut T,
    row: usize,
    [m, n]: [usize; 2],
    pivots: &mut [i32],
    scratch: &mut Scratch,
) -> usize {
    // SAFETY: in the whole function: the caller's; blocks that are written overlap none that is read.
    unsafe {
        let least = m.min(n);
        if n <= NARROW {
            return wide(|| narrow(a, row, [m, n], pivots));
        }
        let left = (least.div_ceil(2)).min(n - 1).max(1);
        let mut singular = lu(a, row, [m, left], &mut pivots[..left.min(m)], scratch);
        let right = a.add(left);
        for (i, &p) in pivots[..left.min(m)].iter().enumerate() {
            swap_rows(right, row, i, p as usize, n - left);
        }
        let unit = Operand::rows(a.cast_const(), row);
        solve(unit, Diagonal::Ones, (right, row as isize), [left.min(m), n - left], scratch);
        if m <= left {
            return singular;
        }
        let below = right.add(left * row);
        let known = Operand::rows(right.cast_const(), row);
        let size = [m - left, n - left, left];
        accumulate((below, row as isize), Sign::Minus, unit.from(left, 0), known, size, scratch);
        let at = lu(below, row, [m - left, n - left], &mut pivots[left..least], scratch);
        if singular == 0 && at > 0 {
            singular = at + left;
        }
        for (i, p) in pivots[left..least].iter_mut().enumerate() {
            *p += left as i32;
            swap_rows(a, row, left + i, *p as usize, left);
        }
        singular
    }
}

/// [`lu`] column by column.
///
/// # Safety
/// As [`lu`].
#[inline(always)]
unsafe fn narrow<T: Field>(a: *mut T, row: usize, [m, n]: [usize; 2], pivots: &mut [i32]) -> usize {
    let mut singular = 0;
    for k in 0..m.min(n) {
        // SAFETY: in the whole loop: the caller's.
        unsafe {
            let size = |i: usize| (*a.add(i * row + k)).size();
            // The first of equals; a NaN is a pivot like any other.
            let best = (k..m).fold(k, |best, i| if size(i) > size(best) { i } else { best });
            pivots[k] = best as i32;
            let pivot = *a.add(best * row + k);
            if pivot == T::zero() {
                singular = if singular == 0 { k + 1 } else { singular };
                continue;
            }
            swap_rows(a, row, k, best, n);
            let known = std::slice::from_raw_parts(a.add(k * row + k + 1), n - k - 1);
            for i in k + 1..m {
                let factor = (*a.add(i * row + k)).over(pivot);
                *a.add(i * row + k) = factor;
                subtract(std::slice::from_raw_parts_mut(a.add(i * row + k + 1), n - k - 1), factor, known);
            }
        }
    }
    singular
}

/// Swaps `n` elements of two rows, which may be one.
///
/// # Safety
/// Both are valid.
pub(super) unsafe fn swap<T>(a: *mut T, b: *mut T, n: usize) {
    if a != b {
        // SAFETY: the caller's; two rows do not overlap.
        unsafe { std::ptr::swap_nonoverlapping(a, b, n) };
    }
}

/// Swaps the first `n` elements of rows `i` and `j`.
///
/// # Safety
/// Both are valid.
unsafe fn swap_rows<T>(a: *mut T, row: usize, i: usize, j: usize, n: usize) {
    if i != j {
        // SAFETY: the caller's.
        unsafe { swap(a.add(i * row), a.add(j * row), n) };
    }
}
