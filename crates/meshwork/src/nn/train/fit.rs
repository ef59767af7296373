//! The loop around a step: reports, evaluation, early stop, a line of progress. A program that wants something else
//! writes its own; this is all there is to it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::Array;
use crate::error::Result;

/// What is known after a step.
#[derive(Clone, Debug)]
pub struct Report<M> {
    /// The number of the step, from 1.
    pub step: u64,
    /// The loss before the step.
    pub loss: Array,
    /// What else the loss has returned.
    pub metrics: M,
    /// Since the loop began.
    pub elapsed: Duration,
    /// Steps since the loop began.
    pub steps: u64,
}

impl<M> Report<M> {
    /// Steps per second since the loop began.
    pub fn rate(&self) -> f64 {
        self.steps as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Makes a step of each batch, and calls `after` with the report and the state: what it is for is evaluation, checkpoints,
/// printing and stopping. `first` is the number of steps made before, in an earlier run.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use meshwork::prelude::*;
/// use meshwork::train::{Optimizer, Patience, Trainer, fit};
///
/// let step = Trainer::new(|w: &Tensor, x: &Tensor| (w - x).square().mean_all(), Optimizer::sgd(0.5)).build();
/// let state = step.init(&Array::full([2], 3.0f32))?;
/// let mut patience = Patience::new(3);
/// let batches = std::iter::repeat_n(Array::zeros([2], F32), 1000);
/// let mut last = 0;
/// let state = fit(state, 0, batches, |s, b| step.step(s, b).map(|(loss, s)| (loss, (), s)), |report, _| {
///     last = report.step;
///     Ok(if patience.is_over(report.loss.item::<f32>()?.into()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
/// })?;
/// assert!(last < 1000 && state.0.to_vec::<f32>()?[0].abs() < 1e-3);
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn fit<S, B, M>(
    mut state: S,
    first: u64,
    batches: impl IntoIterator<Item = B>,
    mut step: impl FnMut(&S, &B) -> Result<(Array, M, S)>,
    mut after: impl FnMut(&Report<M>, &S) -> Result<ControlFlow<()>>,
) -> Result<S> {
    let begin = Instant::now();
    for (made, batch) in (1..).zip(batches) {
        let (loss, metrics, next) = step(&state, &batch)?;
        state = next;
        let report = Report { step: first + made, loss, metrics, elapsed: begin.elapsed(), steps: made };
        if after(&report, &state)?.is_break() {
            break;
        }
    }
    Ok(state)
}

/// Says when a number has not become smaller for some time: early stop.
#[derive(Clone, Debug)]
pub struct Patience {
    best: f64,
    since: usize,
    most: usize,
}

impl Patience {
    /// Over after `most` numbers without a new smallest one.
    pub fn new(most: usize) -> Patience {
        Patience { best: f64::INFINITY, since: 0, most }
    }

    /// Takes in a number.
    pub fn is_over(&mut self, number: f64) -> bool {
        if number < self.best {
            (self.best, self.since) = (number, 0);
        } else {
            self.since += 1;
        }
        self.since >= self.most
    }

    /// The smallest number so far.
    pub fn best(&self) -> f64 {
        self.best
    }
}

/// A bar of progress on standard error, with steps per second and loss. Nothing is shown where that is no terminal.
#[cfg(feature = "progress")]
pub struct Bar(indicatif::ProgressBar);

#[cfg(feature = "progress")]
impl Bar {
    /// A bar for `steps` steps.
    pub fn new(steps: u64) -> Bar {
        let bar = indicatif::ProgressBar::new(steps);
        let style = indicatif::ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg} {eta}");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        Bar(bar)
    }

    /// Shows a report. The loss is read from the devices, which waits for the step.
    pub fn show<M>(&self, report: &Report<M>) -> Result<()> {
        let loss = report.loss.to_f64s()?.first().copied().unwrap_or(f64::NAN);
        self.0.set_position(report.step);
        self.0.set_message(format!("{:.1} steps/s, loss {loss:.4}", report.rate()));
        Ok(())
    }
}
