//! Labels that no labelling within the limits has: at some time they use more than the others leave, or they fit to no label of a
//! neighbour. Where labels were ruled out or nodes divided, there are more of them.

use super::core::Core;

impl Core {
    /// Forbids what has no room or no partner, until nothing is left to forbid. `false` if some node keeps no label.
    pub(super) fn narrow(&mut self) -> bool {
        loop {
            let before = self.forbidden();
            if !self.forbid_without_room() || !self.forbid_without_partner() {
                return false;
            }
            if self.forbidden() == before {
                return true;
            }
        }
    }

    fn forbidden(&self) -> usize {
        self.costs.iter().filter(|cost| **cost >= self.large).count()
    }

    /// The least that the labels of a node use which are not forbidden; `None` if all are.
    fn least(&self, node: usize, usage: &[i64]) -> Option<i64> {
        let open = self.costs[self.range(node)].iter().zip(usage).filter(|(cost, _)| **cost < self.large);
        open.map(|(_, used)| *used).min()
    }

    /// Forbids labels that use more at some time than is left if all others use the least.
    fn forbid_without_room(&mut self) -> bool {
        let mut room = vec![0i64; self.limits.len() + 1];
        for node in 0..self.len() {
            for (times, usage) in self.spans(node) {
                let Some(least) = self.least(node, usage) else { return false };
                room[times.start] -= least;
                room[times.end] += least;
            }
        }
        let mut used = 0;
        for (room, limit) in room.iter_mut().zip(&self.limits) {
            used += *room;
            *room = limit + used;
        }
        if room[..self.limits.len()].iter().any(|room| *room < 0) {
            return false;
        }
        let scarce = room[..self.limits.len()].iter().copied().min().unwrap_or(i64::MAX);
        let mut without: Vec<usize> = vec![];
        for node in 0..self.len() {
            let start = self.range(node).start;
            for (times, usage) in self.spans(node) {
                let Some(least) = self.least(node, usage) else { return false };
                if usage.iter().all(|used| used - least <= scarce) {
                    continue;
                }
                let room = room[times].iter().copied().min().unwrap_or(i64::MAX);
                without
                    .extend((0..usage.len()).filter(|&label| usage[label] - least > room).map(|label| start + label));
            }
        }
        without.into_iter().for_each(|label| self.costs[label] = self.large);
        true
    }

    /// Forbids labels that fit to no label of some neighbour.
    fn forbid_without_partner(&mut self) -> bool {
        for node in 0..self.len() {
            let range = self.range(node);
            let fits = |label: usize| {
                self.around(node).iter().all(|&neighbour| {
                    let others = &self.costs[self.range(neighbour.node as usize)];
                    self.row(neighbour, label)
                        .iter()
                        .zip(others)
                        .any(|(pair, own)| *pair < self.large && *own < self.large)
                })
            };
            let open = range.clone().filter(|&label| self.costs[label] < self.large);
            let without: Vec<usize> = open.filter(|&label| !fits(label - range.start)).collect();
            without.into_iter().for_each(|label| self.costs[label] = self.large);
            if self.costs[range].iter().all(|cost| *cost >= self.large) {
                return false;
            }
        }
        true
    }
}
