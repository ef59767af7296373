//! Functions that the standard library lacks: complex elementary functions and special functions.
//!
//! All are computed in `f64`; each file states the accuracy it aims at and holds reference values.

#![allow(clippy::excessive_precision, reason = "constants and reference values are given to 20 digits")]

mod bessel;
mod cinverse;
mod clog;
mod cplx;
mod ctrig;
mod erf;
mod exact;
mod gamma;
mod zeta;

pub use bessel::bessel_i1e;
pub use cplx::Cplx;
pub use erf::erf_inv;
pub use gamma::digamma;
pub use libm::{asinh, atanh, erf, erfc, lgamma};
pub use zeta::{polygamma, zeta};

/// Inverse hyperbolic cosine; NaN below 1, also far below, where `libm` gives a number.
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

/// Fails unless `got` is `want` up to a relative error.
#[cfg(test)]
pub(crate) fn assert_near(got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= want.abs() * relative, "got {got:e}, want {want:e}");
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
        assert!(acosh(0.999).is_nan() && acosh(-1e30).is_nan() && atanh(1.1).is_nan());
        assert_eq!((atanh(1.0), atanh(-1.0)), (f64::INFINITY, f64::NEG_INFINITY));
        assert_eq!((asinh(f64::NEG_INFINITY), acosh(f64::INFINITY)), (f64::NEG_INFINITY, f64::INFINITY));
        assert_near(asinh(f64::MAX), 710.4758600739439, 1e-15);
        assert!(asinh(-0.0).is_sign_negative() && atanh(-0.0).is_sign_negative());
    }
}
