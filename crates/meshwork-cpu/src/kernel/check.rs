//! Rules for kernel bodies: every value is made before it is used and has the right type.
//!
//! - operands come earlier in the same phase and make values (stores make none);
//! - both sides of a function of two values have one type, on which the function is defined;
//! - loads, stores and temporaries name existing ones; inputs are not written, stores match the lane type;
//! - scalars are set in an earlier phase than they are read, and always to one type;
//! - `SetScalar` stands in phases that run once, temporaries and `Reduce` in phases over the row; a phase that runs
//!   once loads and stores only arguments that are the same all along the row, and its indices are those of element 0;
//! - places that are data stand in phases that run once, and elements there are not converted.

use meshwork_ir::ElementClass;

use super::error::KernelError;
use super::ir::{Access, BinaryOp, Body, Extent, Op, Phase, Ty, UnaryOp, Val};

/// Checks `body` and gives the type of each value of each phase; `None` for ops that make no value.
pub fn check(body: &Body) -> Result<Vec<Vec<Option<Ty>>>, KernelError> {
    for (arg, a) in body.args.iter().enumerate() {
        if Ty::of(a.elem).is_none() {
            return Err(KernelError::Argument { arg, elem: a.elem });
        }
    }
    let mut scalars = vec![None; usize::from(body.scalars)];
    let mut all = vec![];
    for (number, phase) in body.phases.iter().enumerate() {
        if phase.ops.len() > usize::from(u16::MAX) {
            return Err(KernelError::TooLong { phase: number, ops: phase.ops.len() });
        }
        let mut set = vec![];
        let mut types: Vec<Option<Ty>> = Vec::with_capacity(phase.ops.len());
        for (at, &op) in phase.ops.iter().enumerate() {
            let ty = Checker { body, phase, types: &types, scalars: &scalars, set: &mut set }
                .op(op)
                .map_err(|reason| KernelError::Op { phase: number, at, op, reason })?;
            types.push(ty);
        }
        for (scalar, ty) in set {
            scalars[scalar] = Some(ty);
        }
        all.push(types);
    }
    Ok(all)
}

struct Checker<'a> {
    body: &'a Body,
    phase: &'a Phase,
    types: &'a [Option<Ty>],
    scalars: &'a [Option<Ty>],
    set: &'a mut Vec<(usize, Ty)>,
}

impl Checker<'_> {
    fn value(&self, v: Val) -> Result<Ty, String> {
        match self.types.get(usize::from(v)) {
            Some(Some(ty)) => Ok(*ty),
            Some(None) => Err(format!("op {v} makes no value")),
            None => Err(format!("value {v} is not made yet")),
        }
    }

    fn same(&self, a: Val, b: Val) -> Result<Ty, String> {
        let (x, y) = (self.value(a)?, self.value(b)?);
        if x == y { Ok(x) } else { Err(format!("value {a} is {x:?} but value {b} is {y:?}")) }
    }

    fn arg(&self, arg: u16) -> Result<Ty, String> {
        let found = self.body.args.get(usize::from(arg)).ok_or_else(|| format!("there is no argument {arg}"))?;
        if self.phase.extent == Extent::Once && !matches!(found.access, Access::Zero | Access::Fixed) {
            return Err(format!("argument {arg} varies along the row, but the phase runs once"));
        }
        Ty::of(found.elem).ok_or_else(|| format!("argument {arg} is {}", found.elem))
    }

    /// What lanes hold of the elements of `arg`, at places that are data.
    fn table(&self, arg: u16, at: Val) -> Result<Ty, String> {
        let access = self.body.args.get(usize::from(arg)).map(|arg| arg.access);
        if access.is_some_and(|access| !matches!(access, Access::Zero | Access::Fixed)) {
            return Err(format!("argument {arg} varies along the row, and so do places in it"));
        }
        let (ty, place) = (self.arg(arg)?, self.value(at)?);
        if place != Ty::I32 {
            return Err(format!("value {at} is {place:?}, not a place"));
        }
        Ok(ty)
    }

    fn row(&self) -> Result<(), String> {
        match self.phase.extent {
            Extent::Row => Ok(()),
            Extent::Once => Err("only in a phase over the row".into()),
        }
    }

    fn temp(&self, temp: u16, ty: Ty) -> Result<(), String> {
        self.row()?;
        match self.body.temps.get(usize::from(temp)) {
            Some(&t) if t == ty => Ok(()),
            Some(t) => Err(format!("temporary {temp} is {t:?}, not {ty:?}")),
            None => Err(format!("there is no temporary {temp}")),
        }
    }

    fn set(&mut self, scalar: u16, ty: Ty) -> Result<(), String> {
        let known = self.scalars.get(usize::from(scalar)).ok_or_else(|| format!("there is no scalar {scalar}"))?;
        let before = self.set.iter().find(|(s, _)| *s == usize::from(scalar)).map(|(_, ty)| *ty);
        match before.or(*known) {
            Some(t) if t != ty => Err(format!("scalar {scalar} is {t:?}, not {ty:?}")),
            _ => {
                self.set.push((usize::from(scalar), ty));
                Ok(())
            }
        }
    }

    fn op(&mut self, op: Op) -> Result<Option<Ty>, String> {
        let ty = match op {
            Op::Const(ty, bits) => {
                let wide = bits.checked_shr(8 * ty.size() as u32).unwrap_or(0);
                if wide != 0 || (ty == Ty::Pred && bits > 1) {
                    return Err(format!("{bits:#x} does not fit a {ty:?}"));
                }
                ty
            }
            Op::Load(arg) => self.arg(arg)?,
            Op::LoadAt(arg, at) => self.table(arg, at)?,
            Op::LoadTemp(temp, ty) => {
                self.temp(temp, ty)?;
                ty
            }
            Op::Scalar(scalar, ty) => match self.scalars.get(usize::from(scalar)) {
                Some(Some(t)) if *t == ty => ty,
                Some(Some(t)) => return Err(format!("scalar {scalar} is {t:?}, not {ty:?}")),
                Some(None) => return Err(format!("scalar {scalar} is not set in an earlier phase")),
                None => return Err(format!("there is no scalar {scalar}")),
            },
            Op::Index(_, ty) => {
                if ty == Ty::Pred {
                    return Err("an index is a number".into());
                }
                ty
            }
            Op::Unary(f, a) => {
                let ty = self.value(a)?;
                unary(f, ty).ok_or_else(|| format!("not defined on {ty:?}"))?
            }
            Op::Binary(f, a, b) => {
                let ty = self.same(a, b)?;
                binary(f, ty).then_some(ty).ok_or_else(|| format!("not defined on {ty:?}"))?
            }
            Op::Compare(_, a, b) => {
                self.same(a, b)?;
                Ty::Pred
            }
            Op::Select(p, a, b) => {
                let pred = self.value(p)?;
                if pred != Ty::Pred {
                    return Err(format!("value {p} is {pred:?}, not Pred"));
                }
                self.same(a, b)?
            }
            Op::MulAdd(a, b, c) => {
                self.same(a, b)?;
                let ty = self.same(a, c)?;
                if ty == Ty::Pred {
                    return Err("not defined on Pred".into());
                }
                ty
            }
            Op::Far(f, a, near) => {
                let ty = self.same(a, near)?;
                if super::interp::far(f, ty).is_none() {
                    return Err(format!("not defined on {ty:?}"));
                }
                ty
            }
            Op::FarApart(f, a, b, near) => {
                self.same(a, b)?;
                let ty = self.same(a, near)?;
                if super::interp::far_apart(f, ty).is_none() {
                    return Err(format!("not defined on {ty:?}"));
                }
                ty
            }
            Op::Convert(ty, a) => {
                self.value(a)?;
                ty
            }
            Op::Bitcast(ty, a) => {
                let from = self.value(a)?;
                if from != ty && (from.size() != ty.size() || from == Ty::Pred || ty == Ty::Pred) {
                    return Err(format!("{from:?} and {ty:?} differ in width"));
                }
                ty
            }
            Op::Round(elem, a) => {
                let ty = self.value(a)?;
                if ty != Ty::F32 || elem.class() != ElementClass::Float {
                    return Err(format!("rounds F32 to floats, not {ty:?} to {elem}"));
                }
                ty
            }
            Op::Store(arg, a) => {
                let (to, from) = (self.arg(arg)?, self.value(a)?);
                if to != from {
                    return Err(format!("value {a} is {from:?}, but argument {arg} holds {to:?}"));
                }
                if !self.body.args[usize::from(arg)].output {
                    return Err(format!("argument {arg} is not an output"));
                }
                return Ok(None);
            }
            Op::StoreAt(arg, at, a) => {
                if self.phase.extent == Extent::Row {
                    return Err("only in a phase that runs once".into());
                }
                let (to, from) = (self.table(arg, at)?, self.value(a)?);
                let elem = self.body.args[usize::from(arg)].elem;
                if to.elem() != elem || to == Ty::Pred {
                    return Err(format!("argument {arg} is {elem}, which is converted"));
                }
                if to != from {
                    return Err(format!("value {a} is {from:?}, but argument {arg} holds {to:?}"));
                }
                if !self.body.args[usize::from(arg)].output {
                    return Err(format!("argument {arg} is not an output"));
                }
                return Ok(None);
            }
            Op::StoreTemp(temp, a) => {
                self.temp(temp, self.value(a)?)?;
                return Ok(None);
            }
            Op::SetScalar(scalar, a) => {
                if self.phase.extent == Extent::Row {
                    return Err("only in a phase that runs once".into());
                }
                self.set(scalar, self.value(a)?)?;
                return Ok(None);
            }
            Op::Reduce(how, scalar, a) => {
                self.row()?;
                let ty = self.value(a)?;
                use super::ir::Combine::{And, Or, Xor};
                if ty.is_float() && matches!(how, And | Or | Xor) {
                    return Err(format!("not defined on {ty:?}"));
                }
                self.set(scalar, ty)?;
                return Ok(None);
            }
        };
        Ok(Some(ty))
    }
}

/// Type of the result of `f` on `ty`; `None` where it is not defined, or kernels do not have it.
pub fn unary(f: UnaryOp, ty: Ty) -> Option<Ty> {
    let defined = match f {
        UnaryOp::Negate | UnaryOp::Abs | UnaryOp::Sign => ty != Ty::Pred,
        UnaryOp::Not => !ty.is_float(),
        UnaryOp::Popcnt | UnaryOp::CountLeadingZeros => ty.is_integer(),
        UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Cbrt
        | UnaryOp::Exponential
        | UnaryOp::ExponentialMinusOne
        | UnaryOp::Log
        | UnaryOp::LogPlusOne
        | UnaryOp::Tanh
        | UnaryOp::Logistic
        | UnaryOp::Sine
        | UnaryOp::Cosine
        | UnaryOp::Tan
        | UnaryOp::ChloTan
        | UnaryOp::Erf
        | UnaryOp::Erfc
        | UnaryOp::ErfInv
        | UnaryOp::Floor
        | UnaryOp::Ceil
        | UnaryOp::RoundNearestEven
        | UnaryOp::RoundNearestAfz
        | UnaryOp::IsFinite
        | UnaryOp::IsInf
        | UnaryOp::IsNegInf
        | UnaryOp::IsPosInf
        | UnaryOp::Acos
        | UnaryOp::Acosh
        | UnaryOp::Asin
        | UnaryOp::Asinh
        | UnaryOp::Atan
        | UnaryOp::Atanh
        | UnaryOp::BesselI1e
        | UnaryOp::Cosh
        | UnaryOp::Digamma
        | UnaryOp::Lgamma
        | UnaryOp::Sinh => ty.is_float(),
        // The fusion writes this as a product.
        UnaryOp::Square => false,
        // Of complex numbers, which are no lanes.
        UnaryOp::AsinAcosKernel | UnaryOp::Conj | UnaryOp::Imag | UnaryOp::Real => false,
    };
    let is_question = matches!(f, UnaryOp::IsFinite | UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf);
    let result = if is_question { Ty::Pred } else { ty };
    defined.then_some(result)
}

/// Whether `f` is defined on `ty`, and kernels have it.
pub fn binary(f: BinaryOp, ty: Ty) -> bool {
    match f {
        BinaryOp::Add | BinaryOp::Multiply | BinaryOp::Maximum | BinaryOp::Minimum => true,
        BinaryOp::Subtract | BinaryOp::Divide | BinaryOp::Remainder | BinaryOp::Power => ty != Ty::Pred,
        BinaryOp::Atan2 | BinaryOp::Polygamma | BinaryOp::Zeta | BinaryOp::NextAfter => ty.is_float(),
        BinaryOp::Mulhi => matches!(ty, Ty::I16 | Ty::U16 | Ty::I32 | Ty::U32 | Ty::U64),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !ty.is_float(),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical => ty.is_integer(),
        // Of complex numbers, which are no lanes.
        BinaryOp::Complex => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::interp::table;
    use super::super::ir::*;
    use super::*;
    use meshwork_ir::ElementType;

    fn body(phases: Vec<(Extent, Vec<Op>)>) -> Body {
        let arg = |elem, output| Arg { elem, access: Access::Unit, output };
        Body {
            args: vec![arg(ElementType::BF16, false), arg(ElementType::F32, true)],
            temps: vec![Ty::F32],
            scalars: 2,
            phases: phases.into_iter().map(|(extent, ops)| Phase { extent, ops }).collect(),
        }
    }

    fn reason(ops: Vec<Op>) -> String {
        match check(&body(vec![(Extent::Row, ops)])) {
            Err(KernelError::Op { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn softmax_is_right() {
        let types = check(&body(vec![
            (Extent::Row, vec![Op::Load(0), Op::Reduce(Combine::Max, 0, 0)]),
            (Extent::Once, vec![Op::Scalar(0, Ty::F32), Op::Unary(UnaryOp::Negate, 0), Op::SetScalar(1, 1)]),
            (Extent::Row, vec![Op::Load(0), Op::Scalar(1, Ty::F32), Op::Binary(BinaryOp::Add, 0, 1), Op::Store(1, 2)]),
        ]));
        assert_eq!(types.unwrap()[2], [Some(Ty::F32), Some(Ty::F32), Some(Ty::F32), None]);
    }

    #[test]
    fn every_function_that_is_defined_has_a_loop() {
        for ty in Ty::ALL {
            for &f in UnaryOp::ALL {
                assert_eq!(unary(f, ty).is_some(), table::unary(f, ty).is_some(), "{f:?} of {ty:?}");
            }
            for &f in BinaryOp::ALL {
                assert_eq!(binary(f, ty), table::binary(f, ty).is_some(), "{f:?} of {ty:?}");
            }
        }
    }

    #[test]
    fn breaches_are_named() {
        assert_eq!(reason(vec![Op::Unary(UnaryOp::Negate, 0)]), "value 0 is not made yet");
        assert_eq!(reason(vec![Op::Load(0), Op::Store(0, 0)]), "argument 0 is not an output");
        assert_eq!(reason(vec![Op::Load(0), Op::Store(1, 0), Op::Unary(UnaryOp::Negate, 1)]), "op 1 makes no value");
        assert_eq!(reason(vec![Op::Load(9)]), "there is no argument 9");
        assert_eq!(reason(vec![Op::Scalar(0, Ty::F32)]), "scalar 0 is not set in an earlier phase");
        assert_eq!(reason(vec![Op::Load(0), Op::SetScalar(0, 0)]), "only in a phase that runs once");
        assert_eq!(reason(vec![Op::Load(0), Op::Unary(UnaryOp::Not, 0)]), "not defined on F32");
        assert_eq!(reason(vec![Op::Load(0), Op::Select(0, 0, 0)]), "value 0 is F32, not Pred");
        assert_eq!(reason(vec![Op::Load(0), Op::Bitcast(Ty::I64, 0)]), "F32 and I64 differ in width");
        assert_eq!(reason(vec![Op::LoadTemp(0, Ty::I8)]), "temporary 0 is F32, not I8");
        let two = vec![Op::Load(0), Op::Const(Ty::I32, 1), Op::Binary(BinaryOp::Add, 0, 1)];
        assert_eq!(reason(two), "value 0 is F32 but value 1 is I32");
    }
}
