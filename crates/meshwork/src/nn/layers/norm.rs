//! Normalization over features, groups of features, or the batch.

use crate::ElementType::F32;
use crate::error::fail;
use crate::ops::{ones, zeros};
use crate::{Int, Tensor, Tree};

/// `x` less `mean`, over the root of `variance`.
#[track_caller]
fn standardize(x: &Tensor, mean: &Tensor, variance: &Tensor, epsilon: f64) -> Tensor {
    (x - mean) * (variance + epsilon).rsqrt()
}

/// Mean and variance over `axes`, which stay as dimensions of extent 1.
#[track_caller]
fn moments(x: &Tensor, axes: &[i64]) -> (Tensor, Tensor) {
    let mean = x.keep_dims(axes, |x, axes| x.mean(axes));
    let variance = (x - &mean).square().keep_dims(axes, |x, axes| x.mean(axes));
    (mean, variance)
}

/// Mean 0 and variance 1 over the last dimension, then a scale and a bias for each feature.
#[derive(Clone, Debug, Tree)]
pub struct LayerNorm<T = Tensor> {
    /// `[features]`.
    pub scale: T,
    /// `[features]`.
    pub bias: T,
}

impl LayerNorm {
    /// Scales of 1, biases of 0.
    #[track_caller]
    pub fn init(features: impl Int) -> LayerNorm {
        let features = features.int();
        LayerNorm { scale: ones([features], F32), bias: zeros([features], F32) }
    }

    /// The layer on `[.., features]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        let (mean, variance) = moments(x, &[-1]);
        standardize(x, &mean, &variance, 1e-6) * &self.scale + &self.bias
    }
}

/// A mean square of 1 over the last dimension, then a scale for each feature.
#[derive(Clone, Debug, Tree)]
pub struct RmsNorm<T = Tensor> {
    /// `[features]`.
    pub scale: T,
}

impl RmsNorm {
    /// Scales of 1.
    #[track_caller]
    pub fn init(features: impl Int) -> RmsNorm {
        RmsNorm { scale: ones([features.int()], F32) }
    }

    /// The layer on `[.., features]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        let square = x.square().keep_dims(&[-1], |x, axes| x.mean(axes));
        x * (square + 1e-6).rsqrt() * &self.scale
    }
}

/// Mean 0 and variance 1 over each group of features and all spatial dimensions, then a scale and a bias for each
/// feature.
#[derive(Clone, Debug, Tree)]
pub struct GroupNorm<T = Tensor> {
    /// `[features]`.
    pub scale: T,
    /// `[features]`.
    pub bias: T,
    /// The number of groups.
    #[tree(skip)]
    pub groups: i64,
}

impl GroupNorm {
    /// Scales of 1, biases of 0.
    #[track_caller]
    pub fn init(groups: impl Int, features: impl Int) -> GroupNorm {
        let (groups, features) = (groups.int(), features.int());
        if groups < 1 || features % groups != 0 {
            fail("GroupNorm", format!("{features} features in {groups} groups; give a number that divides them"));
        }
        GroupNorm { scale: ones([features], F32), bias: zeros([features], F32), groups }
    }

    /// The layer on `[batch, spatial.., features]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        let mut split = x.shape().to_vec();
        let features = split.pop().unwrap_or(1);
        split.extend([self.groups, features / self.groups]);
        let grouped = x.reshape(&split);
        let rank = split.len() as i64;
        let axes: Vec<i64> = (1..rank).filter(|&d| d != rank - 2).collect();
        let (mean, variance) = moments(&grouped, &axes);
        standardize(&grouped, &mean, &variance, 1e-6).reshape(x.shape()) * &self.scale + &self.bias
    }
}

/// Mean 0 and variance 1 over the batch and all spatial dimensions, then a scale and a bias for each feature. On a mesh
/// the batch is the whole one, whatever part of it a device has.
#[derive(Clone, Debug, Tree)]
pub struct BatchNorm<T = Tensor> {
    /// `[features]`.
    pub scale: T,
    /// `[features]`.
    pub bias: T,
}

/// Averages over the batches so far, which the layer uses when it does not learn. They change from step to step, but not by
/// gradients.
#[derive(Clone, Debug, Tree)]
pub struct BatchStats<T = Tensor> {
    /// `[features]`.
    pub mean: T,
    /// `[features]`.
    pub variance: T,
}

impl BatchNorm {
    /// Scales of 1, biases of 0, and averages of 0 and 1.
    #[track_caller]
    pub fn init(features: impl Int) -> (BatchNorm, BatchStats) {
        let (one, zero) = (|n: i64| ones([n], F32), |n: i64| zeros([n], F32));
        let n = features.int();
        (BatchNorm { scale: one(n), bias: zero(n) }, BatchStats { mean: zero(n), variance: one(n) })
    }

    /// The layer on `[batch, .., features]` while it learns, and the averages after this batch: nine tenths and nine
    /// hundredths of those before.
    #[track_caller]
    pub fn train(&self, x: &Tensor, stats: &BatchStats) -> (Tensor, BatchStats) {
        let axes: Vec<i64> = (0..x.rank() as i64 - 1).collect();
        let (mean, variance) = moments(x, &axes);
        let y = standardize(x, &mean, &variance, 1e-5) * &self.scale + &self.bias;
        let average = |old: &Tensor, new: &Tensor| {
            let new = new.reshape(old.shape()).stop_gradient().to(old.dtype());
            old * 0.99 + new * 0.01
        };
        (y, BatchStats { mean: average(&stats.mean, &mean), variance: average(&stats.variance, &variance) })
    }

    /// The layer by its averages.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, stats: &BatchStats) -> Tensor {
        let (mean, variance) = (stats.mean.to(x.dtype()), stats.variance.to(x.dtype()));
        standardize(x, &mean, &variance, 1e-5) * &self.scale + &self.bias
    }
}
