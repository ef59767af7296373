//! How parameters start: the distributions that JAX's libraries use, drawn in `f32`.

use crate::ElementType::F32;
use crate::{Key, Shape, Tensor};

/// The standard normal distribution without what is further than two deviations from its middle, as
/// `jax.random.truncated_normal(key, -2, 2)` draws it.
#[track_caller]
pub fn truncated_normal(key: &Key, shape: impl Shape) -> Tensor {
    // erf(2 / sqrt 2): the share of the distribution that is left.
    let share = 0.954_499_736_103_641_6;
    let uniform = (key.uniform(shape, F32) * (2.0 * share) - share).maximum(-share);
    let most = f64::from(2.0f32.next_down());
    (uniform.erf_inv() * std::f64::consts::SQRT_2).maximum(-most).minimum(most)
}

/// Mean 0 and variance `1 / inputs`, cut off at two deviations: LeCun's, Flax's default for weights.
#[track_caller]
pub fn lecun_normal(key: &Key, shape: impl Shape, inputs: i64) -> Tensor {
    scaled(key, shape, 1.0 / inputs as f64)
}

/// Mean 0 and variance `2 / inputs`, cut off at two deviations: He's, for layers before a `relu`.
#[track_caller]
pub fn he_normal(key: &Key, shape: impl Shape, inputs: i64) -> Tensor {
    scaled(key, shape, 2.0 / inputs as f64)
}

/// Mean 0 and variance `2 / (inputs + outputs)`, cut off at two deviations: Glorot's.
#[track_caller]
pub fn glorot_normal(key: &Key, shape: impl Shape, inputs: i64, outputs: i64) -> Tensor {
    scaled(key, shape, 2.0 / (inputs + outputs) as f64)
}

/// Uniform between `-limit` and `limit`.
#[track_caller]
pub fn symmetric_uniform(key: &Key, shape: impl Shape, limit: f64) -> Tensor {
    (key.uniform(shape, F32) * (2.0 * limit) - limit).maximum(-limit)
}

#[track_caller]
fn scaled(key: &Key, shape: impl Shape, variance: f64) -> Tensor {
    // What is cut off takes its part of the variance with it: this is the deviation that is left.
    truncated_normal(key, shape) * (variance.sqrt() / 0.879_625_661_034_239_8)
}
