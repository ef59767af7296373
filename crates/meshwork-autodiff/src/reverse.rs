//! Reverse mode: from the cotangents of results to the cotangents of operands, operation by operation.
//!
//! Invariants:
//! - a cotangent has the type of its value, and only active values have one;
//! - a value without an entry has the cotangent zero, which is written out only where an operation needs it;
//! - when an operation is visited, all uses of its results have been visited, so their cotangents are complete.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{ControlOp, SourceOp};
use meshwork_ir::{Attr, BlockId, ElementType, Module, Op, OpId, OpKind, OpSpec, Type, ValueId, ValueMap};

use crate::activity::{Active, spread_op};
use crate::{GradError, rules};

/// Writes the derivative at the end of a block.
pub(crate) struct Reverse<'m> {
    builder: Builder<'m>,
    /// The block that the derivative is written to.
    pub block: BlockId,
    active: &'m mut Active,
    cts: HashMap<ValueId, ValueId>,
}

/// An operation to differentiate, with the cotangents of its results.
pub(crate) struct Site {
    /// Which operation.
    pub id: OpId,
    /// A copy of it.
    pub op: Op,
    /// One per result; at least one is `Some`.
    pub cts: Vec<Option<ValueId>>,
    /// The first of them: the only one of an operation with one result.
    pub ct: ValueId,
}

impl Site {
    /// Operand `index` of an operation that the verifier has passed.
    pub fn x(&self, index: usize) -> ValueId {
        self.op.operands()[index]
    }

    /// The first result.
    pub fn y(&self) -> ValueId {
        self.op.results()[0]
    }

    /// The list of integers called `name`; `fill` for each of `rank` dimensions where it is absent.
    pub fn i64s_or(&self, name: &str, rank: usize, fill: i64) -> Vec<i64> {
        self.op.i64s(name).unwrap_or_else(|| vec![fill; rank])
    }

    /// The list of pairs called `name`; zeros where it is absent.
    pub fn pairs_or_zero(&self, name: &str, rank: usize) -> Vec<(i64, i64)> {
        let flat = self.i64s_or(name, 2 * rank, 0);
        flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
    }
}

impl<'m> Reverse<'m> {
    /// Writes to the end of `block`.
    pub fn new(module: &'m mut Module, block: BlockId, active: &'m mut Active) -> Reverse<'m> {
        Reverse { builder: Builder::at_end(module, block), block, active, cts: HashMap::new() }
    }

    /// Writes to the end of another block, with no cotangents yet.
    pub fn nested(&mut self, block: BlockId) -> Reverse<'_> {
        let loc = self.builder.loc().clone();
        let mut inner = Reverse::new(self.builder.module_mut(), block, self.active);
        inner.set_loc(loc);
        inner
    }

    /// Whether a cotangent of `v` is needed.
    pub fn wants(&self, v: ValueId) -> bool {
        self.active.contains(&v)
    }

    /// Declares that values depend on the arguments.
    pub fn activate(&mut self, values: impl IntoIterator<Item = ValueId>) {
        self.active.extend(values);
    }

    /// Finds which results of `ops`, new in this block, depend on the arguments.
    pub fn spread(&mut self, ops: &[OpId]) {
        for &op in ops {
            spread_op(self.builder.module(), op, self.active);
        }
    }

    /// Adds to the cotangent of `v`, if it has one.
    pub fn give(&mut self, v: ValueId, ct: ValueId) -> Result<(), BuildError> {
        if !self.wants(v) {
            return Ok(());
        }
        let total = match self.cts.get(&v) {
            Some(&old) => self.builder.add(old, ct)?,
            None => ct,
        };
        self.cts.insert(v, total);
        Ok(())
    }

    /// The cotangent of `v`, if it is not zero.
    pub fn cotangent(&self, v: ValueId) -> Option<ValueId> {
        self.cts.get(&v).copied()
    }

    /// The cotangent of `v`, written out.
    pub fn cotangent_or_zeros(&mut self, v: ValueId) -> Result<ValueId, BuildError> {
        match self.cotangent(v) {
            Some(ct) => Ok(ct),
            None => self.zeros_like(v),
        }
    }

    /// Visits `ops`, which are in this order in one block, last to first.
    pub fn walk(&mut self, ops: &[OpId]) -> Result<(), GradError> {
        for &id in ops.iter().rev() {
            let op = self.module().op(id).clone();
            let cts: Vec<_> = op.results().iter().map(|r| self.cts.remove(r)).collect();
            let Some(ct) = cts.iter().flatten().next().copied() else { continue };
            self.check_static(id, &op)?;
            self.set_loc(op.loc.clone());
            rules::apply(self, &Site { id, op, cts, ct })?;
        }
        Ok(())
    }

    fn check_static(&self, id: OpId, op: &Op) -> Result<(), GradError> {
        let is_dynamic = |v: &&ValueId| self.ty(**v).as_tensor().is_some_and(|t| !t.is_static());
        match op.operands().iter().chain(op.results()).find(is_dynamic) {
            Some(&v) => {
                let why = format!("the type {} has a dynamic shape", self.ty(v));
                Err(GradError::no_rule(self.module(), id, why))
            }
            None => Ok(()),
        }
    }

    /// Copies the operations of `block`, except its terminator, to the current block and returns the copies. `map` gives
    /// replacements for captured values; the copied values are added to it.
    pub fn copy_body(&mut self, block: BlockId, map: &mut ValueMap) -> Vec<OpId> {
        let (to, end) = (self.block, self.module().terminator(block));
        let module = self.builder.module_mut();
        let mut copies = vec![];
        for op in module.op_list(block).into_iter().filter(|&op| Some(op) != end) {
            let copy = module.clone_op(op, map);
            module.append(to, copy);
            copies.push(copy);
        }
        let reached: Vec<ValueId> = map.iter().filter(|(old, _)| self.wants(**old)).map(|(_, &new)| new).collect();
        self.activate(reached);
        copies
    }

    /// Ends a nested block.
    pub fn finish(mut self, values: impl IntoIterator<Item = ValueId>) {
        let loc = self.builder.loc().clone();
        let block = self.block;
        self.builder
            .module_mut()
            .push(block, OpSpec::new(OpKind::Control(ControlOp::HloReturn)).operands(values).loc(loc));
    }

    /// Extents of `v`.
    pub fn dims(&self, v: ValueId) -> Vec<i64> {
        self.ty(v).dims().to_vec()
    }

    /// Number of dimensions of `v`.
    pub fn rank(&self, v: ValueId) -> usize {
        self.ty(v).dims().len()
    }

    /// Element type of `v`, which is a tensor.
    pub fn elem(&self, v: ValueId) -> ElementType {
        self.ty(v).elem().unwrap_or(ElementType::F32)
    }

    /// Whether `v` has no elements.
    pub fn is_empty(&self, v: ValueId) -> bool {
        self.ty(v).dims().contains(&0)
    }

    /// A constant of the type of `v`.
    pub fn splat_like(&mut self, v: ValueId, value: f64) -> Result<ValueId, BuildError> {
        let (dims, elem) = (self.dims(v), self.elem(v));
        self.builder.splat(dims, elem, value)
    }

    /// Zeros of the type of `v`.
    pub fn zeros_like(&mut self, v: ValueId) -> Result<ValueId, BuildError> {
        self.splat_like(v, 0.0)
    }

    /// `x` times a number.
    pub fn scale(&mut self, x: ValueId, by: f64) -> Result<ValueId, BuildError> {
        let by = self.splat_like(x, by)?;
        self.builder.multiply(x, by)
    }

    /// The scalar zero of the element type of `v`.
    pub fn zero_of(&mut self, v: ValueId) -> Result<ValueId, BuildError> {
        let elem = self.elem(v);
        self.builder.scalar(elem, 0.0)
    }

    /// The sum of `x` over `dims`; `x` itself if `dims` is empty.
    pub fn sum(&mut self, x: ValueId, dims: &[i64]) -> Result<ValueId, BuildError> {
        if dims.is_empty() {
            return Ok(x);
        }
        let zero = self.zero_of(x)?;
        Ok(self.builder.reduce(&[x], &[zero], dims, |b, a| Ok([b.add(a[0], a[1])?]))?[0])
    }

    /// The sum of all elements of `x`.
    pub fn sum_all(&mut self, x: ValueId) -> Result<ValueId, BuildError> {
        let dims: Vec<i64> = (0..self.rank(x) as i64).collect();
        self.sum(x, &dims)
    }

    /// `x` converted to `elem`, unless it has that element type.
    pub fn cast(&mut self, x: ValueId, elem: ElementType) -> Result<ValueId, BuildError> {
        if self.elem(x) == elem { Ok(x) } else { self.builder.convert(x, elem) }
    }

    /// A scalar integer constant.
    pub fn index(&mut self, value: i64) -> Result<ValueId, BuildError> {
        self.builder.scalar(ElementType::I32, value as f64)
    }

    /// Copies attribute `name` of an operation to `spec`, if it has one.
    pub fn with_attr(spec: OpSpec, op: &Op, name: &'static str) -> OpSpec {
        match op.attr(name) {
            Some(attr) => spec.attr(name, attr.clone()),
            None => spec,
        }
    }

    /// The one number that all elements of the constant `v` equal.
    pub fn splat_value(&self, v: ValueId) -> Option<f64> {
        let op = self.module().op(self.module().def_op(v)?);
        let (OpKind::Source(SourceOp::Constant), Some(Attr::Dense(dense))) = (op.kind(), op.attr("value")) else {
            return None;
        };
        dense.splat_bytes()?;
        dense.to_literal()?.to_f64s().first().copied()
    }

    /// Types of `values`.
    pub fn types(&self, values: &[ValueId]) -> Vec<Type> {
        values.iter().map(|&v| self.ty(v).clone()).collect()
    }
}

impl<'m> Deref for Reverse<'m> {
    type Target = Builder<'m>;

    fn deref(&self) -> &Builder<'m> {
        &self.builder
    }
}

impl DerefMut for Reverse<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.builder
    }
}
