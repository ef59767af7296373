//! A two-layer network on 4 x 2 devices: the batch in four, and both matrices in two. The first is split by columns, the
//! second by rows, so that one sum of partial results at the end is all that is sent.

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

    let mesh = Mesh::grid(("batch", 4), ("model", 2))?;
    let weights =
        Rule::by_name([("w1", P::column_parallel("model")), ("b1", P!["model"]), ("w2", P::row_parallel("model"))]);
    let both = jit(forward).on(&mesh).in_shardings([weights, P!["batch"].into()]);
    println!("{}", both.explain((&params, &x))?);
    let out = both.call((&params, &x))?;
    assert_eq!(both.plan((&params, &x))?.totals()["all-reduce"].count, 1);
    println!("{:.4} on 8 devices, {:.4} on one", out.to_vec::<f32>()?[0], alone.to_vec::<f32>()?[0]);
    assert!(out.all_close(&alone, 1e-4));
    Ok(())
}
