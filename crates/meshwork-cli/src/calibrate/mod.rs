//! `meshwork calibrate`: measure what this computer's engine does, and write it down as a machine.

mod measure;
mod parameters;
mod programs;

use std::fmt::Write;

use meshwork_cpu::CpuEngine;
use meshwork_partition::plan::{Errors, Machine, fit, human_seconds, simulate};

use crate::fail::Failure;
use crate::source::write_text;
use measure::{Sample, measure};
use parameters::{machine, parameters, rounded_machine};

/// Measure the CPU engine of this computer and write a machine file
///
/// Runs small programs (element-wise arithmetic, functions, reductions, products, each collective) in several sizes on
/// several numbers of devices, fits the figures of the cost model to the times by least squares on relative errors, and
/// writes a machine for `--machine`. How well it fits stands in comments. It takes about a minute; other work on the
/// computer disturbs it.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork calibrate --out here.machine\n  \
    meshwork explain model.mlir --machine here.machine")]
pub struct Args {
    /// Write the machine to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<String>,
    /// Numbers of devices to measure
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    devices: Vec<i64>,
    /// Milliseconds to measure each program for
    #[arg(long, value_name = "MS", default_value_t = 60)]
    time: u64,
    /// List every measured program in the comments
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    if let Some(n) = args.devices.iter().find(|n| !(1..=64).contains(*n)) {
        return Err(Failure::error(format!("--devices {n}: give numbers from 1 to 64")));
    }
    let samples = programs::cases(&args.devices)
        .iter()
        .map(|case| measure(case, args.time))
        .collect::<Result<Vec<Sample>, Failure>>()?;
    let threads = CpuEngine::shared().threads();
    let measured: Vec<f64> = samples.iter().map(|s| s.seconds).collect();
    let predict = |machine: &Machine| -> Vec<f64> {
        samples.iter().map(|sample| simulate(&sample.compiled, machine).seconds).collect()
    };
    let fitted = fit(&parameters(), &measured, |values| predict(&machine(values, threads)));
    let values: Vec<f64> = fitted.iter().map(|p| p.value).collect();
    let machine = rounded_machine(&values, threads);
    let predicted = predict(&machine);
    let mut text = format!("{machine}");
    let all = || predicted.iter().copied().zip(measured.iter().copied());
    let _ = writeln!(
        text,
        "# errors of {} measured programs, as shares of their time: median, 90th percentile",
        measured.len()
    );
    let _ = writeln!(text, "#   all: {}", errors(Errors::of(all())));
    let mut groups: Vec<&str> = samples.iter().map(|s| s.group).collect();
    groups.sort_unstable();
    groups.dedup();
    for group in groups {
        let of = all().zip(&samples).filter(|(_, s)| s.group == group).map(|(pair, _)| pair);
        let _ = writeln!(text, "#   {group}: {}", errors(Errors::of(of)));
    }
    for parameter in fitted.iter().filter(|p| p.is_at_bound()) {
        let _ = writeln!(text, "# at a bound, so not determined by the measurements: {}", parameter.name);
    }
    if args.all {
        let _ = writeln!(text, "# measured, predicted");
        for (sample, (p, m)) in samples.iter().zip(all()) {
            let _ = writeln!(
                text,
                "#   {:>9} {:>9} {:>6.1} %  {} on {}",
                human_seconds(m),
                human_seconds(p),
                100.0 * (p / m - 1.0),
                sample.group,
                sample.size
            );
        }
    }
    write_text(args.out.as_deref(), &text)
}

fn errors(e: Errors) -> String {
    format!("{:.1} %, {:.1} % of {}", 100.0 * e.median, 100.0 * e.percentile_90, e.count)
}
