//! The first program of every MPI course: two arrays are added by several processes. First by hand, as with MPI:
//! scatter, add, gather; then with the arrays split over a mesh, and no word about communication.
//!
//! ```text
//! cargo run --example mpi_add                                            one process
//! cargo build --features mpi --example mpi_add
//! mpirun -n 4 target/debug/examples/mpi_add                              four
//! ```

use meshwork::prelude::*;

/// It need not divide by the number of processes.
const N: i64 = 103;

fn main() -> Result<(), Error> {
    let runtime = Runtime::init()?;
    let sum = by_hand(&runtime)?;
    let total = by_mesh(&runtime)?;
    if let Some(sum) = sum {
        let sum = sum.to_vec::<f64>()?;
        println!("{} processes: c[0] = {}, c[{}] = {}", runtime.size(), sum[0], N - 1, sum[N as usize - 1]);
        assert!((0..N).all(|i| sum[i as usize] == 3.0 * i as f64));
        assert_eq!(sum.iter().sum::<f64>(), total);
    }
    Ok(())
}

/// Rank 0 has `a` and `b`, every rank adds its share, and rank 0 gets the sum.
fn by_hand(runtime: &Runtime) -> Result<Option<Array>, Error> {
    let is_root = runtime.rank() == 0;
    let a = is_root.then(|| Array::from_fn([N], |i| i[0] as f64));
    let b = is_root.then(|| Array::from_fn([N], |i| 2.0 * i[0] as f64));
    let (a, b) = (runtime.scatter_array(0, a.as_ref())?, runtime.scatter_array(0, b.as_ref())?);
    let c: Vec<f64> = a.to_vec::<f64>()?.iter().zip(b.to_vec::<f64>()?).map(|(a, b)| a + b).collect();
    runtime.gather_array(0, &Array::from(c))
}

/// The arrays are split over all devices of all processes; each adds its part. Every process gets the
/// sum of all elements.
fn by_mesh(runtime: &Runtime) -> Result<f64, Error> {
    let mesh = Mesh::linear("x", runtime.devices() as i64)?;
    let a = Array::from_fn([N], |i| i[0] as f64).shard(&mesh, P!["x"])?;
    let b = Array::from_fn([N], |i| 2.0 * i[0] as f64).shard(&mesh, P!["x"])?;
    let add = jit(|(a, b): (Tensor, Tensor)| (a + b).sum(&[0]));
    Ok(add.call(&(a, b))?.item::<f64>()?)
}
