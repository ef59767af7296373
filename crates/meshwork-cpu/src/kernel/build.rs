//! Writes the code of a phase: each value once, constants and repeated operations shared.

use meshwork_ir::hash::HashMap;

use super::ir::{BinaryOp, Body, Cmp, Op, Ty, UnaryOp, Val};
use super::narrow;

/// Code of a phase under construction.
pub struct Builder<'a> {
    body: &'a Body,
    /// The operations so far.
    pub ops: Vec<Op>,
    types: Vec<Ty>,
    known: HashMap<Op, Val>,
}

impl<'a> Builder<'a> {
    /// No code yet.
    pub fn new(body: &'a Body) -> Builder<'a> {
        Builder { body, ops: vec![], types: vec![], known: HashMap::default() }
    }

    /// Type of a value; `Pred` for ops without value.
    pub fn ty(&self, v: Val) -> Ty {
        self.types[usize::from(v)]
    }

    /// Adds `op`, or finds the value that it would make again.
    pub fn push(&mut self, op: Op) -> Val {
        if let Some(&v) = self.known.get(&op) {
            return v;
        }
        let ty = match op {
            Op::Const(ty, _) | Op::LoadTemp(_, ty) | Op::Scalar(_, ty) | Op::Index(_, ty) => ty,
            Op::Convert(ty, a) if self.ty(a) == ty => return a,
            Op::Bitcast(ty, a) if self.ty(a) == ty => return a,
            Op::Convert(ty, _) | Op::Bitcast(ty, _) => ty,
            Op::Load(arg) | Op::LoadAt(arg, _) => Ty::of(self.body.args[usize::from(arg)].elem).unwrap_or(Ty::Pred),
            Op::Unary(UnaryOp::IsFinite, _) | Op::Compare(..) => Ty::Pred,
            Op::Unary(_, a) | Op::Binary(_, a, _) | Op::MulAdd(a, _, _) | Op::Round(_, a) => self.ty(a),
            Op::Far(_, a, _) | Op::FarApart(_, a, ..) => self.ty(a),
            Op::Select(_, a, _) => self.ty(a),
            Op::Store(..) | Op::StoreAt(..) | Op::StoreTemp(..) | Op::SetScalar(..) | Op::Reduce(..) => Ty::Pred,
        };
        if let (Op::Unary(UnaryOp::Negate, a), true) = (op, ty.is_float())
            && let Op::Const(_, bits) = self.ops[usize::from(a)]
        {
            return self.push(Op::Const(ty, bits ^ 1 << (8 * ty.size() - 1)));
        }
        if let Op::Convert(to, a) = op
            && let Op::Const(from, bits) = self.ops[usize::from(a)]
            && from != Ty::Pred
            && to != Ty::Pred
        {
            return self.push(Op::Const(to, super::interp::converted(from, to, bits)));
        }
        if let Some(v) = self.decided(op) {
            return v;
        }
        if let Op::Convert(to, a) = op
            && let Some(v) = narrow::widened(self, to, a)
        {
            return v;
        }
        if let Op::Binary(f, a, c) = op
            && let Some(v) = self.shorter(f, ty, a, c)
        {
            return v;
        }
        self.ops.push(op);
        self.types.push(ty);
        // Positions that do not fit are refused when the phase is done.
        let v = (self.ops.len() - 1).min(usize::from(Val::MAX)) as Val;
        if matches!(op, Op::Store(..) | Op::StoreAt(..) | Op::StoreTemp(..)) {
            // What was loaded before may differ now.
            self.known.retain(|op, _| !matches!(op, Op::Load(_) | Op::LoadAt(..) | Op::LoadTemp(..)));
        } else if !op.is_effect() {
            self.known.insert(op, v);
        }
        v
    }

    /// A function of `a` and a constant that is `a` itself, or that something faster computes to the same bits.
    fn shorter(&mut self, f: BinaryOp, ty: Ty, a: Val, c: Val) -> Option<Val> {
        let (a, bits) = match (self.ops[usize::from(a)], self.ops[usize::from(c)]) {
            (_, Op::Const(_, bits)) => (a, bits),
            (Op::Const(_, bits), _) if matches!(f, BinaryOp::Add | BinaryOp::Multiply) => (c, bits),
            _ => return None,
        };
        if ty.is_integer() {
            return match f {
                BinaryOp::Add | BinaryOp::Subtract if bits == 0 => Some(a),
                BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic if bits == 0 => {
                    Some(a)
                }
                BinaryOp::And => self.masked(ty, a, bits),
                BinaryOp::Multiply | BinaryOp::Divide if bits == 1 => Some(a),
                BinaryOp::Remainder if bits == 1 => Some(self.bits(ty, 0)),
                BinaryOp::Multiply if ty.size() >= 4 && bits.is_power_of_two() => {
                    let places = self.bits(ty, bits.trailing_zeros().into());
                    Some(self.bin(BinaryOp::ShiftLeft, a, places))
                }
                _ => None,
            };
        }
        let (number, digits) = match ty {
            Ty::F32 => (f64::from(f32::from_bits(bits as u32)), 23),
            Ty::F64 => (f64::from_bits(bits), 52),
            _ => return None,
        };
        let is_zero = |negative: bool| number == 0.0 && number.is_sign_negative() == negative;
        match f {
            BinaryOp::Multiply | BinaryOp::Divide if number == 1.0 => Some(a),
            BinaryOp::Add if is_zero(true) => Some(a),
            BinaryOp::Subtract if is_zero(false) => Some(a),
            // Powers of two have exact inverses, if these are normal numbers.
            BinaryOp::Divide if bits & ((1 << digits) - 1) == 0 && (1e-30..1e30).contains(&number.abs()) => {
                let inverse = self.num(ty, 1.0 / number);
                Some(self.mul(a, inverse))
            }
            _ => None,
        }
    }

    /// `a` itself, if it has no other bits than `mask`, which keeps them all.
    fn masked(&self, ty: Ty, a: Val, mask: u64) -> Option<Val> {
        let Op::Binary(f, _, c) = self.ops[usize::from(a)] else { return None };
        let Op::Const(_, bits) = self.ops[usize::from(c)] else { return None };
        let width = 8 * ty.size() as u64;
        let has_only = match f {
            BinaryOp::And => bits & !mask == 0,
            BinaryOp::ShiftRightLogical => bits < width && (u64::MAX >> (64 - width + bits)) & !mask == 0,
            _ => false,
        };
        has_only.then_some(a)
    }

    /// A constant of type `ty` from a number.
    pub fn num(&mut self, ty: Ty, x: f64) -> Val {
        let bits = match ty {
            Ty::F32 => (x as f32).to_bits().into(),
            Ty::F64 => x.to_bits(),
            _ => x as i64 as u64 & (u64::MAX >> (64 - 8 * ty.size())),
        };
        self.push(Op::Const(ty, bits))
    }

    /// A constant with these bits.
    pub fn bits(&mut self, ty: Ty, bits: u64) -> Val {
        self.push(Op::Const(ty, bits))
    }

    /// A function of one value.
    pub fn un(&mut self, f: UnaryOp, a: Val) -> Val {
        self.push(Op::Unary(f, a))
    }

    /// A function of two values.
    pub fn bin(&mut self, f: BinaryOp, a: Val, b: Val) -> Val {
        self.push(Op::Binary(f, a, b))
    }

    /// `a + b`.
    pub fn add(&mut self, a: Val, b: Val) -> Val {
        self.bin(BinaryOp::Add, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Val, b: Val) -> Val {
        self.bin(BinaryOp::Subtract, a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: Val, b: Val) -> Val {
        self.bin(BinaryOp::Multiply, a, b)
    }

    /// `a / b`.
    pub fn div(&mut self, a: Val, b: Val) -> Val {
        self.bin(BinaryOp::Divide, a, b)
    }

    /// `a * b + c`.
    pub fn fma(&mut self, a: Val, b: Val, c: Val) -> Val {
        self.push(Op::MulAdd(a, b, c))
    }

    /// A comparison.
    pub fn cmp(&mut self, f: Cmp, a: Val, b: Val) -> Val {
        self.push(Op::Compare(f, a, b))
    }

    /// `p ? a : b`.
    pub fn select(&mut self, p: Val, a: Val, b: Val) -> Val {
        self.push(Op::Select(p, a, b))
    }

    /// A conversion.
    pub fn convert(&mut self, ty: Ty, a: Val) -> Val {
        self.push(Op::Convert(ty, a))
    }

    /// The same bits.
    pub fn cast(&mut self, ty: Ty, a: Val) -> Val {
        self.push(Op::Bitcast(ty, a))
    }

    /// The polynomial with these coefficients, constant term first, by Horner's rule.
    pub fn poly(&mut self, x: Val, coefficients: &[f64]) -> Val {
        let ty = self.ty(x);
        let mut terms = coefficients.iter().rev().map(|&c| self.num(ty, c)).collect::<Vec<_>>().into_iter();
        let first = terms.next().unwrap_or_else(|| self.num(ty, 0.0));
        terms.fold(first, |sum, c| self.fma(sum, x, c))
    }
}
