//! Heat on a rod twice: automatically, and with the exchange of neighbors written out, as in MPI.
//!
//! Both send one element to each neighbor in each step. By hand it takes twenty lines instead of three, and the number
//! of points must be divisible by the number of devices.
use meshwork::prelude::*;

const POINTS: i64 = 104;

/// As for one device: the halos come from the placement.
fn automatic(u: Tensor) -> Tensor {
    let next = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
    u.at(s![1..-1]).set(next)
}

/// As one device of several sees it: `u` is its part of the rod.
fn by_hand(u: Tensor) -> Tensor {
    let devices = axis_size("x");
    let up: Vec<(i64, i64)> = (1..devices).map(|i| (i - 1, i)).collect();
    let down: Vec<(i64, i64)> = (1..devices).map(|i| (i, i - 1)).collect();
    // The last element of the left neighbor, and the first one of the right neighbor.
    let left = u.slice(s![-1..]).ppermute("x", &up);
    let right = u.slice(s![..1]).ppermute("x", &down);
    let wide = concatenate(&[left, u.clone(), right], 0);
    let next = 0.5 * &u + 0.25 * wide.slice(s![..-2]) + 0.25 * wide.slice(s![2..]);
    // The ends of the rod stay as they are.
    let at = axis_index("x") * u.dim(0) + iota([u.dim(0)], I32, 0);
    select(at.gt(0) & at.lt(POINTS - 1), &next, &u)
}

fn main() -> Result<(), Error> {
    let mesh = Mesh::linear("x", 4)?;
    let u = Array::from_fn([POINTS], |i| if i[0] == 30 { 1.0f32 } else { 0.0 }).shard(&mesh, P!["x"])?;

    let first = jit(|u: Tensor| for_loop(0..100, u, |_, u| automatic(u)));
    let second =
        jit(|u: Tensor| shard_map(["x"], [P!["x"]], [P!["x"]], u, |u: Tensor| for_loop(0..100, u, |_, u| by_hand(u))));
    let (a, b) = (first.call(&u)?, second.call(&u)?);
    println!("automatic: {:.4} at point 40", a.to_f64s()?[40]);
    println!("by hand:   {:.4} at point 40", b.to_f64s()?[40]);
    for (name, plan) in [("automatic", first.plan(&u)?), ("by hand", second.plan(&u)?)] {
        println!("{name} sends {} times", plan.totals()["collective-permute"].count);
    }
    let one = jit(|u: Tensor| for_loop(0..100, u, |_, u| automatic(u))).single_device().call(&u)?;
    assert!(a.all_close(&one, 1e-6) && b.all_close(&one, 1e-6));
    Ok(())
}
