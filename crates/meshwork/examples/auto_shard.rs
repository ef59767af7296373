//! A GPT without annotations: the planner places it on 8 devices, says why, and it trains as the annotated one does.
//!
//! `cargo run --release --example auto_shard` searches for at most 20 seconds.

use meshwork::Machine;
use meshwork::planner::judge;
use meshwork::prelude::*;

const BATCH: i64 = 16;
const LENGTH: i64 = 32;
const DIM: i64 = 64;
const HEADS: i64 = 4;
const LETTERS: i64 = 32;

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
    blocks: Vec<Block<T>>,
    head: T,
}

fn init(_: ()) -> Gpt {
    let mut keys = Key::new(0).split(10).into_iter();
    let mut normal = |shape: &[i64]| keys.next().expect("a key for each array").normal(shape, F32) * 0.1;
    let mut block = |_| Block {
        qkv: normal(&[DIM, 3, HEADS, DIM / HEADS]),
        out: normal(&[HEADS, DIM / HEADS, DIM]),
        up: normal(&[DIM, 4 * DIM]),
        down: normal(&[4 * DIM, DIM]),
    };
    let blocks = (0..2).map(&mut block).collect();
    Gpt { embed: normal(&[LETTERS, DIM]), blocks, head: normal(&[DIM, LETTERS]) }
}

fn block(x: Tensor, p: &Block) -> Tensor {
    let qkv = einsum("btd,dchk->cbhtk", &[&x.layer_norm(1e-5), &p.qkv]);
    let [q, k, v] = [0, 1, 2].map(|i| qkv.slice(s![i]));
    let scores = einsum("bhtk,bhsk->bhts", &[&q, &k]) / ((DIM / HEADS) as f64).sqrt();
    let past = iota([LENGTH, LENGTH], I32, 0).ge(iota([LENGTH, LENGTH], I32, 1));
    let seen = select(past, scores, -1e9).softmax(-1).matmul(v);
    let x = x + einsum("bhtk,hkd->btd", &[&seen, &p.out]);
    let hidden = x.layer_norm(1e-5).matmul(&p.up).gelu();
    x + hidden.matmul(&p.down)
}

/// One step of gradient descent. Returns the loss before it.
fn train(p: Gpt, letters: Tensor, next: Tensor) -> (Tensor, Gpt) {
    let loss = |p: Gpt| {
        let x = p.blocks.iter().fold(p.embed.take(&letters, 0), block);
        let logp = x.layer_norm(1e-5).matmul(&p.head).log_softmax(-1);
        -(logp * next.one_hot(LETTERS, F32)).sum(&[-1]).mean_all()
    };
    let (value, g) = value_and_grad(loss, p.clone());
    (value, tree_map([&p, &g], |[p, g]| p - 0.1 * g))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mesh = Mesh::grid(("batch", 4), ("model", 2))?;
    // An accelerator of 10¹³ operations and 10¹² bytes of memory a second, with links of 1 µs and 100 GB/s.
    let machine: Machine = "* 1 100\ndevice=10,1000".parse()?;
    let start = jit(init).call(&())?;
    let letters = |ahead: i64| Array::from_fn([BATCH, LENGTH], |i| ((i[0] * 7 + (i[1] + ahead) * 5) % LETTERS) as i32);
    let (x, y) = (letters(0), letters(1));

    // Nothing is annotated: the planner decides.
    let planned = jit(train).on(&mesh).auto_with(&machine, |planner| planner.seconds(20.0));
    let found = planned.search((&start, &x, &y))?;
    println!("{}", found.text());

    // What one would write: attention by heads, the layers by columns and rows, the batch over the other axis.
    let weights = Rule::by_name([
        ("qkv", P![_, _, "model"]),
        ("out", P!["model"]),
        ("up", P![_, "model"]),
        ("down", P!["model"]),
        ("head", P![_, "model"]),
    ]);
    let rules = [weights, P!["batch"].into(), P!["batch"].into()];
    let by_hand = jit(train).on(&mesh).in_shardings(rules).machine(machine.clone());
    let expert = judge(by_hand.lower((&start, &x, &y))?.compiled()?, &machine);
    let own = found.best().verdict();
    println!("by hand {:.1} us a step, planned {:.1} us", expert.seconds * 1e6, own.seconds * 1e6);
    assert!(own.seconds <= expert.seconds);

    // Both run and learn the same.
    let a = losses(&start, |p| planned.call((p, &x, &y)))?;
    let b = losses(&start, |p| by_hand.call((p, &x, &y)))?;
    println!("losses {a:.3?}");
    assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-3), "{a:?} planned, {b:?} by hand");
    assert!(a[4] < a[0]);
    Ok(())
}

/// The losses of five steps.
fn losses(
    start: &Gpt<Array>,
    step: impl Fn(&Gpt<Array>) -> Result<(Array, Gpt<Array>), Error>,
) -> Result<Vec<f32>, Error> {
    let mut state = start.clone();
    let mut curve = vec![];
    for _ in 0..5 {
        let (value, next) = step(&state)?;
        curve.push(value.item::<f32>()?);
        state = next;
    }
    Ok(curve)
}
