//! Constants, indices, device numbers, random bits.

use std::sync::Arc;

use super::{BuildError, Builder};
use crate::op::SourceOp;
use crate::{Attr, Dense, Dims, ElementClass, ElementType, Literal, OpKind, OpSpec, Type, ValueId, float};

impl Builder<'_> {
    /// The constant with the elements of `literal`.
    pub fn constant(&mut self, literal: &Literal) -> Result<ValueId, BuildError> {
        self.constant_attr(Dense::from_literal(literal))
    }

    fn constant_attr(&mut self, dense: Dense) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Source(SourceOp::Constant)).attr("value", Attr::Dense(Arc::new(dense))))
    }

    /// The constant of shape `dims` with all elements equal to `value`, rounded to `elem`.
    ///
    /// A complex constant has `value` as its real part.
    pub fn splat(
        &mut self,
        dims: impl IntoIterator<Item = i64>,
        elem: ElementType,
        value: f64,
    ) -> Result<ValueId, BuildError> {
        let mut bytes = Vec::with_capacity(elem.storage_bytes());
        match elem.class() {
            ElementClass::Float => float::write(elem, value, &mut bytes),
            ElementClass::Complex => {
                float::write(elem.real_part(), value, &mut bytes);
                float::write(elem.real_part(), 0.0, &mut bytes);
            }
            ElementClass::Unsigned => bytes.extend(&(value as u64).to_le_bytes()[..elem.storage_bytes()]),
            ElementClass::Bool => bytes.push(u8::from(value != 0.0)),
            ElementClass::Signed => bytes.extend(&(value as i64).to_le_bytes()[..elem.storage_bytes()]),
        }
        let dims: Dims = dims.into_iter().collect();
        self.splat_bytes(&dims, elem, &bytes)
    }

    /// The constant of shape `dims` with all elements equal to `bytes`, one element as literals store it.
    pub fn splat_bytes(&mut self, dims: &[i64], elem: ElementType, bytes: &[u8]) -> Result<ValueId, BuildError> {
        let ty = self.module.tensor_type(dims, elem);
        self.constant_attr(Dense::splat(ty, bytes))
    }

    /// The scalar constant `value`, rounded to `elem`.
    pub fn scalar(&mut self, elem: ElementType, value: f64) -> Result<ValueId, BuildError> {
        self.splat([], elem, value)
    }

    /// The tensor of type `ty` that counts along `dim`.
    pub fn iota(&mut self, ty: Type, dim: i64) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Source(SourceOp::Iota)).results([ty]).attr("iota_dimension", Attr::i64(dim)))
    }

    /// The number of this partition, `tensor<ui32>`.
    pub fn partition_id(&mut self) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Source(SourceOp::PartitionId)))
    }

    /// The number of this replica, `tensor<ui32>`.
    pub fn replica_id(&mut self) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Source(SourceOp::ReplicaId)))
    }

    /// New state and random bits of type `ty`; `algorithm` is `DEFAULT`, `THREE_FRY` or `PHILOX`.
    pub fn rng_bit_generator(
        &mut self,
        algorithm: &str,
        state: ValueId,
        ty: Type,
    ) -> Result<(ValueId, ValueId), BuildError> {
        let spec = OpSpec::new(OpKind::Source(SourceOp::RngBitGenerator))
            .operands([state])
            .results([self.ty(state).clone(), ty])
            .attr("rng_algorithm", Attr::hlo_enum("rng_algorithm", algorithm));
        let out = self.values(spec)?;
        Ok((out[0], out[1]))
    }
}
