//! Optimizers put together from steps that change updates, as in Optax.
//!
//! A [`Transform`] turns gradients into updates and keeps a list of tensors between steps; [`chain`] puts several one
//! after the other. [`train::Optimizer`](crate::train::Optimizer) has the most used ones ready for a
//! [`Trainer`](crate::train::Trainer).
//!
//! | | |
//! |---|---|
//! | [`sgd`], [`adam`], [`adamw`], [`nadam`], [`adamax`], [`adabelief`], [`yogi`], [`adagrad`], [`rmsprop`], [`lion`], [`lamb`], [`lars`], [`adafactor`] | optimizers |
//! | [`scale`], [`scale_by_schedule`], [`scale_by_learning_rate`], [`scale_by_adam`], [`scale_by_rms`], [`trace`], … | parts of them |
//! | [`clip`], [`clip_by_global_norm`], [`add_decayed_weights`], [`ema`] | more parts |
//! | [`masked`], [`partition`] | for some of the parameters |
//! | [`lbfgs()`] | a minimum of a smooth function, as one loop of the program |
//! | [`apply_updates`], [`incremental_update`] | parameters and updates together |
//!
//! ```
//! use meshwork::optim;
//! use meshwork::prelude::*;
//!
//! let optimizer = optim::chain([optim::clip_by_global_norm(1.0), optim::adam(0.1)]);
//! let init = { let o = optimizer.clone(); jit(move |w: Tensor| o.init(&w)) };
//! let step = jit(move |w: Tensor, state: Vec<Tensor>| {
//!     let slope = grad(|w: Tensor| (w - 3.0).square().sum_all(), w.clone());
//!     let (updates, state) = optimizer.update(&slope, &state, &w);
//!     (optim::apply_updates(&w, &updates), state)
//! });
//! let mut w = Array::from([0.0f32, 5.0]);
//! let mut state = init.call(&w)?;
//! for _ in 0..100 {
//!     (w, state) = step.call((&w, &state))?;
//! }
//! assert!(w.all_close(&Array::from([3.0f32, 3.0]), 0.2));
//! # Ok::<(), meshwork::Error>(())
//! ```

mod adaptive;
mod basic;
mod factored;
mod lbfgs;
mod select;

use std::fmt;
use std::sync::Arc;

pub use adaptive::{
    adabelief, adagrad, adam, adamax, adamw, lamb, lars, lion, nadam, rmsprop, scale_by_adam, scale_by_adamax,
    scale_by_belief, scale_by_lion, scale_by_rms, scale_by_rss, scale_by_trust_ratio, scale_by_yogi, sgd, yogi,
};
pub use basic::{
    add_decayed_weights, clip, clip_by_global_norm, ema, identity, scale, scale_by_injected_rate,
    scale_by_learning_rate, scale_by_schedule, set_to_zero, trace,
};
pub use factored::{adafactor, adafactor_of, scale_by_factored_rms};
pub use lbfgs::{Lbfgs, Minimum, lbfgs};
pub use select::{masked, partition};

use crate::ElementType::F32;
use crate::Tensor;
use crate::error::fail;
use crate::transform::differentiable;
use crate::tree::{Path, Tree, leaves, replace};

/// The parameters that a transform works on: floats, with their paths.
pub(crate) type Params = [(String, Tensor)];

type Slots = dyn Fn(&Params) -> usize + Send + Sync;
type Init = dyn Fn(&Params) -> Vec<Tensor> + Send + Sync;
type Update = dyn Fn(Vec<Tensor>, &[Tensor], &Params) -> (Vec<Tensor>, Vec<Tensor>) + Send + Sync;

/// A step from gradients to updates, with tensors that it keeps. Integers among the parameters stay as they are.
#[derive(Clone)]
pub struct Transform {
    name: &'static str,
    /// How many tensors it keeps.
    slots: Arc<Slots>,
    init: Arc<Init>,
    update: Arc<Update>,
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transform").field(&self.name).finish()
    }
}

impl Transform {
    fn new(
        name: &'static str,
        slots: impl Fn(&Params) -> usize + Send + Sync + 'static,
        init: impl Fn(&Params) -> Vec<Tensor> + Send + Sync + 'static,
        update: impl Fn(Vec<Tensor>, &[Tensor], &Params) -> (Vec<Tensor>, Vec<Tensor>) + Send + Sync + 'static,
    ) -> Transform {
        Transform { name, slots: Arc::new(slots), init: Arc::new(init), update: Arc::new(update) }
    }

    /// One that keeps nothing, and works on one gradient and its parameter at a time.
    fn of_each(name: &'static str, f: impl Fn(&Tensor, &Tensor) -> Tensor + Send + Sync + 'static) -> Transform {
        let each = move |updates: Vec<Tensor>, _: &[Tensor], params: &Params| {
            (updates.iter().zip(params).map(|(g, (_, p))| f(g, p)).collect(), vec![])
        };
        Transform::new(name, |_| 0, |_| vec![], each)
    }

    /// What it keeps before the first step.
    #[track_caller]
    pub fn init<A: Tree>(&self, params: &A) -> Vec<Tensor> {
        (self.init)(&floats(params))
    }

    /// The updates for these gradients, a tree like the parameters to be [added](apply_updates) to them, and what it
    /// keeps then.
    #[track_caller]
    pub fn update<A: Tree>(&self, grads: &A, state: &[Tensor], params: &A) -> (A, Vec<Tensor>) {
        let floats = floats(params);
        let slots = (self.slots)(&floats);
        if state.len() != slots {
            fail(self.name, format!("a state of {} tensors, where init gives {slots}", state.len()));
        }
        let given: Vec<Tensor> = leaves(grads).into_iter().filter(differentiable).collect();
        if given.len() != floats.len() {
            fail(self.name, format!("{} gradients for {} parameters of floats", given.len(), floats.len()));
        }
        let (updates, state) = (self.update)(given, state, &floats);
        let mut next = updates.into_iter();
        let all = grads.map(&mut |g| match differentiable(g) {
            true => next.next().unwrap_or_else(|| g.clone()),
            false => g.zeros_like(),
        });
        (all, state)
    }
}

/// The floats of a tree, with their paths.
fn floats<A: Tree>(tree: &A) -> Vec<(String, Tensor)> {
    let mut out = vec![];
    tree.tensors(&mut Path::default(), &mut |path, t| {
        if differentiable(t) {
            out.push((path.to_string(), t.clone()));
        }
    });
    out
}

/// Zeros like each parameter, in `f32` at least.
fn zeros_like(params: &Params) -> Vec<Tensor> {
    params.iter().map(|(_, p)| wide(&p.zeros_like())).collect()
}

/// `x`, or `f32` if it has fewer bits: moments need the precision.
fn wide(x: &Tensor) -> Tensor {
    if x.dtype().bits() < 32 { x.to(F32) } else { x.clone() }
}

/// One transform after the other: each gets the updates of the one before.
pub fn chain(parts: impl IntoIterator<Item = Transform>) -> Transform {
    let parts: Vec<Transform> = parts.into_iter().collect();
    let (first, second, third) = (parts.clone(), parts.clone(), parts);
    Transform::new(
        "chain",
        move |params| first.iter().map(|t| (t.slots)(params)).sum(),
        move |params| second.iter().flat_map(|t| (t.init)(params)).collect(),
        move |mut updates, mut state, params| {
            let mut kept = vec![];
            for part in &third {
                let (own, rest) = state.split_at((part.slots)(params));
                let (next, own) = (part.update)(updates, own, params);
                updates = next;
                kept.extend(own);
                state = rest;
            }
            (updates, kept)
        },
    )
}

/// The parameters with updates added, in their own types.
#[track_caller]
pub fn apply_updates<A: Tree>(params: &A, updates: &A) -> A {
    let list = leaves(updates);
    let mut at = 0;
    params.map(&mut |p| {
        at += 1;
        match list.get(at - 1) {
            Some(u) if differentiable(p) => (wide(p) + wide(u)).to(p.dtype()),
            _ => p.clone(),
        }
    })
}

/// The old tree moved by `step` of the way to the new one: an average over time.
#[track_caller]
pub fn incremental_update<A: Tree>(new: &A, old: &A, step: f64) -> A {
    let (a, b) = (leaves(new), leaves(old));
    let mixed: Vec<Tensor> = a
        .iter()
        .zip(&b)
        .map(|(new, old)| if differentiable(old) { new * step + old * (1.0 - step) } else { new.clone() })
        .collect();
    replace(old, &mixed)
}
