//! Makes a network smaller without losing a best labelling: labels that cannot be, or are never better than another, go;
//! nodes that follow from a neighbour, or that use nothing and have at most two neighbours, are decided by these.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::Network;
use super::times::Times;

/// How the label of a removed node follows from labels of others.
enum Step {
    Fixed {
        node: usize,
        label: usize,
    },
    /// By the label of one node.
    Follows {
        node: usize,
        of: usize,
        choice: Vec<u32>,
    },
    /// By the labels of two nodes, the second varying fastest.
    Between {
        node: usize,
        of: [usize; 2],
        columns: usize,
        choice: Vec<u32>,
    },
}

/// A network in which labels and nodes may be gone.
pub(super) struct Reduced {
    pub(super) nodes: Vec<Item>,
    pub(super) edges: Vec<Link>,
    /// What may be used at each kept time by what is left.
    pub(super) limits: Vec<i64>,
    /// What the removed nodes cost whatever is chosen.
    pub(super) constant: f64,
    steps: Vec<Step>,
}

pub(super) struct Item {
    /// Whether the node is still to be decided.
    pub(super) open: bool,
    /// Whether each label is still possible.
    pub(super) alive: Vec<bool>,
    pub(super) costs: Vec<f64>,
    /// Usages during kept times.
    pub(super) spans: Vec<(Range<usize>, Vec<u64>)>,
    /// The edges at this node, by the other end.
    at: BTreeMap<usize, usize>,
}

#[derive(Clone)]
pub(super) struct Link {
    pub(super) ends: [usize; 2],
    pub(super) costs: Arc<[f64]>,
    pub(super) open: bool,
}

/// No labelling has a finite cost: this node has no label left.
pub(super) struct Impossible;

/// The most entries of a table that replaces a node between two others, and the most steps to compare a node's labels.
const LARGEST_TABLE: usize = 1 << 18;
const MOST_COMPARISONS: usize = 1 << 22;

impl Item {
    fn alive(&self) -> impl Iterator<Item = usize> + '_ {
        self.alive.iter().enumerate().filter(|(_, alive)| **alive).map(|(label, _)| label)
    }

    /// Whether a label uses no more than another at any time.
    fn uses_no_more(&self, label: usize, than: usize) -> bool {
        self.spans.iter().all(|(_, usage)| usage[label] <= usage[than])
    }
}

/// Reduces a network until nothing more can be done.
pub(super) fn reduce(network: &Network) -> Result<Reduced, Impossible> {
    let mut reduced = Reduced::new(network);
    let mut queue: VecDeque<usize> = (0..reduced.nodes.len()).collect();
    let mut queued = vec![true; reduced.nodes.len()];
    while let Some(node) = queue.pop_front() {
        queued[node] = false;
        if !reduced.nodes[node].open {
            continue;
        }
        for changed in reduced.visit(node)? {
            if !queued[changed] && reduced.nodes[changed].open {
                queued[changed] = true;
                queue.push_back(changed);
            }
        }
    }
    reduced.settle_usage();
    Ok(reduced)
}

impl Reduced {
    fn new(network: &Network) -> Self {
        let limit = network.limit.unwrap_or(u64::MAX);
        let most = |usage: &[u64]| usage.iter().copied().max().unwrap_or(0);
        let spans: Vec<(Range<usize>, u64)> = network
            .nodes
            .iter()
            .flat_map(|node| &node.spans)
            .map(|span| (span.times.clone(), most(&span.usage)))
            .collect();
        let times = Times::new(&spans, limit);
        let nodes: Vec<Item> = network
            .nodes
            .iter()
            .map(|node| Item {
                open: true,
                alive: vec![true; node.costs.len()],
                costs: node.costs.clone(),
                spans: node
                    .spans
                    .iter()
                    .map(|span| (times.within(&span.times), span.usage.clone()))
                    .filter(|(times, _)| !times.is_empty())
                    .collect(),
                at: BTreeMap::new(),
            })
            .collect();
        let limits = vec![i64::try_from(limit).unwrap_or(i64::MAX); times.len()];
        let mut reduced = Self { nodes, edges: Vec::new(), limits, constant: 0.0, steps: Vec::new() };
        for edge in &network.edges {
            reduced.join(edge.ends[0], edge.ends[1], edge.costs.clone());
        }
        reduced
    }

    /// The cost of a pair on an edge, `label` being that of `node`.
    fn pair(&self, edge: usize, node: usize, label: usize, other: usize) -> f64 {
        let link = &self.edges[edge];
        let columns = self.nodes[link.ends[1]].costs.len();
        if link.ends[0] == node { link.costs[label * columns + other] } else { link.costs[other * columns + label] }
    }

    /// The costs of an edge with the labels of `node` as rows.
    fn table(&self, edge: usize, node: usize) -> Arc<[f64]> {
        let link = &self.edges[edge];
        if link.ends[0] == node {
            return link.costs.clone();
        }
        let (rows, columns) = (self.nodes[link.ends[0]].costs.len(), self.nodes[link.ends[1]].costs.len());
        (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c))).map(|(r, c)| link.costs[r * columns + c]).collect()
    }

    fn close_edge(&mut self, edge: usize) {
        self.edges[edge].open = false;
        let [a, b] = self.edges[edge].ends;
        self.nodes[a].at.remove(&b);
        self.nodes[b].at.remove(&a);
    }

    /// The neighbours of a node, with the edges to them.
    fn around(&self, node: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.nodes[node].at.iter().map(|(other, edge)| (*other, *edge))
    }

    /// Adds an edge, to one between the same nodes if there is one. `costs` has the labels of `a` as rows.
    fn join(&mut self, a: usize, b: usize, costs: Arc<[f64]>) {
        let mut link = Link { ends: [a, b], costs, open: true };
        if let Some(&edge) = self.nodes[a].at.get(&b) {
            link.costs = self.table(edge, a).iter().zip(link.costs.iter()).map(|(x, y)| x + y).collect();
            self.edges[edge] = link;
            return;
        }
        self.nodes[a].at.insert(b, self.edges.len());
        self.nodes[b].at.insert(a, self.edges.len());
        self.edges.push(link);
    }

    /// Applies what applies to a node, and returns the nodes to look at again.
    fn visit(&mut self, node: usize) -> Result<Vec<usize>, Impossible> {
        let before = self.nodes[node].alive().count();
        self.drop_impossible(node);
        self.drop_dominated(node);
        let left = self.nodes[node].alive().count();
        let mut again: Vec<usize> = Vec::new();
        if left == 0 {
            return Err(Impossible);
        }
        if left < before {
            again.extend(self.nodes[node].at.keys());
        }
        if left == 1 {
            again.extend(self.fix(node));
        } else if let Some((of, choice)) = self.leader(node) {
            // Of two that follow from each other, the one with fewer edges goes.
            let edge = self.nodes[node].at[&of];
            let fewer = self.nodes[of].at.len() < self.nodes[node].at.len();
            if fewer && let Some(back) = self.choice(edge, of, node) {
                again.extend(self.follow(edge, of, node, back));
            } else {
                again.extend(self.follow(edge, node, of, choice));
            }
        } else if self.nodes[node].spans.is_empty() && self.nodes[node].at.len() == 2 {
            again.extend(self.bridge(node));
        }
        Ok(again)
    }

    /// Drops labels that are forbidden or have no partner on some edge.
    fn drop_impossible(&mut self, node: usize) {
        for label in self.nodes[node].alive().collect::<Vec<_>>() {
            let possible = self.nodes[node].costs[label].is_finite()
                && self.around(node).all(|(other, edge)| {
                    self.nodes[other].alive().any(|partner| self.pair(edge, node, label, partner).is_finite())
                });
            self.nodes[node].alive[label] = possible;
        }
    }

    /// Drops labels that another label replaces at no cost, whatever the neighbours have.
    fn drop_dominated(&mut self, node: usize) {
        let labels: Vec<usize> = self.nodes[node].alive().collect();
        let around: usize = self.nodes[node].at.keys().map(|other| self.nodes[*other].costs.len()).sum();
        if labels.len() * labels.len() * (around + 1) > MOST_COMPARISONS {
            return;
        }
        let tables: Vec<(usize, usize, Arc<[f64]>)> = self
            .around(node)
            .map(|(other, edge)| (other, self.nodes[other].costs.len(), self.table(edge, node)))
            .collect();
        for &worse in &labels {
            for &better in &labels {
                let item = &self.nodes[node];
                if better == worse || !item.alive[better] || !item.uses_no_more(better, worse) {
                    continue;
                }
                let mut more = item.costs[better] - item.costs[worse];
                for (other, columns, table) in &tables {
                    let (row, than) = (&table[better * columns..][..*columns], &table[worse * columns..][..*columns]);
                    more += self.nodes[*other]
                        .alive()
                        .filter(|partner| than[*partner].is_finite())
                        .map(|partner| row[partner] - than[partner])
                        .fold(f64::NEG_INFINITY, f64::max);
                    if more == f64::INFINITY {
                        break;
                    }
                }
                if more <= 0.0 {
                    self.nodes[node].alive[worse] = false;
                    break;
                }
            }
        }
    }

    /// Decides a node that has one label left.
    fn fix(&mut self, node: usize) -> Vec<usize> {
        let Some(label) = self.nodes[node].alive().next() else { return Vec::new() };
        self.constant += self.nodes[node].costs[label];
        let mut again = Vec::new();
        for (other, edge) in self.nodes[node].at.clone() {
            for partner in 0..self.nodes[other].costs.len() {
                let cost = self.pair(edge, node, label, partner);
                self.nodes[other].costs[partner] += cost;
            }
            self.close_edge(edge);
            again.push(other);
        }
        for (times, usage) in std::mem::take(&mut self.nodes[node].spans) {
            self.limits[times].iter_mut().for_each(|limit| *limit -= usage[label] as i64);
        }
        self.nodes[node].open = false;
        self.steps.push(Step::Fixed { node, label });
        again
    }

    /// A neighbour from whose label a node's follows, and how.
    fn leader(&self, node: usize) -> Option<(usize, Vec<u32>)> {
        self.around(node).find_map(|(of, edge)| Some((of, self.choice(edge, node, of)?)))
    }

    /// The best label of a node for each label of a neighbour, where that does not depend on anything else: there is only one,
    /// or the node has no other neighbour and the cheapest uses least as well. None while the neighbour has labels without a
    /// partner: these are dropped when it is visited.
    fn choice(&self, edge: usize, node: usize, of: usize) -> Option<Vec<u32>> {
        let item = &self.nodes[node];
        let alone = item.at.len() == 1;
        let mut choice = vec![0u32; self.nodes[of].costs.len()];
        for partner in self.nodes[of].alive() {
            let cost = |label: usize| item.costs[label] + self.pair(edge, node, label, partner);
            let mut possible = item.alive().filter(|label| cost(*label).is_finite());
            let mut best = possible.next()?;
            for label in possible {
                if !alone {
                    return None;
                }
                let (new, old) = (cost(label), cost(best));
                if new < old || new == old && item.uses_no_more(label, best) {
                    best = label;
                }
            }
            let least = !alone
                || item.alive().filter(|label| cost(*label).is_finite()).all(|label| item.uses_no_more(best, label));
            if !least {
                return None;
            }
            choice[partner] = best as u32;
        }
        Some(choice)
    }

    /// Lets a node follow from a neighbour, which takes over its costs, usages and edges.
    fn follow(&mut self, edge: usize, node: usize, of: usize, choice: Vec<u32>) -> Vec<usize> {
        for partner in self.nodes[of].alive().collect::<Vec<_>>() {
            let label = choice[partner] as usize;
            let cost = self.nodes[node].costs[label] + self.pair(edge, node, label, partner);
            self.nodes[of].costs[partner] += cost;
        }
        self.close_edge(edge);
        let mut again = vec![of];
        for (other, edge) in self.nodes[node].at.clone() {
            let columns = self.nodes[other].costs.len();
            let table = self.table(edge, node);
            let costs =
                choice.iter().flat_map(|label| table[*label as usize * columns..][..columns].iter().copied()).collect();
            self.close_edge(edge);
            self.join(of, other, costs);
            again.push(other);
        }
        for (times, usage) in std::mem::take(&mut self.nodes[node].spans) {
            let usage: Vec<u64> = choice.iter().map(|label| usage[*label as usize]).collect();
            let spans = &mut self.nodes[of].spans;
            match spans.iter_mut().find(|(there, _)| *there == times) {
                Some((_, sum)) => sum.iter_mut().zip(usage).for_each(|(sum, more)| *sum += more),
                None => spans.push((times, usage)),
            }
        }
        self.nodes[node].open = false;
        self.steps.push(Step::Follows { node, of, choice });
        again
    }

    /// Replaces a node that uses nothing by an edge between its two neighbours.
    fn bridge(&mut self, node: usize) -> Vec<usize> {
        let ends: Vec<(usize, usize)> = self.around(node).collect();
        let [(a, first), (b, second)] = ends[..] else { return Vec::new() };
        let (of, edges) = ([a, b], [first, second]);
        let [rows, columns] = of.map(|of| self.nodes[of].costs.len());
        let labels: Vec<usize> = self.nodes[node].alive().collect();
        if rows * columns * labels.len() > LARGEST_TABLE {
            return Vec::new();
        }
        let mut costs = vec![f64::INFINITY; rows * columns];
        let mut choice = vec![labels[0] as u32; rows * columns];
        for &label in &labels {
            let own = self.nodes[node].costs[label];
            for a in 0..rows {
                let first = own + self.pair(edges[0], node, label, a);
                if first == f64::INFINITY {
                    continue;
                }
                for b in 0..columns {
                    let cost = first + self.pair(edges[1], node, label, b);
                    if cost < costs[a * columns + b] {
                        costs[a * columns + b] = cost;
                        choice[a * columns + b] = label as u32;
                    }
                }
            }
        }
        edges.into_iter().for_each(|edge| self.close_edge(edge));
        self.join(a, b, costs.into());
        self.nodes[node].open = false;
        self.steps.push(Step::Between { node, of, columns, choice });
        of.to_vec()
    }

    /// Takes what every label left uses off the limits.
    fn settle_usage(&mut self) {
        for item in &mut self.nodes {
            for (times, usage) in &mut item.spans {
                let alive = item.alive.iter().zip(usage.iter()).filter(|(alive, _)| **alive);
                let least = alive.map(|(_, usage)| *usage).min().unwrap_or(0);
                usage.iter_mut().for_each(|usage| *usage = usage.saturating_sub(least));
                self.limits[times.clone()].iter_mut().for_each(|limit| *limit -= least as i64);
            }
            let alive = &item.alive;
            item.spans.retain(|(_, usage)| usage.iter().zip(alive).any(|(usage, alive)| *alive && *usage > 0));
        }
    }

    /// The labels of all nodes, given those of the nodes left.
    pub(super) fn expand(&self, labels: &mut [usize]) {
        for step in self.steps.iter().rev() {
            match step {
                Step::Fixed { node, label } => labels[*node] = *label,
                Step::Follows { node, of, choice } => labels[*node] = choice[labels[*of]] as usize,
                Step::Between { node, of, columns, choice } => {
                    labels[*node] = choice[labels[of[0]] * columns + labels[of[1]]] as usize;
                }
            }
        }
    }
}
