//! Integer operations on 64-bit carriers; `bits` is the width of the element type.
//!
//! Arguments are values of the type; results may exceed it and are wrapped by the caller. Where the
//! specification leaves the result open (division by zero, overflow of a quotient, wide shifts) these follow XLA:
//! a quotient by zero has all bits set, a remainder by zero is the dividend, and bits shifted past the end are gone.

/// Quotient rounded toward zero.
pub(super) fn div_signed(a: i64, b: i64, _bits: usize) -> i64 {
    if b == 0 { -1 } else { a.wrapping_div(b) }
}

/// Quotient rounded down.
pub(super) fn div_unsigned(a: u64, b: u64, _bits: usize) -> u64 {
    a.checked_div(b).unwrap_or(u64::MAX)
}

/// Remainder with the sign of the dividend.
pub(super) fn rem_signed(a: i64, b: i64, _bits: usize) -> i64 {
    if b == 0 { a } else { a.wrapping_rem(b) }
}

/// Remainder.
pub(super) fn rem_unsigned(a: u64, b: u64, _bits: usize) -> u64 {
    a.checked_rem(b).unwrap_or(a)
}

/// `a` to the power of `b` by squaring, modulo 2^64 (and so modulo any narrower width). Negative powers are
/// zero except those of 1 and -1.
pub(super) fn pow_signed(a: i64, b: i64, _bits: usize) -> i64 {
    match (a, b) {
        (1, _) => 1,
        (-1, _) => 1 - 2 * (b & 1),
        (_, ..0) => 0,
        _ => pow_unsigned(a as u64, b as u64, 64) as i64,
    }
}

/// `a` to the power of `b` by squaring, modulo 2^64.
pub(super) fn pow_unsigned(mut a: u64, mut b: u64, _bits: usize) -> u64 {
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

/// `a >> b` filled with the sign.
pub(super) fn shift_right_arithmetic(a: i64, b: u64, bits: usize) -> i64 {
    a >> b.min(bits as u64 - 1)
}

/// High half of the product.
pub(super) fn mulhi_signed(a: i64, b: i64, bits: usize) -> i64 {
    ((i128::from(a) * i128::from(b)) >> bits) as i64
}

/// High half of the product.
pub(super) fn mulhi_unsigned(a: u64, b: u64, bits: usize) -> u64 {
    ((u128::from(a) * u128::from(b)) >> bits) as u64
}

/// Zeros above the highest set bit.
pub(super) fn leading_zeros(a: u64, bits: usize) -> u64 {
    u64::from(a.leading_zeros()) - (64 - bits as u64)
}

/// Number of set bits.
pub(super) fn popcnt(a: u64, _bits: usize) -> u64 {
    u64::from(a.count_ones())
}
