//! One operation on its own: what engines call for operations they have no kernel for.

use std::collections::HashSet;

use super::error::EvalError;
use super::machine::{Machine, STACK_BYTES, Site, StartedBy};
use super::value::Val;
use super::{PANICKED, flatten};
use meshwork_ir::DeviceGrid;
use meshwork_ir::op::{CheckOp, ControlOp, SdyOp, TokenOp};
use meshwork_ir::{
    Attr, BlockId, FuncSig, FunctionType, Literal, Module, OpId, OpKind, OpSpec, Type, ValueId, ValueMap, Walk,
};

/// An operation with its regions, taken out of its module once and run any number of times.
#[derive(Debug)]
pub struct SingleOp {
    module: Module,
    func: OpId,
    block: BlockId,
    inputs: Vec<ValueId>,
    /// Whether it may need a deep stack.
    deep: bool,
}

/// The values that operations in the regions of `op` use and that are defined outside it, each once, in the order
/// of their first use.
pub fn captures(module: &Module, op: OpId) -> Vec<ValueId> {
    let below = module.ops_below(op, Walk::PreOrder);
    let mut inside: HashSet<ValueId> = HashSet::new();
    for &inner in &below {
        let data = module.op(inner);
        inside.extend(data.results());
        for &region in data.regions() {
            for &block in module.region(region).blocks() {
                inside.extend(module.block(block).args());
            }
        }
    }
    let mut found = vec![];
    for &inner in below.iter().filter(|&&inner| inner != op) {
        for &value in module.op(inner).operands() {
            if inside.insert(value) {
                found.push(value);
            }
        }
    }
    found
}

/// Runs `op` on one device. `args` are the values of its operands, then those of its [`captures`]; tokens are left
/// out among them and among the results.
pub fn run_op(module: &Module, op: OpId, args: Vec<Literal>) -> Result<Vec<Literal>, EvalError> {
    SingleOp::new(module, op)?.run(args, 0, 0)
}

impl SingleOp {
    /// Takes `op` out of `module`, with the functions it refers to. Operations that communicate with other devices or
    /// with the host cannot stand alone.
    pub fn new(module: &Module, op: OpId) -> Result<SingleOp, EvalError> {
        let below = module.ops_below(op, Walk::PreOrder);
        let mut needed: Vec<OpId> = vec![];
        let mut todo = below.clone();
        while let Some(inner) = todo.pop() {
            if !stands_alone(module.op(inner).kind()) {
                let what = "it communicates with other devices or with the host and cannot run by itself";
                return Err(EvalError::unsupported(module, inner, what));
            }
            for name in symbols(module, inner) {
                let Some(func) = module.func(&name).filter(|f| !needed.contains(f)) else { continue };
                needed.push(func);
                todo.extend(module.ops_below(func, Walk::PreOrder).into_iter().filter(|&o| o != func));
            }
        }
        let captured = captures(module, op);
        let operands = module.op(op).operands();
        let inputs: Vec<ValueId> = operands.iter().chain(&captured).copied().collect();
        let types = |values: &[ValueId]| values.iter().map(|&v| module.ty(v).clone()).collect::<Vec<Type>>();
        let ty = FunctionType { inputs: types(&inputs), results: types(module.op(op).results()) };

        let mut own = Module::new();
        let wrong = |message: String| EvalError::invalid(module, op, message);
        let func = own.add_func(FuncSig { name: "the operation".into(), ty, visibility: None });
        let block = own.body_of(func, 0).ok_or_else(|| wrong("a function without a body".into()))?;
        let mut map: ValueMap = inputs.iter().copied().zip(own.block(block).args().iter().copied()).collect();
        // An operand that is also an earlier one maps to the last argument of that name: all of them hold one value.
        let copy = own.import_op(module, op, block, &mut map).map_err(wrong)?;
        let results = own.op(copy).results().to_vec();
        own.push(block, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(results));
        let body = own.body();
        for func in needed {
            own.import_op(module, func, body, &mut ValueMap::default()).map_err(wrong)?;
        }
        let deep = below.iter().any(|&inner| inner != op && nests(module, inner));
        Ok(SingleOp { module: own, func, block, inputs, deep })
    }

    /// Region `region` of `op` as an operation of its own, on values of the types of its arguments. It must not use
    /// values from outside.
    pub fn body(module: &Module, op: OpId, region: usize) -> Result<SingleOp, EvalError> {
        let wrong = |message: String| EvalError::invalid(module, op, message);
        let from = module.body_of(op, region).ok_or_else(|| wrong(format!("region {region} is missing or empty")))?;
        let types = |values: &[ValueId]| values.iter().map(|&v| module.ty(v).clone()).collect::<Vec<Type>>();
        let params = module.block(from).args().to_vec();
        let ty = FunctionType { inputs: types(&params), results: types(module.returned(from)) };
        let mut own = Module::new();
        let func = own.add_func(FuncSig { name: "the body".into(), ty, visibility: None });
        let block = own.body_of(func, 0).ok_or_else(|| wrong("a function without a body".into()))?;
        let mut map: ValueMap = params.iter().copied().zip(own.block(block).args().iter().copied()).collect();
        for inner in module.ops_in(from) {
            if !stands_alone(module.op(inner).kind()) {
                return Err(EvalError::unsupported(module, inner, "it cannot run by itself"));
            }
            own.import_op(module, inner, block, &mut map).map_err(wrong)?;
        }
        Ok(SingleOp { module: own, func, block, inputs: params, deep: false })
    }

    /// The operands of the operation, then its [`captures`]: the values that [`run`](SingleOp::run) takes.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Runs it on the device that is `partition` of `replica`.
    pub fn run(&self, args: Vec<Literal>, replica: u32, partition: u32) -> Result<Vec<Literal>, EvalError> {
        if !self.deep {
            return self.run_here(args, replica, partition);
        }
        std::thread::scope(|scope| {
            let work = || self.run_here(args, replica, partition);
            match std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work).map(|t| t.join()) {
                Ok(Ok(results)) => results,
                Ok(Err(_)) => Err(EvalError::invalid(&self.module, self.func, PANICKED)),
                Err(e) => Err(EvalError::unsupported(&self.module, self.func, format!("no thread to run on: {e}"))),
            }
        })
    }

    fn run_here(&self, args: Vec<Literal>, replica: u32, partition: u32) -> Result<Vec<Literal>, EvalError> {
        let grid = DeviceGrid { replicas: replica as usize + 1, partitions: partition as usize + 1 };
        let device = replica as usize * grid.partitions + partition as usize;
        let mut machine = Machine::new(&self.module, Site { device, grid, hub: None, started: StartedBy::Run });
        let mut args = args.into_iter();
        let mut values = vec![];
        for &param in self.module.block(self.block).args() {
            values.push(match self.module.ty(param) {
                Type::Token => Val::Token,
                ty => match args.next() {
                    Some(arg) if arg.ty() == *ty => machine.hold(arg),
                    given => {
                        let given = given.map_or("nothing".to_string(), |x| x.ty().to_string());
                        let message = format!("a value declared {ty} is given as {given}");
                        return Err(EvalError::invalid(&self.module, self.func, message));
                    }
                },
            });
        }
        let results = machine.call(self.func, values, self.func)?;
        Ok(flatten(&results))
    }
}

/// Whether running `op` runs other operations.
fn nests(module: &Module, op: OpId) -> bool {
    !module.op(op).regions().is_empty() || !symbols(module, op).is_empty()
}

/// Names of functions that the attributes of `op` refer to.
fn symbols(module: &Module, op: OpId) -> Vec<String> {
    let mut found = vec![];
    let mut todo: Vec<&Attr> = module.op(op).attrs.iter().map(|(_, a)| a).collect();
    while let Some(attr) = todo.pop() {
        match attr {
            Attr::Array(items) => todo.extend(items.iter()),
            other => found.extend(other.as_symbol().map(str::to_string)),
        }
    }
    found
}

fn stands_alone(kind: OpKind) -> bool {
    !matches!(
        kind,
        OpKind::Collective(_)
            | OpKind::Token(TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send)
            | OpKind::Check(CheckOp::RunParallel | CheckOp::Print | CheckOp::Probe | CheckOp::ExpectSerializedEq)
            | OpKind::Sdy(SdyOp::ManualComputation)
    )
}
