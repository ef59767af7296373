//! Divisions: where prices leave a gap between bound and labelling, labels are ruled out, and the labellings divided in two.
//!
//! Prices relax the limits: they see a large usage as if a share of it could be taken. Tied layers have such usages. Two things bring
//! bound and labelling together:
//!
//! - A label with which the bound is above a labelling that is known is forbidden. That raises the bound of the others.
//! - Where there is none, the labels of one node are divided by what they use. Every labelling is in one half, so the least bound of
//!   all halves is a bound for all. The half with the least bound is worked on next.
//!
//! Messages and prices go on from where they were.

use super::core::Core;
use super::dual::Dual;
use super::search::Walk;
use super::state::State;

/// The relative gap that is not worth dividing for.
const CLOSE: f64 = 0.005;
/// Passes of messages in a half.
const PASSES: usize = 60;

/// A part of all labellings, with the bound on them.
struct Half {
    core: Core,
    dual: Dual,
    bound: f64,
}

/// Raises the bound of `dual` by up to `divisions` divisions, and looks for labellings better than `best` on the way. Gives the bound.
pub(super) fn divide(
    core: &Core,
    dual: Dual,
    best: &mut State,
    (divisions, work, seed): (usize, usize, u64),
    stop: &(dyn Fn() -> bool + Sync),
) -> f64 {
    let bound = dual.bound;
    let mut open = vec![Half { core: core.clone(), dual, bound }];
    for division in 0..divisions {
        let target = (best.over == 0 && best.cost < core.large).then_some(best.cost);
        let Some(at) = least(&open) else { break };
        if stop() || target.is_some_and(|target| target - open[at].bound <= CLOSE * target.abs()) {
            break;
        }
        let mut half = open.swap_remove(at);
        let forbidden = target.map_or(0, |target| half.dual.forbid(&mut half.core, target));
        let parts = match contested(&half, best) {
            _ if forbidden > 0 => vec![half],
            Some((node, much)) => half.divided(node, &much),
            None => {
                open.push(half);
                break;
            }
        };
        for mut part in parts {
            let mut walk = Walk::new(&part.core, part.dual.labelling(&part.core), seed.wrapping_add(division as u64));
            let prices = part.dual.best.clone();
            std::thread::scope(|scope| {
                scope.spawn(|| walk.run(&part.core, &prices, 0.0, work, stop));
                part.dual.run(&part.core, PASSES, target, stop);
            });
            if walk.best.better_than(best) {
                *best = State::new(core, walk.best.labels);
            }
            part.bound = part.bound.max(part.dual.bound);
            open.push(part);
        }
    }
    let rest = least(&open).map_or(f64::INFINITY, |at| open[at].bound);
    if best.over == 0 { rest.min(best.cost) } else { rest }
}

impl Half {
    /// The part with the labels of `node` that do not use much, and the part with those that do.
    fn divided(self, node: usize, much: &[bool]) -> Vec<Half> {
        let part = |keep: bool| {
            let mut core = self.core.clone();
            let (range, large) = (core.range(node), core.large);
            let costs = core.costs[range].iter_mut().zip(much);
            costs.filter(|(_, much)| **much != keep).for_each(|(cost, _)| *cost = large);
            Half { core, dual: self.dual.go_on(), bound: self.bound }
        };
        vec![part(false), part(true)]
    }
}

/// The half of the least bound.
fn least(open: &[Half]) -> Option<usize> {
    (0..open.len()).min_by(|&a, &b| open[a].bound.total_cmp(&open[b].bound))
}

/// The node about whose usage the labelling of the prices and the best one differ most, in what it costs at these prices, and which of
/// its labels use much; if they differ in no usage, a node in which they differ, and the label that the best one has.
fn contested(half: &Half, best: &State) -> Option<(usize, Vec<bool>)> {
    let (core, prices) = (&half.core, &half.dual.best);
    let relaxed = half.dual.labelling(core);
    let mut most: Option<(f64, usize, Vec<bool>)> = None;
    for node in (0..core.len()).filter(|&node| relaxed.labels[node] != best.labels[node]) {
        let range = core.range(node);
        let used = &prices.of_label[range.clone()];
        let (own, known) = (relaxed.labels[node] as usize, best.labels[node] as usize);
        let apart = (used[own] - used[known]).abs();
        if most.as_ref().is_some_and(|(most, ..)| apart <= *most) {
            continue;
        }
        let much: Vec<bool> = (0..used.len())
            .map(|label| if apart > 0.0 { used[label] > (used[own] + used[known]) / 2.0 } else { label == known })
            .collect();
        let is_open = |is: bool| core.costs[range.clone()].iter().zip(&much).any(|(c, m)| *m == is && *c < core.large);
        if is_open(true) && is_open(false) {
            most = Some((apart, node, much));
        }
    }
    most.map(|(_, node, much)| (node, much)).or_else(|| widest(half))
}

/// The node whose open labels differ most in what their usage costs, and which of them use much: where the best labelling is in another
/// half, it says nothing about this one.
fn widest(half: &Half) -> Option<(usize, Vec<bool>)> {
    let (core, prices) = (&half.core, &half.dual.best);
    let mut most: Option<(f64, usize, f64)> = None;
    for node in 0..core.len() {
        let labels = core.range(node).filter(|&label| core.costs[label] < core.large);
        let (low, high) = labels.fold((f64::INFINITY, 0.0_f64), |(low, high), label| {
            (low.min(prices.of_label[label]), high.max(prices.of_label[label]))
        });
        if high - low > most.map_or(0.0, |(most, ..)| most) {
            most = Some((high - low, node, (low + high) / 2.0));
        }
    }
    most.map(|(_, node, middle)| (node, prices.of_label[core.range(node)].iter().map(|used| *used > middle).collect()))
}
