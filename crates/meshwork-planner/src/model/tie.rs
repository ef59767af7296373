//! Layers that repeat are decided about once: instances that look alike, with what surrounds them, are tied.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use meshwork_ir::{Module, Type};
use meshwork_propagate::rules::{RuleResult, splitting_rule};

use super::graph::{Graph, Kind};

/// Instances up to which nothing is tied.
const FEW: usize = 1500;
/// How far around an instance has to look like another.
const STEPS: usize = 4;

/// For each instance the number of its class; classes are numbered by first appearance.
pub(super) fn classes(module: &Module, graph: &Graph) -> Vec<usize> {
    let count = graph.instances.len();
    if count <= FEW {
        return (0..count).collect();
    }
    let mut marks: Vec<u64> = graph.instances.iter().enumerate().map(|(i, _)| own(module, graph, i)).collect();
    for _ in 0..STEPS {
        let mut around: Vec<Vec<(usize, usize, u64)>> = vec![vec![]; count];
        for flow in &graph.flows {
            around[flow.to.0].push((0, flow.to.1, mix(&(marks[flow.from.0], flow.from.1))));
            around[flow.from.0].push((1, flow.from.1, mix(&(marks[flow.to.0], flow.to.1))));
        }
        let next = around.iter_mut().zip(&marks).map(|(list, own)| {
            list.sort_unstable();
            mix(&(own, &*list))
        });
        marks = next.collect();
    }
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    marks
        .iter()
        .map(|mark| {
            let next = numbers.len();
            *numbers.entry(*mark).or_insert(next)
        })
        .collect()
}

fn mix(parts: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// What an instance is by itself.
fn own(module: &Module, graph: &Graph, instance: usize) -> u64 {
    let data = &graph.instances[instance];
    let ty = |ty: &Type| (ty.dims().to_vec(), ty.elem().map(|elem| elem.storage_bytes()));
    let types: Vec<_> = data.operands.iter().chain(&data.results).map(|&v| ty(module.ty(v))).collect();
    let runs = data.runs.to_bits();
    match data.kind {
        Kind::Argument(_) => mix(&("argument", types)),
        Kind::Joined => mix(&("joined", types, runs)),
        Kind::Operation(op) => {
            let rule = match splitting_rule(module, op) {
                RuleResult::Rule(rule) => Some(rule),
                RuleResult::None(_) => None,
            };
            mix(&(module.op(op).name().to_string(), types, runs, rule))
        }
    }
}
