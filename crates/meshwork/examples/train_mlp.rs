//! Time of a training step of a small network on any engine: where a step is short, what counts is how fast it is started.
//!
//! ```text
//! cargo run --release --example train_mlp
//! cargo run --release --example train_mlp -- --engine pjrt:cuda --sizes 512,2048,2048,512 --batch 256 --steps 500
//! ```

use std::time::Instant;

use meshwork::prelude::*;
use meshwork::train::{Optimizer, Trainer};

#[derive(Clone, Tree)]
struct Mlp<T = Tensor> {
    layers: Vec<T>,
}

fn loss(p: &Mlp, (x, y): &(Tensor, Tensor)) -> Tensor {
    let (last, rest) = p.layers.split_last().expect("a layer");
    let hidden = rest.iter().fold(x.clone(), |x, w| x.matmul(w).tanh());
    let error = hidden.matmul(last) - y;
    (&error * &error).mean_all()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut engine, mut sizes, mut batch, mut steps) = ("cpu".to_string(), vec![64i64, 256, 256, 64], 64i64, 40u64);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--engine" => engine = value,
            "--sizes" => sizes = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--batch" => batch = value.parse()?,
            "--steps" => steps = value.parse()?,
            _ => return Err(format!("{option}: not an option; see the top of the example").into()),
        }
    }
    let engine = meshwork::engine(&engine)?;
    let trainer = Trainer::new(loss, Optimizer::sgd(0.05)).engine(engine.clone()).build();
    let wave = |shape: [i64; 2], scale: f64| {
        Array::from_fn(shape, move |i| ((i[0] as f64 * 1.7 + i[1] as f64 * 0.9).sin() * scale) as f32)
    };
    let layers = sizes.windows(2).map(|n| wave([n[0], n[1]], (n[0] as f64).sqrt().recip())).collect();
    let mut state = trainer.init(&Mlp { layers })?;
    let data = (wave([batch, sizes[0]], 1.0), wave([batch, sizes[sizes.len() - 1]], 0.5));
    let (first, next) = trainer.step(&state, &data)?;
    let first = first.item::<f32>()?;
    state = next;
    let (mut last, mut start) = (first, Instant::now());
    let mut best = f64::INFINITY;
    for step in 1..=steps {
        let (value, next) = trainer.step(&state, &data)?;
        state = next;
        // Reading the loss waits for the device.
        if step % 20 == 0 || step == steps {
            last = value.item::<f32>()?;
            if step % 20 == 0 {
                best = best.min(start.elapsed().as_secs_f64() / 20.0);
            }
            start = Instant::now();
        }
    }
    println!("{}: loss {first:.5} to {last:.5}, {:.4} ms a step", engine.name(), best * 1e3);
    assert!(last < first, "the network learned nothing: {first} to {last}");
    Ok(())
}
