//! Quotients rounded down and remainders with the sign of the divisor, as JAX writes them for integers.
//!
//! ```text
//! x // c:  q = x / c;  select(sign(x) != sign(c) and rem(x, c) != 0,  q - 1,  q)
//! x % c:   r = rem(x, c);  select((r < 0) != (c < 0) and r != 0,  r + c,  r)
//! ```
//!
//! With one number above one for `c` both are shorter than the quotient toward zero that they are made of.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, UnaryOp, Val};
use super::integer;

/// What stands for `op` if it is the choice at the end of one of these. `ops` are the operations of the phase, and `vals` what those
/// before `op` have become.
pub fn floored(b: &mut Builder<'_>, ops: &[Op], vals: &[Val], op: Op) -> Option<Val> {
    let Op::Select(p, yes, no) = op else { return None };
    let find = Find { b, ops, vals };
    let (kind, x, y) = match ops[usize::from(no)] {
        Op::Binary(f, x, y) => (f, x, y),
        _ => return None,
    };
    let (one, other) = match ops[usize::from(p)] {
        Op::Binary(BinaryOp::And, one, other) => (one, other),
        _ => (p, p),
    };
    let (x_new, y_new) = (vals[usize::from(x)], vals[usize::from(y)]);
    match kind {
        BinaryOp::Divide => {
            let has_rest = |v: Val| find.is_remainder_left(v, x, y);
            let signs = |v: Val| find.is_negative(v, x) || find.differs_in_sign(v, x);
            let decides = (signs(one) && has_rest(other)) || (signs(other) && has_rest(one));
            let fits = decides && find.is_one_less(yes, no);
            fits.then(|| integer::floor_quotient(b, x_new, y_new)).flatten()
        }
        BinaryOp::Remainder => {
            let is_some = |v: Val| find.is_negative(v, no) || find.is_not_zero(v, no);
            let decides =
                (find.is_negative(one, no) && is_some(other)) || (find.is_negative(other, no) && is_some(one));
            let fits = decides && find.is_sum(yes, no, y);
            fits.then(|| integer::floor_remainder(b, x_new, y_new)).flatten()
        }
        _ => None,
    }
}

/// Looks at operations of a phase.
struct Find<'a, 'b> {
    b: &'a Builder<'b>,
    ops: &'a [Op],
    vals: &'a [Val],
}

impl Find<'_, '_> {
    fn op(&self, v: Val) -> Op {
        self.ops[usize::from(v)]
    }

    fn same(&self, x: Val, y: Val) -> bool {
        self.vals[usize::from(x)] == self.vals[usize::from(y)]
    }

    /// Whether `v` is this constant.
    fn is(&self, v: Val, number: u64) -> bool {
        matches!(self.b.ops[usize::from(self.vals[usize::from(v)])], Op::Const(_, bits) if bits == number)
    }

    /// Whether `v` asks if `x` is not zero.
    fn is_not_zero(&self, v: Val, x: Val) -> bool {
        matches!(self.op(v), Op::Compare(Cmp::Ne, a, zero) if self.same(a, x) && self.is(zero, 0))
    }

    /// Whether `v` asks if `x` is negative, or if that is not false.
    fn is_negative(&self, v: Val, x: Val) -> bool {
        match self.op(v) {
            Op::Compare(Cmp::Lt, a, zero) => self.same(a, x) && self.is(zero, 0),
            Op::Compare(Cmp::Ne, a, no) => {
                self.is(no, 0) && matches!(self.op(a), Op::Compare(..)) && self.is_negative(a, x)
            }
            _ => false,
        }
    }

    /// Whether `v` asks if `x` has another sign than a positive number.
    fn differs_in_sign(&self, v: Val, x: Val) -> bool {
        let Op::Compare(Cmp::Ne, sign, one) = self.op(v) else { return false };
        self.is(one, 1) && matches!(self.op(sign), Op::Unary(UnaryOp::Sign, a) if self.same(a, x))
    }

    /// Whether `v` asks if `x` divided by `y` leaves something.
    fn is_remainder_left(&self, v: Val, x: Val, y: Val) -> bool {
        let Op::Compare(Cmp::Ne, rest, zero) = self.op(v) else { return false };
        let is_rest =
            matches!(self.op(rest), Op::Binary(BinaryOp::Remainder, a, b) if self.same(a, x) && self.same(b, y));
        is_rest && self.is(zero, 0)
    }

    /// Whether `v` is `x - 1`.
    fn is_one_less(&self, v: Val, x: Val) -> bool {
        matches!(self.op(v), Op::Binary(BinaryOp::Subtract, a, one) if self.same(a, x) && self.is(one, 1))
    }

    /// Whether `v` is `x + y`.
    fn is_sum(&self, v: Val, x: Val, y: Val) -> bool {
        let Op::Binary(BinaryOp::Add, a, b) = self.op(v) else { return false };
        (self.same(a, x) && self.same(b, y)) || (self.same(a, y) && self.same(b, x))
    }
}
