//! Arithmetic on arrays of the host, at once: `&a + &b`, `&a * 2.0`. For anything larger, [`Array`]s go through `jit`.

use std::ops::{Add, Div, Mul, Neg, Sub};

use meshwork_ir::{ElementType, Literal, Scalar};

use super::Array;
use crate::element::Element;
use crate::left_operators;
use crate::number::Number;

/// An elementwise operation.
#[derive(Clone, Copy)]
enum Op {
    Add,
    Sub,
    Mul,
    Div,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Op::Add => "add",
            Op::Sub => "sub",
            Op::Mul => "mul",
            Op::Div => "div",
        }
    }
}

/// Elements with arithmetic. Integers wrap around, as in programs.
trait Arithmetic: Element {
    fn apply(self, op: Op, other: Self) -> Self;
}

macro_rules! floats {
    ($($ty:ty)*) => {
        $(
            impl Arithmetic for $ty {
                fn apply(self, op: Op, other: Self) -> Self {
                    match op {
                        Op::Add => self + other,
                        Op::Sub => self - other,
                        Op::Mul => self * other,
                        Op::Div => self / other,
                    }
                }
            }
        )*
    };
}

macro_rules! integers {
    ($($ty:ty, $by_zero:expr;)*) => {
        $(
            impl Arithmetic for $ty {
                fn apply(self, op: Op, other: Self) -> Self {
                    match op {
                        Op::Add => self.wrapping_add(other),
                        Op::Sub => self.wrapping_sub(other),
                        Op::Mul => self.wrapping_mul(other),
                        Op::Div => if other == 0 { $by_zero } else { self.wrapping_div(other) },
                    }
                }
            }
        )*
    };
}

floats! { f32 f64 half::f16 half::bf16 }
// What programs give for a division by zero: all bits set.
integers! { i8, -1; i16, -1; i32, -1; i64, -1; u8, u8::MAX; u16, u16::MAX; u32, u32::MAX; u64, u64::MAX; }

/// Calls `$work::<T>` with the Rust type of the elements of type `$elem`.
macro_rules! by_type {
    ($elem:expr, $op:expr, $work:ident($($arg:expr),*)) => {
        match $elem {
            ElementType::F32 => $work::<f32>($($arg),*),
            ElementType::F64 => $work::<f64>($($arg),*),
            ElementType::F16 => $work::<half::f16>($($arg),*),
            ElementType::BF16 => $work::<half::bf16>($($arg),*),
            ElementType::I8 => $work::<i8>($($arg),*),
            ElementType::I16 => $work::<i16>($($arg),*),
            ElementType::I32 => $work::<i32>($($arg),*),
            ElementType::I64 => $work::<i64>($($arg),*),
            ElementType::UI8 => $work::<u8>($($arg),*),
            ElementType::UI16 => $work::<u16>($($arg),*),
            ElementType::UI32 => $work::<u32>($($arg),*),
            ElementType::UI64 => $work::<u64>($($arg),*),
            elem => panic!("{}: arrays of {elem} have no arithmetic on the host; use jit", $op.name()),
        }
    };
}

/// The shape that both broadcast to, by NumPy's rule.
fn common(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[i64], d: usize| (d + shape.len()).checked_sub(rank).map_or(1, |i| shape[i]);
    (0..rank)
        .map(|d| match (at(a, d), at(b, d)) {
            (x, y) if x == y || y == 1 => Some(x),
            (1, y) => Some(y),
            _ => None,
        })
        .collect()
}

/// For each element of `to`, in order, the number of the one of `from` that broadcasts there.
fn sources(from: &[i64], to: &[i64]) -> Vec<usize> {
    let mut at = vec![0usize];
    for (d, &n) in to.iter().enumerate() {
        let own = (d + from.len()).checked_sub(to.len()).map_or(1, |i| from[i]);
        let step = |i: i64| if own == 1 { 0 } else { i as usize };
        at = at.iter().flat_map(|&a| (0..n).map(move |i| a * own as usize + step(i))).collect();
    }
    at
}

fn combine<T: Arithmetic>(op: Op, a: &Array, b: &Array, shape: &[i64]) -> Array {
    let read = |x: &Array| {
        let all = x.to_vec::<T>().unwrap_or_else(|e| panic!("{}: {e}", op.name()));
        if x.shape() == shape { all } else { sources(x.shape(), shape).into_iter().map(|i| all[i]).collect() }
    };
    let elements = read(a).into_iter().zip(read(b)).map(|(x, y)| x.apply(op, y)).collect();
    // As many as the shape has.
    Array::from_vec(shape, elements).expect("an element for each position")
}

/// The result is placed as the first array that has its shape and a placement.
#[track_caller]
fn binary(op: Op, a: &Array, b: &Array) -> Array {
    let name = op.name();
    if a.dtype() != b.dtype() {
        panic!("{name}: an array of {} with one of {}", a.dtype(), b.dtype());
    }
    let Some(shape) = common(a.shape(), b.shape()) else {
        panic!("{name}: the shapes {:?} and {:?} do not broadcast", a.shape(), b.shape());
    };
    let out = by_type!(a.dtype(), op, combine(op, a, b, &shape));
    let placed = [a, b].into_iter().find(|x| x.shape() == shape && x.placement.is_some());
    Array { placement: placed.and_then(|x| x.placement.clone()), ..out }
}

/// The number as a scalar of the array's type.
#[track_caller]
fn scalar(op: Op, like: &Array, number: Number) -> Array {
    let elem = like.dtype();
    let value = match number {
        Number::Float(v) if !elem.is_float() && v.fract() != 0.0 => {
            panic!("{}: a float with an array of {elem}", op.name())
        }
        Number::Float(v) => Scalar::Float(v),
        Number::Int(v) => Scalar::Int(v),
        Number::Bool(v) => panic!("{}: the truth value {v} with an array of {elem}", op.name()),
    };
    Array::from_literal(Literal::scalar(elem, value.cast_to(elem)))
}

/// An array or a number: what stands to the right of an array.
#[derive(Clone, Debug)]
pub enum ArrayOperand {
    /// An array.
    Array(Array),
    /// A number, the same at each place.
    Number(Number),
}

impl From<Array> for ArrayOperand {
    fn from(x: Array) -> ArrayOperand {
        ArrayOperand::Array(x)
    }
}

impl From<&Array> for ArrayOperand {
    fn from(x: &Array) -> ArrayOperand {
        ArrayOperand::Array(x.clone())
    }
}

macro_rules! numbers {
    ($($ty:ty),*) => {
        $(
            impl From<$ty> for ArrayOperand {
                fn from(x: $ty) -> ArrayOperand {
                    ArrayOperand::Number(x.into())
                }
            }

            impl From<&$ty> for ArrayOperand {
                fn from(x: &$ty) -> ArrayOperand {
                    ArrayOperand::Number((*x).into())
                }
            }
        )*
    };
}

numbers! { Number, f32, f64, half::f16, half::bf16, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize }

macro_rules! operators {
    ($($trait:ident $method:ident;)*) => {
        $(
            /// Element by element, with NumPy's broadcasting. Panics if types or shapes do not fit.
            impl<R: Into<ArrayOperand>> $trait<R> for &Array {
                type Output = Array;

                #[track_caller]
                fn $method(self, other: R) -> Array {
                    match other.into() {
                        ArrayOperand::Array(other) => binary(Op::$trait, self, &other),
                        ArrayOperand::Number(other) => binary(Op::$trait, self, &scalar(Op::$trait, self, other)),
                    }
                }
            }

            /// Element by element, with NumPy's broadcasting. Panics if types or shapes do not fit.
            impl<R: Into<ArrayOperand>> $trait<R> for Array {
                type Output = Array;

                #[track_caller]
                fn $method(self, other: R) -> Array {
                    (&self).$method(other)
                }
            }

            /// With the same number at each place.
            impl $trait<&Array> for Number {
                type Output = Array;

                #[track_caller]
                fn $method(self, other: &Array) -> Array {
                    binary(Op::$trait, &scalar(Op::$trait, other, self), other)
                }
            }

            left_operators! { numbers: $trait $method Array }
        )*
    };
}

operators! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}

/// Element by element.
impl Neg for &Array {
    type Output = Array;

    #[track_caller]
    fn neg(self) -> Array {
        -1 * self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_numbers() {
        let a = Array::from([[1.0f32, 2.0], [3.0, 4.0]]);
        let b = Array::from([10.0f32, 20.0]);
        assert_eq!((&a + &b).to_vec::<f32>().unwrap(), [11.0, 22.0, 13.0, 24.0]);
        assert_eq!((&b - &a).to_vec::<f32>().unwrap(), [9.0, 18.0, 7.0, 16.0]);
        assert_eq!((2.0 * &a / 4.0).to_vec::<f32>().unwrap(), [0.5, 1.0, 1.5, 2.0]);
        assert_eq!((-&b).to_vec::<f32>().unwrap(), [-10.0, -20.0]);
        let column = Array::from([[1i32], [2]]);
        let row = Array::from([[10i32, 20, 30]]);
        assert_eq!((&column * &row).to_vec::<i32>().unwrap(), [10, 20, 30, 20, 40, 60]);
        assert_eq!((Array::from([i32::MAX]) + 1).to_vec::<i32>().unwrap(), [i32::MIN]);
        assert_eq!((Array::from([7u8]) / Array::from([0u8])).to_vec::<u8>().unwrap(), [255]);
    }

    #[test]
    fn numbers_of_all_types() {
        let a = Array::from([8.0f32, 4.0]);
        let (half, rate, count) = (half::f16::from_f32(0.5), 0.25f32, 2usize);
        assert_eq!((&a * rate + count - 1u8).to_vec::<f32>().unwrap(), [3.0, 2.0]);
        assert_eq!((&rate * &a + half * &a - count).to_vec::<f32>().unwrap(), [4.0, 1.0]);
        assert_eq!((Number::from(count) - a.clone()).to_vec::<f32>().unwrap(), [-6.0, -2.0]);
        assert_eq!((1.5 - &a).to_vec::<f32>().unwrap(), [-6.5, -2.5]);
        assert_eq!((Array::from([3u64]) * 2.0 + 1i8).to_vec::<u64>().unwrap(), [7]);
        assert_eq!((&a * (u64::MAX as f32) / u64::MAX).to_vec::<f32>().unwrap(), [8.0, 4.0]);
    }

    #[test]
    fn placements_stay() {
        let mesh = meshwork_mesh::Mesh::linear("x", 2).unwrap();
        let a = Array::from([1.0f32, 2.0]).shard(&mesh, meshwork_mesh::P!["x"]).unwrap();
        let sum = Array::scalar(1.0f32) + &a;
        assert_eq!(sum.shards()[1].slice[0], 1..2);
        assert_eq!(sum.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    }

    #[test]
    #[should_panic(expected = "add: the shapes [2] and [3] do not broadcast")]
    fn shapes_that_do_not_fit() {
        let _ = Array::from([1.0f32, 2.0]) + Array::from([1.0f32, 2.0, 3.0]);
    }

    #[test]
    #[should_panic(expected = "mul: a float with an array of i32")]
    fn fractions_of_integers() {
        let _ = Array::from([1i32]) * 0.5;
    }
}
