//! Arithmetic as NumPy has it: floor division, exact logarithms of sums, comparisons within a tolerance.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let f = jit(|x: Tensor| (x.floor_divide(3), x.remainder(3)));
//! let (quotient, rest) = f.call(&Array::from([-7i32, 7]))?;
//! assert_eq!((quotient.to_vec::<i32>()?, rest.to_vec::<i32>()?), (vec![-3, 2], vec![2, 1]));
//!
//! let near = jit(|x: Tensor, y: Tensor| (x.is_close(&y, 1e-5, 1e-8), x.hypot(&y)));
//! let (close, length) = near.call((&Array::from([3.0f32, 1.0]), &Array::from([4.0f32, 1.0])))?;
//! assert_eq!(close.to_vec::<bool>()?, [false, true]);
//! assert_eq!(length.to_vec::<f32>()?[0], 5.0);
//! # Ok::<(), meshwork::Error>(())
//! ```

use std::f64::consts::{LN_2, LN_10, PI};

use meshwork_ir::ElementType::{self, BF16, F16, F32, F64};
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{ElementClass, OpKind};

use super::elementwise::{Class, binary_op, select};
use crate::Tensor;
use crate::element::{Fill, Number, Operand};
use crate::error::fail;

impl Tensor {
    /// The quotient rounded down, as NumPy's `//`. (`/` of integers rounds to zero.)
    #[track_caller]
    pub fn floor_divide(&self, other: impl Into<Operand>) -> Tensor {
        self.divmod(other).0
    }

    /// The remainder with the sign of the divisor, as NumPy's `%`. ([`rem`](Tensor::rem) has the sign of the dividend.)
    #[track_caller]
    pub fn remainder(&self, other: impl Into<Operand>) -> Tensor {
        let other = other.into().tensor("remainder", self.dtype());
        let rest = self.rem(&other);
        let shifted = wrong_sign(&rest, &other);
        select(shifted, &rest + &other, &rest)
    }

    /// [`floor_divide`](Tensor::floor_divide) and [`remainder`](Tensor::remainder).
    #[track_caller]
    pub fn divmod(&self, other: impl Into<Operand>) -> (Tensor, Tensor) {
        let other = other.into().tensor("divmod", self.dtype());
        let rest = self.rem(&other);
        let shifted = wrong_sign(&rest, &other);
        let quotient = if self.dtype().is_float() { ((self - &rest) / &other).round() } else { self / &other };
        (select(&shifted, &quotient - 1, &quotient), select(&shifted, &rest + &other, &rest))
    }

    /// Whether it is infinite.
    #[track_caller]
    pub fn is_inf(&self) -> Tensor {
        Class::Real.check("is_inf", self);
        self.abs().eq(f64::INFINITY)
    }

    /// Whether it is positive infinity.
    #[track_caller]
    pub fn is_pos_inf(&self) -> Tensor {
        Class::Real.check("is_pos_inf", self);
        self.eq(f64::INFINITY)
    }

    /// Whether it is negative infinity.
    #[track_caller]
    pub fn is_neg_inf(&self) -> Tensor {
        Class::Real.check("is_neg_inf", self);
        self.eq(f64::NEG_INFINITY)
    }

    /// `log(exp(x) + exp(y))`, without overflow.
    #[track_caller]
    pub fn logaddexp(&self, other: impl Into<Operand>) -> Tensor {
        Class::Real.check("logaddexp", self);
        let other = other.into().tensor("logaddexp", self.dtype());
        let distance = self - &other;
        // The smaller of both signs is -|distance|, with the slope 0 at 0. Equal infinities have no distance.
        let sum = self.maximum(&other) + distance.minimum(-&distance).exp().log1p();
        select(distance.is_nan(), self + &other, sum)
    }

    /// 2 to the power of `x`.
    #[track_caller]
    pub fn exp2(&self) -> Tensor {
        (self * LN_2).exp()
    }

    /// The logarithm to base 2.
    #[track_caller]
    pub fn log2(&self) -> Tensor {
        self.log() / LN_2
    }

    /// The logarithm to base 10.
    #[track_caller]
    pub fn log10(&self) -> Tensor {
        self.log() / LN_10
    }

    /// The distance of `(x, y)` from the origin, without overflow.
    #[track_caller]
    pub fn hypot(&self, other: impl Into<Operand>) -> Tensor {
        let x = self.abs();
        let y = other.into().tensor("hypot", self.dtype()).abs();
        let (large, small) = (x.maximum(&y), x.minimum(&y));
        let divisor = select(large.eq(0), 1, &large);
        let length = &large * ((small / divisor).square() + 1).sqrt();
        select(large.is_inf(), &large, length)
    }

    /// The integer next to it towards 0.
    #[track_caller]
    pub fn trunc(&self) -> Tensor {
        select(self.lt(0), self.ceil(), self.floor())
    }

    /// `sin(pi x) / (pi x)`, and 1 at 0.
    #[track_caller]
    pub fn sinc(&self) -> Tensor {
        let zero = self.eq(0);
        let x = select(&zero, 1, self) * PI;
        select(zero, 1, x.sin() / x)
    }

    /// The next number after it towards `other`.
    #[track_caller]
    pub fn nextafter(&self, other: impl Into<Operand>) -> Tensor {
        binary_op("nextafter", OpKind::Binary(BinaryOp::NextAfter), self.into(), other.into())
    }

    /// 0 below 0, 1 above, and `half` at 0.
    #[track_caller]
    pub fn heaviside(&self, half: impl Into<Number>) -> Tensor {
        let half = half.into().fill("heaviside", &[], self.dtype());
        select(self.eq(0), half, select(self.is_nan(), self, self.gt(0).to(self.dtype())))
    }

    /// Degrees as radians.
    #[track_caller]
    pub fn deg2rad(&self) -> Tensor {
        self * (PI / 180.0)
    }

    /// Radians as degrees.
    #[track_caller]
    pub fn rad2deg(&self) -> Tensor {
        self * (180.0 / PI)
    }

    /// `nan` in place of NaN, and the largest and smallest numbers of the type in place of infinities.
    #[track_caller]
    pub fn nan_to_num(&self, nan: f64) -> Tensor {
        if !self.dtype().is_float() {
            return self.clone();
        }
        let most = finfo(self.dtype()).max;
        let x = select(self.is_nan(), nan, self);
        let x = select(x.is_pos_inf(), most, &x);
        select(x.is_neg_inf(), -most, &x)
    }

    /// Whether each pair differs by at most `atol + rtol * |other|`; infinities are close to themselves.
    #[track_caller]
    pub fn is_close(&self, other: impl Into<Operand>, rtol: f64, atol: f64) -> Tensor {
        let other = other.into().tensor("is_close", self.dtype());
        if self.dtype().class() != ElementClass::Float {
            return self.eq(other);
        }
        let near = (self - &other).abs().le(other.abs() * rtol + atol);
        (near & self.is_finite() & other.is_finite()) | self.eq(other)
    }

    /// Whether all pairs [are close](Tensor::is_close): a scalar.
    #[track_caller]
    pub fn allclose(&self, other: impl Into<Operand>, rtol: f64, atol: f64) -> Tensor {
        self.is_close(other, rtol, atol).all_all()
    }

    /// Whether both have the same shape and elements: a scalar.
    #[track_caller]
    pub fn array_equal(&self, other: &Tensor) -> Tensor {
        match self.shape() == other.shape() {
            true => self.eq(other).all_all(),
            false => super::create::full((), meshwork_ir::ElementType::I1, false),
        }
    }

    /// The angle of complex numbers; of real ones 0 or pi.
    #[track_caller]
    pub fn angle(&self) -> Tensor {
        if self.dtype().is_complex() { self.imag().atan2(self.real()) } else { self.zeros_like().atan2(self) }
    }

    /// Each element rounded to `exponent_bits` and `mantissa_bits`.
    #[track_caller]
    pub fn reduce_precision(&self, exponent_bits: i64, mantissa_bits: i64) -> Tensor {
        Class::Real.check("reduce_precision", self);
        if exponent_bits < 1 || mantissa_bits < 0 {
            fail("reduce_precision", format!("to {exponent_bits} bits of exponent and {mantissa_bits} of mantissa"));
        }
        crate::trace::compose::emit("reduce_precision", &[self], |b, v| {
            b.reduce_precision(v[0], exponent_bits, mantissa_bits)
        })
    }
}

/// Where a remainder has the sign of the dividend and not of the divisor.
#[track_caller]
fn wrong_sign(rest: &Tensor, divisor: &Tensor) -> Tensor {
    if rest.dtype().class() == ElementClass::Unsigned {
        return rest.ne(rest);
    }
    (rest.lt(0) ^ divisor.lt(0)) & rest.ne(0)
}

/// What a float type can hold: see [`finfo`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float {
    /// Bits of the mantissa that are stored.
    pub mantissa: i32,
    /// The largest finite number.
    pub max: f64,
    /// The smallest positive normal number.
    pub tiny: f64,
}

impl Float {
    /// The distance from 1 to the next larger number.
    pub fn epsilon(self) -> f64 {
        2f64.powi(-self.mantissa)
    }
}

/// What a float type of 16, 32 or 64 bits can hold.
///
/// ```
/// use meshwork::{ElementType, finfo};
///
/// assert_eq!(finfo(ElementType::F32).epsilon(), f64::from(f32::EPSILON));
/// assert_eq!(finfo(ElementType::F16).max, 65504.0);
/// ```
///
/// # Panics
///
/// If it is another type.
#[track_caller]
pub fn finfo(dtype: ElementType) -> Float {
    match dtype {
        F64 => Float { mantissa: 52, max: f64::MAX, tiny: f64::MIN_POSITIVE },
        F32 => Float { mantissa: 23, max: f64::from(f32::MAX), tiny: f64::from(f32::MIN_POSITIVE) },
        F16 => Float { mantissa: 10, max: 65504.0, tiny: 2f64.powi(-14) },
        BF16 => Float { mantissa: 7, max: f64::from(half::bf16::MAX), tiny: f64::from(f32::MIN_POSITIVE) },
        other => fail("finfo", format!("element type {other}; F16, BF16, F32 and F64 are possible")),
    }
}
