//! A function under construction.

use std::ops::{Deref, DerefMut};

use super::{BuildError, Builder};
use crate::op::ControlOp;
use crate::{FuncSig, FunctionType, Module, OpId, OpKind, OpSpec, Type, ValueId};

/// A [`Builder`] at the end of a new function, which knows its result types when it is finished.
pub struct FuncBuilder<'m> {
    builder: Builder<'m>,
    func: OpId,
    args: Vec<ValueId>,
}

impl<'m> FuncBuilder<'m> {
    /// A new function at the end of `module`.
    pub fn new(module: &'m mut Module, name: &str, args: impl IntoIterator<Item = Type>) -> FuncBuilder<'m> {
        let ty = FunctionType { inputs: args.into_iter().collect(), results: vec![] };
        let func = module.add_func(FuncSig { name: name.into(), ty, visibility: None });
        // `add_func` gives every function one block.
        let block = module.region(module.op(func).regions()[0]).blocks()[0];
        let args = module.block(block).args().to_vec();
        FuncBuilder { builder: Builder::at_end(module, block), func, args }
    }

    /// Argument `index`. Panics if there is none.
    pub fn arg(&self, index: usize) -> ValueId {
        self.args[index]
    }

    /// All arguments.
    pub fn args(&self) -> &[ValueId] {
        &self.args
    }

    /// The function.
    pub fn func(&self) -> OpId {
        self.func
    }

    /// Returns `results` and sets the function's result types to theirs.
    pub fn finish(self, results: impl IntoIterator<Item = ValueId>) -> Result<OpId, BuildError> {
        let FuncBuilder { mut builder, func, .. } = self;
        let end = builder.op(OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(results))?;
        let module = builder.module_mut();
        let mut ty = module.func_type(func);
        ty.results = module.op(end).operands().iter().map(|&v| module.ty(v).clone()).collect();
        module.set_func_type(func, ty);
        Ok(func)
    }
}

impl<'m> Deref for FuncBuilder<'m> {
    type Target = Builder<'m>;

    fn deref(&self) -> &Builder<'m> {
        &self.builder
    }
}

impl DerefMut for FuncBuilder<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.builder
    }
}
