//! Reshape, broadcast, slice, pad and similar operations.

use super::{BuildError, Builder};
use crate::module::TypeId;
use crate::op::MovementOp;
use crate::{Attr, AttrDict, Dims, ElementType, OpKind, OpSpec, Type, ValueId};

impl Builder<'_> {
    fn elem_of(&self, x: ValueId) -> ElementType {
        // Any other type is refused by the type rule, whatever element type it is asked for.
        self.ty(x).elem().unwrap_or(ElementType::F32)
    }

    /// The type of these extents with the elements of `x`.
    fn shaped(&mut self, dims: &[i64], x: ValueId) -> TypeId {
        let elem = self.elem_of(x);
        self.module.context.tensor(dims, elem)
    }

    /// The dictionary of one attribute, which is a list of numbers.
    pub(super) fn list(&mut self, name: &'static str, numbers: &[i64]) -> AttrDict {
        self.module.context.list(name, numbers)
    }

    /// `x` under other extents of the same product.
    pub fn reshape(&mut self, x: ValueId, dims: impl IntoIterator<Item = i64>) -> Result<ValueId, BuildError> {
        let dims: Dims = dims.into_iter().collect();
        let ty = self.shaped(&dims, x);
        self.emit_value(MovementOp::Reshape, &[x], AttrDict::new(), &[ty])
    }

    /// The bits of `x` as a tensor of type `ty`.
    pub fn bitcast_convert(&mut self, x: ValueId, ty: Type) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Movement(MovementOp::BitcastConvert)).operands([x]).results([ty]))
    }

    /// `x` stretched to `dims`: dimension `i` of `x` becomes dimension `map[i]`.
    pub fn broadcast_in_dim(
        &mut self,
        x: ValueId,
        dims: impl IntoIterator<Item = i64>,
        map: &[i64],
    ) -> Result<ValueId, BuildError> {
        let dims: Dims = dims.into_iter().collect();
        let ty = self.shaped(&dims, x);
        self.broadcast(x, ty, map)
    }

    /// `x` stretched to the type of `like`: dimension `i` of `x` becomes dimension `map[i]`.
    pub fn broadcast_like(&mut self, x: ValueId, like: ValueId, map: &[i64]) -> Result<ValueId, BuildError> {
        self.broadcast(x, self.module.type_id(like), map)
    }

    /// `x` stretched to type `ty`: dimension `i` of `x` becomes dimension `map[i]`.
    pub fn broadcast_as(&mut self, x: ValueId, ty: Type, map: &[i64]) -> Result<ValueId, BuildError> {
        let ty = self.module.context.intern(ty);
        self.broadcast(x, ty, map)
    }

    fn broadcast(&mut self, x: ValueId, ty: TypeId, map: &[i64]) -> Result<ValueId, BuildError> {
        let map = self.list("broadcast_dimensions", map);
        self.emit_value(MovementOp::BroadcastInDim, &[x], map, &[ty])
    }

    /// `parts` one after the other along `dim`.
    pub fn concatenate(&mut self, parts: &[ValueId], dim: i64) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Concatenate)).operands(parts.iter().copied());
        self.value(spec.attr("dimension", Attr::i64(dim)))
    }

    /// The elements from `start` to `limit` in steps of `stride`, per dimension.
    pub fn slice(&mut self, x: ValueId, start: &[i64], limit: &[i64], stride: &[i64]) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Slice))
            .operands([x])
            .attr("start_indices", Attr::I64Array(start.into()))
            .attr("limit_indices", Attr::I64Array(limit.into()))
            .attr("strides", Attr::I64Array(stride.into()));
        self.value(spec)
    }

    /// `x` with `value` around it and between its elements, per dimension; `low` and `high` may be negative.
    pub fn pad(
        &mut self,
        x: ValueId,
        value: ValueId,
        low: &[i64],
        high: &[i64],
        interior: &[i64],
    ) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Pad))
            .operands([x, value])
            .attr("edge_padding_low", Attr::I64Array(low.into()))
            .attr("edge_padding_high", Attr::I64Array(high.into()))
            .attr("interior_padding", Attr::I64Array(interior.into()));
        self.value(spec)
    }

    /// `x` backwards along `dims`.
    pub fn reverse(&mut self, x: ValueId, dims: &[i64]) -> Result<ValueId, BuildError> {
        let dims = self.list("dimensions", dims);
        self.emit_value(MovementOp::Reverse, &[x], dims, &[])
    }

    /// Dimension `i` of the result is dimension `permutation[i]` of `x`.
    pub fn transpose(&mut self, x: ValueId, permutation: &[i64]) -> Result<ValueId, BuildError> {
        let permutation = self.list("permutation", permutation);
        self.emit_value(MovementOp::Transpose, &[x], permutation, &[])
    }
}
