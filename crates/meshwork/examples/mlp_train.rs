//! A small network learns a function of two numbers by gradient descent, the batch over 4 devices. The gradient is
//! that of the whole batch: the curve is the same on one device.

use meshwork::prelude::*;

#[derive(Clone, Debug, Tree)]
struct Params<T = Tensor> {
    w1: T,
    b1: T,
    w2: T,
    b2: T,
}

fn loss(p: &Params, x: &Tensor, y: &Tensor) -> Tensor {
    let hidden = (x.matmul(&p.w1) + &p.b1).tanh();
    (hidden.matmul(&p.w2) + &p.b2 - y).square().mean_all()
}

/// One step of descent. Returns the loss before it.
fn train(p: Params, x: Tensor, y: Tensor) -> (Tensor, Params) {
    let (value, slope) = value_and_grad(|p: Params| loss(&p, &x, &y), p.clone());
    let step = |p: Tensor, slope: Tensor| p - 0.2 * slope;
    let next = Params {
        w1: step(p.w1, slope.w1),
        b1: step(p.b1, slope.b1),
        w2: step(p.w2, slope.w2),
        b2: step(p.b2, slope.b2),
    };
    (value, next)
}

fn main() -> Result<(), Error> {
    let init = jit(|_: ()| {
        let keys = Key::new(0).split(2);
        Params {
            w1: keys[0].normal([2, 16], F32),
            b1: zeros([16], F32),
            w2: keys[1].normal([16, 1], F32) * 0.25,
            b2: zeros([1], F32),
        }
    });
    let x = Array::from_fn([64, 2], |i| ((i[0] * 2 + i[1]) as f32 * 0.7).sin());
    let y = Array::from_fn([64, 1], |i| ((i[0] * 2) as f32 * 0.7).sin() * ((i[0] * 2 + 1) as f32 * 0.7).sin());

    let mesh = Mesh::linear("batch", 4)?;
    let split = jit(train).on(&mesh).in_shardings([P![], P!["batch"], P!["batch"]]);
    let whole = jit(train).single_device();
    let (mut p, mut q) = (init.call(&())?, init.call(&())?);
    println!("{}", split.explain((&p, &x, &y))?);
    let mut last = f32::NAN;
    for step in 0..=60 {
        let (value, next) = split.call((&p, &x, &y))?;
        let (alone, next_alone) = whole.call((&q, &x, &y))?;
        let alone = alone.item::<f32>()?;
        (p, q, last) = (next, next_alone, value.item::<f32>()?);
        assert!((last - alone).abs() < 1e-5);
        if step % 20 == 0 {
            println!("step {step:3}  loss {last:.5} on 4 devices, {alone:.5} on one");
        }
    }
    assert!(last < 0.1);
    Ok(())
}
