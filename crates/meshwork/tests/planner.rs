//! Plans that a search finds: no slower than an expert's, within memory, and the same results.

use meshwork::planner::{Planner, Verdict, judge};
use meshwork::prelude::*;
use meshwork::{Jit, Machine};

/// Plans that each search may compile.
const EVALUATIONS: usize = 400;

/// A device that computes at 10¹⁴ operations and reads 10¹² bytes a second, and links of 1 µs and 50 GB/s.
fn machine() -> Machine {
    "* 1 50\ndevice=100,1000".parse().expect("a machine")
}

fn shapes<const N: usize>(list: [&[i64]; N]) -> [Array; N] {
    list.map(|shape| Array::shape_only(shape, F32))
}

fn grid() -> Mesh {
    Mesh::grid(("data", 2), ("model", 4)).expect("a mesh")
}

/// What an expert's placement and the search's cost, for a function of three arguments.
macro_rules! compare {
    ($name:literal, $mesh:expr, $f:expr, $expert:expr, ($($arg:expr),+)) => {{
        let (mesh, machine) = ($mesh, machine());
        let by_hand = jit($f).on(&mesh).in_shardings($expert).machine(machine.clone());
        let expert: Verdict = judge(by_hand.lower(($($arg),+))?.compiled()?, &machine);
        let free = jit($f).on(&mesh).auto_with(&machine, |planner| planner.evaluations(EVALUATIONS));
        let found = free.search(($($arg),+))?;
        let own = found.best().verdict();
        println!("{}: expert {:?}, found {:?}, {} plans", $name, expert.seconds, own.seconds, found.evaluations());
        assert!(own.seconds <= expert.seconds * (1.0 + 1e-9), "{}: {}\n{}", $name, expert.seconds, found.text());
        assert!(found.bound() <= own.seconds * (1.0 + 1e-9), "{}: no plan is faster than the bound", $name);
        found
    }};
}

fn mlp(x: Tensor, up: Tensor, down: Tensor) -> Tensor {
    x.matmul(&up).gelu().matmul(&down)
}

/// One step of gradient descent.
fn mlp_step(x: Tensor, up: Tensor, down: Tensor) -> (Tensor, Tensor, Tensor) {
    let loss = |(up, down): (Tensor, Tensor)| mlp(x.clone(), up, down).square().mean_all();
    let (value, (g, h)) = value_and_grad(loss, (up.clone(), down.clone()));
    (value, up - 0.01 * g, down - 0.01 * h)
}

#[test]
fn an_mlp_trains_as_fast_as_by_hand() -> Result<(), Error> {
    let [x, up, down] = shapes([&[4096, 512], &[512, 2048], &[2048, 512]]);
    let expert = [P!["data"], P![_, "model"], P!["model"]];
    compare!("mlp step", grid(), mlp_step, expert, (&x, &up, &down));
    Ok(())
}

fn attention(x: Tensor, qkv: Tensor, out: Tensor) -> Tensor {
    let all = einsum("btd,dchk->cbhtk", &[&x, &qkv]);
    let [q, k, v] = [0, 1, 2].map(|i| all.slice(s![i]));
    let scores = einsum("bhtk,bhsk->bhts", &[&q, &k]) * 0.125;
    let seen = einsum("bhts,bhsk->bthk", &[&scores.softmax(-1), &v]);
    einsum("bthk,hkd->btd", &[&seen, &out])
}

#[test]
fn attention_is_as_fast_as_by_hand() -> Result<(), Error> {
    let [x, qkv, out] = shapes([&[16, 256, 512], &[512, 3, 8, 64], &[8, 64, 512]]);
    let expert = [P!["data"], P![_, _, "model"], P!["model"]];
    compare!("attention", grid(), attention, expert, (&x, &qkv, &out));
    Ok(())
}

fn gpt_loss(x: &Tensor, layers: &[(Tensor, Tensor, Tensor, Tensor)], head: &Tensor) -> Tensor {
    let block = |x: Tensor, (qkv, out, up, down): &(Tensor, Tensor, Tensor, Tensor)| {
        let x = &x + attention(x.layer_norm(1e-5), qkv.clone(), out.clone());
        let h = mlp(x.layer_norm(1e-5), up.clone(), down.clone());
        x + h
    };
    layers.iter().fold(x.clone(), block).matmul(head).log_softmax(-1).square().mean_all()
}

type Layers = Vec<(Tensor, Tensor, Tensor, Tensor)>;

fn gpt_step(x: Tensor, layers: Layers, head: Tensor) -> (Tensor, Layers, Tensor) {
    let (value, (g, h)) =
        value_and_grad(|(layers, head): (Layers, Tensor)| gpt_loss(&x, &layers, &head), (layers.clone(), head.clone()));
    let step = |p: &Tensor, g: &Tensor| p - 0.01 * g;
    let layers = layers
        .iter()
        .zip(&g)
        .map(|(p, g)| (step(&p.0, &g.0), step(&p.1, &g.1), step(&p.2, &g.2), step(&p.3, &g.3)))
        .collect();
    (value, layers, step(&head, &h))
}

#[test]
fn a_gpt_trains_as_fast_as_by_hand() -> Result<(), Error> {
    let layer = || {
        let [a, b, c, d] = shapes([&[256, 3, 8, 32], &[8, 32, 256], &[256, 1024], &[1024, 256]]);
        (a, b, c, d)
    };
    let [x, head] = shapes([&[16, 64, 256], &[256, 512]]);
    let layers = vec![layer(), layer()];
    let weights = Rule::policy(|path, _| {
        Some(match path.rsplit('/').next() {
            Some("0") => P![_, _, "model"],
            Some("2") => P![_, "model"],
            _ => P!["model"],
        })
    });
    let expert = [P!["data"].into(), weights, P![_, "model"].into()];
    compare!("gpt step", grid(), gpt_step, expert, (&x, &layers, &head));
    Ok(())
}

fn experts(x: Tensor, up: Tensor, down: Tensor) -> Tensor {
    // Tokens are sorted by expert already: expert, place, features.
    let h = einsum("ecd,edf->ecf", &[&x, &up]).gelu();
    einsum("ecf,efd->ecd", &[&h, &down])
}

#[test]
fn experts_are_as_fast_as_by_hand() -> Result<(), Error> {
    let [x, up, down] = shapes([&[16, 256, 128], &[16, 128, 512], &[16, 512, 128]]);
    let expert = [P![["data", "model"]], P![["data", "model"]], P![["data", "model"]]];
    compare!("experts", grid(), experts, expert, (&x, &up, &down));
    Ok(())
}

fn convolutions(x: Tensor, a: Tensor, b: Tensor) -> Tensor {
    let same = Conv { padding: Padding::Same, ..Conv::default() };
    x.conv(&a, &same).relu().conv(&b, &same)
}

#[test]
fn convolutions_are_as_fast_as_by_hand() -> Result<(), Error> {
    let [x, a, b] = shapes([&[16, 32, 32, 16], &[3, 3, 16, 64], &[3, 3, 64, 16]]);
    let expert = [P![["data", "model"]], P![], P![]];
    compare!("convolutions", grid(), convolutions, expert, (&x, &a, &b));
    // One large image: its rows.
    let [x, a, b] = shapes([&[1, 256, 256, 8], &[3, 3, 8, 16], &[3, 3, 16, 8]]);
    let expert = [P![_, ["data", "model"]], P![], P![]];
    compare!("one image", grid(), convolutions, expert, (&x, &a, &b));
    Ok(())
}

fn u_net(x: Tensor, down: Tensor, up: Tensor) -> Tensor {
    let same = Conv { padding: Padding::Same, ..Conv::default() };
    let small = x.conv(&down, &same).relu().max_pool(&[1, 2, 2, 1], &[1, 2, 2, 1], Padding::Valid);
    let large = small.repeat(2, 1).repeat(2, 2);
    concatenate(&[x.clone(), large], -1).conv(&up, &same)
}

#[test]
fn a_u_net_block_is_as_fast_as_by_hand() -> Result<(), Error> {
    let [x, down, up] = shapes([&[8, 32, 32, 16], &[3, 3, 16, 32], &[3, 3, 48, 16]]);
    let expert = [P![["data", "model"]], P![], P![]];
    compare!("u-net block", grid(), u_net, expert, (&x, &down, &up));
    Ok(())
}

fn heat(u: Tensor) -> Tensor {
    for_loop(0..10, u, |_, u| 0.5 * &u + 0.25 * u.roll(1, 0) + 0.25 * u.roll(-1, 0))
}

fn heat_2d(u: Tensor) -> Tensor {
    let around = |u: &Tensor| u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1);
    for_loop(0..10, u, |_, u| 0.5 * &u + 0.125 * around(&u))
}

#[test]
fn stencils_are_as_fast_as_by_hand() -> Result<(), Error> {
    let [line] = shapes([&[1 << 22]]);
    compare!("1-D stencil", Mesh::linear("x", 8)?, heat, [P!["x"]], (&line));
    let [plane] = shapes([&[2048, 2048]]);
    let found = compare!("2-D stencil", grid(), heat_2d, [P!["data", "model"]], (&plane));
    assert!(found.best().verdict().sent > 0.0, "both axes work");
    Ok(())
}

fn spectrum(x: Tensor) -> Tensor {
    x.fft(1).abs()
}

#[test]
fn a_transform_is_as_fast_as_by_hand() -> Result<(), Error> {
    let x = Array::shape_only([4096, 1024], meshwork::ElementType::C64);
    let found = compare!("fft", Mesh::linear("x", 8)?, spectrum, [P!["x"]], (&x));
    assert_eq!(found.best().verdict().sent, 0.0);
    Ok(())
}

fn medians(x: Tensor) -> Tensor {
    let sorted = x.sort(-1);
    sorted.slice(s![.., 512]) - sorted.slice(s![.., 100])
}

#[test]
fn sorting_is_as_fast_as_by_hand() -> Result<(), Error> {
    let [x] = shapes([&[4096, 1024]]);
    let found = compare!("sort", Mesh::linear("x", 8)?, medians, [P!["x"]], (&x));
    assert_eq!(found.best().verdict().sent, 0.0);
    Ok(())
}

fn bags(table: Tensor, words: Tensor, head: Tensor) -> Tensor {
    table.take(&words, 0).sum(&[1]).matmul(&head)
}

#[test]
fn embeddings_are_as_fast_as_by_hand() -> Result<(), Error> {
    let [table, head] = shapes([&[65536, 64], &[64, 64]]);
    let words = Array::shape_only([512, 16], I32);
    let expert = [P!["model"], P!["data"], P![]];
    compare!("embeddings", grid(), bags, expert, (&table, &words, &head));
    Ok(())
}

fn lstm(xs: Tensor, w: Tensor, r: Tensor) -> Tensor {
    let (batch, hidden) = (xs.dim(1), r.dim(0));
    let start = (zeros([batch, hidden], F32), zeros([batch, hidden], F32));
    let (_, outputs) = scan(start, xs, |(h, c), x| {
        let gates = x.matmul(&w) + h.matmul(&r);
        let part = |i: i64| gates.slice(s![.., i * hidden..(i + 1) * hidden]);
        let c = part(0).sigmoid() * c + part(1).sigmoid() * part(2).tanh();
        let h = part(3).sigmoid() * c.tanh();
        ((h.clone(), c), h)
    });
    outputs
}

#[test]
fn an_lstm_is_as_fast_as_by_hand() -> Result<(), Error> {
    let [xs, w, r] = shapes([&[32, 256, 128], &[128, 1024], &[256, 1024]]);
    let expert = [P![_, ["data", "model"]], P![], P![]];
    compare!("lstm", grid(), lstm, expert, (&xs, &w, &r));
    Ok(())
}

/// What Megatron and FSDP do is found from nothing, by moves alone.
#[test]
fn columns_rows_and_split_state_are_found_without_recipes() -> Result<(), Error> {
    let [x, up, down] = shapes([&[64, 1024], &[1024, 8192], &[8192, 1024]]);
    let mesh = Mesh::linear("model", 8)?;
    let free = jit(mlp).on(&mesh).auto_with(&machine(), |p: Planner<'_>| p.without_recipes().exhaustive_up_to(0));
    let plan = free.plan((&x, &up, &down))?;
    let dims = |i: usize| plan.arguments[i].sharding.dims.iter().map(|d| d.axes.len()).collect::<Vec<_>>();
    assert_eq!((dims(1), dims(2)), (vec![0, 1], vec![1, 0]), "columns, then rows");

    // A batch so large that activations have to follow it; state has to be split to fit.
    let [x, up, down] = shapes([&[8192, 256], &[256, 1024], &[1024, 256]]);
    let mesh = Mesh::linear("data", 8)?;
    let whole_state = jit(mlp_step).on(&mesh).in_shardings([P!["data"], P![], P![]]).machine(machine());
    let limit = whole_state.plan((&x, &up, &down))?.peak.bytes - (1 << 20);
    let lean = jit(mlp_step)
        .on(&mesh)
        .auto_with(&machine(), move |p| p.without_recipes().exhaustive_up_to(0).memory(limit).evaluations(EVALUATIONS));
    let plan = lean.plan((&x, &up, &down))?;
    assert!(plan.peak.bytes <= limit);
    let split = |i: usize| plan.arguments[i].sharding.dim_axes().next().is_some();
    assert!(split(0) && (split(1) || split(2)), "{:?}", plan.arguments);
    Ok(())
}

/// A program that is planned gives the same results as on one device.
#[test]
fn planned_programs_compute_the_same() -> Result<(), Error> {
    let wave = |shape: &[i64]| Array::from_fn(shape, |i| (i.iter().fold(1, |s, i| 3 * s + i) as f32).sin());
    let (x, up, down) = (wave(&[64, 32]), wave(&[32, 128]), wave(&[128, 32]));
    let auto = |f: Jit<_, _>| f.on(&grid()).auto_with(&machine(), |p| p.evaluations(100));
    let planned = auto(jit(mlp_step)).call((&x, &up, &down))?;
    let alone = jit(mlp_step).single_device().call((&x, &up, &down))?;
    assert!(planned.1.all_close(&alone.1, 1e-4) && planned.2.all_close(&alone.2, 1e-4));
    Ok(())
}

#[test]
fn auto_needs_a_mesh() {
    let x = Array::zeros([4], F32);
    let error = jit(|x: Tensor| x * 2.0).auto(&machine()).call(&x).unwrap_err().to_string();
    assert!(error.starts_with("jit: auto needs a mesh"), "{error}");
}
