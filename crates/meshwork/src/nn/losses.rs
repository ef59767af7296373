//! Losses, as Optax has them: one number for each example, to be averaged.
//!
//! ```
//! use meshwork::losses;
//! use meshwork::prelude::*;
//!
//! let f = jit(|logits: Tensor, labels: Tensor| {
//!     losses::softmax_cross_entropy_with_integer_labels(&logits, &labels).mean_all()
//! });
//! let loss = f.call((&Array::zeros([2, 4], F32), &Array::from([0i32, 3])))?;
//! assert!((loss.item::<f32>()? - 4f32.ln()).abs() < 1e-6);
//! # Ok::<(), meshwork::Error>(())
//! ```

use crate::Tensor;
use crate::element::Operand;
use crate::ops::select;

/// Half the square of the difference.
#[track_caller]
pub fn l2_loss(predictions: &Tensor, targets: impl Into<Operand>) -> Tensor {
    squared_error(predictions, targets) * 0.5
}

/// The square of the difference.
#[track_caller]
pub fn squared_error(predictions: &Tensor, targets: impl Into<Operand>) -> Tensor {
    (predictions - targets).square()
}

/// Quadratic up to a distance of `delta`, then linear.
#[track_caller]
pub fn huber_loss(predictions: &Tensor, targets: impl Into<Operand>, delta: f64) -> Tensor {
    let distance = (predictions - targets).abs();
    let near = distance.minimum(delta);
    near.square() * 0.5 + (distance - near) * delta
}

/// The logarithm of the hyperbolic cosine of the difference.
#[track_caller]
pub fn log_cosh(predictions: &Tensor, targets: impl Into<Operand>) -> Tensor {
    let x = predictions - targets;
    x.logaddexp(-&x) - std::f64::consts::LN_2
}

/// The surprise of labels, which are shares of each class, under the [softmax](Tensor::softmax) of logits.
#[track_caller]
pub fn softmax_cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    -(labels * logits.log_softmax(-1)).sum(&[-1])
}

/// The surprise of labels, which are numbers of classes, under the [softmax](Tensor::softmax) of logits.
#[track_caller]
pub fn softmax_cross_entropy_with_integer_labels(logits: &Tensor, labels: &Tensor) -> Tensor {
    let chosen = logits.take_along(&labels.expand_dims(-1), -1).squeeze(-1);
    logits.logsumexp(-1) - chosen
}

/// The surprise of labels between 0 and 1 under the [sigmoid](Tensor::sigmoid) of logits, element by element.
#[track_caller]
pub fn sigmoid_binary_cross_entropy(logits: &Tensor, labels: &Tensor) -> Tensor {
    -(labels * logits.log_sigmoid()) - (1.0 - labels) * (-logits).log_sigmoid()
}

/// [`sigmoid_binary_cross_entropy`] with less weight on what is already right.
#[track_caller]
pub fn sigmoid_focal_loss(logits: &Tensor, labels: &Tensor, gamma: f64) -> Tensor {
    let p = logits.sigmoid();
    let right = &p * labels + (1.0 - &p) * (1.0 - labels);
    sigmoid_binary_cross_entropy(logits, labels) * (1.0 - right).pow(gamma)
}

/// The larger of 0 and `1 - prediction * target`, for targets of 1 and -1.
#[track_caller]
pub fn hinge_loss(predictions: &Tensor, targets: &Tensor) -> Tensor {
    (1.0 - predictions * targets).maximum(0)
}

/// The divergence of target shares from those whose logarithms are predicted, over the last dimension.
#[track_caller]
pub fn kl_divergence(log_predictions: &Tensor, targets: &Tensor) -> Tensor {
    let positive = targets.gt(0);
    let log_targets = select(&positive, targets, 1).log();
    (targets * (select(positive, log_targets, 0) - log_predictions)).sum(&[-1])
}

/// The cosine of the angle between vectors in the last dimension, with their lengths at least `epsilon`.
#[track_caller]
pub fn cosine_similarity(a: &Tensor, b: &Tensor, epsilon: f64) -> Tensor {
    let unit = |x: &Tensor| {
        let squares = x.square().keep_dims(&[-1], |x, axes| x.sum(axes));
        // The root has no slope at 0.
        let zero = squares.eq(0);
        let length = select(&zero, 0, select(&zero, 1, squares).sqrt());
        x / length.maximum(epsilon)
    };
    (unit(a) * unit(b)).sum(&[-1])
}

/// 1 less the [cosine](cosine_similarity) of the angle between vectors in the last dimension.
#[track_caller]
pub fn cosine_distance(a: &Tensor, b: &Tensor, epsilon: f64) -> Tensor {
    1.0 - cosine_similarity(a, b, epsilon)
}

/// Labels that are shares of each class, moved by `alpha` towards equal shares.
#[track_caller]
pub fn smooth_labels(labels: &Tensor, alpha: f64) -> Tensor {
    let classes = labels.dim(-1) as f64;
    labels * (1.0 - alpha) + alpha / classes
}
