//! Comparisons, truth values and choices that constants decide, or that another one with less to do stands for.

use super::build::Builder;
use super::ir::{BinaryOp, Cmp, Op, Ty, UnaryOp, Val};

/// A constant of an integer type as a number; for 64 bits without sign, with it.
fn number(ty: Ty, bits: u64) -> i64 {
    let unused = 64 - 8 * ty.size() as u32;
    if ty.is_signed() { ((bits << unused) as i64) >> unused } else { (bits << unused >> unused) as i64 }
}

impl Builder<'_> {
    fn constant(&self, v: Val) -> Option<u64> {
        match self.ops[usize::from(v)] {
            Op::Const(_, bits) => Some(bits),
            _ => None,
        }
    }

    fn truth(&mut self, value: bool) -> Val {
        self.bits(Ty::Pred, value.into())
    }

    fn not(&mut self, p: Val) -> Val {
        self.un(UnaryOp::Not, p)
    }

    /// What stands for `op`, if that is shorter.
    pub(super) fn decided(&mut self, op: Op) -> Option<Val> {
        match op {
            Op::Unary(f, a) => self.of_one(f, a),
            Op::Binary(f, p, q) if self.ty(p) == Ty::Pred => self.connected(f, p, q),
            Op::Compare(f, a, b) => self.compared(f, a, b),
            Op::Select(p, a, b) => self.chosen(p, a, b),
            Op::Convert(to, a) if to.is_integer() && self.ty(a).is_integer() => {
                let bits = number(self.ty(a), self.constant(a)?) as u64;
                Some(self.bits(to, bits & (u64::MAX >> (64 - 8 * to.size()))))
            }
            _ => None,
        }
    }

    fn of_one(&mut self, f: UnaryOp, a: Val) -> Option<Val> {
        let ty = self.ty(a);
        match (f, self.ops[usize::from(a)]) {
            (UnaryOp::Not, Op::Unary(UnaryOp::Not, a)) => Some(a),
            (UnaryOp::Not, Op::Const(Ty::Pred, bits)) => Some(self.truth(bits == 0)),
            (UnaryOp::Sign, Op::Const(_, bits)) if ty.is_integer() => {
                let sign = if ty.is_signed() { number(ty, bits).signum() } else { i64::from(bits != 0) };
                Some(self.bits(ty, sign as u64 & (u64::MAX >> (64 - 8 * ty.size()))))
            }
            _ => None,
        }
    }

    fn connected(&mut self, f: BinaryOp, p: Val, q: Val) -> Option<Val> {
        let (p, known) = match (self.constant(p), self.constant(q)) {
            (_, Some(bits)) => (p, bits != 0),
            (Some(bits), _) => (q, bits != 0),
            _ if p == q && matches!(f, BinaryOp::And | BinaryOp::Or) => return Some(p),
            _ => return self.neither(f, p, q),
        };
        match (f, known) {
            (BinaryOp::And, true) | (BinaryOp::Or | BinaryOp::Xor, false) => Some(p),
            (BinaryOp::And, false) => Some(self.truth(false)),
            (BinaryOp::Or, true) => Some(self.truth(true)),
            (BinaryOp::Xor, true) => Some(self.not(p)),
            _ => None,
        }
    }

    /// Two inequalities are no equality, one complement instead of two.
    fn neither(&mut self, f: BinaryOp, p: Val, q: Val) -> Option<Val> {
        let unequal = |v: Val| match self.ops[usize::from(v)] {
            Op::Compare(Cmp::Ne, a, b) if self.ty(a).is_integer() => Some((a, b)),
            _ => None,
        };
        let ((a, b), (c, d)) = (unequal(p)?, unequal(q)?);
        let f = match f {
            BinaryOp::And => BinaryOp::Or,
            BinaryOp::Or => BinaryOp::And,
            _ => return None,
        };
        let (one, other) = (self.cmp(Cmp::Eq, a, b), self.cmp(Cmp::Eq, c, d));
        let joined = self.bin(f, one, other);
        Some(self.not(joined))
    }

    fn compared(&mut self, f: Cmp, a: Val, b: Val) -> Option<Val> {
        let ty = self.ty(a);
        if ty.is_float() {
            return None;
        }
        if a == b {
            return Some(self.truth(matches!(f, Cmp::Eq | Cmp::Le | Cmp::Ge)));
        }
        let bits = self.constant(b)?;
        if ty == Ty::Pred {
            return match (f, bits != 0) {
                (Cmp::Ne, false) | (Cmp::Eq, true) => Some(a),
                (Cmp::Ne, true) | (Cmp::Eq, false) => Some(self.not(a)),
                _ => None,
            };
        }
        if let Some(bits_a) = self.constant(a) {
            let (x, y) = (number(ty, bits_a), number(ty, bits));
            let order = if ty.is_signed() { x.cmp(&y) } else { (x as u64).cmp(&(y as u64)) };
            return Some(self.truth(match f {
                Cmp::Eq => order.is_eq(),
                Cmp::Ne => order.is_ne(),
                Cmp::Lt => order.is_lt(),
                Cmp::Le => order.is_le(),
                Cmp::Gt => order.is_gt(),
                Cmp::Ge => order.is_ge(),
            }));
        }
        if bits != 0 {
            return None;
        }
        // Nothing without sign is below zero.
        match (f, self.ops[usize::from(a)]) {
            (Cmp::Lt, _) if ty.is_unsigned() => Some(self.truth(false)),
            (Cmp::Ge, _) if ty.is_unsigned() => Some(self.truth(true)),
            (Cmp::Gt, _) if ty.is_unsigned() => Some(self.cmp(Cmp::Ne, a, b)),
            (Cmp::Le, _) if ty.is_unsigned() => Some(self.cmp(Cmp::Eq, a, b)),
            (Cmp::Ne, Op::Convert(_, p)) if self.ty(p) == Ty::Pred => Some(p),
            (Cmp::Eq, Op::Convert(_, p)) if self.ty(p) == Ty::Pred => Some(self.not(p)),
            _ => None,
        }
    }

    fn chosen(&mut self, p: Val, a: Val, b: Val) -> Option<Val> {
        if a == b {
            return Some(a);
        }
        match self.ops[usize::from(p)] {
            Op::Const(_, bits) => Some(if bits != 0 { a } else { b }),
            Op::Unary(UnaryOp::Not, p) => Some(self.select(p, b, a)),
            // Of the comparisons of integers, these are the complements of others.
            Op::Compare(f, x, y) if self.ty(x).is_integer() => {
                let ty = self.ty(x);
                let by_larger = ty.is_unsigned() && ty.size() < 8;
                let other = match f {
                    Cmp::Ne => Cmp::Eq,
                    Cmp::Lt if by_larger => Cmp::Ge,
                    Cmp::Gt if by_larger => Cmp::Le,
                    Cmp::Le if !by_larger => Cmp::Gt,
                    Cmp::Ge if !by_larger => Cmp::Lt,
                    _ => return None,
                };
                let other = self.cmp(other, x, y);
                Some(self.select(other, b, a))
            }
            _ => None,
        }
    }
}
