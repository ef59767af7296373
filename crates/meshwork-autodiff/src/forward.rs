//! Forward mode: computes the tangent of every value, operation by operation, in program order.
//!
//! Loops, branches and computations carry tangents along with values, so nothing is stored and no trip count is needed.
//! The tangent of any other operation comes from its reverse rule: the product with a cotangent is linear in the
//! cotangent, and the derivative of that product by the cotangent is the product with a tangent. So the operation
//! becomes a function of its own, and its [`vjp`](crate::vjp) is differentiated once more.

use std::collections::HashMap;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, BlockId, FuncSig, FunctionType, Module, Op, OpId, OpKind, OpSpec, Type, ValueId, ValueMap};

use crate::activity::{Active, captures};
use crate::transform::{GradOptions, jvp_by_transposing};
use crate::{GradError, activity, custom};

/// Writes values and tangents at the end of a block.
pub(crate) struct Forward<'m> {
    pub module: &'m mut Module,
    pub block: BlockId,
    /// Values of the old function that have tangents.
    pub active: &'m Active,
    /// The replacement of a value of the old function.
    pub map: &'m mut ValueMap,
    /// Tangents of values of the old function; an active value without an entry has the tangent zero.
    pub tangents: &'m mut HashMap<ValueId, ValueId>,
}

impl Forward<'_> {
    fn nested(&mut self, block: BlockId) -> Forward<'_> {
        Forward { module: self.module, block, active: self.active, map: self.map, tangents: self.tangents }
    }

    fn now(&self, old: ValueId) -> ValueId {
        *self.map.get(&old).unwrap_or(&old)
    }

    /// The tangent of `old`, written out.
    pub fn tangent_or_zeros(&mut self, old: ValueId) -> Result<ValueId, GradError> {
        if let Some(&tangent) = self.tangents.get(&old) {
            return Ok(tangent);
        }
        let ty = self.module.ty(old).clone();
        let elem = ty.elem().unwrap_or(meshwork_ir::ElementType::F32);
        let mut b = meshwork_ir::build::Builder::at_end(self.module, self.block);
        Ok(b.splat(ty.dims().iter().copied(), elem, 0.0)?)
    }

    /// Visits `ops`, which are in this order in one block, up to its terminator.
    pub fn run(&mut self, ops: &[OpId]) -> Result<(), GradError> {
        for &id in ops {
            let op = self.module.op(id).clone();
            if op.kind().is_terminator() {
                continue;
            }
            let moves = |v: &ValueId| self.tangents.contains_key(v);
            let moving = op.operands().iter().any(moves) || captures(self.module, id).iter().any(moves);
            if !moving || !op.results().iter().any(|r| self.active.contains(r)) {
                let copy = self.module.clone_op(id, self.map);
                self.module.append(self.block, copy);
                continue;
            }
            match op.kind() {
                OpKind::Control(ControlOp::While) => self.while_loop(id, &op)?,
                OpKind::Control(ControlOp::Case | ControlOp::If) => self.branches(id, &op)?,
                OpKind::Sdy(SdyOp::NamedComputation) if custom::is_custom(&op) => self.custom(id, &op)?,
                OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => self.computation(id, &op)?,
                _ => self.operation(id, &op)?,
            }
        }
        Ok(())
    }

    fn types(&self, values: &[ValueId]) -> Vec<Type> {
        values.iter().map(|&v| self.module.ty(v).clone()).collect()
    }

    /// Positions of the values that have tangents.
    fn moving(&self, values: &[ValueId]) -> Vec<usize> {
        (0..values.len()).filter(|&i| self.active.contains(&values[i])).collect()
    }

    /// Replaces the arguments of block `old` by those of `new`; the arguments after them are the tangents of `moving`.
    fn bind(&mut self, old: &[ValueId], new: BlockId, moving: &[usize]) {
        let news = self.module.block(new).args().to_vec();
        let (values, tangents) = news.split_at(old.len());
        self.map.extend(old.iter().copied().zip(values.iter().copied()));
        for (&i, &tangent) in moving.iter().zip(tangents) {
            self.tangents.insert(old[i], tangent);
        }
    }

    /// Copies a block and the tangents of its values; ends it with its values and the tangents of `moving`.
    fn body(&mut self, from: BlockId, moving: Option<&[usize]>, end: OpKind) -> Result<(), GradError> {
        let ops = self.module.op_list(from);
        self.run(&ops)?;
        let returned = self.module.returned(from).to_vec();
        let mut values: Vec<ValueId> = returned.iter().map(|&v| self.now(v)).collect();
        for &i in moving.unwrap_or(&[]) {
            values.push(self.tangent_or_zeros(returned[i])?);
        }
        self.module.push(self.block, OpSpec::new(end).operands(values));
        Ok(())
    }

    /// Replaces the results of the old operation by those of the new one; the results after them are the tangents of
    /// `moving`.
    fn place(&mut self, old: &Op, new: OpId, moving: &[usize]) {
        self.module.append(self.block, new);
        let results = self.module.op(new).results().to_vec();
        let (values, tangents) = results.split_at(old.results().len());
        self.map.extend(old.results().iter().copied().zip(values.iter().copied()));
        for (&i, &tangent) in moving.iter().zip(tangents) {
            self.tangents.insert(old.results()[i], tangent);
        }
    }

    fn while_loop(&mut self, id: OpId, op: &Op) -> Result<(), GradError> {
        let (Some(cond), Some(body)) = (self.module.body_of(id, 0), self.module.body_of(id, 1)) else { return Ok(()) };
        let args = self.module.block(body).args().to_vec();
        let moving = self.moving(&args);
        let mut inits: Vec<ValueId> = op.operands().iter().map(|&v| self.now(v)).collect();
        for &i in &moving {
            inits.push(self.tangent_or_zeros(op.operands()[i])?);
        }
        let types = self.types(&inits);
        let mut spec =
            OpSpec::new(OpKind::Control(ControlOp::While)).operands(inits).results(types.clone()).loc(op.loc.clone());
        spec.attrs = op.attrs.clone();
        spec.attrs.remove("sdy.sharding");
        let new = self.module.create(spec);
        let cond_args = self.module.block(cond).args().to_vec();
        let block = self.module.add_body(new, types.clone());
        self.bind(&cond_args, block, &[]);
        for op in self.module.op_list(cond) {
            let copy = self.module.clone_op(op, self.map);
            self.module.append(block, copy);
        }
        let block = self.module.add_body(new, types);
        self.bind(&args, block, &moving);
        self.nested(block).body(body, Some(&moving), OpKind::Control(ControlOp::HloReturn))?;
        self.place(op, new, &moving);
        Ok(())
    }

    fn branches(&mut self, id: OpId, op: &Op) -> Result<(), GradError> {
        let moving = self.moving(op.results());
        let results = self.types(op.results());
        let types: Vec<Type> = results.iter().cloned().chain(moving.iter().map(|&i| results[i].clone())).collect();
        let choice = self.now(op.operands()[0]);
        let new = self.module.create(OpSpec::new(op.kind()).operands([choice]).results(types).loc(op.loc.clone()));
        for index in 0..op.regions().len() {
            let Some(branch) = self.module.body_of(id, index) else { continue };
            let block = self.module.add_body(new, []);
            self.nested(block).body(branch, Some(&moving), OpKind::Control(ControlOp::HloReturn))?;
        }
        self.place(op, new, &moving);
        Ok(())
    }

    /// A computation with a derivative of its own.
    fn custom(&mut self, id: OpId, op: &Op) -> Result<(), GradError> {
        let copy = self.module.clone_op(id, self.map);
        self.module.append(self.block, copy);
        let mut tangents = vec![];
        for &x in op.operands() {
            if activity::has_tangent(self.module.ty(x)) {
                tangents.push(self.tangent_or_zeros(x)?);
            }
        }
        let values: Vec<ValueId> = op.operands().iter().chain(op.results()).map(|&v| self.now(v)).collect();
        let rates = custom::forward(self.module, copy, self.block, &values, &tangents)?;
        let floats = op.results().iter().filter(|&&r| activity::has_tangent(self.module.ty(r)));
        self.tangents.extend(floats.copied().zip(rates));
        Ok(())
    }

    fn computation(&mut self, id: OpId, op: &Op) -> Result<(), GradError> {
        let Some(body) = self.module.body_of(id, 0) else { return Ok(()) };
        let args = self.module.block(body).args().to_vec();
        let moving_in: Vec<usize> = self.moving(&args);
        let moving = self.moving(op.results());
        let mut operands: Vec<ValueId> = op.operands().iter().map(|&v| self.now(v)).collect();
        for &i in &moving_in {
            operands.push(self.tangent_or_zeros(op.operands()[i])?);
        }
        let results = self.types(op.results());
        let types: Vec<Type> = results.iter().cloned().chain(moving.iter().map(|&i| results[i].clone())).collect();
        let mut spec = OpSpec::new(op.kind()).operands(operands).results(types).loc(op.loc.clone());
        spec.attrs = op.attrs.clone();
        for (name, also) in [("in_shardings", &moving_in), ("out_shardings", &moving)] {
            if let Some(Attr::ShardingPerValue(list)) = op.attr(name) {
                let all = list.iter().cloned().chain(also.iter().map(|&i| list[i].clone()));
                spec.attrs.set(name, Attr::ShardingPerValue(all.collect()));
            }
        }
        let new = self.module.create(spec);
        let inner = self.types(&args);
        let inner: Vec<Type> = inner.iter().cloned().chain(moving_in.iter().map(|&i| inner[i].clone())).collect();
        let block = self.module.add_body(new, inner);
        self.bind(&args, block, &moving_in);
        self.nested(block).body(body, Some(&moving), OpKind::Sdy(SdyOp::Return))?;
        self.place(op, new, &moving);
        Ok(())
    }

    /// The values and tangents of a single operation, by transposing its transpose.
    fn operation(&mut self, id: OpId, op: &Op) -> Result<(), GradError> {
        let mut inputs: Vec<ValueId> = vec![];
        for &v in op.operands().iter().chain(&captures(self.module, id)) {
            if !inputs.contains(&v) {
                inputs.push(v);
            }
        }
        let wrt: Vec<usize> = (0..inputs.len()).filter(|&i| self.tangents.contains_key(&inputs[i])).collect();
        let mut alone = Module::new();
        let ty = FunctionType { inputs: self.types(&inputs), results: self.types(op.results()) };
        let func = alone.add_func(FuncSig { name: "main".into(), ty, visibility: None });
        // `add_func` gives every function a block.
        let block = alone.region(alone.op(func).regions()[0]).blocks()[0];
        let mut map: ValueMap = inputs.iter().copied().zip(alone.block(block).args().to_vec()).collect();
        let outside = |why| GradError::no_rule(self.module, id, why);
        alone.import_op(self.module, id, block, &mut map).map_err(outside)?;
        let returned: Vec<ValueId> = op.results().iter().map(|v| map[v]).collect();
        alone.push(block, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(returned));
        let pushed = jvp_by_transposing(&alone, "main", &GradOptions { wrt: wrt.clone(), keep_value: true })?;

        let Some(body) = pushed.func("main").and_then(|f| pushed.body_of(f, 0)) else { return Ok(()) };
        let given = inputs.iter().map(|&v| self.now(v)).chain(wrt.iter().map(|&i| self.tangents[&inputs[i]]));
        let mut map: ValueMap = pushed.block(body).args().iter().copied().zip(given).collect();
        for inner in pushed.op_list(body) {
            if !pushed.op(inner).kind().is_terminator() {
                let copied = self.module.import_op(&pushed, inner, self.block, &mut map);
                copied.map_err(|why| GradError::no_rule(self.module, id, why))?;
            }
        }
        let out: Vec<ValueId> = pushed.returned(body).iter().map(|v| map[v]).collect();
        let (values, tangents) = out.split_at(op.results().len());
        self.map.extend(op.results().iter().copied().zip(values.iter().copied()));
        let floats = op.results().iter().filter(|&&r| activity::has_tangent(self.module.ty(r)));
        for (&old, &tangent) in floats.zip(tangents) {
            self.tangents.insert(old, tangent);
        }
        Ok(())
    }
}
