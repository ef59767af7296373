//! Pairwise networks: nodes with a few labels each, costs of labels and of pairs of labels, and limits on what is used at a
//! time. Minimizing them gives proposals for shardings and a bound on how much better others can be.
//!
//! ```
//! use meshwork_planner::network::{Effort, Network, solve};
//!
//! // Two nodes with two labels each that want to differ, and room for one of them to take its large label.
//! let mut network = Network::new(Some(5));
//! let a = network.node(vec![0.0, 3.0])?;
//! let b = network.node(vec![0.0, 2.0])?;
//! network.usage(a, 0..2, vec![4, 1])?;
//! network.usage(b, 1..3, vec![4, 1])?;
//! network.edge(a, b, vec![1.0, 0.0, 0.0, 1.0])?;
//! let found = solve(&network, &Effort::default(), &|| false)?;
//! assert_eq!(found.labels, [0, 1]);
//! assert_eq!(found.cost, 2.0);
//! assert!(found.feasible() && found.bound <= found.cost);
//! # Ok::<(), meshwork_planner::network::NetworkError>(())
//! ```
//!
//! README.md in this folder says how it is solved.

mod block;
mod bound;
mod branch;
mod core;
mod dual;
mod error;
mod prices;
mod random;
mod reduce;
mod room;
mod search;
mod solve;
mod state;
mod times;

use std::ops::Range;
use std::sync::Arc;

pub use self::error::NetworkError;
pub use self::solve::{Effort, Outcome, solve};

/// A pairwise network.
///
/// A labelling picks one label for each node. Its cost is the sum of the costs of the labels and of the pairs of labels on
/// edges. It is feasible when its cost is finite and at no time more than the limit is used.
#[derive(Clone, Debug, Default)]
pub struct Network {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    limit: Option<u64>,
}

#[derive(Clone, Debug)]
struct Node {
    costs: Vec<f64>,
    spans: Vec<Span>,
}

/// What each label of a node uses during an interval of time.
#[derive(Clone, Debug, PartialEq)]
struct Span {
    times: Range<usize>,
    usage: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Edge {
    ends: [usize; 2],
    /// One cost for each pair of labels, the second end's label varying fastest.
    costs: Arc<[f64]>,
}

/// The most that all labels together may use: sums of usages then fit into 64 bits with their sign.
const MOST_USAGE: u64 = i64::MAX as u64;

impl Network {
    /// A network without nodes, in which at most `limit` may be used at any time.
    pub fn new(limit: Option<u64>) -> Self {
        Self { nodes: Vec::new(), edges: Vec::new(), limit }
    }

    /// Sets how much may be used at any time.
    pub fn set_limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    /// Adds a node with these costs of its labels, and returns its number. An infinite cost forbids a label.
    pub fn node(&mut self, costs: Vec<f64>) -> Result<usize, NetworkError> {
        let node = self.nodes.len();
        if costs.is_empty() {
            return Err(NetworkError::NoLabels { node });
        }
        if let Some(label) = costs.iter().position(|cost| cost.is_nan() || *cost == f64::NEG_INFINITY) {
            return Err(NetworkError::Cost { node, label, cost: costs[label] });
        }
        self.nodes.push(Node { costs, spans: Vec::new() });
        Ok(node)
    }

    /// Adds to what the labels of a node use during an interval of time.
    pub fn usage(&mut self, node: usize, times: Range<usize>, usage: Vec<u64>) -> Result<(), NetworkError> {
        let labels = self.labels(node)?;
        if usage.len() != labels {
            return Err(NetworkError::Usages { node, labels, given: usage.len() });
        }
        if times.start > times.end {
            return Err(NetworkError::Times { node, start: times.start, end: times.end });
        }
        if !times.is_empty() {
            self.nodes[node].spans.push(Span { times, usage });
        }
        Ok(())
    }

    /// Adds an edge with these costs of pairs of labels, the label of `b` varying fastest. An infinite cost forbids a pair.
    /// Several edges between the same nodes add up. Edges with equal costs may share them.
    pub fn edge(&mut self, a: usize, b: usize, costs: impl Into<Arc<[f64]>>) -> Result<(), NetworkError> {
        let costs = costs.into();
        let (rows, columns) = (self.labels(a)?, self.labels(b)?);
        if a == b {
            return Err(NetworkError::Loop { node: a });
        }
        if costs.len() != rows * columns {
            return Err(NetworkError::Pairs { a, b, rows, columns, given: costs.len() });
        }
        if let Some(at) = costs.iter().position(|cost| cost.is_nan() || *cost == f64::NEG_INFINITY) {
            return Err(NetworkError::PairCost { a, b, pair: [at / columns, at % columns], cost: costs[at] });
        }
        self.edges.push(Edge { ends: [a, b], costs });
        Ok(())
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// How many labels a node has.
    pub fn labels(&self, node: usize) -> Result<usize, NetworkError> {
        match self.nodes.get(node) {
            Some(found) => Ok(found.costs.len()),
            None => Err(NetworkError::UnknownNode { node, nodes: self.nodes.len() }),
        }
    }

    /// The cost of a labelling, and by how much it exceeds the limit at the worst time.
    pub fn evaluate(&self, labels: &[usize]) -> Result<(f64, u64), NetworkError> {
        if labels.len() != self.nodes.len() {
            return Err(NetworkError::Labelling { nodes: self.nodes.len(), given: labels.len() });
        }
        let mut cost = 0.0;
        let mut changes: Vec<(usize, i128)> = Vec::new();
        for (node, (data, &label)) in self.nodes.iter().zip(labels).enumerate() {
            let Some(own) = data.costs.get(label) else {
                return Err(NetworkError::UnknownLabel { node, label, labels: data.costs.len() });
            };
            cost += own;
            for span in &data.spans {
                changes.push((span.times.start, i128::from(span.usage[label])));
                changes.push((span.times.end, -i128::from(span.usage[label])));
            }
        }
        for edge in &self.edges {
            let [a, b] = edge.ends;
            cost += edge.costs[labels[a] * self.nodes[b].costs.len() + labels[b]];
        }
        // At one time ends come before starts.
        changes.sort_unstable();
        let (mut used, mut most) = (0i128, 0i128);
        for (_, change) in changes {
            used += change;
            most = most.max(used);
        }
        let excess = match self.limit {
            Some(limit) => u64::try_from((most - i128::from(limit)).max(0)).unwrap_or(u64::MAX),
            None => 0,
        };
        Ok((cost, excess))
    }

    /// Checks that sums of usages can be formed.
    fn check(&self) -> Result<(), NetworkError> {
        let most = |node: &Node| -> u128 {
            node.spans.iter().map(|span| u128::from(span.usage.iter().copied().max().unwrap_or(0))).sum()
        };
        let total: u128 = self.nodes.iter().map(most).sum();
        if total > u128::from(MOST_USAGE) { Err(NetworkError::TooMuch { total }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
