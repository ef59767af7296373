//! How a value came to be placed as it is, in words.

use meshwork_ir::{Module, OpId, ValueId};
use meshwork_mesh::AxisRef;
use meshwork_propagate::Provenance;
use meshwork_propagate::program::sharding_of;
use meshwork_propagate::why::{Chain, Link, Node, why};

use crate::plan::cause::{Namer, Sources, argument_name, dims_text, place_of, short_name, short_type};

/// Explains how values of a program came to be placed.
pub struct Explainer<'a> {
    /// The program as it was written.
    pub written: &'a Module,
    /// What its propagation noted.
    pub provenance: &'a Provenance,
}

impl Explainer<'_> {
    /// The program whose values it explains.
    pub fn module(&self) -> &Module {
        &self.provenance.module
    }

    /// What a value is: `dot_general at line 7`, `argument 1 (w)`.
    pub fn name(&self, v: ValueId) -> String {
        match (argument_name(self.module(), v), meshwork_propagate::program::owning_op(self.module(), v)) {
            (Some(name), _) => name,
            (None, Some(op)) => {
                let (name, place) = (short_name(self.module().op(op).name()), place_of(self.module(), op));
                if place.is_empty() { name } else { format!("{name} at {place}") }
            }
            (None, None) => "a value".into(),
        }
    }

    /// What a node is: a value as [`name`](Explainer::name) calls it, or `result 0`.
    pub fn node(&self, node: Node) -> String {
        match node {
            Node::Value(v) => self.name(v),
            Node::FuncResult(index) => format!("result {index}"),
        }
    }

    /// For each dimension of `v`, or for the `only` one: the operations that its axes came through, back to what was
    /// annotated, and the axes of neighbors that it did not take.
    pub fn explain(&self, v: ValueId, only: Option<usize>) -> String {
        let ty = self.module().ty(v);
        let rank = ty.dims().len();
        let placed = sharding_of(self.module(), v);
        let shown = placed.as_ref().map_or("not placed: every device has all of it".to_string(), dims_text);
        let mut out = format!("{}, {}: {shown}\n", self.name(v), short_type(ty));
        for dim in (0..rank).filter(|&d| only.is_none_or(|o| o == d)) {
            let reasons = why(self.module(), &self.provenance.trace, v, dim);
            let extent = ty.dims()[dim];
            if reasons.axes.is_empty() {
                out.push_str(&format!("  dimension {dim} ({extent}): whole\n"));
            }
            for (axis, chain) in &reasons.axes {
                out.push_str(&format!("  dimension {dim} ({extent}): split by {axis}\n"));
                out.push_str(&self.chain(chain, axis));
            }
            for no in &reasons.rejected {
                let from = self.name(no.from);
                let through = self.name_of_op(no.op);
                let through = if through == from { String::new() } else { format!(" through {through}") };
                out.push_str(&format!("    not {} of {from}{through}: {}\n", no.axis, no.reason));
            }
        }
        out
    }

    /// What an operation is: `dot_general at line 7`.
    pub fn name_of_op(&self, op: OpId) -> String {
        let (name, place) = (short_name(self.module().op(op).name()), place_of(self.module(), op));
        if place.is_empty() { name } else { format!("{name} at {place}") }
    }

    fn chain(&self, chain: &Chain, axis: &AxisRef) -> String {
        let mut out = String::new();
        for link in &chain.links {
            match link {
                Link::Op(link) => {
                    let (from, through) = (self.node(link.from), self.name_of_op(link.op));
                    let through = if through == from { String::new() } else { format!(", through {through}") };
                    out.push_str(&format!("    from dimension {} of {from}{through}\n", link.from_dim));
                }
                Link::Group { from, .. } => {
                    out.push_str(&format!("    as {}, of the same sharding group\n", self.name(*from)));
                }
            }
        }
        out.push_str(&format!("    {}\n", self.origin(chain.origin, axis)));
        out
    }

    /// Where a chain ends: the annotation of `node`, or that `axis` starts there.
    pub fn origin(&self, node: Node, axis: &AxisRef) -> String {
        let sources = Some(Sources { written: self.written, provenance: self.provenance });
        let namer = Namer { program: self.module(), sources };
        match namer.annotation_at(node) {
            Some(annotation) => format!("annotated: {annotation}"),
            None => format!("{axis} starts at {}", self.node(node)),
        }
    }
}
