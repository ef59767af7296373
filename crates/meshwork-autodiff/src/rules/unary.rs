//! Functions of one element. Formulas hold for complex numbers too wherever the function is holomorphic.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use meshwork_ir::build::BuildError;
use meshwork_ir::op::{MixedOp, UnaryOp};
use meshwork_ir::{OpKind, OpSpec, ValueId};

use crate::GradError;
use crate::reverse::{Reverse, Site};

type Out = Result<ValueId, BuildError>;

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (x, y, ct) = (site.x(0), site.y(), site.ct);
    let ct = match site.op.kind() {
        OpKind::Unary(UnaryOp::Abs) => abs(r, x, ct)?,
        OpKind::Unary(UnaryOp::Negate) => r.negate(ct)?,
        OpKind::Mixed(MixedOp::Convert) => convert(r, x, ct)?,
        OpKind::Mixed(MixedOp::ReducePrecision) => {
            let spec = OpSpec::new(OpKind::Mixed(MixedOp::ReducePrecision)).operands([ct]);
            let spec = Reverse::with_attr(spec, &site.op, "exponent_bits");
            r.value(Reverse::with_attr(spec, &site.op, "mantissa_bits"))?
        }
        OpKind::Unary(UnaryOp::Real | UnaryOp::Imag) if !r.elem(x).is_complex() => match site.op.kind() {
            OpKind::Unary(UnaryOp::Real) => ct,
            _ => return Ok(()),
        },
        OpKind::Unary(UnaryOp::Real) => {
            let zero = r.zeros_like(ct)?;
            r.complex(ct, zero)?
        }
        OpKind::Unary(UnaryOp::Imag) => {
            let (zero, ct) = (r.zeros_like(ct)?, r.negate(ct)?);
            r.complex(zero, ct)?
        }
        OpKind::Unary(UnaryOp::Conj) => r.conj(ct)?,
        kind => {
            let Some(slope) = slope(r, kind, x, y)? else {
                return Err(GradError::no_rule(r.module(), site.id, "no derivative rule"));
            };
            r.multiply(ct, slope)?
        }
    };
    Ok(r.give(x, ct)?)
}

/// `|x|` has the slope `sign x`; of complex numbers, `conj(x) / |x|`, and zero at zero.
fn abs(r: &mut Reverse<'_>, x: ValueId, ct: ValueId) -> Out {
    let sign = r.sign(x)?;
    if !r.elem(x).is_complex() {
        return r.multiply(ct, sign);
    }
    // The complex sign is x / |x|.
    let (conj, zero) = (r.conj(sign)?, r.zeros_like(ct)?);
    let wide = r.complex(ct, zero)?;
    r.multiply(wide, conj)
}

fn convert(r: &mut Reverse<'_>, x: ValueId, ct: ValueId) -> Out {
    let elem = r.elem(x);
    let real = if r.elem(ct).is_complex() && !elem.is_complex() { r.real(ct)? } else { ct };
    r.cast(real, elem)
}

/// The derivative of the function at `x`, where its value is `y`; `None` if it is not known here.
fn slope(r: &mut Reverse<'_>, kind: OpKind, x: ValueId, y: ValueId) -> Result<Option<ValueId>, BuildError> {
    let one = r.splat_like(x, 1.0)?;
    let slope = match kind {
        OpKind::Unary(UnaryOp::Cbrt) => {
            let ratio = r.divide(y, x)?;
            r.scale(ratio, 1.0 / 3.0)
        }
        OpKind::Unary(UnaryOp::Cosine) => {
            let sine = r.sine(x)?;
            r.negate(sine)
        }
        OpKind::Unary(UnaryOp::Sine) => r.cosine(x),
        OpKind::Unary(UnaryOp::Tan | UnaryOp::ChloTan) => {
            let square = r.multiply(y, y)?;
            r.add(one, square)
        }
        OpKind::Unary(UnaryOp::Exponential) => Ok(y),
        OpKind::Unary(UnaryOp::ExponentialMinusOne) => r.add(y, one),
        OpKind::Unary(UnaryOp::Log) => r.divide(one, x),
        OpKind::Unary(UnaryOp::LogPlusOne) => {
            let shifted = r.add(x, one)?;
            r.divide(one, shifted)
        }
        OpKind::Unary(UnaryOp::Logistic) => {
            let rest = r.subtract(one, y)?;
            r.multiply(y, rest)
        }
        OpKind::Unary(UnaryOp::Rsqrt) => {
            let ratio = r.divide(y, x)?;
            r.scale(ratio, -0.5)
        }
        OpKind::Unary(UnaryOp::Sqrt) => {
            let half = r.splat_like(x, 0.5)?;
            r.divide(half, y)
        }
        OpKind::Unary(UnaryOp::Tanh) => {
            let square = r.multiply(y, y)?;
            r.subtract(one, square)
        }
        OpKind::Unary(UnaryOp::Sinh) => r.cosh(x),
        OpKind::Unary(UnaryOp::Cosh) => r.sinh(x),
        OpKind::Unary(UnaryOp::Asin | UnaryOp::Acos) => {
            let square = r.multiply(x, x)?;
            let rest = r.subtract(one, square)?;
            let slope = r.rsqrt(rest)?;
            if kind == OpKind::Unary(UnaryOp::Asin) { Ok(slope) } else { r.negate(slope) }
        }
        OpKind::Unary(UnaryOp::Atan) => {
            let square = r.multiply(x, x)?;
            let sum = r.add(one, square)?;
            r.divide(one, sum)
        }
        OpKind::Unary(UnaryOp::Asinh) => {
            let square = r.multiply(x, x)?;
            let sum = r.add(square, one)?;
            r.rsqrt(sum)
        }
        OpKind::Unary(UnaryOp::Acosh) => {
            let (low, high) = (r.subtract(x, one)?, r.add(x, one)?);
            let (low, high) = (r.rsqrt(low)?, r.rsqrt(high)?);
            r.multiply(low, high)
        }
        OpKind::Unary(UnaryOp::Atanh) => {
            let square = r.multiply(x, x)?;
            let rest = r.subtract(one, square)?;
            r.divide(one, rest)
        }
        OpKind::Unary(UnaryOp::Erf | UnaryOp::Erfc) => {
            let square = r.multiply(x, x)?;
            let minus = r.negate(square)?;
            let bell = r.exponential(minus)?;
            r.scale(bell, if kind == OpKind::Unary(UnaryOp::Erf) { FRAC_2_SQRT_PI } else { -FRAC_2_SQRT_PI })
        }
        OpKind::Unary(UnaryOp::ErfInv) => {
            let square = r.multiply(y, y)?;
            let grown = r.exponential(square)?;
            r.scale(grown, PI.sqrt() / 2.0)
        }
        OpKind::Unary(UnaryOp::Lgamma) => r.digamma(x),
        OpKind::Unary(UnaryOp::Digamma) => r.polygamma(one, x),
        OpKind::Unary(UnaryOp::BesselI1e) => super::bessel::i1e_slope(r, x, y),
        OpKind::Unary(UnaryOp::Square) => r.scale(x, 2.0),
        _ => return Ok(None),
    };
    slope.map(Some)
}
