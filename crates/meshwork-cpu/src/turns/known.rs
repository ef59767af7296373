//! Integers and truth values that are known while a body is expanded: what inner loops count, and what follows from it.

use crate::kernel::ir::{BinaryOp, Cmp, Ty, UnaryOp};

use super::expand::mask;

fn is_whole(ty: Ty) -> bool {
    ty.is_integer() || ty == Ty::Pred
}

/// The number that `bits` are.
fn number(ty: Ty, bits: u64) -> i128 {
    let unused = 64 - 8 * ty.size() as u32;
    if ty.is_signed() { i128::from((bits << unused).cast_signed() >> unused) } else { i128::from(bits) }
}

/// `f` of a number.
pub(super) fn unary(f: UnaryOp, ty: Ty, x: u64) -> Option<u64> {
    match f {
        UnaryOp::Not if is_whole(ty) => Some(!x & mask(ty)),
        UnaryOp::Negate if ty.is_integer() => Some(x.wrapping_neg() & mask(ty)),
        _ => None,
    }
}

/// `f` of two numbers.
pub(super) fn binary(f: BinaryOp, ty: Ty, x: u64, y: u64) -> Option<u64> {
    if !is_whole(ty) {
        return None;
    }
    let (a, b) = (number(ty, x), number(ty, y));
    let result = match f {
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Maximum => a.max(b) as u64,
        BinaryOp::Minimum => a.min(b) as u64,
        BinaryOp::Add if ty != Ty::Pred => x.wrapping_add(y),
        BinaryOp::Subtract if ty != Ty::Pred => x.wrapping_sub(y),
        BinaryOp::Multiply if ty != Ty::Pred => x.wrapping_mul(y),
        _ => return None,
    };
    Some(result & mask(ty))
}

/// Whether two numbers compare so.
pub(super) fn compare(f: Cmp, ty: Ty, x: u64, y: u64) -> Option<bool> {
    let (a, b) = (number(ty, x), number(ty, y));
    is_whole(ty).then_some(match f {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
    })
}

/// A number as another type.
pub(super) fn convert(from: Ty, to: Ty, x: u64) -> Option<u64> {
    if !is_whole(from) {
        return None;
    }
    let number = number(from, x);
    match to {
        Ty::F32 => Some(u64::from((number as f32).to_bits())),
        Ty::F64 => Some((number as f64).to_bits()),
        Ty::Pred => None,
        _ => Some(number as u64 & mask(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_have_signs() {
        let minus = |n: u64| n.wrapping_neg() & mask(Ty::I8);
        assert_eq!(binary(BinaryOp::Add, Ty::I8, 127, 1), Some(128));
        assert_eq!(binary(BinaryOp::Multiply, Ty::I8, minus(3), 5), Some(minus(15)));
        assert_eq!(binary(BinaryOp::Maximum, Ty::I8, minus(3), 2), Some(2));
        assert_eq!(binary(BinaryOp::Maximum, Ty::U8, minus(3), 2), Some(253));
        assert_eq!(binary(BinaryOp::Minimum, Ty::U64, u64::MAX, 1), Some(1));
        assert_eq!(binary(BinaryOp::Add, Ty::F32, 0, 0), None);
        assert_eq!(binary(BinaryOp::Add, Ty::Pred, 1, 1), None);
        assert_eq!(compare(Cmp::Lt, Ty::I8, minus(3), 2), Some(true));
        assert_eq!(compare(Cmp::Lt, Ty::U8, minus(3), 2), Some(false));
        assert_eq!(convert(Ty::I8, Ty::I32, minus(3)), Some(3u64.wrapping_neg() & mask(Ty::I32)));
        assert_eq!(convert(Ty::I8, Ty::F32, minus(3)), Some(u64::from((-3f32).to_bits())));
        assert_eq!(convert(Ty::U8, Ty::I32, minus(3)), Some(253));
        assert_eq!(unary(UnaryOp::Not, Ty::Pred, 1), Some(0));
        assert_eq!(unary(UnaryOp::Negate, Ty::I32, 1), Some(mask(Ty::I32)));
    }
}
