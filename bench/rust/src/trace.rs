//! How long it takes from a Rust function to StableHLO text: trace, place the arguments, print.
//!
//! Each run makes a new `jit`, traces the whole function and drops what it made. The mesh, the placements and the shapes
//! of the arguments are there before, as they are for JAX; with `--fresh`, each run makes its own mesh and placements.
//! Nothing is kept from one run to the next.
//! Runs with and without placements alternate, in rounds of a few milliseconds. Times are CPU time of the thread.

use std::process::ExitCode;
use std::time::Duration;

use meshwork::prelude::*;
use meshwork::{Function, Jit, LoweredFor};

use crate::timing::{Times, on_processor, wall};

const USAGE: &str =
    "usage: meshwork-bench trace dense|transformer LAYERS [--repeat N] [--fresh] [--text] [--count N] [--plain]";

/// About how long one round takes.
const ROUND: Duration = Duration::from_millis(4);

const BATCH: i64 = 8;
const LENGTH: i64 = 128;
const DIM: i64 = 256;
const HEADS: i64 = 8;

/// The weights of one transformer block.
#[derive(Clone, Tree)]
struct Block<T = Tensor> {
    scale1: T,
    bias1: T,
    wq: T,
    wk: T,
    wv: T,
    wo: T,
    scale2: T,
    bias2: T,
    up: T,
    up_bias: T,
    down: T,
    down_bias: T,
}

impl Block<Array> {
    fn new() -> Self {
        let array = |dims: &[i64]| Array::shape_only(dims, F32);
        let (model, hidden) = (|| array(&[DIM]), || array(&[4 * DIM]));
        let heads = || array(&[DIM, HEADS, DIM / HEADS]);
        Block {
            scale1: model(),
            bias1: model(),
            wq: heads(),
            wk: heads(),
            wv: heads(),
            wo: array(&[HEADS, DIM / HEADS, DIM]),
            scale2: model(),
            bias2: model(),
            up: array(&[DIM, 4 * DIM]),
            up_bias: hidden(),
            down: array(&[4 * DIM, DIM]),
            down_bias: model(),
        }
    }
}

impl Block {
    fn apply(&self, x: &Tensor, mask: &Tensor) -> Tensor {
        let h = x.layer_norm(1e-5) * &self.scale1 + &self.bias1;
        let [q, k, v] = [&self.wq, &self.wk, &self.wv].map(|w| einsum("btd,dhk->bhtk", &[&h, w]));
        let scores = einsum("bhtk,bhsk->bhts", &[&q, &k]) * (1.0 / ((DIM / HEADS) as f64).sqrt());
        let weights = select(mask, scores, -1e9).softmax(-1);
        let x = x + einsum("bhtk,hkd->btd", &[&weights.matmul(v), &self.wo]);
        let h = x.layer_norm(1e-5) * &self.scale2 + &self.bias2;
        let h = (h.matmul(&self.up) + &self.up_bias).gelu();
        &x + h.matmul(&self.down) + &self.down_bias
    }
}

fn transformer(x: Tensor, blocks: Vec<Block>) -> Tensor {
    let position = |axis| iota([LENGTH, LENGTH], I32, axis);
    let mask = position(0).ge(position(1));
    blocks.iter().fold(x, |x, block| block.apply(&x, &mask))
}

/// Products and ramps: the stack that SwiftIR's benchmark traces.
fn dense(x: Tensor, weights: Vec<Tensor>) -> Tensor {
    let last = weights.len();
    weights.iter().enumerate().fold(x, |x, (i, w)| if i + 1 < last { x.matmul(w).relu() } else { x.matmul(w) })
}

/// The mesh and the placements.
struct Places {
    mesh: Mesh,
    ins: [Rule; 2],
    outs: [Rule; 1],
}

impl Places {
    /// With this rule for the weights.
    fn new(weights: Rule) -> Result<Places, Error> {
        let mesh = Mesh::grid(("data", 2), ("model", 4))?;
        Ok(Places { mesh, ins: [P!["data"].into(), weights], outs: [P!["data"].into()] })
    }

    fn of(program: &str) -> Result<Places, Error> {
        Places::new(match program {
            "dense" => P![_, "model"].into(),
            _ => Rule::by_name([
                ("wq", P![_, "model"]),
                ("wk", P![_, "model"]),
                ("wv", P![_, "model"]),
                ("wo", P!["model"]),
                ("up", P![_, "model"]),
                ("up_bias", P!["model"]),
                ("down", P!["model"]),
            ]),
        })
    }

    fn give<A, F: Function<A>>(&self, f: F, placed: Placed) -> Jit<F, A> {
        let f = jit(f).on(&self.mesh);
        match placed {
            Placed::Yes => f.in_shardings(&self.ins).out_shardings(&self.outs),
            Placed::No => f,
        }
    }
}

#[derive(Clone, Copy)]
enum Placed {
    Yes,
    No,
}

/// Prints medians as JSON, or the program.
pub fn run(args: &[String]) -> ExitCode {
    match measure(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn text<O>(lowered: Result<LoweredFor<O>, Error>) -> Result<String, String> {
    lowered.map(|lowered| lowered.text()).map_err(|e| e.to_string())
}

fn measure(args: &[String]) -> Result<(), String> {
    let [program, layers, options @ ..] = args else { return Err(USAGE.into()) };
    let layers: usize = layers.parse().map_err(|_| USAGE)?;
    let (mut repeat, mut fresh, mut show, mut count, mut counted) = (21, false, false, None, Placed::Yes);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--repeat" => repeat = options.next().and_then(|n| n.parse().ok()).ok_or(USAGE)?,
            "--fresh" => fresh = true,
            "--text" => show = true,
            "--plain" => counted = Placed::No,
            "--count" => count = Some(options.next().and_then(|n| n.parse::<usize>().ok()).ok_or(USAGE)?),
            _ => return Err(USAGE.into()),
        }
    }
    let (x, weights) = (Array::shape_only([32, DIM], F32), vec![Array::shape_only([DIM, DIM], F32); layers]);
    let (tokens, blocks) = (Array::shape_only([BATCH, LENGTH, DIM], F32), vec![Block::new(); layers]);
    if !matches!(program.as_str(), "dense" | "transformer") {
        return Err(USAGE.into());
    }
    let make = || Places::of(program).map_err(|e| e.to_string());
    let kept = make()?;
    let trace = |placed| {
        let new = if fresh { Some(make()?) } else { None };
        let places = new.as_ref().unwrap_or(&kept);
        match program.as_str() {
            "dense" => text(places.give(dense, placed).lower((&x, &weights))),
            _ => text(places.give(transformer, placed).lower((&tokens, &blocks))),
        }
    };
    let shown = trace(Placed::Yes)?;
    if show {
        print!("{shown}");
        return Ok(());
    }
    if let Some(count) = count {
        // For profilers: `count` more runs, untimed.
        return (0..count).try_for_each(|_| trace(counted).map(drop));
    }
    let (_, once) = wall(|| trace(Placed::No));
    let runs = (ROUND.as_nanos() / once.as_nanos().max(1)).clamp(1, 1000) as u32;
    let (mut placed, mut plain) = (Times::default(), Times::default());
    for _ in 0..repeat {
        for (times, how) in [(&mut placed, Placed::Yes), (&mut plain, Placed::No)] {
            let (done, time) = on_processor(|| (0..runs).try_for_each(|_| trace(how).map(drop)));
            done?;
            times.add(time / runs);
        }
    }
    println!(
        "{{\"program\": \"{program}\", \"layers\": {layers}, \"operations\": {}, \"bytes\": {}, \"placed_ms\": {:.5}, \
         \"plain_ms\": {:.5}}}",
        shown.matches("stablehlo.").count(),
        shown.len(),
        placed.median(),
        plain.median()
    );
    Ok(())
}
