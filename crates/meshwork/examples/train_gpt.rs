//! Trains a GPT on the bytes of a text, on any engine, in bf16 with f32 master weights.
//!
//! ```text
//! cargo run --release --example train_gpt                                      # a tiny model on the CPU
//! cargo run --release --example train_gpt -- --engine pjrt:cuda --size gpt2 --peak 989
//! ```
//!
//! Options: `--engine NAME` (see `meshwork devices`), `--size tiny|small|gpt2`, `--steps N`, `--batch N`, `--dtype bf16|f32`,
//! `--peak TFLOPS` of the device, for the share of it that the model reaches (MFU), `--page FILE` for a page of curves that
//! follows the run.

use std::time::Instant;

use meshwork::Curves;
use meshwork::prelude::*;
use meshwork::train::{Optimizer, Trainer};

const TEXT: &str = include_str!("gpt.txt");

/// The extents of a model.
#[derive(Clone, Copy)]
struct Size {
    vocabulary: i64,
    length: i64,
    dim: i64,
    heads: i64,
    layers: i64,
    batch: i64,
}

const TINY: Size = Size { vocabulary: 256, length: 32, dim: 32, heads: 2, layers: 2, batch: 8 };
const SMALL: Size = Size { vocabulary: 256, length: 256, dim: 256, heads: 4, layers: 6, batch: 16 };
/// The smallest GPT-2: 124 million parameters.
const GPT2: Size = Size { vocabulary: 50304, length: 1024, dim: 768, heads: 12, layers: 12, batch: 8 };

#[derive(Clone, Tree)]
struct Block<T = Tensor> {
    qkv: T,
    out: T,
    up: T,
    down: T,
}

#[derive(Clone, Tree)]
struct Gpt<T = Tensor> {
    embed: T,
    position: T,
    blocks: Vec<Block<T>>,
}

fn init(size: Size) -> Gpt {
    let Size { vocabulary, length, dim, layers, .. } = size;
    let mut keys = Key::new(0).split(2 + 4 * layers as usize).into_iter();
    let mut normal = |shape: &[i64], scale: f64| keys.next().expect("a key for each array").normal(shape, F32) * scale;
    let out = 0.02 / (2.0 * layers as f64).sqrt();
    let blocks = (0..layers).map(|_| Block {
        qkv: normal(&[dim, 3 * dim], 0.02),
        out: normal(&[dim, dim], out),
        up: normal(&[dim, 4 * dim], 0.02),
        down: normal(&[4 * dim, dim], out),
    });
    let blocks = blocks.collect();
    Gpt { embed: normal(&[vocabulary, dim], 0.02), position: normal(&[length, dim], 0.02), blocks }
}

fn block(p: &Block, x: &Tensor, size: Size) -> Tensor {
    let Size { length, dim, heads, .. } = size;
    let rows = x.dim(0);
    let qkv = x.layer_norm(1e-5).matmul(&p.qkv).reshape([rows, length, 3, heads, dim / heads]);
    let [q, k, v] = [0, 1, 2].map(|i| qkv.slice(s![.., .., i, .., ..]));
    let scores = einsum("bthk,bshk->bhts", &[&q, &k]).to(F32) / ((dim / heads) as f64).sqrt();
    let past = iota([length, length], I32, 0).ge(iota([length, length], I32, 1));
    let weights = select(past, scores, -1e9).softmax(-1).to(x.dtype());
    let seen = einsum("bhts,bshk->bthk", &[&weights, &v]).reshape([rows, length, dim]);
    let x = x + seen.matmul(&p.out);
    &x + x.layer_norm(1e-5).matmul(&p.up).gelu().matmul(&p.down)
}

/// The mean of -log of the probability that the model gave to each next token.
fn loss(p: &Gpt, tokens: &Tensor, next: &Tensor, size: Size) -> Tensor {
    let x = p.embed.take(tokens, 0) + &p.position;
    let x = p.blocks.iter().fold(x, |x, p| block(p, &x, size));
    let logits = einsum("btd,vd->btv", &[&x.layer_norm(1e-5), &p.embed]).to(F32);
    let logp = logits.log_softmax(-1);
    -(logp * next.one_hot(size.vocabulary, F32)).sum(&[-1]).mean_all()
}

/// Arithmetic of a step: two for each weight and token forward and four backward, and the attention.
fn flops(size: Size) -> f64 {
    let Size { vocabulary, length, dim, layers, batch, .. } = size;
    let weights = (layers * 12 * dim * dim + vocabulary * dim) as f64;
    let attention = (layers * 2 * length * dim) as f64;
    6.0 * (batch * length) as f64 * (weights + attention)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut engine, mut size, mut steps, mut peak, mut dtype) = ("cpu".to_string(), TINY, 20u64, None, BF16);
    let (mut batch, mut page) = (None, None);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match (option.as_str(), value.as_str()) {
            ("--engine", name) => engine = name.into(),
            ("--size", "tiny") => size = TINY,
            ("--size", "small") => size = SMALL,
            ("--size", "gpt2") => size = GPT2,
            ("--steps", n) => steps = n.parse()?,
            ("--batch", n) => batch = Some(n.parse()?),
            ("--page", file) => page = Some(file.to_string()),
            ("--peak", n) => peak = Some(n.parse::<f64>()? * 1e12),
            ("--dtype", "bf16") => dtype = BF16,
            ("--dtype", "f32") => dtype = F32,
            _ => return Err(format!("{option} {value}: not an option; see the top of the example").into()),
        }
    }
    size.batch = batch.unwrap_or(size.batch);
    let engine = meshwork::engine(&engine)?;
    let trainer = Trainer::new(
        move |p: &Gpt, (tokens, next): &(Tensor, Tensor)| loss(p, tokens, next, size),
        Optimizer::adam(1e-3),
    )
    .engine(engine.clone())
    .compute_in(dtype)
    .build();

    let text = TEXT.as_bytes();
    let windows = |step: u64, ahead: i64| {
        let at = move |i: &[i64]| (step as i64 * 7919 + i[0] * 2749 + i[1] + ahead) as usize % text.len();
        Array::from_fn([size.batch, size.length], |i| i32::from(text[at(i)]))
    };
    let params = jit(move |_: ()| init(size)).engine(engine.clone()).call(&())?;
    let mut state = trainer.init(&params)?;
    drop(params);
    let (mut start, mut first, mut losses) = (Instant::now(), 0, vec![]);
    let mut curves = Curves::new("train_gpt");
    for step in 0..steps {
        let (value, next) = trainer.step(&state, &(windows(step, 0), windows(step, 1)))?;
        state = next;
        // Reading the loss waits for the device, so it is not read in every step.
        if step == 0 || step % 10 == 9 || step + 1 == steps {
            losses.push(value.item::<f32>()?);
            let per_step = start.elapsed().as_secs_f64() / (step + 1 - first) as f64;
            let tokens = (size.batch * size.length) as f64 / per_step;
            let mfu = peak.map_or(String::new(), |peak| format!(", MFU {:.1}%", 100.0 * flops(size) / per_step / peak));
            let last = losses[losses.len() - 1];
            let ms = 1e3 * per_step;
            eprint!("\r{}/{steps}: loss {last:.3}, {ms:.2} ms a step, {tokens:.0} tokens/s{mfu} ", step + 1);
            if let Some(page) = &page {
                curves.add(step, &[("loss", last.into()), ("steps/s", 1.0 / per_step), ("tokens/s", tokens)]);
                curves.add_memory(step);
                curves.write(page)?;
            }
            if step + 1 == steps {
                let memory = engine.memory().into_iter().filter_map(|memory| memory.peak).max();
                let memory =
                    memory.map_or(String::new(), |peak| format!(", {:.1} MiB at most", peak as f64 / 1048576.0));
                let name = engine.name();
                eprintln!();
                println!("{name}: loss {last:.4}, {ms:.3} ms a step, {tokens:.0} tokens/s{mfu}{memory}");
                println!("losses: {}", losses.iter().map(|l| format!("{l:.6}")).collect::<Vec<_>>().join(" "));
            }
            // The first step was compiled.
            (start, first) = (Instant::now(), step + 1);
        }
    }
    assert!(steps < 20 || losses[losses.len() - 1] < losses[0], "the model learned nothing: {losses:?}");
    Ok(())
}
