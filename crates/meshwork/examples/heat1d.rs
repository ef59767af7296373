//! The heat equation on a rod of 102 points, over 4 devices.
//!
//! The program is written for one device. Where the rod is cut, each device needs one point of its neighbors: that
//! is found, planned and sent by Meshwork.

use meshwork::prelude::*;

const POINTS: i64 = 102;
const STEPS: i64 = 100;

/// Each inner point becomes a mean of itself and its neighbors; the ends stay.
fn step(u: Tensor) -> Tensor {
    let inner = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
    u.at(s![1..-1]).set(inner)
}

fn simulate(u: Tensor) -> Tensor {
    for_loop(0..STEPS, u, |_, u| step(u))
}

fn main() -> Result<(), Error> {
    let mesh = Mesh::linear("x", 4)?;
    let rod = Array::from_fn([POINTS], |i| if i[0] < 20 { 1.0f32 } else { 0.0 });
    let on_mesh = rod.clone().shard(&mesh, P!["x"])?;
    println!("points of each device:\n{}", on_mesh.picture());

    let heat = jit(simulate);
    println!("{}", heat.explain(&on_mesh)?);

    let split = heat.call(&on_mesh)?;
    let whole = jit(simulate).single_device().call(&rod)?;
    assert!(split.all_close(&whole, 1e-6));
    println!("after {STEPS} steps, point 20 has {:.4}: the same on 4 devices and on one", whole.to_vec::<f32>()?[20]);
    Ok(())
}
