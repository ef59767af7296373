//! The inverse of the error function, to a few units of last place.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use super::{erf, erfc};

/// The inverse of [`erf`]; infinite at 1 and -1, NaN beyond. Starts from Winitzki's closed form and is polished by
/// Halley's method.
pub fn erf_inv(x: f64) -> f64 {
    let a = x.abs();
    if a > 1.0 || a.is_nan() {
        return f64::NAN;
    }
    if a == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if a < 1e-8 {
        return x / FRAC_2_SQRT_PI;
    }
    // Winitzki's approximation, good to 2e-3.
    let log = (-a * a).ln_1p();
    let half = 2.0 / (PI * 0.147) + 0.5 * log;
    let mut y = ((half * half - log / 0.147).sqrt() - half).sqrt();
    for _ in 0..3 {
        let error = if a < 0.5 { erf(y) - a } else { (1.0 - a) - erfc(y) };
        // Halley: f / (f' (1 + y f/f')), as f'' = -2y f'.
        let step = error / (FRAC_2_SQRT_PI * (-y * y).exp());
        y -= step / (1.0 + y * step);
    }
    y.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::assert_near;

    #[test]
    fn erf_at_points() {
        for (x, want) in [
            (0.1, 0.1124629160182848984),
            (0.5, 0.52049987781304653768),
            (0.877, 0.78512271528796644775),
            (1.3, 0.93400794494065244585),
            (2.5, 0.99959304798255504106),
        ] {
            assert_near(erf(x), want, 2.3e-16);
            assert_near(erf(-x), -want, 2.3e-16);
        }
        assert_eq!((erf(f64::INFINITY), erf(-30.0)), (1.0, -1.0));
        assert!(erf(-0.0).is_sign_negative() && erf(f64::NAN).is_nan());
    }

    #[test]
    fn erfc_at_points() {
        for (x, want) in [
            (0.5, 0.47950012218695346232),
            (1.5, 0.033894853524689272933),
            (3.0, 0.000022090496998585441373),
            (10.0, 2.088487583762544757e-45),
            (26.0, 5.6631924088561428465e-296),
        ] {
            assert_near(erfc(x), want, 2e-15);
        }
        assert_eq!((erfc(-10.0), erfc(30.0), erfc(f64::INFINITY)), (2.0, 0.0, 0.0));
    }

    #[test]
    fn inverse_at_points() {
        for (x, want) in [
            (0.1, 0.088855990494257691974),
            (0.5, 0.47693627620446987338),
            (0.9, 1.1630871536766741628),
            (0.99, 1.8213863677184494559),
            (-0.999999, -3.4589107372754987775),
            (1.0 - 1e-15, 5.6759157397447131788),
            (1e-5, 8.862269254759594528e-6),
        ] {
            assert_near(erf_inv(x), want, 2e-15);
        }
        assert_eq!(erf_inv(-1.0), f64::NEG_INFINITY);
        assert!(erf_inv(1.0001).is_nan() && erf_inv(f64::NAN).is_nan());
        assert_eq!(erf_inv(0.0), 0.0);
    }
}
