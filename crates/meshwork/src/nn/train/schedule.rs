//! Learning-rate schedules.

use crate::ops::{full, select};
use crate::{ElementType, Tensor};

/// The learning rate as a function of the step number.
///
/// ```
/// use meshwork::train::Schedule;
///
/// let rate = Schedule::warm_up(0.1, 10).then(10, Schedule::cosine(0.1, 0.01, 100));
/// assert_eq!(rate.at(0), 0.0);
/// assert_eq!(rate.at(5), 0.05);
/// assert_eq!(rate.at(10), 0.1);
/// assert!((rate.at(60) - 0.055).abs() < 1e-9);
/// assert!((rate.at(1000) - 0.01).abs() < 1e-9);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub enum Schedule {
    /// Always the same.
    Constant(f64),
    /// From one number to another in a straight line, which then stays.
    Linear {
        /// At step 0.
        from: f64,
        /// From step `steps` on.
        to: f64,
        /// How many steps.
        steps: i64,
    },
    /// From one number to another along half a cosine, which then stays.
    Cosine {
        /// At step 0.
        from: f64,
        /// From step `steps` on.
        to: f64,
        /// How many steps.
        steps: i64,
    },
    /// Times `factor` each `every` steps, smoothly.
    Exponential {
        /// At step 0.
        from: f64,
        /// The factor.
        factor: f64,
        /// Steps for one factor.
        every: i64,
    },
    /// One schedule for some steps, then another that starts from 0.
    Then(Box<Schedule>, i64, Box<Schedule>),
}

impl Schedule {
    /// From 0 to `to` in a straight line.
    pub fn warm_up(to: f64, steps: i64) -> Schedule {
        Schedule::Linear { from: 0.0, to, steps }
    }

    /// From `from` to `to` along half a cosine.
    pub fn cosine(from: f64, to: f64, steps: i64) -> Schedule {
        Schedule::Cosine { from, to, steps }
    }

    /// This one for `steps` steps, then `next` from its beginning.
    pub fn then(self, steps: i64, next: Schedule) -> Schedule {
        Schedule::Then(Box::new(self), steps, Box::new(next))
    }

    /// The number at a step.
    pub fn at(&self, step: i64) -> f64 {
        let part = |steps: i64| (step as f64 / steps.max(1) as f64).clamp(0.0, 1.0);
        match self {
            Schedule::Constant(v) => *v,
            Schedule::Linear { from, to, steps } => from + (to - from) * part(*steps),
            Schedule::Cosine { from, to, steps } => {
                to + (from - to) * 0.5 * (1.0 + (std::f64::consts::PI * part(*steps)).cos())
            }
            Schedule::Exponential { from, factor, every } => from * factor.powf(step as f64 / (*every).max(1) as f64),
            Schedule::Then(first, steps, _) if step < *steps => first.at(step),
            Schedule::Then(_, steps, second) => second.at(step - steps),
        }
    }

    /// The number at a step of a program, an `i32` scalar; an `f32` scalar.
    #[track_caller]
    pub fn tensor(&self, step: &Tensor) -> Tensor {
        let part = |steps: i64| (step.to(ElementType::F32) / steps.max(1) as f64).clamp(0.0, 1.0);
        match self {
            Schedule::Constant(v) => full((), ElementType::F32, *v),
            Schedule::Linear { from, to, steps } => part(*steps) * (to - from) + *from,
            Schedule::Cosine { from, to, steps } => {
                ((part(*steps) * std::f64::consts::PI).cos() + 1.0) * (0.5 * (from - to)) + *to
            }
            Schedule::Exponential { from, factor, every } => {
                (step.to(ElementType::F32) * (factor.ln() / (*every).max(1) as f64)).exp() * *from
            }
            Schedule::Then(first, steps, second) => {
                select(step.lt(*steps), first.tensor(step), second.tensor(&(step - *steps)))
            }
        }
    }
}

impl From<f64> for Schedule {
    fn from(rate: f64) -> Schedule {
        Schedule::Constant(rate)
    }
}
