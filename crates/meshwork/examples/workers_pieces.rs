//! One array from the pieces of several workers: each makes its part, and none holds all of it.

use meshwork::prelude::*;

const ROWS: i64 = 10;

/// What a worker would read from its own disk: the rows of `rows`, of two columns.
fn load(rows: std::ops::Range<i64>) -> Array {
    Array::from_fn([rows.end - rows.start, 2], |i| ((rows.start + i[0]) * 2 + i[1]) as f32)
}

fn main() -> Result<(), Error> {
    let mesh = Mesh::linear("workers", 4)?;
    // Who holds which rows follows from the placement: 10 rows over 4 workers are 3, 3, 3 and 1.
    let plan = Array::shape_only([ROWS, 2], F32).shard(&mesh, P!["workers"])?;
    println!("rows and columns of each worker:\n{}", plan.picture());
    let pieces: Vec<Array> = plan.shards().iter().map(|s| load(s.slice[0].clone())).collect();
    let data = Array::from_shards([ROWS, 2], &mesh, &P!["workers"], &pieces)?;

    // A program sees one array.
    let columns = jit(|x: Tensor| x.mean(&[0]));
    println!("{}", columns.explain(&data)?);
    let mean = columns.call(&data)?.to_vec::<f32>()?;
    let alone = jit(|x: Tensor| x.mean(&[0])).call(&load(0..ROWS))?.to_vec::<f32>()?;
    println!("means of the columns: {mean:?}, on one device {alone:?}");
    assert_eq!(mean, alone);
    Ok(())
}
