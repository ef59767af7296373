//! The program as the model sees it: instances of operations, arguments and carried values, the values that go between them, and
//! the times during which their results are alive.

use std::collections::HashMap;
use std::ops::Range;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{BlockId, Module, OpId, OpKind, ValueId};
use meshwork_partition::plan::op_flops;
use meshwork_propagate::rules::{NoRule, RuleResult, splitting_rule};

/// What is decided about once.
pub(super) struct Instance {
    pub(super) kind: Kind,
    /// How often it is computed.
    pub(super) runs: f64,
    /// What it reads.
    pub(super) operands: Vec<ValueId>,
    pub(super) results: Vec<ValueId>,
    /// For each result the times at which it is alive.
    pub(super) alive: Vec<Range<usize>>,
}

/// What an instance is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// An argument of the program.
    Argument(usize),
    Operation(OpId),
    /// A value carried by a loop, or a result of branches: all that flows into it is placed like it.
    Joined,
}

/// A value on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) value: ValueId,
    /// The instance that makes it, and which of its results it is.
    pub(super) from: (usize, usize),
    /// The instance that reads it, and which of its operands it is.
    pub(super) to: (usize, usize),
    pub(super) runs: f64,
}

/// A program as instances and flows.
pub(super) struct Graph {
    pub(super) instances: Vec<Instance>,
    pub(super) flows: Vec<Flow>,
    pub(super) arguments: usize,
}

struct Builder<'m> {
    module: &'m Module,
    graph: Graph,
    made: HashMap<ValueId, (usize, usize)>,
    now: usize,
}

/// The graph of a program's entry function. `taken` has for each argument the result that takes its place: it is placed alike.
pub(super) fn graph(module: &Module, taken: &[Option<usize>]) -> Graph {
    let graph = Graph { instances: vec![], flows: vec![], arguments: 0 };
    let mut builder = Builder { module, graph, made: HashMap::new(), now: 0 };
    if let Some(body) = module.entry().and_then(|func| module.body_of(func, 0)) {
        builder.function(body, taken);
    }
    builder.graph
}

impl Builder<'_> {
    fn function(&mut self, body: BlockId, taken: &[Option<usize>]) {
        let module = self.module;
        for (i, &arg) in module.block(body).args().iter().enumerate() {
            self.add(Kind::Argument(i), 1.0, vec![], vec![arg]);
            self.graph.arguments += 1;
        }
        self.block(body, 1.0);
        let returned = module.returned(body).to_vec();
        self.now += 1;
        for &value in &returned {
            self.touch(value, self.now);
        }
        for argument in 0..self.graph.arguments {
            self.graph.instances[argument].alive[0].end = self.now + 1;
            if let Some(&value) = taken.get(argument).copied().flatten().and_then(|r| returned.get(r)) {
                self.flow(value, (argument, 0), 1.0);
            }
        }
    }

    fn block(&mut self, block: BlockId, runs: f64) {
        for op in self.module.ops_in(block).collect::<Vec<_>>() {
            self.now += 1;
            self.operation(op, runs);
        }
    }

    fn operation(&mut self, op: OpId, runs: f64) {
        let module = self.module;
        let data = module.op(op);
        match data.kind() {
            OpKind::Control(ControlOp::FuncReturn | ControlOp::HloReturn) | OpKind::Sdy(SdyOp::Return) => {
                data.operands().iter().for_each(|&v| self.touch(v, self.now));
            }
            OpKind::Control(ControlOp::OptimizationBarrier) => {
                for (&operand, &result) in data.operands().iter().zip(data.results()) {
                    if let Some(&made) = self.made.get(&operand) {
                        self.made.insert(result, made);
                    }
                    self.touch(operand, self.now);
                }
            }
            OpKind::Control(ControlOp::While) => self.repeat(op, runs),
            OpKind::Control(ControlOp::Case | ControlOp::If) => self.branch(op, runs),
            _ => {
                let constant = matches!(splitting_rule(module, op), RuleResult::None(NoRule::NoOperandDims));
                // What has no operands is made wherever it is wanted.
                if !constant {
                    self.add(Kind::Operation(op), runs, data.operands().to_vec(), data.results().to_vec());
                }
            }
        }
    }

    /// A loop: its carried values are instances that the initial ones and those of each turn flow into.
    fn repeat(&mut self, op: OpId, runs: f64) {
        let module = self.module;
        let data = module.op(op);
        let bodies: Vec<BlockId> = (0..data.regions().len()).filter_map(|r| module.body_of(op, r)).collect();
        let inner: f64 = bodies.iter().flat_map(|&b| module.ops_in(b)).map(|o| op_flops(module, o)).sum();
        let turns = if inner > 0.0 { (op_flops(module, op) / inner).max(1.0) } else { 1.0 };
        let first = self.graph.instances.len();
        for (i, &result) in data.results().iter().enumerate() {
            let carried = self.add(Kind::Joined, runs, vec![data.operands()[i]], vec![result]);
            for &body in &bodies {
                if let Some(&arg) = module.block(body).args().get(i) {
                    self.made.insert(arg, (carried, 0));
                }
            }
        }
        let flows = self.graph.flows.len();
        for &body in &bodies {
            self.block(body, runs * turns);
            let returned = module.returned(body).to_vec();
            // The condition returns one predicate, which is not carried.
            if returned.len() == data.results().len() {
                for (i, &value) in returned.iter().enumerate() {
                    self.flow(value, (first + i, 0), runs * turns);
                }
            }
        }
        // What a turn reads from outside is alive until the last turn ends, as are the carried values.
        self.now += 1;
        let outside: Vec<(usize, usize)> = self.graph.flows[flows..].iter().map(|flow| flow.from).collect();
        let carried = (first..first + data.results().len()).map(|i| (i, 0));
        for (instance, result) in outside.into_iter().filter(|(i, _)| *i < first).chain(carried) {
            let alive = &mut self.graph.instances[instance].alive[result];
            alive.end = alive.end.max(self.now + 1);
        }
    }

    /// Branches: each result is an instance that the branches' values flow into.
    fn branch(&mut self, op: OpId, runs: f64) {
        let module = self.module;
        let data = module.op(op);
        let bodies: Vec<BlockId> = (0..data.regions().len()).filter_map(|r| module.body_of(op, r)).collect();
        bodies.iter().for_each(|&body| self.block(body, runs));
        self.now += 1;
        for (i, &result) in data.results().iter().enumerate() {
            let joined = self.add(Kind::Joined, runs, vec![], vec![result]);
            for &body in &bodies {
                if let Some(&value) = module.returned(body).get(i) {
                    self.flow(value, (joined, 0), runs);
                }
            }
        }
    }

    fn add(&mut self, kind: Kind, runs: f64, operands: Vec<ValueId>, results: Vec<ValueId>) -> usize {
        let number = self.graph.instances.len();
        for (i, &operand) in operands.iter().enumerate() {
            self.flow(operand, (number, i), runs);
        }
        for (i, &result) in results.iter().enumerate() {
            self.made.insert(result, (number, i));
        }
        let alive = vec![self.now..self.now + 1; results.len()];
        self.graph.instances.push(Instance { kind, runs, operands, results, alive });
        number
    }

    fn flow(&mut self, value: ValueId, to: (usize, usize), runs: f64) {
        self.touch(value, self.now);
        if let Some(&from) = self.made.get(&value)
            && from.0 != to.0
            && self.module.ty(value).rank().unwrap_or(0) > 0
        {
            self.graph.flows.push(Flow { value, from, to, runs });
        }
    }

    /// A value is used at a time.
    fn touch(&mut self, value: ValueId, time: usize) {
        if let Some(&(instance, result)) = self.made.get(&value) {
            let alive = &mut self.graph.instances[instance].alive[result];
            alive.end = alive.end.max(time + 1);
        }
    }
}
