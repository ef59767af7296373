//! Which ops are arithmetic on single elements, and what kernels call them.

use meshwork_ir::{ElementType, Module, OpId, OpKind};

use crate::kernel::ir::{Binary, Cmp, Ty, Unary};

/// What lanes hold for elements of this type; `None` if kernels do not know it.
pub(crate) fn lane(elem: ElementType) -> Option<Ty> {
    Some(match elem {
        ElementType::I1 => Ty::Pred,
        ElementType::I8 => Ty::I8,
        ElementType::UI8 => Ty::U8,
        ElementType::I16 => Ty::I16,
        ElementType::UI16 => Ty::U16,
        ElementType::I32 => Ty::I32,
        ElementType::UI32 => Ty::U32,
        ElementType::I64 | ElementType::Index => Ty::I64,
        ElementType::UI64 => Ty::U64,
        ElementType::BF16 | ElementType::F16 | ElementType::F32 => Ty::F32,
        ElementType::F64 => Ty::F64,
        _ => return None,
    })
}

/// Whether the type is a float.
pub(crate) fn is_float(ty: Ty) -> bool {
    matches!(ty, Ty::F32 | Ty::F64)
}

/// Bits of a lane type in memory order.
pub(crate) fn bits(ty: Ty) -> u32 {
    match ty {
        Ty::Pred | Ty::I8 | Ty::U8 => 8,
        Ty::I16 | Ty::U16 => 16,
        Ty::I32 | Ty::U32 | Ty::F32 => 32,
        Ty::I64 | Ty::U64 | Ty::F64 => 64,
    }
}

/// Least and greatest integer of a lane type.
pub(crate) fn limits(ty: Ty) -> Option<(i64, i64)> {
    Some(match ty {
        Ty::Pred => (0, 1),
        Ty::I8 => (i8::MIN.into(), i8::MAX.into()),
        Ty::U8 => (0, u8::MAX.into()),
        Ty::I16 => (i16::MIN.into(), i16::MAX.into()),
        Ty::U16 => (0, u16::MAX.into()),
        Ty::I32 => (i32::MIN.into(), i32::MAX.into()),
        Ty::U32 => (0, u32::MAX.into()),
        Ty::I64 => (i64::MIN, i64::MAX),
        Ty::U64 | Ty::F32 | Ty::F64 => return None,
    })
}

/// A function of one element.
pub(crate) fn unary(kind: OpKind) -> Option<Unary> {
    Some(match kind {
        OpKind::Abs => Unary::Abs,
        OpKind::Cbrt => Unary::Cbrt,
        OpKind::Ceil => Unary::Ceil,
        OpKind::Cosine => Unary::Cos,
        OpKind::CountLeadingZeros => Unary::Clz,
        OpKind::Exponential => Unary::Exp,
        OpKind::ExponentialMinusOne => Unary::Expm1,
        OpKind::Floor => Unary::Floor,
        OpKind::IsFinite => Unary::IsFinite,
        OpKind::Log => Unary::Log,
        OpKind::LogPlusOne => Unary::Log1p,
        OpKind::Logistic => Unary::Logistic,
        OpKind::Negate => Unary::Neg,
        OpKind::Not => Unary::Not,
        OpKind::Popcnt => Unary::Popcnt,
        OpKind::RoundNearestAfz => Unary::RoundAway,
        OpKind::RoundNearestEven => Unary::RoundEven,
        OpKind::Rsqrt => Unary::Rsqrt,
        OpKind::Sign => Unary::Sign,
        OpKind::Sine => Unary::Sin,
        OpKind::Sqrt => Unary::Sqrt,
        OpKind::Tan | OpKind::ChloTan => Unary::Tan,
        OpKind::Tanh => Unary::Tanh,
        OpKind::ChloErf => Unary::Erf,
        OpKind::ChloErfc => Unary::Erfc,
        OpKind::ChloErfInv => Unary::ErfInv,
        _ => return None,
    })
}

/// A function of two elements; on truth values, sums are `or` and products `and`.
pub(crate) fn binary(kind: OpKind, ty: Ty) -> Option<Binary> {
    if ty == Ty::Pred {
        return Some(match kind {
            OpKind::Add | OpKind::Maximum | OpKind::Or => Binary::Or,
            OpKind::Multiply | OpKind::Minimum | OpKind::And => Binary::And,
            OpKind::Xor => Binary::Xor,
            _ => return None,
        });
    }
    Some(match kind {
        OpKind::Add => Binary::Add,
        OpKind::And => Binary::And,
        OpKind::Atan2 => Binary::Atan2,
        OpKind::Divide => Binary::Div,
        OpKind::Maximum => Binary::Max,
        OpKind::Minimum => Binary::Min,
        OpKind::Multiply => Binary::Mul,
        OpKind::Or => Binary::Or,
        OpKind::Power => Binary::Pow,
        OpKind::Remainder => Binary::Rem,
        OpKind::ShiftLeft => Binary::Shl,
        OpKind::ShiftRightArithmetic => Binary::ShrArith,
        OpKind::ShiftRightLogical => Binary::ShrLogic,
        OpKind::Subtract => Binary::Sub,
        OpKind::Xor => Binary::Xor,
        _ => return None,
    })
}

/// The direction of a comparison.
pub(crate) fn direction(text: &str) -> Option<Cmp> {
    Some(match text {
        "EQ" => Cmp::Eq,
        "NE" => Cmp::Ne,
        "LT" => Cmp::Lt,
        "LE" => Cmp::Le,
        "GT" => Cmp::Gt,
        "GE" => Cmp::Ge,
        _ => return None,
    })
}

/// Whether `op` is arithmetic on elements that a kernel can do.
pub(crate) fn is_arithmetic(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let ty = |v| module.ty(v).elem().and_then(lane);
    let Some(result) = data.results().first().and_then(|&r| ty(r)) else { return false };
    let Some(operands) = data.operands().iter().map(|&v| ty(v)).collect::<Option<Vec<Ty>>>() else { return false };
    let Some(&first) = operands.first() else { return false };
    let kind = data.kind();
    match kind {
        OpKind::Convert => true,
        OpKind::Compare => {
            let total = data.enum_value("compare_type") == Some("TOTALORDER");
            !total && first != Ty::Pred && data.enum_value("comparison_direction").and_then(direction).is_some()
        }
        OpKind::Select | OpKind::ChloSquare => true,
        OpKind::Clamp => result != Ty::Pred,
        OpKind::ReducePrecision => rounding(module, op).is_some(),
        OpKind::Not => !is_float(first),
        OpKind::Abs | OpKind::Negate | OpKind::Sign => first != Ty::Pred,
        OpKind::CountLeadingZeros | OpKind::Popcnt => !is_float(first) && first != Ty::Pred,
        OpKind::And | OpKind::Or | OpKind::Xor => !is_float(first),
        OpKind::ShiftLeft | OpKind::ShiftRightArithmetic | OpKind::ShiftRightLogical => {
            !is_float(first) && first != Ty::Pred
        }
        OpKind::Atan2 => is_float(first),
        _ if unary(kind).is_some() => is_float(first),
        _ => binary(kind, first).is_some(),
    }
}

/// The type whose numbers a `reduce_precision` of `f32` leaves.
pub(crate) fn rounding(module: &Module, op: OpId) -> Option<ElementType> {
    let data = module.op(op);
    let elem = module.ty(*data.operands().first()?).elem()?;
    match (elem, data.int("exponent_bits")?, data.int("mantissa_bits")?) {
        (ElementType::F32 | ElementType::BF16, 8, 7) => Some(ElementType::BF16),
        (ElementType::F32 | ElementType::F16, 5, 10) => Some(ElementType::F16),
        _ => None,
    }
}

/// Rough cost of one element in the unit of an addition.
pub(crate) fn cost(kind: OpKind) -> u32 {
    match kind {
        OpKind::Divide | OpKind::Sqrt | OpKind::Rsqrt | OpKind::Remainder => 4,
        OpKind::Exponential | OpKind::Log | OpKind::Cbrt | OpKind::ExponentialMinusOne | OpKind::LogPlusOne => 10,
        OpKind::Tanh | OpKind::Logistic | OpKind::Sine | OpKind::Cosine | OpKind::ChloErf => 12,
        OpKind::Tan | OpKind::ChloTan | OpKind::ChloErfc | OpKind::ChloErfInv | OpKind::Power | OpKind::Atan2 => 25,
        _ => 1,
    }
}
