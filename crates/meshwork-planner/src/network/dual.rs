//! The lower bound at moving prices. Passes of messages raise the bound at fixed prices; the labelling that a pass leaves shows
//! which limits it exceeds, and prices follow that (a subgradient of the Lagrange dual).

use super::bound::{Direction, Messages};
use super::core::Core;
use super::prices::Prices;
use super::state::State;

/// Messages and prices, with the best bound they gave.
pub(super) struct Dual {
    messages: Messages,
    prices: Prices,
    /// No labelling within the limits costs less.
    pub(super) bound: f64,
    /// The prices at which the bound was found.
    pub(super) best: Prices,
    /// The usage above the limits, smoothed over passes.
    slope: Vec<f64>,
    step: f64,
    /// For each label how many of the labellings of the last passes have it, as a share.
    pub(super) shares: Vec<f64>,
    /// Passes since the bound last rose.
    stale: usize,
    done: usize,
}

/// The relative error that a bound's sum may have.
const ROUNDING: f64 = 1e-12;
/// The relative distance by which a label has to be worse than a labelling that is known.
const MET: f64 = 1e-9;
/// Passes before prices first move.
const FIRST_PASSES: usize = 10;
/// Passes without a better bound after which the step becomes smaller, by how much, and where it starts over.
const PATIENCE: usize = 15;
const SHRINK: f64 = 0.6;
const SMALLEST_STEP: f64 = 1e-3;
/// The share of a pass in the slope.
const FRESH: f64 = 0.4;
/// The share of a pass in those of labels: some fifty passes count.
const RECENT: f64 = 0.02;

impl Dual {
    pub(super) fn new(core: &Core) -> Self {
        let prices = Prices::new(core, vec![0.0; core.limits.len()]);
        Self {
            messages: Messages::new(core),
            best: prices.clone(),
            prices,
            bound: f64::NEG_INFINITY,
            slope: vec![0.0; core.limits.len()],
            step: 1.0,
            shares: vec![0.0; core.costs.len()],
            stale: 0,
            done: 0,
        }
    }

    /// The same messages and prices for a part of the labellings, of which no bound is known yet.
    pub(super) fn go_on(&self) -> Self {
        Self {
            messages: self.messages.clone(),
            best: self.best.clone(),
            prices: self.best.clone(),
            bound: f64::NEG_INFINITY,
            slope: self.slope.clone(),
            step: 1.0,
            shares: self.shares.clone(),
            stale: 0,
            done: self.done,
        }
    }

    /// Forbids labels with which no labelling within the limits costs less than `target`, and says how many.
    pub(super) fn forbid(&mut self, core: &mut Core, target: f64) -> usize {
        self.prices.clone_from(&self.best);
        let mut count = 0;
        for direction in [Direction::Forward, Direction::Backward] {
            let (least, more) = self.messages.pass_by_label(core, &self.prices, direction);
            let bound = least - self.prices.limits - ROUNDING * (least.abs() + self.prices.limits.abs());
            self.bound = self.bound.max(bound);
            for (cost, more) in core.costs.iter_mut().zip(more) {
                if *cost < core.large && bound + more * (1.0 - ROUNDING) > target + MET * target.abs() {
                    *cost = core.large;
                    count += 1;
                }
            }
        }
        count
    }

    /// The labelling of the last pass.
    pub(super) fn labelling(&self, core: &Core) -> State {
        State::new(core, self.messages.labels.clone())
    }

    /// Passes in both directions, with prices moved after each. `target` is the cost of a labelling within the limits.
    pub(super) fn run(&mut self, core: &Core, passes: usize, target: Option<f64>, stop: &(dyn Fn() -> bool + Sync)) {
        for _ in 0..passes {
            if stop() {
                return;
            }
            for direction in [Direction::Forward, Direction::Backward] {
                let least = self.messages.pass(core, &self.prices, direction);
                // Less what rounding may have added.
                let bound = least - self.prices.limits - ROUNDING * (least.abs() + self.prices.limits.abs());
                if bound > self.bound {
                    if bound - self.bound > 1e-6 * bound.abs() {
                        self.stale = 0;
                    }
                    self.bound = bound;
                    self.best.clone_from(&self.prices);
                }
            }
            self.shares.iter_mut().for_each(|share| *share *= 1.0 - RECENT);
            for (node, label) in self.messages.labels.iter().enumerate() {
                self.shares[core.offsets[node] + *label as usize] += RECENT;
            }
            self.stale += 1;
            self.done += 1;
            if self.done > FIRST_PASSES && !core.limits.is_empty() {
                self.reprice(core, target);
            }
        }
    }

    /// Moves the prices along the usage above the limits, as far as the gap suggests (Polyak's step).
    fn reprice(&mut self, core: &Core, target: Option<f64>) {
        if self.stale > PATIENCE {
            self.stale = 0;
            self.step = if self.step < SMALLEST_STEP { 1.0 } else { self.step * SHRINK };
            self.prices.clone_from(&self.best);
        }
        let mut square = 0.0;
        let state = self.labelling(core);
        for ((slope, excess), price) in self.slope.iter_mut().zip(state.excess(core)).zip(&self.prices.at) {
            *slope = (1.0 - FRESH) * *slope + FRESH * excess as f64;
            if *slope > 0.0 || *price > 0.0 {
                square += *slope * *slope;
            }
        }
        if square == 0.0 {
            return;
        }
        let gap = match target {
            Some(target) => (target - self.bound).max(1e-9 * target.abs()),
            None => (self.bound.abs() * 0.1).clamp(1e-9 * core.large, core.large),
        };
        let step = self.step * gap / square;
        for (price, slope) in self.prices.at.iter_mut().zip(&self.slope) {
            *price = (*price + step * slope).clamp(0.0, core.large);
        }
        self.prices.refresh(core);
    }
}
