//! Each element plus its right neighbor: the send and receive that one would write by hand, found in the program.

use meshwork::prelude::*;

fn main() -> Result<(), Error> {
    let mesh = Mesh::linear("x", 4)?;
    let x = Array::from_fn([16], |i| i[0] as f32).shard(&mesh, P!["x"])?;

    let neighbour_add = jit(|x: Tensor| x.slice(s![..-1]) + x.slice(s![1..]));
    println!("{}", neighbour_add.explain(&x)?);
    println!("what each device runs:\n{}", neighbour_add.lower(&x)?.device_text()?);

    let sums = neighbour_add.call(&x)?;
    let alone = jit(|x: Tensor| x.slice(s![..-1]) + x.slice(s![1..])).single_device().call(&x)?;
    println!("{sums}\n{alone} on one device");
    assert_eq!(sums.to_vec::<f32>()?, alone.to_vec::<f32>()?);
    assert_eq!(sums.to_vec::<f32>()?, (0..15).map(|i| (2 * i + 1) as f32).collect::<Vec<_>>());
    Ok(())
}
