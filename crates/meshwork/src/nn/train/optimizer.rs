//! Optimizers: from gradients and optimizer state to the next parameters.

use super::{OptimizerState, Schedule, clip_by_global_norm};
use crate::ElementType::{F32, I32};
use crate::Tensor;
use crate::ops::{full, zeros};
use crate::transform::differentiable;
use crate::tree::{Tree, leaves, replace};

/// How gradients become steps.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Method {
    /// Against the gradient.
    Sgd,
    /// Against a decaying sum of gradients.
    Momentum {
        /// What is left of the sum after a step.
        beta: f64,
        /// Looks one step ahead.
        nesterov: bool,
    },
    /// Against the average gradient over the root of the average square, both corrected for their start at 0.
    Adam {
        /// What is left of the average after a step.
        beta1: f64,
        /// What is left of the average square after a step.
        beta2: f64,
        /// Keeps the quotient finite.
        epsilon: f64,
    },
    /// Against the sign of an average of gradients.
    Lion {
        /// The share of the average in the step.
        beta1: f64,
        /// What is left of the average after a step.
        beta2: f64,
    },
}

/// An optimizer. Integers among the parameters stay as they are; moments are kept in `f32`.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::train::{Optimizer, Schedule};
///
/// let adam = Optimizer::adamw(Schedule::warm_up(1e-3, 100), 0.1).clip(1.0);
/// let step = jit(move |w: Tensor| {
///     let state = adam.init(&w);
///     let slope = grad(|w: Tensor| w.square().sum_all(), w.clone());
///     adam.update(&w, &slope, &state).0
/// });
/// # let _ = step.call(&Array::from([1.0f32]))?;
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Optimizer {
    method: Method,
    rate: Schedule,
    decay: f64,
    clip: Option<f64>,
}

impl Optimizer {
    /// With this method and step size.
    pub fn new(method: Method, rate: impl Into<Schedule>) -> Optimizer {
        Optimizer { method, rate: rate.into(), decay: 0.0, clip: None }
    }

    /// Against the gradient.
    pub fn sgd(rate: impl Into<Schedule>) -> Optimizer {
        Optimizer::new(Method::Sgd, rate)
    }

    /// Against a decaying sum of gradients.
    pub fn momentum(rate: impl Into<Schedule>, beta: f64) -> Optimizer {
        Optimizer::new(Method::Momentum { beta, nesterov: false }, rate)
    }

    /// Adam with its usual averages.
    pub fn adam(rate: impl Into<Schedule>) -> Optimizer {
        Optimizer::new(Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }, rate)
    }

    /// Adam, and parameters decay by `decay` times the step size.
    pub fn adamw(rate: impl Into<Schedule>, decay: f64) -> Optimizer {
        Optimizer::adam(rate).decay(decay)
    }

    /// Lion with its usual averages, and parameters decay by `decay` times the step size.
    pub fn lion(rate: impl Into<Schedule>, decay: f64) -> Optimizer {
        Optimizer::new(Method::Lion { beta1: 0.9, beta2: 0.99 }, rate).decay(decay)
    }

    /// Parameters shrink by `decay` times the step size each step, apart from the gradient.
    pub fn decay(mut self, decay: f64) -> Optimizer {
        self.decay = decay;
        self
    }

    /// Gradients of a larger [global norm](super::global_norm) are scaled down to `norm`.
    pub fn clip(mut self, norm: f64) -> Optimizer {
        self.clip = Some(norm);
        self
    }

    /// The state before the first step.
    #[track_caller]
    pub fn init<A: Tree>(&self, params: &A) -> OptimizerState<A> {
        let moment = || params.map(&mut |p| if differentiable(p) { zeros(p.shape(), F32) } else { p.zeros_like() });
        let (first, second) = match self.method {
            Method::Sgd => (None, None),
            Method::Momentum { .. } | Method::Lion { .. } => (Some(moment()), None),
            Method::Adam { .. } => (Some(moment()), Some(moment())),
        };
        OptimizerState { step: full((), I32, 0), first, second }
    }

    /// The parameters and the state after a step.
    #[track_caller]
    pub fn update<A: Tree>(&self, params: &A, grads: &A, state: &OptimizerState<A>) -> (A, OptimizerState<A>) {
        let clipped = self.clip.map(|most| clip_by_global_norm(grads, most).0);
        let grads = leaves(clipped.as_ref().unwrap_or(grads));
        let old = leaves(params);
        let (first, second) = (state.first.as_ref().map(leaves), state.second.as_ref().map(leaves));
        let rate = self.rate.tensor(&state.step);
        let step = &state.step + 1;
        let (mut new, mut m, mut v): (Vec<Tensor>, Vec<Tensor>, Vec<Tensor>) = (vec![], vec![], vec![]);
        for (i, (p, g)) in old.iter().zip(&grads).enumerate() {
            let at = |list: &Option<Vec<Tensor>>| list.as_ref().and_then(|l| l.get(i)).cloned();
            if !differentiable(p) {
                new.push(p.clone());
                m.extend(at(&first));
                v.extend(at(&second));
                continue;
            }
            let (direction, m1, v1) = self.direction(&g.to(F32), at(&first), at(&second), &step);
            let wide = p.to(F32);
            let direction = if self.decay == 0.0 { direction } else { direction + &wide * self.decay };
            new.push((wide - &rate * direction).to(p.dtype()));
            m.extend(m1);
            v.extend(v1);
        }
        let state = OptimizerState {
            step,
            first: state.first.as_ref().map(|tree| replace(tree, &m)),
            second: state.second.as_ref().map(|tree| replace(tree, &v)),
        };
        (replace(params, &new), state)
    }

    /// The direction of a step for one array, and what is remembered then. A moment that is missing counts as 0.
    #[track_caller]
    fn direction(
        &self,
        g: &Tensor,
        first: Option<Tensor>,
        second: Option<Tensor>,
        step: &Tensor,
    ) -> (Tensor, Option<Tensor>, Option<Tensor>) {
        let average = |old: Option<Tensor>, new: Tensor, beta: f64| match old {
            Some(old) => old * beta + new * (1.0 - beta),
            None => new * (1.0 - beta),
        };
        match self.method {
            Method::Sgd => (g.clone(), None, None),
            Method::Momentum { beta, nesterov } => {
                let velocity = first.map_or(g.clone(), |m| m * beta + g);
                let direction = if nesterov { &velocity * beta + g } else { velocity.clone() };
                (direction, Some(velocity), None)
            }
            Method::Adam { beta1, beta2, epsilon } => {
                let (m, v) = (average(first, g.clone(), beta1), average(second, g.square(), beta2));
                let t = step.to(F32);
                let correct = |beta: f64| 1.0 - (&t * beta.ln()).exp();
                let direction = (&m / correct(beta1)) / ((&v / correct(beta2)).sqrt() + epsilon);
                (direction, Some(m), Some(v))
            }
            Method::Lion { beta1, beta2 } => {
                let direction = average(first.clone(), g.clone(), beta1).sign();
                (direction, Some(average(first, g.clone(), beta2)), None)
            }
        }
    }
}
