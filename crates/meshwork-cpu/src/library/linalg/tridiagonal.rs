//! Tridiagonal systems by elimination with row swaps.

use rustfft::num_traits::{Float, One, Zero};

use super::field::{Field, kernel, subtract};

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
    // Most systems have one right-hand side, of which no loop is left.
    if columns == 1 { solve_for(m, b, 1, singular) } else { solve_for(m, b, columns, singular) }
}

#[inline(always)]
fn solve_for<T: Field>(m: Diagonals<'_, T>, b: &mut [T], columns: usize, singular: Singular) -> i32 {
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

kernel! {
    [T: Field, const W: usize] SolveLanes(m: [&mut [[T; W]]; 3], b: &mut [[T; W]], columns: usize, singular: &mut [T; W]) -> () =
        solve_lanes(m, b, columns, singular)
}

/// `$then` in the lanes where `$p`, `$other` in the rest.
macro_rules! choice {
    ($p:expr, $then:expr, $other:expr) => {{
        let (p, mut out) = ($p, $other);
        for l in 0..W {
            out[l] = if p[l] { $then[l] } else { out[l] };
        }
        out
    }};
}

/// [`solve`] with [`Singular::Report`] for the matrices whose diagonals (the lower one, the middle, the upper) are in the lanes of
/// `m`, which is overwritten.
#[inline(always)]
fn solve_lanes<T: Field, const W: usize>(
    [lower, diagonal, upper]: [&mut [[T; W]]; 3],
    b: &mut [[T; W]],
    columns: usize,
    singular: &mut [T; W],
) {
    let n = diagonal.len();
    *singular = [T::zero(); W];
    let Some(last) = n.checked_sub(1) else { return };
    let mut row = [diagonal[0], upper[0]];
    let mut number = T::Real::zero();
    for k in 0..n {
        number = number + T::Real::one();
        let mut pivot = [row[0], row[1], [T::zero(); W]];
        if k < last {
            let next = [lower[k + 1], diagonal[k + 1], upper[k + 1]];
            let mut stays = [false; W];
            (0..W).for_each(|l| stays[l] = row[0][l].size() >= next[0][l].size());
            pivot = [
                choice!(stays, row[0], next[0]),
                choice!(stays, row[1], next[1]),
                choice!(stays, [T::zero(); W], next[2]),
            ];
            let other = [
                choice!(stays, next[0], row[0]),
                choice!(stays, next[1], row[1]),
                choice!(stays, next[2], [T::zero(); W]),
            ];
            let mut factor = [T::zero(); W];
            for l in 0..W {
                let quotient = other[0][l].over(pivot[0][l]);
                factor[l] = if pivot[0][l] == T::zero() { T::zero() } else { quotient };
            }
            let (above, below) = b.split_at_mut((k + 1) * columns);
            for (above, below) in above[k * columns..].iter_mut().zip(&mut below[..columns]) {
                let (here, there) = (*above, *below);
                let (upper, mut rest) = (choice!(stays, here, there), choice!(stays, there, here));
                (0..W).for_each(|l| rest[l] = rest[l] - factor[l] * upper[l]);
                (*above, *below) = (upper, rest);
            }
            for j in 0..2 {
                (0..W).for_each(|l| row[j][l] = other[j + 1][l] - factor[l] * pivot[j + 1][l]);
            }
        }
        for l in 0..W {
            let is_first = pivot[0][l] == T::zero() && singular[l] == T::zero();
            singular[l] = if is_first { T::real(number) } else { singular[l] };
        }
        // What is right of the pivot goes where nothing is needed any more.
        [diagonal[k], upper[k], lower[k]] = pivot;
    }
    let mut is_left = [false; W];
    (0..W).for_each(|l| is_left[l] = singular[l] != T::zero());
    for k in (0..n).rev() {
        let (solved, rest) = b.split_at_mut((k + 1) * columns);
        for (column, x) in solved[k * columns..].iter_mut().enumerate() {
            let mut new = *x;
            if k < last {
                let known = &rest[column];
                (0..W).for_each(|l| new[l] = new[l] - upper[k][l] * known[l]);
            }
            if k + 1 < last {
                let known = &rest[columns + column];
                (0..W).for_each(|l| new[l] = new[l] - lower[k][l] * known[l]);
            }
            (0..W).for_each(|l| new[l] = new[l].over(diagonal[k][l]));
            *x = choice!(is_left, *x, new);
        }
    }
}
