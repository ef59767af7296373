//! Functions as polynomials: what the backends have no instruction for becomes arithmetic, the same for both.
//!
//! | function | method | largest error, ulp |
//! |---|---|---|
//! | exp, expm1, logistic of f32 | `e^r · 4^k`, degree 8 | 1.4, 1.4, 2.7 |
//! | log, log1p of f32 | mantissa around 1, degree 11; log1p adds what rounding `1 + x` lost | 0.8, 1.4 |
//! | tanh of f32 | `e/(e + 1)` with `e = (e^2x - 1)/2`, degree 6 | 2.4 |
//! | erf of f32 | odd polynomial below 1, else `1 - 1/p(x)^8` | 3.3 |
//! | erfc of f32 | `1 - erf` near zero, else `e^(-x²)` times a polynomial in (x - 3)/(x + 3) | 4.0 |
//! | erf_inv of f32 | polynomials in `ln(1 - x²)` and its root | 3.3 |
//! | lgamma, digamma of f32 | polynomials around 2, Stirling's series, reflection (`gamma.rs`) | 3, 4 above 0 |
//! | bessel_i1e of f32 | one polynomial in (x - 2)/(x + 2) (`bessel.rs`) | 6 |
//! | sinh, cosh, asinh, acosh, atanh of f32 | by way of exponential and logarithm (`arc.rs`) | 2, 2, 3, 3, 2 |
//! | asin, acos of f32 | odd polynomial up to ½, else of half the angle | 2, 1.5 |
//! | sin, cos, tan of f32 | polynomials of what is left of quarter circles; far from zero in f64 (`circle.rs`) | 1.6, 1.6, 3.1 |
//! | zeta, derivatives of digamma | terms, their integral and its corrections, in f64 (`zeta.rs`) | 1; of f64 8 |
//! | pow, cbrt, atan, atan2 of f32 | in f64, rounded once at the end | 0.53 |
//! | exp, expm1, logistic, tanh, log, log1p of f64 | series | 4 |
//! | sinh, cosh, asinh, acosh, atanh, asin, acos, atan, atan2 of f64 | as of f32, with more terms | 4 |
//! | erf, erfc of f64 | series up to ½, else `e^(-x²)` times a polynomial in (x - 3)/(x + 3) (`error.rs`) | 4, 16 |
//! | bessel_i1e of f64 | series up to 8, else a polynomial in 1/x | 3, where the reference has 12 |
//! | erf_inv of f64 | polynomial in `ln(1 - x²)` up to 0.999, keeping what is rounded away; beyond, the reference's | 0.6, 2 |
//! | sin, cos, tan of f64 | left to the interpreter, which has series up to a million (`interp/circle.rs`) | 1, 1, 3 |
//! | other functions of f64 | left to the interpreter, which calls the reference's | |
//!
//! `tests/kernel/math.rs` holds these bounds.

mod arc;
mod bessel;
mod circle;
mod double;
mod error;
mod floor;
mod gamma;
mod integer;
mod logarithm;
mod remainder;
mod single;
mod small;
mod wide;
mod zeta;

use meshwork_ir::ElementType;

use super::build::Builder;
use super::ir::{BinaryOp, Op, Ty, UnaryOp, Val};

pub use circle::NEAR;
pub use floor::floored;
pub use remainder::times;
pub use wide::ERF_INV_NEAR;

/// The number that the byte `code` of type `elem`, floats of one byte, stands for.
pub fn decode(b: &mut Builder<'_>, elem: ElementType, code: Val) -> Val {
    small::decode(b, elem, code).unwrap_or(code)
}

/// The byte of type `elem` nearest to `x`.
pub fn encode(b: &mut Builder<'_>, elem: ElementType, x: Val) -> Val {
    small::encode(b, elem, x).unwrap_or(x)
}

/// The largest size of an operand for which a function needs no [`Op::Far`]; `None` where it never does.
pub fn limit(f: UnaryOp, ty: Ty) -> Option<f64> {
    match (f, ty) {
        (UnaryOp::Sine | UnaryOp::Cosine | UnaryOp::Tan, Ty::F32) => Some(circle::NEAR.into()),
        (UnaryOp::ErfInv, Ty::F64) => Some(wide::ERF_INV_NEAR),
        _ => None,
    }
}

/// Adds `op`, whose operands are values of `b`, or what it expands to.
pub fn expand(b: &mut Builder<'_>, op: Op) -> Val {
    match op {
        Op::Unary(f, a) => unary(b, f, a),
        Op::Binary(f, x, y) => binary(b, f, x, y),
        other => b.push(other),
    }
}

/// The quotient of integers, or the remainder, by divisions of 32 or 64 bits unless the divisor is always the same.
pub fn divided(b: &mut Builder<'_>, f: BinaryOp, x: Val, y: Val) -> Val {
    let ty = b.ty(x);
    if integer::is_fixed(b, y) {
        return binary(b, f, x, y);
    }
    if ty.size() >= 4 {
        return b.bin(f, x, y);
    }
    let wide = if ty.is_signed() { Ty::I32 } else { Ty::U32 };
    let (x, y) = (b.convert(wide, x), b.convert(wide, y));
    let wide = b.bin(f, x, y);
    b.convert(ty, wide)
}

fn unary(b: &mut Builder<'_>, f: UnaryOp, x: Val) -> Val {
    let ty = b.ty(x);
    match (f, ty) {
        (UnaryOp::Rsqrt, _) => {
            let (one, root) = (b.num(ty, 1.0), b.un(UnaryOp::Sqrt, x));
            b.div(one, root)
        }
        (UnaryOp::RoundNearestAfz, _) => round_away(b, x),
        (UnaryOp::CountLeadingZeros, _) => integer::leading_zeros(b, x),
        (UnaryOp::IsInf | UnaryOp::IsPosInf | UnaryOp::IsNegInf, _) => is_infinite(b, f, x),
        (UnaryOp::Exponential, Ty::F32) => single::exp(b, x),
        (UnaryOp::ExponentialMinusOne, Ty::F32) => single::expm1(b, x),
        (UnaryOp::Log, Ty::F32) => single::LOGARITHM.log(b, x),
        (UnaryOp::LogPlusOne, Ty::F32) => single::LOGARITHM.log1p(b, x),
        (UnaryOp::Tanh, Ty::F32) => single::tanh(b, x),
        (UnaryOp::Logistic, Ty::F32) => single::logistic(b, x),
        (UnaryOp::Erf, Ty::F32) => single::erf(b, x),
        (UnaryOp::Sine, Ty::F32) => circle::sin(b, x),
        (UnaryOp::Cosine, Ty::F32) => circle::cos(b, x),
        (UnaryOp::Tan | UnaryOp::ChloTan, Ty::F32) => circle::tan(b, x),
        (UnaryOp::Erfc, Ty::F32) => single::erfc(b, x),
        (UnaryOp::ErfInv, Ty::F32) => single::erf_inv(b, x),
        (UnaryOp::Lgamma, Ty::F32) => gamma::lgamma(b, x),
        (UnaryOp::Digamma, Ty::F32) => gamma::digamma(b, x),
        (UnaryOp::BesselI1e, Ty::F32) => bessel::i1e(b, x),
        (UnaryOp::Sinh, Ty::F32 | Ty::F64) => arc::sinh(b, x),
        (UnaryOp::Cosh, Ty::F32 | Ty::F64) => arc::cosh(b, x),
        (UnaryOp::Asinh, Ty::F32 | Ty::F64) => arc::asinh(b, x),
        (UnaryOp::Acosh, Ty::F32 | Ty::F64) => arc::acosh(b, x),
        (UnaryOp::Atanh, Ty::F32 | Ty::F64) => arc::atanh(b, x),
        (UnaryOp::Asin, Ty::F32 | Ty::F64) => arc::asin(b, x),
        (UnaryOp::Acos, Ty::F32 | Ty::F64) => arc::acos(b, x),
        (UnaryOp::Atan, Ty::F32 | Ty::F64) => arc::atan(b, x),
        (UnaryOp::Cbrt, Ty::F32) => double::cbrt(b, x),
        (UnaryOp::Exponential, Ty::F64) => wide::exp(b, x),
        (UnaryOp::ExponentialMinusOne, Ty::F64) => wide::expm1(b, x),
        (UnaryOp::Log, Ty::F64) => wide::LOGARITHM.log(b, x),
        (UnaryOp::LogPlusOne, Ty::F64) => wide::LOGARITHM.log1p(b, x),
        (UnaryOp::Tanh, Ty::F64) => wide::tanh(b, x),
        (UnaryOp::Logistic, Ty::F64) => wide::logistic(b, x),
        (UnaryOp::Erf, Ty::F64) => error::erf(b, x),
        (UnaryOp::Erfc, Ty::F64) => error::erfc(b, x),
        (UnaryOp::BesselI1e, Ty::F64) => bessel::i1e_wide(b, x),
        (UnaryOp::ErfInv, Ty::F64) => wide::erf_inv(b, x),
        _ => b.un(f, x),
    }
}

fn binary(b: &mut Builder<'_>, f: BinaryOp, x: Val, y: Val) -> Val {
    if f == BinaryOp::Power
        && b.ty(x).is_float()
        && let Some(power) = halves(b, x, y)
    {
        return power;
    }
    match (f, b.ty(x)) {
        (BinaryOp::Power, Ty::F32) => double::pow(b, x, y),
        (BinaryOp::Zeta, _) => zeta::zeta(b, x, y),
        (BinaryOp::Polygamma, _) => zeta::polygamma(b, x, y),
        (BinaryOp::Atan2, Ty::F32 | Ty::F64) => double::atan2(b, x, y),
        (BinaryOp::Divide, ty) if ty.is_integer() => integer::div(b, x, y),
        (BinaryOp::Remainder, ty) if ty.is_integer() => integer::rem(b, x, y),
        (BinaryOp::Remainder, Ty::F32 | Ty::F64) => remainder::rem(b, x, y),
        (BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic, ty) if ty.size() < 4 => {
            integer::shift(b, f, x, y)
        }
        (BinaryOp::NextAfter, _) => next_after(b, x, y),
        _ => b.bin(f, x, y),
    }
}

/// Whether `x` is infinite, or that infinity.
fn is_infinite(b: &mut Builder<'_>, f: UnaryOp, x: Val) -> Val {
    let ty = b.ty(x);
    let limit = if f == UnaryOp::IsNegInf { f64::NEG_INFINITY } else { f64::INFINITY };
    let (limit, size) = (b.num(ty, limit), if f == UnaryOp::IsInf { b.un(UnaryOp::Abs, x) } else { x });
    b.cmp(super::ir::Cmp::Eq, size, limit)
}

/// `x` to a power that is always the same and a multiple of a half, by products and a root.
fn halves(b: &mut Builder<'_>, x: Val, y: Val) -> Option<Val> {
    use super::ir::Cmp;
    let ty = b.ty(x);
    let twice = 2.0 * constant(b, y)?;
    if twice.fract() != 0.0 || !(1.0..=8.0).contains(&twice.abs()) {
        return None;
    }
    let count = twice.abs() as u32;
    let mut product = None;
    if count % 2 == 1 {
        // The root of minus infinity is no number, its powers are infinite; zeros have no sign.
        let (zero, least, infinity) = (b.num(ty, 0.0), b.num(ty, f64::NEG_INFINITY), b.num(ty, f64::INFINITY));
        let root = b.un(UnaryOp::Sqrt, x);
        let root = b.add(root, zero);
        let is_least = b.cmp(Cmp::Eq, x, least);
        product = Some(b.select(is_least, infinity, root));
    }
    let base = if count % 2 == 1 { b.un(UnaryOp::Abs, x) } else { x };
    for _ in 0..count / 2 {
        product = Some(product.map_or(base, |p| b.mul(p, base)));
    }
    let power = product?;
    Some(if twice < 0.0 {
        let one = b.num(ty, 1.0);
        b.div(one, power)
    } else {
        power
    })
}

/// The float that `v` always is.
fn constant(b: &Builder<'_>, v: Val) -> Option<f64> {
    match b.ops[usize::from(v)] {
        Op::Const(Ty::F32, bits) => Some(f32::from_bits(bits as u32).into()),
        Op::Const(Ty::F64, bits) => Some(f64::from_bits(bits)),
        _ => None,
    }
}

/// The product of `x` and `y`, and what rounding takes from it.
fn exact_mul(b: &mut Builder<'_>, x: Val, y: Val) -> (Val, Val) {
    let product = b.mul(x, y);
    let minus = b.un(UnaryOp::Negate, product);
    (product, b.fma(x, y, minus))
}

/// The number next to `x` on the way to `y`.
fn next_after(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    use super::ir::Cmp;
    let ty = b.ty(x);
    let int = if ty == Ty::F32 { Ty::I32 } else { Ty::I64 };
    let (bits, goal) = (b.cast(int, x), b.cast(int, y));
    let top = 1 << (8 * ty.size() - 1);
    let (sign, rest) = (b.bits(int, top), b.bits(int, top - 1));
    let (zero, one) = (b.bits(int, 0), b.bits(int, 1));
    let magnitude = b.bin(BinaryOp::And, bits, rest);
    let is_zero = b.cmp(Cmp::Eq, magnitude, zero);
    // Away from zero if `y` is on the far side of `x`.
    let negative = b.cmp(Cmp::Lt, bits, zero);
    let below = b.cmp(Cmp::Lt, y, x);
    let away = b.cmp(Cmp::Eq, below, negative);
    let (more, less) = (b.add(bits, one), b.sub(bits, one));
    let next = b.select(away, more, less);
    let least = b.bin(BinaryOp::And, goal, sign);
    let least = b.bin(BinaryOp::Or, least, one);
    let next = b.select(is_zero, least, next);
    let next = b.cast(ty, next);
    let same = b.cmp(Cmp::Eq, x, y);
    let out = b.select(same, y, next);
    // NaN, if either is.
    let (x_is_nan, y_is_nan) = (b.cmp(Cmp::Ne, x, x), b.cmp(Cmp::Ne, y, y));
    let out = b.select(y_is_nan, y, out);
    b.select(x_is_nan, x, out)
}

/// Halves away from zero: the part below one decides, so that nothing is rounded twice.
fn round_away(b: &mut Builder<'_>, x: Val) -> Val {
    use super::ir::Cmp;
    let ty = b.ty(x);
    let (half, one) = (b.num(ty, 0.5), b.num(ty, 1.0));
    let size = b.un(UnaryOp::Abs, x);
    let whole = b.un(UnaryOp::Floor, size);
    let part = b.sub(size, whole);
    let up = b.cmp(Cmp::Ge, part, half);
    let more = b.add(whole, one);
    let rounded = b.select(up, more, whole);
    copysign(b, rounded, x)
}

/// The magnitude of `size`, which is not negative, with the sign of `sign`.
fn copysign(b: &mut Builder<'_>, size: Val, sign: Val) -> Val {
    let ty = b.ty(size);
    let (int, top) = if ty == Ty::F32 { (Ty::I32, 1 << 31) } else { (Ty::I64, 1 << 63) };
    let top = b.bits(int, top);
    let (size, sign) = (b.cast(int, size), b.cast(int, sign));
    let sign = b.bin(BinaryOp::And, sign, top);
    let both = b.bin(BinaryOp::Or, size, sign);
    b.cast(ty, both)
}
