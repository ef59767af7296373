//! Search from a labelling: trees of nodes are relabelled at once, at prices for what they use, and a change is made when it
//! lowers the cost together with weighted penalties for exceeding the limits. The weights grow where limits stay exceeded and
//! shrink where they hold, so that the search crosses the limits from both sides.

use super::block::{Block, Terms};
use super::core::Core;
use super::prices::Prices;
use super::random::Random;
use super::state::{Move, Scratch, State};

/// How much a weight grows where the limit is exceeded, and shrinks elsewhere, with each batch.
const GROW: f64 = 1.2;
const SHRINK: f64 = 0.95;
/// The room, as a part of the limit, from which on a time has no price.
const ROOM: i64 = 20;
/// The largest block is of at most two to this power.
const LARGEST: u32 = 11;

/// A searching thread's state.
pub(super) struct Walk {
    pub(super) state: State,
    pub(super) best: State,
    weights: Vec<f64>,
    prices: Prices,
    random: Random,
    block: Block,
    scratch: Scratch,
    moves: Vec<Move>,
}

impl Walk {
    pub(super) fn new(core: &Core, state: State, seed: u64) -> Self {
        Self {
            best: state.clone(),
            state,
            weights: vec![0.0; core.limits.len()],
            prices: Prices::new(core, vec![0.0; core.limits.len()]),
            random: Random::new(seed),
            block: Block::new(core),
            scratch: Scratch::new(core),
            moves: Vec::new(),
        }
    }

    /// Takes over a labelling.
    pub(super) fn go_to(&mut self, core: &Core, state: &State, dual: &Prices) {
        self.state.clone_from(state);
        self.weights.clone_from(&dual.at);
        self.state.weigh(core, &self.weights);
        self.remember();
    }

    fn remember(&mut self) {
        if self.state.better_than(&self.best) {
            self.best.clone_from(&self.state);
        }
    }

    /// Searches: `work` is the number of nodes relabelled in all, `dual` the prices at which the bound was found.
    pub(super) fn run(
        &mut self,
        core: &Core,
        dual: &Prices,
        temperature: f64,
        work: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) {
        let largest = core.len().ilog2().min(LARGEST) as usize + 1;
        let mut left = work as isize;
        while left > 0 && !stop() {
            self.reprice(core, dual);
            let mut batch = core.len() as isize;
            while batch > 0 {
                let root = self.random.below(core.len());
                let power = self.random.below(largest + 1);
                let size = 1 + self.random.below(1 << power);
                self.block.grow(core, root, size, &mut self.random);
                let done = self.block.len() as isize + 4;
                batch -= done;
                left -= done;
                let terms = Terms { prices: &self.prices, temperature };
                self.block.solve(core, &self.state, &terms, &mut self.random, &mut self.moves);
                self.consider(core, temperature);
            }
        }
    }

    /// Moves weights by what is exceeded, and prices with them.
    fn reprice(&mut self, core: &Core, dual: &Prices) {
        if core.limits.is_empty() {
            return;
        }
        let scale = 2.0 * self.random.unit();
        for (time, excess) in self.state.excess(core).enumerate() {
            let weight = &mut self.weights[time];
            if excess > 0 {
                *weight = (*weight * GROW).max(core.least_price).max(dual.at[time]).min(core.large);
            } else {
                *weight *= SHRINK;
            }
            let tight = excess > -core.limits[time].abs() / ROOM;
            self.prices.at[time] = if excess > 0 {
                *weight
            } else if tight {
                scale * dual.at[time]
            } else {
                0.0
            };
        }
        self.prices.refresh(core);
        self.state.weigh(core, &self.weights);
    }

    /// Makes the change if it is good.
    fn consider(&mut self, core: &Core, temperature: f64) {
        if self.moves.is_empty() {
            return;
        }
        let change = self.state.judge(core, &self.moves, &self.weights, &mut self.scratch);
        let worse = change.cost - self.state.cost + change.penalty - self.state.penalty;
        let allowed = if temperature > 0.0 { -temperature * (1.0 - self.random.unit()).ln() } else { 0.0 };
        if worse <= allowed {
            self.state.apply(core, &self.moves, &change, &mut self.scratch);
            self.remember();
        }
    }
}
