//! A two-layer network on 8 devices, twice: the batch over all of them, then 4-way batch and 2-way model parallelism.

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

    // Weights copied, rows of the batch split: nothing to send.
    let mesh = Mesh::linear("batch", 8)?;
    let batch = jit(forward).on(&mesh).in_shardings([P![], P!["batch"]]);
    println!("8-way batch parallelism\n{}", batch.explain((&params, &x))?);
    assert!(batch.call((&params, &x))?.all_close(&alone, 1e-4));

    // The first matrix by columns, the second by rows: one sum of partial results at the end.
    let mesh = Mesh::grid(("batch", 4), ("model", 2))?;
    let weights =
        Rule::by_name([("w1", P::column_parallel("model")), ("b1", P!["model"]), ("w2", P::row_parallel("model"))]);
    let both = jit(forward).on(&mesh).in_shardings([weights, P!["batch"].into()]);
    println!("4-way batch and 2-way model parallelism\n{}", both.explain((&params, &x))?);
    assert!(both.call((&params, &x))?.all_close(&alone, 1e-4));
    Ok(())
}
