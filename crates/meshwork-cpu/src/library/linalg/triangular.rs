//! Solution of triangular systems by halves: what is known is subtracted as a product.

use super::field::{Field, kernel, wide};
use super::product::{Operand, Sign, accumulate};
use crate::step::Scratch;

/// Order from which on a system is halved.
const BASE: usize = 32;

/// Order up to which less room is cleared for it.
const SMALL: usize = 8;

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
        if n <= SMALL {
            tiles::<T, SMALL>(l, diagonal, (x, row), [n, columns])
        } else {
            tiles::<T, BASE>(l, diagonal, (x, row), [n, columns])
        }
    }
}

/// [`solve`] for at most `N` rows, some right-hand sides at a time.
///
/// # Safety
/// As [`solve`].
unsafe fn tiles<T: Field, const N: usize>(
    l: Operand<T>,
    diagonal: Diagonal,
    (x, row): (*mut T, isize),
    [n, columns]: [usize; 2],
) {
    for j in (0..columns).step_by(LANES) {
        let have = LANES.min(columns - j);
        let mut tile = [[T::zero(); LANES]; N];
        for (i, lanes) in tile[..n].iter_mut().enumerate() {
            // SAFETY: the caller's.
            unsafe {
                let from = x.offset(i as isize * row).add(j);
                if have == LANES {
                    *lanes = from.cast::<[T; LANES]>().read_unaligned();
                } else {
                    // A loop, since a copy of few elements is not worth a call.
                    lanes[..have].iter_mut().enumerate().for_each(|(lane, v)| *v = *from.add(lane));
                }
            }
        }
        wide(Base, (l, diagonal, &mut tile[..n]));
        for (i, lanes) in tile[..n].iter().enumerate() {
            // SAFETY: the caller's.
            unsafe {
                let to = x.offset(i as isize * row).add(j);
                if have == LANES {
                    to.cast::<[T; LANES]>().write_unaligned(*lanes);
                } else {
                    lanes[..have].iter().enumerate().for_each(|(lane, &v)| *to.add(lane) = v);
                }
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
            wide(Base, (conj, Diagonal::Stored, &mut tile[..n]));
            (0..have).for_each(|r| (0..n).for_each(|j| *at(r, j) = tile[j][r]));
        }
    }
}

/// Rows that are solved at a time.
const ROWS: usize = 4;

kernel! {
    [T: Field] Base(l: Operand<T>, diagonal: Diagonal, x: &mut [[T; LANES]]) -> () =
        // SAFETY: `solve` and `solve_right`, which alone run it, are called for valid elements.
        unsafe { base(l, diagonal, x) }
}

/// Solves `L X = B` for a few right-hand sides side by side.
///
/// # Safety
/// `l` is valid for as many rows as `x` has.
#[inline(always)]
unsafe fn base<T: Field>(l: Operand<T>, diagonal: Diagonal, x: &mut [[T; LANES]]) {
    let full = x.len() / ROWS * ROWS;
    for i in (0..full).step_by(ROWS) {
        // SAFETY: the caller's.
        unsafe { rows::<T, ROWS>(l, diagonal, x, i) };
    }
    for i in full..x.len() {
        // SAFETY: the caller's.
        unsafe { rows::<T, 1>(l, diagonal, x, i) };
    }
}

/// The `N` rows from `i` on: what earlier rows contribute, then what they contribute to each other.
///
/// # Safety
/// As [`base`].
#[inline(always)]
unsafe fn rows<T: Field, const N: usize>(l: Operand<T>, diagonal: Diagonal, x: &mut [[T; LANES]], i: usize) {
    let (known, rest) = x.split_at_mut(i);
    let mut mine: [[T; LANES]; N] = std::array::from_fn(|r| rest[r]);
    for (j, solved) in known.iter().enumerate() {
        for r in 0..N {
            // SAFETY: the caller's.
            let factor = unsafe { l.get(i + r, j) };
            for lane in 0..LANES {
                mine[r][lane] = mine[r][lane] - factor * solved[lane];
            }
        }
    }
    for r in 0..N {
        for p in 0..r {
            // SAFETY: the caller's.
            let factor = unsafe { l.get(i + r, i + p) };
            for lane in 0..LANES {
                mine[r][lane] = mine[r][lane] - factor * mine[p][lane];
            }
        }
        if diagonal == Diagonal::Stored {
            // SAFETY: the caller's.
            let pivot = unsafe { l.get(i + r, i + r) };
            mine[r].iter_mut().for_each(|v| *v = v.over(pivot));
        }
        rest[r] = mine[r];
    }
}
