//! The remainder of floats: what is left of the size of one after the size of the other is taken away as often as it fits.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, Ty, UnaryOp, Val};
use super::{constant, copysign};

/// Up to how many times the divisor a number may be for its quotient to be exact as an integer, and right or one too many.
pub const fn times(ty: Ty) -> f64 {
    if matches!(ty, Ty::F32) { 4_194_304.0 } else { 1_125_899_906_842_624.0 }
}

/// Remainder with the sign of the dividend.
pub fn rem(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let ty = b.ty(x);
    let (zero, infinity) = (b.num(ty, 0.0), b.num(ty, f64::INFINITY));
    let (size, by) = (b.un(UnaryOp::Abs, x), b.un(UnaryOp::Abs, y));
    let quotient = b.div(size, by);
    let whole = b.un(UnaryOp::Floor, quotient);
    let minus = b.un(UnaryOp::Negate, whole);
    let left = b.fma(minus, by, size);
    if is_whole_power(b, y) {
        return copysign(b, left, x);
    }
    // The quotient may have been rounded up to the next whole number.
    let more = b.add(left, by);
    let over = b.cmp(Cmp::Lt, left, zero);
    let left = b.select(over, more, left);
    let all = b.cmp(Cmp::Eq, by, infinity);
    let left = b.select(all, size, left);
    let left = b.push(Op::FarApart(BinaryOp::Remainder, size, by, left));
    copysign(b, left, x)
}

/// Whether `y` is always the same power of two from one on, by which quotients are exact or whole anyway.
fn is_whole_power(b: &Builder<'_>, y: Val) -> bool {
    let Some(number) = constant(b, y) else { return false };
    (1.0..=1_048_576.0).contains(&number) && number.fract() == 0.0 && (number as u64).is_power_of_two()
}
