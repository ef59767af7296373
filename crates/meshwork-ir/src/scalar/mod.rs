//! One element of a tensor, in a carrier wide enough for every element type.
//!
//! A [`Scalar`] that belongs to an element type is always a value of that type: integers are wrapped to its
//! width, floats rounded to its format. [`Scalar::cast_to`] establishes that.

mod access;
mod convert;

use std::fmt;

use crate::{ElementClass, ElementType, float};

/// One element of a tensor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// An `i1`.
    Bool(bool),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    UInt(u64),
    /// A float of any width.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
}

impl Scalar {
    /// Zero of type `elem`.
    pub fn zero(elem: ElementType) -> Scalar {
        match elem.class() {
            ElementClass::Bool => Scalar::Bool(false),
            ElementClass::Signed => Scalar::Int(0),
            ElementClass::Unsigned => Scalar::UInt(0),
            ElementClass::Float => Scalar::Float(0.0),
            ElementClass::Complex => Scalar::Complex(0.0, 0.0),
        }
    }

    /// The number `value` as `elem`, converted as `stablehlo.convert` does.
    pub fn from_f64(elem: ElementType, value: f64) -> Scalar {
        Scalar::Float(value).cast_to(elem)
    }

    /// The number `value` as `elem`, converted as `stablehlo.convert` does.
    pub fn from_i64(elem: ElementType, value: i64) -> Scalar {
        Scalar::Int(value).cast_to(elem)
    }

    /// The truth value; for numbers, whether they are not zero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(v) => v != 0,
            Scalar::UInt(v) => v != 0,
            Scalar::Float(v) | Scalar::Complex(v, _) => v != 0.0,
        }
    }

    /// The number as an index: floats truncated, unsigned 64-bit values by bit pattern.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => i64::from(b),
            Scalar::Int(v) => v,
            Scalar::UInt(v) => v as i64,
            Scalar::Float(v) | Scalar::Complex(v, _) => v as i64,
        }
    }

    /// The number as a float; of a complex number the real part.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => f64::from(u8::from(b)),
            Scalar::Int(v) => v as f64,
            Scalar::UInt(v) => v as f64,
            Scalar::Float(v) | Scalar::Complex(v, _) => v,
        }
    }

    /// Real and imaginary part.
    pub fn as_complex(self) -> (f64, f64) {
        match self {
            Scalar::Complex(re, im) => (re, im),
            other => (other.as_f64(), 0.0),
        }
    }

    /// Whether the number is NaN or has a NaN part.
    pub fn is_nan(self) -> bool {
        match self {
            Scalar::Float(v) => v.is_nan(),
            Scalar::Complex(re, im) => re.is_nan() || im.is_nan(),
            Scalar::Bool(_) | Scalar::Int(_) | Scalar::UInt(_) => false,
        }
    }
}

/// The sum of products `value`, rounded to `elem`. As in XLA, a product of matrices or a convolution with a result of eight
/// bits is rounded to `f16` on the way.
pub fn round_product(elem: ElementType, value: f64) -> f64 {
    round(elem, if is_through_half(elem) { round(ElementType::F16, value) } else { value })
}

/// Whether [`round_product`] rounds twice.
pub fn is_through_half(elem: ElementType) -> bool {
    elem.is_float() && elem.bits() == 8 && elem != ElementType::F8E8M0FNU
}

/// `value` rounded to the floating-point type `elem`.
#[inline]
pub fn round(elem: ElementType, value: f64) -> f64 {
    match elem {
        ElementType::F64 | ElementType::C128 => value,
        ElementType::F32 | ElementType::C64 => f64::from(value as f32),
        other => float::decode(other, float::encode(other, value)),
    }
}

/// The low `bits` bits of `value`, sign-extended.
#[inline]
pub fn wrap_signed(value: i64, bits: usize) -> i64 {
    let unused = 64 - bits as u32;
    (value << unused) >> unused
}

/// The low `bits` bits of `value`.
#[inline]
pub fn wrap_unsigned(value: u64, bits: usize) -> u64 {
    let unused = 64 - bits as u32;
    (value << unused) >> unused
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::UInt(v) => write!(f, "{v}"),
            Scalar::Float(v) => write!(f, "{v:e}"),
            Scalar::Complex(re, im) => write!(f, "({re:e}, {im:e})"),
        }
    }
}
