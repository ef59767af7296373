//! The derivative of the logarithm of the gamma function, to a few units of last place.

use std::f64::consts::PI;

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
    use crate::special::{assert_near, lgamma};

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
