//! What training steps have in common: optimizer, mesh, placements, accumulation, precision.

use std::sync::Arc;

use meshwork_mesh::Mesh;
use meshwork_runtime::Engine;

use super::{Optimizer, Zero};
use crate::ElementType;
use crate::engine::Place;
use crate::rules::{FsdpRule, Rule};
use crate::spec::P;

/// How a training step runs; [`Trainer`](super::Trainer) and [`Learner`](super::Learner) are made of it and a loss.
#[derive(Clone)]
pub struct Settings {
    pub(super) optimizer: Optimizer,
    pub(super) mesh: Option<Mesh>,
    pub(super) engine: Option<Arc<dyn Engine>>,
    pub(super) params: Rule,
    pub(super) batch: Rule,
    pub(super) zero: Option<(Zero, FsdpRule)>,
    pub(super) accumulate: i64,
    pub(super) compute: Option<ElementType>,
    pub(super) loss_scale: Option<f64>,
}

impl Settings {
    /// On one device, with parameters as they are.
    pub fn new(optimizer: Optimizer) -> Settings {
        Settings {
            optimizer,
            mesh: None,
            engine: None,
            params: P::replicated().into(),
            batch: Rule::Free,
            zero: None,
            accumulate: 1,
            compute: None,
            loss_scale: None,
        }
    }

    /// Over this mesh; on one device otherwise. On one of the [devices of an engine](crate::Devices) it runs there.
    pub fn on(mut self, mesh: &impl Place) -> Self {
        self.mesh = Some(mesh.mesh().clone());
        self.engine = mesh.engine().or(self.engine);
        self
    }

    /// On another engine than [`jit`](crate::jit) takes by default.
    pub fn engine(mut self, engine: impl Engine + 'static) -> Self {
        self.engine = Some(Arc::new(engine));
        self
    }

    /// How parameters are placed where they are used. Replicated by default.
    pub fn params(mut self, rule: impl Into<Rule>) -> Self {
        self.params = rule.into();
        self
    }

    /// How the batch is placed.
    pub fn batch(mut self, rule: impl Into<Rule>) -> Self {
        self.batch = rule.into();
        self
    }

    /// What is split over `axis` beside the batch: dimensions that divide, as [`FsdpRule`] picks them, of all arrays.
    pub fn zero(self, zero: Zero, axis: &str) -> Self {
        self.zero_by(zero, FsdpRule::new(axis).least(1))
    }

    /// What is split by a rule of its own, with a smallest size for example.
    pub fn zero_by(mut self, zero: Zero, rule: FsdpRule) -> Self {
        self.zero = Some((zero, rule));
        self
    }

    /// Computes the gradient in `parts` parts of the batch, one after the other, with the memory of one. The part a row
    /// belongs to is its number modulo `parts`, so each device has rows of each part.
    pub fn accumulate(mut self, parts: i64) -> Self {
        self.accumulate = parts;
        self
    }

    /// Computes loss and gradient in this element type; parameters and the state of the optimizer stay as they are.
    pub fn compute_in(mut self, dtype: ElementType) -> Self {
        self.compute = Some(dtype);
        self
    }

    /// Multiplies the loss by a number that starts as `start`, so that small gradients do not vanish in `f16`, and divides
    /// the gradients by it. A step whose gradients are not finite changes nothing and halves the number; after 2000
    /// steps without one it doubles. A [`Learner`](super::Learner) does so, a [`Trainer`](super::Trainer) does not.
    pub fn loss_scale(mut self, start: f64) -> Self {
        self.loss_scale = Some(start);
        self
    }

    /// The rule of parameters as stored, of gradients and of the optimizer's state, in this order.
    pub(super) fn rules(&self) -> (Rule, Rule, Rule) {
        let (zero, rule) = match &self.zero {
            Some((zero, rule)) => (*zero, Some(rule)),
            None => (Zero::None, None),
        };
        let split = |from: Zero| match rule {
            Some(rule) if zero >= from => self.params.clone().and(rule.clone()),
            _ => self.params.clone(),
        };
        (split(Zero::Three), split(Zero::Two), split(Zero::One))
    }

    /// The rule of [`OptimizerState`](super::OptimizerState), whose moments are placed by `moments`.
    pub(super) fn optimizer_rule(moments: Rule) -> Rule {
        Rule::fields([("step", P::replicated().into()), ("first", moments.clone()), ("second", moments)])
    }
}
