//! What a call of a compiled program takes beside its work: of one operation on a few numbers, on one device and on two.

use std::process::ExitCode;

use meshwork::prelude::*;

use crate::timing::{Times, wall};

/// Rounds, and calls in each.
const ROUNDS: usize = 21;
const CALLS: u32 = 2000;

/// Prints medians in microseconds.
pub fn run() -> ExitCode {
    match rows() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn rows() -> Result<(), Error> {
    let mesh = Mesh::linear("x", 2)?;
    let x = Array::from_fn([16], |i| i[0] as f32);
    let split = x.clone().shard(&mesh, P!["x"])?;
    let one = jit(|x: Tensor| x + 1.0);
    let two = jit(|x: Tensor| x + 1.0).on(&mesh).in_shardings([P!["x"]]);
    row("1 device", || one.call(&x))?;
    row("2 devices, placed", || two.call(&split))?;
    row("2 devices, to be placed", || two.call(&x))
}

/// The first call traces and compiles.
fn row(name: &str, call: impl Fn() -> Result<Array, Error>) -> Result<(), Error> {
    call()?;
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        let (done, time) = wall(|| (0..CALLS).try_for_each(|_| call().map(drop)));
        done?;
        times.add(time / CALLS);
    }
    println!("{name:26} {:6.2} us a call", times.median() * 1e3);
    Ok(())
}
