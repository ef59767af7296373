//! Complex numbers as pairs of real ones, wherever something is computed with them.
//!
//! Kernels have lanes of real numbers. What is computed with complex numbers is written with their parts, which are then
//! fused as any other arithmetic: the parts of an array in memory are views of it, and a complex array that something
//! else needs is its parts side by side. An array that is only moved stays what it is.
//!
//! - Arithmetic is always written with parts.
//! - Movements, carries of loops and results of branches are, if they belong to arithmetic: if a value that they are linked with
//!   is an operand or a result of it. A carry that something else reads or makes as a whole is not.

mod formulas;
#[cfg(test)]
mod tests;

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BinaryOp, BodyOp, ControlOp, MixedOp, MovementOp, SourceOp, UnaryOp};
use meshwork_ir::{
    Attr, BlockId, Combine, Def, Dense, ElementType, Literal, Module, OpId, OpKind, OpSpec, Type, ValueId, Walk,
};

/// Real and imaginary part.
pub(super) type Parts = (ValueId, ValueId);

/// Writes the arithmetic of `func` on complex numbers with their parts.
pub(crate) fn split(module: &mut Module, func: OpId) {
    let Some(body) = module.body_of(func, 0) else { return };
    let complex = |v: &ValueId| is_complex(module, *v);
    let ops = module.ops_below(func, Walk::PreOrder);
    if !ops.iter().any(|&op| module.op(op).operands().iter().chain(module.op(op).results()).any(complex)) {
        return;
    }
    let linked = Links::new(module, body);
    let mut pairs = Pairs { module, linked, parts: HashMap::default() };
    pairs.block(body);
    stack(module, func);
}

fn is_complex(module: &Module, value: ValueId) -> bool {
    module.ty(value).elem().is_some_and(ElementType::is_complex)
}

/// What an operation is to complex numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    /// Computes with them.
    Arithmetic,
    /// Makes them of parts, or takes parts: it is written with parts where they are known.
    Parts,
    Movement,
    Control,
    /// Reads and makes whole numbers.
    Other,
}

fn role(module: &Module, op: OpId) -> Role {
    let data = module.op(op);
    let elem = |v: Option<&ValueId>| v.and_then(|&v| module.ty(v).elem());
    let (from, to) = (elem(data.operands().first()), elem(data.results().first()));
    let (Some(from), Some(to)) = (from, to) else {
        return if let OpKind::Control(f) = data.kind() { control(f) } else { Role::Other };
    };
    match data.kind() {
        OpKind::Control(f) => control(f),
        OpKind::Binary(BinaryOp::Complex) => Role::Parts,
        OpKind::Unary(UnaryOp::Real | UnaryOp::Imag) if from.is_complex() => Role::Parts,
        OpKind::Mixed(MixedOp::Convert) if to.is_complex() => Role::Parts,
        OpKind::Mixed(MixedOp::Select) if to.is_complex() => Role::Arithmetic,
        OpKind::Mixed(MixedOp::Compare) if from.is_complex() => match data.enum_value("comparison_direction") {
            Some("EQ" | "NE") => Role::Arithmetic,
            _ => Role::Other,
        },
        OpKind::Binary(BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide)
            if from.is_complex() =>
        {
            Role::Arithmetic
        }
        OpKind::Binary(BinaryOp::Power) if from == ElementType::C64 => Role::Arithmetic,
        OpKind::Unary(f) if from.is_complex() => match f {
            UnaryOp::Negate | UnaryOp::Conj | UnaryOp::Abs | UnaryOp::Square => Role::Arithmetic,
            UnaryOp::Exponential | UnaryOp::Sqrt => Role::Arithmetic,
            // Of wider numbers it would take still wider ones, as would a power.
            UnaryOp::Log if from == ElementType::C64 => Role::Arithmetic,
            _ => Role::Other,
        },
        OpKind::Body(BodyOp::Reduce) if to.is_complex() && is_sum(module, op) => Role::Arithmetic,
        OpKind::Movement(
            MovementOp::Slice
            | MovementOp::Reverse
            | MovementOp::Transpose
            | MovementOp::BroadcastInDim
            | MovementOp::Broadcast
            | MovementOp::Reshape
            | MovementOp::Pad
            | MovementOp::Concatenate
            | MovementOp::DynamicSlice
            | MovementOp::DynamicUpdateSlice,
        ) if to.is_complex() && from.is_complex() => Role::Movement,
        _ => Role::Other,
    }
}

fn control(f: ControlOp) -> Role {
    match f {
        ControlOp::While | ControlOp::Case | ControlOp::If => Role::Control,
        _ => Role::Other,
    }
}

fn is_sum(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    data.operands().len() == 2
        && module.ty(data.operands()[0]).elem() == module.ty(data.results()[0]).elem()
        && module.body_of(op, 0).and_then(|body| Combine::of_body(module, body)) == Some(Combine::Add)
}

/// Values that are moved into one another, and which of them belong to arithmetic.
#[derive(Default)]
struct Links {
    parent: HashMap<ValueId, ValueId>,
    /// By the first of those linked: something computes with one of them.
    computed: HashSet<ValueId>,
    /// By the first of those linked: something else reads or makes a carry as a whole.
    whole: HashSet<ValueId>,
}

impl Links {
    fn new(module: &Module, body: BlockId) -> Links {
        let mut links = Links::default();
        links.block(module, body);
        for list in [&mut links.computed, &mut links.whole] {
            let all: Vec<ValueId> = list.drain().collect();
            list.extend(all.into_iter().map(|v| root(&links.parent, v)));
        }
        links
    }

    fn block(&mut self, module: &Module, block: BlockId) {
        for op in module.ops_in(block) {
            let data = module.op(op);
            match role(module, op) {
                Role::Arithmetic => {
                    let touched = data.operands().iter().chain(data.results());
                    self.computed.extend(touched.filter(|&&v| is_complex(module, v)));
                }
                Role::Movement => {
                    for &v in data.operands() {
                        self.link(module, v, data.results()[0]);
                    }
                }
                Role::Control => self.control(module, op),
                Role::Parts | Role::Other => {}
            }
        }
    }

    fn control(&mut self, module: &Module, op: OpId) {
        let data = module.op(op);
        let bodies: Vec<BlockId> = (0..data.regions().len()).filter_map(|i| module.body_of(op, i)).collect();
        if data.kind() == OpKind::Control(ControlOp::While) {
            let &[cond, body] = &bodies[..] else { return };
            for (i, &arg) in module.block(body).args().iter().enumerate().filter(|&(_, &a)| is_complex(module, a)) {
                let (init, tested, result) = (data.operands()[i], module.block(cond).args()[i], data.results()[i]);
                let next = module.returned(body)[i];
                [init, tested, next, result].into_iter().for_each(|v| self.link(module, v, arg));
                let reads = |v: ValueId| {
                    module.value(v).uses().iter().any(|u| role(module, u.op) == Role::Other && !is_end(module, u.op))
                };
                if (is_source(module, next) && next != arg && !is_constant(module, next)) || reads(arg) {
                    self.whole.insert(arg);
                }
            }
        } else {
            for (i, &result) in data.results().iter().enumerate() {
                for &body in &bodies {
                    self.link(module, module.returned(body)[i], result);
                }
            }
        }
        bodies.into_iter().for_each(|b| self.block(module, b));
    }

    /// Whatever gives whole numbers is linked with nothing: its parts are views.
    fn link(&mut self, module: &Module, a: ValueId, b: ValueId) {
        if !is_complex(module, a) || !is_complex(module, b) || is_source(module, a) || is_source(module, b) {
            return;
        }
        let (a, b) = (root(&self.parent, a), root(&self.parent, b));
        if a != b {
            self.parent.insert(a, b);
        }
    }

    /// Whether `value` is written as two.
    fn is_split(&self, value: ValueId) -> bool {
        let first = root(&self.parent, value);
        self.computed.contains(&first) && !self.whole.contains(&first)
    }
}

fn root(parent: &HashMap<ValueId, ValueId>, value: ValueId) -> ValueId {
    let mut at = value;
    while let Some(&up) = parent.get(&at) {
        at = up;
    }
    at
}

fn is_end(module: &Module, op: OpId) -> bool {
    matches!(module.op(op).kind(), OpKind::Control(ControlOp::HloReturn | ControlOp::FuncReturn))
}

fn is_constant(module: &Module, value: ValueId) -> bool {
    module.def_op(value).is_some_and(|op| module.op(op).kind() == OpKind::Source(SourceOp::Constant))
}

/// Whether `value` is in memory as a whole: an argument of the program, or made by something that is not written with parts.
fn is_source(module: &Module, value: ValueId) -> bool {
    match module.value(value).def() {
        Def::Result(op, _) => role(module, op) == Role::Other,
        Def::Arg(block, _) => module.block_parent_op(block).is_none_or(|op| role(module, op) != Role::Control),
    }
}

/// A program being rewritten.
struct Pairs<'a> {
    module: &'a mut Module,
    linked: Links,
    /// The parts of complex values.
    parts: HashMap<ValueId, Parts>,
}

impl Pairs<'_> {
    fn block(&mut self, block: BlockId) {
        for op in self.module.op_list(block) {
            match role(self.module, op) {
                Role::Arithmetic | Role::Parts => self.computed(op),
                Role::Movement => {
                    let result = self.module.op(op).results()[0];
                    if self.linked.is_split(result) {
                        self.moved(op);
                    }
                }
                Role::Control => self.control(op),
                Role::Other => {}
            }
        }
    }

    /// The parts of `value`: those it was made of, or views of it.
    fn parts(&mut self, value: ValueId) -> Parts {
        if let Some(&parts) = self.parts.get(&value) {
            return parts;
        }
        let module = &mut *self.module;
        let (ty, loc) = (part_type(module, value), module.def_op(value).map(|op| module.op(op).loc.clone()));
        let literals = module.def_op(value).and_then(|op| match module.op(op).attr("value") {
            Some(Attr::Dense(dense)) if is_constant(module, value) => constants(dense),
            _ => None,
        });
        let spec = |i: usize| match &literals {
            Some(both) => {
                OpSpec::new(OpKind::Source(SourceOp::Constant)).attr("value", Attr::Dense(both[i].clone().into()))
            }
            None => OpSpec::new(OpKind::Unary([UnaryOp::Real, UnaryOp::Imag][i])).operands([value]),
        };
        let loc = loc.unwrap_or_default();
        let new = [0, 1].map(|i| module.create(spec(i).results([ty.clone()]).loc(loc.clone())));
        match module.value(value).def() {
            Def::Result(op, _) => new.iter().rev().for_each(|&n| module.insert_after(op, n)),
            Def::Arg(block, _) => new.iter().rev().for_each(|&n| module.prepend(block, n)),
        }
        let parts = (module.result(new[0]), module.result(new[1]));
        self.parts.insert(value, parts);
        parts
    }

    /// The complex number that `parts` are, made by an operation that is not in a block yet.
    fn whole(&mut self, parts: Parts, ty: &Type) -> OpId {
        let spec = OpSpec::new(OpKind::Binary(BinaryOp::Complex)).operands([parts.0, parts.1]).results([ty.clone()]);
        let op = self.module.create(spec);
        self.parts.insert(self.module.result(op), parts);
        op
    }

    /// Replaces `op`, whose only result is complex, by `parts`.
    fn replace(&mut self, op: OpId, parts: Parts) {
        let ty = self.module.ty(self.module.result(op)).clone();
        let whole = self.whole(parts, &ty);
        self.module.insert_before(op, whole);
        self.module.replace_op(op, &[self.module.result(whole)]);
    }

    fn computed(&mut self, op: OpId) {
        let operands = self.module.op(op).operands().to_vec();
        let kind = self.module.op(op).kind();
        // Parts of what is in memory are views of it.
        let known = |v: &ValueId| self.parts.contains_key(v);
        if matches!(kind, OpKind::Unary(UnaryOp::Real | UnaryOp::Imag)) && !operands.iter().any(known) {
            return;
        }
        let complex: Vec<Parts> = operands
            .iter()
            .filter(|&&v| is_complex(self.module, v))
            .copied()
            .collect::<Vec<_>>()
            .into_iter()
            .map(|v| self.parts(v))
            .collect();
        let loc = self.module.op(op).loc.clone();
        if kind == OpKind::Body(BodyOp::Reduce) {
            let sums = [0, 1].map(|i| self.sum(op, &complex, i));
            return self.replace(op, (sums[0], sums[1]));
        }
        let mut builder = Builder::before(self.module, op);
        builder.set_loc(loc);
        match formulas::written(&mut builder, op, &complex) {
            Ok(Some(formulas::Made::Parts(re, im))) => self.replace(op, (re, im)),
            Ok(Some(formulas::Made::Real(value))) => self.module.replace_op(op, &[value]),
            // What was begun in vain has no use and goes with other dead operations.
            Ok(None) | Err(BuildError { .. }) => {}
        }
    }

    /// Part `i` of the sum `op`.
    fn sum(&mut self, op: OpId, operands: &[Parts], i: usize) -> ValueId {
        let module = &mut *self.module;
        let pick = |p: &Parts| if i == 0 { p.0 } else { p.1 };
        let (data, result) = (module.op(op), module.op(op).results()[0]);
        let elem = module.ty(result).elem().map_or(ElementType::F32, ElementType::real_part);
        let mut spec = OpSpec::new(data.kind())
            .operands(operands.iter().map(pick))
            .results([part_type(module, result)])
            .loc(data.loc.clone());
        spec.attrs = data.attrs.clone();
        let new = module.push_before(op, spec);
        let scalar = Type::tensor([], elem);
        let body = module.add_body(new, [scalar.clone(), scalar.clone()]);
        let args = module.block(body).args().to_vec();
        let add = module.push(body, OpSpec::new(OpKind::Binary(BinaryOp::Add)).operands(args).results([scalar]));
        let sum = module.result(add);
        module.push(body, OpSpec::new(OpKind::Control(ControlOp::HloReturn)).operands([sum]));
        module.result(new)
    }

    /// The same movement of both parts.
    fn moved(&mut self, op: OpId) {
        let operands = self.module.op(op).operands().to_vec();
        let list: Vec<Parts> =
            operands.into_iter().map(|v| if is_complex(self.module, v) { self.parts(v) } else { (v, v) }).collect();
        let ty = part_type(self.module, self.module.op(op).results()[0]);
        let one = |module: &mut Module, operands: Vec<ValueId>| {
            let data = module.op(op);
            let mut spec = OpSpec::new(data.kind()).operands(operands).results([ty.clone()]).loc(data.loc.clone());
            spec.attrs = data.attrs.clone();
            let new = module.push_before(op, spec);
            module.result(new)
        };
        let re = one(self.module, list.iter().map(|p| p.0).collect());
        let im = one(self.module, list.iter().map(|p| p.1).collect());
        self.replace(op, (re, im));
    }

    /// A loop or a branch, with two values for each that is split.
    fn control(&mut self, op: OpId) {
        let module = &*self.module;
        let data = module.op(op);
        let is_loop = data.kind() == OpKind::Control(ControlOp::While);
        let bodies: Vec<BlockId> = (0..data.regions().len()).filter_map(|i| module.body_of(op, i)).collect();
        // A loop is named by the arguments of its body.
        let named = match (is_loop, bodies.get(1)) {
            (true, Some(&body)) => module.block(body).args().to_vec(),
            (true, None) => return,
            (false, _) => data.results().to_vec(),
        };
        let split: Vec<bool> = named.iter().map(|&v| is_complex(module, v) && self.linked.is_split(v)).collect();
        if !split.contains(&true) {
            return bodies.into_iter().for_each(|b| self.block(b));
        }
        let operands = data.operands().to_vec();
        let operands = if is_loop { self.spread(&operands, &split) } else { operands };
        for &body in bodies.iter().filter(|_| is_loop) {
            self.arguments(body, &split);
        }
        for &body in &bodies {
            self.block(body);
            // The condition of a loop returns a truth value.
            if let Some(end) = self.module.terminator(body).filter(|_| !is_loop || body == bodies[1]) {
                let returned = self.module.op(end).operands().to_vec();
                let returned = self.spread(&returned, &split);
                self.module.set_operands(end, returned);
            }
        }
        let results = self.module.op(op).results().to_vec();
        let mut types = vec![];
        for (&result, &split) in results.iter().zip(&split) {
            match split {
                true => types.extend([part_type(self.module, result), part_type(self.module, result)]),
                false => types.push(self.module.ty(result).clone()),
            }
        }
        let data = self.module.op(op);
        let mut spec = OpSpec::new(data.kind()).operands(operands).results(types).loc(data.loc.clone());
        spec.attrs = data.attrs.clone();
        let regions = data.regions().to_vec();
        let new = self.module.push_before(op, spec);
        for region in regions {
            let to = self.module.add_region(new);
            self.module.move_blocks(region, to);
        }
        let mut made = self.module.op(new).results().to_vec().into_iter();
        let mut take = || made.next().unwrap_or(results[0]);
        for (&result, &split) in results.iter().zip(&split) {
            let value = if split {
                let (parts, ty) = ((take(), take()), self.module.ty(result).clone());
                let whole = self.whole(parts, &ty);
                self.module.insert_after(new, whole);
                self.module.result(whole)
            } else {
                take()
            };
            self.module.replace_all_uses(result, value);
        }
        self.module.erase(op);
    }

    /// `values` with the parts of those that are split.
    fn spread(&mut self, values: &[ValueId], split: &[bool]) -> Vec<ValueId> {
        let mut out = vec![];
        for (&v, &split) in values.iter().zip(split) {
            if split {
                let (re, im) = self.parts(v);
                out.extend([re, im]);
            } else {
                out.push(v);
            }
        }
        out
    }

    /// Gives `block` two arguments for each that is split.
    fn arguments(&mut self, block: BlockId, split: &[bool]) {
        let old = self.module.block(block).args().to_vec();
        for (&arg, &split) in old.iter().zip(split) {
            let ty = self.module.ty(arg).clone();
            let value = if split {
                let part = part_type(self.module, arg);
                let parts = [part.clone(), part].map(|ty| self.module.add_block_arg(block, ty));
                let whole = self.whole((parts[0], parts[1]), &ty);
                self.module.prepend(block, whole);
                self.module.result(whole)
            } else {
                self.module.add_block_arg(block, ty)
            };
            self.module.replace_all_uses(arg, value);
        }
        old.iter().for_each(|_| self.module.remove_block_arg(block, 0));
    }
}

/// The type of the parts of `value`.
fn part_type(module: &Module, value: ValueId) -> Type {
    let ty = module.ty(value);
    Type::tensor(ty.dims().to_vec(), ty.elem().map_or(ElementType::F32, ElementType::real_part))
}

/// The parts of a complex constant.
fn constants(dense: &Dense) -> Option<[Dense; 2]> {
    let elem = dense.ty.elem.real_part();
    let size = elem.storage_bytes();
    let cut = |bytes: &[u8], i: usize| {
        bytes.chunks_exact(2 * size).flat_map(|z| z[i * size..][..size].to_vec()).collect::<Vec<u8>>()
    };
    let part = |i: usize| {
        if let Some(bytes) = dense.splat_bytes() {
            let ty = meshwork_ir::TensorType::new(dense.ty.dims.iter().copied(), elem);
            return Some(Dense::splat(ty.into(), &cut(bytes, i)));
        }
        let literal = dense.to_literal()?;
        Some(Dense::from_literal(&Literal::from_bytes(literal.dims().to_vec(), elem, cut(literal.bytes(), i))?))
    };
    Some([part(0)?, part(1)?])
}

/// Writes what is still made of parts as an array of them side by side, which is a complex array under another name.
fn stack(module: &mut Module, func: OpId) {
    meshwork_ir::transform::dead::remove_dead(module);
    for op in module.ops_below(func, Walk::PreOrder) {
        let data = module.op(op);
        let (OpKind::Binary(BinaryOp::Complex), &[re, im]) = (data.kind(), data.operands()) else { continue };
        // Bodies of reductions and the like are run as they are.
        let in_control = module.parent_op(op).is_none_or(|p| p == func || role(module, p) == Role::Control);
        if !in_control {
            continue;
        }
        let (result, loc) = (module.ty(data.results()[0]).clone(), data.loc.clone());
        let (dims, rank) = (module.ty(re).dims().to_vec(), module.ty(re).dims().len() as i64);
        let elem = module.ty(re).elem().unwrap_or(ElementType::F32);
        let (column, both) = ([&dims[..], &[1]].concat(), [&dims[..], &[2]].concat());
        let columns = [re, im].map(|part| {
            let spec = OpSpec::new(OpKind::Movement(MovementOp::Reshape))
                .operands([part])
                .results([Type::tensor(column.clone(), elem)]);
            let new = module.push_before(op, spec.loc(loc.clone()));
            module.result(new)
        });
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Concatenate))
            .operands(columns)
            .results([Type::tensor(both, elem)]);
        let joined = module.push_before(op, spec.attr("dimension", Attr::i64(rank)).loc(loc.clone()));
        let spec = OpSpec::new(OpKind::Movement(MovementOp::BitcastConvert))
            .operands([module.result(joined)])
            .results([result]);
        let renamed = module.push_before(op, spec.loc(loc));
        module.replace_op(op, &[module.result(renamed)]);
    }
}
