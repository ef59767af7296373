//! Bound and search together, in rounds: one thread raises the bound and moves the prices, the others search at these prices.

use super::branch::divide;
use super::core::Core;
use super::dual::Dual;
use super::reduce::reduce;
use super::search::Walk;
use super::state::State;
use super::{Network, NetworkError};

/// How much is done at most, and from which random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// How many rounds.
    pub rounds: usize,
    /// How many threads search beside the one that works on the bound; at least one does.
    pub walks: usize,
    /// Where the random numbers start.
    pub seed: u64,
    /// How often the labels of a node are divided in two at most, where bound and labelling stay apart.
    pub divisions: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { rounds: 36, walks: 1, seed: 1, divisions: 0 }
    }
}

/// What was found for a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// A label for each node.
    pub labels: Vec<usize>,
    /// What they cost.
    pub cost: f64,
    /// No feasible labelling costs less. Infinite where it was proved that there is none.
    pub bound: f64,
    /// By how much the limit is exceeded at the worst time.
    pub excess: u64,
    /// How many nodes were left to decide after exact reductions.
    pub core: usize,
    /// How many rounds were begun.
    pub rounds: usize,
}

impl Outcome {
    /// Whether the cost is finite and the limit holds at every time.
    pub fn feasible(&self) -> bool {
        self.cost.is_finite() && self.excess == 0
    }
}

/// Looks for a labelling of least cost within the limits, and for a bound on it, until the effort is spent, the two meet, or
/// `stop` says so. With a `stop` that always says no, the same effort gives the same result.
pub fn solve(network: &Network, effort: &Effort, stop: &(dyn Fn() -> bool + Sync)) -> Result<Outcome, NetworkError> {
    network.check()?;
    let mut labels = vec![0; network.len()];
    let Ok(reduced) = reduce(network) else {
        let (cost, excess) = network.evaluate(&labels)?;
        return Ok(Outcome { labels, cost, bound: f64::INFINITY, excess, core: 0, rounds: 0 });
    };
    let whole = Core::new(&reduced);
    let mut core = whole.clone();
    let fits = core.narrow();
    let core = if fits { core } else { whole };
    let (mut bound, mut rounds) = (0.0, 0);
    if core.len() > 0 {
        let (state, least, done) = search(&core, effort, stop);
        core.write(&state.labels, &mut labels);
        (bound, rounds) = (least, done);
    }
    reduced.expand(&mut labels);
    let (cost, excess) = network.evaluate(&labels)?;
    let bound = if fits { bound + reduced.constant } else { f64::INFINITY };
    Ok(Outcome { labels, cost, bound, excess, core: core.len(), rounds })
}

/// A cycle of rounds goes through these temperatures, in units of the mean cost of a node, and starts alternately from the
/// labelling of the last pass of messages and from the best.
const TEMPERATURES: [f64; 6] = [0.3, 0.1, 0.03, 0.01, 0.003, 0.0];
/// Pairs of cycles have temperatures multiplied by these.
const SCALES: [f64; 3] = [1.0, 0.1, 10.0];
/// Passes of messages in a round.
const PASSES: usize = 10;
/// How many nodes each thread relabels in a round: some for each node, and some more.
const WORK: [usize; 2] = [20, 1000];
/// The relative gap at which the bound counts as met.
const MET: f64 = 1e-9;

fn search(core: &Core, effort: &Effort, stop: &(dyn Fn() -> bool + Sync)) -> (State, f64, usize) {
    let mut dual = Dual::new(core);
    dual.run(core, PASSES, None, stop);
    let mut best = dual.labelling(core);
    let seed = |walk: usize| effort.seed.wrapping_add(walk as u64 * 1000);
    let mut walks: Vec<Walk> = (0..effort.walks.max(1)).map(|walk| Walk::new(core, best.clone(), seed(walk))).collect();
    let work = WORK[0] * core.len() + WORK[1];
    let mut round = 0;
    while round < effort.rounds && !stop() {
        let target = (best.over == 0 && best.cost < core.large).then_some(best.cost);
        if target.is_some_and(|target| target - dual.bound <= MET * target.abs()) {
            break;
        }
        let (cycle, phase) = (round / TEMPERATURES.len(), round % TEMPERATURES.len());
        let prices = dual.best.clone();
        if phase == 0 {
            let start = if cycle % 2 == 0 { dual.labelling(core) } else { best.clone() };
            walks.iter_mut().for_each(|walk| walk.go_to(core, &start, &prices));
        }
        let mean = best.cost.abs() / core.len() as f64;
        let temperature = mean * TEMPERATURES[phase] * SCALES[cycle / 2 % SCALES.len()];
        std::thread::scope(|scope| {
            for walk in &mut walks {
                let prices = &prices;
                scope.spawn(move || walk.run(core, prices, temperature, work, stop));
            }
            dual.run(core, PASSES, target, stop);
        });
        for walk in &walks {
            if walk.best.better_than(&best) {
                best.clone_from(&walk.best);
            }
        }
        round += 1;
    }
    let bound = divide(core, dual, &mut best, (effort.divisions, work, effort.seed), stop);
    (best, bound, round)
}
