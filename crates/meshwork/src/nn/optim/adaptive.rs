//! Optimizers that adapt to the size of gradients.

use super::basic::{
    add_decayed_weights, average, correction, counted, identity, length, one_each, ratio, scale_by_learning_rate,
    trace, with_count,
};
use super::{Transform, chain, wide, zeros_like};
use crate::Tensor;
use crate::ops::select;
use crate::train::Schedule;

/// Averages of gradients and of a second quantity, combined into a direction. Keeps a count and two tensors for each
/// parameter.
fn two_moments(
    name: &'static str,
    start: f64,
    step: impl Fn(&Tensor, &Tensor, &Tensor, &Tensor) -> (Tensor, Tensor, Tensor) + Send + Sync + 'static,
) -> Transform {
    Transform::new(
        name,
        |p| 2 * p.len() + 1,
        move |p| {
            let moments = zeros_like(p).into_iter().map(|m| if start == 0.0 { m } else { m + start });
            let moments: Vec<Tensor> = moments.collect();
            counted([moments.clone(), moments].concat())
        },
        move |updates, state, _| {
            let count = &state[0] + 1;
            let (m, v) = state[1..].split_at(updates.len());
            let (mut out, mut ms, mut vs) = (vec![], vec![], vec![]);
            for ((g, m), v) in updates.iter().zip(m).zip(v) {
                let (direction, m, v) = step(&wide(g), m, v, &count);
                out.push(direction);
                ms.push(m);
                vs.push(v);
            }
            ms.extend(vs);
            (out, with_count(count, ms))
        },
    )
}

/// The average gradient over the root of the average square, both corrected for their start at 0.
pub fn scale_by_adam(b1: f64, b2: f64, epsilon: f64) -> Transform {
    two_moments("scale_by_adam", 0.0, move |g, m, v, t| {
        let (m, v) = (average(m, g, b1), average(v, &g.square(), b2));
        let direction = (&m / correction(t, b1, &m)) / ((&v / correction(t, b2, &v)).sqrt() + epsilon);
        (direction, m, v)
    })
}

/// [`scale_by_adam`] with the average gradient as if one step ahead.
fn scale_by_nadam(b1: f64, b2: f64, epsilon: f64) -> Transform {
    two_moments("scale_by_nadam", 0.0, move |g, m, v, t| {
        let (m, v) = (average(m, g, b1), average(v, &g.square(), b2));
        let ahead = average(&(&m / correction(&(t + 1), b1, &m)), &(g / correction(t, b1, &m)), b1);
        let direction = ahead / ((&v / correction(t, b2, &v)).sqrt() + epsilon);
        (direction, m, v)
    })
}

/// The average gradient over its largest size so far, which decays.
pub fn scale_by_adamax(b1: f64, b2: f64, epsilon: f64) -> Transform {
    two_moments("scale_by_adamax", 0.0, move |g, m, v, t| {
        let (m, v) = (average(m, g, b1), (g.abs() + epsilon).maximum(v * b2));
        (&m / correction(t, b1, &m) / &v, m, v)
    })
}

/// The average gradient over the root of its average squared surprise.
pub fn scale_by_belief(b1: f64, b2: f64, epsilon: f64, root_epsilon: f64) -> Transform {
    two_moments("scale_by_belief", 0.0, move |g, m, v, t| {
        let m = average(m, g, b1);
        let v = average(v, &(g - &m).square(), b2) + root_epsilon;
        let direction = (&m / correction(t, b1, &m)) / ((&v / correction(t, b2, &v)).sqrt() + epsilon);
        (direction, m, v)
    })
}

/// Adam with an average square that grows slowly.
pub fn scale_by_yogi(b1: f64, b2: f64, epsilon: f64, start: f64) -> Transform {
    two_moments("scale_by_yogi", start, move |g, m, v, t| {
        let square = g.square();
        let m = average(m, g, b1);
        let v = v - (v - &square).sign() * square * (1.0 - b2);
        let direction = (&m / correction(t, b1, &m)) / ((&v / correction(t, b2, &v)).sqrt() + epsilon);
        (direction, m, v)
    })
}

/// Over the root of the average square.
pub fn scale_by_rms(decay: f64, epsilon: f64) -> Transform {
    Transform::new("scale_by_rms", one_each, zeros_like, move |updates, state, _| {
        let v: Vec<Tensor> = updates.iter().zip(state).map(|(g, v)| average(v, &wide(g).square(), decay)).collect();
        (updates.iter().zip(&v).map(|(g, v)| wide(g) * (v + epsilon).rsqrt()).collect(), v)
    })
}

/// Over the root of the sum of all squares.
pub fn scale_by_rss(start: f64, epsilon: f64) -> Transform {
    Transform::new(
        "scale_by_rss",
        one_each,
        move |p| zeros_like(p).into_iter().map(|v| v + start).collect(),
        move |updates, state, _| {
            let sums: Vec<Tensor> = updates.iter().zip(state).map(|(g, v)| wide(g).square() + v).collect();
            let scaled = |(g, v): (&Tensor, &Tensor)| select(v.gt(0), (v + epsilon).rsqrt(), 0) * wide(g);
            (updates.iter().zip(&sums).map(scaled).collect(), sums)
        },
    )
}

/// The sign of an average of gradients.
pub fn scale_by_lion(b1: f64, b2: f64) -> Transform {
    Transform::new("scale_by_lion", one_each, zeros_like, move |updates, state, _| {
        let out = updates.iter().zip(state).map(|(g, m)| average(m, &wide(g), b1).sign()).collect();
        (out, updates.iter().zip(state).map(|(g, m)| average(m, &wide(g), b2)).collect())
    })
}

/// Times the norm of the parameter over that of its update.
pub fn scale_by_trust_ratio(coefficient: f64) -> Transform {
    Transform::of_each("scale_by_trust_ratio", move |g, p| {
        let (a, b) = (length(&p.to(g.dtype())), length(g));
        let both = a.ne(0) & b.ne(0);
        g * select(both, ratio(&a, &b) * coefficient, 1)
    })
}

/// Against the gradient, with `momentum` of the steps before if it is not 0.
pub fn sgd(rate: impl Into<Schedule>, momentum: f64, nesterov: bool) -> Transform {
    let first = if momentum == 0.0 { identity() } else { trace(momentum, nesterov) };
    chain([first, scale_by_learning_rate(rate)])
}

/// Adam with its usual averages.
pub fn adam(rate: impl Into<Schedule>) -> Transform {
    chain([scale_by_adam(0.9, 0.999, 1e-8), scale_by_learning_rate(rate)])
}

/// Adam, and parameters decay by `decay` times the step size.
pub fn adamw(rate: impl Into<Schedule>, decay: f64) -> Transform {
    chain([scale_by_adam(0.9, 0.999, 1e-8), add_decayed_weights(decay), scale_by_learning_rate(rate)])
}

/// Adam as if one step ahead.
pub fn nadam(rate: impl Into<Schedule>) -> Transform {
    chain([scale_by_nadam(0.9, 0.999, 1e-8), scale_by_learning_rate(rate)])
}

/// Adam with the largest gradient in place of the average square.
pub fn adamax(rate: impl Into<Schedule>) -> Transform {
    chain([scale_by_adamax(0.9, 0.999, 1e-8), scale_by_learning_rate(rate)])
}

/// Adam by how surprising gradients are.
pub fn adabelief(rate: impl Into<Schedule>) -> Transform {
    chain([scale_by_belief(0.9, 0.999, 1e-16, 1e-16), scale_by_learning_rate(rate)])
}

/// Yogi.
pub fn yogi(rate: impl Into<Schedule>) -> Transform {
    chain([scale_by_yogi(0.9, 0.999, 1e-3, 1e-6), scale_by_learning_rate(rate)])
}

/// Adagrad.
pub fn adagrad(rate: impl Into<Schedule>) -> Transform {
    chain([scale_by_rss(0.1, 1e-7), scale_by_learning_rate(rate)])
}

/// RMSProp with its usual average.
pub fn rmsprop(rate: impl Into<Schedule>) -> Transform {
    chain([scale_by_rms(0.9, 1e-8), scale_by_learning_rate(rate)])
}

/// Lion with its usual averages, and parameters decay by `decay` times the step size.
pub fn lion(rate: impl Into<Schedule>, decay: f64) -> Transform {
    chain([scale_by_lion(0.9, 0.99), add_decayed_weights(decay), scale_by_learning_rate(rate)])
}

/// Adam in steps of the size of each parameter, for large batches.
pub fn lamb(rate: impl Into<Schedule>, decay: f64) -> Transform {
    chain([
        scale_by_adam(0.9, 0.999, 1e-6),
        add_decayed_weights(decay),
        scale_by_trust_ratio(1.0),
        scale_by_learning_rate(rate),
    ])
}

/// Momentum in steps of the size of each parameter, for large batches.
pub fn lars(rate: impl Into<Schedule>, decay: f64) -> Transform {
    chain([add_decayed_weights(decay), scale_by_trust_ratio(0.001), scale_by_learning_rate(rate), trace(0.9, false)])
}
