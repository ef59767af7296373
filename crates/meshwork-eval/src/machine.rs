//! One device running a program: its values, its place among the devices, and the blocks it executes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::dispatch;
use super::error::EvalError;
use super::fault::Fault;
use super::hub::Hub;
use super::stats::Stats;
use super::value::{Held, Meter, Val, check_size};
use meshwork_ir::{BlockId, DeviceGrid, Literal, Module, OpId, Scalar, Type, ValueId, Walk};

/// The deepest nesting of blocks and calls; programs of real producers stay far below.
pub(crate) const MAX_DEPTH: usize = 200;

/// Stack of an evaluating thread: enough for [`MAX_DEPTH`] nested blocks.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// What started the devices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedBy {
    /// The run of a program.
    Run,
    /// A manual computation in a program that runs on one device; the devices are those of its mesh.
    ManualComputation,
}

/// Which device this is, and how it reaches the others.
#[derive(Clone, Copy)]
pub(crate) struct Site<'m> {
    /// Number in the grid: `replica * partitions + partition`.
    pub device: usize,
    pub grid: DeviceGrid,
    /// The other devices; `None` when there is one device only.
    pub hub: Option<&'m Hub>,
    pub started: StartedBy,
}

/// What a run produces besides its results.
#[derive(Default)]
pub(crate) struct Effects {
    /// Tensors recorded by `interpreter.probe`, by id.
    pub probes: HashMap<String, Vec<Literal>>,
    /// What `interpreter.print` printed.
    pub printed: Vec<String>,
    /// What `infeed` has left, one entry per op executed.
    pub infeed: VecDeque<Vec<Val>>,
    pub stats: Stats,
}

/// One device.
pub(crate) struct Machine<'m> {
    pub module: &'m Module,
    pub site: Site<'m>,
    pub meter: Arc<Meter>,
    pub effects: Effects,
    values: Vec<Option<Val>>,
    steps: HashMap<BlockId, Arc<[Step]>>,
    active: Vec<OpId>,
    depth: usize,
}

impl<'m> Machine<'m> {
    pub(crate) fn new(module: &'m Module, site: Site<'m>) -> Machine<'m> {
        Machine {
            module,
            site,
            meter: Arc::default(),
            effects: Effects::default(),
            values: vec![None; module.value_slots()],
            steps: HashMap::new(),
            active: vec![],
            depth: 0,
        }
    }

    /// A tensor of this device.
    pub(crate) fn hold(&self, literal: Literal) -> Val {
        Val::Tensor(Arc::new(Held::new(literal, &self.meter)))
    }

    /// The same value, counted as this device's.
    pub(crate) fn adopt(&self, value: Val) -> Result<Val, Fault> {
        Ok(match value {
            Val::Token => Val::Token,
            Val::Tuple(parts) => Val::Tuple(parts.into_iter().map(|v| self.adopt(v)).collect::<Result<_, _>>()?),
            tensor => self.hold(tensor.tensor()?.clone()),
        })
    }

    /// Calls the function `func`; `caller` is the operation that errors name.
    pub(crate) fn call(&mut self, func: OpId, args: Vec<Val>, caller: OpId) -> Result<Vec<Val>, EvalError> {
        let module = self.module;
        let name = || module.symbol_name(func).unwrap_or("?").to_string();
        if self.active.contains(&func) {
            return Err(EvalError::unsupported(module, caller, format!("recursion: @{} calls itself", name())));
        }
        let Some(body) = module.body_of(func, 0) else {
            return Err(EvalError::unsupported(module, caller, format!("@{} is declared but has no body", name())));
        };
        self.active.push(func);
        let results = self.run_block(body, args, caller);
        self.active.pop();
        results
    }

    /// Runs `block` on `args` and returns what its terminator returns; `owner` is the operation that errors name.
    pub(crate) fn run_block(&mut self, block: BlockId, args: Vec<Val>, owner: OpId) -> Result<Vec<Val>, EvalError> {
        let module = self.module;
        let params = module.block(block).args();
        if params.len() != args.len() {
            let message = format!("its body takes {} values, {} given", params.len(), args.len());
            return Err(EvalError::invalid(module, owner, message));
        }
        if self.depth >= MAX_DEPTH {
            let what = format!("calls and bodies nested more than {MAX_DEPTH} deep");
            return Err(EvalError::unsupported(module, owner, what));
        }
        for (&param, arg) in params.iter().zip(args) {
            self.values[param.index()] = Some(arg);
        }
        let steps = self.steps.entry(block).or_insert_with(|| steps(module, block)).clone();
        self.depth += 1;
        for (id, last) in steps.iter() {
            let op = module.op(*id);
            let value = |v: &ValueId| self.values[v.index()].clone();
            let operands: Option<Vec<Val>> = op.operands().iter().map(value).collect();
            let operands = operands.ok_or_else(|| EvalError::invalid(module, *id, "an operand has no value yet"))?;
            if op.kind().is_terminator() {
                self.forget(last);
                self.depth -= 1;
                return Ok(operands);
            }
            self.check_sizes(*id)?;
            let results = dispatch::execute(self, *id, operands).map_err(|fault| fault.at(module, *id))?;
            self.check_types(*id, &results)?;
            for (&value, result) in op.results().iter().zip(results) {
                self.values[value.index()] = Some(result);
            }
            self.forget(last);
        }
        Err(EvalError::invalid(module, owner, "its body has no terminator"))
    }

    fn forget(&mut self, values: &[ValueId]) {
        for value in values {
            self.values[value.index()] = None;
        }
    }

    /// Fails if the results of `op` would not fit in memory.
    fn check_sizes(&self, op: OpId) -> Result<(), EvalError> {
        for &value in self.module.op(op).results() {
            if let Type::Tensor(ty) = self.module.ty(value)
                && ty.is_static()
            {
                check_size(ty).map_err(|fault| fault.at(self.module, op))?;
            }
        }
        Ok(())
    }

    /// Fails if the results are not of the declared types; dynamic extents are not compared.
    fn check_types(&self, op: OpId, results: &[Val]) -> Result<(), EvalError> {
        let declared = self.module.op(op).results();
        if declared.len() != results.len() {
            let message = format!("{} results declared, {} computed", declared.len(), results.len());
            return Err(EvalError::invalid(self.module, op, message));
        }
        for (&value, result) in declared.iter().zip(results) {
            let (Val::Tensor(got), Type::Tensor(ty)) = (result, self.module.ty(value)) else { continue };
            if ty.elem != got.elem() || (ty.is_static() && ty.dims.as_slice() != got.dims()) {
                let message = format!("the result is declared {ty} but is {}", got.ty());
                return Err(EvalError::invalid(self.module, op, message));
            }
        }
        Ok(())
    }

    /// The element of `value`, if it is a scalar that has been computed.
    pub(crate) fn scalar(&self, value: ValueId) -> Option<Scalar> {
        match self.values[value.index()].as_ref()? {
            Val::Tensor(t) if t.dims().is_empty() => Some(t.get(0)),
            _ => None,
        }
    }
}

/// An operation of a block, and the values of the block that nothing uses after it.
type Step = (OpId, Vec<ValueId>);

fn steps(module: &Module, block: BlockId) -> Arc<[Step]> {
    let ops: Vec<OpId> = module.ops_in(block).collect();
    let results = ops.iter().flat_map(|&op| module.op(op).results());
    let mut alive: HashSet<ValueId> = module.block(block).args().iter().chain(results).copied().collect();
    let mut steps: Vec<Step> = vec![];
    for &op in ops.iter().rev() {
        let inner = module.ops_below(op, Walk::PreOrder);
        let operands = inner.iter().flat_map(|&op| module.op(op).operands());
        let last = operands.chain(module.op(op).results()).copied().filter(|v| alive.remove(v)).collect();
        steps.push((op, last));
    }
    // Arguments that nothing uses.
    if let Some((_, last)) = steps.last_mut() {
        last.extend(alive);
    }
    steps.into_iter().rev().collect()
}
