//! Tokens are sent to the two most probable of eight experts, two of which live on each of four devices, by an
//! all-to-all; and back by another.

use meshwork::experts::{Routing, mixture};
use meshwork::prelude::*;

fn layer(x: Tensor, router: Tensor, (up, down): (Tensor, Tensor)) -> (Tensor, Tensor) {
    let mixed =
        mixture(&Routing::new("expert"), &x, &router, &(up, down), |(up, down), x| x.matmul(&up).gelu().matmul(&down));
    (mixed.output, mixed.dropped)
}

fn main() -> Result<(), Error> {
    let wave = |shape: &[i64], n: i64| Array::from_fn(shape, |i| (i.iter().fold(n, |s, i| 3 * s + i) as f32).sin());
    let (x, router) = (wave(&[4, 16, 8], 1), wave(&[8, 8], 2));
    let experts = (wave(&[8, 8, 16], 3), wave(&[8, 16, 8], 4));
    let mesh = Mesh::linear("expert", 4)?;
    let split = jit(layer).on(&mesh).in_shardings([P!["expert"], P![], P!["expert"]]);
    let split = split.out_shardings([P!["expert"], P![]]);
    println!("{}", split.explain((&x, &router, &experts))?);
    let (output, dropped) = split.call((&x, &router, &experts))?;
    let (alone, _) = jit(layer).single_device().call((&x, &router, &experts))?;
    assert!(output.all_close(&alone, 1e-4));
    println!("{:.1} % of the choices found no place", 100.0 * dropped.item::<f32>()?);
    Ok(())
}
