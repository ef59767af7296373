//! Singular values and vectors of a real bidiagonal matrix by dividing it: one row is taken out, what is above and below it
//! is solved, and the whole follows from the roots of one equation and two products.
//!
//! What is above the row has one column more than rows, so every function takes matrices of `n` rows and `n` or `n + 1`
//! columns. Vectors are rows; those of the right side end with one that the matrix maps to zero, if there is one more column.
//! The matrix is scaled to numbers up to about 1.

use rustfft::num_traits::Float;

use meshwork_mesh::{sort_by, sort_by_key};

use super::divide::{Half, combined, joined, rising, rounded, turn};
use super::field::Field;
use super::secular::{self, Squares};
use super::spectrum::{self, Rows};
use crate::step::Scratch;

/// Rows up to which a matrix is not divided.
const BASE: usize = 24;

/// Singular values in rising order, and the vectors of both sides as rows.
pub(super) struct Singular<R> {
    pub values: Vec<f64>,
    pub left: Vec<R>,
    pub right: Vec<R>,
}

/// The singular values of the matrix with this diagonal and these elements right of it: one less than on the diagonal, or as
/// many if there is one more column. None if the steps for a small block do not converge.
pub(super) fn bidiagonal<R: Field + Float>(
    diagonal: &[f64],
    beside: &[f64],
    scratch: &mut Scratch,
) -> Option<Singular<R>> {
    let n = diagonal.len();
    if n <= BASE {
        return undivided(diagonal, beside);
    }
    let row = n / 2;
    let first = bidiagonal::<R>(&diagonal[..row], &beside[..row], scratch)?;
    let second = bidiagonal::<R>(&diagonal[row + 1..], &beside[row + 1..], scratch)?;
    let columns = if beside.len() < n { n } else { n + 1 };
    Some(merged(first, second, [diagonal[row], beside[row]], columns, scratch))
}

/// A small matrix, by implicit QR steps.
fn undivided<R: Float>(diagonal: &[f64], beside: &[f64]) -> Option<Singular<R>> {
    let n = diagonal.len();
    let columns = if n > 0 && beside.len() < n { n } else { n + 1 };
    let (mut d, mut e) = (diagonal.to_vec(), beside.to_vec());
    let (mut left, mut right) = (Rows::identity(n), Rows::identity(columns));
    if columns > n && n > 0 {
        // The last column is turned into those before it, from the last row up.
        let mut beyond = e[n - 1];
        for k in (0..n).rev() {
            let length = d[k].hypot(beyond);
            if length == 0.0 {
                break;
            }
            let (cos, sin) = (d[k] / length, beyond / length);
            d[k] = length;
            right.turn(k, n, cos, sin);
            if k > 0 {
                (e[k - 1], beyond) = (cos * e[k - 1], -sin * e[k - 1]);
            }
        }
        e.pop();
    }
    if !spectrum::bidiagonal(&mut d, &mut e, &mut left, &mut right) {
        return None;
    }
    let order = rising(&d);
    let with_null: Vec<usize> = order.iter().copied().chain(n..columns).collect();
    let cast = |rows: Rows<f64>| rows.values.into_iter().map(rounded).collect();
    Some(Singular {
        values: order.iter().map(|&i| d[i]).collect(),
        left: cast(left.reordered(&order)),
        right: cast(right.reordered(&with_null)),
    })
}

/// Two halves and the row `[a, b]` between them, a matrix of so many columns: `a` is under the last column of the first, `b`
/// over the first column of the second.
fn merged<R: Field + Float>(
    first: Singular<R>,
    second: Singular<R>,
    [a, b]: [f64; 2],
    columns: usize,
    scratch: &mut Scratch,
) -> Singular<R> {
    let (p, q) = (first.values.len(), second.values.len());
    let n = p + 1 + q;
    let has_null = columns > n;
    let (p_columns, q_columns) = (p + 1, columns - p - 1);
    let float = |x: R| x.to_f64().unwrap_or(f64::NAN);
    // In a basis of the halves' vectors the matrix has `z` as its first row and `values` on the diagonal.
    let mut values = [&[0.0][..], &first.values, &second.values].concat();
    let mut z = vec![0.0; n];
    let mut halves = vec![Half::Both; n];
    let (mut left, mut right) = (vec![R::zero(); n * n], vec![R::zero(); columns * columns]);
    left[p] = R::one();
    for i in 0..p {
        let (from, to) = (&first.right[i * p_columns..(i + 1) * p_columns], 1 + i);
        left[to * n..][..p].copy_from_slice(&first.left[i * p..(i + 1) * p]);
        right[to * columns..][..p_columns].copy_from_slice(from);
        (z[to], halves[to]) = (a * float(from[p]), Half::First);
    }
    for i in 0..q {
        let (from, to) = (&second.right[i * q_columns..(i + 1) * q_columns], 1 + p + i);
        left[to * n + p + 1..][..q].copy_from_slice(&second.left[i * q..(i + 1) * q]);
        right[to * columns + p_columns..][..q_columns].copy_from_slice(from);
        (z[to], halves[to]) = (b * float(from[0]), Half::Second);
    }
    // The vectors that the halves map to zero: one combination meets the row between them, the other stays such a vector.
    let first_null = &first.right[p * p_columns..];
    let meets = a * float(first_null[p]);
    if has_null {
        let second_null = &second.right[q * q_columns..];
        let other = b * float(second_null[0]);
        let length = meets.hypot(other);
        let (cos, sin) = if length == 0.0 { (1.0, 0.0) } else { (meets / length, other / length) };
        let (cos, sin): (R, R) = (rounded(cos), rounded(sin));
        for (at, &x) in first_null.iter().enumerate() {
            (right[at], right[n * columns + at]) = (cos * x, -sin * x);
        }
        for (at, &x) in second_null.iter().enumerate() {
            (right[p_columns + at], right[n * columns + p_columns + at]) = (sin * x, cos * x);
        }
        z[0] = length;
    } else {
        right[..p_columns].copy_from_slice(first_null);
        z[0] = meets;
        halves[0] = Half::First;
    }

    // Values that stay: those that the first row does not reach, equal ones, and zeros.
    let size = |list: &[f64]| list.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    let small = 8.0 * R::epsilon().to_f64().unwrap_or(f64::EPSILON) * size(&values).max(size(&[a, b]));
    let (mut kept, mut stay): (Vec<usize>, Vec<usize>) = (vec![0], vec![]);
    for j in rising(&values[1..]).into_iter().map(|j| j + 1) {
        if z[j].abs() <= small {
            stay.push(j);
        } else if values[j] <= small {
            let length = z[0].hypot(z[j]);
            turn(&mut right, columns, 0, j, rounded(z[0] / length), rounded(z[j] / length));
            let both = halves[0].joined(halves[j]);
            (halves[0], halves[j]) = (both, both);
            (z[0], z[j], values[j]) = (length, 0.0, 0.0);
            stay.push(j);
        } else {
            let last = kept[kept.len() - 1];
            if last != 0 && values[j] - values[last] <= small {
                let length = z[last].hypot(z[j]);
                let (cos, sin) = (z[j] / length, -z[last] / length);
                turn(&mut left, n, last, j, rounded(cos), rounded(sin));
                turn(&mut right, columns, last, j, rounded(cos), rounded(sin));
                let both = halves[last].joined(halves[j]);
                (halves[last], halves[j]) = (both, both);
                (z[j], z[last]) = (length, 0.0);
                kept.pop();
                stay.push(last);
            }
            kept.push(j);
        }
    }
    // The first row's own element must not vanish; so small, it changes nothing.
    if z[0].abs() <= small {
        z[0] = if z[0] < 0.0 { -small } else { small };
    }
    let k = kept.len();
    let mut roots = vec![0.0; k];
    let (mut left_factors, mut right_factors) = (vec![R::zero(); k * k], vec![R::zero(); k * k]);
    let mut order: Vec<usize> = (0..k).collect();
    sort_by_key(&mut order, |&i| halves[kept[i]]);
    let sources: Vec<usize> = order.iter().map(|&i| kept[i]).collect();
    if z[0] != 0.0 {
        let poles: Vec<f64> = kept.iter().map(|&j| values[j]).collect();
        let weights: Vec<f64> = kept.iter().map(|&j| z[j] * z[j]).collect();
        let mut gaps = vec![0.0; k * k];
        for (j, gaps) in gaps.chunks_exact_mut(k).enumerate() {
            let root = secular::root(&Squares(&poles), &weights, j, gaps);
            let pole = poles[root.origin];
            // The square root of pole² + offset, without losing what is small.
            roots[j] = pole + root.offset / (pole + (pole * pole + root.offset).max(0.0).sqrt());
        }
        let sizes: Vec<f64> = (secular::matching(&Squares(&poles), &gaps, k).into_iter().zip(&kept))
            .map(|(w, &j)| w.sqrt().copysign(z[j]))
            .collect();
        let unit = |parts: &[f64], to: &mut [R]| {
            let length = parts.iter().map(|p| p * p).sum::<f64>().sqrt();
            to.iter_mut().zip(parts).for_each(|(to, p)| *to = rounded(p / length));
        };
        for (j, gaps) in gaps.chunks_exact(k).enumerate() {
            let mut parts: Vec<f64> = order.iter().map(|&i| sizes[i] / gaps[i]).collect();
            unit(&parts, &mut right_factors[j * k..(j + 1) * k]);
            for (part, &i) in parts.iter_mut().zip(&order) {
                *part = if i == 0 { -1.0 } else { *part * poles[i] };
            }
            unit(&parts, &mut left_factors[j * k..(j + 1) * k]);
        }
    } else {
        // All is zero.
        (0..k).for_each(|i| (left_factors[i * k + i], right_factors[i * k + i]) = (R::one(), R::one()));
    }
    let new_right = combined(&right, [p_columns, p_columns, columns], &sources, &halves, &right_factors, scratch);
    // The row between the halves is one element of the left vectors.
    let mut new_left = combined(&left, [p, p + 1, n], &sources, &halves, &left_factors, scratch);
    if let Some(at) = sources.iter().position(|&j| j == 0) {
        (0..k).for_each(|j| new_left[j * n + p] = left_factors[j * k + at]);
    }
    // All of them in rising order.
    let found = (0..k).map(|j| (roots[j], &new_left[j * n..][..n], &new_right[j * columns..][..columns]));
    let stayed = stay.iter().map(|&j| (values[j], &left[j * n..][..n], &right[j * columns..][..columns]));
    let mut all: Vec<(f64, &[R], &[R])> = found.chain(stayed).collect();
    sort_by(&mut all, |a, b| a.0.total_cmp(&b.0));
    let null = if has_null { &right[n * columns..] } else { &[] };
    Singular {
        values: all.iter().map(|one| one.0).collect(),
        left: joined(n * n, all.iter().map(|one| one.1)),
        right: joined(columns * columns, all.iter().map(|one| one.2).chain([null])),
    }
}

#[cfg(test)]
mod tests {
    use super::super::divide::tests::{noise, skew};
    use super::*;

    fn check<R: Field + Float>(name: &str, d: &[f64], e: &[f64]) {
        let n = d.len();
        let columns = if e.len() < n { n } else { n + 1 };
        let what = format!("{name} {n} x {columns}");
        let found = bidiagonal::<R>(d, e, &mut Scratch::default()).expect("convergence");
        let floats = |rows: &[R]| -> Vec<f64> { rows.iter().map(|v| v.to_f64().expect("a number")).collect() };
        let (left, right) = (floats(&found.left), floats(&found.right));
        let size = d.iter().chain(e).fold(f64::MIN_POSITIVE, |most, v| most.max(v.abs()));
        let tolerance = 8.0 * R::epsilon().to_f64().expect("a number") * (n + 4) as f64;
        assert!(found.values.windows(2).all(|w| w[0] <= w[1]), "{what}: {:?}", found.values);
        assert!(found.values.iter().all(|v| *v >= 0.0), "{what}: {:?}", found.values);
        assert!(skew(&left, n) <= tolerance, "{what}: {}", skew(&left, n));
        assert!(skew(&right, columns) <= tolerance, "{what}: {}", skew(&right, columns));
        for (i, v) in right.chunks_exact(columns).enumerate() {
            for k in 0..n {
                let after = if k < e.len() { e[k] * v[k + 1] } else { 0.0 };
                let wanted = if i < n { found.values[i] * left[i * n + k] } else { 0.0 };
                let wrong = (d[k] * v[k] + after - wanted).abs();
                assert!(wrong <= tolerance * size, "{what}: {wrong}");
            }
        }
    }

    #[test]
    fn matrices_of_all_kinds() {
        for (n, more) in [0usize, 1, 2, 3, 24, 25, 49, 101, 257].into_iter().flat_map(|n| [(n, 0), (n, 1)]) {
            let beside = (n + more).saturating_sub(1);
            if n == 0 && more == 0 {
                continue;
            }
            let (d, e) = (noise(n, 1), noise(beside, 2));
            let zeros = |n: usize| vec![0.0; n];
            let some = |list: &[f64], keep: &dyn Fn(usize) -> bool| -> Vec<f64> {
                list.iter().enumerate().map(|(i, &v)| if keep(i) { v } else { 0.0 }).collect()
            };
            check::<f64>("random", &d, &e);
            check::<f32>("random", &d, &e);
            check::<f64>("zero", &zeros(n), &zeros(beside));
            check::<f64>("zero diagonal", &zeros(n), &e);
            check::<f64>("diagonal", &d, &zeros(beside));
            check::<f64>("rank deficient", &some(&d, &|i| i % 3 > 0), &e);
            check::<f64>("half of it zero", &some(&d, &|i| i <= n / 2), &some(&e, &|i| i < n / 2));
            check::<f64>("equal", &vec![1.0; n], &vec![1.0; beside]);
            check::<f64>("identity", &vec![1.0; n], &zeros(beside));
            check::<f64>("clustered", &vec![1.0; n], &e.iter().map(|v| v * 1e-9).collect::<Vec<_>>());
            check::<f64>("tiny diagonal", &d.iter().map(|v| v * 1e-14).collect::<Vec<_>>(), &e);
            let graded = |n: usize| -> Vec<f64> { (0..n).map(|i| 10f64.powf(i as f64 / -10.0)).collect() };
            check::<f64>("graded", &graded(n), &graded(beside));
            let reversed = |n: usize| -> Vec<f64> { graded(n).into_iter().rev().collect() };
            check::<f64>("graded upwards", &reversed(n), &reversed(beside));
        }
    }
}
