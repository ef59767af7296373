//! Bodies of any kind as code for a machine of scalars.
//!
//! A body takes and returns single elements, so all its values are few: each element of each is a register. Movement
//! of elements is a matter of names then, and costs nothing; what remains is arithmetic, branches and loops.

use std::collections::HashMap;

use meshwork_eval::scalar::{ScalarOp, apply};
use meshwork_ir::op::{BodyOp, ChloOp, ControlOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, ElementType, Literal, Module, OpId, OpKind, Scalar, ValueId};

use super::element::{load, of_bits, to_bits};
use crate::step::{Frame, View};

type Register = usize;

/// Where each index of a result comes from.
type Source<'a> = Box<dyn Fn(&[i64]) -> Vec<i64> + 'a>;

/// A body with as many registers is left alone.
const MOST_REGISTERS: usize = 1 << 14;

#[derive(Clone, Debug)]
enum Instruction {
    Apply {
        op: ScalarOp,
        from: [Register; 3],
        to: Register,
    },
    /// The bits of an element read as another type of the same width.
    Bits {
        from: (Register, ElementType),
        to: (Register, ElementType),
    },
    Move(Vec<(Register, Register)>),
    /// Runs the code at the place that the register says; the last one if there is none.
    Branch {
        index: Register,
        cases: Vec<Vec<Instruction>>,
    },
    /// Runs `body` for as long as `holds` is true after `condition`.
    While {
        condition: Vec<Instruction>,
        holds: Register,
        body: Vec<Instruction>,
    },
}

/// The code of a body.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// What registers hold at the start: constants, and zeros elsewhere. The first ones are the arguments.
    registers: Vec<Scalar>,
    code: Vec<Instruction>,
    results: Vec<Register>,
    /// Registers of elements that come from outside.
    outside: Vec<(Register, View)>,
}

impl Machine {
    /// The code of `block`, whose arguments are scalars; `None` if something in it is not for this machine. `view` says
    /// where values from outside are.
    pub(crate) fn new(module: &Module, block: BlockId, view: &dyn Fn(ValueId) -> Option<View>) -> Option<Machine> {
        let mut b = Builder { module, view, registers: vec![], outside: vec![], lanes: HashMap::new(), code: vec![] };
        for &arg in module.block(block).args() {
            let elem = module.ty(arg).elem().filter(|_| module.ty(arg).dims().is_empty())?;
            let register = b.register(Scalar::zero(elem))?;
            b.lanes.insert(arg, vec![register]);
        }
        let results = b.block(block)?.into_iter().map(|lanes| (lanes.len() == 1).then(|| lanes[0]));
        let results = results.collect::<Option<Vec<_>>>()?;
        Some(Machine { registers: b.registers, code: b.code, results, outside: b.outside })
    }

    /// Whether it reads nothing but its arguments.
    pub(crate) fn is_closed(&self) -> bool {
        self.outside.is_empty()
    }

    /// The buffers of values from outside.
    pub(crate) fn reads(&self) -> impl Iterator<Item = crate::step::Buf> + '_ {
        self.outside.iter().map(|(_, view)| view.buf)
    }

    /// Registers to [`call`](Machine::call) it with.
    ///
    /// # Safety
    /// The buffers that it [`reads`](Machine::reads) are valid.
    pub(crate) unsafe fn start(&self, frame: &Frame<'_>) -> Vec<Scalar> {
        let mut registers = self.registers.clone();
        for (register, view) in &self.outside {
            // SAFETY: the caller's; the view is one element of its buffer.
            registers[*register] = unsafe { load(frame.ptr(view.buf).offset(view.offset as isize), view.elem) };
        }
        registers
    }

    /// Registers of a body that [`is_closed`](Machine::is_closed).
    pub(crate) fn fresh(&self) -> Vec<Scalar> {
        self.registers.clone()
    }

    /// Runs the code on the arguments in the first registers.
    #[inline]
    pub(crate) fn call(&self, registers: &mut [Scalar]) {
        run(&self.code, registers);
    }

    /// Result `i` of the last call.
    #[inline]
    pub(crate) fn result(&self, i: usize, registers: &[Scalar]) -> Scalar {
        registers[self.results[i]]
    }

    /// How many instructions it has: about how many times ten nanoseconds a call takes.
    pub(crate) fn len(&self) -> usize {
        self.code.len().max(1)
    }
}

fn run(code: &[Instruction], registers: &mut [Scalar]) {
    for instruction in code {
        match instruction {
            Instruction::Apply { op, from: [a, b, c], to } => {
                registers[*to] = apply(op, &[registers[*a], registers[*b], registers[*c]]);
            }
            Instruction::Bits { from, to } => {
                registers[to.0] = of_bits(to_bits(registers[from.0], from.1), to.1);
            }
            Instruction::Move(pairs) => match &pairs[..] {
                &[(from, to)] => registers[to] = registers[from],
                pairs => {
                    let values: Vec<Scalar> = pairs.iter().map(|&(from, _)| registers[from]).collect();
                    pairs.iter().zip(values).for_each(|(&(_, to), value)| registers[to] = value);
                }
            },
            Instruction::Branch { index, cases } => {
                let last = cases.len() - 1;
                let case = usize::try_from(registers[*index].as_i64()).map_or(last, |i| i.min(last));
                run(&cases[case], registers);
            }
            Instruction::While { condition, holds, body } => loop {
                run(condition, registers);
                if !registers[*holds].as_bool() {
                    break;
                }
                run(body, registers);
            },
        }
    }
}

struct Builder<'m> {
    module: &'m Module,
    view: &'m dyn Fn(ValueId) -> Option<View>,
    registers: Vec<Scalar>,
    outside: Vec<(Register, View)>,
    /// The registers of each value, row-major.
    lanes: HashMap<ValueId, Vec<Register>>,
    code: Vec<Instruction>,
}

impl Builder<'_> {
    fn register(&mut self, value: Scalar) -> Option<Register> {
        self.registers.push(value);
        (self.registers.len() <= MOST_REGISTERS).then(|| self.registers.len() - 1)
    }

    fn zeros(&mut self, value: ValueId) -> Option<Vec<Register>> {
        let ty = self.module.ty(value).as_tensor()?;
        let zero = Scalar::zero(ty.elem);
        let n = usize::try_from(ty.num_elements()?).ok().filter(|&n| n <= MOST_REGISTERS)?;
        (0..n).map(|_| self.register(zero)).collect()
    }

    /// The registers of `value`, which may come from outside.
    fn lanes_of(&mut self, value: ValueId) -> Option<Vec<Register>> {
        if let Some(lanes) = self.lanes.get(&value) {
            return Some(lanes.clone());
        }
        // Constants may stand outside, where others share them.
        let made = self.module.def_op(value).and_then(|op| constant(self.module, op));
        if let Some(literal) = made {
            return self.literal(value, &literal);
        }
        let view = (self.view)(value)?;
        let lanes = self.zeros(value)?;
        let places = crate::library::nest::offsets(&view.dims, &view.strides);
        for (&register, at) in lanes.iter().zip(places) {
            let offset = view.offset + at as i64;
            let element = View { buf: view.buf, elem: view.elem, dims: vec![], offset, strides: vec![] };
            self.outside.push((register, element));
        }
        self.lanes.insert(value, lanes.clone());
        Some(lanes)
    }

    fn literal(&mut self, value: ValueId, literal: &Literal) -> Option<Vec<Register>> {
        let lanes: Vec<Register> = literal.scalars().map(|v| self.register(v)).collect::<Option<_>>()?;
        self.lanes.insert(value, lanes.clone());
        Some(lanes)
    }

    /// Adds the code of `block`, whose arguments have registers, and gives those of what it returns.
    fn block(&mut self, block: BlockId) -> Option<Vec<Vec<Register>>> {
        for op in self.module.ops_in(block) {
            if self.module.op(op).kind().is_terminator() {
                return self.module.op(op).operands().iter().map(|&v| self.lanes_of(v)).collect();
            }
            self.op(op)?;
        }
        None
    }

    /// The code of `block`, with moves of what it returns to `to`.
    fn apart(&mut self, block: BlockId, to: &[Vec<Register>]) -> Option<Vec<Instruction>> {
        let outer = std::mem::take(&mut self.code);
        let returned = self.block(block)?;
        let pairs = returned.concat().into_iter().zip(to.concat()).collect();
        self.code.push(Instruction::Move(pairs));
        Some(std::mem::replace(&mut self.code, outer))
    }

    fn op(&mut self, op: OpId) -> Option<()> {
        let data = self.module.op(op);
        if let Some(literal) = constant(self.module, op) {
            return self.literal(data.results()[0], &literal).map(|_| ());
        }
        let operands: Vec<Vec<Register>> =
            data.operands().iter().map(|&v| self.lanes_of(v)).collect::<Option<Vec<_>>>()?;
        match data.kind() {
            kind if kind.is_elementwise() => {
                let decoded = ScalarOp::decode(self.module, op).ok()?;
                let to = self.zeros(data.results()[0])?;
                for (i, &to) in to.iter().enumerate() {
                    let mut from = [0; 3];
                    for (from, lanes) in from.iter_mut().zip(&operands) {
                        // Bounds and predicates may be scalars.
                        *from = if lanes.len() == 1 { lanes[0] } else { *lanes.get(i)? };
                    }
                    self.code.push(Instruction::Apply { op: decoded, from, to });
                }
                self.lanes.insert(data.results()[0], to);
            }
            OpKind::Movement(MovementOp::BitcastConvert) => {
                let elem = |v: ValueId| self.module.ty(v).elem();
                let (from, to) = (elem(data.operands()[0])?, elem(data.results()[0])?);
                if from.bits() != to.bits() || from.is_complex() || to.is_complex() {
                    return None;
                }
                let lanes = self.zeros(data.results()[0])?;
                for (&x, &y) in operands[0].iter().zip(&lanes) {
                    self.code.push(Instruction::Bits { from: (x, from), to: (y, to) });
                }
                self.lanes.insert(data.results()[0], lanes);
            }
            OpKind::Movement(movement) => {
                let lanes = self.moved(op, movement, &operands)?;
                self.lanes.insert(data.results()[0], lanes);
            }
            OpKind::Body(BodyOp::Reduce) => self.reduce(op, &operands)?,
            OpKind::Control(ControlOp::Case | ControlOp::If) => self.branch(op, &operands)?,
            OpKind::Control(ControlOp::While) => self.while_loop(op, &operands)?,
            _ => return None,
        }
        Some(())
    }

    /// The registers of the result of an operation that moves elements.
    fn moved(&mut self, op: OpId, movement: MovementOp, operands: &[Vec<Register>]) -> Option<Vec<Register>> {
        let data = self.module.op(op);
        let from = self.module.ty(*data.operands().first()?).dims();
        let to = self.module.ty(data.results()[0]).dims();
        // The position in the operand of each index of the result.
        let source: Source<'_> = match movement {
            MovementOp::Reshape => return Some(operands[0].clone()),
            MovementOp::Broadcast => Box::new(|i| i[to.len() - from.len()..].to_vec()),
            MovementOp::BroadcastInDim => {
                let dims = data.i64s("broadcast_dimensions")?;
                let at = move |i: &[i64], d: usize| if from[d] == 1 { 0 } else { i[dims[d] as usize] };
                Box::new(move |i| (0..from.len()).map(|d| at(i, d)).collect())
            }
            MovementOp::Transpose => {
                let dims = data.i64s("permutation")?;
                let of = move |d: usize| dims.iter().position(|&p| p == d as i64).unwrap_or(d);
                Box::new(move |i| (0..from.len()).map(|d| i[of(d)]).collect())
            }
            MovementOp::Slice => {
                let (starts, strides) = (data.i64s("start_indices")?, data.i64s("strides")?);
                Box::new(move |i| (0..from.len()).map(|d| starts[d] + i[d] * strides[d]).collect())
            }
            MovementOp::Reverse => {
                let dims = data.i64s("dimensions")?;
                let at = move |i: &[i64], d: usize| match dims.contains(&(d as i64)) {
                    true => from[d] - 1 - i[d],
                    false => i[d],
                };
                Box::new(move |i| (0..from.len()).map(|d| at(i, d)).collect())
            }
            MovementOp::Concatenate => {
                let dim = usize::try_from(data.int("dimension")?).ok()?;
                let inner: i64 = to[dim + 1..].iter().product();
                let outer: i64 = to[..dim].iter().product();
                let mut lanes = vec![];
                for o in 0..outer {
                    for (&v, registers) in data.operands().iter().zip(operands) {
                        let n = (self.module.ty(v).dims()[dim] * inner) as usize;
                        lanes.extend_from_slice(registers.get(o as usize * n..(o as usize + 1) * n)?);
                    }
                }
                return Some(lanes);
            }
            _ => return None,
        };
        let positions = indices(to)
            .into_iter()
            .map(|index| source(&index).iter().zip(from).fold(0, |at, (&i, &n)| at * n + i) as usize);
        positions.map(|at| operands[0].get(at).copied()).collect()
    }

    /// A reduction inside the body, element after element.
    fn reduce(&mut self, op: OpId, operands: &[Vec<Register>]) -> Option<()> {
        let data = self.module.op(op);
        let block = self.module.body_of(op, 0)?;
        let (inputs, inits) = operands.split_at(operands.len() / 2);
        let dims = self.module.ty(data.operands()[0]).dims();
        let reduced = data.i64s("dimensions")?;
        let kept: Vec<usize> = (0..dims.len()).filter(|&d| !reduced.contains(&(d as i64))).collect();
        let count: i64 = kept.iter().map(|&d| dims[d]).product();
        let mut acc: Vec<Vec<Register>> = inits.iter().map(|init| vec![init[0]; count as usize]).collect();
        for (i, index) in indices(dims).into_iter().enumerate() {
            let to = kept.iter().fold(0, |at, &d| at * dims[d] + index[d]) as usize;
            let given = acc.iter().map(|a| a[to]).chain(inputs.iter().map(|x| x[i]));
            for (&arg, register) in self.module.block(block).args().iter().zip(given) {
                self.lanes.insert(arg, vec![register]);
            }
            for (acc, lanes) in acc.iter_mut().zip(self.block(block)?) {
                acc[to] = *lanes.first()?;
            }
        }
        for (&result, lanes) in data.results().iter().zip(acc) {
            self.lanes.insert(result, lanes);
        }
        Some(())
    }

    fn branch(&mut self, op: OpId, operands: &[Vec<Register>]) -> Option<()> {
        let data = self.module.op(op);
        let results = data.results().iter().map(|&r| self.zeros(r)).collect::<Option<Vec<_>>>()?;
        let mut cases = vec![];
        for i in 0..data.regions().len() {
            cases.push(self.apart(self.module.body_of(op, i)?, &results)?);
        }
        // The first branch of an `if` is that of `true`.
        if data.kind() == OpKind::Control(ControlOp::If) {
            cases.reverse();
        }
        self.code.push(Instruction::Branch { index: *operands[0].first()?, cases });
        for (&result, lanes) in data.results().iter().zip(results) {
            self.lanes.insert(result, lanes);
        }
        Some(())
    }

    fn while_loop(&mut self, op: OpId, operands: &[Vec<Register>]) -> Option<()> {
        let data = self.module.op(op);
        let carries = data.results().iter().map(|&r| self.zeros(r)).collect::<Option<Vec<_>>>()?;
        self.code.push(Instruction::Move(operands.concat().into_iter().zip(carries.concat()).collect()));
        let (condition, body) = (self.module.body_of(op, 0)?, self.module.body_of(op, 1)?);
        for block in [condition, body] {
            for (&arg, lanes) in self.module.block(block).args().iter().zip(&carries) {
                self.lanes.insert(arg, lanes.clone());
            }
        }
        let holds = self.register(Scalar::Bool(false))?;
        let condition = self.apart(condition, &[vec![holds]])?;
        let body = self.apart(body, &carries)?;
        self.code.push(Instruction::While { condition, holds, body });
        for (&result, lanes) in data.results().iter().zip(carries) {
            self.lanes.insert(result, lanes);
        }
        Some(())
    }
}

/// What `op` makes, if it is a constant or an iota of few elements.
fn constant(module: &Module, op: OpId) -> Option<Literal> {
    let data = module.op(op);
    match data.kind() {
        OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) | OpKind::Chlo(ChloOp::Constant) => {
            let Attr::Dense(dense) = data.attr("value")? else { return None };
            (dense.ty.num_elements()? <= MOST_REGISTERS as i64).then(|| dense.to_literal())?
        }
        OpKind::Source(SourceOp::Iota) => {
            let ty = module.ty(data.results()[0]).as_tensor()?;
            let dim = usize::try_from(data.int("iota_dimension")?).ok()?;
            if ty.num_elements()? > MOST_REGISTERS as i64 {
                return None;
            }
            let values = indices(&ty.dims).into_iter().map(|i| Scalar::from_i64(ty.elem, i[dim]));
            Literal::from_scalars(ty.dims.iter().copied(), ty.elem, values.collect::<Vec<_>>())
        }
        _ => None,
    }
}

/// All indices below `dims`, in row-major order.
fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let mut out = vec![vec![]];
    for &n in dims {
        out = out.into_iter().flat_map(|i| (0..n).map(move |j| [&i[..], &[j]].concat())).collect();
    }
    out
}
