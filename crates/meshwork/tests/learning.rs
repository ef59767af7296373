//! Layers against Flax and JAX, and the training step that has metrics, statistics, keys and loss scaling.
// The digits that JAX prints.
#![allow(clippy::excessive_precision)]

use meshwork::layers::{
    Attention, BatchNorm, BatchStats, ConvLayer, Embedding, GroupNorm, KvCache, LayerNorm, Linear, Lstm, LstmState,
    RmsNorm, init,
};
use meshwork::prelude::*;
use meshwork::sequence::Mask;
use meshwork::train::{Learner, Optimizer, Patience, Settings, Zero};

fn close(found: &Array, wanted: &[f32]) {
    let found = found.to_vec::<f32>().unwrap();
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-6 * b.abs().max(1.0);
    assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(near), "{found:?}\n{wanted:?}");
}

/// Recorded from `jax.nn.initializers` with `jax.random.key(0)`.
#[test]
fn parameters_start_as_in_jax() {
    let f = jit(|_: ()| {
        let key = Key::new(0);
        (init::lecun_normal(&key, [3, 4], 3), init::he_normal(&key, [3, 4], 3), init::glorot_normal(&key, [3, 4], 3, 4))
    });
    let (lecun, he, glorot) = f.call(&()).unwrap();
    close(
        &lecun,
        &[
            0.95563197,
            1.1254908,
            -0.27086318,
            -0.04924887,
            0.11026898,
            -0.59900248,
            -0.30912593,
            0.30855608,
            0.41327733,
            -0.58599401,
            1.1748586,
            -1.0999686,
        ],
    );
    close(
        &he,
        &[
            1.3514677,
            1.5916845,
            -0.38305843,
            -0.06964843,
            0.1559439,
            -0.84711754,
            -0.43717009,
            0.4363642,
            0.5844624,
            -0.82872075,
            1.661501,
            -1.5555906,
        ],
    );
    close(
        &glorot,
        &[
            0.88474327,
            1.042002,
            -0.25077057,
            -0.045595594,
            0.10208923,
            -0.55456853,
            -0.28619498,
            0.28566742,
            0.38262045,
            -0.54252505,
            1.0877076,
            -1.018373,
        ],
    );
    let f = jit(|_: ()| {
        let key = Key::new(0);
        (Linear::init(&key, 3, 4), ConvLayer::init(&key, &[2, 2], 1, 2), Embedding::init(&key, 3, 4))
    });
    let (linear, conv, embedding) = f.call(&()).unwrap();
    close(&linear.weight, &lecun.to_vec::<f32>().unwrap());
    assert_eq!(linear.bias.unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
    close(
        &conv.kernel,
        &[0.82760161, 0.97470373, -0.23457442, -0.042650778, 0.095495746, -0.51875144, -0.26771092, 0.26721743],
    );
    close(
        &embedding.table,
        &[
            0.81132108,
            1.0126324,
            -0.21679722,
            -0.039308675,
            0.088045448,
            -0.48604462,
            -0.24764937,
            0.2471893,
            0.33217466,
            -0.47508174,
            1.0897652,
            -0.9775753,
        ],
    );
}

/// Recorded from Flax's layers of the same names on `sin(0..24)`.
#[test]
fn norms_are_flax_norms() {
    let x = Array::from_fn([2, 3, 4], |i| ((12 * i[0] + 4 * i[1] + i[2]) as f32).sin());
    let f = jit(|x: Tensor| {
        let first = |y: Tensor| y.slice(s![0, 0]);
        let (batch, stats) = BatchNorm::init(4);
        let (y, stats) = batch.train(&x, &stats);
        let norms = (LayerNorm::init(4).apply(&x), RmsNorm::init(4).apply(&x), GroupNorm::init(2, 4).apply(&x));
        (first(norms.0), first(norms.1), first(norms.2), first(y), stats)
    });
    let (layer, rms, group, batch, stats) = f.call(&x).unwrap();
    close(&layer, &[-1.1643735, 0.907179, 1.0741557, -0.81696105]);
    close(&rms, &[0.0, 1.3496772, 1.4584674, 0.2263494]);
    close(&group, &[-0.11843546, 1.0157381, 1.3972875, 0.24143487]);
    close(&batch, &[-0.079193257, 0.96742284, 1.2698988, 0.27700368]);
    close(&stats.mean, &[0.00053504133, 0.00098348397, 0.00052771613, -0.00041323167]);
    close(&stats.variance, &[0.99456447, 0.99590039, 0.99454921, 0.99433786]);
}

/// Recorded from the same steps in `jax.numpy`.
#[test]
fn an_lstm_steps_as_in_jax() {
    let lstm = Lstm {
        input: Array::from_fn([3, 8], |i| ((8 * i[0] + i[1]) as f32).sin()),
        state: Array::from_fn([2, 8], |i| ((8 * i[0] + i[1]) as f32).cos()),
        bias: Array::from_fn([8], |i| i[0] as f32 / 10.0),
    };
    let x = Array::from_fn([3, 1, 3], |i| 0.5 * (i[0] + 1) as f32);
    let f = jit(|lstm: Lstm, x: Tensor| lstm.apply(&x, LstmState::zeros(1, 2)));
    let (state, shown) = f.call((&lstm, &x)).unwrap();
    close(&state.hidden, &[0.083998732, 0.44020584]);
    close(&state.cell, &[0.09792763, 0.6519714]);
    assert_eq!(shown.shape(), [3, 1, 2]);
    assert_eq!(shown.to_vec::<f32>().unwrap()[4..], state.hidden.to_vec::<f32>().unwrap());
}

#[test]
fn tokens_one_by_one_see_what_they_see_at_once() {
    let f = jit(|x: Tensor| {
        let layer = Attention::init(&Key::new(3), 8, 2);
        let at_once = layer.apply(&x, Mask::Causal);
        let start = (KvCache::empty(2, 5, 2, 8, F32), zeros([2, 5, 8], F32));
        let (_, apart) = for_loop(0..5, start, |i, (cache, out)| {
            let now = x.dynamic_slice(&[zeros((), I32), i.clone(), zeros((), I32)], &[2, 1, 8]);
            let (y, cache) = layer.next(&now, &cache, &i);
            (cache, out.dynamic_update_slice(&y, &[zeros((), I32), i, zeros((), I32)]))
        });
        (at_once, apart)
    });
    let (at_once, apart) =
        f.call(&Array::from_fn([2, 5, 8], |i| ((i[0] * 40 + i[1] * 8 + i[2]) as f32).sin())).unwrap();
    assert!(at_once.all_close(&apart, 1e-5), "{at_once}\n{apart}");
}

/// A linear layer behind batch norm, with noise on the input.
type Model<T = Tensor> = (Linear<T>, BatchNorm<T>);

fn loss(
    (linear, norm): &Model,
    stats: &BatchStats,
    (x, y): &(Tensor, Tensor),
    key: &Key,
) -> (Tensor, BatchStats, (Tensor, Tensor)) {
    let x = x + key.normal(x.shape(), F32).to(x.dtype()) * 0.01;
    let (x, stats) = norm.train(&x, stats);
    let error = linear.apply(&x) - y;
    (error.square().mean_all(), stats, (error.abs().max_all().to(F32), key.tensor()))
}

fn start() -> (Model<Array>, BatchStats<Array>) {
    let make = |_: ()| {
        let (norm, stats) = BatchNorm::init(4);
        ((Linear::init(&Key::new(1), 4, 2), norm), stats)
    };
    jit(make).call(&()).unwrap()
}

fn batch() -> (Array, Array) {
    let x = Array::from_fn([16, 4], |i| ((4 * i[0] + i[1]) as f32).sin() + 0.5);
    let y = Array::from_fn([16, 2], |i| ((i[0] * 2 + i[1]) as f32).cos());
    (x, y)
}

fn train(settings: Settings, steps: usize) -> (Vec<f32>, Vec<f32>, Vec<Vec<u32>>) {
    let learner = Learner::new(loss, settings);
    let (params, stats) = start();
    let mut state = learner.init(&params, &stats, 5).unwrap();
    let (mut losses, mut keys) = (vec![], vec![]);
    for _ in 0..steps {
        let (value, (worst, key), next) = learner.step(&state, &batch()).unwrap();
        assert!(worst.item::<f32>().unwrap() > 0.0);
        losses.push(value.item::<f32>().unwrap());
        keys.push(key.to_vec::<u32>().unwrap());
        state = next;
    }
    let (value, _) = learner.evaluate(&state, &batch()).unwrap();
    assert!(value.item::<f32>().unwrap() < losses[0]);
    (losses, state.2.mean.to_vec::<f32>().unwrap(), keys)
}

#[test]
fn metrics_statistics_and_keys_are_the_same_on_any_mesh() {
    let (losses, mean, keys) = train(Settings::new(Optimizer::adam(0.05)), 8);
    assert!(losses[7] < losses[0] && keys.windows(2).all(|k| k[0] != k[1]));
    assert!(mean.iter().all(|m| *m != 0.0));
    let mesh = Mesh::linear("data", 4).unwrap();
    let split = Settings::new(Optimizer::adam(0.05)).on(&mesh).batch(P!["data"]).zero(Zero::One, "data");
    let (same, same_mean, same_keys) = train(split, 8);
    let near = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
    assert!(near(&losses, &same) && near(&mean, &same_mean) && keys == same_keys, "{losses:?}\n{same:?}");
}

#[test]
fn accumulation_learns_from_all_parts() {
    let (losses, _, _) = train(Settings::new(Optimizer::adam(0.05)).accumulate(2), 8);
    assert!(losses[7] < losses[0]);
}

/// Gradients that overflow leave everything as it was, and the scale is halved until they do not.
#[test]
fn loss_scaling_skips_what_overflows() {
    let square = |w: &Tensor, _: &(), x: &Tensor, _: &Key| ((x * w).square().mean_all(), (), ());
    let settings = Settings::new(Optimizer::sgd(0.125)).compute_in(F16).loss_scale(65536.0 * 4.0);
    let learner = Learner::new(square, settings);
    let mut state = learner.init(&Array::from([1.0f32]), &(), 0).unwrap();
    let mut seen = vec![];
    for _ in 0..6 {
        let (_, (), next) = learner.step(&state, &Array::from([1.0f32])).unwrap();
        seen.push((next.0.to_vec::<f32>().unwrap()[0], next.4.scale.item::<f32>().unwrap()));
        state = next;
    }
    let skipped: Vec<_> = seen.iter().take_while(|(w, _)| *w == 1.0).collect();
    assert!(!skipped.is_empty() && skipped.len() < 6, "{seen:?}");
    for (i, (_, scale)) in skipped.iter().enumerate() {
        assert_eq!(*scale, 65536.0 * 4.0 / 2f32.powi(i as i32 + 1));
    }
    // d(w²)/dw = 2 w: from 1 to 0.75.
    assert_eq!(seen[skipped.len()].0, 0.75);
}

#[test]
fn patience_ends() {
    let mut patience = Patience::new(2);
    let over: Vec<bool> = [3.0, 2.0, 2.5, 1.0, 1.0, f64::NAN].into_iter().map(|x| patience.is_over(x)).collect();
    assert_eq!((over, patience.best()), (vec![false, false, false, false, false, true], 1.0));
}

/// A quadratic form of a tree of parameters has its minimum where the equations say, on any mesh and in both float types.
#[test]
fn lbfgs_finds_the_minimum_of_a_tree() {
    use meshwork::optim::{Lbfgs, lbfgs};
    type Params<T = Tensor> = (T, Vec<T>);
    // Ill-conditioned: the curvatures reach from 1 to 100.
    let bowl = |(a, b): Params| {
        let weight = (arange(6, F32) + 1.0).square() * 2.7;
        let first = ((&a - arange(6, F32)).square() * weight).sum_all();
        first + (&b[0] * 3.0 + 1.0).square().sum_all() + (b[0].sum_all() - a.slice(s![0])).square()
    };
    let find = move |start: Params| lbfgs(bowl, start, &Lbfgs { tolerance: 1e-3, ..Lbfgs::default() });
    let start = (Array::zeros([6], F32), vec![Array::full([2, 2], 4.0f32)]);
    let alone = jit(find).call(&start).unwrap();
    assert!(alone.slope.item::<f32>().unwrap() <= 1e-3, "{:?}", alone.slope);
    assert!(alone.steps.item::<i32>().unwrap() < 60);
    // By symmetry all of `b` are equal; then there are two equations.
    let b = alone.at.1[0].to_vec::<f32>().unwrap();
    let a = alone.at.0.to_vec::<f32>().unwrap();
    assert!((2..6).all(|i| (a[i] - i as f32).abs() < 1e-3), "{a:?}");
    assert!((9.0 * b[0] + 3.0 + 4.0 * b[0] - a[0]).abs() < 1e-3 && (2.7 * a[0] - (4.0 * b[0] - a[0])).abs() < 1e-3);
    let mesh = Mesh::linear("x", 3).unwrap();
    let split = jit(find).on(&mesh).in_shardings([P!["x"]]).call(&start).unwrap();
    assert!(split.at.0.all_close(&alone.at.0, 1e-3) && split.at.1[0].all_close(&alone.at.1[0], 1e-3));

    let valley = |x: Tensor| {
        let (a, b) = (x.slice(s![0]), x.slice(s![1]));
        (1.0 - &a).square() + 100.0 * (b - a.square()).square()
    };
    let exact = Lbfgs { tolerance: 1e-10, ..Lbfgs::default() };
    let found = jit(move |x: Tensor| lbfgs(valley, x, &exact)).call(&Array::from([-1.2f64, 1.0])).unwrap();
    assert!(found.at.all_close(&Array::from([1.0f64, 1.0]), 1e-9), "{}", found.at);
    let none = jit(|x: Tensor| lbfgs(|x: Tensor| x.to(F32).sum_all(), x, &Lbfgs::default()));
    let error = none.call(&Array::from([1i32])).unwrap_err().to_string();
    assert!(error.starts_with("lbfgs: 0 parameters of floats"), "{error}");
}
