//! The sine of every element of an array that is too large for one device: no communication at all.

use meshwork::prelude::*;

fn main() -> Result<(), Error> {
    let mesh = Mesh::linear("x", 8)?;
    let data = Array::from_fn([100], |i| (i[0] + 1) as f32).shard(&mesh, P!["x"])?;
    println!("elements of each device:\n{}", data.picture());

    let big_sin = jit(|x: Tensor| x.sin());
    println!("{}", big_sin.explain(&data)?);
    let out = big_sin.call(&data)?;
    assert_eq!(out.shards(), data.shards());
    let alone = jit(|x: Tensor| x.sin()).single_device().call(&data)?;
    println!("sin(100) = {:.4}, on one device {:.4}", out.to_vec::<f32>()?[99], alone.to_vec::<f32>()?[99]);
    assert_eq!(out.to_vec::<f32>()?, alone.to_vec::<f32>()?);

    // The same program for an array that does not exist: what would 8 TB need?
    let huge = Array::shape_only([2_000_000_000_000i64], F32).shard(&mesh, P!["x"])?;
    println!("{}", big_sin.explain(&huge)?);
    Ok(())
}
