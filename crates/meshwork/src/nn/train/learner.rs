//! A training step whose loss also returns metrics, keeps statistics and draws random numbers.

use std::sync::Arc;

use super::step::{add_slope, cast, in_parts, mean_slope, no_slope};
use super::{OptimizerState, Settings, global_norm};
use crate::ElementType::{F32, I32, UI32};
use crate::control::scan;
use crate::error::Result;
use crate::jit::{Jit, jit};
use crate::ops::{full, select, zeros};
use crate::rules::{Rule, constrain};
use crate::spec::P;
use crate::trace::on_behalf_of_caller;
use crate::transform::{differentiable, value_and_grad_aux};
use crate::tree::{leaves, replace};
use crate::{Array, Key, Plan, Tensor, Tree};

/// What the loss is multiplied by; see [`Settings::loss_scale`].
#[derive(Clone, Debug, Tree)]
pub struct LossScale<T = Tensor> {
    /// The number, an `f32` scalar.
    pub scale: T,
    /// Steps since it last changed, an `i32` scalar.
    pub steady: T,
}

/// All that changes from step to step: parameters, the optimizer's state, statistics, the key of the next step as two
/// `ui32`, and the loss scale.
pub type LearnState<A, S> = (A, OptimizerState<A>, S, Tensor, LossScale);

/// [`LearnState`] on the host.
pub type HostLearnState<A, S> = <LearnState<A, S> as Tree>::Host;

type LossFunction<A, S, B, M> = Arc<dyn Fn(&A, &S, &B, &Key) -> (Tensor, S, M) + Send + Sync>;
type StepFunction<A, S, B, M> = Box<dyn Fn(LearnState<A, S>, B) -> ((Tensor, M), LearnState<A, S>) + Send + Sync>;
type InitFunction<A, S> = Box<dyn Fn(A, S, Tensor) -> LearnState<A, S> + Send + Sync>;
type EvalFunction<A, S, B, M> = Box<dyn Fn(LearnState<A, S>, B) -> (Tensor, M) + Send + Sync>;

/// The number of steps with finite gradients after which the loss scale doubles.
const STEADY: i64 = 2000;

/// A training step, traced for the shapes it meets, of a loss of parameters `A`, statistics `S`, batch `B` and a key. The
/// loss returns itself, the statistics after the batch, and metrics `M`.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::train::{Learner, Optimizer, Settings};
///
/// // The statistics count batches, the metric is the largest error, and the input is noisy.
/// let loss = |w: &Tensor, seen: &Tensor, (x, y): &(Tensor, Tensor), key: &Key| {
///     let error = (x + key.normal(x.shape(), F32) * 0.01).matmul(w) - y;
///     (error.square().mean_all(), seen + 1.0, error.abs().max_all())
/// };
/// let learner = Learner::new(loss, Settings::new(Optimizer::adam(0.1)));
/// let batch = (Array::from_fn([8, 2], |i| (i[0] + i[1]) as f32 / 8.0), Array::full([8, 1], 1.0f32));
/// let mut state = learner.init(&Array::zeros([2, 1], F32), &Array::scalar(0.0f32), 7)?;
/// let mut losses = vec![];
/// for _ in 0..20 {
///     let (value, _worst, next) = learner.step(&state, &batch)?;
///     (state, losses) = (next, [losses, vec![value.item::<f32>()?]].concat());
/// }
/// assert!(losses[19] < losses[0]);
/// assert_eq!(state.2.item::<f32>()?, 20.0);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[allow(clippy::type_complexity)] // programs with their arguments
pub struct Learner<A: Tree + 'static, S: Tree + 'static, B: Tree + 'static, M: Tree + 'static>
where
    A::Host: 'static,
    S::Host: 'static,
    B::Host: 'static,
    M::Host: 'static,
{
    step: Jit<StepFunction<A, S, B, M>, (LearnState<A, S>, B)>,
    init: Jit<InitFunction<A, S>, (A, S, Tensor)>,
    eval: Jit<EvalFunction<A, S, B, M>, (LearnState<A, S>, B)>,
}

impl<A: Tree + 'static, S: Tree + 'static, B: Tree + 'static, M: Tree + 'static> Learner<A, S, B, M>
where
    A::Host: 'static,
    S::Host: 'static,
    B::Host: 'static,
    M::Host: 'static,
{
    /// Of a loss, which is that of the whole batch, however it is split.
    pub fn new(
        loss: impl Fn(&A, &S, &B, &Key) -> (Tensor, S, M) + Send + Sync + 'static,
        settings: Settings,
    ) -> Learner<A, S, B, M> {
        let loss: LossFunction<A, S, B, M> = Arc::new(loss);
        let (stored, gradients, moments) = settings.rules();
        let whole = || Rule::from(P::replicated());
        let state = [stored.clone(), Settings::optimizer_rule(moments), whole(), whole(), whole()];
        let Settings { optimizer, mesh, engine, params, batch, accumulate, compute, loss_scale, .. } = settings;
        let work = Work { loss, gradients, params, compute, parts: accumulate, on_mesh: mesh.is_some() };
        let work = Arc::new(work);

        let (updater, worker) = (optimizer.clone(), work.clone());
        let step = move |old: LearnState<A, S>, data: B| {
            let keys = Key::from_tensor(&old.3).split(2);
            let (value, stats, metrics, slope) = worker.slope(&old, data, &keys[0], loss_scale.is_some());
            let (params, memory) = updater.update(&old.0, &slope, &old.1);
            let new = (params, memory, stats, keys[1].tensor(), copy(&old.4));
            let new = if loss_scale.is_some() { scaled(&old, new, &slope) } else { new };
            ((value, metrics), new)
        };
        let step: StepFunction<A, S, B, M> = Box::new(move |old, data| on_behalf_of_caller(|| step(old, data)));
        let init: InitFunction<A, S> = Box::new(move |params, stats, key| {
            on_behalf_of_caller(|| {
                let scale = LossScale { scale: full((), F32, loss_scale.unwrap_or(1.0)), steady: zeros((), I32) };
                let memory = optimizer.init(&params);
                (params, memory, stats, key, scale)
            })
        });
        let eval: EvalFunction<A, S, B, M> = Box::new(move |state, data| {
            on_behalf_of_caller(|| {
                let key = Key::from_tensor(&state.3);
                let (value, _, metrics) = (work.loss)(&work.used(&state.0), &state.2, &cast(&data, work.compute), &key);
                (value.to(F32), metrics)
            })
        });
        let (mut step, mut init, mut eval) = (jit(step).donate([0]), jit(init), jit(eval));
        match &mesh {
            None => (step, init, eval) = (step.single_device(), init.single_device(), eval.single_device()),
            Some(mesh) => {
                let all = Rule::tuple(state.clone());
                step = step.on(mesh).in_shardings((all.clone(), batch.clone())).out_shardings((whole(), all.clone()));
                init = init.on(mesh).in_shardings((stored, whole(), whole())).out_shardings(state);
                eval = eval.on(mesh).in_shardings((all, batch)).out_shardings([whole()]);
            }
        }
        match engine {
            None => Learner { step, init, eval },
            Some(engine) => Learner {
                step: step.engine(engine.clone()),
                init: init.engine(engine.clone()),
                eval: eval.engine(engine),
            },
        }
    }

    /// The state before the first step, placed. Random numbers of the steps come from `seed`.
    #[track_caller]
    pub fn init(&self, params: &A::Host, stats: &S::Host, seed: u64) -> Result<HostLearnState<A, S>> {
        let key = Array::from([(seed >> 32) as u32, seed as u32]);
        debug_assert_eq!(key.dtype(), UI32);
        self.init.call((params, stats, &key))
    }

    /// The loss before the step, the metrics, and the state after it. The state before is [donated](Jit::donate).
    #[track_caller]
    #[allow(clippy::type_complexity)] // three results
    pub fn step(
        &self,
        state: &HostLearnState<A, S>,
        batch: &B::Host,
    ) -> Result<(Array, M::Host, HostLearnState<A, S>)> {
        let ((value, metrics), state) = self.step.call((state, batch))?;
        Ok((value, metrics, state))
    }

    /// Loss and metrics of a batch, with nothing learned from it.
    #[track_caller]
    pub fn evaluate(&self, state: &HostLearnState<A, S>, batch: &B::Host) -> Result<(Array, M::Host)> {
        self.eval.call((state, batch))
    }

    /// What a step communicates.
    #[track_caller]
    pub fn plan(&self, state: &HostLearnState<A, S>, batch: &B::Host) -> Result<Plan> {
        self.step.plan((state, batch))
    }
}

/// The part of a step that finds the gradient.
struct Work<A, S, B, M> {
    loss: LossFunction<A, S, B, M>,
    gradients: Rule,
    params: Rule,
    compute: Option<crate::ElementType>,
    parts: i64,
    on_mesh: bool,
}

impl<A: Tree, S: Tree, B: Tree, M: Tree> Work<A, S, B, M> {
    /// The parameters as the loss sees them.
    fn used(&self, params: &A) -> A {
        let used = cast(params, self.compute);
        if self.on_mesh { constrain(&used, &self.params) } else { used }
    }

    /// Loss, statistics, metrics and gradient of a batch, in parts if it is to be.
    fn slope(&self, state: &LearnState<A, S>, data: B, key: &Key, scale: bool) -> (Tensor, S, M, A) {
        let used = self.used(&state.0);
        let one = |stats: S, data: B, key: &Key| {
            let of = |p: A| {
                let (value, stats, metrics) = (self.loss)(&p, &stats, &cast(&data, self.compute), key);
                let value = value.to(F32);
                let large = if scale { &value * &state.4.scale } else { value.clone() };
                (large, (value, stats, metrics))
            };
            let (_, (value, stats, metrics), slope) = value_and_grad_aux(of, copy(&used));
            let slope = if self.on_mesh { constrain(&slope, &self.gradients) } else { slope };
            (value, stats, metrics, cast(&slope, self.compute.map(|_| F32)))
        };
        let (value, stats, metrics, slope) = if self.parts == 1 {
            one(copy(&state.2), data, key)
        } else {
            let start = (full((), F32, 0.0), copy(&state.2), no_slope(&used), key.tensor());
            let rest = scan(start, in_parts(&data, self.parts), |(value, stats, sum, key), data| {
                let keys = Key::from_tensor(&key).split(2);
                let (more, stats, metrics, slope) = one(stats, data, &keys[0]);
                ((value + more, stats, add_slope(&sum, &slope), keys[1].tensor()), metrics)
            });
            let ((value, stats, sum, _), metrics) = rest;
            let mean = |m: &Tensor| if differentiable(m) { m.mean(&[0]) } else { m.sum(&[0]) };
            let value = value * (1.0 / self.parts as f64);
            (value, stats, metrics.map(&mut |m| mean(m)), mean_slope(&used, &sum, self.parts))
        };
        if !scale {
            return (value, stats, metrics, slope);
        }
        let slope = slope.map(&mut |g| if differentiable(g) { g / &state.4.scale } else { g.clone() });
        (value, stats, metrics, slope)
    }
}

fn copy<T: Tree>(tree: &T) -> T {
    tree.map(&mut Tensor::clone)
}

/// `new` if the gradient is finite, else `old`; and the loss scale after the step.
fn scaled<A: Tree, S: Tree>(old: &LearnState<A, S>, new: LearnState<A, S>, slope: &A) -> LearnState<A, S> {
    let finite = global_norm(slope).lt(f64::INFINITY);
    fn choose<T: Tree>(finite: &Tensor, old: &T, new: &T) -> T {
        let (was, is) = (leaves(old), leaves(new));
        let chosen: Vec<Tensor> = was.iter().zip(&is).map(|(was, is)| select(finite, is, was)).collect();
        replace(new, &chosen)
    }
    let (scale, steady) = (&old.4.scale, &old.4.steady + 1);
    let grown = steady.ge(STEADY);
    let after = LossScale {
        scale: select(&finite, select(&grown, scale * 2.0, scale), scale * 0.5),
        steady: select(&finite & !&grown, &steady, 0),
    };
    (choose(&finite, &old.0, &new.0), choose(&finite, &old.1, &new.1), choose(&finite, &old.2, &new.2), new.3, after)
}
