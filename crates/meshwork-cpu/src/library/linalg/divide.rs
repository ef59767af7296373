//! Eigenvalues and eigenvectors of a real symmetric tridiagonal matrix by dividing it: two halves that differ from it by a
//! matrix of rank one are solved, and the whole follows from the roots of one equation and a product.
//!
//! Vectors are rows. Numbers of the equation are `f64` for every element type.

use rustfft::num_traits::Float;

use meshwork_mesh::{sort_by, sort_by_key};

use super::field::Field;
use super::product::{Operand, Sign, accumulate};
use super::secular::{self, Plain};
use super::spectrum::{self, Rows};
use crate::step::Scratch;

/// Order up to which a matrix is not divided.
const BASE: usize = 32;

/// Eigenvalues in rising order, and their vectors as rows of as many elements.
pub(super) struct Eigen<R> {
    pub values: Vec<f64>,
    pub rows: Vec<R>,
}

/// A number as `R`.
pub(super) fn rounded<R: Float>(x: f64) -> R {
    R::from(x).unwrap_or_else(R::nan)
}

/// The eigenvalues and eigenvectors of the matrix with this diagonal and these elements beside it; none if the steps for a
/// small block do not converge.
pub(super) fn symmetric<R: Field + Float>(diagonal: &[f64], beside: &[f64], scratch: &mut Scratch) -> Option<Eigen<R>> {
    let n = diagonal.len();
    if n <= BASE {
        let (mut values, mut rows) = (diagonal.to_vec(), Rows::identity(n));
        if !spectrum::symmetric(&mut values, beside, &mut rows) {
            return None;
        }
        let order = rising(&values);
        return Some(Eigen {
            rows: rows.reordered(&order).values.into_iter().map(rounded).collect(),
            values: order.iter().map(|&i| values[i]).collect(),
        });
    }
    let half = n / 2;
    let link = beside[half - 1];
    let (mut first, mut second) = (diagonal[..half].to_vec(), diagonal[half..].to_vec());
    first[half - 1] -= link.abs();
    second[0] -= link.abs();
    let first = symmetric::<R>(&first, &beside[..half - 1], scratch)?;
    let second = symmetric::<R>(&second, &beside[half..], scratch)?;
    Some(merged(first, second, link, scratch))
}

/// Positions of `values` from the smallest to the largest.
pub(super) fn rising(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    sort_by(&mut order, |&a, &b| values[a].total_cmp(&values[b]));
    order
}

/// Which elements of a row may differ from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Half {
    First,
    Both,
    Second,
}

impl Half {
    pub(super) fn joined(self, other: Half) -> Half {
        if self == other { self } else { Half::Both }
    }
}

/// The eigenvalues of both halves and of what links them.
fn merged<R: Field + Float>(first: Eigen<R>, second: Eigen<R>, link: f64, scratch: &mut Scratch) -> Eigen<R> {
    let (m, n) = (first.values.len(), first.values.len() + second.values.len());
    let mut values = [first.values, second.values].concat();
    let mut rows = vec![R::zero(); n * n];
    let mut halves = vec![Half::First; n];
    let mut z = vec![0.0; n];
    for (i, row) in rows.chunks_exact_mut(n).enumerate() {
        let end = if i < m {
            row[..m].copy_from_slice(&first.rows[i * m..(i + 1) * m]);
            row[m - 1]
        } else {
            halves[i] = Half::Second;
            row[m..].copy_from_slice(&second.rows[(i - m) * (n - m)..(i - m + 1) * (n - m)]);
            if link < 0.0 { -row[m] } else { row[m] }
        };
        z[i] = end.to_f64().unwrap_or(f64::NAN) * std::f64::consts::FRAC_1_SQRT_2;
    }
    let link = 2.0 * link.abs();

    // Values that stay: where the vector has no part in the link, or shares its value with a neighbor.
    let size = |list: &[f64]| list.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    let small = 8.0 * R::epsilon().to_f64().unwrap_or(f64::EPSILON) * size(&values).max(size(&z));
    let (mut kept, mut stay): (Vec<usize>, Vec<usize>) = (vec![], vec![]);
    for j in rising(&values) {
        if link * z[j].abs() <= small {
            stay.push(j);
            continue;
        }
        if let Some(&p) = kept.last() {
            let length = z[p].hypot(z[j]);
            let (cos, sin) = (z[j] / length, -z[p] / length);
            if ((values[j] - values[p]) * cos * sin).abs() <= small {
                (z[j], z[p]) = (length, 0.0);
                turn(&mut rows, n, p, j, rounded(cos), rounded(sin));
                (halves[p], halves[j]) = (halves[p].joined(halves[j]), halves[p].joined(halves[j]));
                let (a, b) = (values[p], values[j]);
                (values[p], values[j]) = (a * cos * cos + b * sin * sin, a * sin * sin + b * cos * cos);
                kept.pop();
                stay.push(p);
            }
        }
        kept.push(j);
    }
    let poles: Vec<f64> = kept.iter().map(|&j| values[j]).collect();
    let weights: Vec<f64> = kept.iter().map(|&j| link * z[j] * z[j]).collect();
    let k = kept.len();
    let mut gaps = vec![0.0; k * k];
    let mut roots = vec![0.0; k];
    for (j, gaps) in gaps.chunks_exact_mut(k.max(1)).enumerate() {
        let root = secular::root(&Plain(&poles), &weights, j, gaps);
        roots[j] = poles[root.origin] + root.offset;
    }
    let sizes: Vec<f64> = (secular::matching(&Plain(&poles), &gaps, k).into_iter().zip(&kept))
        .map(|(w, &j)| w.sqrt().copysign(z[j]))
        .collect();
    // The rows that take part, by halves, and each new row in terms of them.
    let mut order: Vec<usize> = (0..k).collect();
    sort_by_key(&mut order, |&i| halves[kept[i]]);
    let sources: Vec<usize> = order.iter().map(|&i| kept[i]).collect();
    let mut factors = vec![R::zero(); k * k];
    for (gaps, to) in gaps.chunks_exact(k.max(1)).zip(factors.chunks_exact_mut(k.max(1))) {
        let parts: Vec<f64> = order.iter().map(|&i| sizes[i] / gaps[i]).collect();
        let length = parts.iter().map(|p| p * p).sum::<f64>().sqrt();
        to.iter_mut().zip(&parts).for_each(|(to, p)| *to = rounded(p / length));
    }
    let new = combined(&rows, [m, m, n], &sources, &halves, &factors, scratch);
    // All of them in rising order.
    let found = roots.iter().enumerate().map(|(j, &value)| (value, &new[j * n..(j + 1) * n]));
    let stayed = stay.iter().map(|&j| (values[j], &rows[j * n..(j + 1) * n]));
    let mut all: Vec<(f64, &[R])> = found.chain(stayed).collect();
    sort_by(&mut all, |a, b| a.0.total_cmp(&b.0));
    Eigen { values: all.iter().map(|pair| pair.0).collect(), rows: joined(n * n, all.iter().map(|pair| pair.1)) }
}

/// Rows of so many elements in all, one after the other.
pub(super) fn joined<'a, R: Copy + 'a>(count: usize, rows: impl Iterator<Item = &'a [R]>) -> Vec<R> {
    let mut out = Vec::with_capacity(count);
    rows.for_each(|row| out.extend_from_slice(row));
    out
}

/// Rows `i` and `j` of `n` elements become `cos i + sin j` and `cos j - sin i`.
pub(super) fn turn<R: Float>(rows: &mut [R], n: usize, i: usize, j: usize, cos: R, sin: R) {
    for at in 0..n {
        let (x, y) = (rows[i * n + at], rows[j * n + at]);
        (rows[i * n + at], rows[j * n + at]) = (cos * x + sin * y, cos * y - sin * x);
    }
}

/// `factors` times the rows `sources`, which are ordered by halves: columns before `m` and after `from` are those of halves, the
/// others are left zero. Rows have `n` elements.
pub(super) fn combined<R: Field + Float>(
    rows: &[R],
    [m, from, n]: [usize; 3],
    sources: &[usize],
    halves: &[Half],
    factors: &[R],
    scratch: &mut Scratch,
) -> Vec<R> {
    let k = sources.len();
    let packed = joined(k * n, sources.iter().map(|&j| &rows[j * n..(j + 1) * n]));
    let count = |half: Half| sources.iter().filter(|&&j| halves[j] == half).count();
    let (only_first, only_second) = (count(Half::First), count(Half::Second));
    let mut new = vec![R::zero(); k * n];
    let (factors, packed) = (Operand::rows(factors.as_ptr(), k), Operand::rows(packed.as_ptr(), n));
    // SAFETY: `k` rows of factors, of packed and of new elements.
    unsafe {
        let to = new.as_mut_ptr();
        accumulate((to, n as isize), Sign::Plus, factors, packed, [k, m, k - only_second], scratch);
        let (to, factors) = (to.wrapping_add(from), factors.from(0, only_first));
        let size = [k, n - from, k - only_first];
        accumulate((to, n as isize), Sign::Plus, factors, packed.from(only_first, from), size, scratch);
    }
    new
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Numbers between -1 and 1.
    pub(in crate::library::linalg) fn noise(n: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as f64 / (1u64 << 30) as f64 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    /// How far rows are from orthonormal ones.
    pub(in crate::library::linalg) fn skew(rows: &[f64], n: usize) -> f64 {
        let dot = |i: usize, j: usize| (0..n).map(|k| rows[i * n + k] * rows[j * n + k]).sum::<f64>();
        let wrong = |i: usize, j: usize| (dot(i, j) - f64::from(u8::from(i == j))).abs();
        (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))).fold(0.0, |most, (i, j)| most.max(wrong(i, j)))
    }

    fn check<R: Field + Float>(name: &str, d: &[f64], e: &[f64]) {
        let n = d.len();
        let found = symmetric::<R>(d, e, &mut Scratch::default()).expect("convergence");
        let rows: Vec<f64> = found.rows.iter().map(|v| v.to_f64().expect("a number")).collect();
        let size = d.iter().chain(e).fold(f64::MIN_POSITIVE, |most, v| most.max(v.abs()));
        let tolerance = 8.0 * R::epsilon().to_f64().expect("a number") * (n + 4) as f64;
        assert!(found.values.windows(2).all(|w| w[0] <= w[1]), "{name} {n}: {:?}", found.values);
        assert!(skew(&rows, n) <= tolerance, "{name} {n}: {}", skew(&rows, n));
        for (v, value) in rows.chunks_exact(n).zip(&found.values) {
            for k in 0..n {
                let before = if k > 0 { e[k - 1] * v[k - 1] } else { 0.0 };
                let after = if k + 1 < n { e[k] * v[k + 1] } else { 0.0 };
                let wrong = (before + d[k] * v[k] + after - value * v[k]).abs();
                assert!(wrong <= tolerance * size, "{name} {n}: {wrong}");
            }
        }
    }

    #[test]
    fn matrices_of_all_kinds() {
        for n in [1, 2, 3, 32, 33, 64, 101, 257] {
            let (d, e) = (noise(n, 1), noise(n - 1, 2));
            check::<f64>("random", &d, &e);
            check::<f32>("random", &d, &e);
            check::<f64>("zero", &vec![0.0; n], &vec![0.0; n - 1]);
            check::<f64>("equal", &vec![1.0; n], &vec![1.0; n - 1]);
            let close: Vec<f64> = e.iter().map(|v| v * 1e-9).collect();
            check::<f64>("clustered", &vec![1.0; n], &close);
            check::<f32>("clustered", &vec![1.0; n], &close);
            let distance: Vec<f64> = (0..n).map(|i| (i as f64 - n as f64 / 2.0).abs()).collect();
            check::<f64>("pairs", &distance, &vec![1.0; n - 1]);
            let graded = |n: usize| -> Vec<f64> { (0..n).map(|i| 10f64.powf(i as f64 / -10.0)).collect() };
            check::<f64>("graded", &graded(n), &graded(n - 1));
            let broken = |(i, v): (usize, &f64)| if i % 7 == 0 { v * 1e-14 } else { -v.abs() };
            check::<f64>("nearly divided", &d, &e.iter().enumerate().map(broken).collect::<Vec<_>>());
            let teeth: Vec<f64> = (0..n).map(|i| (i % 21) as f64).collect();
            let links: Vec<f64> = (1..n).map(|i| if i % 21 == 0 { 1e-7 } else { 1.0 }).collect();
            check::<f64>("repeated blocks", &teeth, &links);
        }
    }
}
