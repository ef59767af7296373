//! Factorizations by halves: Cholesky, and LU with row swaps as LAPACK's `getrf` has it.

use rustfft::num_traits::{Float, Zero};

use super::field::{Field, kernel, subtract, wide};
use super::product::{Operand, Sign, accumulate, subtract_lower};
use super::triangular::{Diagonal, solve, solve_right};
use crate::library::transpose::{Planes, transpose};
use crate::step::Scratch;

/// Order up to which a matrix is factored column by column.
const BASE: usize = 32;

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
        match n {
            0..=8 => cholesky_of::<T, 8>(a, row, n),
            9..=16 => cholesky_of::<T, 16>(a, row, n),
            _ => cholesky_of::<T, BASE>(a, row, n),
        }
    }
}

/// [`cholesky`] of at most `N` rows.
///
/// # Safety
/// As [`cholesky`].
unsafe fn cholesky_of<T: Field, const N: usize>(a: *mut T, row: usize, n: usize) -> Result<(), usize> {
    let mut columns = [[T::zero(); N]; N];
    for i in 0..n {
        // SAFETY: the caller's.
        (0..=i).for_each(|j| columns[j][i] = unsafe { *a.add(i * row + j) });
    }
    wide(CholeskyColumns, (&mut columns, n))?;
    for i in 0..n {
        // SAFETY: the caller's.
        (0..=i).for_each(|j| unsafe { *a.add(i * row + j) = columns[j][i] });
    }
    Ok(())
}

kernel! {
    [T: Field, const N: usize] CholeskyColumns(columns: &mut [[T; N]; N], n: usize) -> Result<(), usize> =
        cholesky_columns(columns, n)
}

/// [`cholesky`] of the first `n` columns, each of them in lanes.
#[inline(always)]
fn cholesky_columns<T: Field, const N: usize>(columns: &mut [[T; N]; N], n: usize) -> Result<(), usize> {
    for k in 0..n {
        let (first, rest) = columns.split_at_mut(k + 1);
        let column = &mut first[k];
        let pivot = column[k].re();
        if pivot.is_nan() || pivot <= T::Real::zero() {
            return Err(k + 1);
        }
        let root = pivot.sqrt();
        let inverse = root.recip();
        column.iter_mut().for_each(|v| *v = v.scale(inverse));
        column[k] = T::real(root);
        for (j, other) in rest[..n - k - 1].iter_mut().enumerate() {
            let factor = column[k + 1 + j].conj();
            for i in 0..N {
                other[i] = other[i] - column[i] * factor;
            }
        }
    }
    Ok(())
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
            let memory = scratch.get(m * n * size_of::<T>()).cast::<T>();
            let columns = std::slice::from_raw_parts_mut(memory, m * n);
            into_columns(a, row, [m, n], columns);
            let singular = wide(Narrow, (&mut *columns, [m, n], pivots));
            from_columns(columns, a, row, [m, n]);
            return singular;
        }
        let left = least.div_ceil(2).next_multiple_of(NARROW).min(n - 1);
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

/// Copies an `m × n` matrix of rows `row` apart into `columns`, one after the other.
///
/// # Safety
/// `a` is valid.
pub(super) unsafe fn into_columns<T: Field>(a: *const T, row: usize, [m, n]: [usize; 2], columns: &mut [T]) {
    let size = size_of::<T>();
    let [row, column] = [row, m].map(|n| (n * size) as isize);
    let planes =
        Planes { from: a.cast(), from_stride: row, to: columns[..m * n].as_mut_ptr().cast(), to_stride: column };
    // SAFETY: the caller's.
    unsafe { transpose(planes, n, m, size) }
}

/// The other way.
///
/// # Safety
/// `a` is valid.
pub(super) unsafe fn from_columns<T: Field>(columns: &[T], a: *mut T, row: usize, [m, n]: [usize; 2]) {
    let size = size_of::<T>();
    let [row, column] = [row, m].map(|n| (n * size) as isize);
    let planes = Planes { from: columns[..m * n].as_ptr().cast(), from_stride: column, to: a.cast(), to_stride: row };
    // SAFETY: the caller's.
    unsafe { transpose(planes, m, n, size) }
}

kernel! {
    [T: Field] Narrow(columns: &mut [T], size: [usize; 2], pivots: &mut [i32]) -> usize = narrow(columns, size, pivots)
}

/// [`lu`] of a matrix that is given by its columns, one after the other.
#[inline(always)]
fn narrow<T: Field>(columns: &mut [T], [m, n]: [usize; 2], pivots: &mut [i32]) -> usize {
    let mut singular = 0;
    for k in 0..m.min(n) {
        let best = k + largest(&columns[k * m + k..(k + 1) * m]);
        pivots[k] = best as i32;
        let pivot = columns[k * m + best];
        if pivot == T::zero() {
            singular = if singular == 0 { k + 1 } else { singular };
            continue;
        }
        if best != k {
            (0..n).for_each(|j| columns.swap(j * m + k, j * m + best));
        }
        let (first, rest) = columns.split_at_mut((k + 1) * m);
        let factors = &mut first[k * m + k + 1..];
        factors.iter_mut().for_each(|v| *v = v.over(pivot));
        for column in rest.chunks_exact_mut(m) {
            let (known, below) = column.split_at_mut(k + 1);
            subtract(below, known[k], factors);
        }
    }
    singular
}

/// Where the largest number is: the first of equals. A NaN is the largest only as the first number.
#[inline(always)]
fn largest<T: Field>(values: &[T]) -> usize {
    const LANES: usize = 16;
    let first = values[0].size();
    let larger = |most: T::Real, v: T| if v.size() > most { v.size() } else { most };
    let mut lanes = [first; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder().iter().fold(first, |most, &v| larger(most, v));
    for chunk in chunks {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], chunk[l]);
        }
    }
    let most = lanes.into_iter().fold(rest, |most, v| if v > most { v } else { most });
    let has = |chunk: &&[T]| chunk.iter().fold(false, |found, v| found | (v.size() == most));
    let before = values.chunks(LANES).take_while(|chunk| !has(chunk)).count() * LANES;
    values.iter().skip(before).position(|v| v.size() == most).map_or(0, |at| before + at)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The pivot is the first of the largest numbers, and a NaN only where it comes first.
    #[test]
    fn pivots() {
        let plain = |values: &[f32]| {
            (0..values.len()).fold(0, |best, i| if values[i].abs() > values[best].abs() { i } else { best })
        };
        for n in [1, 2, 15, 16, 17, 32, 37, 100] {
            for seed in 0..20u32 {
                // Few different numbers, so that there are equals.
                let mut values: Vec<f32> = (0..n as u32)
                    .map(|i| ((i * 7 + seed * 13) % 11) as f32 * if i % 3 == 0 { -1.0 } else { 1.0 })
                    .collect();
                assert_eq!(largest(&values), plain(&values), "{values:?}");
                values[seed as usize % n] = f32::NAN;
                assert_eq!(largest(&values), plain(&values), "{values:?}");
                values[0] = f32::INFINITY;
                assert_eq!(largest(&values), 0, "{values:?}");
            }
        }
    }
}
