//! What is left of a network after its reduction, laid out for fast passes: labels, edges and usages in flat arrays, each
//! distinct table of pair costs once, in both orientations.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::reduce::Reduced;

#[derive(Clone)]
pub(super) struct Core {
    /// The node of the network for each node here, in the network's order.
    nodes: Vec<usize>,
    /// The label of the network for each label here.
    labels: Vec<u32>,
    /// Where the labels of each node start in arrays over labels; one more than nodes.
    pub(super) offsets: Vec<usize>,
    /// The cost of each label.
    pub(super) costs: Vec<f64>,
    pub(super) edges: Vec<[u32; 2]>,
    /// For each edge its table.
    tables: Vec<u32>,
    distinct: Arc<Vec<Table>>,
    /// Where the neighbours of each node start in `around`; one more than nodes.
    starts: Vec<usize>,
    around: Vec<Neighbour>,
    /// Where the spans of each node start in `spans`; one more than nodes.
    span_starts: Vec<usize>,
    spans: Vec<Use>,
    usages: Vec<i64>,
    /// What may be used at each time.
    pub(super) limits: Vec<i64>,
    /// What a forbidden pair costs: more than all other costs together.
    pub(super) large: f64,
    /// A price of usage that is small against all costs.
    pub(super) least_price: f64,
}

#[derive(Clone, Copy)]
pub(super) struct Neighbour {
    pub(super) edge: u32,
    pub(super) node: u32,
    /// Which end of the edge this node's neighbour is: 1 if this node is the first end.
    pub(super) end: u8,
}

#[derive(Clone)]
struct Use {
    times: Range<u32>,
    usages: usize,
}

/// Costs of pairs: `by[0]` has the first end's labels as rows, `by[1]` the second's.
struct Table {
    by: [Vec<f64>; 2],
}

impl Core {
    pub(super) fn new(reduced: &Reduced) -> Self {
        let open: Vec<usize> = (0..reduced.nodes.len()).filter(|node| reduced.nodes[*node].open).collect();
        let mut number = vec![u32::MAX; reduced.nodes.len()];
        let mut core = Self {
            nodes: open.clone(),
            labels: Vec::new(),
            offsets: vec![0],
            costs: Vec::new(),
            edges: Vec::new(),
            tables: Vec::new(),
            distinct: Arc::default(),
            starts: vec![0],
            around: Vec::new(),
            span_starts: vec![0],
            spans: Vec::new(),
            usages: Vec::new(),
            limits: Vec::new(),
            large: 1.0,
            least_price: 0.0,
        };
        // Times at which the limit could still be exceeded.
        let mut most = vec![0i64; reduced.limits.len()];
        for &node in &open {
            for (times, usage) in &reduced.nodes[node].spans {
                let largest = usage.iter().copied().max().unwrap_or(0) as i64;
                most[times.clone()].iter_mut().for_each(|most| *most += largest);
            }
        }
        let mut kept = vec![0u32; most.len() + 1];
        for time in 0..most.len() {
            let matters = most[time] > reduced.limits[time];
            kept[time + 1] = kept[time] + u32::from(matters);
            if matters {
                core.limits.push(reduced.limits[time]);
            }
        }
        for (at, &node) in open.iter().enumerate() {
            number[node] = at as u32;
            let item = &reduced.nodes[node];
            let alive: Vec<usize> = (0..item.costs.len()).filter(|label| item.alive[*label]).collect();
            core.labels.extend(alive.iter().map(|label| *label as u32));
            core.costs.extend(alive.iter().map(|label| item.costs[*label]));
            core.offsets.push(core.costs.len());
            for (times, usage) in &item.spans {
                let times = kept[times.start]..kept[times.end];
                if !times.is_empty() {
                    core.spans.push(Use { times, usages: core.usages.len() });
                    core.usages.extend(alive.iter().map(|label| usage[*label] as i64));
                }
            }
            core.span_starts.push(core.spans.len());
        }
        let mut distinct: Vec<Table> = Vec::new();
        let mut seen: HashMap<Vec<u64>, u32> = HashMap::new();
        for link in reduced.edges.iter().filter(|link| link.open) {
            let [a, b] = link.ends.map(|end| number[end] as usize);
            let columns = reduced.nodes[link.ends[1]].costs.len();
            let mut costs = Vec::with_capacity(core.count(a) * core.count(b));
            for &row in &core.labels[core.range(a)] {
                costs.extend(
                    core.labels[core.range(b)]
                        .iter()
                        .map(|column| link.costs[row as usize * columns + *column as usize]),
                );
            }
            let mut key: Vec<u64> = costs.iter().map(|cost| cost.to_bits()).collect();
            key.push(core.count(b) as u64);
            let (rows, columns) = (core.offsets[a + 1] - core.offsets[a], core.offsets[b + 1] - core.offsets[b]);
            let table = *seen.entry(key).or_insert_with(|| {
                let turned =
                    (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c))).map(|(r, c)| costs[r * columns + c]);
                let turned = turned.collect();
                distinct.push(Table { by: [costs, turned] });
                distinct.len() as u32 - 1
            });
            core.edges.push([a as u32, b as u32]);
            core.tables.push(table);
        }
        core.connect();
        core.large = core.largest(&distinct);
        core.least_price = core.large * 1e-6 / (1.0 + most.iter().copied().max().unwrap_or(0) as f64);
        // A forbidden pair costs more than all else together.
        for table in distinct.iter_mut().flat_map(|table| &mut table.by) {
            table.iter_mut().for_each(|cost| *cost = cost.min(core.large));
        }
        core.distinct = Arc::new(distinct);
        core
    }

    fn connect(&mut self) {
        let mut at: Vec<Vec<Neighbour>> = vec![Vec::new(); self.len()];
        for (edge, [a, b]) in self.edges.iter().enumerate() {
            at[*a as usize].push(Neighbour { edge: edge as u32, node: *b, end: 1 });
            at[*b as usize].push(Neighbour { edge: edge as u32, node: *a, end: 0 });
        }
        for mut around in at {
            around.sort_unstable_by_key(|neighbour| neighbour.node);
            self.around.extend(around);
            self.starts.push(self.around.len());
        }
    }

    /// The sum over nodes and edges of how far finite costs lie apart: no change of labels can bring more. No finite cost is as large.
    fn largest(&self, distinct: &[Table]) -> f64 {
        let spread = |costs: &[f64]| {
            let finite = costs.iter().filter(|cost| cost.is_finite());
            let (least, most) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), c| (l.min(*c), m.max(*c)));
            (most - least).max(0.0)
        };
        let nodes: f64 = (0..self.len()).map(|node| spread(&self.costs[self.range(node)])).sum();
        let of_table: Vec<f64> = distinct.iter().map(|table| spread(&table.by[0])).collect();
        let edges: f64 = self.tables.iter().map(|table| of_table[*table as usize]).sum();
        let all = distinct.iter().flat_map(|table| &table.by[0]).chain(&self.costs);
        let largest = all.filter(|cost| cost.is_finite()).fold(0.0, |most: f64, cost| most.max(*cost));
        ((nodes + edges) * 2.0).max(largest) + 1.0
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Where the labels of a node stand.
    pub(super) fn range(&self, node: usize) -> Range<usize> {
        self.offsets[node]..self.offsets[node + 1]
    }

    /// How many labels a node has.
    pub(super) fn count(&self, node: usize) -> usize {
        self.offsets[node + 1] - self.offsets[node]
    }

    pub(super) fn around(&self, node: usize) -> &[Neighbour] {
        &self.around[self.starts[node]..self.starts[node + 1]]
    }

    /// The costs of the pairs of a node's label with each label of a neighbour.
    pub(super) fn row(&self, neighbour: Neighbour, label: usize) -> &[f64] {
        let columns = self.count(neighbour.node as usize);
        &self.table(neighbour)[label * columns..][..columns]
    }

    /// The costs of pairs with a neighbour, the neighbour's label varying fastest.
    pub(super) fn table(&self, neighbour: Neighbour) -> &[f64] {
        &self.distinct[self.tables[neighbour.edge as usize] as usize].by[1 - neighbour.end as usize]
    }

    /// The costs of pairs with a neighbour, this node's label varying fastest.
    pub(super) fn turned(&self, neighbour: Neighbour) -> &[f64] {
        &self.distinct[self.tables[neighbour.edge as usize] as usize].by[neighbour.end as usize]
    }

    /// The intervals during which a node uses something, with the usage of each label.
    pub(super) fn spans(&self, node: usize) -> impl Iterator<Item = (Range<usize>, &[i64])> + '_ {
        let count = self.count(node);
        self.spans[self.span_starts[node]..self.span_starts[node + 1]].iter().map(move |found| {
            (found.times.start as usize..found.times.end as usize, &self.usages[found.usages..][..count])
        })
    }

    /// Writes labels of this core into a labelling of the network.
    pub(super) fn write(&self, labels: &[u32], into: &mut [usize]) {
        for (at, node) in self.nodes.iter().enumerate() {
            into[*node] = self.labels[self.offsets[at] + labels[at] as usize] as usize;
        }
    }
}
