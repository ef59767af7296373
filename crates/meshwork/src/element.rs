//! Rust numbers beside tensors.

use meshwork_ir::{ElementClass, ElementType, Literal, Scalar};
pub use meshwork_runtime::Element;

use crate::trace::compose::compose;
use crate::{Array, Tensor};

/// A number that takes the element type of the tensor it meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A float: fits float and complex tensors.
    Float(f64),
    /// An integer: fits all but boolean tensors.
    Int(i64),
    /// A truth value: fits boolean tensors.
    Bool(bool),
}

/// A tensor or a number: what operations take beside a tensor.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tensor.
    Tensor(Tensor),
    /// A number.
    Number(Number),
    /// An array of the host, a constant of the program.
    Array(Array),
}

impl From<Tensor> for Operand {
    fn from(x: Tensor) -> Operand {
        Operand::Tensor(x)
    }
}

impl From<&Tensor> for Operand {
    fn from(x: &Tensor) -> Operand {
        Operand::Tensor(x.clone())
    }
}

macro_rules! numbers {
    ($($ty:ty => $form:ident as $wide:ty),* $(,)?) => {
        $(
            impl From<$ty> for Number {
                fn from(x: $ty) -> Number {
                    Number::$form(x as $wide)
                }
            }

            impl From<$ty> for Operand {
                fn from(x: $ty) -> Operand {
                    Operand::Number(x.into())
                }
            }
        )*
    };
}

numbers! {
    f32 => Float as f64, f64 => Float as f64, bool => Bool as bool,
    i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64, isize => Int as i64,
    u8 => Int as i64, u16 => Int as i64, u32 => Int as i64,
}

impl From<half::f16> for Number {
    fn from(x: half::f16) -> Number {
        Number::Float(x.to_f64())
    }
}

impl From<half::bf16> for Number {
    fn from(x: half::bf16) -> Number {
        Number::Float(x.to_f64())
    }
}

/// A count beside a tensor. One that no `i64` holds becomes a float, so that it is not another number.
impl From<u64> for Number {
    fn from(x: u64) -> Number {
        i64::try_from(x).map_or(Number::Float(x as f64), Number::Int)
    }
}

impl From<usize> for Number {
    fn from(x: usize) -> Number {
        Number::from(x as u64)
    }
}

macro_rules! operands {
    ($($ty:ty),*) => {
        $(
            impl From<$ty> for Operand {
                fn from(x: $ty) -> Operand {
                    Operand::Number(x.into())
                }
            }
        )*
    };
}

operands! { Number, half::f16, half::bf16, u64, usize }

/// An array that the function has captured becomes a constant of the program, as by [`Tensor::constant`].
impl From<&Array> for Operand {
    fn from(x: &Array) -> Operand {
        Operand::Array(x.clone())
    }
}

impl Number {
    /// The number as one element of type `elem`, or why it is none.
    pub(crate) fn literal(self, elem: ElementType) -> Result<Literal, String> {
        let scalar = match (self, elem.class()) {
            (Number::Float(v), ElementClass::Float) => Scalar::Float(v),
            (Number::Float(v), ElementClass::Complex) => Scalar::Complex(v, 0.0),
            (Number::Int(v), ElementClass::Float) => Scalar::Float(v as f64),
            (Number::Int(v), ElementClass::Complex) => Scalar::Complex(v as f64, 0.0),
            (Number::Int(v), ElementClass::Signed) => {
                let unused = 64 - elem.bits().min(64) as u32;
                if (v << unused) >> unused != v {
                    return Err(format!("the number {v} does not fit in {elem}"));
                }
                Scalar::Int(v)
            }
            (Number::Int(v), ElementClass::Unsigned) => {
                if v < 0 || (elem.bits() < 64 && v >> elem.bits() != 0) {
                    return Err(format!("the number {v} does not fit in {elem}"));
                }
                Scalar::UInt(v as u64)
            }
            (Number::Bool(v), ElementClass::Bool) => Scalar::Bool(v),
            (Number::Float(v), _) => {
                return Err(format!("the float {v} with a tensor of {elem}; convert the tensor with .to(F32) first"));
            }
            (Number::Int(v), ElementClass::Bool) => return Err(format!("the number {v} with a tensor of i1")),
            (Number::Bool(v), _) => return Err(format!("the truth value {v} with a tensor of {elem}")),
        };
        Ok(Literal::scalar(elem, scalar))
    }

    /// The constant of this shape with all elements equal to the number.
    #[track_caller]
    pub(crate) fn fill(self, op: &str, dims: &[i64], elem: ElementType) -> Tensor {
        compose(op, [], |s, _| s.fill(self, dims, elem))
    }
}

impl Operand {
    /// The operand with an array made a constant.
    #[track_caller]
    pub(crate) fn traced(self) -> Operand {
        match self {
            Operand::Array(a) => Operand::Tensor(Tensor::constant(&a)),
            other => other,
        }
    }

    /// The tensor; a number as a scalar of the given element type.
    #[track_caller]
    pub(crate) fn tensor(self, op: &str, elem: ElementType) -> Tensor {
        self.fill(op, &[], elem)
    }

    /// The tensor; a number as a constant of the given shape and element type.
    #[track_caller]
    pub(crate) fn fill(self, op: &str, dims: &[i64], elem: ElementType) -> Tensor {
        match self {
            Operand::Tensor(t) => t,
            Operand::Number(n) => n.fill(op, dims, elem),
            Operand::Array(a) => Tensor::constant(&a),
        }
    }
}
