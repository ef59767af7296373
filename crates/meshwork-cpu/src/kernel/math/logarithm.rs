//! Logarithms of either float type, from that of positive normal numbers.

use crate::kernel::build::Builder;
use crate::kernel::ir::{BinaryOp, Cmp, Ty, Val};

/// What differs between the types.
pub struct Logarithm {
    /// The type.
    pub ty: Ty,
    /// The least normal number.
    pub least: f64,
    /// Subnormal numbers are normal after multiplication with 2 to this power.
    pub places: i32,
    /// `ln(x + lost)` for positive normal x and much smaller `lost`; the exponent of x counts `more` above what its bits say.
    pub normal: fn(&mut Builder<'_>, x: Val, more: Option<Val>, lost: Option<Val>) -> Val,
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

    /// `ln(1 + x)`: what rounding `1 + x` lost is added to what is left of it without its power of two.
    pub fn log1p(&self, b: &mut Builder<'_>, x: Val) -> Val {
        let (one, zero) = (b.num(self.ty, 1.0), b.num(self.ty, 0.0));
        let sum = b.add(x, one);
        let (larger, smaller) = (b.bin(BinaryOp::Maximum, x, one), b.bin(BinaryOp::Minimum, x, one));
        let kept = b.sub(sum, larger);
        let lost = b.sub(smaller, kept);
        let value = (self.normal)(b, sum, None, Some(lost));
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
