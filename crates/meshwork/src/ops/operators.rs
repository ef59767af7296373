//! `+ - * / %`, negation and the bit operators, between tensors and numbers.
//!
//! To the right of a tensor stands any number; which ones stand to its left, and why not all, is in
//! [`meshwork_runtime::number`].

use std::ops::*;

use meshwork_ir::OpKind;
use meshwork_ir::op::BinaryOp;
use meshwork_runtime::left_operators;

use super::elementwise::binary_op;
use crate::Tensor;
use crate::element::{Number, Operand};
use crate::error::fail;
use crate::trace::compose::emit;

macro_rules! operators {
    ($($trait:ident $method:ident $assign:ident $assign_method:ident $kind:ident),* $(,)?) => {
        $(
            impl<R: Into<Operand>> $trait<R> for &Tensor {
                type Output = Tensor;

                #[track_caller]
                fn $method(self, other: R) -> Tensor {
                    binary_op(stringify!($method), OpKind::Binary(BinaryOp::$kind), self.into(), other.into())
                }
            }

            impl<R: Into<Operand>> $trait<R> for Tensor {
                type Output = Tensor;

                #[track_caller]
                fn $method(self, other: R) -> Tensor {
                    binary_op(stringify!($method), OpKind::Binary(BinaryOp::$kind), self.into(), other.into())
                }
            }

            impl<R: Into<Operand>> $assign<R> for Tensor {
                #[track_caller]
                fn $assign_method(&mut self, other: R) {
                    *self = binary_op(stringify!($method), OpKind::Binary(BinaryOp::$kind), Operand::from(&*self), other.into());
                }
            }

            impl $trait<&Tensor> for Number {
                type Output = Tensor;

                #[track_caller]
                fn $method(self, other: &Tensor) -> Tensor {
                    binary_op(stringify!($method), OpKind::Binary(BinaryOp::$kind), self.into(), other.into())
                }
            }

            left_operators! { $trait $method Tensor }
        )*
    };
}

operators! {
    Add add AddAssign add_assign Add,
    Sub sub SubAssign sub_assign Subtract,
    Mul mul MulAssign mul_assign Multiply,
    Div div DivAssign div_assign Divide,
    Rem rem RemAssign rem_assign Remainder,
    BitAnd bitand BitAndAssign bitand_assign And,
    BitOr bitor BitOrAssign bitor_assign Or,
    BitXor bitxor BitXorAssign bitxor_assign Xor,
    Shl shl ShlAssign shl_assign ShiftLeft,
}

/// Arithmetic for signed, logical for unsigned integers.
impl<R: Into<Operand>> Shr<R> for &Tensor {
    type Output = Tensor;

    #[track_caller]
    fn shr(self, other: R) -> Tensor {
        let kind = match self.dtype().class() {
            meshwork_ir::ElementClass::Unsigned => OpKind::Binary(BinaryOp::ShiftRightLogical),
            meshwork_ir::ElementClass::Signed => OpKind::Binary(BinaryOp::ShiftRightArithmetic),
            _ => fail("shr", format!("{} is not of integers", self.describe())),
        };
        binary_op("shr", kind, self.into(), other.into())
    }
}

impl<R: Into<Operand>> Shr<R> for Tensor {
    type Output = Tensor;

    #[track_caller]
    fn shr(self, other: R) -> Tensor {
        &self >> other
    }
}

impl Neg for &Tensor {
    type Output = Tensor;

    #[track_caller]
    fn neg(self) -> Tensor {
        emit("neg", &[self], |b, v| b.negate(v[0]))
    }
}

impl Neg for Tensor {
    type Output = Tensor;

    #[track_caller]
    fn neg(self) -> Tensor {
        -&self
    }
}

impl Not for &Tensor {
    type Output = Tensor;

    #[track_caller]
    fn not(self) -> Tensor {
        emit("not", &[self], |b, v| b.not(v[0]))
    }
}

impl Not for Tensor {
    type Output = Tensor;

    #[track_caller]
    fn not(self) -> Tensor {
        !&self
    }
}
