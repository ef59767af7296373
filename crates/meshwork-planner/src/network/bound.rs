//! Sequential tree-reweighted message passing (TRW-S, Kolmogorov 2006): passes over the nodes in order and back, each of which
//! raises a lower bound on the cost of any labelling and gives a labelling that agrees with it as far as one pass can.

use super::core::Core;
use super::prices::Prices;

/// Messages along the edges in both directions.
#[derive(Clone)]
pub(super) struct Messages {
    /// Where the message to each end of each edge starts.
    starts: Vec<[usize; 2]>,
    values: Vec<f64>,
    sums: Vec<f64>,
    raw: Vec<f64>,
    /// The labelling that the last pass found.
    pub(super) labels: Vec<u32>,
}

/// The order in which a pass visits the nodes.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

impl Messages {
    pub(super) fn new(core: &Core) -> Self {
        let mut total = 0;
        let mut starts = Vec::with_capacity(core.edges.len());
        for ends in &core.edges {
            let [a, b] = ends.map(|end| core.count(end as usize));
            starts.push([total, total + a]);
            total += a + b;
        }
        let most = (0..core.len()).map(|node| core.count(node)).max().unwrap_or(0);
        Self {
            starts,
            values: vec![0.0; total],
            sums: vec![0.0; most],
            raw: vec![0.0; most],
            labels: vec![0; core.len()],
        }
    }

    /// One pass. Returns a lower bound on the cost of any labelling at these prices, without what the limits are worth.
    ///
    /// The messages are a reparametrization: what a message adds to a node it takes from an edge. Whatever the messages are,
    /// the least cost of each part sums up to a bound. Of a node's cost, each of its edges that the pass has still to visit
    /// gets an equal share.
    pub(super) fn pass(&mut self, core: &Core, prices: &Prices, direction: Direction) -> f64 {
        self.visit::<false>(core, prices, direction, &mut [])
    }

    /// One pass that also says by how much the bound is higher for labellings with each label: the least cost of the parts that a node
    /// is in, with this label, less their least cost with any.
    pub(super) fn pass_by_label(&mut self, core: &Core, prices: &Prices, direction: Direction) -> (f64, Vec<f64>) {
        let mut more = vec![0.0; core.costs.len()];
        let bound = self.visit::<true>(core, prices, direction, &mut more);
        (bound, more)
    }

    /// A pass. If `BY_LABEL`, it adds to `more` by how much parts cost more with each label than at least.
    fn visit<const BY_LABEL: bool>(
        &mut self,
        core: &Core,
        prices: &Prices,
        direction: Direction,
        more: &mut [f64],
    ) -> f64 {
        let mut bound = 0.0;
        let nodes = core.len();
        for step in 0..nodes {
            let node = if direction == Direction::Forward { step } else { nodes - 1 - step };
            let count = core.count(node);
            let range = core.range(node);
            let ahead = |other: u32| (other as usize > node) == (direction == Direction::Forward);
            let around = core.around(node);
            let sums = &mut self.sums[..count];
            for ((sum, cost), price) in sums.iter_mut().zip(&core.costs[range.clone()]).zip(&prices.of_label[range]) {
                *sum = cost + price;
            }
            // The labelling: what is behind is decided, what is ahead speaks through its messages.
            let chosen = &mut self.raw[..count];
            chosen.copy_from_slice(sums);
            for neighbour in around {
                let to = self.starts[neighbour.edge as usize][1 - neighbour.end as usize];
                let message = &self.values[to..to + count];
                sums.iter_mut().zip(message).for_each(|(sum, more)| *sum += more);
                if ahead(neighbour.node) {
                    chosen.iter_mut().zip(message).for_each(|(sum, more)| *sum += more);
                } else {
                    let other = self.labels[neighbour.node as usize] as usize;
                    let column = &core.turned(*neighbour)[other * count..][..count];
                    chosen.iter_mut().zip(column).for_each(|(sum, more)| *sum += more);
                }
            }
            self.labels[node] = least(chosen).0 as u32;
            let forward = around.iter().filter(|neighbour| ahead(neighbour.node)).count();
            let share = 1.0 / forward.max(around.len() - forward).max(1) as f64;
            let rest = 1.0 - share * forward as f64;
            let first = core.range(node).start;
            if rest > 1e-12 {
                let smallest = least(sums).1;
                bound += rest * smallest;
                if BY_LABEL {
                    more[first..].iter_mut().zip(&*sums).for_each(|(more, sum)| *more += rest * (sum - smallest));
                }
            }
            for neighbour in around.iter().filter(|neighbour| ahead(neighbour.node)) {
                let starts = self.starts[neighbour.edge as usize];
                let (back, to) = (starts[1 - neighbour.end as usize], starts[neighbour.end as usize]);
                let columns = core.count(neighbour.node as usize);
                let table = core.table(*neighbour);
                let raw = &mut self.raw[..columns];
                raw.fill(f64::INFINITY);
                for label in 0..count {
                    let own = share * self.sums[label] - self.values[back + label];
                    let row = &table[label * columns..][..columns];
                    raw.iter_mut()
                        .zip(row)
                        .for_each(|(raw, pair)| *raw = if own + pair < *raw { own + pair } else { *raw });
                }
                let smallest = least(raw).1;
                bound += smallest;
                for (value, raw) in self.values[to..to + columns].iter_mut().zip(raw) {
                    *value = (*raw - smallest).min(core.large);
                }
                // What is left of the edge is the smallest for some pair of each label of the other end.
                for label in if BY_LABEL { 0..count } else { 0..0 } {
                    let own = share * self.sums[label] - self.values[back + label];
                    let row = table[label * columns..][..columns].iter().zip(&self.values[to..to + columns]);
                    let left = row.fold(f64::INFINITY, |low, (pair, given)| low.min(own + pair - given));
                    more[first + label] += left - smallest;
                }
            }
        }
        bound
    }
}

/// The position of the least value, and the value.
pub(super) fn least(values: &[f64]) -> (usize, f64) {
    let mut found = (0, f64::INFINITY);
    for (at, value) in values.iter().enumerate() {
        if *value < found.1 {
            found = (at, *value);
        }
    }
    found
}
