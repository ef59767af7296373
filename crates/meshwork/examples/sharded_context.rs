//! The programs of a two-layer network with typed inputs, forward and backward, as MLIR with `sdy` annotations; and
//! what the gradient of each weight needs. `forward` or `backward` as an argument prints only that program.

use meshwork::prelude::*;
use meshwork::train::{Inputs, Role, ShardedContext};

fn network(i: &Inputs) -> Tensor {
    i["x"].matmul(&i["w1"]).relu().matmul(&i["w2"])
}

fn main() -> Result<(), Error> {
    let mut context = ShardedContext::new(&Mesh::grid(("data", 2), ("model", 4))?);
    context.input("x", [32, 64], F32, P::data_parallel("data"), Role::Activation)?;
    context.input("w1", [64, 128], F32, P::column_parallel("model"), Role::Weight)?;
    context.input("w2", [128, 64], F32, P::row_parallel("model"), Role::Weight)?;
    let forward = context.build_sharded_module(network)?;
    let backward = context.build_sharded_gradient(|i| network(i).square().mean_all())?;
    match std::env::args().nth(1).as_deref() {
        Some("forward") => println!("{forward}"),
        Some("backward") => println!("{backward}"),
        _ => {
            for weight in ["w1", "w2"] {
                println!("gradient of {weight}: {}", context.gradient_sync_pattern(weight)?);
            }
            println!("{} lines forward, {} backward", forward.lines().count(), backward.lines().count());
        }
    }
    Ok(())
}
