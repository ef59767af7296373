//! Predicted times of programs compared with measured ones on the CPU engine of this computer.
//!
//! ```text
//! meshwork calibrate --out here.machine && meshwork-bench predict here.machine
//! ```

mod held_out;
mod neighbours;
mod programs;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use meshwork::prelude::*;
use meshwork_cpu::CpuEngine;
use meshwork_partition::plan::{Errors, Machine, human_seconds, simulate};
use meshwork_partition::{CompileOptions, Compiled, compile};
use meshwork_runtime::{Engine, Executable};

use crate::timing::{on_processor, wall};

use self::held_out::HELD_OUT;
use self::neighbours::NEIGHBOURS;
use self::programs::{PROGRAMS, Program};

const DEVICES: [i64; 4] = [1, 2, 4, 8];

/// What to compare, and how.
struct Options<'a> {
    machine: &'a str,
    /// How long each run is measured.
    time: Duration,
    /// Part of the names of the programs.
    only: &'a str,
    /// A program to compare instead.
    file: Option<&'a str>,
    detail: Detail,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// A line for each run.
    Runs,
    /// Also what its operations are predicted to take, and what the steps of the engine did.
    Operations,
}

/// Runs the comparison: `MACHINE [--time MS] [--only NAME] [--file PROGRAM] [--detail]`.
pub fn run(args: &[String]) -> ExitCode {
    let Some(machine) = args.first() else {
        eprintln!("usage: meshwork-bench predict MACHINE [--time MS] [--only NAME] [--file PROGRAM] [--detail]");
        return ExitCode::FAILURE;
    };
    let value = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let options = Options {
        machine,
        time: Duration::from_millis(value("--time").and_then(|ms| ms.parse().ok()).unwrap_or(100)),
        only: value("--only").map_or("", String::as_str),
        file: value("--file").map(String::as_str),
        detail: if args.iter().any(|a| a == "--detail") { Detail::Operations } else { Detail::Runs },
    };
    match compare(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options<'_>) -> Result<(), Box<dyn Error>> {
    let machine: Machine = std::fs::read_to_string(options.machine)?.parse()?;
    if let Some(path) = options.file {
        let compiled = compile(&meshwork_ir::read(&std::fs::read(path)?)?, &CompileOptions::default())?;
        compare_one(path, &compiled, &machine, options)?;
        return Ok(());
    }
    let sets = [("programs", &PROGRAMS[..]), ("neighbours", &NEIGHBOURS[..]), ("held out", &HELD_OUT[..])];
    for (set, programs) in sets {
        let mut pairs = vec![];
        for program in programs.iter().filter(|program| program.name.contains(options.only)) {
            for devices in DEVICES {
                pairs.push(compare_one(program.name, &compiled(program, devices)?, &machine, options)?);
            }
        }
        if pairs.is_empty() {
            continue;
        }
        let off = pairs.iter().filter(|(predicted, measured)| (predicted / measured - 1.0).abs() > 0.25).count();
        let errors = Errors::of(pairs);
        let (median, high) = (100.0 * errors.median, 100.0 * errors.percentile_90);
        println!(
            "{set}, {} runs: median error {median:.1} %, 90th percentile {high:.1} %, {off} off by more than 25 %",
            errors.count
        );
    }
    Ok(())
}

/// Predicted and measured seconds of a program.
fn compare_one(
    name: &str,
    compiled: &Compiled,
    machine: &Machine,
    options: &Options<'_>,
) -> Result<(f64, f64), Box<dyn Error>> {
    let simulated = simulate(compiled, machine);
    let loaded = CpuEngine::shared().load(compiled)?;
    let inputs = inputs(compiled)?;
    let devices = compiled.plan.devices();
    let measured = measured(&*loaded, &inputs, options.time)?;
    let error = 100.0 * (simulated.seconds / measured - 1.0);
    println!(
        "{:>10} measured {:>10} predicted {error:>6.1} %  {devices} device{}, {}",
        human_seconds(measured),
        human_seconds(simulated.seconds),
        if devices == 1 { "" } else { "s" },
        name
    );
    if options.detail == Detail::Operations {
        for op in simulated.ops.iter().filter(|op| op.seconds > 0.0) {
            let data = compiled.module.op(op.op);
            let ty = data.results().first().map_or(String::new(), |&v| compiled.module.ty(v).to_string());
            let all = human_seconds(op.seconds * op.runs());
            println!(
                "    {all:>10} = {} x {}, {} bytes: {} {ty}",
                op.runs(),
                human_seconds(op.seconds),
                op.traffic,
                data.name()
            );
        }
        print!("{}", loaded.run_profiled(inputs)?.1.table(12));
    }
    Ok((simulated.seconds, measured))
}

fn compiled(program: &Program, devices: i64) -> Result<Compiled, Box<dyn Error>> {
    let mesh = Mesh::linear("x", devices)?;
    let [a, b, c] = program.shapes.map(|shape| Array::zeros(shape.to_vec(), F32));
    let f = program.f;
    let traced = jit(move |a: Tensor, b: Tensor, c: Tensor| f(&a, &b, &c)).on(&mesh);
    let lowered = traced.in_shardings(program.specs.map(|spec| spec())).lower((&a, &b, &c))?;
    Ok(compile(lowered.module(), &CompileOptions::default())?)
}

/// Arrays for the arguments of a program.
fn inputs(compiled: &Compiled) -> Result<Vec<Array>, Box<dyn Error>> {
    let numbers = |n: i64| (0..n).map(|i| 0.1 + (i % 89) as f32 / 400.0).collect::<Vec<f32>>();
    let array = |dims: &[i64]| Array::from_vec(dims.to_vec(), numbers(dims.iter().product()));
    Ok(compiled.inputs().iter().map(|border| array(border.ty.dims())).collect::<Result<Vec<Array>, _>>()?)
}

/// The shortest run.
fn measured(loaded: &dyn Executable, inputs: &[Array], time: Duration) -> Result<f64, Box<dyn Error>> {
    let run = || loaded.run(inputs.to_vec());
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
