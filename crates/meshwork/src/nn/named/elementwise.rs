//! Operations of elements: tensors with different axes broadcast by name.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Sub};

use meshwork_runtime::left_operators;

use super::NamedTensor;
use super::ops::union;
use crate::error::fail;
use crate::ops::select;
use crate::{ElementType, Number, Operand, Tensor};

/// A named tensor or a number: what operations take beside a named tensor.
#[derive(Clone, Debug)]
pub enum NamedOperand {
    /// A tensor.
    Tensor(NamedTensor),
    /// A number.
    Number(Number),
}

impl From<NamedTensor> for NamedOperand {
    fn from(x: NamedTensor) -> NamedOperand {
        NamedOperand::Tensor(x)
    }
}

impl From<&NamedTensor> for NamedOperand {
    fn from(x: &NamedTensor) -> NamedOperand {
        NamedOperand::Tensor(x.clone())
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {
        $(
            impl From<$ty> for NamedOperand {
                fn from(x: $ty) -> NamedOperand {
                    NamedOperand::Number(x.into())
                }
            }

            impl From<&$ty> for NamedOperand {
                fn from(x: &$ty) -> NamedOperand {
                    NamedOperand::Number((*x).into())
                }
            }
        )*
    };
}

numbers! { Number, f32, f64, half::f16, half::bf16, bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize }

impl NamedTensor {
    /// With all axes of `all`, in that order.
    fn wide(&self, all: &[super::Axis]) -> NamedTensor {
        if self.axes() == all { self.clone() } else { self.broadcast_to(all) }
    }

    /// Applies a function of two tensors of one shape.
    #[track_caller]
    fn combine(&self, op: &str, other: NamedOperand, f: impl FnOnce(&Tensor, Operand) -> Tensor) -> NamedTensor {
        match other {
            NamedOperand::Number(n) => self.apply(|t| f(t, n.into())),
            NamedOperand::Tensor(other) => {
                let all = union(op, &[self, &other]);
                NamedTensor::new(f(self.wide(&all).array(), other.wide(&all).array().into()), &all)
            }
        }
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $word:literal;)*) => {
        $(
            impl<R: Into<NamedOperand>> $trait<R> for &NamedTensor {
                type Output = NamedTensor;

                #[track_caller]
                fn $method(self, other: R) -> NamedTensor {
                    self.combine($word, other.into(), |a, b| a.$method(b))
                }
            }

            impl<R: Into<NamedOperand>> $trait<R> for NamedTensor {
                type Output = NamedTensor;

                #[track_caller]
                fn $method(self, other: R) -> NamedTensor {
                    (&self).$method(other)
                }
            }

            impl $trait<&NamedTensor> for Number {
                type Output = NamedTensor;

                #[track_caller]
                fn $method(self, other: &NamedTensor) -> NamedTensor {
                    other.apply(|t| self.$method(t))
                }
            }

            left_operators! { $trait $method NamedTensor }
        )*
    };
}

operators! {
    Add add "add";
    Sub sub "subtract";
    Mul mul "multiply";
    Div div "divide";
    Rem rem "remainder";
    BitAnd bitand "and";
    BitOr bitor "or";
    BitXor bitxor "xor";
}

macro_rules! prefixes {
    ($($trait:ident $method:ident;)*) => {
        $(
            impl $trait for &NamedTensor {
                type Output = NamedTensor;

                #[track_caller]
                fn $method(self) -> NamedTensor {
                    self.apply(|t| t.$method())
                }
            }

            impl $trait for NamedTensor {
                type Output = NamedTensor;

                #[track_caller]
                fn $method(self) -> NamedTensor {
                    (&self).$method()
                }
            }
        )*
    };
}

prefixes! { Neg neg; Not not; }

macro_rules! unary {
    ($($name:ident)*) => {
        impl NamedTensor {
            $(
                #[doc = concat!("[`Tensor::", stringify!($name), "`] of each element.")]
                #[track_caller]
                pub fn $name(&self) -> NamedTensor {
                    self.apply(Tensor::$name)
                }
            )*
        }
    };
}

unary! {
    abs sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt square
    recip sigmoid erf erfc floor ceil round trunc sign is_finite is_inf is_nan conj real imag relu relu6 silu gelu softplus selu
    hard_tanh hard_silu log_sigmoid stop_gradient
}

macro_rules! binary {
    ($($name:ident)*) => {
        impl NamedTensor {
            $(
                #[doc = concat!("[`Tensor::", stringify!($name), "`] of each pair of elements; axes that only one has broadcast.")]
                #[track_caller]
                pub fn $name(&self, other: impl Into<NamedOperand>) -> NamedTensor {
                    self.combine(stringify!($name), other.into(), |a, b| a.$name(b))
                }
            )*
        }
    };
}

binary! { eq ne lt le gt ge maximum minimum pow atan2 floor_divide remainder logaddexp hypot }

impl NamedTensor {
    /// The elements as another type.
    #[track_caller]
    pub fn to(&self, dtype: ElementType) -> NamedTensor {
        self.apply(|t| t.to(dtype))
    }

    /// The elements, no less than `min` and no more than `max`.
    #[track_caller]
    pub fn clip(&self, min: impl Into<NamedOperand>, max: impl Into<NamedOperand>) -> NamedTensor {
        self.maximum(min).minimum(max)
    }

    /// Whether the elements of each pair are close: `|a - b| <= atol + rtol * |b|`.
    #[track_caller]
    pub fn is_close(&self, other: &NamedTensor, rtol: f64, atol: f64) -> NamedTensor {
        self.combine("is_close", other.into(), |a, b| a.is_close(b, rtol, atol))
    }
}

/// `yes` where `condition` holds, else `no`: Haliax's `where`. Axes that only some of them have broadcast.
///
/// ```
/// use meshwork::named::{Axis, NamedTensor, choose};
/// use meshwork::prelude::*;
///
/// let (batch, embed) = (Axis::new("batch", 2), Axis::new("embed", 3));
/// let x = NamedTensor::host(Array::from([[-1.0f32, 2.0, -3.0], [4.0, -5.0, 6.0]]), [&batch, &embed])?;
/// let positive = jit(|x: NamedTensor| choose(&x.gt(0.0), &x, 0.0)).call(&x)?;
/// assert_eq!(positive.array().to_vec::<f32>()?, [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn choose(condition: &NamedTensor, yes: impl Into<NamedOperand>, no: impl Into<NamedOperand>) -> NamedTensor {
    let (yes, no) = (yes.into(), no.into());
    if condition.array().dtype() != ElementType::I1 {
        fail(
            "choose",
            format!("the condition {condition:?} has {} elements; compare first", condition.array().dtype()),
        );
    }
    let tensors = [&yes, &no].map(|o| match o {
        NamedOperand::Tensor(t) => Some(t),
        NamedOperand::Number(_) => None,
    });
    let all = union("choose", &std::iter::once(condition).chain(tensors.into_iter().flatten()).collect::<Vec<_>>());
    let wide = |o: NamedOperand| match o {
        NamedOperand::Tensor(t) => Operand::from(t.wide(&all).array()),
        NamedOperand::Number(n) => n.into(),
    };
    NamedTensor::new(select(condition.wide(&all).array(), wide(yes), wide(no)), &all)
}
