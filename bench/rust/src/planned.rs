//! A program as it is annotated compared with the same program as the planner annotates it: both run on the CPU engine, in turn.
//!
//! ```text
//! meshwork-bench planned target/bench/programs/gpt_2.mlir [--machine here.machine] [--search SECONDS] [--rounds N]
//! ```
//!
//! A result takes the place of the next argument of its type in the run after, as the state of a training step does, so that
//! arrays stay where the program puts them.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use meshwork::planner::{Planner, judge};
use meshwork::prelude::*;
use meshwork_cpu::CpuEngine;
use meshwork_ir::{ElementType, Literal, Type};
use meshwork_partition::plan::{Machine, human_seconds};
use meshwork_partition::{CompileOptions, Compiled, compile};
use meshwork_runtime::{Engine, Executable};

use crate::timing::{Times, wall};

const USAGE: &str = "usage: meshwork-bench planned FILE [--machine FILE] [--search SECONDS] [--rounds N]";

/// Runs the command.
pub fn run(args: &[String]) -> ExitCode {
    match compare(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("planned: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(args: &[String]) -> Result<(), Box<dyn Error>> {
    let option = |name: &str| args.iter().position(|a| a == name).and_then(|i| args.get(i + 1));
    let file = args.first().filter(|a| !a.starts_with("--")).ok_or(USAGE)?;
    let machine: Machine = match option("--machine") {
        Some(path) => std::fs::read_to_string(path)?.parse()?,
        None => CpuEngine::shared().machine().unwrap_or_default(),
    };
    let seconds: f64 = option("--search").map_or(Ok(20.0), |s| s.parse())?;
    let rounds: usize = option("--rounds").map_or(Ok(21), |s| s.parse())?;
    let module = meshwork_ir::read(&std::fs::read(file)?)?;
    let found = Planner::new(&module, &machine).fresh().seconds(seconds).search()?;
    print!("{}", found.text());
    let on = |machine: &Machine| CompileOptions { machine: machine.clone(), ..CompileOptions::default() };
    let by_hand = compile(&module, &on(&machine))?;
    let planned = compile(&found.best().module(), &on(found.best().machine()))?;
    let mut sides = [("by hand", Side::new(&by_hand)?), ("planned", Side::new(&planned)?)];
    let predicted = [&by_hand, &planned].map(|compiled| judge(compiled, &machine).seconds);
    for round in 0..rounds + 2 {
        // Who comes first changes; the first two rounds warm up.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for side in order {
            let (_, side) = &mut sides[side];
            let spent = wall(|| side.step());
            spent.0?;
            if round >= 2 {
                side.times.add(spent.1);
            }
        }
    }
    for ((name, side), predicted) in sides.iter().zip(predicted) {
        let (median, least) = (side.times.median(), side.times.least());
        println!(
            "{name}: {median:.3} ms a run (median of {rounds}; least {least:.3}), predicted {}",
            human_seconds(predicted)
        );
    }
    let [hand, own] = sides.map(|(_, side)| side.times.median());
    println!("planned takes {:.2} of the time of the annotated program", own / hand);
    Ok(())
}

/// A loaded program with its arguments.
struct Side {
    loaded: Arc<dyn Executable>,
    arguments: Vec<Array>,
    /// For each result the argument that it takes the place of.
    next: Vec<Option<usize>>,
    times: Times,
}

impl Side {
    fn new(compiled: &Compiled) -> Result<Side, Box<dyn Error>> {
        let arguments =
            compiled.inputs().iter().map(|border| numbers(&border.ty)).collect::<Result<Vec<Array>, _>>()?;
        let mut free: Vec<Option<&Type>> = compiled.inputs().iter().map(|border| Some(&border.ty)).collect();
        let mut take = |ty: &Type| {
            let argument = free.iter().position(|input| *input == Some(ty))?;
            free[argument] = None;
            Some(argument)
        };
        let next = compiled.outputs().iter().map(|border| take(&border.ty)).collect();
        Ok(Side { loaded: CpuEngine::shared().load(compiled)?, arguments, next, times: Times::default() })
    }

    fn step(&mut self) -> Result<(), Box<dyn Error>> {
        let results = self.loaded.run(self.arguments.clone())?;
        for (result, argument) in results.into_iter().zip(&self.next) {
            if let Some(argument) = *argument {
                self.arguments[argument] = result;
            }
        }
        Ok(())
    }
}

/// Small numbers.
fn numbers(ty: &Type) -> Result<Array, Box<dyn Error>> {
    let (dims, elem) = (ty.dims().to_vec(), ty.elem().unwrap_or(ElementType::F32));
    let count: i64 = dims.iter().product();
    let literal = if elem.is_integer() || elem == ElementType::I1 {
        Literal::from_i64s(dims, elem, &(0..count).map(|i| i % 2).collect::<Vec<i64>>())
    } else {
        Literal::from_f64s(dims, elem, &(0..count).map(|i| 0.01 + (i % 89) as f64 / 4000.0).collect::<Vec<f64>>())
    };
    Ok(Array::from_literal(literal.ok_or_else(|| format!("no numbers of {elem}"))?))
}
