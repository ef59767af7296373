//! Timings of Meshwork's own parts, one subcommand each.
//!
//! ```text
//! cargo run --release -p meshwork-bench -- text
//! ```
#![deny(unsafe_code)]

mod calls;
mod compile;
mod gemm;
mod kernels;
mod planned;
mod predict;
mod processes;
mod published;
mod serve;
mod text;
mod timing;
mod trace;

use std::process::ExitCode;

const HELP: &str = "usage: meshwork-bench NAME

  text                 parse, print, build and verify large modules
  gemm [SHAPE ...]     matrix products, one thread, e.g. 512x512x512; B^T as 512x512x512:t (needs feature compare
                       for the other library's figures)
  conv                 convolutions, one thread
  kernels [NAME]       fused kernels on one thread
  calls                calls of a tiny compiled program, on 1 and 2 devices
  compile FILE ...     the stages of compiling FILE, as JSON: [--repeat N] [--mesh AXIS=SIZE,...]
  planned FILE         a program as annotated and as planned, in turn: [--machine FILE] [--search SECONDS] [--rounds N]
  predict MACHINE      predicted and measured times of 42 programs on 1 to 8 devices: [--time MS] [--only NAME] [--detail]
  published            predicted step times compared with published tables: [--vtrain FOLDER] [--rows]
  processes NAME       collectives compared with raw MPI calls, heat1d, heat2d; under mpirun (needs feature mpi)
  serve                programs for bench/engine/run.py, by commands on standard input
  trace PROGRAM LAYERS from a Rust function to text, as JSON: [--repeat N] [--text]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("calls") => calls::run(),
        Some("text") => text::run(),
        Some("conv") => gemm::convolutions(),
        Some("gemm") => gemm::run(&args[1..]),
        Some("compile") => compile::run(&args[1..]),
        Some("kernels") => kernels::run(&args[1..]),
        Some("planned") => planned::run(&args[1..]),
        Some("predict") => predict::run(&args[1..]),
        Some("processes") => processes::run(&args[1..]),
        Some("published") => published::run(&args[1..]),
        Some("serve") => serve::run(),
        Some("trace") => trace::run(&args[1..]),
        Some("--help" | "-h") => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{HELP}");
            ExitCode::FAILURE
        }
    }
}
