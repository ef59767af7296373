//! A complex number and its arithmetic.

use std::ops::{Add, Div, Mul, Neg, Sub};

use meshwork_ir::Scalar;

/// A complex number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cplx {
    /// Real part.
    pub re: f64,
    /// Imaginary part.
    pub im: f64,
}

impl Cplx {
    /// Zero.
    pub const ZERO: Cplx = Cplx::new(0.0, 0.0);

    /// One.
    pub const ONE: Cplx = Cplx::new(1.0, 0.0);

    /// `re + i·im`.
    pub const fn new(re: f64, im: f64) -> Cplx {
        Cplx { re, im }
    }

    /// Magnitude, without needless overflow.
    pub fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }

    /// The square of the magnitude.
    pub fn norm2(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    /// `re - i·im`.
    pub fn conj(self) -> Cplx {
        Cplx::new(self.re, -self.im)
    }

    /// `i·self`.
    pub fn times_i(self) -> Cplx {
        Cplx::new(-self.im, self.re)
    }

    /// `-i·self`.
    pub fn over_i(self) -> Cplx {
        Cplx::new(self.im, -self.re)
    }

    /// Both parts times `factor`.
    pub fn scale(self, factor: f64) -> Cplx {
        Cplx::new(self.re * factor, self.im * factor)
    }

    /// The later one by real, then imaginary part; `other` if they do not compare.
    pub fn maximum(self, other: Cplx) -> Cplx {
        let first = if self.re == other.re { self.im > other.im } else { self.re > other.re };
        if first { self } else { other }
    }

    /// The earlier one by real, then imaginary part; `other` if they do not compare.
    pub fn minimum(self, other: Cplx) -> Cplx {
        let first = if self.re == other.re { self.im < other.im } else { self.re < other.re };
        if first { self } else { other }
    }

    /// `self / |self|`; zero for zero, NaN if a part is NaN.
    pub fn sign(self) -> Cplx {
        if self.re.is_nan() || self.im.is_nan() {
            Cplx::new(f64::NAN, f64::NAN)
        } else if self.re == 0.0 && self.im == 0.0 {
            Cplx::new(0.0, 0.0)
        } else {
            self / Cplx::new(self.abs(), 0.0)
        }
    }
}

/// A power of two that brings `x` near 1 when multiplied; 1 for zero and what is not finite.
fn power_of_two_near(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return 1.0;
    }
    let exponent = ((x.to_bits() >> 52) as i64 - 1023).clamp(-1000, 1000);
    f64::from_bits(((1023 - exponent) as u64) << 52)
}

fn unit_if_infinite(x: f64) -> f64 {
    if x.is_infinite() { 1.0f64.copysign(x) } else { 0.0f64.copysign(x) }
}

impl Add for Cplx {
    type Output = Cplx;
    fn add(self, o: Cplx) -> Cplx {
        Cplx::new(self.re + o.re, self.im + o.im)
    }
}

impl Sub for Cplx {
    type Output = Cplx;
    fn sub(self, o: Cplx) -> Cplx {
        Cplx::new(self.re - o.re, self.im - o.im)
    }
}

impl Mul for Cplx {
    type Output = Cplx;
    fn mul(self, o: Cplx) -> Cplx {
        Cplx::new(self.re * o.re - self.im * o.im, self.re * o.im + self.im * o.re)
    }
}

impl Div for Cplx {
    type Output = Cplx;

    /// The quotient, by Smith's method after scaling; a division by zero gives infinity as for reals, and a
    /// finite number over infinity gives zero (C99, annex G).
    fn div(self, by: Cplx) -> Cplx {
        let (a, b, c, d) = (self.re, self.im, by.re, by.im);
        let scale = power_of_two_near(c.abs().max(d.abs()));
        let (cs, ds) = (c * scale, d * scale);
        let q = if cs.abs() >= ds.abs() {
            let r = ds / cs;
            let den = cs + ds * r;
            Cplx::new((a + b * r) / den, (b - a * r) / den)
        } else {
            let r = cs / ds;
            let den = cs * r + ds;
            Cplx::new((a * r + b) / den, (b * r - a) / den)
        };
        let q = q.scale(scale);
        if !(q.re.is_nan() && q.im.is_nan()) {
            return q;
        }
        if c == 0.0 && d == 0.0 && !(a.is_nan() && b.is_nan()) {
            let inf = f64::INFINITY.copysign(c);
            Cplx::new(inf * a, inf * b)
        } else if (a.is_infinite() || b.is_infinite()) && c.is_finite() && d.is_finite() {
            let (a, b) = (unit_if_infinite(a), unit_if_infinite(b));
            Cplx::new(f64::INFINITY * (a * c + b * d), f64::INFINITY * (b * c - a * d))
        } else if (c.is_infinite() || d.is_infinite()) && a.is_finite() && b.is_finite() {
            let (c, d) = (unit_if_infinite(c), unit_if_infinite(d));
            Cplx::new(0.0 * (a * c + b * d), 0.0 * (b * c - a * d))
        } else {
            q
        }
    }
}

impl Neg for Cplx {
    type Output = Cplx;
    fn neg(self) -> Cplx {
        Cplx::new(-self.re, -self.im)
    }
}

impl From<(f64, f64)> for Cplx {
    fn from((re, im): (f64, f64)) -> Cplx {
        Cplx { re, im }
    }
}

impl From<Cplx> for Scalar {
    fn from(c: Cplx) -> Scalar {
        Scalar::Complex(c.re, c.im)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_survives_extreme_numbers() {
        let big = Cplx::new(1e300, 1e300);
        assert_eq!(big / big, Cplx::new(1.0, 0.0));
        let tiny = Cplx::new(1e-310, 1e-310);
        assert_eq!(tiny / tiny, Cplx::new(1.0, 0.0));
        assert_eq!(Cplx::new(1.0, 2.0) / Cplx::new(3.0, -4.0), Cplx::new(-0.2, 0.4));
    }

    #[test]
    fn division_by_zero_and_infinity() {
        let q = Cplx::new(1.0, -2.0) / Cplx::new(0.0, 0.0);
        assert_eq!((q.re, q.im), (f64::INFINITY, f64::NEG_INFINITY));
        let q = Cplx::new(1.0, 2.0) / Cplx::new(f64::INFINITY, 0.0);
        assert_eq!((q.re, q.im), (0.0, 0.0));
    }
}
