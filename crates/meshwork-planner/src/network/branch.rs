//! Divisions: where prices leave a gap between bound and labelling, labels are ruled out, and the labellings divided in two.
//!
//! Prices relax the limits: they see a large usage as if a share of it could be taken. Tied layers have such usages. Three things bring
//! bound and labelling together:
//!
//! - A label with which the bound is above a labelling that is known is forbidden. That raises the bound of the others.
//! - The labels of one node are divided by what they use. Every labelling is in one half, so the least bound of all halves is a bound
//!   for all. The half with the least bound is worked on next.
//! - In a half, labels for which others leave no room are forbidden as well ([`Core::narrow`]): where one node is bound to use much, others are not
//!   left to share what remains.
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
        if let Some(target) = target {
            half.dual.forbid(&mut half.core, target);
        }
        // What goes has no labelling within the limits that costs less than the best.
        if !half.core.narrow() {
            continue;
        }
        let parts = match contested(&half) {
            Some((node, much)) => half.divided(node, &much),
            None => vec![half],
        };
        for mut part in parts {
            if !part.core.narrow() {
                continue;
            }
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

/// The node that should be divided, and which of its labels use much: of the labellings of the last passes, some have labels that use much
/// and some others that use little, as if a share of the usage could be taken; what they use differs most there, at the prices. If it
/// differs nowhere, a node about whose label they disagree, and all its labels but the one that most have.
fn contested(half: &Half) -> Option<(usize, Vec<bool>)> {
    let (core, prices, shares) = (&half.core, &half.dual.best.of_label, &half.dual.shares);
    let mut most = (0.0, 0.0);
    let mut found = None;
    for node in 0..core.len() {
        let open: Vec<usize> = core.range(node).filter(|&label| core.costs[label] < core.large).collect();
        let all: f64 = open.iter().map(|&label| shares[label]).sum();
        let Some(&first) = open.iter().max_by(|&&a, &&b| shares[a].total_cmp(&shares[b])).filter(|_| all > 0.0) else {
            continue;
        };
        let share = |&label: &usize| shares[label] / all;
        let mean: f64 = open.iter().map(|label| share(label) * prices[*label]).sum();
        let differs = |is: bool| open.iter().any(|&label| (prices[label] > mean) == is);
        let apart = open.iter().map(|label| share(label) * (prices[*label] - mean).abs()).sum();
        let apart: f64 = if differs(true) && differs(false) { apart } else { 0.0 };
        let doubt = 1.0 - share(&first);
        if (apart, doubt) > most {
            most = (apart, doubt);
            found = Some((node, first, mean));
        }
    }
    let (node, first, mean) = found?;
    let is_much = |label: usize| if most.0 > 0.0 { prices[label] > mean } else { label != first };
    Some((node, core.range(node).map(is_much).collect()))
}
