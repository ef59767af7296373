//! Functions of elements in PTX. Every operation rounds once, to nearest: nothing is contracted to a multiply-add.
//!
//! | elements | in a register |
//! |---|---|
//! | `f32`, `bf16`, `f16` | 32 bits, an `f32` that the type has |
//! | `f64`, `i64`, `ui64` | 64 bits |
//! | integers of 8 to 32 bits | 32 bits, extended by sign or zeros |
//! | `i1` | a predicate; 32 bits, 0 or 1, where it is kept |

use meshwork_ir::op::{BinaryOp, UnaryOp};
use meshwork_ir::{Direction, ElementClass, ElementType};

use super::writer::{Width, Writer};

/// What PTX calls numbers of this type in arithmetic; `None` for those that kernels do not have.
pub(super) fn suffix(elem: ElementType) -> Option<&'static str> {
    use ElementType::*;
    Some(match elem {
        F32 | BF16 | F16 => "f32",
        F64 => "f64",
        I32 | I16 | I8 => "s32",
        UI32 | UI16 | UI8 => "u32",
        I64 => "s64",
        UI64 => "u64",
        I1 => "pred",
        _ => return None,
    })
}

/// The register that holds a number of this type.
pub(super) fn width(elem: ElementType) -> Option<Width> {
    Some(match (suffix(elem)?, elem.bits()) {
        ("pred", _) => Width::Truth,
        (_, 64) => Width::Double,
        _ => Width::Single,
    })
}

/// A number as an operand.
pub(super) fn immediate(elem: ElementType, bits: u64) -> Option<String> {
    use ElementType::*;
    Some(match elem {
        F32 => format!("0f{:08X}", bits as u32),
        BF16 => format!("0f{:08X}", (bits as u32) << 16),
        F16 => format!("0f{:08X}", half(bits as u16).to_bits()),
        F64 => format!("0d{bits:016X}"),
        I8 => (bits as i8).to_string(),
        I16 => (bits as i16).to_string(),
        I32 => (bits as i32).to_string(),
        I64 => (bits as i64).to_string(),
        UI8 | UI16 | UI32 | UI64 => bits.to_string(),
        _ => return None,
    })
}

/// The number that 16 bits are as an `f16`.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Brings what arithmetic gave back into the type.
fn fitted(w: &mut Writer, elem: ElementType, value: String) -> String {
    match elem {
        ElementType::BF16 | ElementType::F16 => {
            let half = w.fresh(Width::Half);
            w.line(format!("cvt.rn.{}.f32 {half}, {value};", elem.text()));
            from_half(w, elem, &half)
        }
        ElementType::I8 | ElementType::I16 => {
            let bits = elem.bits();
            w.set(Width::Single, |r| format!("bfe.s32 {r}, {value}, 0, {bits};"))
        }
        ElementType::UI8 | ElementType::UI16 => {
            let mask = (1u32 << elem.bits()) - 1;
            w.set(Width::Single, |r| format!("and.b32 {r}, {value}, {mask};"))
        }
        _ => value,
    }
}

/// The `f32` that a number of 16 bits is.
pub(super) fn from_half(w: &mut Writer, elem: ElementType, half: &str) -> String {
    if elem == ElementType::F16 {
        return w.set(Width::Single, |r| format!("cvt.f32.f16 {r}, {half};"));
    }
    let zero = w.set(Width::Half, |h| format!("mov.b16 {h}, 0;"));
    w.set(Width::Single, |r| format!("mov.b32 {r}, {{{zero}, {half}}};"))
}

/// A function of one number.
pub(super) fn unary(w: &mut Writer, f: UnaryOp, elem: ElementType, a: &str) -> Option<String> {
    let (suffix, width) = (suffix(elem)?, width(elem)?);
    let bits = elem.bits().max(32);
    if width == Width::Truth {
        return (f == UnaryOp::Not).then(|| w.set(width, |r| format!("not.pred {r}, {a};")));
    }
    let is_float = elem.is_float();
    let is_signed = elem.class() == ElementClass::Signed;
    let name = match f {
        UnaryOp::Negate if is_float => format!("neg.{suffix}"),
        UnaryOp::Negate => format!("neg.s{bits}"),
        UnaryOp::Abs if is_float || is_signed => format!("abs.{suffix}"),
        UnaryOp::Not if !is_float => format!("not.b{bits}"),
        UnaryOp::Sqrt if is_float => format!("sqrt.rn.{suffix}"),
        UnaryOp::Floor if is_float => format!("cvt.rmi.{suffix}.{suffix}"),
        UnaryOp::Ceil if is_float => format!("cvt.rpi.{suffix}.{suffix}"),
        UnaryOp::RoundNearestEven if is_float => format!("cvt.rni.{suffix}.{suffix}"),
        UnaryOp::Square => return binary(w, BinaryOp::Multiply, elem, a, a),
        _ => return None,
    };
    let value = w.set(width, |r| format!("{name} {r}, {a};"));
    Some(fitted(w, elem, value))
}

/// A function of two numbers.
pub(super) fn binary(w: &mut Writer, f: BinaryOp, elem: ElementType, a: &str, b: &str) -> Option<String> {
    let (suffix, width) = (suffix(elem)?, width(elem)?);
    let bits = elem.bits().max(32);
    let is_float = elem.is_float();
    let name = match f {
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor if width == Width::Truth => format!("{}.pred", logic(f)),
        _ if width == Width::Truth => return None,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor if !is_float => format!("{}.b{bits}", logic(f)),
        BinaryOp::Add if is_float => format!("add.rn.{suffix}"),
        BinaryOp::Subtract if is_float => format!("sub.rn.{suffix}"),
        BinaryOp::Multiply if is_float => format!("mul.rn.{suffix}"),
        BinaryOp::Divide if is_float => format!("div.rn.{suffix}"),
        BinaryOp::Maximum | BinaryOp::Minimum if is_float => return Some(extreme(w, f, elem, a, b)),
        BinaryOp::Maximum => format!("max.{suffix}"),
        BinaryOp::Minimum => format!("min.{suffix}"),
        BinaryOp::Add => format!("add.{suffix}"),
        BinaryOp::Subtract => format!("sub.{suffix}"),
        BinaryOp::Multiply => format!("mul.lo.{suffix}"),
        _ => return None,
    };
    let value = w.set(width, |r| format!("{name} {r}, {a}, {b};"));
    Some(fitted(w, elem, value))
}

/// Whether the operands of a function can change places.
pub(super) fn is_symmetric(f: BinaryOp) -> bool {
    use BinaryOp::*;
    matches!(f, Add | Multiply | And | Or | Xor | Maximum | Minimum)
}

fn logic(f: BinaryOp) -> &'static str {
    match f {
        BinaryOp::And => "and",
        BinaryOp::Or => "or",
        _ => "xor",
    }
}

/// The larger or smaller of two floats; NaN if one is.
fn extreme(w: &mut Writer, f: BinaryOp, elem: ElementType, a: &str, b: &str) -> String {
    let (suffix, width) = if elem == ElementType::F64 { ("f64", Width::Double) } else { ("f32", Width::Single) };
    let name = if f == BinaryOp::Maximum { "max" } else { "min" };
    let value = w.set(width, |r| format!("{name}.{suffix} {r}, {a}, {b};"));
    let nan = w.set(width, |r| format!("add.rn.{suffix} {r}, {a}, {b};"));
    let is_nan = w.set(Width::Truth, |p| format!("setp.nan.{suffix} {p}, {a}, {b};"));
    w.set(width, |r| format!("selp.{suffix} {r}, {nan}, {value}, {is_nan};"))
}

/// Whether two numbers of type `elem` are in this order.
pub(super) fn compare(w: &mut Writer, order: Direction, elem: ElementType, a: &str, b: &str) -> Option<String> {
    let suffix = suffix(elem)?;
    if suffix == "pred" {
        let differ = w.set(Width::Truth, |p| format!("xor.pred {p}, {a}, {b};"));
        return match order {
            Direction::Ne => Some(differ),
            Direction::Eq => Some(w.set(Width::Truth, |p| format!("not.pred {p}, {differ};"))),
            _ => None,
        };
    }
    let name = match order {
        Direction::Eq => "eq",
        Direction::Ne if elem.is_float() => "neu",
        Direction::Ne => "ne",
        Direction::Lt => "lt",
        Direction::Le => "le",
        Direction::Gt => "gt",
        Direction::Ge => "ge",
    };
    Some(w.set(Width::Truth, |p| format!("setp.{name}.{suffix} {p}, {a}, {b};")))
}

/// `a` if `test` holds, else `b`.
pub(super) fn select(w: &mut Writer, elem: ElementType, test: &str, a: &str, b: &str) -> Option<String> {
    let width = width(elem)?;
    if width == Width::Truth {
        let yes = w.set(width, |p| format!("and.pred {p}, {test}, {a};"));
        let not = w.set(width, |p| format!("not.pred {p}, {test};"));
        let no = w.set(width, |p| format!("and.pred {p}, {not}, {b};"));
        return Some(w.set(width, |p| format!("or.pred {p}, {yes}, {no};")));
    }
    let suffix = suffix(elem)?;
    Some(w.set(width, |r| format!("selp.{suffix} {r}, {a}, {b}, {test};")))
}

/// A number of type `from` as one of type `to`.
pub(super) fn convert(w: &mut Writer, from: ElementType, to: ElementType, a: &str) -> Option<String> {
    let (old, new) = (suffix(from)?, suffix(to)?);
    let width = width(to)?;
    if from == to {
        return Some(a.to_string());
    }
    if new == "pred" {
        let zero = immediate(from, 0)?;
        return compare(w, Direction::Ne, from, a, &zero);
    }
    if old == "pred" {
        let one =
            if to.is_float() { if to == ElementType::F64 { "0d3FF0000000000000" } else { "0f3F800000" } } else { "1" };
        let zero = immediate(to, 0)?;
        return Some(w.set(width, |r| format!("selp.{new} {r}, {one}, {zero}, {a};")));
    }
    let value = match (from.is_float(), to.is_float()) {
        // Halves are `f32` here: from one they are rounded by `fitted`, to one they are already.
        (true, true) if (old, new) == ("f32", "f32") => a.to_string(),
        (true, true) if new == "f64" => w.set(width, |r| format!("cvt.f64.f32 {r}, {a};")),
        (true, true) if to == ElementType::F32 => w.set(width, |r| format!("cvt.rn.f32.f64 {r}, {a};")),
        // Rounded twice otherwise.
        (false, true) if matches!(to, ElementType::F32 | ElementType::F64) || from.bits() <= 16 => {
            w.set(width, |r| format!("cvt.rn.{new}.{old} {r}, {a};"))
        }
        (false, false) => {
            let bits = to.bits().max(32);
            let same = from.bits().max(32) == bits;
            let sign = if old.starts_with('s') { 's' } else { 'u' };
            if same { a.to_string() } else { w.set(width, |r| format!("cvt.{sign}{bits}.{old} {r}, {a};")) }
        }
        _ => return None,
    };
    Some(fitted(w, to, value))
}
