//! The Hurwitz zeta function and the polygamma functions, by Euler-Maclaurin summation.

use super::{digamma, lgamma};

/// B(2k) / (2k)!.
const BERNOULLI: [f64; 12] = [
    8.333_333_333_333_333e-2,
    -1.388_888_888_888_889e-3,
    3.306_878_306_878_307e-5,
    -8.267_195_767_195_767e-7,
    2.087_675_698_786_810e-8,
    -5.284_190_138_687_493e-10,
    1.338_253_653_068_467e-11,
    -3.389_680_296_322_583e-13,
    8.586_062_056_277_845e-15,
    -2.174_868_698_558_061e-16,
    5.509_002_828_360_23e-18,
    -1.395_446_468_581_252e-19,
];

/// Terms summed one by one before the tail is estimated.
const DIRECT: usize = 12;

/// ζ(x, q) = Σ (q + k)^-x over k ≥ 0.
///
/// As XLA has it: infinite at x = 1; at the poles (q zero or a negative integer) infinite for even x, else NaN;
/// NaN for x below 1 and, where q is negative, for x that is not an integer.
pub fn zeta(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if q <= 0.0 && q == q.floor() {
        return if x % 2.0 == 0.0 { f64::INFINITY } else { f64::NAN };
    }
    if x.is_nan() || x < 1.0 || q.is_nan() || (q < 0.0 && x != x.floor()) {
        return f64::NAN;
    }
    // Enough terms to reach positive numbers of some size.
    let below = if q < 0.0 { (-q).ceil() } else { 0.0 };
    if below > 1e6 {
        return f64::NAN;
    }
    let (mut at, mut sum) = (q, 0.0);
    for _ in 0..below as usize + DIRECT {
        let term = at.powf(-x);
        sum += term;
        // Past the negative numbers the terms only fall.
        if at > 0.0 && term.abs() < sum.abs() * 1e-18 {
            return sum;
        }
        at += 1.0;
    }
    // ∫ t^-x dt from `at`, half the first term, and the corrections x (x+1) ... (x+2k-2) B(2k)/(2k)! at^(-x-2k+1).
    let first = at.powf(-x);
    sum += first * at / (x - 1.0) + 0.5 * first;
    let mut factor = x * first / at;
    for (k, b) in BERNOULLI.iter().enumerate() {
        let term = factor * b;
        sum += term;
        if term.abs() < sum.abs() * 1e-18 {
            break;
        }
        let n = x + 2.0 * k as f64;
        factor *= (n + 1.0) * (n + 2.0) / (at * at);
    }
    sum
}

/// ψ of order `n`: the `n`-th derivative of the digamma function; NaN if `n` is not a natural number.
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if n < 0.0 || n != n.floor() || n.is_infinite() {
        return f64::NAN;
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    let factorial = if n <= 170.0 { (1..=n as u32).map(f64::from).product() } else { lgamma(n + 1.0).exp() };
    sign * factorial * zeta(n + 1.0, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::assert_near;

    #[test]
    fn zeta_at_points() {
        for (x, q, want) in [
            (2.0, 1.0, 1.6449340668482264365),
            (1.5, 0.5, 4.7765379475548332486),
            (3.0, 10.0, 0.0055249174854010337311),
            (10.0, 0.1, 10000000000.386150311),
            (1.1, 3.0, 9.1179319691823972717),
            (30.0, 2.5, 1.1529691685630236443e-12),
            (4.0, -0.5, 32.234848505667072873),
        ] {
            assert_near(zeta(x, q), want, 3e-15);
        }
    }

    #[test]
    fn zeta_at_the_edges() {
        for (x, q) in [(1.0, 2.0), (1.0, -3.0), (2.0, -3.0), (-4.0, 0.0)] {
            assert_eq!(zeta(x, q), f64::INFINITY, "{x} {q}");
        }
        assert!(zeta(0.5, 1.0).is_nan() && zeta(3.0, 0.0).is_nan() && zeta(2.5, -1.5).is_nan());
        assert!(zeta(f64::NAN, 1.0).is_nan() && zeta(2.0, f64::NAN).is_nan());
    }

    #[test]
    fn polygamma_at_points() {
        for (n, x, want) in [
            (1.0, 1.0, 1.6449340668482264365),
            (1.0, 0.5, 4.9348022005446793094),
            (2.0, 3.0, -0.1541138063191885708),
            (3.0, -0.5, 193.40909103400243724),
            (10.0, 1.5, -42108.858768975491797),
            (0.0, 1.0, -0.57721566490153286061),
        ] {
            assert_near(polygamma(n, x), want, 3e-15);
        }
        assert!(
            polygamma(1.5, 2.0).is_nan() && polygamma(-1.0, 2.0).is_nan() && polygamma(f64::INFINITY, 1.0).is_nan()
        );
    }
}
