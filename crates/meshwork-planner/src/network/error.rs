//! What is wrong with a network.

use thiserror::Error;

/// What is wrong with a network or a labelling of it.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum NetworkError {
    /// A node without labels.
    #[error("node {node} has no labels: give it at least one, with an infinite cost if none is allowed")]
    NoLabels {
        /// The number the node would have.
        node: usize,
    },
    /// A cost of a label that is not a number or minus infinity.
    #[error("node {node}: label {label} costs {cost}; costs are finite, or infinite to forbid a label")]
    Cost {
        /// The node.
        node: usize,
        /// The label.
        label: usize,
        /// Its cost.
        cost: f64,
    },
    /// A cost of a pair that is not a number or minus infinity.
    #[error("edge {a}-{b}: labels {} and {} cost {cost}; costs are finite, or infinite to forbid a pair", pair[0], pair[1])]
    PairCost {
        /// The first end.
        a: usize,
        /// The second end.
        b: usize,
        /// The labels of the two.
        pair: [usize; 2],
        /// Its cost.
        cost: f64,
    },
    /// A node that there is not.
    #[error("node {node} of a network with {nodes} nodes")]
    UnknownNode {
        /// The node.
        node: usize,
        /// How many there are.
        nodes: usize,
    },
    /// A label that the node does not have.
    #[error("label {label} of node {node}, which has {labels} labels")]
    UnknownLabel {
        /// The node.
        node: usize,
        /// The label.
        label: usize,
        /// How many the node has.
        labels: usize,
    },
    /// Not one usage for each label.
    #[error("node {node} has {labels} labels, but {given} usages are given")]
    Usages {
        /// The node.
        node: usize,
        /// How many labels it has.
        labels: usize,
        /// How many usages there are.
        given: usize,
    },
    /// An interval that ends before it starts.
    #[error("node {node} uses memory from time {start} to {end}: it ends before it starts")]
    Times {
        /// The node.
        node: usize,
        /// The first time.
        start: usize,
        /// The time after the last.
        end: usize,
    },
    /// Not one cost for each pair of labels.
    #[error("edge {a}-{b} needs {rows}x{columns} costs, one for each pair of labels, but {given} are given")]
    Pairs {
        /// The first end.
        a: usize,
        /// The second end.
        b: usize,
        /// How many labels the first end has.
        rows: usize,
        /// How many labels the second end has.
        columns: usize,
        /// How many costs there are.
        given: usize,
    },
    /// An edge from a node to itself.
    #[error("an edge from node {node} to itself: add its costs to those of the node's labels")]
    Loop {
        /// The node.
        node: usize,
    },
    /// Not one label for each node.
    #[error("a labelling of {given} nodes for a network of {nodes}")]
    Labelling {
        /// How many nodes there are.
        nodes: usize,
        /// How many labels are given.
        given: usize,
    },
    /// Usages whose sum does not fit.
    #[error("usages sum up to {total}, more than {}: use a larger unit", i64::MAX)]
    TooMuch {
        /// The sum of the largest usages.
        total: u128,
    },
}
