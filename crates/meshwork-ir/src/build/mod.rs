//! Writing programs in Rust: one method per operation, result types inferred.
//!
//! A [`Builder`] inserts operations at one place of a module. [`FuncBuilder`] is one at the end of a new function.
//! Wrong operands give a [`BuildError`] that names the operation, the operand, the types and the location.
//!
//! ```
//! use meshwork_ir::build::FuncBuilder;
//! use meshwork_ir::{ElementType, Module, Type};
//!
//! let mut module = Module::new();
//! let row = Type::tensor([4], ElementType::F32);
//! let mut f = FuncBuilder::new(&mut module, "main", [row.clone(), row]);
//! let (x, y) = (f.arg(0), f.arg(1));
//! let sum = f.add(x, y)?;
//! let zero = f.scalar(ElementType::F32, 0.0)?;
//! let total = f.reduce(&[sum], &[zero], &[0], |b, args| Ok([b.add(args[0], args[1])?]))?[0];
//! assert_eq!(f.ty(total).to_string(), "tensor<f32>");
//! let main = f.finish([total])?;
//!
//! assert_eq!(module.func_type(main).to_string(), "(tensor<4xf32>, tensor<4xf32>) -> tensor<f32>");
//! assert!(meshwork_ir::text::print(&module).contains("stablehlo.add %arg0, %arg1 : tensor<4xf32>"));
//! assert!(meshwork_ir::verify::verify(&module).is_empty());
//! # Ok::<(), meshwork_ir::build::BuildError>(())
//! ```

mod attrs;
mod body;
mod collective;
mod contract;
mod control;
mod elementwise;
mod func;
mod index;
mod movement;
mod placement;
mod reduce;
mod source;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use body::OpenOp;
pub use collective::Groups;
pub use contract::{Convolution, Half, Triangle};
pub use elementwise::Direction;
pub use func::FuncBuilder;
pub use placement::add_mesh;
pub use reduce::{Stability, Window};

use crate::infer::{InferError, OpTypes, ResultType, ResultTypes, infer};
use crate::module::{TypeId, TypeIds};
use crate::{AttrDict, BlockId, Loc, Module, OpId, OpKind, OpSpec, TextPos, Type, ValueId, Values};

/// An operation could not be built.
#[derive(Clone, PartialEq, Error)]
#[error("{error}{}", at(.loc))]
pub struct BuildError {
    /// What is wrong.
    #[source]
    pub error: Box<InferError>,
    /// The builder's location.
    pub loc: Loc,
}

meshwork_mesh::debug_as_display!(BuildError);

fn at(loc: &Loc) -> String {
    loc.source().map_or_else(String::new, |(file, line, col)| format!(" (at {file}:{line}:{col})"))
}

/// Where operations are inserted.
#[derive(Clone, Copy, Debug)]
enum Place {
    End(BlockId),
    Before(OpId),
}

/// Inserts operations at one place of a module.
pub struct Builder<'m> {
    module: &'m mut Module,
    place: Place,
    loc: Loc,
    pos: TextPos,
}

impl<'m> Builder<'m> {
    /// Inserts at the end of `block`.
    #[inline]
    pub fn at_end(module: &'m mut Module, block: BlockId) -> Builder<'m> {
        Builder { module, place: Place::End(block), loc: Loc::unknown(), pos: TextPos::default() }
    }

    /// Inserts just before `op`, which is in a block.
    pub fn before(module: &'m mut Module, op: OpId) -> Builder<'m> {
        Builder { module, place: Place::Before(op), loc: Loc::unknown(), pos: TextPos::default() }
    }

    /// The same, giving this location to all operations.
    #[inline]
    pub fn with_loc(self, loc: Loc) -> Builder<'m> {
        Builder { loc, ..self }
    }

    /// Gives this location to all operations built from now on.
    pub fn set_loc(&mut self, loc: Loc) {
        self.loc = loc;
    }

    /// Gives this position in a text to all operations built from now on that have none of their own.
    pub fn set_pos(&mut self, pos: TextPos) {
        self.pos = pos;
    }

    /// The location that operations get.
    pub fn loc(&self) -> &Loc {
        &self.loc
    }

    /// The module.
    pub fn module(&self) -> &Module {
        self.module
    }

    /// The module, for other changes. The insertion point must stay valid.
    pub fn module_mut(&mut self) -> &mut Module {
        self.module
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        self.module.ty(value)
    }

    #[cold]
    fn error(&self, error: Box<InferError>) -> BuildError {
        BuildError { error, loc: self.loc.clone() }
    }

    #[inline(always)]
    fn insert(&mut self, op: OpId) {
        match self.place {
            Place::End(block) => self.module.append(block, op),
            Place::Before(anchor) => self.module.insert_before(anchor, op),
        }
    }

    /// Builds any operation without bodies. Result types given in `spec` are checked; others are inferred.
    pub fn op(&mut self, spec: OpSpec) -> Result<OpId, BuildError> {
        let wanted: TypeIds = spec.result_types.into_iter().map(|ty| self.module.context.intern(ty)).collect();
        let op = self.emit(spec.kind, &spec.operands, spec.attrs, &wanted)?;
        let data = self.module.op_mut(op);
        if spec.pos != TextPos::default() {
            data.pos = spec.pos;
        }
        if spec.kind == OpKind::Unregistered {
            data.name = Some(Box::new(spec.name));
        }
        Ok(op)
    }

    /// Builds an operation without bodies. Types that do not follow from the operands are `wanted`.
    fn emit(
        &mut self,
        kind: OpKind,
        operands: &[ValueId],
        attrs: AttrDict,
        wanted: &[TypeId],
    ) -> Result<OpId, BuildError> {
        let types = match infer(&OpTypes::new(self.module, kind, operands, &attrs, wanted)) {
            Ok(types) => types,
            Err(wrong) => return Err(self.error(wrong)),
        };
        let op = match types {
            ResultTypes::One(result) => {
                let number = self.number(result);
                self.add_op(kind, operands, &[number], attrs)
            }
            ResultTypes::Several(results) => {
                let numbers: TypeIds = results.into_iter().map(|result| self.number(result)).collect();
                self.add_op(kind, operands, &numbers, attrs)
            }
        };
        self.insert(op);
        Ok(op)
    }

    /// Creates an operation with the builder's location.
    #[inline]
    fn add_op(&mut self, kind: OpKind, operands: &[ValueId], types: &[TypeId], attrs: AttrDict) -> OpId {
        self.module.add_op(kind, operands, types, attrs, self.loc.clone(), self.pos)
    }

    /// The number of a type that a rule has found.
    fn number(&mut self, result: ResultType) -> TypeId {
        match result {
            ResultType::Known(id) => id,
            ResultType::New(ty) => self.module.context.intern(ty),
        }
    }

    /// Builds an operation without bodies that has one result. Its type, if it does not follow, is `wanted`.
    #[inline]
    fn emit_value(
        &mut self,
        kind: impl Into<OpKind>,
        operands: &[ValueId],
        attrs: AttrDict,
        wanted: &[TypeId],
    ) -> Result<ValueId, BuildError> {
        let op = self.emit(kind.into(), operands, attrs, wanted)?;
        Ok(self.module.result(op))
    }

    /// Builds an operation without bodies that has one result.
    pub fn value(&mut self, spec: OpSpec) -> Result<ValueId, BuildError> {
        let op = self.op(spec)?;
        Ok(self.module.result(op))
    }

    /// Builds an operation without attributes and bodies that has one result.
    #[inline]
    pub fn apply(&mut self, kind: OpKind, operands: &[ValueId]) -> Result<ValueId, BuildError> {
        self.emit_value(kind, operands, AttrDict::new(), &[])
    }

    /// Builds an operation without bodies and returns its results.
    pub fn values(&mut self, spec: OpSpec) -> Result<Values, BuildError> {
        let op = self.op(spec)?;
        Ok(self.module.op(op).results.clone())
    }
}
