//! Rust numbers beside arrays and tensors, and which of them stand to their left.
//!
//! To the right of an array or a tensor stands a number of any type. To its left a literal must have one type: `2.0 * &x` is
//! of the type of whichever `f64: Mul<&Tensor>` or `f32: Mul<&Tensor>` there is, and if there are both, Rust does not know
//! what `(2.0 * &x).sum_all()` calls. So `f64`, `i64`, `bool`, the half floats and [`Number`] stand there by value, and numbers
//! of all types by reference, which no literal is. The others have implementations that never hold, for the sake of what
//! the compiler says: see [`LeftOf`].

use meshwork_ir::{ElementClass, ElementType, Literal, Scalar};

/// A number that takes the element type of the array or tensor it meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A float: fits float and complex elements.
    Float(f64),
    /// An integer: fits all but truth values.
    Int(i64),
    /// A truth value: fits truth values.
    Bool(bool),
}

macro_rules! numbers {
    ($($ty:ty => $form:ident as $wide:ty),* $(,)?) => {
        $(
            impl From<$ty> for Number {
                fn from(x: $ty) -> Number {
                    Number::$form(x as $wide)
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

/// A count. One that no `i64` holds becomes a float, so that it is not another number.
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

impl Number {
    /// The number as one element of type `elem`, or why it is none.
    pub fn literal(self, elem: ElementType) -> Result<Literal, String> {
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
}

/// Numbers that stand to the left of a `T` in `k * &x`. Nothing calls it: it is the bound that the others lack.
#[diagnostic::on_unimplemented(
    message = "a variable of type `{Self}` cannot stand to the left of an array or a tensor",
    label = "`f64`, `i64`, `bool` and references to numbers can",
    note = "write `&x * k`, or `&k * &x`, or `Number::from(k) * &x`; a number of any type can stand to the right"
)]
pub trait LeftOf<T> {}

impl<T> LeftOf<T> for Number {}
impl<T> LeftOf<T> for f64 {}
impl<T> LeftOf<T> for i64 {}
impl<T> LeftOf<T> for bool {}
impl<T, N> LeftOf<T> for &N {}

/// Operators with numbers to the left of `$right`, written with that of a [`Number`] and `&$right`.
///
/// `$trait $method $right` for all of them; `numbers: $trait $method $right` for those without a truth value.
#[doc(hidden)]
#[macro_export]
macro_rules! left_operators {
    ($trait:ident $method:ident $right:ident) => {
        $crate::left_operators!(@value $trait $method $right: bool);
        $crate::left_operators!(numbers: $trait $method $right);
    };
    (numbers: $trait:ident $method:ident $right:ident) => {
        impl $trait<$right> for $crate::Number {
            type Output = $right;

            #[track_caller]
            fn $method(self, other: $right) -> $right {
                self.$method(&other)
            }
        }

        $crate::left_operators!(@value $trait $method $right: f64 i64 half::f16 half::bf16);
        $crate::left_operators!(@reference $trait $method $right:
            f64 f32 i64 i32 i16 i8 isize u64 u32 u16 u8 usize half::f16 half::bf16);
        $crate::left_operators!(@never $trait $method $right: f32 i32 i16 i8 isize u64 u32 u16 u8 usize);
    };
    (@value $trait:ident $method:ident $right:ident: $($number:ty)*) => {
        $(
            impl $trait<&$right> for $number {
                type Output = $right;

                #[track_caller]
                fn $method(self, other: &$right) -> $right {
                    $crate::Number::from(self).$method(other)
                }
            }

            impl $trait<$right> for $number {
                type Output = $right;

                #[track_caller]
                fn $method(self, other: $right) -> $right {
                    $crate::Number::from(self).$method(&other)
                }
            }
        )*
    };
    (@reference $trait:ident $method:ident $right:ident: $($number:ty)*) => {
        $(
            #[doc(hidden)]
            impl $trait<&$right> for &$number {
                type Output = $right;

                #[track_caller]
                fn $method(self, other: &$right) -> $right {
                    $crate::Number::from(*self).$method(other)
                }
            }

            #[doc(hidden)]
            impl $trait<$right> for &$number {
                type Output = $right;

                #[track_caller]
                fn $method(self, other: $right) -> $right {
                    $crate::Number::from(*self).$method(&other)
                }
            }
        )*
    };
    (@never $trait:ident $method:ident $right:ident: $($number:ty)*) => {
        $(
            #[doc(hidden)]
            impl<'a> $trait<&'a $right> for $number
            where
                $number: $crate::number::LeftOf<&'a $right>,
            {
                type Output = $right;

                #[track_caller]
                fn $method(self, other: &$right) -> $right {
                    $crate::Number::from(self).$method(other)
                }
            }

            #[doc(hidden)]
            impl $trait<$right> for $number
            where
                for<'a> $number: $crate::number::LeftOf<&'a $right>,
            {
                type Output = $right;

                #[track_caller]
                fn $method(self, other: $right) -> $right {
                    $crate::Number::from(self).$method(&other)
                }
            }
        )*
    };
}
