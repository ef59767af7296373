//! Where placements came from: a trace of propagation, and the chain behind any value and dimension.
//!
//! A trace is only kept on request. Each step is one visit of an op that changed something, with the axes that moved,
//! the factor they moved along and the tensor that had them before. [`Trace::why`] follows the steps back to an
//! annotation. What a dimension did *not* take from its neighbors, and why, follows from the placements alone:
//! [`rejected`].

mod rejected;

use std::fmt;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::hash::HashMap;
use meshwork_ir::{Def, Module, OpId, ValueId};
use meshwork_mesh::AxisRef;

use crate::factors::{Axis, AxisList, CompiledRule, Prefix, Projection, TensorFactors, prefix_status};
use crate::program::{owning_op, shardable_value, sharding_of};

pub use rejected::{Reason, Rejected, rejected};

/// Something with a placement.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Node {
    /// A value.
    Value(ValueId),
    /// A result of the entry function.
    FuncResult(usize),
}

/// Axes that moved to one tensor along one factor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// The tensor of the op, operands first.
    pub target: usize,
    /// Its dimension.
    pub dim: usize,
    /// The factor.
    pub factor: usize,
    /// The axes that are new, parts merged with what the dimension gained before them.
    pub axes: Vec<AxisRef>,
    /// The first tensor that had them before, operands first.
    pub source: Option<usize>,
    /// The dimension of the source that the factor belongs to.
    pub source_dim: usize,
}

/// One visit that changed placements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The op; the entry function when its results are matched with what it returns.
    pub op: OpId,
    /// What the tensors are, operands first.
    pub nodes: Vec<Option<Node>>,
    /// Number of operands among them.
    pub num_operands: usize,
    /// What moved.
    pub moves: Vec<Move>,
}

impl Step {
    /// What changed between two projections of the same tensors.
    pub fn between(
        before: &Projection,
        after: &Projection,
        rule: &CompiledRule,
        op: OpId,
        nodes: Vec<Option<Node>>,
        name: impl Fn(Axis) -> AxisRef,
    ) -> Step {
        let mut moves = vec![];
        for (target, (old, new)) in before.tensors.iter().zip(&after.tensors).enumerate() {
            for (dim, factors) in rule.tensor(target).iter().enumerate() {
                dim_moves(before, old, new, factors, |factor, axes, source| {
                    let has_factor = |factors: &Vec<usize>| factors.contains(&factor);
                    let source_dim = source.and_then(|s| rule.tensor(s).iter().position(has_factor)).unwrap_or(0);
                    let axes = axes.iter().map(|&a| name(a)).collect();
                    moves.push(Move { target, dim, factor, axes, source, source_dim });
                });
            }
        }
        Step { op, nodes, num_operands: before.num_operands, moves }
    }
}

/// The axes that one dimension gained, factor by factor.
fn dim_moves(
    before: &Projection,
    old: &TensorFactors,
    new: &TensorFactors,
    factors: &[usize],
    mut moved: impl FnMut(usize, &[Axis], Option<usize>),
) {
    let mut gains: Vec<(usize, AxisList, Option<usize>)> = vec![];
    for &factor in factors {
        let (Some(old), Some(new)) = (&old.factors[factor], &new.factors[factor]) else { continue };
        if old.axes == new.axes {
            continue;
        }
        let source = before
            .tensors
            .iter()
            .position(|t| t.axes(factor).is_some_and(|have| prefix_status(&new.axes, have) != Prefix::No));
        // The last old axis may have grown.
        let grown = usize::from(old.axes.last().is_some_and(|last| new.axes.get(old.axes.len() - 1) != Some(last)));
        let mut gained: AxisList = new.axes[old.axes.len() - grown..].into();
        // A part that continues what the factor before gained is one axis with it.
        if let (Some((_, before, _)), Some(last)) = (gains.last_mut(), gained.last_mut())
            && let Some(&first_part) = before.last()
            && first_part.can_merge(*last)
        {
            *last = first_part.with_size(first_part.size * last.size);
            before.pop();
        }
        gains.push((factor, gained, source));
    }
    for (factor, axes, source) in gains {
        moved(factor, &axes, source);
    }
}

/// What propagation did, step by step.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    steps: Vec<Step>,
    /// Per node and dimension, the steps and moves that changed it.
    by_target: HashMap<(Node, usize), Vec<(usize, usize)>>,
    /// Values that took the placement of another of their group, and at which step.
    grouped: HashMap<ValueId, Vec<(usize, ValueId)>>,
}

impl Trace {
    pub(crate) fn push(&mut self, step: Step) {
        let number = self.steps.len();
        for (i, m) in step.moves.iter().enumerate() {
            if let Some(node) = step.nodes.get(m.target).copied().flatten() {
                self.by_target.entry((node, m.dim)).or_default().push((number, i));
            }
        }
        self.steps.push(step);
    }

    pub(crate) fn group(&mut self, member: ValueId, from: ValueId) {
        self.grouped.entry(member).or_default().push((self.steps.len(), from));
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How `axis` came to split dimension `dim` of `node`: one link per op it passed, nearest first, ending with the
    /// annotation it started from.
    pub fn why(&self, node: Node, dim: usize, axis: &AxisRef) -> Chain {
        let mut links = vec![];
        let (mut node, mut dim, mut limit) = (node, dim, self.len());
        while let Some(link) = self.link(node, dim, axis, limit).filter(|link| !links.contains(link)) {
            (node, dim, limit) = link.source(dim);
            links.push(link);
        }
        Chain { links, origin: node, origin_dim: dim }
    }

    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing moved.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The last link of the chain behind `axis` in dimension `dim` of `node`, as it was after `limit` steps; `None` where
    /// the chain ends.
    pub fn link(&self, node: Node, dim: usize, axis: &AxisRef, limit: usize) -> Option<Link> {
        if let Some(link) = self.last_move(node, dim, axis, limit) {
            return Some(Link::Op(link));
        }
        let Node::Value(value) = node else { return None };
        let groups = self.grouped.get(&value)?;
        let &(step, from) = groups.iter().rev().find(|&&(s, _)| s <= limit && s > 0)?;
        (from != value).then_some(Link::Group { from, step })
    }

    fn last_move(&self, node: Node, dim: usize, axis: &AxisRef, limit: usize) -> Option<OpLink> {
        let moves = self.by_target.get(&(node, dim))?;
        moves.iter().rev().find_map(|&(number, index)| {
            let step = &self.steps[number];
            let m = &step.moves[index];
            if number >= limit || !m.axes.iter().any(|a| a.overlaps(axis)) {
                return None;
            }
            let from = step.nodes.get(m.source?).copied().flatten()?;
            Some(OpLink { step: number, op: step.op, factor: m.factor, from, from_dim: m.source_dim })
        })
    }
}

/// An op that an axis passed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OpLink {
    /// Which step of the trace.
    pub step: usize,
    /// The op.
    pub op: OpId,
    /// The factor of its rule.
    pub factor: usize,
    /// Where the axis came from.
    pub from: Node,
    /// The dimension there.
    pub from_dim: usize,
}

/// One step back.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Link {
    /// Through an op.
    Op(OpLink),
    /// From another value of the same sharding group.
    Group {
        /// The value.
        from: ValueId,
        /// At which step.
        step: usize,
    },
}

impl Link {
    /// Where it leads from dimension `dim`: what had the axis before, in which dimension, and after how many steps.
    pub fn source(&self, dim: usize) -> (Node, usize, usize) {
        match self {
            Link::Op(link) => (link.from, link.from_dim, link.step),
            Link::Group { from, step } => (Node::Value(*from), dim, *step),
        }
    }
}

/// How an axis came to a dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Nearest first.
    pub links: Vec<Link>,
    /// What was annotated.
    pub origin: Node,
    /// Which dimension of it.
    pub origin_dim: usize,
}

impl Chain {
    /// The chain in words, one line per link.
    pub fn describe(&self, module: &Module) -> String {
        let mut out = String::new();
        for link in &self.links {
            match link {
                Link::Op(link) => {
                    let factor = OpShardingRule::factor_name(link.factor);
                    let from = NodeName { module, node: link.from };
                    let op = module.describe(link.op);
                    out.push_str(&format!(
                        "through {op} along factor {factor}, from dimension {} of {from}\n",
                        link.from_dim
                    ));
                }
                Link::Group { from, .. } => {
                    out.push_str(&format!("as {} of the same group\n", NodeName { module, node: Node::Value(*from) }));
                }
            }
        }
        let origin = NodeName { module, node: self.origin };
        out.push_str(&format!("annotated: dimension {} of {origin}\n", self.origin_dim));
        out
    }
}

/// Why dimension `dim` of `value` is placed as it is: the chain behind each of its axes, and what it did not take.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Each axis of the dimension and how it came there.
    pub axes: Vec<(AxisRef, Chain)>,
    /// Axes of neighbors that it did not take.
    pub rejected: Vec<Rejected>,
}

/// Explains dimension `dim` of `value` after a traced propagation of `module`.
pub fn why(module: &Module, trace: &Trace, value: ValueId, dim: usize) -> Explanation {
    let node = Node::Value(shardable_value(module, value).unwrap_or(value));
    let axes = sharding_of(module, value).and_then(|s| s.dims.into_iter().nth(dim)).map_or(vec![], |d| d.axes);
    let axes = axes.into_iter().map(|axis| {
        let chain = trace.why(node, dim, &axis);
        (axis, chain)
    });
    Explanation { axes: axes.collect(), rejected: rejected(module, value, dim) }
}

impl Explanation {
    /// The explanation in words: one line per link of each axis, then what was rejected.
    pub fn describe(&self, module: &Module) -> String {
        let mut out = String::new();
        for (axis, chain) in &self.axes {
            out.push_str(&format!("{axis}:\n"));
            for line in chain.describe(module).lines() {
                out.push_str(&format!("  {line}\n"));
            }
        }
        for rejected in &self.rejected {
            out.push_str(&format!("not {}\n", rejected.describe(module)));
        }
        out
    }
}

/// A node in words.
struct NodeName<'m> {
    module: &'m Module,
    node: Node,
}

impl fmt::Display for NodeName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Node::FuncResult(index) => write!(f, "function result {index}"),
            Node::Value(value) => match self.module.value(value).def() {
                Def::Result(op, 0) => f.write_str(&self.module.describe(op)),
                Def::Result(op, i) => write!(f, "result {i} of {}", self.module.describe(op)),
                Def::Arg(_, i) => match owning_op(self.module, value) {
                    Some(op) => write!(f, "argument {i} of {}", self.module.describe(op)),
                    None => write!(f, "argument {i}"),
                },
            },
        }
    }
}
