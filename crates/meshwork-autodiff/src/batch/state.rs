//! The function under construction: what replaces each value of the old one, and whether it is batched.

use std::collections::HashSet;
use std::ops::{Deref, DerefMut};

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::placement::insert_first_dim;
use meshwork_ir::{AttrDict, BlockId, Module, Op, OpId, Type, ValueId, ValueMap};

use super::{BatchError, BatchOptions, inserted, rules};
use crate::activity::captures;

/// What is known about values.
#[derive(Default)]
pub(super) struct Facts {
    /// The replacement of a value of the old function.
    map: ValueMap,
    /// Values of the new function that are batched.
    on: HashSet<ValueId>,
    /// Values of the old function that are batched in the new one.
    pub old: HashSet<ValueId>,
}

impl Facts {
    /// `new` replaces `old`, and is the same for all examples.
    pub fn replace(&mut self, old: ValueId, new: ValueId) {
        self.map.insert(old, new);
    }

    /// `new` replaces `old`, and is batched.
    pub fn replace_batched(&mut self, old: ValueId, new: ValueId) {
        self.map.insert(old, new);
        self.on.insert(new);
    }
}

/// Writes batched operations at the end of a block.
pub(super) struct Batch<'m> {
    builder: Builder<'m>,
    /// The block that is written to.
    pub block: BlockId,
    /// How the function is batched.
    pub options: &'m BatchOptions,
    facts: &'m mut Facts,
}

/// An operation of the old function that has a batched operand or capture.
pub(super) struct Site {
    /// Which operation.
    pub id: OpId,
    /// A copy of it.
    pub op: Op,
    /// The replacements of its operands.
    pub xs: Vec<ValueId>,
}

impl<'m> Batch<'m> {
    /// Writes to the end of `block`.
    pub fn new(module: &'m mut Module, block: BlockId, options: &'m BatchOptions, facts: &'m mut Facts) -> Batch<'m> {
        Batch { builder: Builder::at_end(module, block), block, options, facts }
    }

    /// Writes to the end of another block.
    pub fn nested(&mut self, block: BlockId) -> Batch<'_> {
        let loc = self.builder.loc().clone();
        let mut inner = Batch::new(self.builder.module_mut(), block, self.options, self.facts);
        inner.set_loc(loc);
        inner
    }

    /// Batches `ops`, which are in this order in one block, up to its terminator.
    pub fn run(&mut self, ops: &[OpId]) -> Result<(), BatchError> {
        for &id in ops {
            let op = self.module().op(id).clone();
            if op.kind().is_terminator() {
                continue;
            }
            let touched = |v: &ValueId| self.is_on(self.now(*v));
            if !op.operands().iter().any(touched) && !captures(self.module(), id).iter().any(touched) {
                self.copy(id);
                continue;
            }
            self.check_static(id, &op)?;
            self.set_loc(op.loc.clone());
            let xs = op.operands().iter().map(|&v| self.now(v)).collect();
            rules::apply(self, &Site { id, op, xs })?;
        }
        Ok(())
    }

    /// Copies an operation, with the replacements of its operands.
    pub fn copy(&mut self, id: OpId) -> OpId {
        let block = self.block;
        let module = self.builder.module_mut();
        let copy = module.clone_op(id, &mut self.facts.map);
        module.append(block, copy);
        copy
    }

    fn check_static(&self, id: OpId, op: &Op) -> Result<(), BatchError> {
        let is_dynamic = |v: &&ValueId| self.ty(**v).as_tensor().is_some_and(|t| !t.is_static());
        match op.operands().iter().chain(op.results()).find(is_dynamic) {
            Some(&v) => {
                let why = format!("the type {} has a shape that is not known before the run", self.ty(v));
                Err(BatchError::no_rule(self.module(), id, why))
            }
            None => Ok(()),
        }
    }

    /// The replacement of a value of the old function.
    pub fn now(&self, old: ValueId) -> ValueId {
        *self.facts.map.get(&old).unwrap_or(&old)
    }

    /// Whether a value of the new function is batched.
    pub fn is_on(&self, v: ValueId) -> bool {
        self.facts.on.contains(&v)
    }

    /// Whether a value of the old function will be batched.
    pub fn will_be_on(&self, old: ValueId) -> bool {
        self.facts.old.contains(&old)
    }

    /// `new` replaces `old`, and is the same for all examples.
    pub fn replace(&mut self, old: ValueId, new: ValueId) {
        self.facts.replace(old, new);
    }

    /// Each of `new` replaces the one of `old`, and is batched if its entry of `on` is set.
    pub fn replace_each(&mut self, old: &[ValueId], new: &[ValueId], on: &[bool]) {
        for ((&old, &new), &on) in old.iter().zip(new).zip(on) {
            if on {
                self.facts.replace_batched(old, new);
            } else {
                self.facts.replace(old, new);
            }
        }
    }

    /// `new` are the batched results of the operation.
    pub fn give(&mut self, site: &Site, new: &[ValueId]) {
        for (&old, &new) in site.op.results().iter().zip(new) {
            self.facts.replace_batched(old, new);
        }
    }

    /// Number of examples.
    pub fn size(&self) -> i64 {
        self.options.size
    }

    /// Extents of `v`.
    pub fn dims(&self, v: ValueId) -> Vec<i64> {
        self.ty(v).dims().to_vec()
    }

    /// `ty` with the batch in front.
    pub fn wide(&self, ty: &Type) -> Type {
        inserted(ty, 0, self.options.size).unwrap_or_else(|| ty.clone())
    }

    /// `v` with the batch in front: itself if it is batched, else a copy per example.
    pub fn lifted(&mut self, v: ValueId) -> Result<ValueId, BuildError> {
        if self.is_on(v) {
            return Ok(v);
        }
        let dims = self.dims(v);
        let wide: Vec<i64> = [self.size()].into_iter().chain(dims.iter().copied()).collect();
        let at: Vec<i64> = (1..=dims.len() as i64).collect();
        let out = self.builder.broadcast_in_dim(v, wide, &at)?;
        self.facts.on.insert(out);
        Ok(out)
    }

    /// Several values with the batch in front.
    pub fn all_lifted(&mut self, values: &[ValueId]) -> Result<Vec<ValueId>, BuildError> {
        values.iter().map(|&v| self.lifted(v)).collect()
    }

    /// The same operation on other operands: its attributes as `edit` leaves them, its results with the batch in
    /// front.
    pub fn same(&mut self, site: &Site, operands: &[ValueId], edit: impl FnOnce(&mut AttrDict)) -> Vec<ValueId> {
        let copy = self.copy(site.id);
        let module = self.builder.module_mut();
        let results = module.op(copy).results().to_vec();
        module.set_operands(copy, operands.iter().copied());
        insert_first_dim(&mut module.op_mut(copy).attrs, &self.options.placement);
        edit(&mut module.op_mut(copy).attrs);
        for &result in &results {
            if let Some(wide) = inserted(module.ty(result), 0, self.options.size) {
                module.set_ty(result, wide);
                self.facts.on.insert(result);
            }
        }
        results
    }

    /// The map from old to new values, with other values for some.
    pub fn map_with(&self, others: impl IntoIterator<Item = (ValueId, ValueId)>) -> ValueMap {
        let mut map = self.facts.map.clone();
        map.extend(others);
        map
    }
}

impl<'m> Deref for Batch<'m> {
    type Target = Builder<'m>;

    fn deref(&self) -> &Builder<'m> {
        &self.builder
    }
}

impl DerefMut for Batch<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.builder
    }
}
