//! Inverse trigonometric and hyperbolic functions of complex numbers.
//!
//! asin, acos and their hyperbolic counterparts follow Hull, Fairgrieve and Tang ("Implementing the complex arcsine and
//! arccosine functions using exception handling", 1997): with r and s the distances of |x| + i|y| from -1 and 1 and
//! a = (r + s)/2, the imaginary part is acosh(a) and the tangent of the real part x / √(a² - x²); both a - x and
//! a - 1 are formed from r and s without cancellation. Each part is good to a few units of last place.

use std::f64::consts::{FRAC_PI_2, LN_2};

use super::Cplx;
use super::clog::ln_abs;

impl Cplx {
    /// The common part of the inverse functions, `chlo._asin_acos_kernel`: a number `w` such that
    /// asin z = atan2(Re z, Re w) + i·sign(Im z)·Im w. Both parts are not negative.
    pub fn asin_acos_kernel(self) -> Cplx {
        let (x, y) = (self.re.abs(), self.im.abs());
        if x.is_nan() || y.is_nan() {
            let im = if x.is_infinite() || y.is_infinite() { f64::INFINITY } else { f64::NAN };
            let re = if x == 0.0 { f64::INFINITY } else { f64::NAN };
            return Cplx::new(re, im);
        }
        if x.max(y) > 1e10 {
            return Cplx::new(y, ln_abs(x / 2.0, y / 2.0) + 2.0 * LN_2);
        }
        let r = (x + 1.0).hypot(y);
        let s = (x - 1.0).hypot(y);
        let a = 0.5 * (r + s);
        let right = r + (x + 1.0);
        let re = if x <= 1.0 {
            let a_minus_x = 0.5 * (y * (y / right) + (s + (1.0 - x)));
            ((a + x) * a_minus_x).sqrt()
        } else {
            // (a - x) / y² times y
            y * (0.5 * ((a + x) / right + (a + x) / (s + (x - 1.0)))).sqrt()
        };
        let im = if x < 1.0 && y <= f64::EPSILON * (1.0 - x) {
            y / ((1.0 - x) * (1.0 + x)).sqrt()
        } else if a <= 1.5 {
            let near = if x < 1.0 { y * (y / (s + (1.0 - x))) } else { s + (x - 1.0) };
            let a_minus_one = 0.5 * (y * (y / right) + near);
            (a_minus_one + (a_minus_one * (a + 1.0)).sqrt()).ln_1p()
        } else {
            (a + ((a - 1.0) * (a + 1.0)).sqrt()).ln()
        };
        Cplx::new(re, im)
    }

    /// Inverse sine.
    pub fn asin(self) -> Cplx {
        let w = self.asin_acos_kernel();
        Cplx::new(self.re.atan2(w.re), w.im.copysign(self.im))
    }

    /// Inverse cosine.
    pub fn acos(self) -> Cplx {
        let w = self.asin_acos_kernel();
        Cplx::new(w.re.atan2(self.re), (-w.im).copysign(-self.im))
    }

    /// Inverse hyperbolic sine.
    pub fn asinh(self) -> Cplx {
        let w = self.times_i().asin_acos_kernel();
        Cplx::new(w.im.copysign(self.re), self.im.atan2(w.re))
    }

    /// Inverse hyperbolic cosine.
    pub fn acosh(self) -> Cplx {
        let w = self.asin_acos_kernel();
        Cplx::new(w.im, w.re.atan2(self.re).copysign(self.im))
    }

    /// Inverse hyperbolic tangent.
    pub fn atanh(self) -> Cplx {
        let (x, y) = (self.re.abs(), self.im.abs());
        let (re, im) = if x.is_infinite() || y.is_infinite() {
            (0.0, FRAC_PI_2)
        } else if x.max(y) > 1e100 {
            let radius = (x / 2.0).hypot(y / 2.0);
            (x / 2.0 / radius / radius / 2.0, FRAC_PI_2)
        } else if x == 1.0 && y < 1e-100 {
            (0.5 * (LN_2 - y.ln()), if y == 0.0 { 0.0 } else { 0.5 * FRAC_PI_2 })
        } else {
            let gap = 1.0 - x;
            let re = 0.25 * (4.0 * (x / (gap * gap + y * y))).ln_1p();
            (re, 0.5 * (2.0 * y).atan2(gap * (1.0 + x) - y * y))
        };
        Cplx::new(re.copysign(self.re), im.copysign(self.im))
    }

    /// Inverse tangent.
    pub fn atan(self) -> Cplx {
        self.times_i().atanh().over_i()
    }

    /// The angle of the point (`x`, `self`), as `-i·ln((x + i·self) / √(x² + self²))`.
    pub fn atan2(self, x: Cplx) -> Cplx {
        let direction = (x + self.times_i()) / (x * x + self * self).sqrt();
        direction.ln().over_i()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::assert_near;
    use std::f64::consts::{FRAC_PI_4, FRAC_PI_6};

    fn near(got: Cplx, re: f64, im: f64) {
        assert_near(got.re, re, 7e-16);
        assert_near(got.im, im, 7e-16);
    }

    #[test]
    fn at_points() {
        let z = Cplx::new(0.5, -1.25);
        near(z.asin(), 0.307_981_371_572_118_6, -1.085_576_557_720_778_5);
        near(z.acos(), 1.262_814_955_222_778, 1.085_576_557_720_778_5);
        near(z.acosh(), 1.085_576_557_720_778_5, -1.262_814_955_222_778);
        near(z.asinh(), 0.898_893_629_369_482_5, -1.061_185_772_468_742_7);
        near(z.atan(), 1.126_556_440_834_822_3, -0.708_303_336_014_054);
        near(z.atanh(), 0.185_894_508_546_709_3, -0.942_514_112_939_617_5);
    }

    #[test]
    fn beside_the_branch_points() {
        near(Cplx::new(1.0, 1e-20).asin(), 1.570_796_326_694_896_6, 1e-10);
        near(Cplx::new(1.0, 1e-20).acos(), 1e-10, -1e-10);
        near(Cplx::new(0.5, 1e-200).asin(), FRAC_PI_6, 1.154_700_538_379_251_5e-200);
        near(Cplx::new(1.0, 1e-200).atanh(), 230.605_082_889_684_54, FRAC_PI_4);
    }

    #[test]
    fn sides_of_the_cuts() {
        assert_eq!(Cplx::new(2.0, 0.0).asin().im.signum(), 1.0);
        assert_eq!(Cplx::new(2.0, -0.0).asin().im.signum(), -1.0);
        assert_eq!(Cplx::new(2.0, 0.0).atanh().im, FRAC_PI_2);
        assert_eq!(Cplx::new(2.0, -0.0).atanh().im, -FRAC_PI_2);
        assert_eq!(Cplx::new(-2.0, -0.0).acosh().im, -std::f64::consts::PI);
    }

    #[test]
    fn huge_numbers() {
        near(Cplx::new(1e300, 1e300).asin(), FRAC_PI_4, 691.815_248_669_053_6);
        near(Cplx::new(3e200, 4e200).atanh(), 1.2e-201, FRAC_PI_2);
    }
}
