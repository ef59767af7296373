//! The heat equation on a plate, over a grid of 2 x 2 devices.

use meshwork::prelude::*;

const STEPS: i64 = 20;

/// The mean of each inner point and its four neighbors; the border stays.
fn step(u: Tensor) -> Tensor {
    let sides = u.slice(s![..-2, 1..-1]) + u.slice(s![2.., 1..-1]) + u.slice(s![1..-1, ..-2]) + u.slice(s![1..-1, 2..]);
    let inner = 0.5 * u.slice(s![1..-1, 1..-1]) + 0.125 * sides;
    u.at(s![1..-1, 1..-1]).set(inner)
}

fn main() -> Result<(), Error> {
    let mesh = Mesh::grid(("x", 2), ("y", 2))?;
    let plate = Array::from_fn([34, 50], |i| if i[0] == 0 { 1.0f32 } else { 0.0 });
    let on_mesh = plate.clone().shard(&mesh, P!["x", "y"])?;
    println!("rows and columns of each device:\n{}", on_mesh.picture());

    let heat = jit(|u: Tensor| for_loop(0..STEPS, u, |_, u| step(u)));
    println!("{}", heat.explain(&on_mesh)?);

    let split = heat.call(&on_mesh)?;
    let whole = jit(|u: Tensor| for_loop(0..STEPS, u, |_, u| step(u))).call(&plate)?;
    let (split, whole) = (split.to_vec::<f32>()?, whole.to_vec::<f32>()?);
    println!(
        "after {STEPS} steps, row 3 has {:.4} on 4 devices and {:.4} on one",
        split[3 * 50 + 25],
        whole[3 * 50 + 25]
    );
    assert_eq!(split, whole);
    Ok(())
}
