//! Slices at computed positions.

use std::sync::Arc;

use super::{BuildError, Builder};
use crate::attr::{GatherDims, ScatterDims};
use crate::module::{TypeId, TypeIds};
use crate::op::{BodyOp, MovementOp};
use crate::{Attr, OpKind, OpSpec, Type, ValueId, Values};

impl Builder<'_> {
    /// The slice of these sizes at `starts`, one scalar per dimension.
    pub fn dynamic_slice(&mut self, x: ValueId, starts: &[ValueId], sizes: &[i64]) -> Result<ValueId, BuildError> {
        let operands: Values = std::iter::once(x).chain(starts.iter().copied()).collect();
        let sizes = self.list("slice_sizes", sizes);
        self.emit_value(MovementOp::DynamicSlice, &operands, sizes, &[])
    }

    /// `x` with `update` written at `starts`, one scalar per dimension.
    pub fn dynamic_update_slice(
        &mut self,
        x: ValueId,
        update: ValueId,
        starts: &[ValueId],
    ) -> Result<ValueId, BuildError> {
        let operands = [x, update].into_iter().chain(starts.iter().copied());
        self.value(OpSpec::new(OpKind::Movement(MovementOp::DynamicUpdateSlice)).operands(operands))
    }

    /// Slices of `x` of these sizes at `indices`.
    pub fn gather(
        &mut self,
        x: ValueId,
        indices: ValueId,
        dims: GatherDims,
        sizes: &[i64],
    ) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Gather))
            .operands([x, indices])
            .attr("dimension_numbers", Attr::Gather(Arc::new(dims)))
            .attr("slice_sizes", Attr::I64Array(sizes.into()))
            .attr("indices_are_sorted", Attr::Bool(false));
        self.value(spec)
    }

    /// `inputs` with `updates` combined into them at `indices`; `combine` takes the old elements, then the updates.
    pub fn scatter<R: IntoIterator<Item = ValueId>>(
        &mut self,
        inputs: &[ValueId],
        indices: ValueId,
        updates: &[ValueId],
        dims: ScatterDims,
        combine: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<Values, BuildError> {
        let operands = inputs.iter().copied().chain([indices]).chain(updates.iter().copied());
        let spec = OpSpec::new(OpKind::Body(BodyOp::Scatter))
            .operands(operands)
            .attr("scatter_dimension_numbers", Attr::Scatter(Arc::new(dims)))
            .attr("indices_are_sorted", Attr::Bool(false))
            .attr("unique_indices", Attr::Bool(false));
        let args = self.scalars_of(inputs.iter().chain(updates));
        let op = self.open(spec);
        self.op_with_bodies(op, |bodies| bodies.add(&args, combine))
    }

    /// A scalar type for each value.
    pub(super) fn scalars_of<'v>(&mut self, values: impl IntoIterator<Item = &'v ValueId>) -> TypeIds {
        values.into_iter().map(|&v| self.scalar_of(v)).collect()
    }

    /// The type of one element of a value.
    pub(super) fn scalar_of(&mut self, value: ValueId) -> TypeId {
        match self.ty(value) {
            Type::Tensor(t) if t.rank() > 0 => {
                let elem = t.elem;
                self.module.context.tensor(&[], elem)
            }
            _ => self.module.type_id(value),
        }
    }

    /// Whether `value` is of the type of one element of `x`.
    pub(super) fn is_element(&self, value: ValueId, x: ValueId) -> bool {
        match (self.ty(value), self.ty(x)) {
            (Type::Tensor(value), Type::Tensor(x)) => {
                value.dims.is_empty() && value.encoding.is_none() && value.elem == x.elem
            }
            _ => false,
        }
    }
}
