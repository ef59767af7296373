//! Functions of elements.

use meshwork_ir::build::{Builder, Direction};
use meshwork_ir::op::{BinaryOp, MixedOp, UnaryOp};
use meshwork_ir::{ElementClass, ElementType, OpKind};

use super::value::{is_inexact, largest, unit};
use super::{Maker, Value};

/// Where a smooth function is taken.
#[derive(Clone, Copy)]
enum Domain {
    /// Magnitudes up to this.
    Within(f64),
    /// From this on, by at most 4.
    Above(f64),
}

/// A function there: its largest slope and its largest value.
struct Smooth {
    domain: Domain,
    slope: f64,
    range: f64,
}

/// What a function of one element asks of it.
enum Rule {
    Smooth(Smooth),
    /// Whole numbers stay whole, and nothing grows.
    Whole,
    /// It jumps: only of what is certain. The result is at most this large.
    Jumps(f64),
    /// A part of a complex number, or the same with the other sign.
    Part,
}

fn rule(op: UnaryOp) -> Rule {
    use Domain::{Above, Within};
    let smooth = |domain, slope, range| Rule::Smooth(Smooth { domain, slope, range });
    match op {
        UnaryOp::Abs | UnaryOp::Negate => Rule::Whole,
        UnaryOp::Real | UnaryOp::Imag | UnaryOp::Conj => Rule::Part,
        UnaryOp::Ceil | UnaryOp::Floor | UnaryOp::RoundNearestAfz | UnaryOp::RoundNearestEven => Rule::Jumps(f64::NAN),
        UnaryOp::Sign => Rule::Jumps(1.0),
        UnaryOp::IsFinite | UnaryOp::IsInf | UnaryOp::IsNegInf | UnaryOp::IsPosInf => Rule::Jumps(1.0),
        UnaryOp::Not => Rule::Jumps(f64::INFINITY),
        UnaryOp::CountLeadingZeros | UnaryOp::Popcnt => Rule::Jumps(64.0),
        UnaryOp::Cosine | UnaryOp::Sine | UnaryOp::Tanh | UnaryOp::Atan | UnaryOp::Logistic => {
            smooth(Within(8.0), 1.0, 1.5)
        }
        UnaryOp::Erf | UnaryOp::Erfc => smooth(Within(4.0), 1.2, 2.0),
        UnaryOp::Asinh => smooth(Within(8.0), 1.0, 3.0),
        UnaryOp::BesselI1e => smooth(Within(4.0), 0.6, 0.3),
        UnaryOp::Exponential | UnaryOp::ExponentialMinusOne | UnaryOp::Sinh | UnaryOp::Cosh => {
            smooth(Within(2.0), 7.5, 7.5)
        }
        UnaryOp::Square => smooth(Within(4.0), 8.0, 16.0),
        UnaryOp::Tan | UnaryOp::ChloTan => smooth(Within(1.0), 3.5, 1.6),
        UnaryOp::Acos | UnaryOp::Asin | UnaryOp::Atanh | UnaryOp::ErfInv | UnaryOp::AsinAcosKernel => {
            smooth(Within(0.5), 1.5, 2.2)
        }
        UnaryOp::Cbrt | UnaryOp::Log | UnaryOp::LogPlusOne | UnaryOp::Sqrt | UnaryOp::Rsqrt => {
            smooth(Above(1.0), 1.0, 2.5)
        }
        UnaryOp::Lgamma | UnaryOp::Digamma => smooth(Above(1.0), 1.7, 4.0),
        UnaryOp::Acosh => smooth(Above(2.0), 0.6, 2.5),
    }
}

/// Roundings of one operation in the type of `v`: functions of wide types are computed to some units only, those of
/// narrow ones in a wider type.
fn roundings(v: &Value) -> f64 {
    match v.class() {
        ElementClass::Complex => 64.0,
        _ if v.elem.bits() >= 32 => 16.0,
        _ => 2.0,
    }
}

impl Maker {
    pub(super) fn unary(&mut self, b: &mut Builder<'_>, scope: &[Value], op: UnaryOp) -> Option<Vec<Value>> {
        let rule = rule(op);
        let x = self.pick(scope, |v| match rule {
            // Bessel functions of complex numbers have a type, but no evaluator.
            Rule::Smooth(_) => is_inexact(v.elem) && !(op == UnaryOp::BesselI1e && v.class() == ElementClass::Complex),
            Rule::Whole => true,
            Rule::Jumps(_) => v.is_exact(),
            Rule::Part => v.class() == ElementClass::Complex || (v.is_float() && op != UnaryOp::Conj),
        })?;
        let kind = OpKind::Unary(op);
        let made = match rule {
            Rule::Whole => {
                let id = b.apply(kind, &[x.id]).ok()?;
                // The magnitude of a complex number is computed.
                let whole = x.whole && x.class() != ElementClass::Complex;
                match is_inexact(x.elem) && x.class() != ElementClass::Complex {
                    true => Value::moved(b, id, x.bound, x.error, x.whole)?,
                    false => Value::computed(b, id, x.bound, x.error, whole, 4.0)?,
                }
            }
            Rule::Part => {
                let id = b.apply(kind, &[x.id]).ok()?;
                Value::moved(b, id, x.bound, x.error, x.whole)?
            }
            // The direction of a complex number is computed.
            Rule::Jumps(bound) if op == UnaryOp::Sign && x.class() == ElementClass::Complex => {
                let id = b.apply(kind, &[x.id]).ok()?;
                Value::computed(b, id, bound, 0.0, false, roundings(&x))?
            }
            Rule::Jumps(bound) => {
                let id = b.apply(kind, &[x.id]).ok()?;
                let bound = if bound.is_nan() { x.bound + 1.0 } else { bound };
                let made = Value::moved(b, id, 0.0, 0.0, true)?;
                Value { bound: bound.min(largest(made.elem)), ..made }
            }
            Rule::Smooth(f) => {
                let complex = x.class() == ElementClass::Complex;
                // Complex functions have slopes of their own: near 0, or near 2, all are tame.
                let f = match (complex, f.domain) {
                    (false, _) => f,
                    (true, Domain::Within(_)) => Smooth { domain: Domain::Within(0.4), slope: 3.0, range: 3.0 },
                    (true, Domain::Above(_)) => Smooth { domain: Domain::Above(2.0), slope: 2.0, range: 3.0 },
                };
                let x = self.tame(b, &x, f.domain)?;
                let id = b.apply(kind, &[x.id]).ok()?;
                let bound = f.range;
                Value::computed(b, id, bound, f.slope * (x.error + x.bound * unit(x.elem)), false, roundings(&x))?
            }
        };
        Some(vec![made])
    }

    /// `x` moved into `domain`.
    fn tame(&mut self, b: &mut Builder<'_>, x: &Value, domain: Domain) -> Option<Value> {
        let room = match domain {
            Domain::Within(r) => r,
            Domain::Above(_) if x.class() == ElementClass::Complex => 0.5,
            Domain::Above(_) => 4.0,
        };
        let mut x = x.clone();
        if x.bound > room {
            let factor = 0.5f64.powi((x.bound / room).log2().ceil() as i32);
            let by = b.splat(x.dims.iter().copied(), x.elem, factor).ok()?;
            let id = b.multiply(x.id, by).ok()?;
            x = Value::computed(b, id, x.bound * factor, x.error * factor, false, 1.0)?;
        }
        if let Domain::Above(least) = domain {
            let complex = x.class() == ElementClass::Complex;
            let size = if complex { x.id } else { b.abs(x.id).ok()? };
            let least_id = b.splat(x.dims.iter().copied(), x.elem, least).ok()?;
            let id = b.add(size, least_id).ok()?;
            x = Value::computed(b, id, x.bound + least, x.error, x.whole, 1.0)?;
        }
        Some(x)
    }

    pub(super) fn binary(&mut self, b: &mut Builder<'_>, scope: &[Value], op: BinaryOp) -> Option<Vec<Value>> {
        let x = self.any(scope)?;
        let y = self.like(b, scope, x.elem, &x.dims)?;
        let apply = |b: &mut Builder<'_>, x: &Value, y: &Value| b.apply(OpKind::Binary(op), &[x.id, y.id]).ok();
        let (whole, inexact) = (x.whole && y.whole, is_inexact(x.elem));
        let made = match op {
            BinaryOp::Add | BinaryOp::Subtract => {
                let id = apply(b, &x, &y)?;
                Value::computed(b, id, x.bound + y.bound, x.error + y.error, whole, 1.0)?
            }
            BinaryOp::Multiply => {
                let id = apply(b, &x, &y)?;
                let error = x.error * y.bound + y.error * x.bound;
                Value::computed(b, id, x.bound * y.bound, error, whole, 4.0)?
            }
            BinaryOp::Maximum | BinaryOp::Minimum => {
                // Of complex numbers the larger real part decides.
                if x.class() == ElementClass::Complex && !(x.is_exact() && y.is_exact()) {
                    return None;
                }
                let id = apply(b, &x, &y)?;
                Value::moved(b, id, x.bound.max(y.bound), x.error.max(y.error), whole)?
            }
            BinaryOp::Divide if inexact => {
                let y = self.tame(b, &y, Domain::Above(1.0))?;
                let id = apply(b, &x, &y)?;
                Value::computed(b, id, x.bound, x.error + x.bound * y.error, false, 8.0)?
            }
            BinaryOp::Divide | BinaryOp::Remainder if !inexact => {
                let one = b.splat(y.dims.iter().copied(), y.elem, 1.0).ok()?;
                let or = b.or(y.id, one).ok()?;
                let id = apply(b, &x, &Value { id: or, ..y })?;
                Value::computed(b, id, x.bound, 0.0, true, 0.0)?
            }
            BinaryOp::Remainder => {
                if !x.is_exact() || !y.is_exact() || !whole || x.class() == ElementClass::Complex {
                    return None;
                }
                let size = b.abs(y.id).ok()?;
                let one = b.splat(y.dims.iter().copied(), y.elem, 1.0).ok()?;
                let y = Value { id: b.add(size, one).ok()?, ..y };
                let id = apply(b, &x, &y)?;
                Value::computed(b, id, x.bound, 0.0, true, 0.0)?
            }
            BinaryOp::Divide => return None,
            BinaryOp::Power if inexact => {
                let x = self.tame(b, &x, Domain::Above(1.0))?;
                let y = self.tame(b, &y, Domain::Within(1.0))?;
                let id = apply(b, &x, &y)?;
                let error = x.error + x.bound * unit(x.elem) + 8.0 * (y.error + unit(y.elem));
                Value::computed(b, id, 6.0, error, false, roundings(&x))?
            }
            BinaryOp::Power => {
                let three = b.splat(y.dims.iter().copied(), y.elem, 3.0f64.min(largest(y.elem) - 1.0)).ok()?;
                let low = b.and(y.id, three).ok()?;
                let id = apply(b, &x, &Value { id: low, ..y })?;
                Value::computed(b, id, x.bound.max(1.0).powi(3), 0.0, true, 0.0)?
            }
            BinaryOp::Atan2 => {
                let x = self.tame(b, &x, Domain::Within(0.4))?;
                let y = self.tame(b, &y, Domain::Above(2.0))?;
                let id = apply(b, &x, &y)?;
                Value::computed(b, id, 1.5, 2.0 * (x.error + y.error + 6.0 * unit(x.elem)), false, roundings(&x))?
            }
            BinaryOp::Complex => {
                let id = apply(b, &x, &y)?;
                Value::moved(b, id, x.bound + y.bound, x.error + y.error, whole)?
            }
            BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::ShiftLeft
            | BinaryOp::ShiftRightArithmetic
            | BinaryOp::ShiftRightLogical
            | BinaryOp::Mulhi => {
                let id = apply(b, &x, &y)?;
                Value::computed(b, id, f64::INFINITY, 0.0, true, 0.0)?
            }
            BinaryOp::NextAfter => {
                if !x.is_exact() || !y.is_exact() || !x.is_float() {
                    return None;
                }
                let id = apply(b, &x, &y)?;
                Value::moved(b, id, x.bound + 1.0, 0.0, false)?
            }
            BinaryOp::Zeta => {
                let x = self.tame(b, &x, Domain::Above(2.0))?;
                let y = self.tame(b, &y, Domain::Above(1.0))?;
                let id = apply(b, &x, &y)?;
                let error = 3.0 * (x.error + y.error + 6.0 * unit(x.elem));
                Value::computed(b, id, 2.0, error, false, roundings(&x))?
            }
            BinaryOp::Polygamma => {
                let n = b.splat(x.dims.iter().copied(), x.elem, 1.0).ok()?;
                let x = self.tame(b, &x, Domain::Above(1.0))?;
                let id = b.polygamma(n, x.id).ok()?;
                Value::computed(b, id, 2.0, 3.0 * (x.error + 5.0 * unit(x.elem)), false, 4.0 * roundings(&x))?
            }
        };
        Some(vec![made])
    }

    pub(super) fn mixed(&mut self, b: &mut Builder<'_>, scope: &[Value], op: MixedOp) -> Option<Vec<Value>> {
        let made = match op {
            MixedOp::Clamp => {
                let x = self.pick(scope, |v| v.class() != ElementClass::Complex)?;
                let dims = if self.numbers.below(2) == 0 { vec![] } else { x.dims.clone() };
                let (low, high) = (self.like(b, scope, x.elem, &dims)?, self.like(b, scope, x.elem, &dims)?);
                let id = b.clamp(low.id, x.id, high.id).ok()?;
                let largest = |f: fn(&Value) -> f64| f(&x).max(f(&low)).max(f(&high));
                Value::moved(b, id, largest(|v| v.bound), largest(|v| v.error), x.whole && low.whole && high.whole)?
            }
            MixedOp::Compare => {
                let x = self.pick(scope, Value::is_exact)?;
                let y = self.pick(scope, |v| v.is_exact() && v.elem == x.elem && v.dims == x.dims)?;
                use Direction::*;
                let id = b.compare([Eq, Ne, Lt, Le, Gt, Ge][self.numbers.below(6)], x.id, y.id).ok()?;
                Value::moved(b, id, 1.0, 0.0, true)?
            }
            MixedOp::Convert => {
                let (x, to) = (self.any(scope)?, self.elem());
                self.converted(b, &x, to)?
            }
            MixedOp::ReducePrecision => {
                let x = self.pick(scope, Value::is_float)?;
                let (exponent, mantissa) = [(8, 7), (5, 10), (5, 4)][self.numbers.below(3)];
                let id = b.reduce_precision(x.id, exponent, mantissa).ok()?;
                if x.bound > 1000.0 {
                    return None;
                }
                let error = if x.is_exact() { 0.0 } else { x.error + x.bound * 0.5f64.powi(mantissa as i32) };
                // Small numbers go to zero.
                let exact = x.is_exact();
                let made = Value::moved(b, id, x.bound * 1.1, error, x.whole)?;
                if exact { made } else { Value { error: made.error + 1e-4, ..made } }
            }
            MixedOp::Select => {
                let x = self.any(scope)?;
                let y = self.like(b, scope, x.elem, &x.dims)?;
                let p = self.pick(scope, |v| v.elem == ElementType::I1 && (v.dims == x.dims || v.dims.is_empty()))?;
                let id = b.select(p.id, x.id, y.id).ok()?;
                Value::moved(b, id, x.bound.max(y.bound), x.error.max(y.error), x.whole && y.whole)?
            }
            // Of quantized types, which programs here do not have.
            MixedOp::UniformDequantize | MixedOp::UniformQuantize => return None,
        };
        Some(vec![made])
    }

    /// `x` as `to`.
    pub(super) fn converted(&mut self, b: &mut Builder<'_>, x: &Value, to: ElementType) -> Option<Value> {
        // A jump, unless both round; and what does not fit differs between machines.
        let fits = x.bound <= largest(to) / 2.0 && !(to.class() == ElementClass::Unsigned && is_inexact(x.elem));
        let to_pred = to == ElementType::I1 && x.is_exact();
        let between_ints = !is_inexact(x.elem) && !is_inexact(to);
        if !(between_ints || to_pred || (fits && (x.is_exact() || is_inexact(to)))) {
            return None;
        }
        let id = b.convert(x.id, to).ok()?;
        match is_inexact(to) {
            // To and from complex numbers the imaginary part comes and goes.
            true => Value::computed(b, id, x.bound, x.error, x.whole, 1.0),
            false => {
                let wraps = between_ints && x.bound > largest(to) / 2.0;
                Value::computed(b, id, if wraps { f64::INFINITY } else { x.bound }, 0.0, true, 0.0)
            }
        }
    }
}
