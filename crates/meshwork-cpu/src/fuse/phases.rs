//! From a graph to the code of a kernel: what is computed once per row, what per element, and in which order.
//!
//! A node waits for as many reductions as its level says. Phase `once L` computes scalars of level `L`, phase `row L`
//! the elements. An element of a lower level that a later phase needs is computed again if that is cheap, and kept in
//! a temporary row otherwise.

use std::collections::BTreeMap;

use meshwork_ir::OpKind;
use meshwork_ir::hash::HashMap;

use super::graph::{Graph, Id, Node};
use super::nest::operands;
use super::numbers::{self, is_float};
use crate::kernel::ir::{Arg, BinaryOp, Body, Extent, Op, Phase, Ty, Val};

/// Where a node goes.
#[derive(Debug)]
pub(crate) struct Output {
    pub node: Id,
    pub arg: u16,
    /// Whether there is one element per row.
    pub once: bool,
}

/// What is to be put into phases.
pub(crate) struct Job<'a> {
    pub graph: &'a Graph,
    pub live: &'a [bool],
    /// Dimensions of the domain that the row runs over.
    pub row_mask: u32,
    pub n: i64,
    pub outputs: &'a [Output],
    pub inputs: HashMap<u32, u16>,
    pub counters: HashMap<u32, u8>,
    /// Counters of the bytes by which places to pick from move along the row.
    pub steps: HashMap<u32, u8>,
}

/// Rows shorter than this compute everything per element unless there are reductions.
const SHORT_ROW: i64 = 32;

/// An element that costs more than this to compute again is kept.
const KEEP_ABOVE: u32 = 3;

struct Plan<'a> {
    job: &'a Job<'a>,
    uses: Vec<u32>,
    /// Scalars passed between phases.
    scalars: BTreeMap<Id, u16>,
    temps: BTreeMap<Id, u16>,
    /// Whether scalars get phases of their own.
    separate: bool,
}

/// The code, and the cost of an element in additions.
pub(crate) fn body(job: &Job<'_>, args: Vec<Arg>) -> (Body, u32) {
    let graph = job.graph;
    let has_reduce = graph.nodes.iter().zip(job.live).any(|(i, &l)| l && matches!(i.node, Node::Reduce(..)));
    let mut uses = vec![0; graph.nodes.len()];
    for (info, _) in graph.nodes.iter().zip(job.live).filter(|&(_, &l)| l) {
        operands(&info.node).iter().flatten().for_each(|&o| uses[o as usize] += 1);
    }
    job.outputs.iter().for_each(|o| uses[o.node as usize] += 1);
    let separate = has_reduce || job.n >= SHORT_ROW;
    let mut plan = Plan { job, uses, scalars: BTreeMap::new(), temps: BTreeMap::new(), separate };
    plan.find_scalars();
    plan.find_temps();
    let top = (0..graph.nodes.len()).filter(|&i| job.live[i]).map(|i| graph.nodes[i].level).max().unwrap_or(0);
    let mut phases = vec![];
    let mut cost = 0;
    for level in 0..=top {
        for extent in [Extent::Once, Extent::Row] {
            let phase = plan.phase(extent, level);
            if !phase.ops.is_empty() {
                if extent == Extent::Row {
                    cost += phase.ops.iter().map(op_cost).sum::<u32>();
                }
                phases.push(phase);
            }
        }
    }
    let temps = plan.temps.keys().map(|&id| graph.ty(id)).collect();
    (Body { args, temps, scalars: plan.scalars.len() as u16, phases }, cost)
}

fn op_cost(op: &Op) -> u32 {
    match op {
        Op::Const(..) | Op::Scalar(..) => 0,
        Op::Unary(f, _) => numbers::cost(OpKind::Unary(*f)),
        Op::Binary(f, ..) => numbers::cost(OpKind::Binary(*f)),
        Op::LoadAt(..) => super::PICK_COST,
        _ => 1,
    }
}

impl Plan<'_> {
    fn node(&self, id: Id) -> &Node {
        &self.job.graph.nodes[id as usize].node
    }

    fn level(&self, id: Id) -> u16 {
        self.job.graph.nodes[id as usize].level
    }

    fn is_leaf(&self, id: Id) -> bool {
        matches!(self.node(id), Node::Const(_) | Node::Load(_) | Node::Index(_))
    }

    /// Whether the node is the same all along the row, and computed in a phase of its own kind.
    fn is_once(&self, id: Id) -> bool {
        let info = &self.job.graph.nodes[id as usize];
        matches!(info.node, Node::Reduce(..)) || (self.separate && info.mask & self.job.row_mask == 0)
    }

    fn live(&self) -> impl Iterator<Item = Id> + '_ {
        (0..self.job.live.len() as Id).filter(|&i| self.job.live[i as usize])
    }

    fn find_scalars(&mut self) {
        let mut wanted: Vec<Id> = vec![];
        for id in self.live() {
            let node = self.node(id);
            let reduces = matches!(node, Node::Reduce(..));
            if reduces {
                wanted.push(id);
            }
            // Elements take scalars from their phase; so does a reduction, which runs over elements.
            if reduces || !self.is_once(id) {
                wanted.extend(operands(node).iter().flatten().filter(|&&o| self.is_once(o) && !self.is_leaf(o)));
            }
        }
        for out in self.job.outputs.iter().filter(|o| !o.once) {
            if self.is_once(out.node) && !self.is_leaf(out.node) {
                wanted.push(out.node);
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        self.scalars = wanted.into_iter().enumerate().map(|(i, id)| (id, i as u16)).collect();
    }

    fn find_temps(&mut self) {
        let mut later = vec![false; self.job.live.len()];
        for id in self.live() {
            if matches!(self.node(id), Node::Reduce(..)) {
                continue;
            }
            for o in operands(self.node(id)).into_iter().flatten() {
                later[o as usize] |= self.level(id) > self.level(o);
            }
        }
        let mut again = vec![0u32; self.job.live.len()];
        let mut kept = vec![];
        for id in self.live() {
            let i = id as usize;
            if self.is_once(id) {
                continue;
            }
            // What is shared counts once for each use: long chains of shared values grow beyond any number.
            let used = operands(self.node(id));
            let from = used.iter().flatten().fold(0u32, |sum, &o| sum.saturating_add(again[o as usize]));
            again[i] = match *self.node(id) {
                Node::Const(_) => 0,
                Node::Unary(f, _) => from.saturating_add(numbers::cost(OpKind::Unary(f))),
                Node::Binary(f, ..) => from.saturating_add(numbers::cost(OpKind::Binary(f))),
                Node::Pick(..) => from.saturating_add(super::PICK_COST),
                _ => from.saturating_add(1),
            };
            if later[i] && !self.is_leaf(id) && again[i] > KEEP_ABOVE {
                kept.push(id);
                again[i] = 1;
            }
        }
        self.temps = kept.into_iter().enumerate().map(|(i, id)| (id, i as u16)).collect();
    }

    fn phase(&self, extent: Extent, level: u16) -> Phase {
        let mut w = Writer { plan: self, extent, level, ops: vec![], known: HashMap::default() };
        // Everything is loaded before anything is stored: an output may be where an input lay.
        let mut last = vec![];
        match extent {
            Extent::Once => {
                for (&id, &slot) in &self.scalars {
                    if !matches!(self.node(id), Node::Reduce(..)) && self.level(id) == level {
                        last.push(Op::SetScalar(slot, w.emit(id)));
                    }
                }
                for out in self.job.outputs.iter().filter(|o| o.once && self.level(o.node) == level) {
                    last.push(Op::Store(out.arg, w.emit(out.node)));
                }
            }
            Extent::Row => {
                for (&id, &slot) in &self.scalars {
                    if let Node::Reduce(f, x) = *self.node(id)
                        && self.level(x) == level
                    {
                        last.push(Op::Reduce(f, slot, w.emit(x)));
                    }
                }
                for (&id, &slot) in self.temps.iter().filter(|&(&id, _)| self.level(id) == level) {
                    last.push(Op::StoreTemp(slot, w.emit(id)));
                }
                for out in self.job.outputs.iter().filter(|o| !o.once && self.level(o.node) == level) {
                    last.push(Op::Store(out.arg, w.emit(out.node)));
                }
            }
        }
        w.ops.append(&mut last);
        Phase { extent, ops: w.ops }
    }
}

struct Writer<'a> {
    plan: &'a Plan<'a>,
    extent: Extent,
    level: u16,
    ops: Vec<Op>,
    known: HashMap<Id, Val>,
}

impl Writer<'_> {
    /// The value of a node in this phase. Depth is bounded by the size of a group.
    fn emit(&mut self, id: Id) -> Val {
        if let Some(&v) = self.known.get(&id) {
            return v;
        }
        let plan = self.plan;
        let ty = plan.job.graph.ty(id);
        let from_before = plan.level(id) < self.level;
        let op = match (self.extent, plan.scalars.get(&id), plan.temps.get(&id)) {
            (Extent::Row, Some(&slot), _) if plan.is_once(id) => Op::Scalar(slot, ty),
            (Extent::Once, Some(&slot), _) if from_before || matches!(plan.node(id), Node::Reduce(..)) => {
                Op::Scalar(slot, ty)
            }
            (Extent::Row, _, Some(&slot)) if from_before => Op::LoadTemp(slot, ty),
            _ => self.compute(id),
        };
        self.ops.push(op);
        let v = (self.ops.len() - 1) as Val;
        self.known.insert(id, v);
        v
    }

    fn compute(&mut self, id: Id) -> Op {
        let plan = self.plan;
        let ty = plan.job.graph.ty(id);
        match *plan.node(id) {
            Node::Const(word) => Op::Const(ty, word),
            Node::Load(p) => Op::Load(plan.job.inputs[&p]),
            Node::Pick(p, at) => {
                let at = self.emit(at);
                let at = plan.job.steps.get(&p).map_or(at, |&slot| self.further(slot, at));
                Op::LoadAt(plan.job.inputs[&p], at)
            }
            Node::Index(p) => Op::Index(plan.job.counters[&p], ty),
            Node::Unary(f, x) => Op::Unary(f, self.emit(x)),
            Node::Binary(BinaryOp::Add, x, y) if is_float(ty) => self.sum(x, y),
            Node::Binary(f, x, y) => {
                let (x, y) = (self.emit(x), self.emit(y));
                Op::Binary(f, x, y)
            }
            Node::Compare(f, x, y) => {
                let (x, y) = (self.emit(x), self.emit(y));
                Op::Compare(f, x, y)
            }
            Node::Select(p, x, y) => {
                let (p, x, y) = (self.emit(p), self.emit(x), self.emit(y));
                Op::Select(p, x, y)
            }
            Node::Convert(x) => Op::Convert(ty, self.emit(x)),
            Node::Bitcast(x) => Op::Bitcast(ty, self.emit(x)),
            Node::Round(elem, x) => Op::Round(elem, self.emit(x)),
            // A reduction is always a scalar that an earlier phase has set.
            Node::Reduce(..) => Op::Scalar(plan.scalars[&id], ty),
        }
    }

    /// The place `at`, as much further on as the counter says.
    fn further(&mut self, slot: u8, at: Val) -> Val {
        self.ops.push(Op::Index(slot, Ty::I32));
        let by = (self.ops.len() - 1) as Val;
        self.ops.push(Op::Binary(BinaryOp::Add, at, by));
        by + 1
    }

    /// `x + y`, with a product that nothing else needs in one instruction.
    fn sum(&mut self, x: Id, y: Id) -> Op {
        for (product, other) in [(x, y), (y, x)] {
            let free = self.plan.uses[product as usize] == 1
                && !self.plan.scalars.contains_key(&product)
                && !self.plan.temps.contains_key(&product)
                && !self.plan.is_once(product);
            if let (true, Node::Binary(BinaryOp::Multiply, a, b)) =
                (free && self.extent == Extent::Row, *self.plan.node(product))
            {
                let (a, b, c) = (self.emit(a), self.emit(b), self.emit(other));
                return Op::MulAdd(a, b, c);
            }
        }
        let (x, y) = (self.emit(x), self.emit(y));
        Op::Binary(BinaryOp::Add, x, y)
    }
}
