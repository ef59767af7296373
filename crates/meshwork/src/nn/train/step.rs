//! A training step: loss, gradient, accumulation, mixed precision, update, and where each part of the state lives.

use std::sync::Arc;

use meshwork_runtime::Engine;

use super::{Optimizer, OptimizerState, Settings};
use crate::ElementType::{self, F32};
use crate::control::scan;
use crate::engine::Place;
use crate::error::{Result, fail};
use crate::jit::{Jit, jit};
use crate::ops::full;
use crate::rules::{FsdpRule, Rule, constrain};
use crate::spec::P;
use crate::trace::on_behalf_of_caller;
use crate::transform::{differentiable, value_and_grad};
use crate::tree::{Tree, leaves, replace};
use crate::{Array, Lowered, Plan, Tensor};

/// What is split over the data axis besides the batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Zero {
    /// Nothing: the state of the optimizer is placed like the parameters.
    #[default]
    None,
    /// The state of the optimizer.
    One,
    /// And the gradients: they are reduced to the part that each device updates.
    Two,
    /// And the parameters: they are gathered for each step.
    Three,
}

/// Parameters and optimizer state.
pub type TrainState<A> = (A, OptimizerState<A>);

/// A step as a function of state and batch.
pub type StepFunction<A, B> = Box<dyn Fn(TrainState<A>, B) -> (Tensor, TrainState<A>) + Send + Sync>;

type LossFunction<A, B> = Arc<dyn Fn(&A, &B) -> Tensor + Send + Sync>;

/// A description of a training step; [`build`](Trainer::build) makes it a [`Step`].
pub struct Trainer<A, B> {
    loss: LossFunction<A, B>,
    settings: Settings,
}

impl<A: Tree + 'static, B: Tree + 'static> Trainer<A, B>
where
    A::Host: 'static,
    B::Host: 'static,
{
    /// Of a loss of parameters and batch. It is the loss of the whole batch, however that is split: a mean over
    /// examples is a mean over all of them.
    pub fn new(loss: impl Fn(&A, &B) -> Tensor + Send + Sync + 'static, optimizer: Optimizer) -> Trainer<A, B> {
        Trainer { loss: Arc::new(loss), settings: Settings::new(optimizer) }
    }

    fn with(mut self, set: impl FnOnce(Settings) -> Settings) -> Self {
        self.settings = set(self.settings);
        self
    }

    /// [`Settings::on`].
    pub fn on(self, mesh: &impl Place) -> Self {
        self.with(|s| s.on(mesh))
    }

    /// [`Settings::engine`].
    pub fn engine(self, engine: impl Engine + 'static) -> Self {
        self.with(|s| s.engine(engine))
    }

    /// [`Settings::params`].
    pub fn params(self, rule: impl Into<Rule>) -> Self {
        self.with(|s| s.params(rule))
    }

    /// [`Settings::batch`].
    pub fn batch(self, rule: impl Into<Rule>) -> Self {
        self.with(|s| s.batch(rule))
    }

    /// [`Settings::zero`].
    pub fn zero(self, zero: Zero, axis: &str) -> Self {
        self.with(|s| s.zero(zero, axis))
    }

    /// [`Settings::zero_by`].
    pub fn zero_by(self, zero: Zero, rule: FsdpRule) -> Self {
        self.with(|s| s.zero_by(zero, rule))
    }

    /// [`Settings::accumulate`].
    pub fn accumulate(self, parts: i64) -> Self {
        self.with(|s| s.accumulate(parts))
    }

    /// [`Settings::compute_in`].
    pub fn compute_in(self, dtype: ElementType) -> Self {
        self.with(|s| s.compute_in(dtype))
    }

    /// The step.
    pub fn build(self) -> Step<A, B> {
        let (stored, gradients, moments) = self.settings.rules();
        let state = Rule::tuple([stored.clone(), Settings::optimizer_rule(moments)]);
        let Settings { optimizer, mesh, engine, params, batch, accumulate: parts, compute, .. } = self.settings;
        let (loss, on_mesh, updater) = (self.loss, mesh.is_some(), optimizer.clone());
        let step = move |(old, memory): TrainState<A>, data: B| {
            let used = cast(&old, compute);
            let used = if on_mesh { constrain(&used, &params) } else { used };
            let slope = |data: B| {
                let of = |p: A| (loss)(&p, &cast(&data, compute)).to(F32);
                let (value, slope) = value_and_grad(of, used.map(&mut Tensor::clone));
                let slope = if on_mesh { constrain(&slope, &gradients) } else { slope };
                (value, cast(&slope, compute.map(|_| F32)))
            };
            let (value, slope) = match parts {
                1 => slope(data),
                parts => accumulated(&slope, &used, &data, parts),
            };
            let (new, memory) = updater.update(&old, &slope, &memory);
            (value, (new, memory))
        };
        let step: StepFunction<A, B> = Box::new(move |state, data| on_behalf_of_caller(|| step(state, data)));
        let init: InitFunction<A> = Box::new(move |params| {
            let memory = on_behalf_of_caller(|| optimizer.init(&params));
            (params, memory)
        });
        let (step, init) = match &mesh {
            None => (jit(step).single_device().donate([0]), jit(init).single_device()),
            Some(mesh) => (
                jit(step)
                    .on(mesh)
                    .in_shardings([state.clone(), batch])
                    .out_shardings((P::replicated(), state.clone()))
                    .donate([0]),
                jit(init).on(mesh).in_shardings([stored]).out_shardings(state_members(&state)),
            ),
        };
        match engine {
            Some(engine) => Step { step: step.engine(engine.clone()), init: init.engine(engine) },
            None => Step { step, init },
        }
    }
}

type InitFunction<A> = Box<dyn Fn(A) -> TrainState<A> + Send + Sync>;

/// The rules of the members of a tuple of rules.
fn state_members(state: &Rule) -> Vec<Rule> {
    match state {
        Rule::Fields(fields) => fields.iter().map(|(_, rule)| rule.clone()).collect(),
        other => vec![other.clone()],
    }
}

/// A training step, traced for the shapes it meets. Made by [`Trainer`].
pub struct Step<A: Tree + 'static, B: Tree + 'static>
where
    A::Host: 'static,
    B::Host: 'static,
{
    step: Jit<StepFunction<A, B>, (TrainState<A>, B)>,
    init: Jit<InitFunction<A>, (A,)>,
}

/// [`TrainState`] on the host.
type HostState<A> = <TrainState<A> as Tree>::Host;

impl<A: Tree + 'static, B: Tree + 'static> Step<A, B>
where
    A::Host: 'static,
    B::Host: 'static,
{
    /// The state before the first step, placed.
    #[track_caller]
    pub fn init(&self, params: &A::Host) -> Result<HostState<A>> {
        self.init.call(params)
    }

    /// The loss before the step, and the state after it. The state before is [donated](Jit::donate): its memory becomes
    /// that of the state after, and using it again is an error. [`Array::copy`] keeps what is needed longer.
    #[track_caller]
    pub fn step(&self, state: &HostState<A>, batch: &B::Host) -> Result<(Array, HostState<A>)> {
        self.step.call((state, batch))
    }

    /// What the step communicates.
    #[track_caller]
    pub fn plan(&self, state: &HostState<A>, batch: &B::Host) -> Result<Plan> {
        self.step.plan((state, batch))
    }

    /// The program of the step.
    #[track_caller]
    pub fn lower(&self, state: &HostState<A>, batch: &B::Host) -> Result<impl std::ops::Deref<Target = Lowered>> {
        self.step.lower((state, batch))
    }
}

/// The floats of a tree in another element type.
pub(super) fn cast<T: Tree>(tree: &T, dtype: Option<ElementType>) -> T {
    let Some(dtype) = dtype else { return tree.map(&mut Tensor::clone) };
    tree.map(&mut |x| if differentiable(x) { x.to(dtype) } else { x.clone() })
}

/// The batch in parts along a new first dimension.
#[track_caller]
pub(super) fn in_parts<B: Tree>(data: &B, parts: i64) -> B {
    data.map(&mut |x| {
        let rows = x.shape().first().copied().unwrap_or(0);
        if parts < 1 || rows == 0 || rows % parts != 0 {
            fail("accumulate", format!("{rows} rows of the batch in {parts} parts; give a number that divides them"));
        }
        let mut shape = vec![rows / parts, parts];
        shape.extend(&x.shape()[1..]);
        x.reshape(shape).swap_axes(0, 1)
    })
}

/// Zeros to add gradients to.
pub(super) fn no_slope<A: Tree>(params: &A) -> Vec<Tensor> {
    let wide = |p: &Tensor| if differentiable(p) { p.to(F32).zeros_like() } else { p.zeros_like() };
    leaves(params).iter().map(wide).collect()
}

/// Sums of gradients, and another one.
pub(super) fn add_slope<A: Tree>(sum: &[Tensor], slope: &A) -> Vec<Tensor> {
    let add = |(s, g): (&Tensor, &Tensor)| if differentiable(g) { s + g.to(F32) } else { s.clone() };
    sum.iter().zip(&leaves(slope)).map(add).collect()
}

/// The mean of `parts` gradients with this sum.
pub(super) fn mean_slope<A: Tree>(params: &A, sum: &[Tensor], parts: i64) -> A {
    let share = 1.0 / parts as f64;
    let mean: Vec<Tensor> = sum.iter().map(|s| if differentiable(s) { s * share } else { s.clone() }).collect();
    replace(params, &mean)
}

/// The mean of loss and gradient over parts of the batch.
fn accumulated<A: Tree, B: Tree>(slope: &impl Fn(B) -> (Tensor, A), params: &A, data: &B, parts: i64) -> (Tensor, A) {
    let start = (full((), F32, 0.0), no_slope(params));
    let ((value, sum), ()) = scan(start, in_parts(data, parts), |(value, sum), data| {
        let (more, slope) = slope(data);
        ((value + more, add_slope(&sum, &slope)), ())
    });
    (value * (1.0 / parts as f64), mean_slope(params, &sum, parts))
}
