//! Inverse hyperbolic functions of reals, to about one unit of last place.

use std::f64::consts::LN_2;

/// Beyond this magnitude 1 is lost beside the square.
const LARGE: f64 = (1u64 << 28) as f64;

/// Inverse hyperbolic sine.
pub fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let value = if a > LARGE {
        a.ln() + LN_2
    } else {
        let square = a * a;
        (a + square / (1.0 + (1.0 + square).sqrt())).ln_1p()
    };
    value.copysign(x)
}

/// Inverse hyperbolic cosine; NaN below 1.
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 {
        f64::NAN
    } else if x > LARGE {
        x.ln() + LN_2
    } else {
        let t = x - 1.0;
        (t + (t * (x + 1.0)).sqrt()).ln_1p()
    }
}

/// Inverse hyperbolic tangent; infinite at 1 and -1, NaN beyond.
pub fn atanh(x: f64) -> f64 {
    let a = x.abs();
    let value = if a < 0.5 { (2.0 * a + 2.0 * a * a / (1.0 - a)).ln_1p() } else { (2.0 * a / (1.0 - a)).ln_1p() };
    // Numbers too small to double without loss are their own inverse tangent.
    if a < 1e-100 { x } else { (0.5 * value).copysign(x) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::assert_near;

    #[test]
    fn invert_their_functions() {
        for x in [1e-300, 1e-10, 0.1, 0.6, 1.0, 3.0, 18.0] {
            assert_near(asinh(f64::sinh(x)), x, 4e-16);
            assert_near(asinh(-f64::sinh(x)), -x, 4e-16);
        }
        assert_near(acosh(1.0 + 1e-10), 1.4142135623612382e-5, 1e-7);
        assert_near(acosh(f64::cosh(3.0)), 3.0, 4e-16);
        assert_near(atanh(f64::tanh(0.3)), 0.3, 4e-16);
        assert_near(atanh(0.75), 0.9729550745276566, 4e-16);
    }

    #[test]
    fn ends_of_their_ranges() {
        assert_eq!(acosh(1.0), 0.0);
        assert!(acosh(0.999).is_nan() && atanh(1.1).is_nan());
        assert_eq!((atanh(1.0), atanh(-1.0)), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!((asinh(f64::NEG_INFINITY), acosh(f64::INFINITY)), (f64::NEG_INFINITY, f64::INFINITY));
        assert_near(asinh(f64::MAX), 710.4758600739439, 1e-15);
        assert!(asinh(-0.0).is_sign_negative() && atanh(-0.0).is_sign_negative());
    }
}
