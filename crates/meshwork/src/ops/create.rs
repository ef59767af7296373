//! Constructors: constants, counters and host arrays.

use meshwork_ir::Type;

use crate::element::{Fill, Number};
use crate::error::fail;
use crate::tensor::normalize;
use crate::trace::compose::emit;
use crate::{Array, ElementType, Int, Shape, Tensor};

/// All zeros.
#[track_caller]
pub fn zeros(shape: impl Shape, dtype: ElementType) -> Tensor {
    fill("zeros", &shape.extents(), dtype, 0)
}

/// All ones.
#[track_caller]
pub fn ones(shape: impl Shape, dtype: ElementType) -> Tensor {
    fill("ones", &shape.extents(), dtype, 1)
}

/// All `value`.
#[track_caller]
pub fn full(shape: impl Shape, dtype: ElementType, value: impl Into<Number>) -> Tensor {
    check_shape("full", &shape.extents());
    value.into().fill("full", &shape.extents(), dtype)
}

#[track_caller]
fn fill(op: &str, shape: &[i64], dtype: ElementType, value: i64) -> Tensor {
    check_shape(op, shape);
    let number = match dtype {
        ElementType::I1 => Number::Bool(value != 0),
        _ => Number::Int(value),
    };
    number.fill(op, shape, dtype)
}

#[track_caller]
pub(crate) fn check_shape(op: &str, shape: &[i64]) {
    if shape.iter().any(|&d| d < 0) {
        fail(op, format!("the shape {shape:?} has a negative extent"));
    }
}

/// Counts from 0 along `axis`.
#[track_caller]
pub fn iota(shape: impl Shape, dtype: ElementType, axis: i64) -> Tensor {
    let shape = &shape.extents()[..];
    check_shape("iota", shape);
    let axis = normalize("iota", axis, shape.len()) as i64;
    let ty = Type::tensor(shape.iter().copied(), dtype);
    emit("iota", &[], |b, _| b.iota(ty, axis))
}

/// `0, 1, …, n - 1`.
#[track_caller]
pub fn arange(n: impl Int, dtype: ElementType) -> Tensor {
    iota([n.int()], dtype, 0)
}

/// `n` numbers from `start` to `end`, both included, at equal distances.
#[track_caller]
pub fn linspace(start: f64, end: f64, n: impl Int, dtype: ElementType) -> Tensor {
    if !dtype.is_float() {
        fail("linspace", format!("the element type {dtype} is not a float"));
    }
    let n = n.int();
    let step = if n > 1 { (end - start) / (n - 1) as f64 } else { 0.0 };
    arange(n, dtype) * step + start
}

/// The identity matrix.
#[track_caller]
pub fn eye(n: impl Int, dtype: ElementType) -> Tensor {
    let n = n.int();
    let row = iota([n, n], ElementType::I32, 0);
    row.eq(iota([n, n], ElementType::I32, 1)).to(dtype)
}

impl Tensor {
    /// An array of the host as a constant of the program.
    ///
    /// The elements become part of the program: pass large arrays as arguments instead. One of more than 16 MiB is
    /// [warned](crate::Lowered::warnings) of, with its line.
    #[track_caller]
    pub fn constant(array: &Array) -> Tensor {
        match array.literal() {
            Ok(literal) => emit("constant", &[], |b, _| b.constant(literal)),
            Err(e) => fail("constant", e.to_string()),
        }
    }

    /// Zeros of the same shape and element type.
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        fill("zeros_like", self.shape(), self.dtype(), 0)
    }

    /// Ones of the same shape and element type.
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        fill("ones_like", self.shape(), self.dtype(), 1)
    }
}
