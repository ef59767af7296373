//! Nine programs as someone writes them who has read the book and nothing else. Each is checked by what it must compute.

use meshwork::layers::{Attention, ConvLayer, Embedding, KvCache, Linear};
use meshwork::losses;
use meshwork::prelude::*;
use meshwork::train::{Optimizer, Trainer};

type Outcome = Result<(), Error>;

/// A pulse in a square whose edges let waves out, by Mur's condition.
#[test]
fn wave_equation_with_absorbing_edges() -> Outcome {
    let c = 0.5;
    let k = (c - 1.0) / (c + 1.0);
    let step = move |u: Tensor, before: Tensor| {
        let middle = u.slice(s![1..-1, 1..-1]);
        let around =
            u.slice(s![..-2, 1..-1]) + u.slice(s![2.., 1..-1]) + u.slice(s![1..-1, ..-2]) + u.slice(s![1..-1, 2..]);
        let inner = 2.0 * &middle - before.slice(s![1..-1, 1..-1]) + c * c * (around - 4.0 * &middle);
        let mut next = u.at(s![1..-1, 1..-1]).set(inner);
        for (edge, inside) in [(0, 1), (-1, -2)] {
            let row = u.slice(s![inside, ..]) + k * (next.slice(s![inside, ..]) - u.slice(s![edge, ..]));
            next = next.at(s![edge, ..]).set(row);
            let column = u.slice(s![.., inside]) + k * (next.slice(s![.., inside]) - u.slice(s![.., edge]));
            next = next.at(s![.., edge]).set(column);
        }
        (next, u)
    };
    let simulate = |steps: i64| {
        jit(move |u: Tensor| for_loop(0..steps, (u.clone(), u), |_, (u, before)| step(u, before)).0.square().sum_all())
    };
    let mesh = Mesh::grid(("x", 2), ("y", 2))?;
    let pulse = Array::from_fn([41, 41], |i| (-0.1 * ((i[0] - 20).pow(2) + (i[1] - 20).pow(2)) as f32).exp());
    let split = pulse.clone().shard(&mesh, P!["x", "y"])?;
    let mut energies = vec![];
    for steps in [1, 20, 200] {
        energies.push(simulate(steps).call(&split)?.item::<f32>()?);
    }
    assert!(energies[2] < 0.05 * energies[0], "{energies:?}");
    let alone: f32 = simulate(20).call(&pulse)?.item()?;
    assert!((alone - energies[1]).abs() < 1e-4 * alone);
    Ok(())
}

#[derive(Clone, Debug, Tree)]
struct Cnn<T = Tensor> {
    conv: ConvLayer<T>,
    dense: Linear<T>,
}

impl Cnn {
    fn init(key: &Key) -> Cnn {
        let keys = key.split(2);
        Cnn { conv: ConvLayer::init(&keys[0], &[3, 3], 1, 4), dense: Linear::init(&keys[1], 4 * 4 * 4, 2) }
    }

    fn apply(&self, x: &Tensor) -> Tensor {
        let y = self.conv.apply(x).relu().max_pool(&[2, 2], &[2, 2], Padding::Valid);
        self.dense.apply(&y.reshape([x.dim(0), -1]))
    }
}

/// Horizontal against vertical stripes; training stops half way and goes on from a checkpoint on another mesh.
#[test]
#[cfg(feature = "checkpoints")]
fn cnn_with_adam_and_resumed_training() -> Outcome {
    use meshwork::save::Checkpoints;
    let stripes = |i: &[i64]| ((i[(1 + i[0] % 2) as usize] + i[0] / 2) % 2) as f32;
    let batch = (Array::from_fn([16, 8, 8, 1], stripes), Array::from_fn([16], |i| (i[0] % 2) as i32));
    let loss = |model: &Cnn, (x, y): &(Tensor, Tensor)| {
        losses::softmax_cross_entropy_with_integer_labels(&model.apply(x), y).mean_all()
    };
    let trainer = |devices: i64| -> Result<_, Error> {
        Ok(Trainer::new(loss, Optimizer::adam(0.01)).on(&Mesh::linear("data", devices)?).batch(P!["data"]).build())
    };
    let model = jit(|_: ()| Cnn::init(&Key::new(1))).call(&())?;
    let folder = std::env::temp_dir().join(format!("meshwork_newcomer_{}", std::process::id()));
    let mut values = vec![];
    for (devices, until) in [(2, 15), (4, 30)] {
        let trainer = trainer(devices)?;
        let mut saves = Checkpoints::open(&folder)?;
        let mut state = trainer.init(&model)?;
        let mut step = 0;
        if let Some((found, resumed)) = saves.resume(&state)? {
            (state, step) = (resumed, found.step());
        }
        while step < until {
            let (value, next) = trainer.step(&state, &batch)?;
            (state, step) = (next, step + 1);
            values.push(value.item::<f32>()?);
        }
        saves.save(step, &state, &[])?;
        saves.wait()?;
    }
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(values.len(), 30);
    assert!(values[29] < 0.2 * values[0], "{values:?}");
    assert!(values[15] < values[14] + 0.05, "training went on where it was: {values:?}");
    Ok(())
}

/// Bodies that attract each other: momentum stays, and energy nearly so.
#[test]
fn particles() -> Outcome {
    #[derive(Clone, Tree)]
    struct Bodies<T = Tensor> {
        position: T,
        velocity: T,
    }
    let pull = |x: &Tensor| {
        let apart = x.expand_dims(0) - x.expand_dims(1);
        let distance = (apart.square().sum(&[-1]) + 0.05).sqrt();
        (apart / distance.pow(3.0).expand_dims(-1)).sum(&[1])
    };
    let leap = move |b: Bodies| {
        let half = &b.velocity + 0.5 * 0.01 * pull(&b.position);
        let position = &b.position + 0.01 * &half;
        let velocity = half + 0.5 * 0.01 * pull(&position);
        Bodies { position, velocity }
    };
    let run = move |b: Bodies| {
        let energy = |b: &Bodies| {
            let apart = b.position.expand_dims(0) - b.position.expand_dims(1);
            let well = (apart.square().sum(&[-1]) + 0.05).rsqrt().triu(1).sum_all();
            0.5 * b.velocity.square().sum_all() - well
        };
        let before = energy(&b);
        let after = for_loop(0..100, b, |_, b| leap(b));
        (before, energy(&after), after.velocity.sum(&[0]), after)
    };
    let bodies = jit(|key: Key| {
        let keys = key.split(2);
        let velocity = 0.1 * keys[1].normal([10, 3], F32);
        Bodies { position: keys[0].normal([10, 3], F32), velocity: &velocity - velocity.mean(&[0]) }
    });
    let bodies = bodies.call(&Array::from([0u32, 3]))?;
    let mesh = Mesh::linear("bodies", 4)?;
    let (before, after, momentum, split) = jit(run).on(&mesh).in_shardings([P!["bodies"]]).call(&bodies)?;
    let (before, after) = (before.item::<f32>()?, after.item::<f32>()?);
    assert!((before - after).abs() < 0.02 * before.abs(), "{before} {after}");
    assert!(momentum.to_vec::<f32>()?.iter().all(|m| m.abs() < 1e-4));
    assert!(split.position.all_close(&jit(run).call(&bodies)?.3.position, 1e-3));
    Ok(())
}

/// Text one token after the other, with a cache: the same as with everything computed again.
#[test]
fn decoder_with_a_cache() -> Outcome {
    #[derive(Clone, Tree)]
    struct Decoder<T = Tensor> {
        tokens: Embedding<T>,
        attention: Attention<T>,
    }
    let model = jit(|_: ()| {
        let keys = Key::new(5).split(2);
        Decoder { tokens: Embedding::init(&keys[0], 20, 8), attention: Attention::init(&keys[1], 8, 2) }
    });
    let model = model.call(&())?;
    let cached = |m: Decoder, first: Tensor| {
        let start = (KvCache::empty(1, 6, 2, 8, F32), first, zeros([6], I32));
        let (_, _, text) = for_loop(0..6, start, |i, (cache, token, text)| {
            let x = m.tokens.apply(&token.reshape([1, 1]));
            let (y, cache) = m.attention.next(&x, &cache, &i);
            let token = m.tokens.attend(&(x + y)).reshape([20]).argmax(0).to(I32);
            (cache, token.clone(), text.at(s![&i]).set(token))
        });
        text
    };
    let again = jit(|m: Decoder, tokens: Tensor| {
        let x = m.tokens.apply(&tokens.expand_dims(0));
        let y = m.attention.apply(&x, meshwork::attention::Mask::Causal);
        m.tokens.attend(&(x + y)).squeeze(0).argmax(-1).to(I32)
    });
    let text = jit(cached).call((&model, &Array::scalar(3i32)))?.to_vec::<i32>()?;
    let mut all = vec![3i32];
    for _ in 0..6 {
        let next = again.call((&model, &Array::from(all.clone())))?.to_vec::<i32>()?;
        all.push(next[next.len() - 1]);
    }
    assert_eq!(text, all[1..]);
    Ok(())
}

/// A symmetric system of equations.
#[test]
fn conjugate_gradients() -> Outcome {
    let solve = |a: Tensor, b: Tensor| {
        let x = b.zeros_like();
        let start = (x, b.clone(), b.clone(), b.square().sum_all(), zeros((), I32));
        let (x, _, _, rest, turns) = while_loop(
            start,
            |(_, _, _, rest, turns)| rest.gt(1e-10) & turns.lt(100),
            |(x, r, p, rest, turns)| {
                let ap = a.matmul(&p);
                let alpha = &rest / (&p * &ap).sum_all();
                let x = x + &alpha * &p;
                let r = r - alpha * ap;
                let next = r.square().sum_all();
                let p = &r + (&next / rest) * p;
                (x, r, p, next, turns + 1)
            },
        );
        (x, rest, turns)
    };
    let n = 50;
    let a = Array::from_fn([n, n], |i| match (i[0] - i[1]).abs() {
        0 => 2.1f32,
        1 => -1.0,
        _ => 0.0,
    });
    let b = Array::from_fn([n], |i| (i[0] as f32).sin());
    let mesh = Mesh::linear("rows", 4)?;
    let (x, rest, turns) = jit(solve).on(&mesh).in_shardings([P!["rows"], P!["rows"]]).call((&a, &b))?;
    assert!(rest.item::<f32>()? < 1e-10 && turns.item::<i32>()? < 100);
    let back = jit(|a: Tensor, x: Tensor| a.matmul(&x)).call((&a, &x))?;
    assert!(back.all_close(&b, 1e-4));
    Ok(())
}

/// Points around three places find their places.
#[test]
fn k_means() -> Outcome {
    let data = jit(|key: Key| {
        let keys = key.split(2);
        let places = Tensor::constant(&Array::from([[0.0f32, 0.0], [5.0, 0.0], [0.0, 5.0]]));
        let of = keys[0].randint([300], 0, 3, I32);
        places.take(&of, 0) + 0.3 * keys[1].normal([300, 2], F32)
    });
    let points = data.call(&Array::from([0u32, 11]))?;
    let cluster = |points: Tensor, start: Tensor| {
        for_loop(0..10, start, |_, centers| {
            let distance = (points.expand_dims(1) - centers.expand_dims(0)).square().sum(&[-1]);
            let member = distance.argmin(-1).one_hot(3, F32);
            let count = member.sum(&[0]).maximum(1.0);
            einsum("nk,nd->kd", &[&member, &points]) / count.expand_dims(1)
        })
    };
    let start = Array::from([[1.0f32, 1.0], [3.0, 0.0], [0.0, 3.0]]);
    let mesh = Mesh::linear("points", 4)?;
    let f = jit(cluster).on(&mesh).in_shardings([P!["points"], P![]]);
    let centers = f.call((&points, &start))?;
    assert!(centers.all_close(&Array::from([[0.0f32, 0.0], [5.0, 0.0], [0.0, 5.0]]), 0.15), "{centers}");
    // Only counts and sums of members travel.
    let plan = f.plan((&points, &start))?;
    assert_eq!(plan.totals().keys().copied().collect::<Vec<_>>(), ["all-reduce"]);
    Ok(())
}

/// Weights that other tools wrote, placed while they are read.
#[test]
#[cfg(all(feature = "safetensors", feature = "npz"))]
fn weights_from_files() -> Outcome {
    use std::collections::HashMap;

    use meshwork::{SafeTensors, load_npz, load_tree, save_npz, save_tree};
    let folder = std::env::temp_dir().join(format!("meshwork_newcomer_files_{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let model = jit(|_: ()| Linear::init(&Key::new(2), 6, 4)).call(&())?;
    save_tree(folder.join("model.safetensors"), &model)?;
    save_npz(folder.join("model.npz"), &[("w", model.weight.clone())])?;

    let mesh = Mesh::linear("model", 2)?;
    let rule = Rule::by_name([("weight", P![_, "model"]), ("bias", P!["model"])]);
    let placed = load_tree(folder.join("model.safetensors"), &model, Some((&mesh, &rule)))?;
    assert_eq!(placed.weight.shards()[1].slice, [0..6, 2..4]);
    let part = SafeTensors::open(folder.join("model.safetensors"))?.slice("weight", &[0..1, 0..4])?;
    assert_eq!(part.to_vec::<f32>()?, model.weight.to_vec::<f32>()?[..4]);
    let arrays: HashMap<String, Array> = load_npz(folder.join("model.npz"))?.into_iter().collect();
    assert!(arrays["w"].all_close(&model.weight, 0.0));

    let apply = jit(|model: Linear, x: Tensor| model.apply(&x));
    let x = Array::full([3, 6], 1.0f32);
    assert!(apply.call((&placed, &x))?.all_close(&apply.call((&model, &x))?, 1e-6));
    std::fs::remove_dir_all(folder).unwrap();
    Ok(())
}

/// Gradients in bf16, parameters in f32; and f16 with a scaled loss.
#[test]
fn mixed_precision() -> Outcome {
    use meshwork::train::{Learner, Settings};
    let x = Array::from_fn([32, 3], |i| ((3 * i[0] + i[1]) as f32).sin());
    let y = Array::from_fn([32, 1], |i| ((3 * i[0]) as f32).sin() - 0.5);
    let batch = (x, y);
    let model = jit(|_: ()| Linear::init(&Key::new(4), 3, 1)).call(&())?;
    let loss = |model: &Linear, (x, y): &(Tensor, Tensor)| (model.apply(x) - y).square().mean_all();
    let trainer = Trainer::new(loss, Optimizer::adam(0.05)).compute_in(BF16).build();
    let mut state = trainer.init(&model)?;
    let mut last = f32::INFINITY;
    for _ in 0..100 {
        let (value, next) = trainer.step(&state, &batch)?;
        (state, last) = (next, value.item()?);
    }
    assert!(last < 0.01, "{last}");
    assert_eq!(state.0.weight.dtype(), F32);

    let loss = move |model: &Linear, _: &(), batch: &(Tensor, Tensor), _: &Key| (loss(model, batch), (), ());
    let settings = Settings::new(Optimizer::adam(0.05)).compute_in(F16).loss_scale(65536.0);
    let learner = Learner::new(loss, settings);
    let mut state = learner.init(&model, &(), 0)?;
    for _ in 0..100 {
        let (value, (), next) = learner.step(&state, &batch)?;
        (state, last) = (next, value.item()?);
    }
    assert!(last < 0.01, "{last}");
    Ok(())
}

/// What a program would send on a machine that is not here.
#[test]
fn plans() -> Outcome {
    let mesh = Mesh::grid(("data", 16), ("model", 8))?;
    let forward = |x: Tensor, up: Tensor, down: Tensor| x.matmul(&up).gelu().matmul(&down);
    let f = jit(forward).on(&mesh).in_shardings([P!["data"], P![_, "model"], P!["model"]]);
    let (x, up) = (Array::shape_only([4096, 1024], F32), Array::shape_only([1024, 4096], F32));
    let down = Array::shape_only([4096, 1024], F32);
    let plan = f.plan((&x, &up, &down))?;
    assert_eq!(plan.totals().keys().copied().collect::<Vec<_>>(), ["all-reduce"]);
    assert!(f.explain((&x, &up, &down))?.contains("128 devices (data=16, model=8)"));
    assert!(f.why((&x, &up, &down), "result")?.contains("data"));
    let quiet = Contract { allowed: Some(vec![]), ..Contract::default() };
    let error = f.contract(quiet).plan((&x, &up, &down)).unwrap_err().to_string();
    assert!(error.contains("all-reduce"), "{error}");
    Ok(())
}
