//! Integers: division by way of floats that hold them exactly or by reciprocals, leading zeros, shifts of narrow numbers.
//!
//! The quotient of numbers below 2^16 in `f32`, or below 2^32 in `f64`, is nearer to the next integer than rounding
//! can bridge only if it is that integer, so cutting it off is exact. A number that is always the same divides by shifts if it is a
//! power of two, and by the upper half of a product with its reciprocal if not.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, Ty, UnaryOp, Val};

/// Quotient toward zero; all bits set where the divisor is zero.
pub fn div(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let ty = b.ty(x);
    if let Some(q) = fixed_quotient(b, x, y) {
        return q;
    }
    if ty.size() == 8 {
        return b.bin(BinaryOp::Divide, x, y);
    }
    let q = quotient(b, x, y);
    let ones = b.bits(ty, u64::MAX >> (64 - 8 * ty.size()));
    let zero = b.bits(ty, 0);
    let by_zero = b.cmp(Cmp::Eq, y, zero);
    b.select(by_zero, ones, q)
}

/// Remainder with the sign of the dividend, which is itself where the divisor is zero.
pub fn rem(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    if let Some((x, y)) = as_words(b, x, y) {
        let rest = rem(b, x, y);
        return b.convert(if b.ty(rest).is_signed() { Ty::I8 } else { Ty::U8 }, rest);
    }
    if let Some(q) = fixed_quotient(b, x, y) {
        let back = b.bin(BinaryOp::Multiply, q, y);
        return b.sub(x, back);
    }
    if b.ty(x).size() == 8 {
        return b.bin(BinaryOp::Remainder, x, y);
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

/// `y`, if it is one number above one.
fn divisor(b: &Builder<'_>, y: Val) -> Option<u64> {
    let Op::Const(ty, bits) = b.ops[usize::from(y)] else { return None };
    let most = (u64::MAX >> (64 - 8 * ty.size())) >> u32::from(ty.is_signed());
    (2..=most).contains(&bits).then_some(bits)
}

/// Whether `y` is one number above one, by which no division is needed.
pub fn is_fixed(b: &Builder<'_>, y: Val) -> bool {
    divisor(b, y).is_some()
}

/// Bytes and a divisor of them, no power of two, as 16 bits: products of bytes take as long as several of these.
fn as_words(b: &mut Builder<'_>, x: Val, y: Val) -> Option<(Val, Val)> {
    let by = divisor(b, y).filter(|by| b.ty(x).size() == 1 && !by.is_power_of_two())?;
    let wide = if b.ty(x).is_signed() { Ty::I16 } else { Ty::U16 };
    Some((b.convert(wide, x), b.bits(wide, by)))
}

/// The quotient by a number above one that is always the same.
fn fixed_quotient(b: &mut Builder<'_>, x: Val, y: Val) -> Option<Val> {
    let by = divisor(b, y)?;
    let ty = b.ty(x);
    if by.is_power_of_two() {
        return Some(halved(b, x, by.trailing_zeros()));
    }
    Some(match (ty.size(), ty.is_signed()) {
        (1, _) => of_bytes(b, x, by),
        (8, true) => {
            // There is no upper half of products with signs.
            let all = b.bits(ty, 63);
            let sign = b.bin(BinaryOp::ShiftRightArithmetic, x, all);
            let flipped = b.bin(BinaryOp::Xor, x, sign);
            let magnitude = b.sub(flipped, sign);
            let magnitude = b.cast(Ty::U64, magnitude);
            let quotient = by_reciprocal(b, magnitude, by);
            let quotient = b.cast(ty, quotient);
            let flipped = b.bin(BinaryOp::Xor, quotient, sign);
            b.sub(flipped, sign)
        }
        _ => by_reciprocal(b, x, by),
    })
}

/// The quotient by two to a power.
fn halved(b: &mut Builder<'_>, x: Val, power: u32) -> Val {
    let ty = b.ty(x);
    let shift = b.bits(ty, power.into());
    if !ty.is_signed() {
        return b.bin(BinaryOp::ShiftRightLogical, x, shift);
    }
    // Negative numbers are rounded up: toward zero.
    let (all, less) = (b.bits(ty, 8 * ty.size() as u64 - 1), b.bits(ty, (1 << power) - 1));
    let sign = b.bin(BinaryOp::ShiftRightArithmetic, x, all);
    let up = b.bin(BinaryOp::And, sign, less);
    let sum = b.add(x, up);
    b.bin(BinaryOp::ShiftRightArithmetic, sum, shift)
}

/// The quotient of numbers of 8 bits by `by`, no power of two: a reciprocal of 16 bits is exact enough.
fn of_bytes(b: &mut Builder<'_>, x: Val, by: u64) -> Val {
    let ty = b.ty(x);
    let wide = if ty.is_signed() { Ty::I16 } else { Ty::U16 };
    let (x, factor) = (b.convert(wide, x), b.bits(wide, (1 << 16) / by + 1));
    let mut quotient = b.bin(BinaryOp::Mulhi, x, factor);
    if ty.is_signed() {
        let all = b.bits(wide, 15);
        let sign = b.bin(BinaryOp::ShiftRightArithmetic, x, all);
        quotient = b.sub(quotient, sign);
    }
    b.convert(ty, quotient)
}

/// The quotient of numbers of 16 or 32 bits, or 64 without sign, by `by`, no power of two, as Granlund and Montgomery compute it.
fn by_reciprocal(b: &mut Builder<'_>, x: Val, by: u64) -> Val {
    let ty = b.ty(x);
    let bits = 8 * ty.size() as u32;
    let (d, places) = (u128::from(by), u64::BITS - (by - 1).leading_zeros());
    if ty.is_signed() {
        // The reciprocal is above one half: less one, it is a negative number.
        let factor = ((1u128 << (bits - 1 + places)) / d + 1) & ((1 << bits) - 1);
        let (factor, all) = (b.bits(ty, factor as u64), b.bits(ty, u64::from(bits) - 1));
        let shift = b.bits(ty, u64::from(places) - 1);
        let upper = b.bin(BinaryOp::Mulhi, x, factor);
        let sum = b.add(x, upper);
        let quotient = b.bin(BinaryOp::ShiftRightArithmetic, sum, shift);
        let sign = b.bin(BinaryOp::ShiftRightArithmetic, x, all);
        return b.sub(quotient, sign);
    }
    if let Some((before, factor, after)) = exact_reciprocal(bits, by) {
        let (before, factor, after) = (b.bits(ty, before), b.bits(ty, factor), b.bits(ty, after));
        let x = b.bin(BinaryOp::ShiftRightLogical, x, before);
        let upper = b.bin(BinaryOp::Mulhi, x, factor);
        return b.bin(BinaryOp::ShiftRightLogical, upper, after);
    }
    let factor = ((1u128 << bits) * ((1u128 << places) - d)) / d + 1;
    let (factor, one, shift) = (b.bits(ty, factor as u64), b.bits(ty, 1), b.bits(ty, u64::from(places) - 1));
    let upper = b.bin(BinaryOp::Mulhi, x, factor);
    let rest = b.sub(x, upper);
    let half = b.bin(BinaryOp::ShiftRightLogical, rest, one);
    let sum = b.add(upper, half);
    b.bin(BinaryOp::ShiftRightLogical, sum, shift)
}

/// Places to shift a number of so many bits to the right, a factor of as many bits, and places to shift the upper half of their product
/// to the right: what is left is the quotient by `by`, no power of two. `None` where the factor needs one bit more, as for 7.
fn exact_reciprocal(bits: u32, by: u64) -> Option<(u64, u64, u64)> {
    let found = |before: u32| {
        let odd = u128::from(by >> before);
        // The factor is too large by so much of `1 / odd`, which a number of the bits that are left may not carry to the next integer.
        let excess = |after: u32| odd - (1u128 << (bits + after)) % odd;
        let after = (0..bits).find(|&after| excess(after) <= 1 << (after + before))?;
        let factor = u64::try_from((1u128 << (bits + after)) / odd + 1).ok()?;
        (u64::BITS - factor.leading_zeros() <= bits).then_some((before.into(), factor, after.into()))
    };
    found(0).or_else(|| found(by.trailing_zeros()))
}

/// The quotient rounded down, of numbers with a sign by one number above one that is always the same.
pub fn floor_quotient(b: &mut Builder<'_>, x: Val, y: Val) -> Option<Val> {
    let ty = b.ty(x);
    let by = divisor(b, y).filter(|_| ty.is_signed())?;
    if by.is_power_of_two() {
        let shift = b.bits(ty, by.trailing_zeros().into());
        return Some(b.bin(BinaryOp::ShiftRightArithmetic, x, shift));
    }
    if ty.size() == 1 {
        let (x, y) = (b.convert(Ty::I16, x), b.bits(Ty::I16, by));
        let quotient = floor_quotient(b, x, y)?;
        return Some(b.convert(ty, quotient));
    }
    // Of a negative number it is the complement of its complement's, which is not negative and so one bit shorter: the reciprocal
    // fits the bits of an element.
    let (bits, unsigned) = match ty.size() {
        8 => (64, Ty::U64),
        4 => (32, Ty::U32),
        _ => (16, Ty::U16),
    };
    let places = u64::BITS - (by - 1).leading_zeros();
    let all = b.bits(ty, bits - 1);
    // A quotient of this kind has the sign of what was divided.
    let (sign, magnitude) = known_sign(b, x).unwrap_or_else(|| {
        let sign = b.bin(BinaryOp::ShiftRightArithmetic, x, all);
        (sign, b.bin(BinaryOp::Xor, x, sign))
    });
    let magnitude = b.cast(unsigned, magnitude);
    let factor = (1u128 << (bits - 1 + u64::from(places))) / u128::from(by) + 1;
    let factor = b.bits(unsigned, factor as u64);
    let upper = b.bin(BinaryOp::Mulhi, magnitude, factor);
    let shift = b.bits(unsigned, u64::from(places) - 1);
    let quotient = b.bin(BinaryOp::ShiftRightLogical, upper, shift);
    let quotient = b.cast(ty, quotient);
    Some(b.bin(BinaryOp::Xor, quotient, sign))
}

/// The sign that [`floor_quotient`] has put on `x`, in all bits, and what it has put it on.
fn known_sign(b: &Builder<'_>, x: Val) -> Option<(Val, Val)> {
    let Op::Binary(BinaryOp::Xor, quotient, sign) = b.ops[usize::from(x)] else { return None };
    let Op::Bitcast(_, shifted) = b.ops[usize::from(quotient)] else { return None };
    let (Op::Binary(BinaryOp::ShiftRightLogical, _, places), Op::Binary(BinaryOp::ShiftRightArithmetic, _, all)) =
        (b.ops[usize::from(shifted)], b.ops[usize::from(sign)])
    else {
        return None;
    };
    let is_constant = |v: Val, least: u64| matches!(b.ops[usize::from(v)], Op::Const(_, bits) if bits >= least);
    let top = 8 * b.ty(x).size() as u64 - 1;
    (is_constant(places, 1) && is_constant(all, top)).then_some((sign, quotient))
}

/// The remainder of that: with the sign of the divisor.
pub fn floor_remainder(b: &mut Builder<'_>, x: Val, y: Val) -> Option<Val> {
    let ty = b.ty(x);
    let by = divisor(b, y).filter(|_| ty.is_signed())?;
    if by.is_power_of_two() {
        let below = b.bits(ty, by - 1);
        return Some(b.bin(BinaryOp::And, x, below));
    }
    if let Some((x, y)) = as_words(b, x, y) {
        let rest = floor_remainder(b, x, y)?;
        return Some(b.convert(ty, rest));
    }
    let quotient = floor_quotient(b, x, y)?;
    let back = b.bin(BinaryOp::Multiply, quotient, y);
    Some(b.sub(x, back))
}

/// Zeros above the topmost one.
pub fn leading_zeros(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let zeros = match ty.size() {
        8 => {
            let wide = b.cast(Ty::U64, x);
            let (places, zero, more) = (b.bits(Ty::U64, 32), b.bits(Ty::U32, 0), b.bits(Ty::U32, 32));
            let upper = b.bin(BinaryOp::ShiftRightLogical, wide, places);
            let (upper, lower) = (b.convert(Ty::U32, upper), b.convert(Ty::U32, wide));
            let none = b.cmp(Cmp::Eq, upper, zero);
            let (upper, lower) = (zeros_of_words(b, upper), zeros_of_words(b, lower));
            let lower = b.add(lower, more);
            b.select(none, lower, upper)
        }
        4 => {
            let word = b.cast(Ty::U32, x);
            zeros_of_words(b, word)
        }
        size => {
            let word = unsigned(b, x);
            let (zeros, less) = (zeros_of_words(b, word), b.bits(Ty::U32, 32 - 8 * size as u64));
            b.sub(zeros, less)
        }
    };
    b.convert(ty, zeros)
}

/// Of numbers of 32 bits, by their exponent as floats. Where a one follows another it is cleared, so that nothing rounds up to
/// the next power of two.
fn zeros_of_words(b: &mut Builder<'_>, x: Val) -> Val {
    let one = b.bits(Ty::U32, 1);
    let behind = b.bin(BinaryOp::ShiftRightLogical, x, one);
    let others = b.un(UnaryOp::Not, behind);
    let few = b.bin(BinaryOp::And, x, others);
    let whole = b.cast(Ty::I32, few);
    let number = b.convert(Ty::F32, whole);
    let bits = b.cast(Ty::U32, number);
    let (place, field, most, top) =
        (b.bits(Ty::U32, 23), b.bits(Ty::U32, 0xFF), b.bits(Ty::U32, 32), b.bits(Ty::U32, 158));
    let exponent = b.bin(BinaryOp::ShiftRightLogical, bits, place);
    let exponent = b.bin(BinaryOp::And, exponent, field);
    let zeros = b.sub(top, exponent);
    let zeros = b.bin(BinaryOp::Minimum, zeros, most);
    // With the topmost bit, the float is that of a negative number.
    let (none, zero) = (b.bits(Ty::I32, 0), b.bits(Ty::U32, 0));
    let is_negative = b.cmp(Cmp::Lt, whole, none);
    b.select(is_negative, zero, zeros)
}

/// A number of 8 or 16 bits as 32 bits without sign.
fn unsigned(b: &mut Builder<'_>, x: Val) -> Val {
    let narrow = if b.ty(x).size() == 1 { Ty::U8 } else { Ty::U16 };
    let bits = b.cast(narrow, x);
    b.convert(Ty::U32, bits)
}

/// A shift of numbers of 8 or 16 bits, as 32 bits unless it is always by as much.
pub fn shift(b: &mut Builder<'_>, f: BinaryOp, x: Val, y: Val) -> Val {
    let ty = b.ty(x);
    if matches!(b.ops[usize::from(y)], Op::Const(..)) {
        return b.bin(f, x, y);
    }
    let by = unsigned(b, y);
    let (wide, by) = if f == BinaryOp::ShiftRightArithmetic {
        let signed = b.cast(if ty.size() == 1 { Ty::I8 } else { Ty::I16 }, x);
        (b.convert(Ty::I32, signed), b.cast(Ty::I32, by))
    } else {
        (unsigned(b, x), by)
    };
    let shifted = b.bin(f, wide, by);
    b.convert(ty, shifted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers around multiples of a divisor, and the largest ones.
    #[test]
    fn reciprocals_are_exact() {
        for bits in [16, 32, 64] {
            let most = u64::MAX >> (64 - bits);
            let small = 3..2000u64;
            for by in small.chain([65521, 65535, 998244353, 4294967291, most / 2, most - 1, most]) {
                if by > most || by.is_power_of_two() {
                    continue;
                }
                let Some((before, factor, after)) = exact_reciprocal(bits, by) else { continue };
                assert!(factor <= most);
                let multiples = [0, 1, most / by / 2, most / by - 1, most / by].map(|q| q * by);
                let near = multiples.iter().flat_map(|&m| [m.saturating_sub(1), m, m.saturating_add(1).min(most)]);
                for x in near.chain([most - 1, most, most / 2, most / 3]) {
                    let upper = (u128::from(x >> before) * u128::from(factor)) >> bits;
                    assert_eq!((upper >> after) as u64, x / by, "{x} / {by} of {bits} bits");
                }
            }
        }
        assert_eq!(exact_reciprocal(32, 65521), Some((0, 0x8007_8071, 15)));
        assert_eq!(exact_reciprocal(32, 7), None);
        assert_eq!(exact_reciprocal(16, 100).map(|found| found.0), Some(2));
    }
}
