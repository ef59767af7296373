//! Functions of one element. Formulas hold for complex numbers too wherever the function is holomorphic.

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use meshwork_ir::build::BuildError;
use meshwork_ir::{OpKind, OpSpec, ValueId};

use crate::GradError;
use crate::reverse::{Reverse, Site};

type Out = Result<ValueId, BuildError>;

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (x, y, ct) = (site.x(0), site.y(), site.ct);
    let ct = match site.op.kind() {
        OpKind::Abs => abs(r, x, ct)?,
        OpKind::Negate => r.negate(ct)?,
        OpKind::Convert => convert(r, x, ct)?,
        OpKind::ReducePrecision => {
            let spec = OpSpec::new(OpKind::ReducePrecision).operands([ct]);
            let spec = Reverse::with_attr(spec, &site.op, "exponent_bits");
            r.value(Reverse::with_attr(spec, &site.op, "mantissa_bits"))?
        }
        OpKind::Real | OpKind::Imag if !r.elem(x).is_complex() => match site.op.kind() {
            OpKind::Real => ct,
            _ => return Ok(()),
        },
        OpKind::Real => {
            let zero = r.zeros_like(ct)?;
            r.complex(ct, zero)?
        }
        OpKind::Imag => {
            let (zero, ct) = (r.zeros_like(ct)?, r.negate(ct)?);
            r.complex(zero, ct)?
        }
        OpKind::ChloConj => r.conj(ct)?,
        kind => {
            let Some(slope) = slope(r, kind, x, y)? else {
                return Err(GradError::no_rule(r.module(), site.id, "there is no rule for it"));
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
        OpKind::Cbrt => {
            let ratio = r.divide(y, x)?;
            r.scale(ratio, 1.0 / 3.0)
        }
        OpKind::Cosine => {
            let sine = r.sine(x)?;
            r.negate(sine)
        }
        OpKind::Sine => r.cosine(x),
        OpKind::Tan | OpKind::ChloTan => {
            let square = r.multiply(y, y)?;
            r.add(one, square)
        }
        OpKind::Exponential => Ok(y),
        OpKind::ExponentialMinusOne => r.add(y, one),
        OpKind::Log => r.divide(one, x),
        OpKind::LogPlusOne => {
            let shifted = r.add(x, one)?;
            r.divide(one, shifted)
        }
        OpKind::Logistic => {
            let rest = r.subtract(one, y)?;
            r.multiply(y, rest)
        }
        OpKind::Rsqrt => {
            let ratio = r.divide(y, x)?;
            r.scale(ratio, -0.5)
        }
        OpKind::Sqrt => {
            let half = r.splat_like(x, 0.5)?;
            r.divide(half, y)
        }
        OpKind::Tanh => {
            let square = r.multiply(y, y)?;
            r.subtract(one, square)
        }
        OpKind::ChloSinh => r.cosh(x),
        OpKind::ChloCosh => r.sinh(x),
        OpKind::ChloAsin | OpKind::ChloAcos => {
            let square = r.multiply(x, x)?;
            let rest = r.subtract(one, square)?;
            let slope = r.rsqrt(rest)?;
            if kind == OpKind::ChloAsin { Ok(slope) } else { r.negate(slope) }
        }
        OpKind::ChloAtan => {
            let square = r.multiply(x, x)?;
            let sum = r.add(one, square)?;
            r.divide(one, sum)
        }
        OpKind::ChloAsinh => {
            let square = r.multiply(x, x)?;
            let sum = r.add(square, one)?;
            r.rsqrt(sum)
        }
        OpKind::ChloAcosh => {
            let (low, high) = (r.subtract(x, one)?, r.add(x, one)?);
            let (low, high) = (r.rsqrt(low)?, r.rsqrt(high)?);
            r.multiply(low, high)
        }
        OpKind::ChloAtanh => {
            let square = r.multiply(x, x)?;
            let rest = r.subtract(one, square)?;
            r.divide(one, rest)
        }
        OpKind::ChloErf | OpKind::ChloErfc => {
            let square = r.multiply(x, x)?;
            let minus = r.negate(square)?;
            let bell = r.exponential(minus)?;
            r.scale(bell, if kind == OpKind::ChloErf { FRAC_2_SQRT_PI } else { -FRAC_2_SQRT_PI })
        }
        OpKind::ChloErfInv => {
            let square = r.multiply(y, y)?;
            let grown = r.exponential(square)?;
            r.scale(grown, PI.sqrt() / 2.0)
        }
        OpKind::ChloLgamma => r.digamma(x),
        OpKind::ChloDigamma => r.polygamma(one, x),
        OpKind::ChloBesselI1e => super::bessel::i1e_slope(r, x, y),
        OpKind::ChloSquare => r.scale(x, 2.0),
        _ => return Ok(None),
    };
    slope.map(Some)
}
