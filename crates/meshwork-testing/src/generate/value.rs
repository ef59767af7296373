//! What is known of a value of a random program.

use meshwork_ir::build::Builder;
use meshwork_ir::{ElementClass, ElementType, ValueId};

/// Magnitude of arguments and constants, at most.
pub(super) const LARGEST: usize = 3;

/// A value, how large it may be, and how far from what is meant.
#[derive(Clone, Debug)]
pub struct Value {
    /// The value.
    pub id: ValueId,
    /// Its element type.
    pub elem: ElementType,
    /// Its extents.
    pub dims: Vec<i64>,
    /// No element is larger in magnitude.
    pub bound: f64,
    /// No element is further from the exact result: 0 if all bits are certain.
    pub error: f64,
    /// Whether all elements are whole numbers.
    pub whole: bool,
}

impl Value {
    /// An argument or a constant.
    pub(super) fn argument(id: ValueId, elem: ElementType, dims: &[i64], whole: bool) -> Value {
        let bound = match elem.class() {
            ElementClass::Bool => 1.0,
            // Of the narrowest types, numbers wrap around.
            ElementClass::Signed | ElementClass::Unsigned => (LARGEST as f64).max(largest(elem).min(8.0)),
            ElementClass::Float => LARGEST as f64,
            ElementClass::Complex => 1.5 * LARGEST as f64,
        };
        let whole = whole || !is_inexact(elem);
        Value { id, elem, dims: dims.to_vec(), bound, error: 0.0, whole }
    }

    /// The result `id` of arithmetic that takes whole numbers to whole ones. If its operands are not, or if it is too
    /// large for its type to have all whole numbers, it is rounded.
    pub(super) fn computed(
        b: &Builder<'_>,
        id: ValueId,
        bound: f64,
        error: f64,
        of_whole: bool,
        roundings: f64,
    ) -> Option<Value> {
        let mut made = Value::moved(b, id, bound, error, of_whole)?;
        if !is_inexact(made.elem) {
            (made.bound, made.error) = (made.bound.min(largest(made.elem)), 0.0);
            return Some(made);
        }
        if !of_whole || bound * unit(made.elem) > 1.0 || error > 0.0 {
            made.whole = false;
            made.error = error + roundings.max(1.0) * bound * unit(made.elem) + f64::from(f32::MIN_POSITIVE);
        }
        // What is nearly infinite, or of which no digit is certain, would hide differences or make them up.
        (made.bound < largest(made.elem) / 4.0 && made.error <= 0.05 * (1.0 + made.bound.min(4.0))).then_some(made)
    }

    /// The result `id`, which has elements of operands as they are.
    pub(super) fn moved(b: &Builder<'_>, id: ValueId, bound: f64, error: f64, whole: bool) -> Option<Value> {
        let ty = b.ty(id).as_tensor()?;
        if ty.num_elements()? > 20_000 || ty.rank() > 5 {
            return None;
        }
        Some(Value { id, elem: ty.elem, dims: ty.dims.to_vec(), bound, error, whole })
    }

    /// Whether every run has the same bits.
    pub(super) fn is_exact(&self) -> bool {
        self.error == 0.0
    }

    pub(super) fn class(&self) -> ElementClass {
        self.elem.class()
    }

    pub(super) fn is_int(&self) -> bool {
        matches!(self.class(), ElementClass::Signed | ElementClass::Unsigned)
    }

    pub(super) fn is_float(&self) -> bool {
        self.class() == ElementClass::Float
    }

    pub(super) fn rank(&self) -> usize {
        self.dims.len()
    }

    pub(super) fn count(&self) -> i64 {
        self.dims.iter().product()
    }
}

/// Whether arithmetic in `elem` rounds.
pub(super) fn is_inexact(elem: ElementType) -> bool {
    matches!(elem.class(), ElementClass::Float | ElementClass::Complex)
}

/// The distance from 1 to the next number: whole numbers below its inverse are exact.
pub(crate) fn unit(elem: ElementType) -> f64 {
    use ElementType::*;
    let bits = match elem.real_part() {
        F64 => 52,
        F32 => 23,
        F16 | TF32 => 10,
        BF16 => 7,
        F8E3M4 => 4,
        F8E4M3 | F8E4M3FN | F8E4M3FNUZ | F8E4M3B11FNUZ | F6E2M3FN => 3,
        F8E5M2 | F8E5M2FNUZ | F6E3M2FN => 2,
        F4E2M1FN => 1,
        _ => 0,
    };
    0.5f64.powi(bits)
}

/// The largest number, about.
pub(super) fn largest(elem: ElementType) -> f64 {
    use ElementType::*;
    match elem.real_part() {
        // Far from the end, so that products of bounds stay numbers.
        F64 | F32 | BF16 => 1e12,
        F16 => 65504.0,
        F8E5M2 | F8E5M2FNUZ => 57344.0,
        F8E4M3FN | F8E4M3 | F8E4M3FNUZ => 240.0,
        F8E4M3B11FNUZ => 30.0,
        F8E3M4 => 15.5,
        I1 => 1.0,
        int => match int.class() {
            ElementClass::Signed => 2f64.powi(int.bits() as i32 - 1),
            ElementClass::Unsigned => 2f64.powi(int.bits() as i32) - 1.0,
            _ => 1.0,
        },
    }
}
