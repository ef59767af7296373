//! The differential fuzzer as a command: `fuzz [--seed N] [--runs N] [--evaluator] [--print] [FILE.mlir ...]`.
//!
//! Runs cases `seed`, `seed + 1`, … and prints a small program for each kind of difference; with `--print` it prints the
//! programs instead. With `--evaluator` the CPU engine is left out. Files are used instead of random programs; those that do not run on one device are left out. A case
//! that takes longer than a minute ends the run.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use meshwork_ir::{Module, text};
use meshwork_testing::fuzz::check::inputs;
use meshwork_testing::fuzz::{Case, Engines, Precision, Verdict, case, check, record_panics, try_case};

fn main() -> ExitCode {
    let (mut seed, mut runs, mut print, mut files) = (1u64, 1000u64, false, vec![]);
    let mut engines = Engines::All;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{arg} takes a number"));
        match arg.as_str() {
            "--seed" => seed = number(),
            "--runs" => runs = number(),
            "--print" => print = true,
            "--evaluator" => engines = Engines::Evaluator,
            _ => files.push(arg),
        }
    }
    record_panics();
    let given: Vec<Module> = files.iter().filter_map(|file| read(file)).collect();
    if given.len() < files.len() {
        eprintln!("{} of {} files are not programs that run on one device", files.len() - given.len(), files.len());
    }
    if given.is_empty() && !files.is_empty() {
        return ExitCode::FAILURE;
    }
    if print {
        for seed in seed..seed + runs {
            println!("{}", case(seed, &given).map_or_else(|e| e, |case| text::print(&case.module)));
        }
        return ExitCode::SUCCESS;
    }
    let now = watch();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for case in seed..seed + runs {
        now.store(case, Ordering::Relaxed);
        let Some(finding) = try_case(case, &given, engines) else { continue };
        let count = kinds.entry(finding.verdict.kind()).or_default();
        *count += 1;
        if *count == 1 {
            let what = match &finding.verdict {
                Verdict::Same => "does not fail again",
                Verdict::Invalid(what) | Verdict::Refused(what) | Verdict::Wrong(what) => what,
            };
            println!("== seed {}: {what}\n{}", finding.seed, finding.program);
        }
    }
    println!("{runs} cases from seed {seed}; {} kinds of findings", kinds.len());
    for (kind, count) in &kinds {
        println!("{count:6} {kind}");
    }
    if kinds.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends the process if the case whose number is stored does not change for a minute.
fn watch() -> Arc<AtomicU64> {
    let now = Arc::new(AtomicU64::new(0));
    let watched = now.clone();
    std::thread::spawn(move || {
        let mut last = u64::MAX;
        loop {
            std::thread::sleep(Duration::from_secs(60));
            let current = watched.load(Ordering::Relaxed);
            if current == last {
                println!("== seed {current}: no end after a minute");
                std::process::exit(2);
            }
            last = current;
        }
    });
    now
}

/// The program in `file`, if it runs on one device.
fn read(file: &str) -> Option<Module> {
    let source = std::fs::read_to_string(file).ok()?;
    let module = text::parse(&source).ok()?;
    let case = Case { args: inputs(&module), precision: Precision::of(&module), module };
    matches!(check(&case, Engines::Evaluator), Verdict::Same).then_some(case.module)
}
