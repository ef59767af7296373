//! Elementwise operations.

use super::{BuildError, Builder};
pub use crate::Direction;
use crate::op::{BinaryOp, MixedOp, UnaryOp};
use crate::{Attr, ElementClass, ElementType, OpKind, OpSpec, Type, ValueId};

macro_rules! unary {
    ($($method:ident $kind:ident),* $(,)?) => {
        impl Builder<'_> {
            $(
                #[doc = concat!("`", stringify!($kind), "` of each element.")]
                pub fn $method(&mut self, x: ValueId) -> Result<ValueId, BuildError> {
                    self.apply(OpKind::Unary(UnaryOp::$kind), &[x])
                }
            )*
        }
    };
}

macro_rules! binary {
    ($($method:ident $kind:ident),* $(,)?) => {
        impl Builder<'_> {
            $(
                #[doc = concat!("`", stringify!($kind), "` of each pair of elements.")]
                pub fn $method(&mut self, x: ValueId, y: ValueId) -> Result<ValueId, BuildError> {
                    self.apply(OpKind::Binary(BinaryOp::$kind), &[x, y])
                }
            )*
        }
    };
}

unary! {
    abs Abs, cbrt Cbrt, ceil Ceil, cosine Cosine, count_leading_zeros CountLeadingZeros, exponential Exponential,
    exponential_minus_one ExponentialMinusOne, floor Floor, imag Imag, is_finite IsFinite, log Log,
    log_plus_one LogPlusOne, logistic Logistic, negate Negate, not Not, popcnt Popcnt, real Real,
    round_nearest_afz RoundNearestAfz, round_nearest_even RoundNearestEven, rsqrt Rsqrt, sign Sign, sine Sine,
    sqrt Sqrt, tan Tan, tanh Tanh, erf Erf, erf_inv ErfInv, lgamma Lgamma, digamma Digamma,
    square Square, acos Acos, acosh Acosh, asin Asin, asinh Asinh, atan Atan, atanh Atanh,
    bessel_i1e BesselI1e, conj Conj, cosh Cosh, sinh Sinh, erfc Erfc, is_inf IsInf,
    is_neg_inf IsNegInf, is_pos_inf IsPosInf,
}

binary! {
    add Add, and And, atan2 Atan2, complex Complex, divide Divide, maximum Maximum, minimum Minimum,
    multiply Multiply, or Or, power Power, remainder Remainder, shift_left ShiftLeft,
    shift_right_arithmetic ShiftRightArithmetic, shift_right_logical ShiftRightLogical, subtract Subtract, xor Xor,
    mulhi Mulhi, next_after NextAfter, polygamma Polygamma, zeta Zeta,
}

impl Builder<'_> {
    /// Compares each pair of elements.
    pub fn compare(&mut self, direction: Direction, x: ValueId, y: ValueId) -> Result<ValueId, BuildError> {
        let kind = match self.ty(x).elem().map(ElementType::class) {
            Some(ElementClass::Float | ElementClass::Complex) => "FLOAT",
            Some(ElementClass::Signed) => "SIGNED",
            Some(ElementClass::Unsigned | ElementClass::Bool) | None => "UNSIGNED",
        };
        let spec = OpSpec::new(OpKind::Mixed(MixedOp::Compare))
            .operands([x, y])
            .attr("comparison_direction", Attr::hlo_enum("comparison_direction", direction.text()))
            .attr("compare_type", Attr::hlo_enum("comparison_type", kind));
        self.value(spec)
    }

    /// Each element as `elem`.
    pub fn convert(&mut self, x: ValueId, elem: ElementType) -> Result<ValueId, BuildError> {
        let to = match self.ty(x) {
            Type::Tensor(t) => Type::from(t.with_elem(elem)),
            other => other.clone(),
        };
        self.value(OpSpec::new(OpKind::Mixed(MixedOp::Convert)).operands([x]).results([to]))
    }

    /// `x` held between `min` and `max`, which are scalars or of its shape.
    pub fn clamp(&mut self, min: ValueId, x: ValueId, max: ValueId) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Mixed(MixedOp::Clamp)).operands([min, x, max]))
    }

    /// `yes` where `pred` holds, else `no`; `pred` is a scalar or of their shape.
    pub fn select(&mut self, pred: ValueId, yes: ValueId, no: ValueId) -> Result<ValueId, BuildError> {
        self.apply(OpKind::Mixed(MixedOp::Select), &[pred, yes, no])
    }

    /// `x` rounded to a float format with these numbers of exponent and mantissa bits.
    pub fn reduce_precision(&mut self, x: ValueId, exponent: i64, mantissa: i64) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Mixed(MixedOp::ReducePrecision)).operands([x]);
        self.value(spec.attr("exponent_bits", Attr::i32(exponent)).attr("mantissa_bits", Attr::i32(mantissa)))
    }
}
