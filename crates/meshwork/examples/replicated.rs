//! Replicated data: every device holds a copy of a small table, and a copy is never counted twice.

use meshwork::prelude::*;

/// Each measurement corrected by the table entry of its sensor; their sum, and the norm of the table.
fn corrected(measured: Tensor, sensor: Tensor, table: Tensor) -> (Tensor, Tensor) {
    let sum = (measured - table.take(&sensor, 0)).sum_all();
    (sum, table.square().sum_all().sqrt())
}

fn main() -> Result<(), Error> {
    let mesh = Mesh::linear("x", 8)?;
    let measured = Array::from_fn([1000], |i| (i[0] as f32 * 0.1).sin());
    let sensor = Array::from_fn([1000], |i| (i[0] % 16) as i32);
    let table = Array::from_fn([16], |i| i[0] as f32 * 0.01);
    println!("the table, on every device:\n{}", table.clone().shard(&mesh, P![])?.picture());

    let split = jit(corrected).on(&mesh).in_shardings([P!["x"], P!["x"], P![]]);
    println!("{}", split.explain((&measured, &sensor, &table))?);
    let (sum, norm) = split.call((&measured, &sensor, &table))?;
    let (sum_alone, norm_alone) = jit(corrected).call((&measured, &sensor, &table))?;
    println!("sum {sum} on 8 devices, {sum_alone} on one; norm {norm} and {norm_alone}");
    assert!(sum.all_close(&sum_alone, 1e-3) && norm.all_close(&norm_alone, 1e-6));
    Ok(())
}
