//! The function behind each elementwise operation and class of element.

use super::op::{Body, Extra};
use super::{int, real};
use crate::eval::special::Cplx;
use crate::{ElementClass, ElementType, OpKind};

/// What `kind` does to elements of type `arg`; `None` if it is not elementwise or not defined for the type.
pub(super) fn body(kind: OpKind, arg: ElementType, extra: Extra) -> Option<Body> {
    match kind {
        OpKind::Convert => return Some(Body::Convert),
        OpKind::Select => return Some(Body::Select),
        OpKind::Clamp => return Some(Body::Clamp),
        OpKind::Compare => return extra.compare.map(Body::Compare),
        _ => {}
    }
    match arg.class() {
        ElementClass::Bool => boolean(kind),
        ElementClass::Signed => signed(kind),
        ElementClass::Unsigned => unsigned(kind),
        ElementClass::Float => float(kind, arg, extra),
        ElementClass::Complex => complex(kind),
    }
}

fn boolean(kind: OpKind) -> Option<Body> {
    Some(match kind {
        OpKind::Not => Body::Bool1(|a| !a),
        OpKind::And | OpKind::Multiply | OpKind::Minimum => Body::Bool2(|a, b| a & b),
        OpKind::Or | OpKind::Add | OpKind::Maximum => Body::Bool2(|a, b| a | b),
        OpKind::Xor => Body::Bool2(|a, b| a ^ b),
        _ => return None,
    })
}

/// Operations on the bits of an integer, the same for both signs.
fn bitwise(kind: OpKind) -> Option<Body> {
    Some(match kind {
        OpKind::Not => Body::Bits1(|a, _| !a),
        OpKind::And => Body::Bits2(|a, b, _| a & b),
        OpKind::Or => Body::Bits2(|a, b, _| a | b),
        OpKind::Xor => Body::Bits2(|a, b, _| a ^ b),
        OpKind::ShiftLeft => Body::Bits2(int::shift_left),
        OpKind::ShiftRightLogical => Body::Bits2(int::shift_right_logical),
        OpKind::CountLeadingZeros => Body::Bits1(int::leading_zeros),
        OpKind::Popcnt => Body::Bits1(int::popcnt),
        _ => return None,
    })
}

fn signed(kind: OpKind) -> Option<Body> {
    Some(match kind {
        OpKind::Abs => Body::Int1(|a, _| a.wrapping_abs()),
        OpKind::Negate => Body::Int1(|a, _| a.wrapping_neg()),
        OpKind::Sign => Body::Int1(|a, _| a.signum()),
        OpKind::Add => Body::Int2(|a, b, _| a.wrapping_add(b)),
        OpKind::Subtract => Body::Int2(|a, b, _| a.wrapping_sub(b)),
        OpKind::Multiply => Body::Int2(|a, b, _| a.wrapping_mul(b)),
        OpKind::ChloSquare => Body::Int1(|a, _| a.wrapping_mul(a)),
        OpKind::Divide => Body::Int2(int::div_signed),
        OpKind::Remainder => Body::Int2(int::rem_signed),
        OpKind::Maximum => Body::Int2(|a, b, _| a.max(b)),
        OpKind::Minimum => Body::Int2(|a, b, _| a.min(b)),
        OpKind::Power => Body::Int2(int::pow_signed),
        OpKind::ShiftRightArithmetic => Body::ShiftInt(int::shift_right_arithmetic),
        OpKind::ChloMulhi => Body::Int2(int::mulhi_signed),
        _ => return bitwise(kind),
    })
}

fn unsigned(kind: OpKind) -> Option<Body> {
    Some(match kind {
        OpKind::Abs => Body::UInt1(|a, _| a),
        OpKind::Negate => Body::UInt1(|a, _| a.wrapping_neg()),
        OpKind::Sign => Body::UInt1(|a, _| u64::from(a != 0)),
        OpKind::Add => Body::UInt2(|a, b, _| a.wrapping_add(b)),
        OpKind::Subtract => Body::UInt2(|a, b, _| a.wrapping_sub(b)),
        OpKind::Multiply => Body::UInt2(|a, b, _| a.wrapping_mul(b)),
        OpKind::ChloSquare => Body::UInt1(|a, _| a.wrapping_mul(a)),
        OpKind::Divide => Body::UInt2(int::div_unsigned),
        OpKind::Remainder => Body::UInt2(int::rem_unsigned),
        OpKind::Maximum => Body::UInt2(|a, b, _| a.max(b)),
        OpKind::Minimum => Body::UInt2(|a, b, _| a.min(b)),
        OpKind::Power => Body::UInt2(int::pow_unsigned),
        // The bits are read as signed.
        OpKind::ShiftRightArithmetic => {
            Body::Bits2(|a, b, bits| int::shift_right_arithmetic(super::wrap_signed(a as i64, bits), b, bits) as u64)
        }
        OpKind::ChloMulhi => Body::UInt2(int::mulhi_unsigned),
        _ => return bitwise(kind),
    })
}

fn float(kind: OpKind, arg: ElementType, extra: Extra) -> Option<Body> {
    Some(match kind {
        OpKind::Abs => Body::Real1(f64::abs),
        OpKind::Cbrt => Body::Real1(f64::cbrt),
        OpKind::Ceil => Body::Real1(f64::ceil),
        OpKind::Cosine => Body::Real1(f64::cos),
        OpKind::Exponential => Body::Real1(f64::exp),
        OpKind::ExponentialMinusOne => Body::Real1(f64::exp_m1),
        OpKind::Floor => Body::Real1(f64::floor),
        OpKind::Imag => Body::Real1(|_| 0.0),
        OpKind::IsFinite => Body::RealTest(f64::is_finite),
        OpKind::Log => Body::Real1(f64::ln),
        OpKind::LogPlusOne => Body::Real1(f64::ln_1p),
        OpKind::Logistic => Body::Real1(real::logistic),
        OpKind::Negate => Body::Real1(|a| -a),
        OpKind::Real | OpKind::ChloConj => Body::Real1(|a| a),
        OpKind::ReducePrecision => Body::ReducePrecision(extra.precision.0, extra.precision.1),
        OpKind::RoundNearestAfz => Body::Real1(f64::round),
        OpKind::RoundNearestEven => Body::Real1(f64::round_ties_even),
        OpKind::Rsqrt => Body::Real1(real::rsqrt),
        OpKind::Sign => Body::Real1(real::sign),
        OpKind::Sine => Body::Real1(f64::sin),
        OpKind::Sqrt => Body::Real1(f64::sqrt),
        OpKind::Tan | OpKind::ChloTan => Body::Real1(f64::tan),
        OpKind::Tanh => Body::Real1(f64::tanh),
        OpKind::Add => Body::Real2(|a, b| a + b),
        OpKind::Atan2 => Body::Real2(f64::atan2),
        OpKind::Complex => match arg {
            ElementType::F32 | ElementType::F64 => Body::MakeComplex,
            _ => return None,
        },
        OpKind::Divide => Body::Real2(|a, b| a / b),
        OpKind::Maximum => Body::Real2(real::maximum),
        OpKind::Minimum => Body::Real2(real::minimum),
        OpKind::Multiply => Body::Real2(|a, b| a * b),
        OpKind::Power => Body::Real2(real::power),
        OpKind::Remainder => Body::Real2(|a, b| a % b),
        OpKind::Subtract => Body::Real2(|a, b| a - b),
        OpKind::ChloIsInf => Body::RealTest(f64::is_infinite),
        OpKind::ChloIsNegInf => Body::RealTest(|a| a == f64::NEG_INFINITY),
        OpKind::ChloIsPosInf => Body::RealTest(|a| a == f64::INFINITY),
        OpKind::ChloNextAfter => Body::NextAfter,
        OpKind::ChloSquare => Body::Real1(|a| a * a),
        _ => return None,
    })
}

fn complex(kind: OpKind) -> Option<Body> {
    Some(match kind {
        OpKind::Abs => Body::ComplexToReal(Cplx::abs),
        OpKind::Imag => Body::ComplexToReal(|z| z.im),
        OpKind::Real => Body::ComplexToReal(|z| z.re),
        OpKind::Negate => Body::Complex1(|z| -z),
        OpKind::Sign => Body::Complex1(Cplx::sign),
        OpKind::Add => Body::Complex2(|a, b| a + b),
        OpKind::Divide => Body::Complex2(Cplx::div),
        OpKind::Maximum => Body::Complex2(Cplx::maximum),
        OpKind::Minimum => Body::Complex2(Cplx::minimum),
        OpKind::Multiply => Body::Complex2(|a, b| a * b),
        OpKind::Subtract => Body::Complex2(|a, b| a - b),
        OpKind::ChloConj => Body::Complex1(Cplx::conj),
        _ => return None,
    })
}
