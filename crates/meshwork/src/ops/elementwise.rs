//! Elementwise mathematics, comparisons, conversions and choices.

use meshwork_ir::build::Direction;
use meshwork_ir::op::{BinaryOp, UnaryOp};
use meshwork_ir::{Dims, ElementClass, OpKind};

use super::broadcast::{common_shape, same_dtype, together};
use crate::element::Operand;
use crate::error::fail;
use crate::trace::compose::{compose, emit};
use crate::{ElementType, Tensor};

/// Marks the return from integers of [`Tensor::stop_gradient`]. Taken out when tracing ends.
pub(crate) const STOP_GRADIENT: &str = "stop_gradient";

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $kind:ident $class:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self) -> Tensor {
                    Class::$class.check(stringify!($name), self);
                    compose(stringify!($name), [self], |s, x| s.apply(OpKind::Unary(UnaryOp::$kind), x))
                }
            )*
        }
    };
}

/// Element types that an operation takes.
pub(super) enum Class {
    Float,
    Real,
    Number,
}

impl Class {
    #[track_caller]
    pub(super) fn check(&self, op: &str, x: &Tensor) {
        let class = x.dtype().class();
        let (fits, what) = match self {
            Class::Float => {
                (matches!(class, ElementClass::Float | ElementClass::Complex), "floats; convert with .to(F32)")
            }
            Class::Real => (class == ElementClass::Float, "real floats"),
            Class::Number => (class != ElementClass::Bool, "numbers; convert with .to(..)"),
        };
        if !fits {
            fail(op, format!("{} where the operation takes {what}", x.describe()));
        }
    }
}

unary! {
    /// The absolute value; of complex numbers the magnitude.
    abs Abs Number;
    /// The sine.
    sin Sine Float;
    /// The cosine.
    cos Cosine Float;
    /// The tangent.
    tan Tan Float;
    /// The hyperbolic tangent.
    tanh Tanh Float;
    /// The hyperbolic sine.
    sinh Sinh Float;
    /// The hyperbolic cosine.
    cosh Cosh Float;
    /// The inverse sine.
    asin Asin Float;
    /// The inverse cosine.
    acos Acos Float;
    /// The inverse tangent.
    atan Atan Float;
    /// The inverse hyperbolic sine.
    asinh Asinh Float;
    /// The inverse hyperbolic cosine.
    acosh Acosh Float;
    /// The inverse hyperbolic tangent.
    atanh Atanh Float;
    /// The exponential.
    exp Exponential Float;
    /// `exp(x) - 1`, exact near zero.
    expm1 ExponentialMinusOne Float;
    /// The natural logarithm.
    log Log Float;
    /// `log(1 + x)`, exact near zero.
    log1p LogPlusOne Float;
    /// The square root.
    sqrt Sqrt Float;
    /// One over the square root.
    rsqrt Rsqrt Float;
    /// The cube root.
    cbrt Cbrt Float;
    /// The logistic function `1 / (1 + exp(-x))`.
    sigmoid Logistic Float;
    /// The error function.
    erf Erf Real;
    /// 1 less the error function, exact where that is near 1.
    erfc Erfc Real;
    /// The inverse of the error function.
    erf_inv ErfInv Real;
    /// The logarithm of the gamma function.
    lgamma Lgamma Real;
    /// The derivative of [`lgamma`](Tensor::lgamma).
    digamma Digamma Real;
    /// The largest integer that is not greater.
    floor Floor Real;
    /// The smallest integer that is not smaller.
    ceil Ceil Real;
    /// The nearest integer, ties to even.
    round RoundNearestEven Real;
    /// -1, 0 or 1.
    sign Sign Number;
    /// Whether it is neither infinite nor NaN.
    is_finite IsFinite Real;
    /// The conjugate of complex numbers.
    conj Conj Float;
    /// The number of zeros before the first bit that is set.
    clz CountLeadingZeros Number;
    /// The number of bits that are set.
    popcount Popcnt Number;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self, other: impl Into<Operand>) -> Tensor {
                    binary_op(stringify!($name), OpKind::Binary(BinaryOp::$kind), self.into(), other.into())
                }
            )*
        }
    };
}

binary! {
    /// The larger of each pair.
    maximum Maximum;
    /// The smaller of each pair.
    minimum Minimum;
    /// The first to the power of the second.
    pow Power;
    /// The angle of the point with this `y` and that `x`.
    atan2 Atan2;
    /// The remainder of the division, with the sign of the first.
    rem Remainder;
}

/// A binary operation of two operands that broadcast.
#[track_caller]
pub(crate) fn binary_op(op: &str, kind: OpKind, a: Operand, b: Operand) -> Tensor {
    together(op, &a, &b, &|s, pair| s.apply(kind, pair))
}

macro_rules! comparison {
    ($($(#[$doc:meta])* $name:ident $direction:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self, other: impl Into<Operand>) -> Tensor {
                    compare(stringify!($name), Direction::$direction, self.into(), other.into())
                }
            )*
        }
    };
}

/// A comparison of two operands that broadcast.
#[track_caller]
fn compare(op: &str, direction: Direction, a: Operand, b: Operand) -> Tensor {
    together(op, &a, &b, &|s, [x, y]| s.build(|b| b.compare(direction, x, y)))
}

comparison! {
    /// Whether each pair is equal.
    eq Eq;
    /// Whether each pair differs.
    ne Ne;
    /// Whether the first is less.
    lt Lt;
    /// Whether the first is less or equal.
    le Le;
    /// Whether the first is greater.
    gt Gt;
    /// Whether the first is greater or equal.
    ge Ge;
}

impl Tensor {
    /// The elements as another type: floats become integers by truncation, anything but zero becomes `true`.
    #[track_caller]
    pub fn to(&self, dtype: ElementType) -> Tensor {
        if self.dtype() == dtype { self.clone() } else { emit("to", &[self], |b, v| b.convert(v[0], dtype)) }
    }

    /// The bits as another type of the same width.
    #[track_caller]
    pub fn bitcast(&self, dtype: ElementType) -> Tensor {
        if self.dtype().bits() != dtype.bits() {
            fail("bitcast", format!("{} and {dtype} differ in width", self.dtype()));
        }
        let ty = meshwork_ir::Type::tensor(self.shape().iter().copied(), dtype);
        emit("bitcast", &[self], |b, v| b.bitcast_convert(v[0], ty))
    }

    /// The square.
    #[track_caller]
    pub fn square(&self) -> Tensor {
        compose("square", [self], |s, [x]| s.apply(OpKind::Binary(BinaryOp::Multiply), [x, x]))
    }

    /// One over each element.
    #[track_caller]
    pub fn recip(&self) -> Tensor {
        binary_op("recip", OpKind::Binary(BinaryOp::Divide), 1.into(), self.into())
    }

    /// Each element held between `min` and `max`.
    #[track_caller]
    pub fn clamp(&self, min: impl Into<Operand>, max: impl Into<Operand>) -> Tensor {
        self.maximum(min).minimum(max)
    }

    /// Whether it is NaN.
    #[track_caller]
    pub fn is_nan(&self) -> Tensor {
        self.ne(self)
    }

    /// The complex numbers with this real and that imaginary part.
    #[track_caller]
    pub fn complex(&self, imag: impl Into<Operand>) -> Tensor {
        binary_op("complex", OpKind::Binary(BinaryOp::Complex), self.into(), imag.into())
    }

    /// The real part.
    #[track_caller]
    pub fn real(&self) -> Tensor {
        emit("real", &[self], |b, v| b.real(v[0]))
    }

    /// The imaginary part.
    #[track_caller]
    pub fn imag(&self) -> Tensor {
        emit("imag", &[self], |b, v| b.imag(v[0]))
    }

    /// The same value, of which gradients take no notice.
    #[track_caller]
    pub fn stop_gradient(&self) -> Tensor {
        match self.dtype().class() {
            ElementClass::Float => compose("stop_gradient", [self], |s, [x]| s.stop_gradient(x)),
            ElementClass::Complex => fail("stop_gradient", format!("does not take {}", self.describe())),
            ElementClass::Bool | ElementClass::Signed | ElementClass::Unsigned => self.clone(),
        }
    }
}

/// `yes` where `pred` holds, else `no`. All three broadcast; at least one of `yes` and `no` is a tensor.
///
/// ```
/// use meshwork::prelude::*;
///
/// let relu = jit(|x: Tensor| select(x.gt(0.0), &x, 0.0));
/// assert_eq!(relu.call(&Array::from([-1.0f32, 2.0]))?.to_vec::<f32>()?, [0.0, 2.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn select(pred: impl Into<Operand>, yes: impl Into<Operand>, no: impl Into<Operand>) -> Tensor {
    choose(pred.into(), yes.into(), no.into())
}

#[track_caller]
fn choose(pred: Operand, yes: Operand, no: Operand) -> Tensor {
    let pred = pred.tensor("select", ElementType::I1);
    if pred.dtype() != ElementType::I1 {
        fail("select", format!("the condition is {}; it must be i1: compare first", pred.describe()));
    }
    let (yes, no) = (yes.traced(), no.traced());
    let (elem, shape) = match (&yes, &no) {
        (Operand::Tensor(a), Operand::Tensor(b)) => {
            same_dtype("select", a, b);
            (a.dtype(), common_shape("select", a.shape(), b.shape()))
        }
        (Operand::Tensor(x), Operand::Number(_)) | (Operand::Number(_), Operand::Tensor(x)) => {
            (x.dtype(), x.shape().into())
        }
        // Arrays are tensors by now.
        _ => (ElementType::F32, Dims::new()),
    };
    let shape = common_shape("select", pred.shape(), &shape);
    let (yes, no) = (yes.fill("select", &shape, elem), no.fill("select", &shape, elem));
    compose("select", [&pred, &yes, &no], |s, values| {
        let [pred, yes, no] = values.map(|x| s.stretch(x, &shape));
        s.build(|b| b.select(pred, yes, no))
    })
}
