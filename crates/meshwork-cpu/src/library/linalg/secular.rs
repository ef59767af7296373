//! Roots of `1 + Σ w[i] / (D[i] - x) = 0`, by which eigenvalues and singular values of two halves become those of the whole.
//!
//! Poles rise and weights are positive, so each root lies between two poles, the last one after all. A root is found and
//! kept as the offset from its nearest pole: all differences to poles then have small relative errors, and vectors
//! that are made of them are orthogonal.

use super::field::{kernel, total, wide};

/// Poles in rising order.
pub(super) trait Poles {
    /// `D[i] - D[from]`, exact to a few roundings.
    fn gap(&self, i: usize, from: usize) -> f64;
}

/// The numbers themselves.
pub(super) struct Plain<'a>(pub &'a [f64]);

/// The squares of numbers that are not negative.
pub(super) struct Squares<'a>(pub &'a [f64]);

impl Poles for Plain<'_> {
    #[inline(always)]
    fn gap(&self, i: usize, from: usize) -> f64 {
        self.0[i] - self.0[from]
    }
}

impl Poles for Squares<'_> {
    #[inline(always)]
    fn gap(&self, i: usize, from: usize) -> f64 {
        (self.0[i] - self.0[from]) * (self.0[i] + self.0[from])
    }
}

/// A root: `D[origin] + offset`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    pub origin: usize,
    pub offset: f64,
}

/// Steps before a root is taken as it is; a handful is usual.
const STEPS: usize = 100;

const LANES: usize = 8;

/// `Σ w / (gap - x)` and `Σ w / (gap - x)²`.
#[inline(always)]
fn sums(weights: &[f64], gaps: &[f64], x: f64) -> (f64, f64) {
    let (mut sum, mut slope) = ([0.0; LANES], [0.0; LANES]);
    let (w, g) = (weights.chunks_exact(LANES), gaps.chunks_exact(LANES));
    let (w_rest, g_rest) = (w.remainder(), g.remainder());
    for (w, g) in w.zip(g) {
        for l in 0..LANES {
            let inverse = 1.0 / (g[l] - x);
            let term = w[l] * inverse;
            sum[l] += term;
            slope[l] += term * inverse;
        }
    }
    let (mut sum, mut slope) = (total(sum), total(slope));
    for (w, g) in w_rest.iter().zip(g_rest) {
        let term = w / (g - x);
        sum += term;
        slope += term / (g - x);
    }
    (sum, slope)
}

/// The root after pole `j`. Leaves `D[i] - root` in `gaps`.
pub(super) fn root(poles: &impl Poles, weights: &[f64], j: usize, gaps: &mut [f64]) -> Root {
    wide(RootAfter, (poles, weights, j, gaps))
}

kernel! {
    [P: Poles] RootAfter(poles: &P, weights: &[f64], j: usize, gaps: &mut [f64]) -> Root = inside(poles, weights, j, gaps)
}

#[inline(always)]
fn inside(poles: &impl Poles, weights: &[f64], j: usize, gaps: &mut [f64]) -> Root {
    let n = weights.len();
    let is_last = j + 1 == n;
    let fill = |gaps: &mut [f64], origin: usize| {
        for (i, g) in gaps.iter_mut().enumerate() {
            *g = poles.gap(i, origin);
        }
    };
    fill(gaps, j);
    let mut origin = j;
    // The bracket, and a first guess: the two nearest poles with all else as it is in the middle.
    let (mut low, mut high, mut x);
    if is_last {
        let total: f64 = weights.iter().sum();
        (low, high) = (0.0, total);
        let (rest, _) = sums(&weights[..j], &gaps[..j], 0.5 * total);
        // 1 + rest - w/x = 0, where that is inside.
        x = if 1.0 + rest > 0.0 { weights[j] / (1.0 + rest) } else { 0.5 * total };
    } else {
        let width = gaps[j + 1];
        let middle = 0.5 * width;
        let (before, _) = sums(&weights[..=j], &gaps[..=j], middle);
        let (after, _) = sums(&weights[j + 1..], &gaps[j + 1..], middle);
        let value = 1.0 + before + after;
        let rest = value - weights[j] / -middle - weights[j + 1] / middle;
        // The root is in the half where the sign changes.
        let is_left = value >= 0.0;
        if !is_left {
            origin = j + 1;
            fill(gaps, origin);
        }
        (low, high) = if is_left { (0.0, middle) } else { (-middle, 0.0) };
        // rest (p - x)(q - x) + a (q - x) + b (p - x) = 0 for the poles at p and q.
        let (p, q) = (gaps[j], gaps[j + 1]);
        let (a, b) = (weights[j], weights[j + 1]);
        let (second, first, zeroth) = (rest, -(rest * (p + q) + a + b), rest * p * q + a * q + b * p);
        x = between(second, first, zeroth, low, high);
    }
    if !(x > low && x < high) {
        x = 0.5 * (low + high);
    }
    for _ in 0..STEPS {
        let (before, before_slope) = sums(&weights[..=j], &gaps[..=j], x);
        let (after, after_slope) = sums(&weights[j + 1..], &gaps[j + 1..], x);
        let value = 1.0 + before + after;
        let slope = before_slope + after_slope;
        if value == 0.0 || value.abs() <= f64::EPSILON * (1.0 + before.abs() + after + x.abs() * slope) {
            break;
        }
        if value > 0.0 {
            high = x;
        } else {
            low = x;
        }
        // The next guess has the same values and slopes on both sides.
        let p = gaps[j] - x;
        let mut next = if is_last {
            let (weight, rest) = (before_slope * p * p, 1.0 + before - before_slope * p);
            x + p + weight / rest
        } else {
            let q = gaps[j + 1] - x;
            let second = value - p * before_slope - q * after_slope;
            let (first, zeroth) = (-((p + q) * value - p * q * slope), p * q * value);
            x + between(second, first, zeroth, low - x, high - x)
        };
        if !(next > low && next < high) {
            // Towards a pole, sizes matter more than distances.
            next = match (low > 0.0, high < 0.0) {
                (true, _) if high > 4.0 * low => (low * high).sqrt(),
                (_, true) if low < 4.0 * high => -(low * high).sqrt(),
                (false, false) if low == 0.0 && x == high => high * (1.0 / 64.0),
                (false, false) if high == 0.0 && x == low => low * (1.0 / 64.0),
                _ => 0.5 * (low + high),
            };
        }
        let step = (next - x).abs();
        x = next;
        if step <= 0.5 * f64::EPSILON * x.abs() {
            break;
        }
    }
    for g in gaps.iter_mut() {
        *g -= x;
    }
    Root { origin, offset: x }
}

/// The root of `a x² + b x + c` between `low` and `high`, NaN if there is none.
#[inline(always)]
fn between(a: f64, b: f64, c: f64, low: f64, high: f64) -> f64 {
    let size = b * b - 4.0 * a * c;
    if size < 0.0 {
        return f64::NAN;
    }
    let half = -0.5 * (b + size.sqrt().copysign(b));
    let (first, second) = (c / half, half / a);
    if first >= low && first <= high { first } else { second }
}

/// The squares of the weights' roots for which `roots` are exactly those of the equation: row `j` of `gaps` has the poles
/// minus root `j`.
pub(super) fn matching(poles: &impl Poles, gaps: &[f64], n: usize) -> Vec<f64> {
    let mut out: Vec<f64> = (0..n).map(|i| -gaps[i * n + i]).collect();
    wide(Ratios, (poles, gaps, n, &mut out[..]));
    out.iter_mut().for_each(|o| *o = o.abs());
    out
}

kernel! {
    [P: Poles] Ratios(poles: &P, gaps: &[f64], n: usize, out: &mut [f64]) -> () = multiply_ratios(poles, gaps, n, out)
}

/// Multiplies each number by its pole's distances from the roots over those from the other poles.
#[inline(always)]
fn multiply_ratios(poles: &impl Poles, gaps: &[f64], n: usize, out: &mut [f64]) {
    for j in 0..n {
        let row = &gaps[j * n..(j + 1) * n];
        for (i, o) in out.iter_mut().enumerate() {
            // Both differences have the same sign but for rounding.
            if i != j {
                *o *= row[i] / poles.gap(i, j);
            }
        }
    }
}
