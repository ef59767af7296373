//! Parts of optimizers: scaling, momentum, clipping, decay, averages.

use super::{Params, Transform, wide, zeros_like};
use crate::ElementType::{F32, I32};
use crate::Tensor;
use crate::ops::{full, select, zeros};
use crate::train::Schedule;

/// Updates are the gradients.
pub fn identity() -> Transform {
    Transform::of_each("identity", |g, _| g.clone())
}

/// No updates: parameters stay.
pub fn set_to_zero() -> Transform {
    Transform::of_each("set_to_zero", |g, _| g.zeros_like())
}

/// Times a number.
pub fn scale(by: f64) -> Transform {
    Transform::of_each("scale", move |g, _| g * by)
}

/// Times a number that depends on the step.
pub fn scale_by_schedule(schedule: impl Into<Schedule>) -> Transform {
    let schedule = schedule.into();
    Transform::new(
        "scale_by_schedule",
        |_| 1,
        |_| vec![zeros((), I32)],
        move |updates, state, _| {
            let by = schedule.tensor(&state[0]);
            (updates.iter().map(|g| g * by.to(g.dtype())).collect(), vec![&state[0] + 1])
        },
    )
}

/// Times the step size, downwards.
pub fn scale_by_learning_rate(rate: impl Into<Schedule>) -> Transform {
    super::chain([scale_by_schedule(rate), scale(-1.0)])
}

/// Times a step size that is part of the state, downwards: the first tensor it keeps, a scalar that the program may
/// replace between steps.
pub fn scale_by_injected_rate(first: f64) -> Transform {
    Transform::new(
        "scale_by_injected_rate",
        |_| 1,
        move |_| vec![full((), F32, first)],
        |updates, state, _| (updates.iter().map(|g| -(g * state[0].to(g.dtype()))).collect(), vec![state[0].clone()]),
    )
}

/// A decaying sum of gradients; with `nesterov` as if one step ahead.
pub fn trace(decay: f64, nesterov: bool) -> Transform {
    Transform::new(
        "trace",
        |p| p.len(),
        zeros_like,
        move |updates, state, _| {
            let sums: Vec<Tensor> = updates.iter().zip(state).map(|(g, m)| wide(g) + m * decay).collect();
            match nesterov {
                true => (updates.iter().zip(&sums).map(|(g, m)| wide(g) + m * decay).collect(), sums),
                false => (sums.clone(), sums),
            }
        },
    )
}

/// Each element held between `-most` and `most`.
pub fn clip(most: f64) -> Transform {
    Transform::of_each("clip", move |g, _| g.clamp(-most, most))
}

/// All updates scaled down together so that their Euclidean norm is at most `most`.
pub fn clip_by_global_norm(most: f64) -> Transform {
    Transform::new(
        "clip_by_global_norm",
        |_| 0,
        |_| vec![],
        move |updates, _, _| {
            let (clipped, _) = crate::train::clip_by_global_norm(&updates, most);
            (clipped, vec![])
        },
    )
}

/// Plus the parameters times `decay`.
pub fn add_decayed_weights(decay: f64) -> Transform {
    Transform::of_each("add_decayed_weights", move |g, p| g + p.to(g.dtype()) * decay)
}

/// The average of updates over time, corrected for its start at 0.
pub fn ema(decay: f64) -> Transform {
    Transform::new(
        "ema",
        |p| p.len() + 1,
        |p| counted(zeros_like(p)),
        move |updates, state, _| {
            let count = &state[0] + 1;
            let averages: Vec<Tensor> =
                updates.iter().zip(&state[1..]).map(|(g, m)| average(m, &wide(g), decay)).collect();
            let out = averages.iter().map(|m| m / correction(&count, decay, m)).collect();
            (out, with_count(count, averages))
        },
    )
}

/// The old average with a share `1 - decay` of the new.
pub(super) fn average(old: &Tensor, new: &Tensor, decay: f64) -> Tensor {
    new * (1.0 - decay) + old * decay
}

/// What an average that started at 0 lacks after `count` steps.
pub(super) fn correction(count: &Tensor, decay: f64, like: &Tensor) -> Tensor {
    1.0 - full((), like.dtype(), decay).pow(count.to(like.dtype()))
}

/// A count of 0 before the tensors.
pub(super) fn counted(tensors: Vec<Tensor>) -> Vec<Tensor> {
    with_count(zeros((), I32), tensors)
}

pub(super) fn with_count(count: Tensor, tensors: Vec<Tensor>) -> Vec<Tensor> {
    std::iter::once(count).chain(tensors).collect()
}

/// The Euclidean norm of one tensor.
pub(super) fn length(x: &Tensor) -> Tensor {
    x.square().sum_all().sqrt()
}

/// `a / b`, or 1 where either is 0.
pub(super) fn ratio(a: &Tensor, b: &Tensor) -> Tensor {
    let zero = a.eq(0) | b.eq(0);
    select(&zero, 1, a / select(&zero, 1, b))
}

/// How many parameters there are.
pub(super) fn one_each(params: &Params) -> usize {
    params.len()
}
