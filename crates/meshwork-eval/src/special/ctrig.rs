//! Trigonometric and hyperbolic functions of complex numbers.

use super::Cplx;

/// `cosh x` and `sinh x` times `c` and `s`, without overflow before the product is formed.
fn scaled_cosh_sinh(x: f64, c: f64, s: f64) -> Cplx {
    if x.abs() > 700.0 && x.is_finite() {
        let half = (x.abs() / 2.0).exp();
        return Cplx::new(0.5 * c * half * half, (0.5 * s * half * half).copysign(s * x.signum()));
    }
    // A factor of zero stays zero beside an infinite one.
    let product = |a: f64, b: f64| if b == 0.0 { b.copysign(a.signum() * b.signum()) } else { a * b };
    Cplx::new(product(x.cosh(), c), product(x.sinh(), s))
}

impl Cplx {
    /// Hyperbolic cosine.
    pub fn cosh(self) -> Cplx {
        let (sin, cos) = self.im.sin_cos();
        scaled_cosh_sinh(self.re, cos, sin)
    }

    /// Hyperbolic sine.
    pub fn sinh(self) -> Cplx {
        let (sin, cos) = self.im.sin_cos();
        let Cplx { re: im, im: re } = scaled_cosh_sinh(self.re, sin, cos);
        Cplx::new(re, im)
    }

    /// Hyperbolic tangent (W. Kahan, "Branch cuts for complex elementary functions", 1987).
    pub fn tanh(self) -> Cplx {
        let Cplx { re: x, im: y } = self;
        if x.abs() > 20.0 {
            let im = if y.is_finite() { 4.0 * y.sin() * y.cos() * (-2.0 * x.abs()).exp() } else { 0.0f64.copysign(y) };
            return Cplx::new(1f64.copysign(x), im);
        }
        let t = y.tan();
        let beta = 1.0 + t * t;
        let s = x.sinh();
        let rho = (1.0 + s * s).sqrt();
        if t.is_infinite() {
            return Cplx::new(rho / s, 1.0 / t);
        }
        let den = 1.0 + beta * s * s;
        Cplx::new(beta * rho * s / den, t / den)
    }

    /// Cosine.
    pub fn cos(self) -> Cplx {
        self.times_i().cosh()
    }

    /// Sine.
    pub fn sin(self) -> Cplx {
        self.times_i().sinh().over_i()
    }

    /// Tangent.
    pub fn tan(self) -> Cplx {
        self.times_i().tanh().over_i()
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
    fn at_points() {
        let z = Cplx::new(0.5, -1.25);
        near(z.sin(), 0.905_358_634_420_957_2, -1.405_816_250_431_468_3);
        near(z.cos(), 1.657_247_864_053_914_7, 0.768_000_917_873_572_8);
        near(z.tan(), 0.126_108_566_484_234_38, -0.906_724_804_319_431);
        near(z.sinh(), 0.164_313_002_761_372_64, -1.070_099_697_366_852_7);
        near(z.cosh(), 0.355_565_683_247_121, -0.494_511_430_131_966_77);
        near(z.tanh(), 1.583_963_548_284_424, -0.806_634_698_851_073_6);
    }

    #[test]
    fn zeros_and_infinities() {
        let z = Cplx::new(f64::INFINITY, 0.0);
        assert_eq!(z.sinh(), z);
        assert_eq!(z.tanh(), Cplx::new(1.0, 0.0));
        assert_eq!(Cplx::new(0.0, -0.0).sin().im.to_bits(), (-0.0f64).to_bits());
    }
}
