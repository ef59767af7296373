//! Sums, means, extremes and their positions.

use meshwork_ir::Scalar;
use meshwork_ir::build::{BuildError, Builder, Direction};
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{ElementClass, ElementType, Literal, OpKind, OpSpec, ValueId, float};

use crate::Tensor;
use crate::element::Number;
use crate::error::fail;
use crate::trace::compose::{compose, emit, emit_all};

/// How elements are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Combine {
    Sum,
    Product,
    Max,
    Min,
    And,
    Or,
}

impl Combine {
    pub(crate) fn kind(self) -> OpKind {
        match self {
            Combine::Sum => OpKind::Binary(BinaryOp::Add),
            Combine::Product => OpKind::Binary(BinaryOp::Multiply),
            Combine::Max => OpKind::Binary(BinaryOp::Maximum),
            Combine::Min => OpKind::Binary(BinaryOp::Minimum),
            Combine::And => OpKind::Binary(BinaryOp::And),
            Combine::Or => OpKind::Binary(BinaryOp::Or),
        }
    }

    /// The value that changes nothing.
    pub(crate) fn neutral(self, elem: ElementType) -> Literal {
        let (high, low) = bounds(elem);
        let value = match self {
            Combine::Sum => Scalar::Int(0).cast_to(elem),
            Combine::Product => Scalar::Int(1).cast_to(elem),
            Combine::Max => low,
            Combine::Min => high,
            Combine::And => Scalar::Bool(true),
            Combine::Or => Scalar::Bool(false),
        };
        Literal::scalar(elem, value)
    }

    /// [`neutral`](Combine::neutral) as a number that tensors meet, where it is one.
    pub(crate) fn start(self, elem: ElementType) -> Option<Number> {
        Some(match (self, elem.class()) {
            (Combine::Sum, _) => Number::Int(0),
            (Combine::Product, _) => Number::Int(1),
            (Combine::Max, ElementClass::Float) => Number::Float(float::lowest(elem)),
            (Combine::Min, ElementClass::Float) => Number::Float(float::highest(elem)),
            (Combine::And, _) => Number::Bool(true),
            (Combine::Or, _) => Number::Bool(false),
            (Combine::Max | Combine::Min, _) => return None,
        })
    }

    fn body(self, b: &mut Builder<'_>, args: &[ValueId]) -> Result<[ValueId; 1], BuildError> {
        Ok([b.value(OpSpec::new(self.kind()).operands([args[0], args[1]]))?])
    }

    #[track_caller]
    pub(crate) fn check(self, op: &str, x: &Tensor) {
        let class = x.dtype().class();
        let fits = match self {
            Combine::And | Combine::Or => class == ElementClass::Bool,
            Combine::Sum | Combine::Product => class != ElementClass::Bool,
            Combine::Max | Combine::Min => !matches!(class, ElementClass::Bool | ElementClass::Complex),
        };
        if !fits {
            fail(op, format!("does not take {}", x.describe()));
        }
    }
}

/// The largest and the smallest value of a type.
fn bounds(elem: ElementType) -> (Scalar, Scalar) {
    let bits = elem.bits().min(64) as u32;
    match elem.class() {
        ElementClass::Bool => (Scalar::Bool(true), Scalar::Bool(false)),
        ElementClass::Signed => (Scalar::Int(i64::MAX >> (64 - bits)), Scalar::Int(i64::MIN >> (64 - bits))),
        ElementClass::Unsigned => (Scalar::UInt(u64::MAX >> (64 - bits)), Scalar::UInt(0)),
        ElementClass::Float | ElementClass::Complex => {
            (Scalar::Float(float::highest(elem)), Scalar::Float(float::lowest(elem)))
        }
    }
}

/// Reduces `x` over `axes`, which go away.
#[track_caller]
pub(crate) fn reduce(op: &str, how: Combine, x: &Tensor, axes: &[i64]) -> Tensor {
    how.check(op, x);
    let dims = x.dims_of(op, axes);
    if dims.is_empty() { x.clone() } else { compose(op, [x], |s, [x]| s.reduce(how, x, &dims)) }
}

/// Reduces each window of `x`.
#[track_caller]
pub(crate) fn reduce_window(op: &str, how: Combine, x: &Tensor, window: &meshwork_ir::build::Window) -> Tensor {
    how.check(op, x);
    let neutral = how.neutral(x.dtype());
    let body = |b: &mut Builder<'_>, args: &[ValueId]| how.body(b, args);
    emit(op, &[x], |b, v| {
        let init = b.constant(&neutral)?;
        Ok(b.reduce_window(&[v[0]], &[init], window, body)?[0])
    })
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $all:ident $how:ident;)*) => {
        impl Tensor {
            $(
                $(#[$doc])*
                ///
                /// Over `axes`, which go away; see [`keep_dims`](Tensor::keep_dims) to keep them with extent 1.
                #[track_caller]
                pub fn $name(&self, axes: &[i64]) -> Tensor {
                    reduce(stringify!($name), Combine::$how, self, axes)
                }

                $(#[$doc])*
                ///
                /// Over all axes.
                #[track_caller]
                pub fn $all(&self) -> Tensor {
                    let axes: Vec<i64> = (0..self.rank() as i64).collect();
                    reduce(stringify!($all), Combine::$how, self, &axes)
                }
            )*
        }
    };
}

reductions! {
    /// The sum.
    sum sum_all Sum;
    /// The product.
    prod prod_all Product;
    /// The largest element.
    max max_all Max;
    /// The smallest element.
    min min_all Min;
    /// Whether all elements hold.
    all all_all And;
    /// Whether any element holds.
    any any_all Or;
}

impl Tensor {
    /// A tensor that was reduced over `axes` of this one, with those axes back at extent 1, so that it broadcasts
    /// against this one.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let center = jit(|x: Tensor| &x - x.keep_dims(&[1], |x, axes| x.mean(axes)));
    /// let x = Array::from_vec([2, 2], vec![1.0f32, 3.0, 5.0, 9.0])?;
    /// assert_eq!(center.call(&x)?.to_vec::<f32>()?, [-1.0, 1.0, -2.0, 2.0]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn keep_dims(&self, axes: &[i64], reduce: impl FnOnce(&Tensor, &[i64]) -> Tensor) -> Tensor {
        let mut shape = self.shape().to_vec();
        for axis in self.axes("keep_dims", axes) {
            shape[axis] = 1;
        }
        reduce(self, axes).reshape(shape)
    }

    /// The mean over `axes`, which go away.
    #[track_caller]
    pub fn mean(&self, axes: &[i64]) -> Tensor {
        let dims = self.dims_of("mean", axes);
        if !self.dtype().is_float() && !self.dtype().is_complex() {
            fail("mean", format!("of {}; convert with .to(F32) first", self.describe()));
        }
        let count = dims.iter().map(|&d| self.shape()[d as usize]).product();
        compose("mean", [self], |s, [x]| s.mean(x, &dims, count))
    }

    /// The mean of all elements.
    #[track_caller]
    pub fn mean_all(&self) -> Tensor {
        let axes: Vec<i64> = (0..self.rank() as i64).collect();
        self.mean(&axes)
    }

    /// The mean squared distance from the mean over `axes`, which go away.
    #[track_caller]
    pub fn var(&self, axes: &[i64]) -> Tensor {
        let mut shape = self.shape().to_vec();
        for axis in self.axes("var", axes) {
            shape[axis] = 1;
        }
        (self - self.mean(axes).reshape(shape)).square().mean(axes)
    }

    /// The position of the largest element along `axis`, the first of equals; `i32`.
    #[track_caller]
    pub fn argmax(&self, axis: i64) -> Tensor {
        self.arg_extreme("argmax", axis, Combine::Max)
    }

    /// The position of the smallest element along `axis`, the first of equals; `i32`.
    #[track_caller]
    pub fn argmin(&self, axis: i64) -> Tensor {
        self.arg_extreme("argmin", axis, Combine::Min)
    }

    #[track_caller]
    fn arg_extreme(&self, op: &str, axis: i64, how: Combine) -> Tensor {
        how.check(op, self);
        let axis = self.axis(op, axis) as i64;
        if self.shape()[axis as usize] == 0 {
            fail(op, format!("axis {axis} of shape {:?} is empty", self.shape()));
        }
        let neutral = how.neutral(self.dtype());
        let shape = self.shape().to_vec();
        let better = if how == Combine::Max { Direction::Gt } else { Direction::Lt };
        let out = emit_all(op, &[self], |b, v| {
            let at = b.iota(meshwork_ir::Type::tensor(shape, ElementType::I32), axis)?;
            let init = b.constant(&neutral)?;
            let zero = b.scalar(ElementType::I32, 0.0)?;
            b.reduce(&[v[0], at], &[init, zero], &[axis], |b, a| {
                // Arguments: value and position so far, then of the element.
                let wins = b.compare(better, a[0], a[2])?;
                let nan = b.compare(Direction::Ne, a[0], a[0])?;
                let wins = b.or(wins, nan)?;
                let tie = b.compare(Direction::Eq, a[0], a[2])?;
                let first = b.compare(Direction::Lt, a[1], a[3])?;
                let tie = b.and(tie, first)?;
                let keep_at = b.or(wins, tie)?;
                let value = b.select(wins, a[0], a[2])?;
                Ok([value, b.select(keep_at, a[1], a[3])?])
            })
        });
        out[1].clone()
    }
}
