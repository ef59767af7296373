//! An elementwise operation decoded once, then applied to many elements.

use super::compare::Comparison;
use super::table::{binary, unary};
use super::{CompareType, precision};
use crate::EvalError;
use meshwork_ir::op::{BinaryOp, MixedOp, UnaryOp};
use meshwork_ir::{Direction, ElementType, Module, OpId, OpKind, Scalar};

/// An elementwise operation between known element types.
#[derive(Clone, Copy, Debug)]
pub struct ScalarOp {
    function: Function,
    arg: ElementType,
    result: ElementType,
}

/// What an operation does, with the attributes that change it.
#[derive(Clone, Copy, Debug)]
enum Function {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(Comparison),
    Select,
    Clamp,
    Convert,
    ReducePrecision { exponent: u32, mantissa: u32 },
}

impl ScalarOp {
    /// The operation `op`, if it is an elementwise one between types it is defined for.
    pub fn decode(module: &Module, op: OpId) -> Result<ScalarOp, EvalError> {
        let data = module.op(op);
        let kind = data.kind();
        let invalid = |message: String| EvalError::invalid(module, op, message);
        let elem = |value| {
            let ty = module.ty(value);
            ty.elem().ok_or_else(|| EvalError::unsupported(module, op, format!("an element of type '{ty}'")))
        };
        // The first operand of a select is the predicate; the second has the type it works on.
        let typed = usize::from(kind == OpKind::Mixed(MixedOp::Select));
        let (operands, results) = (data.operands(), data.results());
        let (Some(&operand), &[result]) = (operands.get(typed), results) else {
            return Err(invalid(format!("{} operands and {} results", operands.len(), results.len())));
        };
        let (arg, result) = (elem(operand)?, elem(result)?);
        let decoded = match kind {
            OpKind::Mixed(MixedOp::Compare) => {
                let text = data.enum_value("comparison_direction").unwrap_or("");
                let message = || invalid(format!("comparison_direction is '{text}', not EQ, NE, GE, GT, LE or LT"));
                let direction = Direction::from_text(text).ok_or_else(message)?;
                let order = match data.enum_value("compare_type") {
                    Some("TOTALORDER") => CompareType::TotalOrder,
                    _ => CompareType::Natural,
                };
                let compare = ScalarOp::compare(arg, Comparison { direction, order });
                (result == ElementType::I1).then_some(compare)
            }
            OpKind::Mixed(MixedOp::ReducePrecision) => {
                let bits = |name| {
                    let bits = data.int(name).and_then(|v| u32::try_from(v).ok());
                    bits.ok_or_else(|| invalid(format!("attribute '{name}' is missing or negative")))
                };
                let (exponent, mantissa) = (bits("exponent_bits")?, bits("mantissa_bits")?);
                let reduce = ScalarOp { function: Function::ReducePrecision { exponent, mantissa }, arg, result };
                (arg.is_float() && arg == result).then_some(reduce)
            }
            _ => ScalarOp::new(kind, arg, result),
        };
        let decoded =
            decoded.ok_or_else(|| EvalError::unsupported(module, op, format!("elements of type {arg} to {result}")))?;
        if operands.len() != decoded.arity() {
            return Err(invalid(format!("{} operands where {} are needed", operands.len(), decoded.arity())));
        }
        Ok(decoded)
    }

    /// The operation `kind` on elements of type `arg`; `None` if it is not elementwise, not defined for the type,
    /// or needs an attribute (a comparison, a precision).
    pub fn new(kind: OpKind, arg: ElementType, result: ElementType) -> Option<ScalarOp> {
        let zero = Scalar::zero(arg);
        // What a function is defined for and what it returns shows on zeros.
        let (function, value) = match kind {
            OpKind::Unary(op) => (Function::Unary(op), unary(op, zero, arg)?),
            OpKind::Binary(op) => (Function::Binary(op), binary(op, zero, zero, arg)?),
            OpKind::Mixed(MixedOp::Select) => (Function::Select, zero),
            OpKind::Mixed(MixedOp::Clamp) => (Function::Clamp, zero),
            OpKind::Mixed(MixedOp::Convert) => (Function::Convert, Scalar::zero(result)),
            _ => return None,
        };
        let natural = match (value, function) {
            (_, Function::Convert) => result,
            (Scalar::Bool(_), _) => ElementType::I1,
            (Scalar::Float(_), _) => arg.real_part(),
            (Scalar::Complex(..), _) if arg == ElementType::F32 => ElementType::C64,
            (Scalar::Complex(..), _) if arg == ElementType::F64 => ElementType::C128,
            _ => arg,
        };
        (natural == result).then_some(ScalarOp { function, arg, result })
    }

    /// A comparison of elements of type `arg`.
    pub fn compare(arg: ElementType, comparison: Comparison) -> ScalarOp {
        ScalarOp { function: Function::Compare(comparison), arg, result: ElementType::I1 }
    }

    /// Number of operands.
    pub fn arity(&self) -> usize {
        match self.function {
            Function::Unary(_) | Function::Convert | Function::ReducePrecision { .. } => 1,
            Function::Binary(_) | Function::Compare(_) => 2,
            Function::Select | Function::Clamp => 3,
        }
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
pub fn apply(op: &ScalarOp, args: &[Scalar]) -> Scalar {
    let arg = |i: usize| args.get(i).copied().unwrap_or(Scalar::zero(op.arg));
    let value = match op.function {
        Function::Unary(kind) => unary(kind, arg(0), op.arg),
        Function::Binary(kind) => binary(kind, arg(0), arg(1), op.arg),
        Function::Compare(comparison) => Some(Scalar::Bool(comparison.holds(arg(0), arg(1)))),
        Function::Select => Some(arg(if arg(0).as_bool() { 1 } else { 2 })),
        Function::Clamp => binary(BinaryOp::Maximum, arg(1), arg(0), op.arg)
            .and_then(|low| binary(BinaryOp::Minimum, low, arg(2), op.arg)),
        Function::Convert => Some(arg(0)),
        Function::ReducePrecision { exponent, mantissa } => {
            Some(Scalar::Float(precision::reduce(op.arg, arg(0).as_f64(), exponent, mantissa)))
        }
    };
    // A decoded operation is defined for its types.
    value.unwrap_or(Scalar::zero(op.result)).cast_to(op.result)
}
