//! A GPT learns the letters of a short text, on one device and on 8 (4-way batch, 2-way model) with the same curve.
//!
//! `cargo run --release --example gpt` takes 25 steps, down to a loss of 2.5; `… -- 200` takes 200, down to 2.1.
//! `… -- 25 gpt.html` also writes a page that shows the step: what it sends, why, its memory and its time.

use meshwork::prelude::*;

const TEXT: &str = include_str!("gpt.txt");
const BATCH: i64 = 8;
const LENGTH: i64 = 16;
const DIM: i64 = 16;
const HEADS: i64 = 2;
const LAYERS: i64 = 2;

#[derive(Clone, Tree)]
struct Block<T = Tensor> {
    wq: T,
    wk: T,
    wv: T,
    wo: T,
    up: T,
    down: T,
}

#[derive(Clone, Tree)]
struct Gpt<T = Tensor> {
    embed: T,
    position: T,
    blocks: Vec<Block<T>>,
    head: T,
}

/// The parameters, the running means of their gradients and of the squares of these, and the number of steps.
type State = (Gpt, Gpt, Gpt, Tensor);

fn init(letters: i64) -> State {
    let mut keys = Key::new(0).split(3 + 6 * LAYERS as usize).into_iter();
    let mut normal = |shape: &[i64]| keys.next().expect("a key for each array").normal(shape, F32) * 0.1;
    let mut block = |_| Block {
        wq: normal(&[DIM, HEADS, DIM / HEADS]),
        wk: normal(&[DIM, HEADS, DIM / HEADS]),
        wv: normal(&[DIM, HEADS, DIM / HEADS]),
        wo: normal(&[HEADS, DIM / HEADS, DIM]),
        up: normal(&[DIM, 4 * DIM]),
        down: normal(&[4 * DIM, DIM]),
    };
    let blocks: Vec<Block> = (0..LAYERS).map(&mut block).collect();
    let p =
        Gpt { embed: normal(&[letters, DIM]), position: normal(&[LENGTH, DIM]), blocks, head: normal(&[DIM, letters]) };
    let none = tree_map([&p], |[x]| x.zeros_like());
    (p, none.clone(), none, zeros((), F32))
}

fn block(p: &Block, x: &Tensor) -> Tensor {
    let h = x.layer_norm(1e-5);
    let [q, k, v] = [&p.wq, &p.wk, &p.wv].map(|w| einsum("btd,dhk->bhtk", &[&h, w]));
    let scores = einsum("bhtk,bhsk->bhts", &[&q, &k]) / ((DIM / HEADS) as f64).sqrt();
    let past = iota([LENGTH, LENGTH], I32, 0).ge(iota([LENGTH, LENGTH], I32, 1));
    let seen = select(past, scores, -1e9).softmax(-1).matmul(v);
    let x = x + einsum("bhtk,hkd->btd", &[&seen, &p.wo]);
    &x + x.layer_norm(1e-5).matmul(&p.up).gelu().matmul(&p.down)
}

/// How surprised the model is by each next letter: the mean of -log of the probability it gave.
fn loss(p: &Gpt, letters: &Tensor, next: &Tensor) -> Tensor {
    let x = p.embed.take(letters, 0) + &p.position;
    let x = p.blocks.iter().fold(x, |x, p| block(p, &x));
    let logp = x.layer_norm(1e-5).matmul(&p.head).log_softmax(-1);
    -(logp * next.one_hot(p.head.dim(-1), F32)).sum(&[-1]).mean_all()
}

/// One step of Adam. Returns the loss before it.
fn train((p, m, v, count): State, letters: Tensor, next: Tensor) -> (Tensor, State) {
    let (value, g) = value_and_grad(|p: Gpt| loss(&p, &letters, &next), p.clone());
    let count = count + 1.0;
    let m = tree_map([&m, &g], |[m, g]| 0.9 * m + 0.1 * g);
    let v = tree_map([&v, &g], |[v, g]| 0.99 * v + 0.01 * g.square());
    let fix = |rate: f64| 1.0 - (&count * rate.ln()).exp();
    let (fix_m, fix_v) = (fix(0.9), fix(0.99));
    let p = tree_map([&p, &m, &v], |[p, m, v]| p - 0.01 * (m / &fix_m) / ((v / &fix_v).sqrt() + 1e-8));
    (value, (p, m, v, count))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let steps: u64 = std::env::args().nth(1).map_or(Ok(25), |n| n.parse())?;
    let mut letters: Vec<char> = TEXT.chars().collect();
    letters.sort_unstable();
    letters.dedup();
    let number = |c: char| letters.iter().position(|&l| l == c).map_or(0, |i| i as i32);
    let text: Vec<i32> = TEXT.chars().map(number).collect();
    // Windows of the text from all over it; `ahead` is 1 for the letters that follow.
    let batch = |step: u64, ahead: usize| {
        let start = |row: i64| (step as usize * 7919 + row as usize * 2749) % (text.len() - LENGTH as usize - 1);
        Array::from_fn([BATCH, LENGTH], |i| text[start(i[0]) + i[1] as usize + ahead])
    };

    let mesh = Mesh::grid(("batch", 4), ("model", 2))?;
    let by_head = || P![_, "model"];
    let weights = Rule::by_name([
        ("wq", by_head()),
        ("wk", by_head()),
        ("wv", by_head()),
        ("wo", P!["model"]),
        ("up", P![_, "model"]),
        ("down", P!["model"]),
        ("head", P![_, "model"]),
    ]);
    let split = jit(train).on(&mesh).in_shardings([weights, P!["batch"].into(), P!["batch"].into()]);
    let whole = jit(train).single_device();

    let mut on_mesh = jit(move |_: ()| init(letters.len() as i64)).call(&())?;
    let mut alone = on_mesh.clone();
    println!("{} letters of {} kinds", text.len(), on_mesh.0.head.shape()[1]);
    if let Some(page) = std::env::args().nth(2) {
        // The program, its plan, and a run of one step.
        split.profile((&on_mesh, &batch(0, 0), &batch(0, 1)))?.page()?.write(page)?;
    }
    let mut curve = vec![];
    for step in 0..steps {
        let (x, y) = (batch(step, 0), batch(step, 1));
        let (a, b);
        (a, on_mesh) = split.call((&on_mesh, &x, &y))?;
        (b, alone) = whole.call((&alone, &x, &y))?;
        let (a, b) = (a.item::<f32>()?, b.item::<f32>()?);
        assert!((a - b).abs() < 1e-3, "step {step}: a loss of {a} on 8 devices, {b} on one");
        curve.push(a);
        if step % (steps / 5).max(1) == 0 {
            println!("step {step:4}  loss {a:.3}");
        }
    }
    // Guessing blindly costs the logarithm of the number of letters, 3.4.
    let late = &curve[curve.len() - curve.len().min(5)..];
    let mean = late.iter().sum::<f32>() / late.len() as f32;
    println!("mean of the last {}: {mean:.3}, the same on 8 devices as on one", late.len());
    assert!(steps < 25 || mean < if steps < 200 { 2.6 } else { 2.1 });
    Ok(())
}
