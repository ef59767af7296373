//! Writing into a part of a tensor: `x.at(s![1..-1]).set(v)`.

use meshwork_ir::OpKind;
use meshwork_ir::op::BinaryOp;

use super::elementwise::{binary_op, select};
use super::index::{Index, Selection, Span, resolve};
use crate::Tensor;
use crate::element::{Fill, Number, Operand};
use crate::error::fail;
use crate::trace::compose::emit;

/// A part of a tensor that is to be changed; see [`Tensor::at`].
pub struct At<'t> {
    tensor: &'t Tensor,
    indices: Vec<Index>,
}

impl Tensor {
    /// A part of the tensor, as [`s!`](crate::s) describes it, to be changed. The result is a new tensor.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let f = jit(|x: Tensor| x.at(s![1..-1]).add(10.0));
    /// assert_eq!(f.call(&Array::from([0.0f32, 1.0, 2.0]))?.to_vec::<f32>()?, [0.0, 11.0, 2.0]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn at(&self, indices: impl AsRef<[Index]>) -> At<'_> {
        At { tensor: self, indices: indices.as_ref().to_vec() }
    }
}

macro_rules! updates {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {
        impl At<'_> {
            $(
                $(#[$doc])*
                #[track_caller]
                pub fn $name(&self, value: impl Into<Operand>) -> Tensor {
                    let op = concat!("at.", stringify!($name));
                    let new = binary_op(op, OpKind::Binary(BinaryOp::$kind), self.tensor.slice(&self.indices).into(), value.into());
                    self.write(op, new.into())
                }
            )*
        }
    };
}

updates! {
    /// Adds `value` to the part.
    add Add;
    /// Multiplies the part by `value`.
    mul Multiply;
    /// The smaller of the part and `value`.
    min Minimum;
    /// The larger of the part and `value`.
    max Maximum;
}

impl At<'_> {
    /// The part itself.
    #[track_caller]
    pub fn get(&self) -> Tensor {
        self.tensor.slice(&self.indices)
    }

    /// Replaces the part by `value`, which broadcasts to it.
    #[track_caller]
    pub fn set(&self, value: impl Into<Operand>) -> Tensor {
        self.write("at.set", value.into())
    }

    #[track_caller]
    fn write(&self, op: &str, value: Operand) -> Tensor {
        let x = self.tensor;
        let chosen = resolve(op, x.shape(), &self.indices);
        let value = value.tensor(op, x.dtype());
        if value.dtype() != x.dtype() {
            fail(op, format!("{} into {}; convert it with .to({})", value.describe(), x.describe(), x.dtype()));
        }
        if value.rank() > chosen.shape.len()
            || value.shape().iter().rev().zip(chosen.shape.iter().rev()).any(|(&v, &c)| v != c && v != 1)
        {
            let shape = value.shape();
            fail(op, format!("a value of shape {shape:?} does not broadcast to the part of shape {:?}", chosen.shape));
        }
        let counts: Vec<i64> = chosen.spans.iter().map(|s| s.count).collect();
        let mut value = value.broadcast_to(&chosen.shape).reshape(&counts);
        let back: Vec<i64> = (0..counts.len() as i64).filter(|&d| chosen.spans[d as usize].backwards).collect();
        if !back.is_empty() {
            value = emit(op, &[&value], |b, v| b.reverse(v[0], &back));
        }
        if counts.contains(&0) {
            return x.clone();
        }
        if chosen.spans.iter().all(|s| s.step == 1 || s.count == 1) {
            let starts = x.starts(op, &chosen);
            return x.dynamic_update_slice(&value, &starts);
        }
        self.write_strided(op, &value, chosen)
    }

    /// Elements apart from each other: spread out with gaps, and chosen where there is no gap.
    #[track_caller]
    fn write_strided(&self, op: &str, value: &Tensor, chosen: Selection) -> Tensor {
        if !chosen.computed.is_empty() {
            fail(op, "a computed position together with a step; write one after the other");
        }
        let zero = Number::Int(0).fill(op, &[], meshwork_ir::ElementType::I32);
        let one = Number::Int(1).fill(op, value.shape(), meshwork_ir::ElementType::I32);
        let mask = self.spread(op, &one, &zero, &chosen.spans).ne(0);
        let fill = match value.dtype() {
            meshwork_ir::ElementType::I1 => Number::Bool(false),
            _ => Number::Int(0),
        };
        let wide = self.spread(op, value, &fill.fill(op, &[], value.dtype()), &chosen.spans);
        select(mask, wide, self.tensor)
    }

    /// `x` with its elements where the spans say, and `fill` elsewhere.
    #[track_caller]
    fn spread(&self, op: &str, x: &Tensor, fill: &Tensor, spans: &[Span]) -> Tensor {
        let low: Vec<i64> = spans.iter().map(|s| s.low).collect();
        let high: Vec<i64> = spans.iter().zip(self.tensor.shape()).map(|(s, &n)| n - s.limit()).collect();
        let gaps: Vec<i64> = spans.iter().map(|s| if s.count > 1 { s.step - 1 } else { 0 }).collect();
        emit(op, &[x, fill], |b, v| b.pad(v[0], v[1], &low, &high, &gaps))
    }
}
