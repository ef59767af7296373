//! The logarithm of the gamma function and its derivative, to a few units of last place.

use std::f64::consts::PI;

/// ζ(k) - 1 for k = 2, 3, ...
const ZETA_MINUS_ONE: [f64; 32] = [
    0.64493406684822643647,
    0.2020569031595942854,
    0.082323233711138191516,
    0.036927755143369926331,
    0.017343061984449139715,
    0.0083492773819228268398,
    0.0040773561979443393787,
    0.0020083928260822144179,
    0.00099457512781808533715,
    0.0004941886041194645587,
    0.00024608655330804829864,
    0.00012271334757848914675,
    0.000061248135058704829259,
    0.000030588236307020493552,
    0.000015282259408651871733,
    7.6371976378997622736e-6,
    3.8172932649998398565e-6,
    1.9082127165539389257e-6,
    9.5396203387279611315e-7,
    4.7693298678780646312e-7,
    2.3845050272773299e-7,
    1.1921992596531107307e-7,
    5.9608189051259479612e-8,
    2.9803503514652280186e-8,
    1.4901554828365041235e-8,
    7.450711789835429492e-9,
    3.7253340247884570548e-9,
    1.8626597235130490064e-9,
    9.3132743241966818287e-10,
    4.656629065033784073e-10,
    2.328311833676505492e-10,
    1.1641550172700519776e-10,
];

/// 1 minus Euler's constant.
const ONE_MINUS_EULER: f64 = 0.4227843350984671394;

/// ln √(2π).
const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_7;

/// B(2k) / (2k (2k-1)): the asymptotic series of ln Γ.
const STIRLING: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    5.0 / 5940.0,
    -691.0 / 360_360.0,
    7.0 / 1092.0,
    -3617.0 / 122_400.0,
];

/// ln Γ(2 + z) for |z| ≤ 1/2, by its power series.
fn lgamma_near_two(z: f64) -> f64 {
    let mut sum = 0.0;
    for (i, coefficient) in ZETA_MINUS_ONE.iter().enumerate().rev() {
        sum = coefficient / (i as f64 + 2.0) - z * sum;
    }
    z * (ONE_MINUS_EULER + z * sum)
}

/// ln Γ(x) for x > 0.
fn lgamma_positive(x: f64) -> f64 {
    if x < 0.5 {
        lgamma_positive(1.0 + x) - x.ln()
    } else if x < 1.5 {
        lgamma_near_two(x - 1.0) - (x - 1.0).ln_1p()
    } else if x < 10.0 {
        let (mut at, mut product) = (x, 1.0);
        while at >= 2.5 {
            at -= 1.0;
            product *= at;
        }
        lgamma_near_two(at - 2.0) + f64::ln(product)
    } else if x < 1e18 {
        let square = 1.0 / (x * x);
        let series = STIRLING.iter().rev().fold(0.0, |sum, c| c + square * sum) / x;
        (x - 0.5) * x.ln() - x + LN_SQRT_2PI + series
    } else {
        x * (x.ln() - 1.0)
    }
}

/// `sin(πx)` without losing large arguments to π's rounding.
fn sin_pi(x: f64) -> f64 {
    let rest = x % 2.0;
    (PI * if rest.abs() <= 0.5 { rest } else { 1f64.copysign(rest) - rest }).sin()
}

/// The logarithm of the magnitude of the gamma function; infinite at its poles.
pub fn lgamma(x: f64) -> f64 {
    if x > 0.0 || x.is_nan() {
        lgamma_positive(x)
    } else if x == x.floor() {
        f64::INFINITY
    } else {
        // Γ(x) Γ(1-x) = π / sin(πx)
        (PI / (sin_pi(x) * x).abs()).ln() - lgamma_positive(-x)
    }
}

/// ψ, the derivative of ln Γ; NaN at its poles.
pub fn digamma(x: f64) -> f64 {
    if x <= 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        let rest = x - x.round();
        return digamma(1.0 - x) - PI / (PI * rest).tan();
    }
    let (mut at, mut shift) = (x, 0.0);
    while at < 10.0 {
        shift += 1.0 / at;
        at += 1.0;
    }
    let square = 1.0 / (at * at);
    // The derivative of Stirling's series, whose term k is c / x^(2k+1).
    let series = STIRLING.iter().enumerate().rev().fold(0.0, |sum, (k, c)| c * (2 * k + 1) as f64 + square * sum);
    at.ln() - 0.5 / at - series * square - shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::assert_near;

    #[test]
    fn lgamma_at_points() {
        for (x, want) in [
            (0.1, 2.252712651734205902),
            (0.999, 0.00057803853289138023817),
            (1.001, -0.00057639359828330615152),
            (1.5, -0.12078223763524522235),
            (2.001, 0.00042310673480011699119),
            (3.7, 1.4280723266653881292),
            (11.0, 15.104412573075515295),
            (100.5, 361.43554046777762156),
            (1e10, 220258509288.81058147),
            (-0.5, 1.2655121234846453965),
            (-1.5, 0.86004701537648101451),
            (-10.3, -14.457515440024208334),
        ] {
            assert_near(lgamma(x), want, 2e-15);
        }
        assert_eq!((lgamma(1.0), lgamma(2.0)), (0.0, 0.0));
    }

    #[test]
    fn lgamma_at_the_edges() {
        for x in [0.0, -0.0, -3.0, f64::INFINITY, f64::NEG_INFINITY, 1e308] {
            assert_eq!(lgamma(x), f64::INFINITY, "{x}");
        }
        assert!(lgamma(f64::NAN).is_nan());
    }

    #[test]
    fn digamma_at_points() {
        for (x, want) in [
            (0.1, -10.423754940411076232),
            (1.0, -0.57721566490153286061),
            (1.5, 0.036489973978576520559),
            (5.0, 1.5061176684318004727),
            (20.0, 2.9705239922421490509),
            (-0.5, 0.036489973978576520559),
            (-2.3, 3.3173231575618227391),
        ] {
            assert_near(digamma(x), want, 3e-15 / want.abs().min(1.0));
        }
        assert!(digamma(0.0).is_nan() && digamma(-4.0).is_nan() && digamma(f64::NAN).is_nan());
        assert_eq!(digamma(f64::INFINITY), f64::INFINITY);
    }
}
