//! Logarithms of either float type, from that of positive normal numbers.

use crate::kernel::build::Builder;
use crate::kernel::ir::{Cmp, Ty, Val};

/// What differs between the types.
pub struct Logarithm {
    /// The type.
    pub ty: Ty,
    /// The least normal number.
    pub least: f64,
    /// Subnormal numbers are normal after multiplication with 2 to this power.
    pub places: i32,
    /// `ln x + correction` for positive normal x; the exponent of x counts `more` above what its bits say.
    pub normal: fn(&mut Builder<'_>, x: Val, more: Option<Val>, correction: Option<Val>) -> Val,
}

impl Logarithm {
    /// `ln x`.
    pub fn log(&self, b: &mut Builder<'_>, x: Val) -> Val {
        let (normal, more) = self.shifted_to_normal(b, x);
        let value = (self.normal)(b, normal, Some(more), None);
        self.special(b, x, value)
    }

    /// `x`, or a power of two times it where it is subnormal, and what that adds to its exponent.
    pub fn shifted_to_normal(&self, b: &mut Builder<'_>, x: Val) -> (Val, Val) {
        let (tiny, scale) = (b.num(self.ty, self.least), b.num(self.ty, 2f64.powi(self.places)));
        let (less, zero) = (b.num(self.ty, -f64::from(self.places)), b.num(self.ty, 0.0));
        let subnormal = b.cmp(Cmp::Lt, x, tiny);
        let larger = b.mul(x, scale);
        (b.select(subnormal, larger, x), b.select(subnormal, less, zero))
    }

    /// `ln(1 + x)`: what rounding `1 + x` lost is put back as its first-order effect.
    pub fn log1p(&self, b: &mut Builder<'_>, x: Val) -> Val {
        let (one, zero, infinity) = (b.num(self.ty, 1.0), b.num(self.ty, 0.0), b.num(self.ty, f64::INFINITY));
        let sum = b.add(one, x);
        let kept = b.sub(sum, one);
        let lost = b.sub(x, kept);
        // Above 1 it is part of the one that was lost.
        let back = b.sub(sum, x);
        let other = b.sub(one, back);
        let large = b.cmp(Cmp::Gt, x, one);
        let lost = b.select(large, other, lost);
        let correction = b.div(lost, sum);
        let usable = b.cmp(Cmp::Lt, x, infinity);
        let correction = b.select(usable, correction, zero);
        let value = (self.normal)(b, sum, None, Some(correction));
        let value = self.special(b, sum, value);
        let is_zero = b.cmp(Cmp::Eq, x, zero);
        b.select(is_zero, x, value)
    }

    /// `value` where x is positive and finite, else what the logarithm is there.
    fn special(&self, b: &mut Builder<'_>, x: Val, value: Val) -> Val {
        let (zero, infinity) = (b.num(self.ty, 0.0), b.num(self.ty, f64::INFINITY));
        let (least, nan) = (b.num(self.ty, f64::NEG_INFINITY), b.num(self.ty, f64::NAN));
        let finite = b.cmp(Cmp::Lt, x, infinity);
        let value = b.select(finite, value, x);
        let is_zero = b.cmp(Cmp::Eq, x, zero);
        let otherwise = b.select(is_zero, least, nan);
        let positive = b.cmp(Cmp::Gt, x, zero);
        b.select(positive, value, otherwise)
    }
}
