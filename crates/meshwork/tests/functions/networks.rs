//! Windows, attention, norms, losses, optimizers.

use meshwork::attention::DotProduct;
use meshwork::losses;
use meshwork::optim::{self, Transform};
use meshwork::prelude::*;
use meshwork::train::{Schedule, global_norm};

use super::{Case, plain, smooth};

/// Five steps towards `x[1]`.
fn steps(optimizer: &Transform, x: &[Tensor]) -> Vec<Tensor> {
    let (mut w, target) = (x[0].clone(), &x[1]);
    let mut state = optimizer.init(&w);
    for _ in 0..5 {
        let slope = grad(|w: Tensor| (w - target).square().sum_all(), w.clone());
        let (updates, next) = optimizer.update(&slope, &state, &w);
        w = optim::apply_updates(&w, &updates);
        state = next;
    }
    vec![w]
}

fn after(first: Transform, x: &[Tensor]) -> Vec<Tensor> {
    steps(&optim::chain([first, optim::sgd(0.05, 0.0, false)]), x)
}

pub(super) const CASES: &[Case] = &[
    smooth("lax.conv_transpose.SAME", |x| vec![x[0].conv_transpose(&x[1], &[2, 3], &Padding::Same)]),
    smooth("lax.conv_transpose.VALID", |x| vec![x[0].conv_transpose(&x[1], &[2, 3], &Padding::Valid)]),
    smooth("lax.conv_general_dilated_patches", |x| vec![x[0].conv_patches(&[2, 3], &[1, 2], &Padding::Valid)]),
    smooth("lax.reduce_window.min", |x| vec![x[0].min_pool(&[1, 2, 2, 1], &[1, 2, 2, 1], Padding::Valid)]),
    plain("nn.dot_product_attention", |x| vec![DotProduct::default().apply(&x[0], &x[1], &x[2])]),
    plain("nn.dot_product_attention.causal", |x| vec![DotProduct::default().causal().apply(&x[0], &x[1], &x[2])]),
    plain("nn.dot_product_attention.mask", |x| {
        vec![DotProduct::default().bias(&x[3]).mask(&x[4]).scale(0.5).apply(&x[0], &x[1], &x[2])]
    }),
    smooth("optax.softmax_cross_entropy", |x| vec![losses::softmax_cross_entropy(&x[0], &x[1])]),
    smooth("optax.sigmoid_binary_cross_entropy", |x| vec![losses::sigmoid_binary_cross_entropy(&x[0], &x[1])]),
    smooth("optax.l2_loss", |x| vec![losses::l2_loss(&x[0], &x[1])]),
    smooth("optax.squared_error", |x| vec![losses::squared_error(&x[0], &x[1])]),
    smooth("optax.hinge_loss", |x| vec![losses::hinge_loss(&x[0], &x[1])]),
    smooth("optax.log_cosh", |x| vec![losses::log_cosh(&x[0], &x[1])]),
    smooth("optax.cosine_distance", |x| vec![losses::cosine_distance(&x[0], &x[1], 0.0)]),
    smooth("optax.sigmoid_focal_loss", |x| vec![losses::sigmoid_focal_loss(&x[0], &x[1], 2.0)]),
    smooth("optax.softmax_cross_entropy_with_integer_labels", |x| {
        vec![losses::softmax_cross_entropy_with_integer_labels(&x[0], &x[1])]
    }),
    smooth("optax.kl_divergence", |x| vec![losses::kl_divergence(&x[0], &x[1])]),
    smooth("optax.huber_loss", |x| vec![losses::huber_loss(&x[0], &x[1], 0.5)]),
    smooth("optax.smooth_labels", |x| vec![losses::smooth_labels(&x[0], 0.1)]),
    smooth("rms_norm", |x| vec![x[0].rms_norm(1e-6)]),
    plain("batch_norm", |x| {
        let (y, mean, variance) = x[0].batch_norm(1e-5);
        vec![y, mean, variance]
    }),
    smooth("instance_norm", |x| vec![x[0].instance_norm(1e-5)]),
    smooth("group_norm", |x| vec![x[0].group_norm(2, 1e-5)]),
    plain("optax.sgd", |x| steps(&optim::sgd(0.05, 0.0, false), x)),
    plain("optax.sgd.momentum", |x| steps(&optim::sgd(0.05, 0.9, false), x)),
    plain("optax.sgd.nesterov", |x| steps(&optim::sgd(0.05, 0.9, true), x)),
    plain("optax.adam", |x| steps(&optim::adam(0.05), x)),
    plain("optax.adamw", |x| steps(&optim::adamw(0.05, 0.1), x)),
    plain("optax.nadam", |x| steps(&optim::nadam(0.05), x)),
    plain("optax.adamax", |x| steps(&optim::adamax(0.05), x)),
    plain("optax.adabelief", |x| steps(&optim::adabelief(0.05), x)).near(2e-4),
    plain("optax.yogi", |x| steps(&optim::yogi(0.05), x)),
    plain("optax.adagrad", |x| steps(&optim::adagrad(0.05), x)),
    plain("optax.rmsprop", |x| steps(&optim::rmsprop(0.05), x)),
    plain("optax.lion", |x| steps(&optim::lion(0.05, 0.1), x)),
    plain("optax.lamb", |x| steps(&optim::lamb(0.05, 0.1), x)),
    plain("optax.lars", |x| steps(&optim::lars(0.05, 0.1), x)),
    plain("optax.adafactor", |x| steps(&optim::adafactor_of(0.05, 0.0, 3), x)),
    plain("optax.clip", |x| after(optim::clip(0.5), x)),
    plain("optax.clip_by_global_norm", |x| after(optim::clip_by_global_norm(0.5), x)),
    plain("optax.add_decayed_weights", |x| after(optim::add_decayed_weights(0.1), x)),
    plain("optax.ema", |x| after(optim::ema(0.9), x)),
    plain("optax.scale_by_schedule", |x| {
        let schedule = Schedule::Linear { from: 0.1, to: 0.01, steps: 3 };
        steps(&optim::chain([optim::scale_by_schedule(schedule), optim::scale(-1.0)]), x)
    }),
    plain("optax.cosine_decay_schedule", |x| steps(&optim::sgd(Schedule::cosine(0.1, 0.0, 4), 0.0, false), x)),
    plain("optax.exponential_decay", |x| {
        let schedule = Schedule::Exponential { from: 0.1, factor: 0.5, every: 2 };
        steps(&optim::sgd(schedule, 0.0, false), x)
    }),
    plain("optax.join_schedules", |x| {
        steps(&optim::sgd(Schedule::Constant(0.1).then(2, Schedule::Constant(0.01)), 0.0, false), x)
    }),
    plain("optax.masked", |x| after(optim::masked(optim::set_to_zero(), |_| false), x)),
    plain("optax.trace", |x| steps(&optim::chain([optim::trace(0.9, false), optim::scale_by_injected_rate(0.05)]), x)),
    plain("optax.incremental_update", |x| vec![optim::incremental_update(&x[0], &x[1], 0.1)]),
    plain("optax.global_norm", |x| vec![global_norm(&x[0])]),
];
