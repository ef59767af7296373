//! Writing programs in Rust: one method an operation, result types inferred.
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

use smallvec::{SmallVec, smallvec};
use thiserror::Error;

pub use collective::Groups;
pub use contract::{Convolution, Triangle};
pub use elementwise::Direction;
pub use func::FuncBuilder;
pub use placement::add_mesh;
pub use reduce::Window;

use crate::infer::{InferError, OpTypes, Types, infer, infer_op};
use crate::module::Asked;
use crate::op::ControlOp;
use crate::{AttrDict, BlockId, Loc, Module, Op, OpId, OpKind, OpSpec, Type, ValueId, Values};

/// An operation could not be built.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{error}{}", at(.loc))]
pub struct BuildError {
    /// What is wrong.
    #[source]
    pub error: InferError,
    /// The builder's location.
    pub loc: Loc,
}

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
}

impl<'m> Builder<'m> {
    /// Inserts at the end of `block`.
    pub fn at_end(module: &'m mut Module, block: BlockId) -> Builder<'m> {
        Builder { module, place: Place::End(block), loc: Loc::unknown() }
    }

    /// Inserts just before `op`, which is in a block.
    pub fn before(module: &'m mut Module, op: OpId) -> Builder<'m> {
        Builder { module, place: Place::Before(op), loc: Loc::unknown() }
    }

    /// Gives this location to all operations built from now on.
    pub fn set_loc(&mut self, loc: Loc) {
        self.loc = loc;
    }

    /// The location that operations get.
    pub fn loc(&self) -> &Loc {
        &self.loc
    }

    /// The module.
    pub fn module(&self) -> &Module {
        self.module
    }

    /// The module, to change it otherwise. The place of insertion has to stay.
    pub fn module_mut(&mut self) -> &mut Module {
        self.module
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        self.module.ty(value)
    }

    fn error(&self, error: InferError) -> BuildError {
        BuildError { error, loc: self.loc.clone() }
    }

    fn insert(&mut self, op: OpId) {
        match self.place {
            Place::End(block) => self.module.append(block, op),
            Place::Before(anchor) => self.module.insert_before(anchor, op),
        }
    }

    /// Builds any operation without bodies. Result types given in `spec` are checked; others are inferred.
    pub fn op(&mut self, mut spec: OpSpec) -> Result<OpId, BuildError> {
        let wanted = std::mem::take(&mut spec.result_types);
        spec.result_types = self.infer(&spec, &wanted)?;
        spec.loc = self.loc.clone();
        let op = self.module.create(spec);
        self.insert(op);
        Ok(op)
    }

    /// Builds an operation without bodies that has one result.
    pub fn value(&mut self, spec: OpSpec) -> Result<ValueId, BuildError> {
        if spec.result_types.len() > 1 || spec.kind == OpKind::Unregistered {
            let op = self.op(spec)?;
            return Ok(self.module.result(op));
        }
        let wanted = spec.result_types.into_iter().next();
        self.apply_list(spec.kind, &spec.operands, spec.attrs, wanted)
    }

    /// [`apply`](Builder::apply) for any number of operands.
    pub fn apply_list(
        &mut self,
        kind: OpKind,
        operands: &[ValueId],
        attrs: AttrDict,
        wanted: Option<Type>,
    ) -> Result<ValueId, BuildError> {
        match *operands {
            [a] => self.apply(kind, [a], attrs, wanted),
            [a, b] => self.apply(kind, [a, b], attrs, wanted),
            [a, b, c] => self.apply(kind, [a, b, c], attrs, wanted),
            _ => self.apply_anew(kind, operands, attrs, wanted),
        }
    }

    /// Builds an operation of `kind`, which has no bodies and one result. Its type is checked if it is given.
    pub fn apply<const N: usize>(
        &mut self,
        kind: OpKind,
        operands: [ValueId; N],
        attrs: AttrDict,
        wanted: Option<Type>,
    ) -> Result<ValueId, BuildError> {
        let asked = Asked { kind, operands: &operands, attrs: &attrs, wanted: wanted.as_ref() };
        let known = self.module.known_result(&asked);
        let (Some(ty), Place::End(block)) = (known, self.place) else {
            return self.apply_anew(kind, &operands, attrs, wanted);
        };
        Ok(self.module.append_one(block, kind, operands, attrs, Type::Tensor(ty), self.loc.clone()))
    }

    #[inline(never)]
    fn apply_anew(
        &mut self,
        kind: OpKind,
        operands: &[ValueId],
        attrs: AttrDict,
        wanted: Option<Type>,
    ) -> Result<ValueId, BuildError> {
        let mut result_types = Types::new();
        wanted.into_iter().for_each(|ty| result_types.push(ty));
        let op = self.op(OpSpec { attrs, result_types, ..OpSpec::new(kind).operands(operands.iter().copied()) })?;
        Ok(self.module.result(op))
    }

    fn infer(&mut self, spec: &OpSpec, wanted: &[Type]) -> Result<Types, BuildError> {
        let types = {
            let (mut operands, mut declared) = (SmallVec::<[&Type; 4]>::new(), SmallVec::<[&Type; 2]>::new());
            spec.operands.iter().for_each(|&v| operands.push(self.module.ty(v)));
            wanted.iter().for_each(|ty| declared.push(ty));
            infer(&OpTypes {
                wanted: &declared,
                values: Some((&*self.module, &spec.operands)),
                ..OpTypes::new(spec.kind, &operands, &spec.attrs)
            })
        };
        let mut types = match types {
            Ok(types) => types,
            Err(e) => return Err(self.error(e)),
        };
        types.iter_mut().for_each(|ty| self.module.shared.exchange(ty));
        if let ([only], true) = (&types[..], wanted.len() < 2) {
            let asked = Asked { kind: spec.kind, operands: &spec.operands, attrs: &spec.attrs, wanted: wanted.first() };
            self.module.remember_result(&asked, only);
        }
        Ok(types)
    }

    /// Builds an operation without bodies and returns its results.
    pub fn values(&mut self, spec: OpSpec) -> Result<Values, BuildError> {
        let op = self.op(spec)?;
        Ok(self.module.op(op).results.clone())
    }

    fn infer_with_bodies(&mut self, op: OpId) -> Result<Types, BuildError> {
        let returned = self.module.body_of(op, 0).and_then(|body| match self.module.returned(body) {
            &[only] => Some(self.module.ty(only).clone()),
            _ => None,
        });
        let data = self.module.op(op);
        // The types of the body's arguments follow from those of the operands.
        if returned.is_some()
            && let Some(known) = self.module.known_result(&asked(data, returned.as_ref()))
        {
            return Ok(smallvec![Type::Tensor(known)]);
        }
        let mut types = infer_op(self.module, op).map_err(|e| self.error(e))?;
        types.iter_mut().for_each(|ty| self.module.shared.exchange(ty));
        if let ([only], Some(_)) = (&types[..], &returned) {
            let (operands, attrs) = (self.module.op(op).operands.clone(), self.module.op(op).attrs.clone());
            let kind = self.module.op(op).kind;
            let asked = Asked { kind, operands: &operands, attrs: &attrs, wanted: returned.as_ref() };
            self.module.remember_result(&asked, only);
        }
        Ok(types)
    }

    /// Builds an operation with bodies: `bodies` adds them to the operation, which is not inserted yet.
    fn op_with_bodies(
        &mut self,
        mut spec: OpSpec,
        bodies: impl FnOnce(&mut Bodies<'_>) -> Result<(), BuildError>,
    ) -> Result<Values, BuildError> {
        spec.loc = self.loc.clone();
        let op = self.module.create(spec);
        let built = bodies(&mut Bodies { module: self.module, op, loc: &self.loc });
        let types = match built.and_then(|()| self.infer_with_bodies(op)) {
            Ok(types) => types,
            Err(e) => {
                self.module.erase(op);
                return Err(e);
            }
        };
        for ty in types {
            self.module.add_result(op, ty);
        }
        self.insert(op);
        Ok(self.module.op(op).results.clone())
    }
}

/// What the type rule of `op` is asked for, whose body returns `returned`.
fn asked<'a>(op: &'a Op, returned: Option<&'a Type>) -> Asked<'a> {
    Asked { kind: op.kind, operands: &op.operands, attrs: &op.attrs, wanted: returned }
}

/// Adds bodies to an operation under construction.
struct Bodies<'b> {
    module: &'b mut Module,
    op: OpId,
    loc: &'b Loc,
}

impl Bodies<'_> {
    /// Adds a body that takes `args`, runs `build` in it and returns the values that `build` returns.
    fn add<R: IntoIterator<Item = ValueId>>(
        &mut self,
        args: impl IntoIterator<Item = Type>,
        build: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<(), BuildError> {
        let block = self.module.add_body(self.op, args);
        let args = self.module.block(block).args.clone();
        let mut builder = Builder::at_end(self.module, block);
        builder.loc = self.loc.clone();
        let returned = build(&mut builder, &args)?;
        let end = OpSpec::new(OpKind::Control(ControlOp::HloReturn)).operands(returned).loc(self.loc.clone());
        self.module.push(block, end);
        Ok(())
    }
}
