//! Elementwise operations: one shape in, the same shape out.

use std::sync::Arc;

use smol_str::format_smolstr;

use super::check::{Elems, shapes_agree, types_agree};
use super::{Inferred, OpTypes};
use crate::op::{BinaryOp, UnaryOp};
use crate::{Attr, DYNAMIC, ElementType, TensorType, Type};

const NAMES: [&str; 3] = ["lhs", "rhs", "third"];

/// The result of a function of one element.
pub(super) fn unary(t: &OpTypes, op: UnaryOp) -> Inferred {
    match op {
        UnaryOp::Cbrt
        | UnaryOp::Cosine
        | UnaryOp::Exponential
        | UnaryOp::ExponentialMinusOne
        | UnaryOp::Log
        | UnaryOp::LogPlusOne
        | UnaryOp::Logistic
        | UnaryOp::Rsqrt
        | UnaryOp::Sine
        | UnaryOp::Sqrt
        | UnaryOp::Tan
        | UnaryOp::Tanh => approximate(t),
        UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::RoundNearestAfz | UnaryOp::RoundNearestEven => {
            same_type(t, 1, Elems::FLOAT)
        }
        UnaryOp::CountLeadingZeros | UnaryOp::Popcnt => same_type(t, 1, Elems::INT),
        UnaryOp::Not => same_type(t, 1, Elems::PRED_INT),
        UnaryOp::Negate => same_type(t, 1, Elems::NUMBER),
        UnaryOp::Sign => same_type(t, 1, Elems::SIGNED_NUMBER),
        UnaryOp::Abs => unary_to(t, Elems::SIGNED_NUMBER, ElementType::real_part),
        UnaryOp::Imag | UnaryOp::Real => unary_to(t, Elems::FLOAT_COMPLEX, ElementType::real_part),
        UnaryOp::IsFinite | UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf => {
            unary_to(t, Elems::FLOAT, |_| ElementType::I1)
        }
        UnaryOp::Acos
        | UnaryOp::Acosh
        | UnaryOp::Asin
        | UnaryOp::Asinh
        | UnaryOp::Atan
        | UnaryOp::Atanh
        | UnaryOp::BesselI1e
        | UnaryOp::Conj
        | UnaryOp::Cosh
        | UnaryOp::Sinh
        | UnaryOp::Square
        | UnaryOp::ChloTan => same_type(t, 1, Elems::FLOAT_COMPLEX),
        UnaryOp::AsinAcosKernel => same_type(t, 1, Elems::COMPLEX),
        UnaryOp::Digamma | UnaryOp::Erf | UnaryOp::ErfInv | UnaryOp::Erfc | UnaryOp::Lgamma => {
            same_type(t, 1, Elems::FLOAT)
        }
    }
}

/// The result of a function of two elements.
pub(super) fn binary(t: &OpTypes, op: BinaryOp) -> Inferred {
    match op {
        BinaryOp::Add | BinaryOp::Maximum | BinaryOp::Minimum | BinaryOp::Multiply => same_type(t, 2, Elems::ANY),
        BinaryOp::Divide | BinaryOp::Power | BinaryOp::Remainder | BinaryOp::Subtract => same_type(t, 2, Elems::NUMBER),
        BinaryOp::Atan2 => same_type(t, 2, Elems::FLOAT_COMPLEX),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => same_type(t, 2, Elems::PRED_INT),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical | BinaryOp::Mulhi => {
            same_type(t, 2, Elems::INT)
        }
        BinaryOp::NextAfter | BinaryOp::Polygamma | BinaryOp::Zeta => same_type(t, 2, Elems::FLOAT),
        BinaryOp::Complex => complex(t),
    }
}

/// Result and operands have one type.
pub(super) fn same_type(t: &OpTypes, arity: usize, elems: Elems) -> Inferred {
    t.operand_count(arity)?;
    let first = &t.operands[0];
    if first.elem().is_some_and(|elem| elems.has(elem)) && (1..arity).all(|i| t.operands.id(i) == t.operands.id(0)) {
        return Ok(t.same(0).into());
    }
    agreeing(t, arity, elems)
}

/// Operands of types that agree, though they are not one.
fn agreeing(t: &OpTypes, arity: usize, elems: Elems) -> Inferred {
    let first = &t.operands[0];
    let name = |i: usize| if arity == 1 { "operand" } else { NAMES[i.min(2)] };
    for i in 0..arity {
        t.tensor_of(i, name(i), elems)?;
    }
    let mut result = first.clone();
    for i in 1..arity {
        if !types_agree(first, &t.operands[i]) {
            return Err(t.bad_operand(i, name(i), format_smolstr!("of the type of operand 0 ({}), {first}", name(0))));
        }
        result = most_specific(&result, &t.operands[i]);
    }
    Ok(result.into())
}

/// One operand and a result of its type, with a wanted accuracy.
pub(super) fn approximate(t: &OpTypes) -> Inferred {
    let result = same_type(t, 1, Elems::FLOAT_COMPLEX)?;
    const ATTR: &str = "result_accuracy";
    let Some(Attr::Opaque(text)) = t.attrs.get(ATTR) else { return Ok(result) };
    let number = |name: &str| -> f64 {
        let rest = text.find(name).map_or("", |at| text[at + name.len()..].trim_start_matches([' ', '=']));
        rest.split([',', '>']).next().and_then(|n| n.trim().parse().ok()).unwrap_or(0.0)
    };
    let tolerances = [number("atol"), number("rtol"), number("ulps")];
    if tolerances.iter().any(|&n| n < 0.0) {
        return Err(t.bad_attr(ATTR, format!("has a negative tolerance: {text}")));
    }
    if !text.contains("TOLERANCE") && tolerances.iter().any(|&n| n != 0.0) {
        return Err(t.bad_attr(ATTR, format!("has tolerances, which only mode TOLERANCE uses: {text}")));
    }
    Ok(result)
}

/// Of two types that agree, each extent from the one that knows it.
pub(super) fn most_specific(a: &Type, b: &Type) -> Type {
    let (Type::Tensor(x), Type::Tensor(y)) = (a, b) else { return a.clone() };
    if x == y || x.is_static() {
        return a.clone();
    }
    let dims = x.dims.iter().zip(&y.dims).map(|(&p, &q)| if p == DYNAMIC { q } else { p });
    let encoding = x.encoding.clone().or_else(|| y.encoding.clone());
    Type::Tensor(Arc::new(TensorType { dims: dims.collect(), elem: x.elem, encoding }))
}

/// One operand; the result has its shape and another element type.
pub(super) fn unary_to(t: &OpTypes, elems: Elems, elem: impl Fn(ElementType) -> ElementType) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor_of(0, "operand", elems)?;
    Ok(t.result_like(x, elem(x.elem)).into())
}

/// `convert`: the result's element type is free.
pub(super) fn convert(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    Ok(t.result_like(x, to.elem).into())
}

/// `reduce_precision`.
pub(super) fn reduce_precision(t: &OpTypes) -> Inferred {
    let result = same_type(t, 1, Elems::FLOAT)?;
    let (exponent, mantissa) = (t.int("exponent_bits")?, t.int("mantissa_bits")?);
    if exponent < 1 {
        return Err(t.bad_attr("exponent_bits", format!("must be at least 1, but is {exponent}")));
    }
    if mantissa < 0 {
        return Err(t.bad_attr("mantissa_bits", format!("must not be negative, but is {mantissa}")));
    }
    Ok(result)
}

/// `compare`: the result is `i1`.
pub(super) fn compare(t: &OpTypes) -> Inferred {
    same_type(t, 2, Elems::ANY)?;
    let x = t.tensor(0, "lhs")?;
    let direction = t.attrs.get("comparison_direction").and_then(Attr::as_enum);
    if !matches!(direction, Some("EQ" | "NE" | "GE" | "GT" | "LE" | "LT")) {
        let expected = "one of EQ, NE, GE, GT, LE, LT";
        return Err(t.missing("comparison_direction", expected));
    }
    Ok(t.result_like(x, ElementType::I1).into())
}

/// `complex`: two floats make a complex number.
pub(super) fn complex(t: &OpTypes) -> Inferred {
    same_type(t, 2, Elems::FLOAT)?;
    let x = t.tensor(0, "lhs")?;
    let elem = match x.elem {
        ElementType::F32 => ElementType::C64,
        ElementType::F64 => ElementType::C128,
        _ => return Err(t.bad_operand(0, "lhs", "a tensor of f32 or f64")),
    };
    Ok(t.result_like(x, elem).into())
}

/// `clamp`: the bounds are scalars or have the operand's shape.
pub(super) fn clamp(t: &OpTypes) -> Inferred {
    t.operand_count(3)?;
    let x = t.tensor(1, "operand")?;
    for (i, name) in [(0, "min"), (2, "max")] {
        let bound = t.tensor(i, name)?;
        if bound.elem != x.elem || bound.rank() != 0 && !shapes_agree(&bound.dims, &x.dims) {
            let scalar = TensorType::new([], x.elem);
            return Err(t.bad_operand(i, name, format_smolstr!("{scalar} or of the operand's type {x}")));
        }
    }
    Ok(t.same(1).into())
}

/// `select`: the predicate is a scalar or has the other operands' shape.
pub(super) fn select(t: &OpTypes) -> Inferred {
    t.operand_count(3)?;
    let pred = t.tensor_of(0, "pred", Elems::PRED)?;
    let yes = t.tensor(1, "on_true")?;
    t.tensor(2, "on_false")?;
    if !types_agree(&t.operands[1], &t.operands[2]) {
        return Err(t.bad_operand(2, "on_false", format_smolstr!("of the type of on_true, {yes}")));
    }
    if pred.rank() != 0 && !shapes_agree(&pred.dims, &yes.dims) {
        let full = yes.with_elem(ElementType::I1);
        return Err(t.bad_operand(0, "pred", format_smolstr!("tensor<i1> or {full}, for it chooses between {yes}")));
    }
    Ok(if t.operands.id(1) == t.operands.id(2) {
        t.same(1)
    } else {
        most_specific(&t.operands[1], &t.operands[2]).into()
    }
    .into())
}
