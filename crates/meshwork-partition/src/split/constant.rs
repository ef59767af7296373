//! Values that any device can make for itself in any layout: constants, iotas, spread scalars.

use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, OpId, OpKind, Type, ValueId};

use super::{Result, Splitter};
use crate::layout::Layout;
use crate::reshard::moves::Form;

impl Splitter<'_> {
    /// Whether `v` is made where it is used, in whatever layout is asked for.
    pub fn is_free(&self, v: ValueId) -> bool {
        !self.held.contains(&v) && self.src.def_op(v).is_some_and(|op| self.is_free_op(op))
    }

    /// Whether the results of `op` are made where they are used.
    pub fn is_free_op(&self, op: OpId) -> bool {
        let op = self.src.op(op);
        match op.kind() {
            OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) | OpKind::Source(SourceOp::Iota) => true,
            OpKind::Movement(MovementOp::BroadcastInDim) => self.src.ty(op.operands()[0]).rank() == Some(0),
            _ => false,
        }
    }

    /// Makes a form of a free value; `None` if the value is not free.
    pub fn free_form(&mut self, v: ValueId, layout: &Layout) -> Result<Option<ValueId>> {
        let Some(op) = self.src.def_op(v).filter(|_| self.is_free(v)) else { return Ok(None) };
        let local = layout.local_extents();
        let elem = match self.src.ty(v) {
            Type::Tensor(t) => t.elem,
            _ => return Ok(None),
        };
        Ok(Some(match self.src.op(op).kind() {
            OpKind::Movement(MovementOp::BroadcastInDim) => {
                let scalar = self.src.op(op).operands()[0];
                let scalar = self.get(scalar, &Layout::replicated(&[]))?;
                self.local.broadcast(scalar, &local, &[])
            }
            OpKind::Source(SourceOp::Iota) => {
                let dim = self.src.op(op).int("iota_dimension").unwrap_or(0) as usize;
                let iota = self.local.iota(&local, dim, elem);
                let frame = layout.dims[dim].clone();
                if !frame.is_split() {
                    return Ok(Some(iota));
                }
                let start = self.local.shard_offset(&frame.atoms, frame.block, -frame.offset);
                let start = if elem == self.local.index {
                    start
                } else {
                    self.local.op(OpKind::Mixed(MixedOp::Convert), &[start], Type::tensor([], elem), &[])
                };
                let start = self.local.broadcast(start, &local, &[]);
                self.local.same(OpKind::Binary(BinaryOp::Add), &[iota, start])
            }
            _ => {
                let Some(Attr::Dense(dense)) = self.src.op(op).attr("value") else {
                    return self.unsupported(op, "its value is not a dense constant");
                };
                if let Some(bytes) = dense.splat_bytes() {
                    return Ok(Some(self.local.splat(&local, elem, bytes)));
                }
                let Some(literal) = dense.to_literal() else {
                    return self.unsupported(op, "its elements are in a resource the file does not have");
                };
                let whole = self.local.constant(&literal);
                let extents = self.extents(v);
                let form = Form { value: whole, layout: Layout::replicated(&extents) };
                self.reshard(form, layout, &extents).value
            }
        }))
    }
}
