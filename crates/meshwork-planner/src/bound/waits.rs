//! The least that a run takes with its waiting: when each value can be there at the earliest, wherever it is.
//!
//! For each value and each place that it can be in ([`places`](super::places)) stands a moment before which it is not there in any plan. An
//! operation can be split in one way or another: its result is there when all operands are where that way wants them, and it is
//! computed. From there the result may be moved. An operation that is not looked into gives its results, at every place, when each of
//! its operands is anywhere.
//!
//! Beside that, a device computes one thing after the other. What a product or reduction depends on is computed before it, whatever the
//! order, and what depends on it after. So it ends no earlier than those before it take together, and a run goes on at least as long as
//! those behind it take together.

use std::rc::Rc;

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, MixedOp, MovementOp, UnaryOp};
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, ValueId, Walk};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::Machine;
use meshwork_partition::plan::{Class, op_flops};
use meshwork_propagate::rules::{RuleResult, splitting_rule};

use super::places::{Places, Roles, Ways};
use super::{fastest, is_product, product_seconds, rounds};

/// How many operations are looked at as those that others come before or behind.
const BETWEEN: usize = 128;

/// What each operation of a body computes at least.
pub(super) struct Computing<'a> {
    /// Loops over elements that start in every plan, by the operation that leads them.
    pub(super) led: &'a HashSet<OpId>,
    /// Seconds that such a loop takes to start.
    pub(super) start: f64,
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
    let mut run =
        Run { module, machine, computing, places, there: HashMap::default(), devices: mesh.device_count() as f64 };
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
    computing: &'a Computing<'a>,
    places: Places<'a>,
    there: HashMap<ValueId, There>,
    devices: f64,
}

impl Run<'_> {
    /// Goes through a body, and says how long it takes at least.
    fn through(&mut self, body: BlockId) -> f64 {
        let ops = self.module.op_list(body);
        let takes: Vec<f64> = ops.iter().map(|&op| self.alone(op)).collect();
        let graph = Graph::of(self.module, &ops);
        let waited_for: Vec<usize> = (0..ops.len())
            .filter(|&i| is_product(self.module, ops[i]) || self.module.op(ops[i]).kind() == BodyOp::Reduce)
            .collect();
        let every = waited_for.len().div_ceil(BETWEEN).max(1);
        let mut looked_at = waited_for.into_iter().step_by(every).peekable();
        let mut end: f64 = 0.0;
        for (i, &op) in ops.iter().enumerate() {
            let mut made = self.made(op, takes[i]);
            if looked_at.next_if_eq(&i).is_some() {
                let before = graph.sum(&graph.before, i, &takes) + takes[i];
                made.iter_mut().for_each(|there| there.wait_until(before));
                let first = made.iter().map(There::first).fold(before, f64::max);
                end = end.max(first + graph.sum(&graph.behind, i, &takes));
            }
            for (&result, there) in self.module.op(op).results().iter().zip(made) {
                end = end.max(there.first());
                self.there.insert(result, there);
            }
        }
        end
    }

    /// Seconds that `op` computes at least, shared evenly, with all that is inside it.
    fn alone(&self, op: OpId) -> f64 {
        let product = |op: OpId| product_seconds(self.module, op, self.machine, self.devices);
        if let Some(seconds) = product(op) {
            return seconds;
        }
        if self.computing.led.contains(&op) {
            let written = self.module.op(op).results().iter().map(|&v| bytes(self.module, v)).sum::<f64>();
            return self.computing.start + written / self.devices / fastest(self.machine);
        }
        let inside = self.module.ops_below(op, Walk::PreOrder).into_iter();
        inside.filter_map(|inner| Some(product(inner)? * rounds(self.module, inner))).sum()
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
            let held = |ways: &[Rc<Ways>], roles: &[Roles]| -> f64 {
                ways.iter().zip(roles).map(|(ways, roles)| ways.held[ways.place(roles)]).sum()
            };
            let (read, written) = (held(&of_operands, &from), held(&of_results, &to));
            let end = start + self.seconds(op, &rule, &chosen, read, written);
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

    /// Seconds that `op` computes if it is split in a way.
    fn seconds(&self, op: OpId, rule: &OpShardingRule, chosen: &[Use], read: f64, written: f64) -> f64 {
        if self.computing.led.contains(&op) {
            return self.computing.start + written / fastest(self.machine);
        }
        if !is_product(self.module, op) {
            return 0.0;
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
        device.curve(class).microseconds * 1e-6 + arithmetic.max((read + written) / fastest(self.machine))
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

/// Which operations of a body come right before and right behind each.
struct Graph {
    before: Vec<Vec<usize>>,
    behind: Vec<Vec<usize>>,
}

impl Graph {
    fn of(module: &Module, ops: &[OpId]) -> Graph {
        let number: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
        let mut graph = Graph { before: vec![vec![]; ops.len()], behind: vec![vec![]; ops.len()] };
        for (i, &op) in ops.iter().enumerate() {
            for &v in module.op(op).operands() {
                if let Some(&from) = module.def_op(v).and_then(|from| number.get(&from)) {
                    graph.before[i].push(from);
                    graph.behind[from].push(i);
                }
            }
        }
        graph
    }

    /// The sum of `takes` of all operations that `next` leads to from `i`, without itself.
    fn sum(&self, next: &[Vec<usize>], i: usize, takes: &[f64]) -> f64 {
        let (mut seen, mut work, mut sum) = (vec![false; takes.len()], vec![i], 0.0);
        seen[i] = true;
        while let Some(at) = work.pop() {
            for &other in &next[at] {
                if !seen[other] {
                    seen[other] = true;
                    sum += takes[other];
                    work.push(other);
                }
            }
        }
        sum
    }
}
