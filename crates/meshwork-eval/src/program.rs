//! Bodies of reductions, sorts, scatters and maps, compiled once into straight lines of scalar operations.
//!
//! A body that does more than that (a loop, a tensor of rank above zero) is run as a block, one call per element.

use std::collections::HashMap;

use super::fault::Fault;
use super::scalar::{ScalarOp, apply};
use meshwork_ir::Scalar;
use meshwork_ir::op::{BinaryOp, ControlOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, BlockId, ElementType, Literal, Module, OpId, OpKind, ValueId};

/// A body as scalar operations over numbered slots.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    steps: Vec<Step>,
    /// Initial slots: the arguments first (zero until called), constants where they belong.
    slots: Vec<Scalar>,
    outputs: Vec<usize>,
    args: usize,
    /// The only step's kind, if the body is one binary op on its two arguments in order.
    single: Option<(OpKind, ElementType)>,
}

#[derive(Clone, Debug)]
struct Step {
    op: ScalarOp,
    inputs: [usize; 3],
    arity: usize,
    output: usize,
}

/// Calls nested deeper than this are left to the block evaluator.
const CALL_DEPTH: usize = 8;

impl Program {
    /// The body as a program, if it consists of scalar operations. `captured` gives values from outside.
    pub(crate) fn compile(
        module: &Module,
        block: BlockId,
        captured: &dyn Fn(ValueId) -> Option<Scalar>,
    ) -> Option<Program> {
        let mut c = Compiler { module, captured, map: HashMap::new(), steps: vec![], slots: vec![] };
        let args = module.block(block).args();
        for &arg in args {
            is_scalar(module, arg)?;
            let slot = c.slot(Scalar::Bool(false));
            c.map.insert(arg, slot);
        }
        let outputs = c.block(block, 0)?;
        let single = match &c.steps[..] {
            [step] if args.len() == 2 && outputs == [step.output] && step.arity == 2 && step.inputs[..2] == [0, 1] => {
                let op = module.block(block).first()?;
                let op = module.op(op);
                (op.results().len() == 1 && op.operands() == args).then_some((op.kind(), step.op.result()))
            }
            _ => None,
        };
        Some(Program { steps: c.steps, slots: c.slots, outputs, args: args.len(), single })
    }

    /// Runs the program once; `slots` is scratch space from [`Program::scratch`].
    #[inline]
    pub(crate) fn run(&self, slots: &mut [Scalar], args: &[Scalar], out: &mut [Scalar]) {
        slots[..self.args].copy_from_slice(args);
        for step in &self.steps {
            let inputs = step.inputs.map(|i| slots[i]);
            slots[step.output] = apply(&step.op, &inputs[..step.arity]);
        }
        for (o, &slot) in out.iter_mut().zip(&self.outputs) {
            *o = slots[slot];
        }
    }

    fn scratch(&self) -> Vec<Scalar> {
        self.slots.clone()
    }
}

struct Compiler<'a> {
    module: &'a Module,
    captured: &'a dyn Fn(ValueId) -> Option<Scalar>,
    map: HashMap<ValueId, usize>,
    steps: Vec<Step>,
    slots: Vec<Scalar>,
}

fn is_scalar(module: &Module, value: ValueId) -> Option<()> {
    let ty = module.ty(value).as_tensor()?;
    (ty.rank() == 0).then_some(())
}

impl Compiler<'_> {
    fn slot(&mut self, value: Scalar) -> usize {
        self.slots.push(value);
        self.slots.len() - 1
    }

    fn lookup(&mut self, value: ValueId) -> Option<usize> {
        if let Some(&slot) = self.map.get(&value) {
            return Some(slot);
        }
        let outside = (self.captured)(value)?;
        let slot = self.slot(outside);
        self.map.insert(value, slot);
        Some(slot)
    }

    /// Compiles all ops of `block`; the slots of what it returns.
    fn block(&mut self, block: BlockId, depth: usize) -> Option<Vec<usize>> {
        for op in self.module.ops_in(block) {
            if self.module.op(op).kind().is_terminator() {
                break;
            }
            self.op(op, depth)?;
        }
        self.module.returned(block).iter().map(|&v| self.lookup(v)).collect()
    }

    fn op(&mut self, id: OpId, depth: usize) -> Option<()> {
        let op = self.module.op(id);
        for &v in op.operands().iter().chain(op.results()) {
            is_scalar(self.module, v)?;
        }
        let mut outputs = vec![];
        match op.kind() {
            OpKind::Source(SourceOp::Constant) => {
                let Attr::Dense(dense) = op.attr("value")? else { return None };
                let literal = dense.to_literal()?;
                outputs.push(self.slot(literal.get(0)));
            }
            // On scalars these change nothing.
            OpKind::Movement(MovementOp::Reshape | MovementOp::BroadcastInDim | MovementOp::Transpose)
            | OpKind::Control(ControlOp::OptimizationBarrier) => {
                for &v in op.operands() {
                    outputs.push(self.lookup(v)?);
                }
            }
            OpKind::Control(ControlOp::Call) => {
                if depth >= CALL_DEPTH {
                    return None;
                }
                let callee = self.module.func(op.attr("callee")?.as_symbol()?)?;
                let body = self.module.body_of(callee, 0)?;
                let args = self.module.block(body).args();
                for (&arg, &v) in args.iter().zip(op.operands()) {
                    let slot = self.lookup(v)?;
                    self.map.insert(arg, slot);
                }
                outputs = self.block(body, depth + 1)?;
            }
            kind if kind.is_elementwise() => {
                let scalar = ScalarOp::decode(self.module, id).ok()?;
                let mut inputs = [0; 3];
                for (slot, &v) in inputs.iter_mut().zip(op.operands()) {
                    *slot = self.lookup(v)?;
                }
                let output = self.slot(Scalar::Bool(false));
                self.steps.push(Step { op: scalar, inputs, arity: op.operands().len(), output });
                outputs.push(output);
            }
            _ => return None,
        }
        for (&result, slot) in op.results().iter().zip(outputs) {
            self.map.insert(result, slot);
        }
        Some(())
    }
}

/// Runs a body as a block: literals of rank 0 in and out.
pub(crate) type RunBlock<'a> = dyn FnMut(Vec<Literal>) -> Result<Vec<Literal>, Fault> + 'a;

/// A body ready to be called on scalars.
pub(crate) struct Body<'a> {
    program: Option<Program>,
    scratch: Vec<Scalar>,
    arg_types: Vec<ElementType>,
    run_block: Box<RunBlock<'a>>,
    staging: Vec<Scalar>,
}

impl<'a> Body<'a> {
    /// The body `block`; `run_block` is used if it does not compile.
    pub(crate) fn new(
        module: &Module,
        block: BlockId,
        captured: &dyn Fn(ValueId) -> Option<Scalar>,
        run_block: Box<RunBlock<'a>>,
    ) -> Result<Body<'a>, Fault> {
        let program = Program::compile(module, block, captured);
        let scratch = program.as_ref().map(Program::scratch).unwrap_or_default();
        let arg_types = module.block(block).args().iter().map(|&a| {
            let ty = module.ty(a);
            ty.elem().ok_or_else(|| Fault::invalid(format!("body argument of type {ty}")))
        });
        Ok(Body { program, scratch, arg_types: arg_types.collect::<Result<_, _>>()?, run_block, staging: vec![] })
    }

    /// Calls the body; `out` has one place per result.
    #[inline]
    pub(crate) fn call(&mut self, args: &[Scalar], out: &mut [Scalar]) -> Result<(), Fault> {
        if let Some(program) = &self.program {
            program.run(&mut self.scratch, args, out);
            return Ok(());
        }
        let literals = args.iter().zip(&self.arg_types).map(|(&v, &elem)| Literal::scalar(elem, v)).collect();
        let results = (self.run_block)(literals)?;
        for (o, r) in out.iter_mut().zip(&results) {
            *o = r.get(0);
        }
        Ok(())
    }

    /// `acc = body(acc, x)`, one value per operand.
    #[inline]
    pub(crate) fn fold(&mut self, acc: &mut [Scalar], x: &[Scalar]) -> Result<(), Fault> {
        let mut staging = std::mem::take(&mut self.staging);
        staging.clear();
        staging.extend_from_slice(acc);
        staging.extend_from_slice(x);
        let done = self.call(&staging, acc);
        self.staging = staging;
        done
    }

    /// The body's function on floats if it is just a sum or a product of `f32` or `f64` values, rounded as these are.
    pub(crate) fn float_fold(&self) -> Option<fn(f64, f64) -> f64> {
        match self.program.as_ref()?.single? {
            (OpKind::Binary(BinaryOp::Add), ElementType::F32) => Some(|a, b| f64::from((a + b) as f32)),
            (OpKind::Binary(BinaryOp::Add), ElementType::F64) => Some(|a, b| a + b),
            (OpKind::Binary(BinaryOp::Multiply), ElementType::F32) => Some(|a, b| f64::from((a * b) as f32)),
            (OpKind::Binary(BinaryOp::Multiply), ElementType::F64) => Some(|a, b| a * b),
            _ => None,
        }
    }

    /// Whether the body returns its second argument, as the body of an overwriting scatter does.
    pub(crate) fn is_second_argument(&self) -> bool {
        self.program.as_ref().is_some_and(|p| p.args == 2 && p.outputs == [1])
    }
}
