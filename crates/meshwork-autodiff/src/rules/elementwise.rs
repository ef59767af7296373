//! Functions of two and three elements.

use meshwork_ir::ValueId;
use meshwork_ir::build::{BuildError, Direction};
use meshwork_ir::op::BinaryOp;

use crate::GradError;
use crate::reverse::{Reverse, Site};

type Out = Result<ValueId, BuildError>;

pub(super) fn binary(r: &mut Reverse<'_>, site: &Site, op: BinaryOp) -> Result<(), GradError> {
    let (x, y, out, ct) = (site.x(0), site.x(1), site.y(), site.ct);
    let (wants_x, wants_y) = (r.wants(x), r.wants(y));
    match op {
        BinaryOp::Add => {
            r.give(x, ct)?;
            r.give(y, ct)?;
        }
        BinaryOp::Subtract => {
            r.give(x, ct)?;
            if wants_y {
                let minus = r.negate(ct)?;
                r.give(y, minus)?;
            }
        }
        BinaryOp::Multiply => {
            for (to, other) in [(x, y), (y, x)] {
                if r.wants(to) {
                    let part = r.multiply(ct, other)?;
                    r.give(to, part)?;
                }
            }
        }
        BinaryOp::Divide => {
            let part = r.divide(ct, y)?;
            r.give(x, part)?;
            if wants_y {
                let part = r.multiply(part, out)?;
                let part = r.negate(part)?;
                r.give(y, part)?;
            }
        }
        BinaryOp::Maximum | BinaryOp::Minimum => {
            for (to, other) in [(x, y), (y, x)] {
                if r.wants(to) {
                    let share = chosen_share(r, to, other, out)?;
                    let part = r.multiply(ct, share)?;
                    r.give(to, part)?;
                }
            }
        }
        BinaryOp::Power => {
            if wants_x {
                let part = power_base(r, x, y)?;
                let part = r.multiply(ct, part)?;
                r.give(x, part)?;
            }
            if wants_y {
                let part = power_exponent(r, x, out)?;
                let part = r.multiply(ct, part)?;
                r.give(y, part)?;
            }
        }
        BinaryOp::Remainder => {
            r.give(x, ct)?;
            if wants_y {
                // x rem y = x - y trunc(x / y).
                let ratio = r.divide(x, y)?;
                let (sign, size) = (r.sign(ratio)?, r.abs(ratio)?);
                let whole = r.floor(size)?;
                let whole = r.multiply(sign, whole)?;
                let part = r.multiply(ct, whole)?;
                let part = r.negate(part)?;
                r.give(y, part)?;
            }
        }
        BinaryOp::Atan2 => {
            let (xx, yy) = (r.multiply(x, x)?, r.multiply(y, y)?);
            let norm = r.add(xx, yy)?;
            let part = r.divide(ct, norm)?;
            let (to_x, to_y) = (r.multiply(part, y)?, r.multiply(part, x)?);
            let to_y = r.negate(to_y)?;
            r.give(x, to_x)?;
            r.give(y, to_y)?;
        }
        BinaryOp::Complex => {
            let (real, imag) = (r.real(ct)?, r.imag(ct)?);
            let imag = r.negate(imag)?;
            r.give(x, real)?;
            r.give(y, imag)?;
        }
        BinaryOp::Polygamma | BinaryOp::Zeta if wants_x => {
            return Err(GradError::no_rule(r.module(), site.id, "its first operand has no derivative in closed form"));
        }
        BinaryOp::Polygamma => {
            let one = r.splat_like(x, 1.0)?;
            let next = r.add(x, one)?;
            let slope = r.polygamma(next, y)?;
            let part = r.multiply(ct, slope)?;
            r.give(y, part)?;
        }
        BinaryOp::Zeta => {
            let one = r.splat_like(x, 1.0)?;
            let next = r.add(x, one)?;
            let slope = r.zeta(next, y)?;
            let slope = r.multiply(x, slope)?;
            let part = r.multiply(ct, slope)?;
            let part = r.negate(part)?;
            r.give(y, part)?;
        }
        BinaryOp::NextAfter => {
            let why = "it moves by less than a derivative can say; use its first operand instead";
            return Err(GradError::no_rule(r.module(), site.id, why));
        }
        // These are on integers.
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRightArithmetic
        | BinaryOp::ShiftRightLogical
        | BinaryOp::Mulhi => {}
    }
    Ok(())
}

/// One where `x` is the one chosen as `out`, a half where `other` equals it, else zero.
fn chosen_share(r: &mut Reverse<'_>, x: ValueId, other: ValueId, out: ValueId) -> Out {
    let (zero, half, one) = (r.zeros_like(x)?, r.splat_like(x, 0.5)?, r.splat_like(x, 1.0)?);
    let (here, there) = (r.compare(Direction::Eq, x, out)?, r.compare(Direction::Eq, other, out)?);
    let share = r.select(there, half, one)?;
    r.select(here, share, zero)
}

/// `y x^(y-1)`, and zero for `y = 0` and any `x`.
fn power_base(r: &mut Reverse<'_>, x: ValueId, y: ValueId) -> Out {
    let (zero, one) = (r.zeros_like(y)?, r.splat_like(y, 1.0)?);
    let is_zero = r.compare(Direction::Eq, y, zero)?;
    let less = r.subtract(y, one)?;
    let less = r.select(is_zero, one, less)?;
    let power = r.power(x, less)?;
    let slope = r.multiply(y, power)?;
    r.select(is_zero, zero, slope)
}

/// `x^y log x`, with the limit zero at `x = 0`.
fn power_exponent(r: &mut Reverse<'_>, x: ValueId, out: ValueId) -> Out {
    let (zero, one) = (r.zeros_like(x)?, r.splat_like(x, 1.0)?);
    let is_zero = r.compare(Direction::Eq, x, zero)?;
    let safe = r.select(is_zero, one, x)?;
    let log = r.log(safe)?;
    r.multiply(log, out)
}

/// The cotangent goes to the one of the three that the result was taken from; to none at a tie.
pub(super) fn clamp(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (min, x, max, ct) = (site.x(0), site.x(1), site.x(2), site.ct);
    let zero = r.zeros_like(ct)?;
    let (low, high) = (stretched(r, min, x)?, stretched(r, max, x)?);
    let (above, below) = (r.compare(Direction::Gt, x, low)?, r.compare(Direction::Lt, x, high)?);
    let inside = r.and(above, below)?;
    let part = r.select(inside, ct, zero)?;
    r.give(x, part)?;
    // The upper bound is applied last, so it wins where the bounds cross.
    let raised = r.maximum(x, low)?;
    let (under, ordered) = (r.compare(Direction::Lt, x, low)?, r.compare(Direction::Lt, low, high)?);
    let (at_low, at_high) = (r.and(under, ordered)?, r.compare(Direction::Gt, raised, high)?);
    for (bound, taken) in [(min, at_low), (max, at_high)] {
        if r.wants(bound) {
            let part = r.select(taken, ct, zero)?;
            let part = if r.rank(bound) == r.rank(x) { part } else { r.sum_all(part)? };
            r.give(bound, part)?;
        }
    }
    Ok(())
}

/// `bound`, a scalar or of the shape of `x`, in the shape of `x`.
fn stretched(r: &mut Reverse<'_>, bound: ValueId, x: ValueId) -> Out {
    let dims = r.dims(x);
    if r.rank(bound) == dims.len() { Ok(bound) } else { r.broadcast_in_dim(bound, dims, &[]) }
}

pub(super) fn select(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (pred, yes, no, ct) = (site.x(0), site.x(1), site.x(2), site.ct);
    let zero = r.zeros_like(ct)?;
    if r.wants(yes) {
        let part = r.select(pred, ct, zero)?;
        r.give(yes, part)?;
    }
    if r.wants(no) {
        let part = r.select(pred, zero, ct)?;
        r.give(no, part)?;
    }
    Ok(())
}
