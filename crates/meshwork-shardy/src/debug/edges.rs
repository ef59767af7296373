//! From which operand or result of an op each axis came: `sdy.propagation_edges`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use meshwork_ir::{Attr, Module, OpId, Walk};
use meshwork_mesh::AxisRef;
use meshwork_propagate::why::{Node, Step, Trace};

/// Name of the attribute.
pub const PROPAGATION_EDGES: &str = "sdy.propagation_edges";
/// Name of the list for block arguments of ops with data-flow edges.
pub const BLOCK_ARG_EDGES: &str = "sdy.block_arg_propagation_edges";
/// Name of the list for results of ops with data-flow edges.
pub const RESULT_EDGES: &str = "sdy.result_propagation_edges";

/// An operand or a result; operands come first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Tensor {
    Operand(usize),
    Result(usize),
}

impl Tensor {
    fn of(step: &Step, index: usize) -> Tensor {
        match index.checked_sub(step.num_operands) {
            None => Tensor::Operand(index),
            Some(result) => Tensor::Result(result),
        }
    }
}

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tensor::Operand(i) => write!(f, "operand-{i}"),
            Tensor::Result(i) => write!(f, "result-{i}"),
        }
    }
}

/// The edges of one op: the first step at which each axis went from one tensor to another.
#[derive(Default)]
struct Edges(BTreeMap<(AxisRef, Tensor, Tensor), usize>);

impl Edges {
    fn add(&mut self, axis: &AxisRef, source: Tensor, target: Tensor, step: usize) {
        let first = self.0.entry((axis.clone(), source, target)).or_insert(step);
        *first = step.min(*first);
    }

    fn attr(&self) -> Attr {
        let mut steps: BTreeMap<usize, BTreeMap<(&AxisRef, Tensor), BTreeSet<Tensor>>> = BTreeMap::new();
        for ((axis, source, target), &step) in &self.0 {
            steps.entry(step).or_default().entry((axis, *source)).or_default().insert(*target);
        }
        let steps: Vec<String> = steps
            .iter()
            .map(|(step, moves)| {
                let moves: Vec<String> = moves
                    .iter()
                    .map(|((axis, source), targets)| {
                        let targets: Vec<String> = targets.iter().map(Tensor::to_string).collect();
                        format!("{{{axis} = {source} -> [{}]}}", targets.join(", "))
                    })
                    .collect();
                format!("{{step-{step} = [{}]}}", moves.join(", "))
            })
            .collect();
        Attr::Opaque(format!("#sdy.propagation_edges<[{}]>", steps.join(", ")).into())
    }
}

/// The first step number that no op of `module` mentions.
pub fn next_step(module: &Module) -> usize {
    let steps = module.all_ops(Walk::PreOrder).into_iter().filter_map(|op| {
        let Some(Attr::Opaque(text)) = module.op(op).attr(PROPAGATION_EDGES) else { return None };
        let number = |part: &str| part.split(' ').next()?.parse::<usize>().ok();
        text.split("step-").skip(1).filter_map(number).max()
    });
    steps.max().map_or(0, |last| last + 1)
}

/// Puts the edges of `trace`, whose first step has number `first`, on the ops and function results of `module`.
pub fn save(module: &mut Module, trace: &Trace, first: usize) {
    let mut by_op: HashMap<(OpId, Option<usize>), Edges> = HashMap::new();
    for (number, step) in trace.steps().iter().enumerate() {
        let result = step.nodes.iter().flatten().find_map(|node| match node {
            Node::FuncResult(index) => Some(*index),
            Node::Value(_) => None,
        });
        let edges = by_op.entry((step.op, result)).or_default();
        for m in &step.moves {
            let Some(source) = m.source else { continue };
            for axis in &m.axes {
                edges.add(axis, Tensor::of(step, source), Tensor::of(step, m.target), first + number);
            }
        }
    }
    for ((op, result), edges) in by_op {
        if edges.0.is_empty() || module.is_erased(op) {
            continue;
        }
        match result {
            Some(index) => module.set_res_attr(op, index, PROPAGATION_EDGES, Some(edges.attr())),
            None => drop(module.op_mut(op).attrs.set(PROPAGATION_EDGES, edges.attr())),
        }
    }
}

/// Notes on a constraint that its input took its placement from it at step `step`.
pub fn save_constraint(module: &mut Module, constraint: OpId, step: usize) {
    let Some(sharding) = module.op(constraint).attr("sharding").and_then(Attr::as_sharding) else { return };
    let mut edges = Edges::default();
    for axis in sharding.dim_axes() {
        edges.add(axis, Tensor::Result(0), Tensor::Operand(0), step);
    }
    if !edges.0.is_empty() {
        module.op_mut(constraint).attrs.set(PROPAGATION_EDGES, edges.attr());
    }
}
