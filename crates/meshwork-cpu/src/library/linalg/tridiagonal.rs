//! Tridiagonal systems by elimination with row swaps.

use rustfft::num_traits::{Float, One, Zero};

use super::field::{Field, subtract};

/// What happens if the matrix is singular.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Singular {
    /// The number of the column is the result.
    Report,
    /// A tiny pivot is replaced by a small multiple of the largest one, as inverse iteration wants it.
    Perturb,
}

/// The three diagonals of a matrix: `lower[i]` is left of `diagonal[i]`, `upper[i]` right of it.
pub(super) struct Diagonals<'a, T> {
    pub lower: &'a [T],
    pub diagonal: &'a [T],
    pub upper: &'a [T],
}

/// Solves for the `columns` columns of `b` in place. Gives the first column (from 1) whose pivot is zero, or 0.
pub(super) fn solve<T: Field>(m: Diagonals<'_, T>, b: &mut [T], columns: usize, singular: Singular) -> i32 {
    let n = m.diagonal.len();
    if n == 0 {
        return 0;
    }
    // Rows of the eliminated matrix: the diagonal and the two elements to its right.
    let mut rows = vec![[T::zero(); 3]; n];
    let mut row = [m.diagonal[0], m.upper[0], T::zero()];
    for k in 0..n - 1 {
        let next = [m.lower[k + 1], m.diagonal[k + 1], m.upper[k + 1]];
        let (above, below) = b.split_at_mut((k + 1) * columns);
        let (above, below) = (&mut above[k * columns..], &mut below[..columns]);
        let (pivot, other) = if row[0].size() >= next[0].size() {
            (row, next)
        } else {
            above.swap_with_slice(below);
            (next, row)
        };
        let factor = if pivot[0] == T::zero() { T::zero() } else { other[0].over(pivot[0]) };
        subtract(below, factor, above);
        rows[k] = pivot;
        row = [other[1] - factor * pivot[1], other[2] - factor * pivot[2], T::zero()];
    }
    rows[n - 1] = [row[0], T::zero(), T::zero()];
    if singular == Singular::Report
        && let Some(at) = rows.iter().position(|row| row[0] == T::zero())
    {
        return at as i32 + 1;
    }
    let most = rows.iter().flatten().fold(T::Real::zero(), |most, v| most.max(v.abs()));
    for k in (0..n).rev() {
        let (solved, rest) = b.split_at_mut((k + 1) * columns);
        let x = &mut solved[k * columns..];
        for j in 1..=2.min(n - 1 - k) {
            subtract(x, rows[k][j], &rest[(j - 1) * columns..j * columns]);
        }
        let pivot = match singular {
            Singular::Report => rows[k][0],
            Singular::Perturb => perturbed(rows[k][0], most, x),
        };
        x.iter_mut().for_each(|v| *v = v.over(pivot));
    }
    0
}

/// `pivot`, or as much more as keeps `x / pivot` finite.
fn perturbed<T: Field>(mut pivot: T, most: T::Real, x: &[T]) -> T {
    let smallest = T::Real::min_positive_value();
    let largest = x.iter().fold(T::Real::zero(), |largest, v| largest.max(v.abs()));
    let mut step = (T::Real::epsilon() * most).max(smallest);
    if pivot.re().is_sign_negative() {
        step = -step;
    }
    while pivot.abs() < smallest || (pivot.abs() < T::Real::one() && largest > pivot.abs() / smallest) {
        pivot = pivot + T::real(step);
        step = step + step;
    }
    pivot
}
