//! Eigenvalues of real symmetric tridiagonal matrices and singular values of real bidiagonal ones, by implicit QR steps.
//!
//! Vectors are rows, so that a rotation of two of them runs along memory: a function multiplies the matrices of rows it
//! is given from the left by what it turned with. Each says whether its steps converged.

use rustfft::num_traits::Float;

use super::field::{kernel, wide};

/// Steps for one value before it is given up.
const STEPS: usize = 100;

/// Vectors as rows of `n` elements each.
pub(super) struct Rows<R> {
    pub n: usize,
    pub values: Vec<R>,
}

impl<R: Float> Rows<R> {
    pub(super) fn identity(n: usize) -> Rows<R> {
        let one = |at: usize| if at / n == at % n { R::one() } else { R::zero() };
        Rows { n, values: (0..n * n).map(one).collect() }
    }

    /// No vectors: turning them costs nothing.
    pub(super) fn none() -> Rows<R> {
        Rows { n: 0, values: vec![] }
    }

    /// Rows `i` and `j` become `cos i + sin j` and `cos j - sin i`.
    #[inline]
    pub(super) fn turn(&mut self, i: usize, j: usize, cos: R, sin: R) {
        let n = self.n;
        if n == 0 {
            return;
        }
        let (low, high) = (i.min(j), i.max(j));
        let (before, after) = self.values.split_at_mut(high * n);
        let (low_row, high_row) = (&mut before[low * n..(low + 1) * n], &mut after[..n]);
        // From the other row's point of view the angle is negative.
        let sin = if i < j { sin } else { -sin };
        wide(Turn, (low_row, high_row, cos, sin));
    }

    /// The rows in this order.
    pub(super) fn reordered(&self, order: &[usize]) -> Rows<R> {
        let row = |&i: &usize| self.values[i * self.n..(i + 1) * self.n].iter().copied();
        Rows { n: self.n, values: order.iter().flat_map(row).collect() }
    }
}

kernel! {
    [R: Float] Turn(low: &mut [R], high: &mut [R], cos: R, sin: R) -> () = turn(low, high, cos, sin)
}

/// Two rows become `cos low + sin high` and `cos high - sin low`.
#[inline(always)]
fn turn<R: Float>(low: &mut [R], high: &mut [R], cos: R, sin: R) {
    for (x, y) in low.iter_mut().zip(high) {
        (*x, *y) = (cos * *x + sin * *y, cos * *y - sin * *x);
    }
}

/// The eigenvalues of the matrix with this diagonal and these elements beside it, into `diagonal`.
pub(super) fn symmetric<R: Float>(diagonal: &mut [R], beside: &[R], vectors: &mut Rows<R>) -> bool {
    let (n, d) = (diagonal.len(), diagonal);
    // One more, so that every row has an element beside it.
    let mut e: Vec<R> = beside.iter().copied().chain([R::zero()]).collect();
    let two = R::one() + R::one();
    for first in 0..n {
        for step in 0.. {
            let is_small = |k: &usize| e[*k].abs() <= R::epsilon() * (d[*k].abs() + d[*k + 1].abs());
            let last = (first..n - 1).find(is_small).unwrap_or(n - 1);
            if last == first {
                break;
            }
            if step == STEPS {
                return false;
            }
            // A step from below, shifted by the eigenvalue of the first two rows that is nearer to the first.
            let mut g = (d[first + 1] - d[first]) / (two * e[first]);
            let length = hypotenuse(g, R::one());
            g = d[last] - d[first] + e[first] / (g + if g.is_sign_negative() { -length } else { length });
            let (mut sin, mut cos, mut shift) = (R::one(), R::one(), R::zero());
            let mut is_cut = false;
            for k in (first..last).rev() {
                let (f, b) = (sin * e[k], cos * e[k]);
                let length = hypotenuse(f, g);
                e[k + 1] = length;
                if length.is_zero() {
                    d[k + 1] = d[k + 1] - shift;
                    e[last] = R::zero();
                    is_cut = true;
                    break;
                }
                (sin, cos) = (f / length, g / length);
                g = d[k + 1] - shift;
                let r = (d[k] - g) * sin + two * cos * b;
                shift = sin * r;
                d[k + 1] = g + shift;
                g = cos * r - b;
                vectors.turn(k + 1, k, cos, sin);
            }
            if !is_cut {
                d[first] = d[first] - shift;
                e[first] = g;
                e[last] = R::zero();
            }
        }
    }
    true
}

/// The singular values of the matrix with this diagonal and these elements right of it, into `diagonal`, not negative.
/// With `B = X S Yᵀ`, `left` gets `Xᵀ` and `right` gets `Yᵀ`.
pub(super) fn bidiagonal<R: Float>(
    diagonal: &mut [R],
    beside: &mut [R],
    left: &mut Rows<R>,
    right: &mut Rows<R>,
) -> bool {
    let (n, d, e) = (diagonal.len(), diagonal, beside);
    let most = d.iter().chain(e.iter()).fold(R::zero(), |most, v| most.max(v.abs()));
    let tiny = R::epsilon() * most;
    let (mut end, mut steps) = (n, 0);
    while end > 1 {
        let last = end - 1;
        let is_small = |k: &usize| e[*k].abs() <= R::epsilon() * (d[*k].abs() + d[*k + 1].abs());
        let first = (0..last).rev().find(is_small).map_or(0, |k| {
            e[k] = R::zero();
            k + 1
        });
        if first == last {
            (end, steps) = (last, 0);
            continue;
        }
        steps += 1;
        if steps > STEPS {
            return false;
        }
        if d[last].abs() <= tiny {
            clear_column(d, e, right, first, last);
        } else if let Some(k) = (first..last).find(|&k| d[k].abs() <= tiny) {
            clear_row(d, e, left, k, last);
        } else {
            step(d, e, left, right, first, last);
        }
    }
    for k in 0..n {
        if d[k].is_sign_negative() {
            d[k] = -d[k];
            right.values[k * right.n..(k + 1) * right.n].iter_mut().for_each(|v| *v = -*v);
        }
    }
    true
}

/// The length of `(x, y)`; squares are summed where that loses nothing.
#[inline(always)]
fn hypotenuse<R: Float>(x: R, y: R) -> R {
    let square = x * x + y * y;
    let small = R::min_positive_value() / R::epsilon().powi(2);
    if square > small && square.is_finite() { square.sqrt() } else { x.hypot(y) }
}

/// The cosine, the sine and the length of `(x, y)`.
fn angle<R: Float>(x: R, y: R) -> (R, R, R) {
    let length = hypotenuse(x, y);
    if length.is_zero() { (R::one(), R::zero(), length) } else { (x / length, y / length, length) }
}

/// One step of Golub and Kahan between rows `first` and `last`.
fn step<R: Float>(d: &mut [R], e: &mut [R], left: &mut Rows<R>, right: &mut Rows<R>, first: usize, last: usize) {
    let two = R::one() + R::one();
    // Wilkinson's shift of BᵀB.
    let before = if last - 1 > first { e[last - 2] } else { R::zero() };
    let (a, b) = (d[last - 1].powi(2) + before.powi(2), d[last].powi(2) + e[last - 1].powi(2));
    let (c, half) = (d[last - 1] * e[last - 1], (a - b) / two);
    let root = half.hypot(c);
    let sum = half + if half.is_sign_negative() { -root } else { root };
    let shift = if sum.is_zero() { b } else { b - c * c / sum };
    let (mut x, mut y) = (d[first].powi(2) - shift, d[first] * e[first]);
    for k in first..last {
        let (cos, sin, length) = angle(x, y);
        if k > first {
            e[k - 1] = length;
        }
        (x, e[k]) = (cos * d[k] + sin * e[k], cos * e[k] - sin * d[k]);
        (y, d[k + 1]) = (sin * d[k + 1], cos * d[k + 1]);
        right.turn(k, k + 1, cos, sin);
        let (cos, sin, length) = angle(x, y);
        d[k] = length;
        (x, d[k + 1]) = (cos * e[k] + sin * d[k + 1], cos * d[k + 1] - sin * e[k]);
        e[k] = x;
        if k + 1 < last {
            (y, e[k + 1]) = (sin * e[k + 1], cos * e[k + 1]);
        }
        left.turn(k, k + 1, cos, sin);
    }
}

/// Turns the row of a zero diagonal element into zeros.
fn clear_row<R: Float>(d: &mut [R], e: &mut [R], left: &mut Rows<R>, k: usize, last: usize) {
    d[k] = R::zero();
    let mut f = e[k];
    e[k] = R::zero();
    for j in k + 1..=last {
        let (cos, sin, length) = angle(d[j], f);
        d[j] = length;
        if j < last {
            f = -sin * e[j];
            e[j] = cos * e[j];
        }
        left.turn(j, k, cos, sin);
    }
}

/// Turns the column of a zero last diagonal element into zeros.
fn clear_column<R: Float>(d: &mut [R], e: &mut [R], right: &mut Rows<R>, first: usize, last: usize) {
    d[last] = R::zero();
    let mut f = e[last - 1];
    e[last - 1] = R::zero();
    for j in (first..last).rev() {
        let (cos, sin, length) = angle(d[j], f);
        d[j] = length;
        if j > first {
            f = -sin * e[j - 1];
            e[j - 1] = cos * e[j - 1];
        }
        right.turn(j, last, cos, sin);
    }
}
