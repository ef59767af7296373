//! Functions of one element. Formulas hold for complex numbers too wherever the function is holomorphic.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use meshwork_ir::build::{BuildError, Direction};
use meshwork_ir::op::{MixedOp, UnaryOp};
use meshwork_ir::{OpKind, OpSpec, ValueId};

use crate::GradError;
use crate::reverse::{Reverse, Site};

type Out = Result<ValueId, BuildError>;

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site, op: UnaryOp) -> Result<(), GradError> {
    let (x, y, ct) = (site.x(0), site.y(), site.ct);
    let one = |r: &mut Reverse<'_>| r.splat_like(x, 1.0);
    let slope = match op {
        UnaryOp::Abs => return give(r, x, |r| abs(r, x, ct)),
        UnaryOp::Negate => return give(r, x, |r| r.negate(ct)),
        UnaryOp::Conj => return give(r, x, |r| r.conj(ct)),
        UnaryOp::Real if !r.elem(x).is_complex() => return give(r, x, |_| Ok(ct)),
        UnaryOp::Imag if !r.elem(x).is_complex() => return Ok(()),
        UnaryOp::Real => {
            return give(r, x, |r| {
                let zero = r.zeros_like(ct)?;
                r.complex(ct, zero)
            });
        }
        UnaryOp::Imag => {
            return give(r, x, |r| {
                let (zero, ct) = (r.zeros_like(ct)?, r.negate(ct)?);
                r.complex(zero, ct)
            });
        }
        UnaryOp::Cbrt => {
            let (square, third) = (r.multiply(y, y)?, r.splat_like(x, 1.0 / 3.0)?);
            r.divide(third, square)
        }
        UnaryOp::Cosine => {
            let sine = r.sine(x)?;
            r.negate(sine)
        }
        UnaryOp::Sine => r.cosine(x),
        UnaryOp::Tan | UnaryOp::ChloTan => {
            let one = one(r)?;
            let square = r.multiply(y, y)?;
            r.add(one, square)
        }
        UnaryOp::Exponential => Ok(y),
        UnaryOp::ExponentialMinusOne => {
            let one = one(r)?;
            r.add(y, one)
        }
        UnaryOp::Log => {
            let one = one(r)?;
            r.divide(one, x)
        }
        UnaryOp::LogPlusOne => {
            let one = one(r)?;
            let shifted = r.add(x, one)?;
            r.divide(one, shifted)
        }
        UnaryOp::Logistic => {
            let one = one(r)?;
            let rest = r.subtract(one, y)?;
            r.multiply(y, rest)
        }
        UnaryOp::Rsqrt => {
            let ratio = r.divide(y, x)?;
            r.scale(ratio, -0.5)
        }
        UnaryOp::Sqrt => {
            let half = r.splat_like(x, 0.5)?;
            r.divide(half, y)
        }
        UnaryOp::Tanh => {
            let one = one(r)?;
            let square = r.multiply(y, y)?;
            r.subtract(one, square)
        }
        UnaryOp::Sinh => r.cosh(x),
        UnaryOp::Cosh => r.sinh(x),
        UnaryOp::Asin | UnaryOp::Acos => {
            let one = one(r)?;
            let square = r.multiply(x, x)?;
            let rest = r.subtract(one, square)?;
            let slope = r.rsqrt(rest)?;
            if op == UnaryOp::Asin { Ok(slope) } else { r.negate(slope) }
        }
        UnaryOp::Atan => {
            let one = one(r)?;
            let square = r.multiply(x, x)?;
            let sum = r.add(one, square)?;
            r.divide(one, sum)
        }
        UnaryOp::Asinh => {
            let one = one(r)?;
            let square = r.multiply(x, x)?;
            let sum = r.add(square, one)?;
            r.rsqrt(sum)
        }
        UnaryOp::Acosh => {
            let one = one(r)?;
            let (low, high) = (r.subtract(x, one)?, r.add(x, one)?);
            let (low, high) = (r.rsqrt(low)?, r.rsqrt(high)?);
            r.multiply(low, high)
        }
        UnaryOp::Atanh => {
            let one = one(r)?;
            let square = r.multiply(x, x)?;
            let rest = r.subtract(one, square)?;
            r.divide(one, rest)
        }
        UnaryOp::Erf | UnaryOp::Erfc => {
            let square = r.multiply(x, x)?;
            let minus = r.negate(square)?;
            let bell = r.exponential(minus)?;
            r.scale(bell, if op == UnaryOp::Erf { FRAC_2_SQRT_PI } else { -FRAC_2_SQRT_PI })
        }
        UnaryOp::ErfInv => {
            let square = r.multiply(y, y)?;
            let grown = r.exponential(square)?;
            r.scale(grown, PI.sqrt() / 2.0)
        }
        UnaryOp::Lgamma => r.digamma(x),
        UnaryOp::Digamma => {
            let one = one(r)?;
            r.polygamma(one, x)
        }
        UnaryOp::BesselI1e => super::bessel::i1e_slope(r, x, y),
        UnaryOp::Square => r.scale(x, 2.0),
        // Constant wherever they have a derivative at all, or on integers.
        UnaryOp::Ceil
        | UnaryOp::Floor
        | UnaryOp::RoundNearestAfz
        | UnaryOp::RoundNearestEven
        | UnaryOp::Sign
        | UnaryOp::CountLeadingZeros
        | UnaryOp::IsFinite
        | UnaryOp::IsInf
        | UnaryOp::IsNegInf
        | UnaryOp::IsPosInf
        | UnaryOp::Not
        | UnaryOp::Popcnt => return Ok(()),
        UnaryOp::AsinAcosKernel => return Err(GradError::no_rule(r.module(), site.id, "no derivative rule")),
    }?;
    give(r, x, |r| r.multiply(ct, slope))
}

/// Gives `x` the cotangent that `make` makes.
fn give(r: &mut Reverse<'_>, x: ValueId, make: impl FnOnce(&mut Reverse<'_>) -> Out) -> Result<(), GradError> {
    let ct = make(r)?;
    Ok(r.give(x, ct)?)
}

pub(super) fn convert(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (elem, ct) = (r.elem(site.x(0)), site.ct);
    give(r, site.x(0), |r| {
        let real = if r.elem(ct).is_complex() && !elem.is_complex() { r.real(ct)? } else { ct };
        r.cast(real, elem)
    })
}

pub(super) fn reduce_precision(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let spec = OpSpec::new(OpKind::Mixed(MixedOp::ReducePrecision)).operands([site.ct]);
    let spec = Reverse::with_attr(spec, &site.op, "exponent_bits");
    give(r, site.x(0), |r| r.value(Reverse::with_attr(spec, &site.op, "mantissa_bits")))
}

/// `|x|` has the slope 1 from zero on, else -1; of complex numbers, `conj(x) / |x|`, and zero at zero.
fn abs(r: &mut Reverse<'_>, x: ValueId, ct: ValueId) -> Out {
    if !r.elem(x).is_complex() {
        let (zero, minus) = (r.zeros_like(x)?, r.negate(ct)?);
        let rises = r.compare(Direction::Ge, x, zero)?;
        return r.select(rises, ct, minus);
    }
    // The complex sign is x / |x|.
    let sign = r.sign(x)?;
    let (conj, zero) = (r.conj(sign)?, r.zeros_like(ct)?);
    let wide = r.complex(ct, zero)?;
    r.multiply(wide, conj)
}
