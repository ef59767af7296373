//! Predicted times of programs compared with measured ones on the CPU engine of this computer.
//!
//! ```text
//! meshwork calibrate --out here.machine && meshwork-bench predict here.machine
//! ```

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use meshwork::prelude::*;
use meshwork_cpu::CpuEngine;
use meshwork_partition::plan::{Errors, Machine, human_seconds, simulate};
use meshwork_partition::{CompileOptions, Compiled, compile};
use meshwork_runtime::Engine;

use crate::timing::{on_processor, wall};

/// A program of three arrays, split over the axis `x`.
struct Program {
    name: &'static str,
    f: fn(&Tensor, &Tensor, &Tensor) -> Tensor,
    shapes: [&'static [i64]; 3],
    specs: [fn() -> P; 3],
}

const NONE: &[i64] = &[1];

fn whole() -> P {
    P![]
}

fn first() -> P {
    P!["x"]
}

fn second() -> P {
    P![_, "x"]
}

fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    let scores = einsum("bhtk,bhsk->bhts", &[q, k]) / 8.0;
    einsum("bhts,bhsk->bhtk", &[&scores.softmax(-1), v])
}

fn loss(x: &Tensor, w: &Tensor, u: &Tensor) -> Tensor {
    x.matmul(w).gelu_tanh().matmul(u).square().mean_all()
}

fn heat(u: &Tensor, _: &Tensor, _: &Tensor) -> Tensor {
    for_loop(0..50, u.clone(), |_, u: Tensor| {
        let inner = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
        u.at(s![1..-1]).set(inner)
    })
}

fn recurrence(x: &Tensor, w: &Tensor, u: &Tensor) -> Tensor {
    let driven = x.matmul(w);
    for_loop(0..8, driven.clone(), |_, h: Tensor| (&driven + h.matmul(u)).tanh())
}

const PROGRAMS: [Program; 20] = [
    Program {
        name: "mlp, batch split",
        f: |x, w, u| x.matmul(w).gelu_tanh().matmul(u),
        shapes: [&[512, 512], &[512, 1024], &[1024, 512]],
        specs: [first, whole, whole],
    },
    Program {
        name: "mlp, weights split",
        f: |x, w, u| x.matmul(w).gelu_tanh().matmul(u),
        shapes: [&[512, 512], &[512, 1024], &[1024, 512]],
        specs: [whole, second, first],
    },
    Program {
        name: "mlp gradient, batch split",
        f: |x, w, u| grad(|w: Tensor| loss(x, &w, u), w.clone()),
        shapes: [&[512, 256], &[256, 512], &[512, 256]],
        specs: [first, whole, whole],
    },
    Program {
        name: "mlp gradient, weights split",
        f: |x, w, u| grad(|w: Tensor| loss(x, &w, u), w.clone()),
        shapes: [&[512, 256], &[256, 512], &[512, 256]],
        specs: [whole, second, first],
    },
    Program {
        name: "attention, batch split",
        f: attention,
        shapes: [&[8, 8, 128, 64], &[8, 8, 128, 64], &[8, 8, 128, 64]],
        specs: [first, first, first],
    },
    Program {
        name: "attention, heads split",
        f: attention,
        shapes: [&[2, 8, 256, 64], &[2, 8, 256, 64], &[2, 8, 256, 64]],
        specs: [second, second, second],
    },
    Program {
        name: "softmax",
        f: |x, _, _| x.softmax(-1),
        shapes: [&[1024, 1024], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "softmax over a split dimension",
        f: |x, _, _| x.softmax(-1),
        shapes: [&[1024, 1024], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "layer norm",
        f: |x, _, _| x.layer_norm(1e-5),
        shapes: [&[2048, 512], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "chain of functions",
        f: |x, _, _| (x.gelu_tanh() + x.sin()).exp().tanh(),
        shapes: [&[512, 1024], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "product, rows split",
        f: |x, w, _| x.matmul(w),
        shapes: [&[768, 768], &[768, 768], NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "product, sum split",
        f: |x, w, _| x.matmul(w),
        shapes: [&[512, 2048], &[2048, 512], NONE],
        specs: [second, first, whole],
    },
    Program {
        name: "stack of products",
        f: |x, w, _| einsum("bij,bjk->bik", &[x, w]),
        shapes: [&[64, 128, 128], &[64, 128, 128], NONE],
        specs: [first, first, whole],
    },
    Program {
        name: "sum of everything",
        f: |x, _, _| x.square().sum_all(),
        shapes: [&[2048, 2048], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "means of columns",
        f: |x, _, _| x.mean(&[0]),
        shapes: [&[4096, 512], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "standardized columns",
        f: |x, _, _| (x - x.mean(&[0])) / (x.var(&[0]) + 1e-5).sqrt(),
        shapes: [&[4096, 256], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "convolution",
        f: |x, k, _| x.conv(k, &Conv { padding: Padding::Same, ..Conv::default() }).relu(),
        shapes: [&[8, 32, 32, 32], &[3, 3, 32, 32], NONE],
        specs: [first, whole, whole],
    },
    Program { name: "heat equation", f: heat, shapes: [&[65536], NONE, NONE], specs: [first, whole, whole] },
    Program {
        name: "recurrence",
        f: recurrence,
        shapes: [&[256, 256], &[256, 256], &[256, 256]],
        specs: [first, whole, whole],
    },
    Program {
        name: "gated block",
        f: |x, w, u| {
            let h = x.rms_norm(1e-6);
            h.matmul(w).silu() * h.matmul(u) + x
        },
        shapes: [&[512, 512], &[512, 512], &[512, 512]],
        specs: [first, whole, whole],
    },
];

const DEVICES: [i64; 4] = [1, 2, 4, 8];

/// Runs the comparison: `MACHINE [--time MS]`.
pub fn run(args: &[String]) -> ExitCode {
    let Some(path) = args.first() else {
        eprintln!("usage: meshwork-bench predict MACHINE [--time MS]");
        return ExitCode::FAILURE;
    };
    let time = args.iter().position(|a| a == "--time").and_then(|i| args.get(i + 1)).and_then(|ms| ms.parse().ok());
    match compare(path, Duration::from_millis(time.unwrap_or(100))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn compare(path: &str, time: Duration) -> Result<(), Box<dyn Error>> {
    let machine: Machine = std::fs::read_to_string(path)?.parse()?;
    let mut pairs = vec![];
    for program in &PROGRAMS {
        for devices in DEVICES {
            let compiled = compiled(program, devices)?;
            let predicted = simulate(&compiled, &machine).seconds;
            let measured = measured(&compiled, time)?;
            let error = 100.0 * (predicted / measured - 1.0);
            println!(
                "{:>10} measured {:>10} predicted {error:>6.1} %  {devices} device{}, {}",
                human_seconds(measured),
                human_seconds(predicted),
                if devices == 1 { "" } else { "s" },
                program.name
            );
            pairs.push((predicted, measured));
        }
    }
    let errors = Errors::of(pairs);
    let (median, high) = (100.0 * errors.median, 100.0 * errors.percentile_90);
    println!("{} runs: median error {median:.1} %, 90th percentile {high:.1} %", errors.count);
    Ok(())
}

fn compiled(program: &Program, devices: i64) -> Result<Compiled, Box<dyn Error>> {
    let mesh = Mesh::linear("x", devices)?;
    let [a, b, c] = program.shapes.map(|shape| Array::zeros(shape.to_vec(), F32));
    let f = program.f;
    let traced = jit(move |a: Tensor, b: Tensor, c: Tensor| f(&a, &b, &c)).on(&mesh);
    let lowered = traced.in_shardings(program.specs.map(|spec| spec())).lower((&a, &b, &c))?;
    Ok(compile(lowered.module(), &CompileOptions::default())?)
}

/// The shortest run.
fn measured(compiled: &Compiled, time: Duration) -> Result<f64, Box<dyn Error>> {
    let loaded = CpuEngine::shared().load(compiled)?;
    let numbers = |n: i64| (0..n).map(|i| 0.1 + (i % 89) as f32 / 400.0).collect::<Vec<f32>>();
    let inputs = compiled
        .inputs()
        .iter()
        .map(|border| Array::from_vec(border.ty.dims().to_vec(), numbers(border.ty.dims().iter().product())))
        .collect::<Result<Vec<Array>, _>>()?;
    let run = || loaded.run(inputs.clone());
    drop(run()?);
    let once = wall(run).1;
    // Short runs are measured in blocks.
    let runs = (0.0005 / once.as_secs_f64().max(1e-7)).clamp(1.0, 1000.0) as u32;
    let block = || (0..runs).try_for_each(|_| run().map(drop));
    let (begin, mut least, mut blocks) = (Instant::now(), f64::INFINITY, 0);
    while blocks < 5 || begin.elapsed() < time {
        // One thread does everything itself: other work on the computer then counts little.
        let (done, spent) = if CpuEngine::shared().threads() == 1 { on_processor(block) } else { wall(block) };
        done?;
        least = least.min(spent.as_secs_f64() / f64::from(runs));
        blocks += 1;
    }
    Ok(least)
}
