//! Logarithms, exponentials, roots and powers of complex numbers.
//!
//! Each part of log, log_plus_one, exp and sqrt is good to a few units of last place on its own, also where the
//! other part is far larger or the terms of a sum cancel.

use std::f64::consts::LN_2;

use super::Cplx;
use super::exact::{square, sum};

/// ln |x + iy|. Near the unit circle |z|² - 1 is formed without rounding errors that matter.
pub(super) fn ln_abs(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs().max(y.abs()), x.abs().min(y.abs()));
    if x.is_infinite() || y.is_infinite() {
        return f64::INFINITY;
    }
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if a > 1e300 {
        (a / 4.0).hypot(b / 4.0).ln() + 2.0 * LN_2
    } else if a < 1e-300 {
        const UP: f64 = (1u128 << 100) as f64;
        (a * UP).hypot(b * UP).ln() - 100.0 * LN_2
    } else if (0.5..=2.0).contains(&a) {
        let ((ah, al), (bh, bl)) = (square(a), square(b));
        half_ln_1p(sum(&[ah, -1.0, bh, al, bl]))
    } else {
        a.hypot(b).ln()
    }
}

/// ½ ln(1 + s) for s in two parts.
fn half_ln_1p((s, lost): (f64, f64)) -> f64 {
    0.5 * (s.ln_1p() + lost / (1.0 + s))
}

impl Cplx {
    /// Natural logarithm, with the branch cut along the negative real axis.
    pub fn ln(self) -> Cplx {
        Cplx::new(ln_abs(self.re, self.im), self.im.atan2(self.re))
    }

    /// `ln(1 + self)`, also for small numbers.
    pub fn ln_1p(self) -> Cplx {
        let Cplx { re: x, im: y } = self;
        let near_minus_one = (x + 1.0).abs() < 0.5 && y.abs() < 0.5;
        let re = if near_minus_one || x.abs() > 3.0 || y.abs() > 3.0 || x.is_nan() || y.is_nan() {
            ln_abs(1.0 + x, y)
        } else {
            // |1+z|² - 1 = 2x + x² + y²
            let ((xh, xl), (yh, yl)) = (square(x), square(y));
            half_ln_1p(sum(&[2.0 * x, yh, xh, yl, xl]))
        };
        Cplx::new(re, y.atan2(1.0 + x))
    }

    /// `e^self`; an angle that is infinite or NaN makes both parts NaN.
    pub fn exp(self) -> Cplx {
        let Cplx { re: x, im: y } = self;
        if y == 0.0 {
            return Cplx::new(x.exp(), y);
        }
        let (sin, cos) = y.sin_cos();
        if x.abs() > 700.0 && x.is_finite() {
            // In two steps, so that neither overflow nor underflow comes too early.
            let half = (x / 2.0).exp();
            return Cplx::new(cos * half * half, sin * half * half);
        }
        let e = x.exp();
        Cplx::new(e * cos, e * sin)
    }

    /// `e^self - 1`.
    pub fn exp_m1(self) -> Cplx {
        let Cplx { re: x, im: y } = self;
        if y == 0.0 {
            return Cplx::new(x.exp_m1(), y);
        }
        let half = (y / 2.0).sin();
        let whole = self.exp();
        if x > 1.0 || !x.is_finite() || !y.is_finite() {
            return Cplx::new(whole.re - 1.0, whole.im);
        }
        // e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y/2)
        Cplx::new(x.exp_m1() * y.cos() - 2.0 * half * half, whole.im)
    }

    /// Square root in the right half plane.
    pub fn sqrt(self) -> Cplx {
        let Cplx { re: x, im: y } = self;
        if y.is_infinite() {
            return Cplx::new(f64::INFINITY, y);
        }
        if x.is_infinite() {
            let rest = if y.is_nan() { f64::NAN } else { 0.0 };
            return if x > 0.0 { Cplx::new(x, rest.copysign(y)) } else { Cplx::new(rest, f64::INFINITY.copysign(y)) };
        }
        if x == 0.0 && y == 0.0 {
            return Cplx::new(0.0, y);
        }
        let a = x.abs().max(y.abs());
        let (scale, back) = if a > 1e300 {
            (0.25, 2.0)
        } else if a < 1e-290 {
            ((1u128 << 108) as f64, 1.0 / (1u64 << 54) as f64)
        } else {
            (1.0, 1.0)
        };
        let (xs, ys) = (x * scale, y * scale);
        let large = ((xs.hypot(ys) + xs.abs()) * 0.5).sqrt();
        let small = if ys == 0.0 { 0.0 } else { ys.abs() / (2.0 * large) };
        if x >= 0.0 {
            Cplx::new(large * back, (small * back).copysign(y))
        } else {
            Cplx::new(small * back, (large * back).copysign(y))
        }
    }

    /// `1 / √self`.
    pub fn rsqrt(self) -> Cplx {
        Cplx::new(1.0, 0.0) / self.sqrt()
    }

    /// Cube root with a third of the angle.
    pub fn cbrt(self) -> Cplx {
        let radius = self.abs().cbrt();
        let (sin, cos) = (self.im.atan2(self.re) / 3.0).sin_cos();
        Cplx::new(radius * cos, radius * sin)
    }

    /// `self` to the power of `exponent`; zero to the power of zero is one.
    pub fn pow(self, exponent: Cplx) -> Cplx {
        if exponent.re == 0.0 && exponent.im == 0.0 {
            return Cplx::new(1.0, 0.0);
        }
        if self.re == 0.0 && self.im == 0.0 && exponent.re > 0.0 {
            return Cplx::new(0.0, 0.0);
        }
        (exponent * self.ln()).exp()
    }

    /// `self · self`, with the real part as a product of sums so that it does not cancel.
    pub fn square(self) -> Cplx {
        let Cplx { re: x, im: y } = self;
        // Both infinite: the difference of the squares is lost, as is that of two infinities.
        let re = if x.abs() == y.abs() && x.is_finite() { 0.0 } else { (x - y) * (x + y) };
        Cplx::new(re, 2.0 * (x * y))
    }

    /// `1 / (1 + e^-self)`.
    pub fn logistic(self) -> Cplx {
        let one = Cplx::new(1.0, 0.0);
        one / (one + (-self).exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::assert_near;

    fn near(got: Cplx, re: f64, im: f64) {
        assert_near(got.re, re, 5e-16);
        assert_near(got.im, im, 5e-16);
    }

    #[test]
    fn log_near_the_unit_circle() {
        near(Cplx::new(0.6, 0.8).ln(), 2.2204460492503134e-17, 0.9272952180016123);
        near(Cplx::new(1.0, 1e-10).ln(), 5e-21, 1e-10);
        near(Cplx::new(f64::MAX, f64::MAX).ln(), 710.1292864836639, std::f64::consts::FRAC_PI_4);
        near(Cplx::new(5e-324, 5e-324).ln(), -744.0934983311013, std::f64::consts::FRAC_PI_4);
    }

    #[test]
    fn log_plus_one_where_terms_cancel() {
        near(Cplx::new(1e-20, 1e-20).ln_1p(), 1e-20, 1e-20);
        // 2x + y² is zero, x² is left.
        near(Cplx::new(-5e-9, 1e-4).ln_1p(), 1.2500000374604556e-17, 1.0000000016666667e-4);
        assert_eq!(Cplx::new(-1.0, 0.0).ln_1p().re, f64::NEG_INFINITY);
    }

    #[test]
    fn exp_beyond_the_range_of_its_factor() {
        let z = Cplx::new(710.0, 1.57).exp();
        assert_near(z.re, 1.778_989_703_932_881_2e305, 5e-16);
        assert_eq!(z.im, f64::INFINITY);
        assert_eq!(Cplx::new(f64::NEG_INFINITY, 1.0).exp(), Cplx::new(0.0, 0.0));
        let lost = Cplx::new(f64::NEG_INFINITY, f64::INFINITY).exp();
        assert!(lost.re.is_nan() && lost.im.is_nan());
    }

    #[test]
    fn sqrt_of_extreme_numbers() {
        near(Cplx::new(3.0, -4.0).sqrt(), 2.0, -1.0);
        near(Cplx::new(-4.0, 0.0).sqrt(), 0.0, 2.0);
        assert_eq!(Cplx::new(-4.0, -0.0).sqrt().im, -2.0);
        let tiny = 2f64.powi(-1060);
        near(Cplx::new(3.0 * tiny, 4.0 * tiny).sqrt(), 2f64.powi(-529), 2f64.powi(-530));
        near(Cplx::new(3e307, 4e307).sqrt(), 6.324555320336759e153, 3.1622776601683793e153);
    }

    #[test]
    fn powers_of_zero() {
        let zero = Cplx::new(0.0, 0.0);
        assert_eq!(zero.pow(zero), Cplx::new(1.0, 0.0));
        assert_eq!(zero.pow(Cplx::new(2.0, 1.0)), zero);
        near(Cplx::new(0.0, 1.0).pow(Cplx::new(0.0, 1.0)), 0.20787957635076193, 0.0);
    }
}
