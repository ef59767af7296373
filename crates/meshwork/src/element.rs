//! Rust numbers beside tensors.

use meshwork_ir::ElementType;
pub use meshwork_runtime::{Element, Number};

use crate::trace::compose::compose;
use crate::{Array, Tensor};

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
    ($($ty:ty),*) => {
        $(
            impl From<$ty> for Operand {
                fn from(x: $ty) -> Operand {
                    Operand::Number(x.into())
                }
            }

            impl From<&$ty> for Operand {
                fn from(x: &$ty) -> Operand {
                    Operand::Number((*x).into())
                }
            }
        )*
    };
}

numbers! { Number, f32, f64, half::f16, half::bf16, bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize }

/// An array that the function has captured becomes a constant of the program, as by [`Tensor::constant`].
impl From<&Array> for Operand {
    fn from(x: &Array) -> Operand {
        Operand::Array(x.clone())
    }
}

/// Numbers as constants of a program.
pub(crate) trait Fill {
    /// The constant of this shape with all elements equal to the number.
    fn fill(self, op: &str, dims: &[i64], elem: ElementType) -> Tensor;
}

impl Fill for Number {
    #[track_caller]
    fn fill(self, op: &str, dims: &[i64], elem: ElementType) -> Tensor {
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
