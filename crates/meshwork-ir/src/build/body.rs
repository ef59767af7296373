//! Operations with bodies: opened, given their bodies, then closed, which infers the result types.

use super::{BuildError, Builder, Place};
use crate::infer::infer_results;
use crate::module::TypeId;
use crate::op::{ControlOp, SdyOp};
use crate::{AttrDict, BlockId, OpId, OpKind, OpSpec, Type, ValueId, Values};

/// An operation whose bodies are being built. It is inserted when it is [closed](Builder::close).
#[derive(Debug)]
#[must_use = "an open operation is not part of the program until it is closed"]
pub struct OpenOp(pub(super) OpId);

impl Builder<'_> {
    /// Starts an operation with bodies. Result types given in `spec` are checked when it is closed; others are inferred.
    pub fn open(&mut self, mut spec: OpSpec) -> OpenOp {
        spec.loc = self.loc.clone();
        OpenOp(self.module.create(spec))
    }

    /// Starts an operation with bodies whose result types follow.
    pub(super) fn open_op(&mut self, kind: impl Into<OpKind>, operands: &[ValueId], attrs: AttrDict) -> OpenOp {
        OpenOp(self.add_op(kind.into(), operands, &[], attrs))
    }

    /// Adds a body that takes `args`. The caller fills the block and ends it with [`end_body`](Builder::end_body).
    pub fn begin_body(&mut self, op: &OpenOp, args: impl IntoIterator<Item = Type>) -> BlockId {
        self.module.add_body(op.0, args)
    }

    /// [`begin_body`](Builder::begin_body), with the numbers of the types.
    pub(super) fn add_body(&mut self, op: &OpenOp, args: &[TypeId]) -> BlockId {
        let region = self.module.add_region(op.0);
        self.module.add_block_typed(region, args)
    }

    /// Ends the body `block` of `op`, which returns these values.
    pub fn end_body(&mut self, op: &OpenOp, block: BlockId, returned: impl IntoIterator<Item = ValueId>) {
        let kind = match self.module.op(op.0).kind {
            OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => OpKind::Sdy(SdyOp::Return),
            _ => OpKind::Control(ControlOp::HloReturn),
        };
        let returned: Values = returned.into_iter().collect();
        let end = self.add_op(kind, &returned, &[], AttrDict::new());
        self.module.append(block, end);
    }

    /// Inserts an operation that has all its bodies, and returns its results.
    pub fn close(&mut self, op: OpenOp) -> Result<Values, BuildError> {
        let op = op.0;
        let types = match infer_results(self.module, op) {
            Ok(types) => types,
            Err(error) => {
                self.module.erase(op);
                return Err(self.error(error));
            }
        };
        if self.module.op(op).results.is_empty() {
            for result in types.iter() {
                let ty = self.number(result.clone());
                self.module.add_result_typed(op, ty);
            }
        }
        self.insert(op);
        Ok(self.module.op(op).results.clone())
    }

    /// Erases an operation that will not be closed.
    pub fn discard(&mut self, op: OpenOp) {
        self.module.erase(op.0);
    }

    /// Builds an operation whose bodies are added by `bodies`.
    pub(super) fn op_with_bodies(
        &mut self,
        op: OpenOp,
        bodies: impl FnOnce(&mut Bodies<'_, '_>) -> Result<(), BuildError>,
    ) -> Result<Values, BuildError> {
        match bodies(&mut Bodies { builder: self, op: &op }) {
            Ok(()) => self.close(op),
            Err(error) => {
                self.discard(op);
                Err(error)
            }
        }
    }
}

/// Adds bodies to an open operation.
pub(super) struct Bodies<'b, 'm> {
    builder: &'b mut Builder<'m>,
    op: &'b OpenOp,
}

impl Bodies<'_, '_> {
    /// Adds a body that takes `args` and returns the values that `build` returns.
    pub(super) fn add<R: IntoIterator<Item = ValueId>>(
        &mut self,
        args: &[TypeId],
        build: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<(), BuildError> {
        let block = self.builder.add_body(self.op, args);
        let args = self.builder.module.block(block).args.clone();
        let loc = self.builder.loc.clone();
        let mut inner = Builder { module: self.builder.module, place: Place::End(block), loc, pos: self.builder.pos };
        let returned = build(&mut inner, &args)?;
        self.builder.end_body(self.op, block, returned);
        Ok(())
    }
}
