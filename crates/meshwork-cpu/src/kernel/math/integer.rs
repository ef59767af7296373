//! Division of integers of up to 32 bits by way of floats that hold them exactly.
//!
//! The quotient of numbers below 2^16 in `f32`, or below 2^32 in `f64`, is nearer to the next integer than rounding
//! can bridge only if it is that integer, so cutting it off is exact. A number that is always the same divides by shifts if it is a
//! power of two, and by its reciprocal if not: `(x + ½)/d` is at least `½/d` away from an integer, which is far more than
//! rounding takes.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, Ty, Val};

/// Quotient toward zero; all bits set where the divisor is zero.
pub fn div(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let ty = b.ty(x);
    if let Some(by) = divisor(b, y) {
        return fixed_quotient(b, x, by);
    }
    let q = quotient(b, x, y);
    let ones = b.bits(ty, u64::MAX >> (64 - 8 * ty.size()));
    let zero = b.bits(ty, 0);
    let by_zero = b.cmp(Cmp::Eq, y, zero);
    b.select(by_zero, ones, q)
}

/// Remainder with the sign of the dividend, which is itself where the divisor is zero.
pub fn rem(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    if let Some(by) = divisor(b, y) {
        let q = fixed_quotient(b, x, by);
        let back = b.bin(BinaryOp::Multiply, q, y);
        return b.sub(x, back);
    }
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

/// `y`, if it is one number above one, of 32 bits.
fn divisor(b: &Builder<'_>, y: Val) -> Option<u32> {
    let Op::Const(ty @ (Ty::I32 | Ty::U32), bits) = b.ops[usize::from(y)] else { return None };
    let most = if ty == Ty::I32 { i32::MAX as u64 } else { u64::from(u32::MAX) };
    (2..=most).contains(&bits).then_some(bits as u32)
}

/// The quotient by a number above one.
fn fixed_quotient(b: &mut Builder<'_>, x: Val, by: u32) -> Val {
    let ty = b.ty(x);
    let signed = ty == Ty::I32;
    if by.is_power_of_two() {
        let shift = b.bits(ty, by.trailing_zeros().into());
        if !signed {
            return b.bin(BinaryOp::ShiftRightLogical, x, shift);
        }
        // Negative numbers are rounded up: toward zero.
        let (all, less) = (b.bits(ty, 31), b.bits(ty, u64::from(by - 1)));
        let sign = b.bin(BinaryOp::ShiftRightArithmetic, x, all);
        let up = b.bin(BinaryOp::And, sign, less);
        let sum = b.add(x, up);
        return b.bin(BinaryOp::ShiftRightArithmetic, sum, shift);
    }
    let (wide, half) = (b.convert(Ty::F64, x), b.num(Ty::F64, 0.5));
    let half = if signed { super::copysign(b, half, wide) } else { half };
    let (middle, over) = (b.add(wide, half), b.num(Ty::F64, 1.0 / f64::from(by)));
    let quotient = b.mul(middle, over);
    b.convert(ty, quotient)
}
