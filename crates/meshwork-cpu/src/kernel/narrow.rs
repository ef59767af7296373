//! Arithmetic on integers of which only the low bytes count, in integers of so many bytes: more of them fit a vector.
//!
//! ```text
//! convert<u8>(convert<u32>(a) + convert<u32>(b) * 2)  ──►  a + b * 2
//! ```
//!
//! Low bytes of sums, products, bitwise functions and shifts to the left follow from the low bytes of what they are computed from.

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
        Op::Binary(
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor,
            p,
            q,
        )
        | Op::Select(_, p, q) => is_there(p) && is_there(q),
        Op::Binary(BinaryOp::ShiftLeft, p, by) => matches!(b.ops[usize::from(by)], Op::Const(..)) && is_there(p),
        _ => false,
    }
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
            for f in ["add", "subtract", "multiply", "and", "or", "xor", "shift_left"] {
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
