//! Prices of usage: Lagrange multipliers of the limits, one for each time, and what the labels cost at these prices.

use super::core::Core;

#[derive(Clone)]
pub(super) struct Prices {
    pub(super) at: Vec<f64>,
    /// What each label's usage costs.
    pub(super) of_label: Vec<f64>,
    /// What the limits are worth: the sum of prices times limits.
    pub(super) limits: f64,
}

impl Prices {
    pub(super) fn new(core: &Core, at: Vec<f64>) -> Self {
        let mut prices = Self { at, of_label: vec![0.0; core.costs.len()], limits: 0.0 };
        prices.refresh(core);
        prices
    }

    /// Brings the costs of labels up to date with the prices.
    pub(super) fn refresh(&mut self, core: &Core) {
        let mut sums = Vec::with_capacity(self.at.len() + 1);
        let mut sum = 0.0;
        sums.push(0.0);
        for price in &self.at {
            sum += price;
            sums.push(sum);
        }
        self.of_label.fill(0.0);
        for node in 0..core.len() {
            let labels = &mut self.of_label[core.offsets[node]..core.offsets[node + 1]];
            for (times, usage) in core.spans(node) {
                let price = sums[times.end] - sums[times.start];
                if price > 0.0 {
                    labels.iter_mut().zip(usage).for_each(|(cost, usage)| *cost += price * *usage as f64);
                }
            }
        }
        self.limits = self.at.iter().zip(&core.limits).map(|(price, limit)| price * *limit as f64).sum();
    }
}
