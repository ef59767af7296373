//! A training step: loss, gradient, accumulation, mixed precision, update, and where each part of the state lives.

use std::sync::Arc;

use meshwork_mesh::Mesh;
use meshwork_runtime::Engine;

use super::{Optimizer, OptimizerState};
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
    optimizer: Optimizer,
    mesh: Option<Mesh>,
    engine: Option<Arc<dyn Engine>>,
    params: Rule,
    batch: Rule,
    zero: Option<(Zero, FsdpRule)>,
    accumulate: i64,
    compute: Option<ElementType>,
}

impl<A: Tree + 'static, B: Tree + 'static> Trainer<A, B>
where
    A::Host: 'static,
    B::Host: 'static,
{
    /// Of a loss of parameters and batch. It is the loss of the whole batch, however that is split: a mean over
    /// examples is a mean over all of them.
    pub fn new(loss: impl Fn(&A, &B) -> Tensor + Send + Sync + 'static, optimizer: Optimizer) -> Trainer<A, B> {
        Trainer {
            loss: Arc::new(loss),
            optimizer,
            mesh: None,
            engine: None,
            params: P::replicated().into(),
            batch: Rule::Free,
            zero: None,
            accumulate: 1,
            compute: None,
        }
    }

    /// Over this mesh; on one device otherwise. On one of the [devices of an engine](crate::Devices) it runs there.
    pub fn on(mut self, mesh: &impl Place) -> Self {
        self.mesh = Some(mesh.mesh().clone());
        self.engine = mesh.engine().or(self.engine);
        self
    }

    /// On another engine than [`jit`] takes by default.
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

    /// The rule of parameters as stored, of gradients and of the optimizer's state, in this order.
    fn rules(&self) -> (Rule, Rule, Rule) {
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

    /// The step.
    pub fn build(self) -> Step<A, B> {
        let (stored, gradients, moments) = self.rules();
        let state = Rule::tuple([
            stored.clone(),
            Rule::fields([("step", P::replicated().into()), ("first", moments.clone()), ("second", moments)]),
        ]);
        let on_mesh = self.mesh.is_some();
        let (optimizer, params, batch) = (self.optimizer.clone(), self.params.clone(), self.batch.clone());
        let (loss, parts, compute) = (self.loss.clone(), self.accumulate, self.compute);
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
            let (new, memory) = optimizer.update(&old, &slope, &memory);
            (value, (new, memory))
        };
        let step: StepFunction<A, B> = Box::new(move |state, data| on_behalf_of_caller(|| step(state, data)));
        let optimizer = self.optimizer;
        let init: InitFunction<A> = Box::new(move |params| {
            let memory = on_behalf_of_caller(|| optimizer.init(&params));
            (params, memory)
        });
        let (step, init) = match &self.mesh {
            None => (jit(step).single_device().donate([0]), jit(init).single_device()),
            Some(mesh) => (
                jit(step)
                    .on(mesh)
                    .in_shardings([state.clone(), batch])
                    .out_shardings([P::replicated().into(), state.clone()])
                    .donate([0]),
                jit(init).on(mesh).in_shardings([stored]).out_shardings(state_members(&state)),
            ),
        };
        match self.engine {
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
fn cast<T: Tree>(tree: &T, dtype: Option<ElementType>) -> T {
    let Some(dtype) = dtype else { return tree.map(&mut Tensor::clone) };
    tree.map(&mut |x| if differentiable(x) { x.to(dtype) } else { x.clone() })
}

/// The mean of loss and gradient over parts of the batch.
fn accumulated<A: Tree, B: Tree>(slope: &impl Fn(B) -> (Tensor, A), params: &A, data: &B, parts: i64) -> (Tensor, A) {
    let split = data.map(&mut |x| {
        let rows = x.shape().first().copied().unwrap_or(0);
        if parts < 1 || rows == 0 || rows % parts != 0 {
            fail("accumulate", format!("{rows} rows of the batch in {parts} parts; give a number that divides them"));
        }
        let mut shape = vec![rows / parts, parts];
        shape.extend(&x.shape()[1..]);
        x.reshape(shape).swap_axes(0, 1)
    });
    let wide = |p: &Tensor| if differentiable(p) { p.to(F32).zeros_like() } else { p.zeros_like() };
    let zero: Vec<Tensor> = leaves(params).iter().map(wide).collect();
    let ((value, sum), ()) = scan((full([], F32, 0.0), zero), split, |(value, sum), data| {
        let (more, slope) = slope(data);
        let add = |(s, g): (&Tensor, &Tensor)| if differentiable(g) { s + g.to(F32) } else { s.clone() };
        let sum: Vec<Tensor> = sum.iter().zip(&leaves(&slope)).map(add).collect();
        ((value + more, sum), ())
    });
    let share = 1.0 / parts as f64;
    let mean: Vec<Tensor> = sum.iter().map(|s| if differentiable(s) { s * share } else { s.clone() }).collect();
    (value * share, replace(params, &mean))
}
