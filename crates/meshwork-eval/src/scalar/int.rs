//! Integer operations on 64-bit carriers; `bits` is the width of the element type.
//!
//! Arguments are values of the type; results may exceed it and are wrapped by the caller. Where the
//! specification leaves the result open (division by zero, overflow of a quotient, wide shifts) these follow XLA:
//! a quotient by zero has all bits set, a remainder by zero is the dividend, and bits shifted past the end are gone.

use meshwork_ir::scalar::wrap_signed;

/// Quotient rounded toward zero.
pub(super) fn div_signed(a: i64, b: i64) -> i64 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// Quotient rounded down.
pub(super) fn div_unsigned(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(u64::MAX)
}

/// Remainder with the sign of the dividend.
pub(super) fn rem_signed(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

/// Remainder.
pub(super) fn rem_unsigned(a: u64, b: u64) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

/// `a` to the power of `b` by squaring, modulo 2^64 (and so modulo any narrower width). Negative powers are
/// zero except those of 1 and -1.
pub(super) fn pow_signed(a: i64, b: i64) -> i64 {
    match (a, b) {
        (1, _) => 1,
        (-1, _) => 1 - 2 * (b & 1),
        (_, ..0) => 0,
        _ => pow_unsigned(a as u64, b as u64) as i64,
    }
}

/// `a` to the power of `b` by squaring, modulo 2^64.
pub(super) fn pow_unsigned(mut a: u64, mut b: u64) -> u64 {
    let mut result = 1u64;
    while b != 0 {
        if b & 1 == 1 {
            result = result.wrapping_mul(a);
        }
        a = a.wrapping_mul(a);
        b >>= 1;
    }
    result
}

/// `a << b`; zero when `b`, read as unsigned, is at least the width.
pub(super) fn shift_left(a: u64, b: u64, bits: usize) -> u64 {
    if b < bits as u64 { a << b } else { 0 }
}

/// `a >> b` filled with zeros; `a` holds no bits above the width.
pub(super) fn shift_right_logical(a: u64, b: u64, bits: usize) -> u64 {
    if b < bits as u64 { a >> b } else { 0 }
}

/// `a >> b` filled with the top bit of the width.
pub(super) fn shift_right_arithmetic(a: u64, b: u64, bits: usize) -> u64 {
    (wrap_signed(a as i64, bits) >> b.min(bits as u64 - 1)) as u64
}

#[cfg(test)]
mod tests {
    use super::super::{ScalarOp, apply};
    use meshwork_ir::Scalar;
    use meshwork_ir::op::{BinaryOp, UnaryOp};
    use meshwork_ir::{ElementType, OpKind};
    use proptest::prelude::*;

    const WIDTHS: [ElementType; 13] = {
        use ElementType::*;
        [I2, I4, I8, I16, I32, I64, Index, UI2, UI4, UI8, UI16, UI32, UI64]
    };

    /// The value modulo 2^bits, in the range of the type.
    fn wrap(elem: ElementType, v: i128) -> i128 {
        let m = v.rem_euclid(1 << elem.bits());
        let top = elem.class() == meshwork_ir::ElementClass::Signed && m >> (elem.bits() - 1) == 1;
        if top { m - (1 << elem.bits()) } else { m }
    }

    fn scalar(elem: ElementType, v: i128) -> Scalar {
        match elem.class() {
            meshwork_ir::ElementClass::Signed => Scalar::Int(v as i64),
            _ => Scalar::UInt(v as u64),
        }
    }

    fn run(kind: OpKind, elem: ElementType, args: &[i128]) -> i128 {
        let op = ScalarOp::new(kind, elem, elem).unwrap();
        let args: Vec<Scalar> = args.iter().map(|&v| scalar(elem, v)).collect();
        match apply(&op, &args) {
            Scalar::Int(v) => i128::from(v),
            Scalar::UInt(v) => i128::from(v),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn agree_with_wide_arithmetic(which in 0..WIDTHS.len(), a: i64, b: i64, near in -3i64..20) {
            let elem = WIDTHS[which];
            let bits = elem.bits() as i128;
            // Small second operands exercise shifts, powers and division by zero.
            for b in [b, near] {
                let (a, b) = (wrap(elem, a.into()), wrap(elem, b.into()));
                let pattern = |v: i128| v.rem_euclid(1i128 << bits);
                let expect = |kind, want: i128| {
                    prop_assert_eq!(run(kind, elem, &[a, b]), wrap(elem, want), "{:?} {} {} {}", kind, elem, a, b);
                    Ok(())
                };
                expect(OpKind::Binary(BinaryOp::Add), a + b)?;
                expect(OpKind::Binary(BinaryOp::Subtract), a - b)?;
                expect(OpKind::Binary(BinaryOp::Multiply), wrap(elem, a).wrapping_mul(b))?;
                expect(OpKind::Binary(BinaryOp::Divide), if b == 0 { -1 } else { a / b })?;
                expect(OpKind::Binary(BinaryOp::Remainder), if b == 0 { a } else { a % b })?;
                expect(OpKind::Binary(BinaryOp::Maximum), a.max(b))?;
                expect(OpKind::Binary(BinaryOp::Minimum), a.min(b))?;
                expect(OpKind::Binary(BinaryOp::And), a & b)?;
                expect(OpKind::Binary(BinaryOp::Or), a | b)?;
                expect(OpKind::Binary(BinaryOp::Xor), a ^ b)?;
                // The product of two unsigned 64-bit numbers does not fit an i128.
                let high = if a < 0 || b < 0 { (a * b) >> bits } else { ((a as u128 * b as u128) >> bits) as i128 };
                expect(OpKind::Binary(BinaryOp::Mulhi), high)?;
                let amount = pattern(b).min(bits);
                expect(OpKind::Binary(BinaryOp::ShiftLeft), if amount == bits { 0 } else { pattern(a) << amount })?;
                expect(OpKind::Binary(BinaryOp::ShiftRightLogical), pattern(a) >> amount)?;
                let signed = pattern(a) - if pattern(a) >> (bits - 1) == 1 { 1 << bits } else { 0 };
                expect(OpKind::Binary(BinaryOp::ShiftRightArithmetic), signed >> amount)?;
                prop_assert_eq!(run(OpKind::Unary(UnaryOp::Negate), elem, &[a]), wrap(elem, -a));
                prop_assert_eq!(run(OpKind::Unary(UnaryOp::Abs), elem, &[a]), wrap(elem, a.abs()));
                prop_assert_eq!(run(OpKind::Unary(UnaryOp::Not), elem, &[a]), wrap(elem, !a));
                prop_assert_eq!(run(OpKind::Unary(UnaryOp::Sign), elem, &[a]), a.signum());
                prop_assert_eq!(run(OpKind::Unary(UnaryOp::Popcnt), elem, &[a]), wrap(elem, pattern(a).count_ones().into()));
                let zeros = bits - (128 - i128::from(pattern(a).leading_zeros()));
                prop_assert_eq!(run(OpKind::Unary(UnaryOp::CountLeadingZeros), elem, &[a]), wrap(elem, zeros));
            }
        }

        #[test]
        fn powers_agree_with_repeated_products(a: i64, b in 0i64..40) {
            let mut want = 1i128;
            for _ in 0..b {
                want = wrap(ElementType::I32, want * i128::from(a as i32));
            }
            prop_assert_eq!(run(OpKind::Binary(BinaryOp::Power), ElementType::I32, &[i128::from(a as i32), b.into()]), want);
        }
    }

    #[test]
    fn negative_powers() {
        let pow = |a, b| run(OpKind::Binary(BinaryOp::Power), ElementType::I8, &[a, b]);
        assert_eq!((pow(1, -5), pow(-1, -5), pow(-1, -4), pow(2, -1), pow(0, -1), pow(0, 0)), (1, -1, 1, 0, 0, 1));
    }
}
