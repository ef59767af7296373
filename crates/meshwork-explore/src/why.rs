//! The history of placements: for every value, dimension and axis, the chain of operations that the axis came through.
//!
//! Chains share their ends, so they are one table of links: each says where the axis came from, through which operation, and
//! which link is next. A link without a next one ends in an annotation.

use meshwork_ir::ValueId;
use meshwork_ir::hash::HashMap;
use meshwork_mesh::AxisRef;
use meshwork_partition::plan::{Explainer, PlacedValue};
use meshwork_propagate::Provenance;
use meshwork_propagate::program::{shardable_value, sharding_of};
use meshwork_propagate::why::{Link, Node};
use serde_json::{Value, json};

use crate::program::Program;

/// A table of links, and where the chains of each value start.
pub fn history(program: &Program, values: &[PlacedValue]) -> Value {
    let mut chains = Chains::default();
    let mut starts: Vec<Value> = vec![];
    if let Some(provenance) = &program.compiled.provenance {
        let explainer = Explainer { written: &program.written, provenance };
        chains.values = values.iter().enumerate().map(|(i, v)| (v.value, i)).collect();
        for v in values {
            starts.push(chains.of_value(&explainer, v.value).into());
        }
    }
    let causes = program.compiled.plan.collectives.iter().map(|c| {
        let of = |v: Option<ValueId>| v.and_then(|v| chains.values.get(&v)).map_or(-1, |&i| i as i64);
        c.collective.origins.iter().map(|origin| of(origin.tensor)).collect::<Value>()
    });
    let causes: Value = causes.collect();
    json!({
        "names": chains.names.list,
        "links": {
            "from": chains.links.iter().map(|l| l.from as i64).collect::<Value>(),
            "dim": chains.links.iter().map(|l| l.dim as i64).collect::<Value>(),
            "through": chains.links.iter().map(|l| l.through).collect::<Value>(),
            "value": chains.links.iter().map(|l| l.value).collect::<Value>(),
            "next": chains.links.iter().map(|l| l.next).collect::<Value>(),
        },
        "starts": starts,
        "causes": causes,
    })
}

struct Entry {
    /// Name of what had the axis before.
    from: usize,
    dim: usize,
    /// Name of the operation it came through; -1 for members of one group.
    through: i64,
    /// Number of the value it came from; -1 if the placed program does not have it.
    value: i64,
    /// Number of the next link, or -1 - the number of the name that says where the chain ends.
    next: i64,
}

#[derive(Default)]
struct Names {
    list: Vec<String>,
    index: HashMap<String, usize>,
}

impl Names {
    fn number(&mut self, name: String) -> usize {
        let next = self.list.len();
        *self.index.entry(name).or_insert_with_key(|name| {
            self.list.push(name.clone());
            next
        })
    }
}

/// What decides the rest of a chain.
type Key = (Link, usize, AxisRef);

#[derive(Default)]
struct Chains {
    links: Vec<Entry>,
    known: HashMap<Key, usize>,
    names: Names,
    values: HashMap<ValueId, usize>,
}

impl Chains {
    /// For each dimension and axis of `v`: `[dimension, axis, first link]`, the link as in [`Entry::next`].
    fn of_value(&mut self, explainer: &Explainer<'_>, v: ValueId) -> Vec<Value> {
        let Provenance { module, .. } = explainer.provenance;
        // Values that were made after propagation have no history.
        if v.index() >= module.value_slots() {
            return vec![];
        }
        let v = shardable_value(module, v).unwrap_or(v);
        let Some(placed) = sharding_of(module, v) else { return vec![] };
        let mut out = vec![];
        for (dim, sharding) in placed.dims.iter().enumerate() {
            for axis in &sharding.axes {
                let first = self.chain(explainer, Node::Value(v), dim, axis);
                out.push(json!([dim, axis.to_string().replace('"', ""), first]));
            }
        }
        out
    }

    fn chain(&mut self, explainer: &Explainer<'_>, node: Node, dim: usize, axis: &AxisRef) -> i64 {
        let trace = &explainer.provenance.trace;
        let (mut node, mut dim, mut limit) = (node, dim, trace.len());
        let mut new: Vec<usize> = vec![];
        let end = loop {
            let Some(link) = trace.link(node, dim, axis, limit) else {
                let name = self.names.number(explainer.origin(node, axis));
                break -1 - name as i64;
            };
            let key = (link, dim, axis.clone());
            if let Some(&known) = self.known.get(&key) {
                break known as i64;
            }
            let number = self.links.len();
            let (from, from_dim, step) = key.0.source(dim);
            let name = self.names.number(explainer.node(from));
            let through = match &key.0 {
                Link::Op(link) => self.names.number(explainer.name_of_op(link.op)) as i64,
                Link::Group { .. } => -1,
            };
            let value = match from {
                Node::Value(v) => self.values.get(&v).map_or(-1, |&i| i as i64),
                Node::FuncResult(_) => -1,
            };
            self.links.push(Entry { from: name, dim: from_dim, through, value, next: -1 });
            self.known.insert(key, number);
            new.push(number);
            (node, dim, limit) = (from, from_dim, step);
        };
        let mut next = end;
        for &number in new.iter().rev() {
            self.links[number].next = next;
            next = number as i64;
        }
        next
    }
}
