//! Division of integers of up to 32 bits by way of floats that hold them exactly.
//!
//! The quotient of numbers below 2^16 in `f32`, or below 2^32 in `f64`, is nearer to the next integer than rounding
//! can bridge only if it is that integer, so cutting it off is exact.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Ty, Val};

/// Quotient toward zero; all bits set where the divisor is zero.
pub fn div(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let ty = b.ty(x);
    let q = quotient(b, x, y);
    let ones = b.bits(ty, u64::MAX >> (64 - 8 * ty.size()));
    let zero = b.bits(ty, 0);
    let by_zero = b.cmp(Cmp::Eq, y, zero);
    b.select(by_zero, ones, q)
}

/// Remainder with the sign of the dividend, which is itself where the divisor is zero.
pub fn rem(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let q = quotient(b, x, y);
    let back = b.bin(BinaryOp::Multiply, q, y);
    let rest = b.sub(x, back);
    let zero = b.bits(b.ty(x), 0);
    let by_zero = b.cmp(Cmp::Eq, y, zero);
    b.select(by_zero, x, rest)
}

/// The quotient where the divisor is not zero.
fn quotient(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let ty = b.ty(x);
    let float = if ty.size() < 4 { Ty::F32 } else { Ty::F64 };
    let (wide_x, wide_y) = (b.convert(float, x), b.convert(float, y));
    let q = b.div(wide_x, wide_y);
    let whole = b.convert(ty, q);
    if !ty.is_signed() {
        return whole;
    }
    // The least number divided by -1 wraps; the quotient has saturated.
    let minus_one = b.bits(ty, u64::MAX >> (64 - 8 * ty.size()));
    let zero = b.bits(ty, 0);
    let negated = b.sub(zero, x);
    let by_minus_one = b.cmp(Cmp::Eq, y, minus_one);
    b.select(by_minus_one, negated, whole)
}
