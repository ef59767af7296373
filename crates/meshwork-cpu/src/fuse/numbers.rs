//! Which ops are arithmetic on single elements, and what kernels call them.

use meshwork_ir::op::{BinaryOp, MixedOp, UnaryOp};
use meshwork_ir::{ElementType, Module, OpId, OpKind, ValueId};

use crate::kernel::ir::{Cmp, Ty};
use crate::kernel::{check, is_byte_float};

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
        _ if is_byte_float(elem) => Ty::F32,
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

/// What `f` is on values of type `ty`: on truth values, sums are `or` and products `and`.
pub(crate) fn on(f: BinaryOp, ty: Ty) -> BinaryOp {
    match f {
        BinaryOp::Add | BinaryOp::Maximum if ty == Ty::Pred => BinaryOp::Or,
        BinaryOp::Multiply | BinaryOp::Minimum if ty == Ty::Pred => BinaryOp::And,
        _ => f,
    }
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
    let byte = |v: ValueId| module.ty(v).elem().is_some_and(is_byte_float);
    if byte(data.results()[0]) || data.operands().iter().any(|&v| byte(v)) {
        return is_exact_on_bytes(module, op);
    }
    match data.kind() {
        OpKind::Unary(UnaryOp::Square) => true,
        OpKind::Unary(f) => check::unary(f, first).is_some(),
        OpKind::Binary(f) => check::binary(f, first),
        OpKind::Mixed(f) => match f {
            MixedOp::Convert | MixedOp::Select => true,
            MixedOp::Compare => {
                let total = data.enum_value("compare_type") == Some("TOTALORDER");
                !total && first != Ty::Pred && data.enum_value("comparison_direction").and_then(direction).is_some()
            }
            MixedOp::Clamp => result != Ty::Pred,
            MixedOp::ReducePrecision => rounding(module, op).is_some(),
            MixedOp::UniformDequantize | MixedOp::UniformQuantize => false,
        },
        OpKind::Source(_)
        | OpKind::Movement(_)
        | OpKind::Dynamic(_)
        | OpKind::Contract(_)
        | OpKind::Linalg(_)
        | OpKind::Body(_)
        | OpKind::Control(_)
        | OpKind::Token(_)
        | OpKind::Collective(_)
        | OpKind::Chlo(_)
        | OpKind::Sdy(_)
        | OpKind::Check(_)
        | OpKind::Unregistered => false,
    }
}

/// Whether `op`, which has floats of one byte, rounds once if at all: lanes hold such numbers as `f32`.
fn is_exact_on_bytes(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let exact = |v: ValueId| match module.ty(v).elem() {
        Some(elem) => is_byte_float(elem) || elem == ElementType::F32 || elem.bits() <= 16,
        None => false,
    };
    match data.kind() {
        OpKind::Mixed(MixedOp::Select) => true,
        OpKind::Mixed(MixedOp::Convert) => exact(data.operands()[0]),
        OpKind::Mixed(MixedOp::Compare) => {
            data.enum_value("compare_type") != Some("TOTALORDER")
                && data.enum_value("comparison_direction").and_then(direction).is_some()
        }
        _ => false,
    }
}

/// The type whose numbers a `reduce_precision` leaves. With fewer bits of the exponent it leaves no subnormal numbers, which `f16` has.
pub(crate) fn rounding(module: &Module, op: OpId) -> Option<ElementType> {
    let data = module.op(op);
    let elem = module.ty(*data.operands().first()?).elem()?;
    match (elem, data.int("exponent_bits")?, data.int("mantissa_bits")?) {
        (ElementType::F32 | ElementType::BF16, 8, 7) => Some(ElementType::BF16),
        (ElementType::F16, 5, 10) => Some(ElementType::F16),
        _ => None,
    }
}

/// Arithmetic on some kind of values.
pub(crate) trait Arithmetic {
    /// What stands for an element.
    type Value: Copy;
    fn ty(&self, value: Self::Value) -> Ty;
    fn unary(&mut self, f: UnaryOp, x: Self::Value) -> Self::Value;
    fn binary(&mut self, f: BinaryOp, x: Self::Value, y: Self::Value) -> Self::Value;
    fn compare(&mut self, f: Cmp, x: Self::Value, y: Self::Value) -> Self::Value;
    fn select(&mut self, p: Self::Value, x: Self::Value, y: Self::Value) -> Self::Value;
    fn convert(&mut self, ty: Ty, x: Self::Value) -> Self::Value;
    fn bitcast(&mut self, ty: Ty, x: Self::Value) -> Self::Value;
    fn round(&mut self, elem: ElementType, x: Self::Value) -> Self::Value;
}

/// What `op`, which [`is_arithmetic`], gives for an element of each operand.
pub(crate) fn apply<A: Arithmetic>(a: &mut A, module: &Module, op: OpId, x: &[A::Value]) -> Option<A::Value> {
    let data = module.op(op);
    let elem = |v| module.ty(v).elem();
    let (from, to) = (elem(*data.operands().first()?), elem(*data.results().first()?));
    let ty = to.and_then(lane)?;
    Some(match (data.kind(), x) {
        (OpKind::Mixed(MixedOp::Convert), &[x]) => {
            let wide = a.convert(ty, x);
            match to {
                Some(e) if ty == Ty::F32 && e.bits() < 32 && from != to => a.round(e, wide),
                _ => wide,
            }
        }
        (OpKind::Mixed(MixedOp::ReducePrecision), &[x]) => a.round(rounding(module, op)?, x),
        (OpKind::Mixed(MixedOp::Compare), &[x, y]) => {
            a.compare(direction(data.enum_value("comparison_direction")?)?, x, y)
        }
        (OpKind::Mixed(MixedOp::Select), &[p, x, y]) => a.select(p, x, y),
        (OpKind::Mixed(MixedOp::Clamp), &[low, x, high]) => {
            let bounded = a.binary(BinaryOp::Maximum, x, low);
            a.binary(BinaryOp::Minimum, bounded, high)
        }
        (OpKind::Unary(UnaryOp::Square), &[x]) => a.binary(BinaryOp::Multiply, x, x),
        (OpKind::Unary(UnaryOp::Abs), &[x]) if ty.is_unsigned() => x,
        (OpKind::Unary(f), &[x]) => a.unary(f, x),
        (OpKind::Binary(f), &[x, y]) => a.binary(on(f, a.ty(x)), x, y),
        _ => return None,
    })
}

/// Rough cost of one element in the unit of an addition.
pub(crate) fn cost(kind: OpKind) -> u32 {
    match kind {
        OpKind::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt) | OpKind::Binary(BinaryOp::Divide | BinaryOp::Remainder) => 4,
        OpKind::Unary(
            UnaryOp::Exponential | UnaryOp::ExponentialMinusOne | UnaryOp::Log | UnaryOp::LogPlusOne | UnaryOp::Cbrt,
        ) => 10,
        OpKind::Unary(UnaryOp::Tanh | UnaryOp::Logistic | UnaryOp::Sine | UnaryOp::Cosine | UnaryOp::Erf) => 12,
        OpKind::Unary(UnaryOp::Tan | UnaryOp::ChloTan | UnaryOp::Erfc | UnaryOp::ErfInv)
        | OpKind::Binary(BinaryOp::Power | BinaryOp::Atan2) => 25,
        OpKind::Unary(
            UnaryOp::Acos
            | UnaryOp::Acosh
            | UnaryOp::Asin
            | UnaryOp::Asinh
            | UnaryOp::Atan
            | UnaryOp::Atanh
            | UnaryOp::BesselI1e
            | UnaryOp::Cosh
            | UnaryOp::Digamma
            | UnaryOp::Lgamma
            | UnaryOp::Sinh,
        )
        | OpKind::Binary(BinaryOp::Polygamma | BinaryOp::Zeta) => 100,
        _ => 1,
    }
}
