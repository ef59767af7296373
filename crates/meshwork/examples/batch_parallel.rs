//! A two-layer network on 8 devices, the batch over all of them: weights are copied, and nothing is sent.

use meshwork::prelude::*;

#[derive(Clone, Debug, Tree)]
struct Params<T = Tensor> {
    w1: T,
    b1: T,
    w2: T,
}

fn forward(p: Params, x: Tensor) -> Tensor {
    (x.matmul(&p.w1) + &p.b1).relu().matmul(&p.w2)
}

fn main() -> Result<(), Error> {
    let wave = |scale: f32| move |i: &[i64]| ((i.iter().fold(1, |s, n| 31 * s + n)) as f32 * scale).sin();
    let params = Params {
        w1: Array::from_fn([32, 64], wave(0.3)),
        b1: Array::from_fn([64], wave(0.5)),
        w2: Array::from_fn([64, 16], wave(0.7)),
    };
    let x = Array::from_fn([128, 32], wave(0.1));
    let alone = jit(forward).call((&params, &x))?;

    let mesh = Mesh::linear("batch", 8)?;
    let batch = jit(forward).on(&mesh).in_shardings([P![], P!["batch"]]);
    println!("{}", batch.explain((&params, &x))?);
    let out = batch.call((&params, &x))?;
    assert!(batch.plan((&params, &x))?.totals().is_empty());
    println!("{:.4} on 8 devices, {:.4} on one", out.to_vec::<f32>()?[0], alone.to_vec::<f32>()?[0]);
    assert!(out.all_close(&alone, 1e-4));
    Ok(())
}
