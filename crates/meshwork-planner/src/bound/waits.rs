//! The least that a run takes with its waiting: when each value can be there at the earliest, wherever it is.
//!
//! For each value and each place that it can be in ([`places`](super::places)) stands a moment before which it is not there in any plan. An
//! operation can be split in one way or another: its result is there when all operands are where that way wants them, and it is
//! computed. From there the result may be moved. An operation that is not looked into gives its results, at every place, when each of
//! its operands is anywhere.
//!
//! Beside that, a device computes one thing after the other. Of any set of operations the first starts no earlier than the earliest can, so
//! the last ends no earlier than that and what all of them take together. Sets that count are those that cannot start before some moment:
//! of all operations for the run, and of those that a product or reduction depends on for when that starts.

use std::rc::Rc;

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, MixedOp, MovementOp, UnaryOp};
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, ValueId, Walk};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::Machine;
use meshwork_partition::plan::{Class, op_flops};
use meshwork_propagate::rules::{RuleResult, splitting_rule};

use super::loops::Loops;
use super::places::{Places, Roles, Ways};
use super::{fastest, is_product, product_seconds, rounds};

/// How far before an operation those are that it is known to depend on.
const BEFORE: usize = 512;

/// What loops over elements do in every plan.
pub(super) struct Computing {
    /// The operations that start them.
    started: HashSet<OpId>,
    /// Of those, the ones whose results are written.
    written: HashSet<OpId>,
    /// What operations read from memory.
    reads: HashMap<OpId, Vec<ValueId>>,
    /// Seconds that a loop takes to start.
    start: f64,
}

impl Computing {
    pub(super) fn of(loops: &Loops, start: f64) -> Computing {
        let mut reads: HashMap<OpId, Vec<ValueId>> = HashMap::default();
        for &(op, v) in &loops.reads {
            reads.entry(op).or_default().push(v);
        }
        let set = |ops: &[OpId]| ops.iter().copied().collect();
        Computing { started: set(&loops.started), written: set(&loops.written), reads, start }
    }

    /// Seconds of `op` that it is certain to take as a part of a loop, if it has `written` bytes of results and reads `read` bytes.
    fn seconds(&self, op: OpId, written: f64, read: f64, machine: &Machine) -> f64 {
        let start = if self.started.contains(&op) { self.start } else { 0.0 };
        let written = if self.written.contains(&op) { written } else { 0.0 };
        start + (written + read) / fastest(machine)
    }
}

/// When a value is there.
#[derive(Clone)]
enum There {
    /// At every place from then on.
    Anywhere(f64),
    At(Rc<Ways>, Rc<Vec<f64>>),
}

impl There {
    fn at(&self, roles: &Roles) -> f64 {
        match self {
            There::Anywhere(when) => *when,
            There::At(ways, when) => when[ways.place(roles)],
        }
    }

    fn first(&self) -> f64 {
        match self {
            There::Anywhere(when) => *when,
            There::At(_, when) => when.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

/// What an axis does to an operation.
#[derive(Clone, Copy)]
enum Use {
    Nothing,
    /// Splits a factor.
    Splits(usize),
    /// Every device works on its part of a sum; the operands with these numbers are in parts, the others whole.
    Sums(u32),
}

/// Seconds that no plan saves in which each axis of `mesh` splits dimensions as a whole; 0 where some operation cuts axes.
pub(super) fn least(module: &Module, body: BlockId, machine: &Machine, mesh: &Mesh, computing: &Computing) -> f64 {
    let Some(places) = Places::new(mesh, machine).filter(|_| !cuts_axes(module, mesh)) else { return 0.0 };
    let devices = mesh.device_count() as f64;
    let mut run = Run { module, machine, computing, places, there: HashMap::default(), devices };
    run.through(body)
}

/// Whether something in the program splits a dimension by a part of an axis: an annotation, or a reshape.
fn cuts_axes(module: &Module, mesh: &Mesh) -> bool {
    let Some(func) = module.entry() else { return true };
    let is_cut = |sharding: &Sharding| sharding.dims.iter().flat_map(|dim| &dim.axes).any(|axis| !axis.is_full());
    let of = |attr: Option<&Attr>| attr.and_then(Attr::as_sharding).is_some_and(is_cut);
    let arguments = module.body_of(func, 0).map_or(0, |body| module.block(body).args().len());
    if (0..arguments).any(|i| of(module.arg_attr(func, i, "sdy.sharding"))) {
        return true;
    }
    module.ops_below(func, Walk::PreOrder).into_iter().any(|op| {
        let RuleResult::Rule(rule) = splitting_rule(module, op) else { return false };
        let several = |factors: &Vec<usize>| {
            let mut wide = factors.iter().map(|&f| rule.factor_sizes[f]).filter(|&size| size > 1);
            let first = wide.next();
            wide.next().is_some() && first.is_some_and(|size| size % mesh.device_count() != 0)
        };
        rule.operands.iter().chain(&rule.results).flatten().any(several)
    })
}

struct Run<'a> {
    module: &'a Module,
    machine: &'a Machine,
    computing: &'a Computing,
    places: Places<'a>,
    there: HashMap<ValueId, There>,
    devices: f64,
}

impl Run<'_> {
    /// Goes through a body, and says how long it takes at least.
    fn through(&mut self, body: BlockId) -> f64 {
        let ops = self.module.op_list(body);
        let takes: Vec<f64> = ops.iter().map(|&op| self.alone(op)).collect();
        let before = before(self.module, &ops);
        let mut starts: Vec<f64> = vec![];
        let mut end: f64 = 0.0;
        for (i, &op) in ops.iter().enumerate() {
            let mut made = self.made(op, takes[i]);
            if is_product(self.module, op) || self.module.op(op).kind() == BodyOp::Reduce {
                let earlier = nearest(&before, i).into_iter().map(|j| (starts[j], takes[j]));
                let start = together(earlier.collect());
                made.iter_mut().for_each(|there| there.wait_until(start + takes[i]));
            }
            // However it is split, it computes at least so long, and that right before its results are there.
            starts.push(made.iter().map(There::first).reduce(f64::min).map_or(0.0, |first| first - takes[i]));
            for (&result, there) in self.module.op(op).results().iter().zip(made) {
                end = end.max(there.first());
                self.there.insert(result, there);
            }
        }
        end.max(together(starts.into_iter().zip(takes).collect()))
    }

    /// Seconds that `op` computes at least, shared evenly, with all that is inside it.
    fn alone(&self, op: OpId) -> f64 {
        let product = |op: OpId| product_seconds(self.module, op, self.machine, self.devices);
        if let Some(seconds) = product(op) {
            return seconds;
        }
        let part = |values: &[ValueId]| values.iter().map(|&v| bytes(self.module, v)).sum::<f64>() / self.devices;
        let read = self.computing.reads.get(&op).map_or(0.0, |values| part(values));
        let own = self.computing.seconds(op, part(self.module.op(op).results()), read, self.machine);
        let inside = self.module.ops_below(op, Walk::PreOrder).into_iter();
        own + inside.filter_map(|inner| Some(product(inner)? * rounds(self.module, inner))).sum::<f64>()
    }

    fn there(&self, v: ValueId) -> There {
        self.there.get(&v).cloned().unwrap_or(There::Anywhere(0.0))
    }

    /// When the results of `op` are there.
    fn made(&mut self, op: OpId, takes: f64) -> Vec<There> {
        let module = self.module;
        let data = module.op(op);
        let operands: Vec<There> = data.operands().iter().map(|&v| self.there(v)).collect();
        let by_rule = if is_looked_into(data.kind()) { self.by_rule(op, &operands) } else { None };
        by_rule.unwrap_or_else(|| {
            let when = operands.iter().map(There::first).fold(0.0, f64::max);
            vec![There::Anywhere(when + takes); data.results().len()]
        })
    }

    /// When the results are there if every axis splits one factor of the rule of `op` or none. `None` if it has no rule whose dimensions
    /// have one factor each, or too many places.
    fn by_rule(&mut self, op: OpId, operands: &[There]) -> Option<Vec<There>> {
        let module = self.module;
        let data = module.op(op);
        let RuleResult::Rule(rule) = splitting_rule(module, op) else { return None };
        let is_wide = |f: usize| rule.factor_sizes[f] > 1;
        let single = |factors: &Vec<usize>| factors.iter().filter(|&&f| is_wide(f)).count() <= 1;
        let fits = rule.operands.len() == operands.len()
            && rule.results.len() == data.results().len()
            && rule.operands.iter().chain(&rule.results).flatten().all(single);
        let wide: Vec<usize> = (0..rule.factor_sizes.len()).filter(|&f| is_wide(f)).collect();
        let known = |&f: &usize| matches!(rule.kind(f), FactorKind::PassThrough | FactorKind::Reduction);
        if !fits || !wide.iter().all(known) {
            return None;
        }
        let ways = |places: &mut Places, v: ValueId| {
            let ty = module.ty(v).as_tensor()?;
            ty.num_elements().and_then(|_| places.of(module.ty(v).dims(), ty.elem.storage_bytes()))
        };
        let of_operands: Vec<Rc<Ways>> =
            data.operands().iter().map(|&v| ways(&mut self.places, v)).collect::<Option<_>>()?;
        let of_results: Vec<Rc<Ways>> =
            data.results().iter().map(|&v| ways(&mut self.places, v)).collect::<Option<_>>()?;
        let mut uses = vec![Use::Nothing];
        uses.extend(wide.iter().map(|&f| Use::Splits(f)));
        uses.extend(in_parts(module, op).into_iter().map(Use::Sums));
        let mut made: Vec<Vec<f64>> = of_results.iter().map(|ways| vec![f64::INFINITY; ways.count()]).collect();
        let axes = self.places.sizes.len();
        for way in 0..uses.len().pow(axes as u32) {
            let mut rest = way;
            let chosen: Vec<Use> = (0..axes)
                .map(|_| {
                    let what = uses[rest % uses.len()];
                    rest /= uses.len();
                    what
                })
                .collect();
            let from: Vec<Roles> = (0..operands.len())
                .map(|i| roles(&chosen, &rule.operands[i], of_operands[i].rank, |sums| sums >> i & 1 == 1))
                .collect();
            let to: Vec<Roles> = (0..made.len())
                .map(|i| {
                    let mut to = roles(&chosen, &rule.results[i], of_results[i].rank, |_| true);
                    for (axis, what) in chosen.iter().enumerate() {
                        if let Use::Splits(f) = what
                            && rule.kind(*f) == FactorKind::Reduction
                        {
                            to[axis] = of_results[i].rank + 1;
                        }
                    }
                    to
                })
                .collect();
            let start = operands.iter().zip(&from).map(|(there, roles)| there.at(roles)).fold(0.0, f64::max);
            let held = |ways: &[Rc<Ways>], roles: &[Roles]| -> Vec<f64> {
                ways.iter().zip(roles).map(|(ways, roles)| ways.held[ways.place(roles)]).collect()
            };
            let (read, written) = (held(&of_operands, &from), held(&of_results, &to));
            let end = start + self.seconds(op, &rule, &chosen, &read, written.iter().sum());
            for ((made, ways), roles) in made.iter_mut().zip(&of_results).zip(&to) {
                let known = &mut made[ways.place(roles)];
                *known = known.min(end);
            }
        }
        let there = |(ways, made): (Rc<Ways>, Vec<f64>)| {
            let moved = ways.moved(&made);
            There::At(ways, Rc::new(moved))
        };
        Some(of_results.into_iter().zip(made).map(there).collect())
    }

    /// Seconds that `op` computes if it is split in a way. `read` has the bytes of a device of each operand.
    fn seconds(&self, op: OpId, rule: &OpShardingRule, chosen: &[Use], read: &[f64], written: f64) -> f64 {
        if !is_product(self.module, op) {
            let operands = self.module.op(op).operands();
            let of = |v: &ValueId| operands.iter().position(|w| w == v).map_or(0.0, |i| read[i]);
            let from_memory: f64 = self.computing.reads.get(&op).map_or(0.0, |values| values.iter().map(of).sum());
            return self.computing.seconds(op, written, from_memory, self.machine);
        }
        let part = |(f, &size): (usize, &i64)| {
            let splits =
                chosen.iter().zip(&self.places.sizes).filter(|(what, _)| matches!(what, Use::Splits(g) if *g == f));
            let parts: i64 = splits.map(|(_, size)| *size).product();
            (size + parts - 1).div_euclid(parts) as f64 / size.max(1) as f64
        };
        let share: f64 = rule.factor_sizes.iter().enumerate().map(part).product();
        let data = self.module.op(op);
        let (class, device) = (Class::of(data.kind()), &self.machine.device);
        let elem = data.operands().first().and_then(|&v| self.module.ty(v).elem());
        let flops = op_flops(self.module, op) * share;
        let arithmetic = elem.map_or(0.0, |elem| device.arithmetic_seconds(class, elem, flops));
        device.curve(class).microseconds * 1e-6
            + arithmetic.max((read.iter().sum::<f64>() + written) / fastest(self.machine))
    }
}

impl There {
    fn wait_until(&mut self, when: f64) {
        match self {
            There::Anywhere(there) => *there = there.max(when),
            There::At(_, there) => Rc::make_mut(there).iter_mut().for_each(|there| *there = there.max(when)),
        }
    }
}

/// The roles of axes for a tensor whose dimensions have these factors. `is_part` says whether it is one of those in parts.
fn roles(chosen: &[Use], dims: &[Vec<usize>], rank: usize, is_part: impl Fn(u32) -> bool) -> Roles {
    let mut roles = Roles::default();
    for (role, what) in roles.iter_mut().zip(chosen) {
        *role = match *what {
            Use::Splits(f) => dims.iter().position(|factors| factors.contains(&f)).map_or(0, |d| d + 1),
            Use::Sums(operands) if is_part(operands) => rank + 1,
            Use::Sums(_) | Use::Nothing => 0,
        };
    }
    roles
}

/// Operations whose ways are looked into.
fn is_looked_into(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Mixed(MixedOp::Compare | MixedOp::Convert | MixedOp::Select | MixedOp::Clamp)
            | OpKind::Movement(MovementOp::Reshape | MovementOp::Transpose | MovementOp::BroadcastInDim)
            | OpKind::Contract(ContractOp::DotGeneral)
            | OpKind::Body(BodyOp::Reduce)
    )
}

/// For operations that can work on the parts of sums (or products, or greatest numbers): the operands that are in parts then, as bits.
fn in_parts(module: &Module, op: OpId) -> Vec<u32> {
    let data = module.op(op);
    match data.kind() {
        OpKind::Movement(_) | OpKind::Mixed(MixedOp::Convert) => vec![1],
        OpKind::Unary(UnaryOp::Negate | UnaryOp::Real | UnaryOp::Imag) => vec![1],
        OpKind::Binary(BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Maximum | BinaryOp::Minimum) => vec![3],
        OpKind::Binary(BinaryOp::Multiply | BinaryOp::Divide) | OpKind::Contract(_) => vec![1, 2],
        OpKind::Mixed(MixedOp::Select) => vec![6],
        OpKind::Body(BodyOp::Reduce) => vec![(1 << data.operands().len().min(31)) - 1],
        _ => vec![],
    }
}

fn bytes(module: &Module, v: ValueId) -> f64 {
    let Some(ty) = module.ty(v).as_tensor() else { return 0.0 };
    ty.num_elements().unwrap_or(0) as f64 * ty.elem.storage_bytes() as f64
}

/// Of operations with the moments at which they can start and the seconds that they take: when all of them are done, one after the other.
fn together(mut ops: Vec<(f64, f64)>) -> f64 {
    ops.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut end, mut sum): (f64, f64) = (0.0, 0.0);
    for (start, takes) in ops {
        sum += takes;
        end = end.max(start + sum);
    }
    end
}

/// The operations of a body whose results each one reads.
fn before(module: &Module, ops: &[OpId]) -> Vec<Vec<usize>> {
    let number: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
    let read = |&op: &OpId| {
        let makers = module.op(op).operands().iter().filter_map(|&v| module.def_op(v));
        makers.filter_map(|from| number.get(&from).copied()).collect()
    };
    ops.iter().map(read).collect()
}

/// What `i` depends on, of the [`BEFORE`] operations before it.
fn nearest(before: &[Vec<usize>], i: usize) -> Vec<usize> {
    let from = i.saturating_sub(BEFORE);
    let (mut seen, mut work, mut found) = (vec![false; i - from], vec![i], vec![]);
    while let Some(at) = work.pop() {
        for &other in before[at].iter().filter(|&&other| other >= from) {
            if !std::mem::replace(&mut seen[other - from], true) {
                found.push(other);
                work.push(other);
            }
        }
    }
    found
}
