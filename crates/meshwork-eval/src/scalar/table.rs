//! What each elementwise operation does to one element, class by class; `None` where it is not defined.
//!
//! Results may exceed the element type; the caller wraps or rounds them.

use super::precision::next_after;
use super::{int, real};
use crate::special::{self, Cplx};
use meshwork_ir::op::{BinaryOp, UnaryOp};
use meshwork_ir::scalar::wrap_unsigned;
use meshwork_ir::{ElementType, Scalar};

/// The operation on an element of type `elem`.
pub(super) fn unary(op: UnaryOp, x: Scalar, elem: ElementType) -> Option<Scalar> {
    match x {
        Scalar::Bool(x) => (op == UnaryOp::Not).then_some(Scalar::Bool(!x)),
        Scalar::Int(x) => unary_signed(op, x, elem),
        Scalar::UInt(x) => unary_unsigned(op, x, elem),
        Scalar::Float(x) => unary_float(op, x),
        Scalar::Complex(re, im) => unary_complex(op, Cplx::new(re, im)),
    }
}

/// The operation on two elements of type `elem`.
pub(super) fn binary(op: BinaryOp, x: Scalar, y: Scalar, elem: ElementType) -> Option<Scalar> {
    match (x, y) {
        (Scalar::Bool(x), Scalar::Bool(y)) => binary_bool(op, x, y).map(Scalar::Bool),
        (Scalar::Int(x), Scalar::Int(y)) => binary_signed(op, x, y, elem).map(Scalar::Int),
        (Scalar::UInt(x), Scalar::UInt(y)) => binary_unsigned(op, x, y, elem.bits()).map(Scalar::UInt),
        (Scalar::Float(x), Scalar::Float(y)) => binary_float(op, x, y, elem),
        (Scalar::Complex(a, b), Scalar::Complex(c, d)) => {
            binary_complex(op, Cplx::new(a, b), Cplx::new(c, d)).map(Scalar::from)
        }
        _ => None,
    }
}

fn unary_signed(op: UnaryOp, x: i64, elem: ElementType) -> Option<Scalar> {
    Some(Scalar::Int(match op {
        UnaryOp::Abs => x.wrapping_abs(),
        UnaryOp::Negate => x.wrapping_neg(),
        UnaryOp::Sign => x.signum(),
        UnaryOp::Square => x.wrapping_mul(x),
        _ => unary_bits(op, wrap_unsigned(x as u64, elem.bits()), elem.bits())? as i64,
    }))
}

fn unary_unsigned(op: UnaryOp, x: u64, elem: ElementType) -> Option<Scalar> {
    Some(Scalar::UInt(match op {
        UnaryOp::Abs => x,
        UnaryOp::Negate => x.wrapping_neg(),
        UnaryOp::Sign => u64::from(x != 0),
        UnaryOp::Square => x.wrapping_mul(x),
        _ => unary_bits(op, x, elem.bits())?,
    }))
}

fn unary_bits(op: UnaryOp, x: u64, bits: usize) -> Option<u64> {
    Some(match op {
        UnaryOp::CountLeadingZeros => u64::from(x.leading_zeros()) - (64 - bits as u64),
        UnaryOp::Not => !x,
        UnaryOp::Popcnt => u64::from(x.count_ones()),
        _ => return None,
    })
}

fn unary_float(op: UnaryOp, x: f64) -> Option<Scalar> {
    Some(Scalar::Float(match op {
        UnaryOp::Abs => x.abs(),
        UnaryOp::Acos => x.acos(),
        UnaryOp::Acosh => special::acosh(x),
        UnaryOp::Asin => x.asin(),
        UnaryOp::Asinh => special::asinh(x),
        UnaryOp::Atan => x.atan(),
        UnaryOp::Atanh => special::atanh(x),
        UnaryOp::BesselI1e => special::bessel_i1e(x),
        UnaryOp::Cbrt => x.cbrt(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Conj | UnaryOp::Real => x,
        UnaryOp::Cosh => x.cosh(),
        UnaryOp::Cosine => x.cos(),
        UnaryOp::Digamma => special::digamma(x),
        UnaryOp::Erf => special::erf(x),
        UnaryOp::ErfInv => special::erf_inv(x),
        UnaryOp::Erfc => special::erfc(x),
        UnaryOp::Exponential => x.exp(),
        UnaryOp::ExponentialMinusOne => x.exp_m1(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Imag => 0.0,
        UnaryOp::Lgamma => special::lgamma(x),
        UnaryOp::Log => x.ln(),
        UnaryOp::LogPlusOne => x.ln_1p(),
        UnaryOp::Logistic => real::logistic(x),
        UnaryOp::Negate => -x,
        UnaryOp::RoundNearestAfz => x.round(),
        UnaryOp::RoundNearestEven => x.round_ties_even(),
        UnaryOp::Rsqrt => 1.0 / x.sqrt(),
        UnaryOp::Sign => real::sign(x),
        UnaryOp::Sine => x.sin(),
        UnaryOp::Sinh => x.sinh(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Square => x * x,
        UnaryOp::Tan | UnaryOp::ChloTan => x.tan(),
        UnaryOp::Tanh => x.tanh(),
        UnaryOp::IsFinite => return Some(Scalar::Bool(x.is_finite())),
        UnaryOp::IsInf => return Some(Scalar::Bool(x.is_infinite())),
        UnaryOp::IsNegInf => return Some(Scalar::Bool(x == f64::NEG_INFINITY)),
        UnaryOp::IsPosInf => return Some(Scalar::Bool(x == f64::INFINITY)),
        UnaryOp::AsinAcosKernel | UnaryOp::CountLeadingZeros | UnaryOp::Not | UnaryOp::Popcnt => return None,
    }))
}

fn unary_complex(op: UnaryOp, z: Cplx) -> Option<Scalar> {
    let value = match op {
        UnaryOp::Abs => return Some(Scalar::Float(z.abs())),
        UnaryOp::Imag => return Some(Scalar::Float(z.im)),
        UnaryOp::Real => return Some(Scalar::Float(z.re)),
        UnaryOp::Acos => z.acos(),
        UnaryOp::Acosh => z.acosh(),
        UnaryOp::Asin => z.asin(),
        UnaryOp::AsinAcosKernel => z.asin_acos_kernel(),
        UnaryOp::Asinh => z.asinh(),
        UnaryOp::Atan => z.atan(),
        UnaryOp::Atanh => z.atanh(),
        UnaryOp::Cbrt => z.cbrt(),
        UnaryOp::Conj => z.conj(),
        UnaryOp::Cosh => z.cosh(),
        UnaryOp::Cosine => z.cos(),
        UnaryOp::Exponential => z.exp(),
        UnaryOp::ExponentialMinusOne => z.exp_m1(),
        UnaryOp::Log => z.ln(),
        UnaryOp::LogPlusOne => z.ln_1p(),
        UnaryOp::Logistic => z.logistic(),
        UnaryOp::Negate => -z,
        UnaryOp::Rsqrt => z.rsqrt(),
        UnaryOp::Sign => z.sign(),
        UnaryOp::Sine => z.sin(),
        UnaryOp::Sinh => z.sinh(),
        UnaryOp::Sqrt => z.sqrt(),
        UnaryOp::Square => z.square(),
        UnaryOp::Tan | UnaryOp::ChloTan => z.tan(),
        UnaryOp::Tanh => z.tanh(),
        _ => return None,
    };
    Some(value.into())
}

fn binary_bool(op: BinaryOp, x: bool, y: bool) -> Option<bool> {
    Some(match op {
        BinaryOp::Add | BinaryOp::Maximum | BinaryOp::Or => x | y,
        BinaryOp::And | BinaryOp::Minimum | BinaryOp::Multiply => x & y,
        BinaryOp::Xor => x ^ y,
        _ => return None,
    })
}

fn binary_signed(op: BinaryOp, x: i64, y: i64, elem: ElementType) -> Option<i64> {
    let bits = elem.bits();
    Some(match op {
        BinaryOp::Divide => int::div_signed(x, y),
        BinaryOp::Maximum => x.max(y),
        BinaryOp::Minimum => x.min(y),
        BinaryOp::Mulhi => ((i128::from(x) * i128::from(y)) >> bits) as i64,
        BinaryOp::Power => int::pow_signed(x, y),
        BinaryOp::Remainder => int::rem_signed(x, y),
        // These are the same on bits without a sign.
        _ => binary_unsigned(op, wrap_unsigned(x as u64, bits), wrap_unsigned(y as u64, bits), bits)? as i64,
    })
}

fn binary_unsigned(op: BinaryOp, x: u64, y: u64, bits: usize) -> Option<u64> {
    Some(match op {
        BinaryOp::Add => x.wrapping_add(y),
        BinaryOp::And => x & y,
        BinaryOp::Divide => int::div_unsigned(x, y),
        BinaryOp::Maximum => x.max(y),
        BinaryOp::Minimum => x.min(y),
        BinaryOp::Mulhi => ((u128::from(x) * u128::from(y)) >> bits) as u64,
        BinaryOp::Multiply => x.wrapping_mul(y),
        BinaryOp::Or => x | y,
        BinaryOp::Power => int::pow_unsigned(x, y),
        BinaryOp::Remainder => int::rem_unsigned(x, y),
        BinaryOp::ShiftLeft => int::shift_left(x, y, bits),
        BinaryOp::ShiftRightArithmetic => int::shift_right_arithmetic(x, y, bits),
        BinaryOp::ShiftRightLogical => int::shift_right_logical(x, y, bits),
        BinaryOp::Subtract => x.wrapping_sub(y),
        BinaryOp::Xor => x ^ y,
        _ => return None,
    })
}

fn binary_float(op: BinaryOp, x: f64, y: f64, elem: ElementType) -> Option<Scalar> {
    Some(Scalar::Float(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Atan2 => x.atan2(y),
        BinaryOp::Complex => {
            return matches!(elem, ElementType::F32 | ElementType::F64).then_some(Scalar::Complex(x, y));
        }
        BinaryOp::Divide => x / y,
        BinaryOp::Maximum => real::maximum(x, y),
        BinaryOp::Minimum => real::minimum(x, y),
        BinaryOp::Multiply => x * y,
        BinaryOp::NextAfter => next_after(elem, x, y),
        BinaryOp::Polygamma => special::polygamma(x, y),
        BinaryOp::Power => x.powf(y),
        BinaryOp::Remainder => x % y,
        BinaryOp::Subtract => x - y,
        BinaryOp::Zeta => special::zeta(x, y),
        BinaryOp::And | BinaryOp::Mulhi | BinaryOp::Or | BinaryOp::Xor => return None,
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightArithmetic | BinaryOp::ShiftRightLogical => return None,
    }))
}

fn binary_complex(op: BinaryOp, x: Cplx, y: Cplx) -> Option<Cplx> {
    Some(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Atan2 => x.atan2(y),
        BinaryOp::Divide => x / y,
        BinaryOp::Maximum => x.maximum(y),
        BinaryOp::Minimum => x.minimum(y),
        BinaryOp::Multiply => x * y,
        BinaryOp::Power => x.pow(y),
        BinaryOp::Subtract => x - y,
        _ => return None,
    })
}
