//! `stablehlo.convert` between any two element types.
//!
//! Where the specification leaves the result open: integers wrap to a narrower width; floats convert to integers
//! by truncation, then saturation, and NaN becomes zero; anything that is not zero is `true`.

use super::{Scalar, round, wrap_signed, wrap_unsigned};
use crate::{ElementClass, ElementType};

/// `value` as a value of type `to`.
pub(super) fn convert(value: Scalar, to: ElementType) -> Scalar {
    match to.class() {
        ElementClass::Bool => Scalar::Bool(value.as_bool()),
        ElementClass::Signed => Scalar::Int(match value {
            Scalar::Float(v) | Scalar::Complex(v, _) => {
                let max = i64::MAX >> (64 - to.bits());
                (v as i64).clamp(-max - 1, max)
            }
            other => wrap_signed(other.as_i64(), to.bits()),
        }),
        ElementClass::Unsigned => Scalar::UInt(match value {
            Scalar::Float(v) | Scalar::Complex(v, _) => (v as u64).min(u64::MAX >> (64 - to.bits())),
            other => wrap_unsigned(other.as_i64() as u64, to.bits()),
        }),
        ElementClass::Float => Scalar::Float(to_float(value, to)),
        ElementClass::Complex => match value {
            Scalar::Complex(re, im) => Scalar::Complex(round(to, re), round(to, im)),
            other => Scalar::Complex(to_float(other, to.real_part()), 0.0),
        },
    }
}

fn to_float(value: Scalar, to: ElementType) -> f64 {
    match value {
        Scalar::Int(v) => {
            let magnitude = integer_to_float(v.unsigned_abs(), to);
            round(to, if v < 0 { -magnitude } else { magnitude })
        }
        Scalar::UInt(v) => round(to, integer_to_float(v, to)),
        other => round(to, other.as_f64()),
    }
}

/// An `f64` that rounds to `to` as the integer `n` itself would: wide integers are cut to 53 bits with the lost
/// part remembered in the last bit, so that no tie is made up on the way.
fn integer_to_float(n: u64, to: ElementType) -> f64 {
    let excess = 11u32.saturating_sub(n.leading_zeros());
    if excess == 0 || to == ElementType::F64 {
        return n as f64;
    }
    let lost = n & ((1 << excess) - 1) != 0;
    ((n >> excess | u64::from(lost)) << excess) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    fn f(v: f64, to: ElementType) -> Scalar {
        convert(Scalar::Float(v), to)
    }

    #[test]
    fn float_to_integer_saturates() {
        assert_eq!(f(300.7, UI8), Scalar::UInt(255));
        assert_eq!(f(-3.9, UI8), Scalar::UInt(0));
        assert_eq!(f(-3.9, I8), Scalar::Int(-3));
        assert_eq!(f(1e30, I32), Scalar::Int(i64::from(i32::MAX)));
        assert_eq!(f(-1e30, I64), Scalar::Int(i64::MIN));
        assert_eq!(f(f64::INFINITY, UI64), Scalar::UInt(u64::MAX));
        assert_eq!(f(f64::NAN, I16), Scalar::Int(0));
        assert_eq!(f(9.0, I4), Scalar::Int(7));
        assert_eq!(f(f64::NAN, I1), Scalar::Bool(true));
        assert_eq!(f(-0.0, I1), Scalar::Bool(false));
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(convert(Scalar::Int(300), UI8), Scalar::UInt(44));
        assert_eq!(convert(Scalar::Int(-1), UI64), Scalar::UInt(u64::MAX));
        assert_eq!(convert(Scalar::UInt(u64::MAX), I8), Scalar::Int(-1));
        assert_eq!(convert(Scalar::UInt(9), I4), Scalar::Int(-7));
    }

    #[test]
    fn integer_to_float_rounds_once() {
        for v in [i64::MAX, i64::MIN, (1 << 60) + (1 << 36) + 1, -((1 << 62) + (1 << 38) + 1), 16777217, -16777219] {
            assert_eq!(convert(Scalar::Int(v), F32), Scalar::Float(f64::from(v as f32)), "{v}");
            assert_eq!(convert(Scalar::Int(v), F64), Scalar::Float(v as f64), "{v}");
        }
        // One above the middle of two bf16 numbers, where the f64 nearest to it is that middle.
        let tie = (1u64 << 62) + (1 << 54);
        assert_eq!(convert(Scalar::UInt(tie + 1), BF16).as_f64(), (tie + (1 << 54)) as f64);
        assert_eq!(convert(Scalar::UInt(tie), BF16).as_f64(), (1u64 << 62) as f64);
    }

    #[test]
    fn complex_keeps_what_fits() {
        assert_eq!(convert(Scalar::Complex(1.5, 2.0), F32), Scalar::Float(1.5));
        assert_eq!(convert(Scalar::Int(-2), C128), Scalar::Complex(-2.0, 0.0));
        assert_eq!(convert(Scalar::Complex(0.1, 1.0), C64), Scalar::Complex(f64::from(0.1f32), 1.0));
        assert_eq!(convert(Scalar::Complex(0.0, 1.0), I1), Scalar::Bool(false));
    }
}
