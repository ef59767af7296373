//! An elementwise operation decoded once, then applied to many elements.

use super::compare::Comparison;
use super::{CompareType, precision};
use crate::EvalError;
use crate::special::Cplx;
use meshwork_ir::op::MixedOp;
use meshwork_ir::scalar::{round, wrap_signed, wrap_unsigned};
use meshwork_ir::{Direction, ElementClass, ElementType, Module, OpId, OpKind, Scalar};

/// What an operation does to its elements, as a function on the carriers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    Bool1(fn(bool) -> bool),
    Bool2(fn(bool, bool) -> bool),
    Int1(fn(i64, usize) -> i64),
    Int2(fn(i64, i64, usize) -> i64),
    UInt1(fn(u64, usize) -> u64),
    UInt2(fn(u64, u64, usize) -> u64),
    /// Bits of either kind of integer, zero-extended.
    Bits1(fn(u64, usize) -> u64),
    /// Bits of either kind of integer, zero-extended.
    Bits2(fn(u64, u64, usize) -> u64),
    Real1(fn(f64) -> f64),
    Real2(fn(f64, f64) -> f64),
    RealTest(fn(f64) -> bool),
    Complex1(fn(Cplx) -> Cplx),
    Complex2(fn(Cplx, Cplx) -> Cplx),
    ComplexToReal(fn(Cplx) -> f64),
    MakeComplex,
    Compare(Comparison),
    Select,
    Clamp,
    Convert,
    /// Exponent and mantissa bits.
    ReducePrecision(u32, u32),
    NextAfter,
}

/// An elementwise operation between known element types.
#[derive(Clone, Copy, Debug)]
pub struct ScalarOp {
    pub(super) body: Body,
    pub(super) arg: ElementType,
    pub(super) result: ElementType,
    pub(super) arity: usize,
}

/// The attributes that change what an elementwise operation computes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra {
    pub compare: Option<Comparison>,
    pub precision: Option<(u32, u32)>,
}

impl ScalarOp {
    /// The operation `op`, if it is an elementwise one between types it is defined for.
    pub fn decode(module: &Module, op: OpId) -> Result<ScalarOp, EvalError> {
        let data = module.op(op);
        let kind = data.kind();
        let elem = |value| {
            module
                .ty(value)
                .elem()
                .ok_or_else(|| EvalError::unsupported(module, op, format!("an element of type '{}'", module.ty(value))))
        };
        // The first operand of a select is the predicate; the second has the type it works on.
        let typed = usize::from(kind == OpKind::Mixed(MixedOp::Select));
        let (Some(&operand), &[result]) = (data.operands().get(typed), data.results()) else {
            return Err(EvalError::invalid(
                module,
                op,
                format!("{} operands and {} results", data.operands().len(), data.results().len()),
            ));
        };
        let (arg, result) = (elem(operand)?, elem(result)?);
        let mut extra = Extra::default();
        if kind == OpKind::Mixed(MixedOp::Compare) {
            let text = data.enum_value("comparison_direction").unwrap_or("");
            let direction = Direction::from_text(text).ok_or_else(|| {
                EvalError::invalid(
                    module,
                    op,
                    format!("comparison_direction is '{text}', not EQ, NE, GE, GT, LE or LT"),
                )
            })?;
            let order = match data.enum_value("compare_type") {
                Some("TOTALORDER") => CompareType::TotalOrder,
                _ => CompareType::Natural,
            };
            extra.compare = Some(Comparison { direction, order });
        }
        if kind == OpKind::Mixed(MixedOp::ReducePrecision) {
            let bits = |name| {
                data.int(name)
                    .and_then(|v| u32::try_from(v).ok())
                    .ok_or_else(|| EvalError::invalid(module, op, format!("attribute '{name}' is missing or negative")))
            };
            extra.precision = Some((bits("exponent_bits")?, bits("mantissa_bits")?));
        }
        let decoded = ScalarOp::with_extra(kind, arg, result, extra)
            .ok_or_else(|| EvalError::unsupported(module, op, format!("elements of type {arg} to {result}")))?;
        if data.operands().len() != decoded.arity {
            let message = format!("{} operands where {} are needed", data.operands().len(), decoded.arity);
            return Err(EvalError::invalid(module, op, message));
        }
        Ok(decoded)
    }

    /// The operation `kind` on elements of type `arg`; `None` if it is not elementwise, not defined for the type,
    /// or needs an attribute (a comparison, a precision).
    pub fn new(kind: OpKind, arg: ElementType, result: ElementType) -> Option<ScalarOp> {
        ScalarOp::with_extra(kind, arg, result, Extra::default())
    }

    /// A comparison of elements of type `arg`.
    pub fn compare(arg: ElementType, comparison: Comparison) -> ScalarOp {
        ScalarOp { body: Body::Compare(comparison), arg, result: ElementType::I1, arity: 2 }
    }

    fn with_extra(kind: OpKind, arg: ElementType, result: ElementType, extra: Extra) -> Option<ScalarOp> {
        let body = super::table::body(kind, arg, extra)?;
        let arity = match body {
            Body::Select | Body::Clamp => 3,
            Body::Bool2(_) | Body::Int2(_) | Body::UInt2(_) | Body::Bits2(_) | Body::Real2(_) => 2,
            Body::Complex2(_) | Body::MakeComplex | Body::Compare(_) | Body::NextAfter => 2,
            Body::Bool1(_) | Body::Int1(_) | Body::UInt1(_) | Body::Bits1(_) | Body::Real1(_) | Body::RealTest(_) => 1,
            Body::Complex1(_) | Body::ComplexToReal(_) | Body::Convert | Body::ReducePrecision(..) => 1,
        };
        let natural = match body {
            Body::RealTest(_) | Body::Compare(_) => ElementType::I1,
            Body::ComplexToReal(_) => arg.real_part(),
            Body::MakeComplex if arg == ElementType::F32 => ElementType::C64,
            Body::MakeComplex => ElementType::C128,
            Body::Convert => result,
            _ => arg,
        };
        (natural == result).then_some(ScalarOp { body, arg, result, arity })
    }

    /// Number of operands.
    pub fn arity(&self) -> usize {
        self.arity
    }

    /// Element type of the operands (of a select: of the second and third).
    pub fn arg(&self) -> ElementType {
        self.arg
    }

    /// Element type of the result.
    pub fn result(&self) -> ElementType {
        self.result
    }
}

/// The result of `op` on elements of its type. Missing arguments count as zero.
#[inline]
pub fn apply(op: &ScalarOp, args: &[Scalar]) -> Scalar {
    let arg = |i: usize| args.get(i).copied().unwrap_or(Scalar::zero(op.arg));
    let bits = || op.arg.bits();
    let word = |i: usize| wrap_unsigned(arg(i).as_i64() as u64, op.arg.bits());
    let integer = |v: u64| match op.result.class() {
        ElementClass::Signed => Scalar::Int(wrap_signed(v as i64, op.result.bits())),
        _ => Scalar::UInt(wrap_unsigned(v, op.result.bits())),
    };
    let complex = |i: usize| Cplx::from(arg(i).as_complex());
    let pair = |c: Cplx| Scalar::Complex(round(op.result, c.re), round(op.result, c.im));
    match op.body {
        Body::Real2(f) => Scalar::Float(round(op.result, f(arg(0).as_f64(), arg(1).as_f64()))),
        Body::Real1(f) => Scalar::Float(round(op.result, f(arg(0).as_f64()))),
        Body::Int2(f) => integer(f(arg(0).as_i64(), arg(1).as_i64(), bits()) as u64),
        Body::Int1(f) => integer(f(arg(0).as_i64(), bits()) as u64),
        Body::UInt2(f) | Body::Bits2(f) => integer(f(word(0), word(1), bits())),
        Body::UInt1(f) | Body::Bits1(f) => integer(f(word(0), bits())),
        Body::Bool2(f) => Scalar::Bool(f(arg(0).as_bool(), arg(1).as_bool())),
        Body::Bool1(f) => Scalar::Bool(f(arg(0).as_bool())),
        Body::RealTest(f) => Scalar::Bool(f(arg(0).as_f64())),
        Body::Complex2(f) => pair(f(complex(0), complex(1))),
        Body::Complex1(f) => pair(f(complex(0))),
        Body::ComplexToReal(f) => Scalar::Float(round(op.result, f(complex(0)))),
        Body::MakeComplex => Scalar::Complex(arg(0).as_f64(), arg(1).as_f64()),
        Body::Compare(comparison) => Scalar::Bool(comparison.holds(arg(0), arg(1))),
        Body::Select => arg(if arg(0).as_bool() { 1 } else { 2 }),
        Body::Clamp => clamp(arg(0), arg(1), arg(2)),
        Body::Convert => arg(0).cast_to(op.result),
        Body::ReducePrecision(e, m) => Scalar::Float(precision::reduce(op.arg, arg(0).as_f64(), e, m)),
        Body::NextAfter => Scalar::Float(precision::next_after(op.arg, arg(0).as_f64(), arg(1).as_f64())),
    }
}

/// `min(max(x, low), high)`.
fn clamp(low: Scalar, x: Scalar, high: Scalar) -> Scalar {
    minimum(maximum(x, low), high)
}

/// The larger of two scalars of one type; complex numbers are ordered by real, then imaginary part.
pub(super) fn maximum(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::Bool(x), Scalar::Bool(y)) => Scalar::Bool(x | y),
        (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(x.max(y)),
        (Scalar::UInt(x), Scalar::UInt(y)) => Scalar::UInt(x.max(y)),
        (Scalar::Complex(ar, ai), Scalar::Complex(br, bi)) => Cplx::new(ar, ai).maximum(Cplx::new(br, bi)).into(),
        _ => Scalar::Float(super::real::maximum(a.as_f64(), b.as_f64())),
    }
}

/// The smaller of two scalars of one type; complex numbers are ordered by real, then imaginary part.
pub(super) fn minimum(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::Bool(x), Scalar::Bool(y)) => Scalar::Bool(x & y),
        (Scalar::Int(x), Scalar::Int(y)) => Scalar::Int(x.min(y)),
        (Scalar::UInt(x), Scalar::UInt(y)) => Scalar::UInt(x.min(y)),
        (Scalar::Complex(ar, ai), Scalar::Complex(br, bi)) => Cplx::new(ar, ai).minimum(Cplx::new(br, bi)).into(),
        _ => Scalar::Float(super::real::minimum(a.as_f64(), b.as_f64())),
    }
}
