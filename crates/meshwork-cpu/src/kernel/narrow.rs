//! Arithmetic on integers of which only the low bytes count, in integers of so many bytes: more of them fit a vector.
//!
//! ```text
//! convert<u8>(convert<u32>(a) + convert<u32>(b) * 2)  ──►  a + b * 2
//! ```
//!
//! Low bytes of sums, products, bitwise functions and shifts to the left follow from the low bytes of what they are computed from, those of
//! shifts to the right from these and the bytes above.

use super::build::Builder;
use super::ir::{BinaryOp, Op, Ty, Val};

/// Operations between a conversion and what it is computed from.
const MOST_DEEP: u32 = 24;
const MOST: u32 = 64;

/// The low bytes of `x` as `to`, a narrower type; `None` if something that it is computed from is not there in so few bytes, or if nothing is
/// computed.
pub fn low(b: &mut Builder<'_>, x: Val, to: Ty) -> Option<Val> {
    let from = b.ty(x);
    let is_narrower = to.is_integer() && from.is_integer() && to.size() < from.size();
    let computes = matches!(b.ops[usize::from(x)], Op::Binary(..) | Op::Select(..));
    let mut left = MOST;
    (is_narrower && computes && has_low(b, x, to, 0, &mut left)).then(|| low_of(b, x, to))
}

fn has_low(b: &Builder<'_>, x: Val, to: Ty, depth: u32, left: &mut u32) -> bool {
    if depth == MOST_DEEP || *left == 0 {
        return false;
    }
    *left -= 1;
    let mut is_there = |v: Val| has_low(b, v, to, depth + 1, left);
    match b.ops[usize::from(x)] {
        Op::Const(..) => true,
        Op::Convert(_, a) => match b.ty(a) {
            Ty::Pred => true,
            ty if ty.is_integer() => ty.size() <= to.size() || is_there(a),
            _ => false,
        },
        Op::Binary(BinaryOp::And, ..) if is_part(b, x, to) => true,
        Op::Binary(
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor,
            p,
            q,
        )
        | Op::Select(_, p, q) => is_there(p) && is_there(q),
        Op::Binary(BinaryOp::ShiftLeft, p, by) => matches!(b.ops[usize::from(by)], Op::Const(..)) && is_there(p),
        Op::Binary(BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic, p, by) => {
            before_shift(b, x, by, to).is_some_and(|wide| has_low(b, p, wide, depth + 1, left))
        }
        _ => false,
    }
}

/// Whether `x` is what was read, but for bits that `to` does not have.
fn is_part(b: &Builder<'_>, x: Val, to: Ty) -> bool {
    let Op::Binary(BinaryOp::And, p, mask) = b.ops[usize::from(x)] else { return false };
    let is_narrow = matches!(b.ops[usize::from(mask)], Op::Const(_, bits) if bits >> (8 * to.size()) == 0);
    let (of, _) = shifted(b, p);
    is_narrow && matches!(b.ops[usize::from(of)], Op::Load(_))
}

/// What `x` is, but for its type, shifted to the right without sign, and by how many places.
fn shifted(b: &Builder<'_>, x: Val) -> (Val, u64) {
    let x = uncast(b, x);
    if let Op::Binary(BinaryOp::ShiftRightLogical, of, by) = b.ops[usize::from(x)]
        && let Op::Const(_, places) = b.ops[usize::from(by)]
    {
        return (uncast(b, of), places);
    }
    (x, 0)
}

/// The value with these bits that is no bitcast.
fn uncast(b: &Builder<'_>, x: Val) -> Val {
    match b.ops[usize::from(x)] {
        Op::Bitcast(_, a) => uncast(b, a),
        _ => x,
    }
}

/// What the conversion of `a` to `to` is where `a` is made of the low bytes of a number with as many bytes as `to`: the others of these
/// are cleared, or filled with the sign.
pub fn widened(b: &mut Builder<'_>, to: Ty, a: Val) -> Option<Val> {
    let narrow = b.ty(a);
    let Op::Convert(_, x) = b.ops[usize::from(uncast(b, a))] else { return None };
    if !narrow.is_integer() || !b.ty(x).is_integer() || narrow.size() >= b.ty(x).size() {
        return None;
    }
    if to.is_float() && b.ty(x).size() == 4 {
        let whole = widened(b, Ty::I32, a)?;
        return Some(b.convert(to, whole));
    }
    if !to.is_integer() || b.ty(x).size() != to.size() || (narrow.is_signed() && to.size() == 8) {
        return None;
    }
    let above = 8 * (to.size() - narrow.size()) as u64;
    if !narrow.is_signed() {
        let (x, mask) = (b.cast(to, x), b.bits(to, u64::MAX >> (64 - 8 * narrow.size())));
        return Some(b.bin(BinaryOp::And, x, mask));
    }
    let signed = if to.size() == 4 { Ty::I32 } else { Ty::I16 };
    let above_bits = b.bits(signed, above);
    let (of, places) = shifted(b, x);
    let top = if places == above {
        b.cast(signed, of)
    } else {
        let x = b.cast(signed, x);
        b.bin(BinaryOp::ShiftLeft, x, above_bits)
    };
    let filled = b.bin(BinaryOp::ShiftRightArithmetic, top, above_bits);
    Some(b.cast(to, filled))
}

/// The type of the low bytes of what is shifted to the right by `by` that become those of `x` as `to`, if it is narrower than `x`.
fn before_shift(b: &Builder<'_>, x: Val, by: Val, to: Ty) -> Option<Ty> {
    let Op::Const(_, places) = b.ops[usize::from(by)] else { return None };
    let bits = places.checked_add(8 * to.size() as u64)?;
    let wide = [Ty::U8, Ty::U16, Ty::U32].into_iter().find(|ty| 8 * ty.size() as u64 >= bits)?;
    (wide.size() < b.ty(x).size()).then_some(wide)
}

fn low_of(b: &mut Builder<'_>, x: Val, to: Ty) -> Val {
    match b.ops[usize::from(x)] {
        Op::Convert(_, a) if b.ty(a) == Ty::Pred || b.ty(a).size() < to.size() => b.convert(to, a),
        Op::Convert(_, a) if b.ty(a).size() == to.size() => b.cast(to, a),
        Op::Convert(_, a) => low_of(b, a, to),
        Op::Binary(BinaryOp::ShiftLeft, p, by) => {
            let Op::Const(_, places) = b.ops[usize::from(by)] else { return x };
            if places >= 8 * to.size() as u64 {
                return b.bits(to, 0);
            }
            let (p, places) = (low_of(b, p, to), b.bits(to, places));
            b.bin(BinaryOp::ShiftLeft, p, places)
        }
        Op::Binary(BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic, p, by) => {
            let (Some(wide), Op::Const(_, places)) = (before_shift(b, x, by, to), b.ops[usize::from(by)]) else {
                return x;
            };
            let (p, places) = (low_of(b, p, wide), b.bits(wide, places));
            let shifted = b.bin(BinaryOp::ShiftRightLogical, p, places);
            if wide.size() == to.size() { b.cast(to, shifted) } else { b.convert(to, shifted) }
        }
        Op::Binary(BinaryOp::And, ..) if is_part(b, x, to) => b.convert(to, x),
        Op::Binary(f, p, q) => {
            let (p, q) = (low_of(b, p, to), low_of(b, q, to));
            b.bin(f, p, q)
        }
        Op::Select(c, p, q) => {
            let (p, q) = (low_of(b, p, to), low_of(b, q, to));
            b.select(c, p, q)
        }
        Op::Const(_, bits) => b.bits(to, bits & (u64::MAX >> (64 - 8 * to.size()))),
        _ => x,
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// Sums of products of bytes in words, of which bytes are kept.
    #[test]
    fn bytes_of_words() {
        for (narrow, wide) in
            [("ui8", "ui32"), ("i8", "i32"), ("ui8", "i64"), ("i16", "ui32"), ("ui16", "i8"), ("i32", "ui64")]
        {
            for f in [
                "add",
                "subtract",
                "multiply",
                "and",
                "or",
                "xor",
                "shift_left",
                "shift_right_logical",
                "shift_right_arithmetic",
            ] {
                check(
                    &format!(
                        "func.func @main(%x: tensor<77x{narrow}>, %y: tensor<77x{narrow}>, %z: tensor<77xi1>) -> (tensor<77x{narrow}>, tensor<77x{wide}>) {{
                        %c = stablehlo.constant dense<5> : tensor<77x{wide}>
                        %d = stablehlo.constant dense<9> : tensor<77x{wide}>
                        %a = stablehlo.convert %x : (tensor<77x{narrow}>) -> tensor<77x{wide}>
                        %b = stablehlo.convert %y : (tensor<77x{narrow}>) -> tensor<77x{wide}>
                        %e = stablehlo.convert %z : (tensor<77xi1>) -> tensor<77x{wide}>
                        %p = stablehlo.{f} %a, %c : tensor<77x{wide}>
                        %q = stablehlo.multiply %b, %d : tensor<77x{wide}>
                        %r = stablehlo.add %p, %q : tensor<77x{wide}>
                        %s = stablehlo.select %z, %r, %e : tensor<77xi1>, tensor<77x{wide}>
                        %t = stablehlo.shift_left %s, %d : tensor<77x{wide}>
                        %u = stablehlo.xor %t, %s : tensor<77x{wide}>
                        %v = stablehlo.convert %u : (tensor<77x{wide}>) -> tensor<77x{narrow}>
                        return %v, %p : tensor<77x{narrow}>, tensor<77x{wide}> }}"
                    ),
                    0.0,
                );
            }
        }
    }
}
