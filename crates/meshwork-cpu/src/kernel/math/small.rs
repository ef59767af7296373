//! Floats of one byte, to and from `f32` by arithmetic on their bits.

use meshwork_ir::{ElementType, float};

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Ty, UnaryOp, Val};

/// What a type looks like: bits of the mantissa, bias of the exponent, and the codes of what is not finite.
struct Shape {
    mantissa: u32,
    bias: i32,
    infinity: u64,
    has_infinity: bool,
    /// The code of NaN without its sign; the sign alone if there is no negative zero.
    nan: u64,
    largest: u64,
}

const SIGN: u64 = 0x80;

fn shape(elem: ElementType) -> Option<Shape> {
    let (mantissa, bias) = float::fields(elem)?;
    let (infinity, nan) = (float::encode(elem, f64::INFINITY), float::encode(elem, f64::NAN));
    let has_infinity = float::decode(elem, infinity).is_infinite();
    let largest = (0..SIGN).rev().find(|&code| float::decode(elem, code).is_finite())?;
    Some(Shape { mantissa, bias, infinity, has_infinity, nan: if nan == SIGN { SIGN } else { nan & !SIGN }, largest })
}

fn power(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

/// The number that the byte `code` stands for, as `f32`.
pub fn decode(b: &mut Builder<'_>, elem: ElementType, code: Val) -> Option<Val> {
    let shape = shape(elem)?;
    let place = 23 - shape.mantissa;
    let code = b.convert(Ty::U32, code);
    let rest = b.bits(Ty::U32, SIGN - 1);
    let magnitude = b.bin(BinaryOp::And, code, rest);
    // Normal numbers have the same fields further up; others are multiples of the least.
    let (shift, excess) = (b.bits(Ty::U32, place.into()), b.bits(Ty::U32, ((127 - shape.bias) as u64) << 23));
    let shifted = b.bin(BinaryOp::ShiftLeft, magnitude, shift);
    let normal = b.add(shifted, excess);
    let whole = b.cast(Ty::I32, magnitude);
    let whole = b.convert(Ty::F32, whole);
    let least = b.num(Ty::F32, power(1 - shape.bias - shape.mantissa as i32));
    let small = b.mul(whole, least);
    let small = b.cast(Ty::U32, small);
    let first = b.bits(Ty::U32, 1 << shape.mantissa);
    let is_small = b.cmp(Cmp::Lt, magnitude, first);
    let mut bits = b.select(is_small, small, normal);
    if shape.has_infinity {
        let (limit, infinite) = (b.bits(Ty::U32, shape.infinity), b.bits(Ty::U32, f32::INFINITY.to_bits().into()));
        let is_infinite = b.cmp(Cmp::Eq, magnitude, limit);
        bits = b.select(is_infinite, infinite, bits);
    }
    let nan = b.bits(Ty::U32, f32::NAN.to_bits().into());
    let is_nan = match (shape.nan, shape.has_infinity) {
        (SIGN, _) => {
            let alone = b.bits(Ty::U32, SIGN);
            b.cmp(Cmp::Eq, code, alone)
        }
        (_, true) => {
            let limit = b.bits(Ty::U32, shape.infinity);
            b.cmp(Cmp::Gt, magnitude, limit)
        }
        (code, false) => {
            let code = b.bits(Ty::U32, code);
            b.cmp(Cmp::Eq, magnitude, code)
        }
    };
    let bits = b.select(is_nan, nan, bits);
    let (sign, up) = (b.bits(Ty::U32, SIGN), b.bits(Ty::U32, 24));
    let sign = b.bin(BinaryOp::And, code, sign);
    let sign = b.bin(BinaryOp::ShiftLeft, sign, up);
    let bits = b.bin(BinaryOp::Or, bits, sign);
    Some(b.cast(Ty::F32, bits))
}

/// The byte nearest to the `f32` `x`, ties to even.
pub fn encode(b: &mut Builder<'_>, elem: ElementType, x: Val) -> Option<Val> {
    let shape = shape(elem)?;
    let place = 23 - shape.mantissa;
    let bits = b.cast(Ty::U32, x);
    let rest = b.bits(Ty::U32, (1 << 31) - 1);
    let magnitude = b.bin(BinaryOp::And, bits, rest);
    // Half of the last place, less one if what is kept is even.
    let (shift, one, half) =
        (b.bits(Ty::U32, place.into()), b.bits(Ty::U32, 1), b.bits(Ty::U32, (1 << (place - 1)) - 1));
    let odd = b.bin(BinaryOp::ShiftRightLogical, magnitude, shift);
    let odd = b.bin(BinaryOp::And, odd, one);
    let up = b.add(magnitude, half);
    let up = b.add(up, odd);
    let kept = b.bin(BinaryOp::ShiftRightLogical, up, shift);
    let excess = b.bits(Ty::U32, ((127 - shape.bias) as u64) << shape.mantissa);
    let normal = b.sub(kept, excess);
    // Below the normal numbers: multiples of the least, rounded as integers.
    let size = b.cast(Ty::F32, magnitude);
    let scale = b.num(Ty::F32, power(shape.bias - 1 + shape.mantissa as i32));
    let scaled = b.mul(size, scale);
    let whole = b.un(UnaryOp::RoundNearestEven, scaled);
    let small = b.convert(Ty::I32, whole);
    let small = b.cast(Ty::U32, small);
    let first = b.bits(Ty::U32, ((128 - shape.bias) as u64) << 23);
    let is_small = b.cmp(Cmp::Lt, magnitude, first);
    let code = b.select(is_small, small, normal);
    let (largest, beyond) = (b.bits(Ty::U32, shape.largest), b.bits(Ty::U32, shape.infinity & !SIGN));
    let is_more = b.cmp(Cmp::Gt, code, largest);
    // A sign may follow: what is beyond, without it.
    let beyond = if shape.nan == SIGN { b.bits(Ty::U32, SIGN) } else { beyond };
    let code = b.select(is_more, beyond, code);
    let (infinity, nan) = (b.bits(Ty::U32, f32::INFINITY.to_bits().into()), b.bits(Ty::U32, shape.nan));
    let is_nan = b.cmp(Cmp::Gt, magnitude, infinity);
    let code = b.select(is_nan, nan, code);
    let (top, down) = (b.bits(Ty::U32, SIGN), b.bits(Ty::U32, 24));
    let sign = b.bin(BinaryOp::ShiftRightLogical, bits, down);
    let sign = b.bin(BinaryOp::And, sign, top);
    let signed = b.bin(BinaryOp::Or, code, sign);
    let out = if shape.nan == SIGN {
        let zero = b.bits(Ty::U32, 0);
        let is_zero = b.cmp(Cmp::Eq, code, zero);
        b.select(is_zero, code, signed)
    } else {
        signed
    };
    Some(b.convert(Ty::U8, out))
}
