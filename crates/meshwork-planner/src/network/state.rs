//! A labelling of a core with its cost and its usage over time, kept up to date as labels change.

use super::core::Core;

/// A labelling.
#[derive(Clone)]
pub(super) struct State {
    pub(super) labels: Vec<u32>,
    pub(super) cost: f64,
    used: Vec<i64>,
    /// The sum over times of what is used above the limit.
    pub(super) over: i128,
    /// The same, weighted.
    pub(super) penalty: f64,
}

/// A node and the label it is to have.
pub(super) type Move = (u32, u32);

/// What a change of labels would bring.
pub(super) struct Change {
    pub(super) cost: f64,
    pub(super) over: i128,
    pub(super) penalty: f64,
}

/// Working memory of changes.
pub(super) struct Scratch {
    /// For each node the number of the change it was last part of.
    stamps: Vec<u32>,
    stamp: u32,
    events: Vec<(u32, i64)>,
}

impl Scratch {
    pub(super) fn new(core: &Core) -> Self {
        Self { stamps: vec![0; core.len()], stamp: 0, events: Vec::new() }
    }
}

impl State {
    pub(super) fn new(core: &Core, labels: Vec<u32>) -> Self {
        let mut used = vec![0i64; core.limits.len() + 1];
        for (node, label) in labels.iter().enumerate() {
            for (times, usage) in core.spans(node) {
                used[times.start] += usage[*label as usize];
                used[times.end] -= usage[*label as usize];
            }
        }
        for time in 1..used.len() {
            used[time] += used[time - 1];
        }
        used.truncate(core.limits.len());
        let over = used.iter().zip(&core.limits).map(|(used, limit)| i128::from((used - limit).max(0))).sum();
        let mut state = Self { labels, cost: 0.0, used, over, penalty: 0.0 };
        state.cost = state.total(core);
        state
    }

    /// The cost, recomputed from scratch.
    fn total(&self, core: &Core) -> f64 {
        let mut cost = 0.0;
        for node in 0..core.len() {
            let label = self.labels[node] as usize;
            cost += core.costs[core.offsets[node] + label];
            for neighbour in core.around(node).iter().filter(|neighbour| neighbour.end == 1) {
                cost += core.row(*neighbour, label)[self.labels[neighbour.node as usize] as usize];
            }
        }
        cost
    }

    /// Takes new weights of times.
    pub(super) fn weigh(&mut self, core: &Core, weights: &[f64]) {
        self.penalty = self.excess(core).zip(weights).map(|(excess, weight)| excess.max(0) as f64 * weight).sum();
    }

    /// By how much the limit is exceeded at each time; negative where there is room.
    pub(super) fn excess(&self, core: &Core) -> impl Iterator<Item = i64> {
        self.used.iter().zip(&core.limits).map(|(used, limit)| used - limit)
    }

    /// The cost of the nodes of a change and of the edges at them.
    fn around(&self, core: &Core, moves: &[Move], scratch: &Scratch, label: impl Fn(usize) -> u32) -> f64 {
        let mut cost = 0.0;
        for &(node, _) in moves {
            let own = label(node as usize) as usize;
            cost += core.costs[core.offsets[node as usize] + own];
            for neighbour in core.around(node as usize) {
                let other = neighbour.node as usize;
                if scratch.stamps[other] != scratch.stamp || node < neighbour.node {
                    cost += core.row(*neighbour, own)[label(other) as usize];
                }
            }
        }
        cost
    }

    /// What a change would bring. Nodes stand at most once in it.
    pub(super) fn judge(&mut self, core: &Core, moves: &[Move], weights: &[f64], scratch: &mut Scratch) -> Change {
        scratch.stamp += 1;
        for (node, _) in moves {
            scratch.stamps[*node as usize] = scratch.stamp;
        }
        let before = self.around(core, moves, scratch, |node| self.labels[node]);
        let old: Vec<u32> = moves.iter().map(|(node, label)| self.swap(*node, *label)).collect();
        let after = self.around(core, moves, scratch, |node| self.labels[node]);
        // Next to a forbidden pair a difference would lose its small digits.
        let cost = if self.cost < core.large { self.cost - before + after } else { self.total(core) };
        for ((node, _), label) in moves.iter().zip(&old) {
            self.swap(*node, *label);
        }
        let (over, penalty) = self.usage_after(core, moves, weights, scratch);
        Change { cost, over, penalty }
    }

    fn swap(&mut self, node: u32, label: u32) -> u32 {
        std::mem::replace(&mut self.labels[node as usize], label)
    }

    /// Fills the events of a change: how much more is used from a time on.
    fn list_events(&self, core: &Core, moves: &[Move], scratch: &mut Scratch) {
        scratch.events.clear();
        for &(node, label) in moves {
            let old = self.labels[node as usize];
            for (times, usage) in core.spans(node as usize) {
                let more = usage[label as usize] - usage[old as usize];
                if more != 0 {
                    scratch.events.push((times.start as u32, more));
                    scratch.events.push((times.end as u32, -more));
                }
            }
        }
        scratch.events.sort_unstable();
    }

    fn usage_after(&self, core: &Core, moves: &[Move], weights: &[f64], scratch: &mut Scratch) -> (i128, f64) {
        self.list_events(core, moves, scratch);
        let (mut over, mut penalty, mut more) = (self.over, self.penalty, 0);
        for two in scratch.events.windows(2) {
            more += two[0].1;
            if more != 0 {
                for time in two[0].0 as usize..two[1].0 as usize {
                    let excess = self.used[time] - core.limits[time];
                    let change = (excess + more).max(0) - excess.max(0);
                    over += i128::from(change);
                    penalty += change as f64 * weights[time];
                }
            }
        }
        (over, if over == 0 { 0.0 } else { penalty })
    }

    /// Makes a change that was judged.
    pub(super) fn apply(&mut self, core: &Core, moves: &[Move], change: &Change, scratch: &mut Scratch) {
        self.list_events(core, moves, scratch);
        let mut more = 0;
        for two in scratch.events.windows(2) {
            more += two[0].1;
            if more != 0 {
                self.used[two[0].0 as usize..two[1].0 as usize].iter_mut().for_each(|used| *used += more);
            }
        }
        for (node, label) in moves {
            self.labels[*node as usize] = *label;
        }
        self.cost = change.cost;
        self.over = change.over;
        self.penalty = change.penalty;
    }

    /// Whether this labelling is to be preferred: less above the limit, then cheaper.
    pub(super) fn better_than(&self, other: &State) -> bool {
        (self.over, self.cost) < (other.over, other.cost)
    }
}
