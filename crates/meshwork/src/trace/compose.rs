//! Composite operations: operators that broadcast, and functions made of several operations.
//!
//! A [`Composer`] works on values of the innermost block; only the last one becomes a tensor. Shapes and element types
//! are checked before the first operation, where `#[track_caller]` still knows the user's line.

use std::sync::Arc;

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{BinaryOp, MovementOp};
use meshwork_ir::{Attr, ElementType, OpKind, OpSpec, TensorType, Type, ValueId, Values};

use crate::Tensor;
use crate::element::Number;
use crate::ops::{Combine, STOP_GRADIENT};
use crate::tensor::dims;
use crate::trace::{Trace, with_top};

/// Adds operations to the topmost trace on behalf of the user's operation `op`.
pub(crate) struct Composer<'t> {
    trace: &'t mut Trace,
    op: &'t str,
}

/// The tensor that `build` makes of `inputs`.
#[track_caller]
pub(crate) fn compose<const N: usize>(
    op: &str,
    inputs: [&Tensor; N],
    build: impl FnOnce(&mut Composer<'_>, [ValueId; N]) -> ValueId,
) -> Tensor {
    with_top(op, |trace| {
        let values = trace.resolve_all(op, &inputs);
        let value = build(&mut Composer { trace, op }, values);
        trace.tensor(op, value)
    })
}

/// [`compose`] of any number of inputs.
#[track_caller]
pub(crate) fn compose_list(
    op: &str,
    inputs: &[&Tensor],
    build: impl FnOnce(&mut Composer<'_>, &[ValueId]) -> ValueId,
) -> Tensor {
    with_top(op, |trace| {
        let values: Values = inputs.iter().map(|t| trace.resolve(op, t)).collect();
        let value = build(&mut Composer { trace, op }, &values);
        trace.tensor(op, value)
    })
}

/// Adds an operation on `inputs` to the topmost trace.
#[track_caller]
pub(crate) fn emit<const N: usize>(
    op: &str,
    inputs: &[&Tensor; N],
    build: impl FnOnce(&mut Builder<'_>, &[ValueId; N]) -> Result<ValueId, BuildError>,
) -> Tensor {
    compose(op, *inputs, |s, values| s.build(|b| build(b, &values)))
}

/// Adds an operation on any number of inputs.
#[track_caller]
pub(crate) fn emit_list(
    op: &str,
    inputs: &[&Tensor],
    build: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<ValueId, BuildError>,
) -> Tensor {
    compose_list(op, inputs, |s, values| s.build(|b| build(b, values)))
}

/// Adds an operation with several results.
#[track_caller]
pub(crate) fn emit_all<R: IntoIterator<Item = ValueId>>(
    op: &str,
    inputs: &[&Tensor],
    build: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
) -> Vec<Tensor> {
    with_top(op, |trace| {
        let values: Values = inputs.iter().map(|t| trace.resolve(op, t)).collect();
        let results = trace.build(op, |b| build(b, &values));
        results.into_iter().map(|v| trace.tensor(op, v)).collect()
    })
}

impl Composer<'_> {
    /// Builds operations with a [`Builder`].
    #[inline]
    pub(crate) fn build<R>(&mut self, build: impl FnOnce(&mut Builder<'_>) -> Result<R, BuildError>) -> R {
        self.trace.build(self.op, build)
    }

    /// The type of a tensor.
    #[inline]
    fn ty(&self, x: ValueId) -> &Arc<TensorType> {
        self.trace.tensor_type(self.op, x)
    }

    /// An operation of this kind, which has neither attributes nor bodies.
    #[inline]
    pub(crate) fn apply<const N: usize>(&mut self, kind: OpKind, operands: [ValueId; N]) -> ValueId {
        self.build(|b| b.apply(kind, &operands))
    }

    /// The constant of this shape with all elements equal to `number`.
    pub(crate) fn fill(&mut self, number: Number, dims: &[i64], elem: ElementType) -> ValueId {
        let ty = self.trace.module.tensor_type_id(dims, elem);
        self.trace.constant(self.op, number, ty)
    }

    /// The constant of the type of `x` with all elements equal to `number`.
    pub(crate) fn fill_like(&mut self, number: Number, x: ValueId) -> ValueId {
        let ty = self.trace.module.type_id(x);
        self.trace.constant(self.op, number, ty)
    }

    /// `x` as the dimensions `map` of a tensor of the type of `like`, which repeats it along the others.
    pub(crate) fn spread(&mut self, x: ValueId, like: ValueId, map: &[i64]) -> ValueId {
        self.build(|b| b.broadcast_like(x, like, map))
    }

    /// `x` repeated to `shape`, which it fits by NumPy's rules.
    pub(crate) fn stretch(&mut self, x: ValueId, shape: &[i64]) -> ValueId {
        let own = self.ty(x);
        if own.dims[..] == *shape {
            return x;
        }
        let map = dims((shape.len() - own.dims.len()) as i64..shape.len() as i64);
        self.build(|b| b.broadcast_in_dim(x, shape.iter().copied(), &map))
    }

    /// `x` reduced over `dims`, which are removed.
    pub(crate) fn reduce(&mut self, how: Combine, x: ValueId, dims: &[i64]) -> ValueId {
        let elem = self.ty(x).elem;
        let init = match how.start(elem) {
            Some(number) => self.fill(number, &[], elem),
            None => self.build(|b| b.constant(&how.neutral(elem))),
        };
        self.build(|b| b.reduce_by(how.kind(), x, init, dims))
    }

    /// The mean over `dims`, which have `count` elements and are removed.
    pub(crate) fn mean(&mut self, x: ValueId, dims: &[i64], count: i64) -> ValueId {
        let sum = match dims {
            [] => x,
            _ => self.reduce(Combine::Sum, x, dims),
        };
        let count = self.fill_like(Number::Int(count), sum);
        self.apply(OpKind::Binary(BinaryOp::Divide), [sum, count])
    }

    /// `x`, of real floats, treated as a constant by gradients.
    pub(crate) fn stop_gradient(&mut self, x: ValueId) -> ValueId {
        if !self.trace.is_inner() {
            // Only traces on top of others are differentiated.
            return x;
        }
        let ty = self.ty(x).clone();
        let bits = match ty.elem.bits() {
            8 => ElementType::UI8,
            16 => ElementType::UI16,
            32 => ElementType::UI32,
            _ => ElementType::UI64,
        };
        // Integers have no gradient. Both operations are removed when tracing ends.
        self.build(|b| {
            let bits = b.bitcast_convert(x, Type::tensor(ty.dims.iter().copied(), bits))?;
            let back =
                OpSpec::new(OpKind::Movement(MovementOp::BitcastConvert)).operands([bits]).results([Type::Tensor(ty)]);
            b.value(back.attr(STOP_GRADIENT, Attr::Unit))
        })
    }
}
