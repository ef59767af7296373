//! Runs programs for the engine benchmark: one command a line on standard input, one line of JSON per answer. Under
//! `mpirun`, rank 0 reads and answers, and all do.
//!
//! ```text
//! prepare PROGRAM.mlir CHECK INPUT.npy ...   compiles it and cuts its inputs into shards
//! run COUNT                                  runs it: seconds per run; sum of result number CHECK, and of its magnitudes
//! ```

use std::error::Error;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwork_cpu::CpuEngine;
use meshwork_ir::text;
use meshwork_partition::CompileOptions;
use meshwork_runtime::{Array, Engine, Executable, Runtime};

/// A loaded program with its inputs.
struct Prepared {
    executable: Arc<dyn Executable>,
    inputs: Vec<Array>,
    /// Which result is summed.
    check: usize,
}

/// Answers until the input ends.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::init()?;
    // Between commands others are measured.
    runtime.set_deadline(Duration::from_secs(3600));
    let mut prepared = None;
    let mut lines = std::io::stdin().lock().lines().map_while(Result::ok);
    if runtime.rank() == 0 {
        answer(r#"{"ready": true}"#);
    }
    loop {
        let line = if runtime.rank() == 0 { lines.next().unwrap_or_default() } else { String::new() };
        let line = String::from_utf8(runtime.broadcast(0, line.as_bytes())?)?;
        if line.is_empty() {
            return Ok(());
        }
        let words: Vec<&str> = line.split('\t').collect();
        let text = match command(&words, &mut prepared) {
            Ok(text) => text,
            Err(e) => format!(r#"{{"error": {:?}}}"#, e.to_string()),
        };
        if runtime.rank() == 0 {
            answer(&text);
        }
    }
}

fn answer(text: &str) {
    println!("{text}");
    // A driver that is gone needs no answer.
    let _ = std::io::stdout().flush();
}

fn command(words: &[&str], prepared: &mut Option<Prepared>) -> Result<String, Box<dyn Error>> {
    match (words, prepared) {
        (["prepare", program, check, inputs @ ..], prepared) => {
            let source = std::fs::read_to_string(program)?;
            let start = Instant::now();
            let (executable, results) = compile(&source)?;
            let seconds = start.elapsed().as_secs_f64();
            let inputs = inputs.iter().map(Array::load_npy).collect::<Result<_, _>>()?;
            let check = if *check == "last" { results - 1 } else { check.parse()? };
            let next = Prepared { executable, inputs, check };
            next.run(1)?;
            *prepared = Some(next);
            Ok(format!(r#"{{"compile": {seconds}}}"#))
        }
        (["run", count], Some(prepared)) => {
            let (seconds, checksum, magnitude) = prepared.run(count.parse()?)?;
            Ok(format!(r#"{{"seconds": {seconds}, "checksum": {checksum}, "magnitude": {magnitude}}}"#))
        }
        (["profile"], Some(prepared)) => {
            let (_, profile) = prepared.executable.run_profiled(prepared.inputs.clone())?;
            eprintln!("{}", profile.table(40));
            let fallbacks: Vec<String> = profile.fallbacks.iter().map(ToString::to_string).collect();
            Ok(format!(r#"{{"fallbacks": {fallbacks:?}}}"#))
        }
        _ => Err(format!("no such command, or nothing prepared: {words:?}").into()),
    }
}

fn compile(source: &str) -> Result<(Arc<dyn Executable>, usize), Box<dyn Error>> {
    let module = text::parse(source).map_err(|e| format!("{e:?}"))?;
    let compiled = meshwork_partition::compile(&module, &CompileOptions::default()).map_err(|e| format!("{e:?}"))?;
    Ok((CpuEngine::shared().load(&compiled)?, compiled.outputs().len()))
}

impl Prepared {
    /// Seconds per run, the sum of the result to check, and that of its magnitudes.
    fn run(&self, count: usize) -> Result<(f64, f64, f64), Box<dyn Error>> {
        let runtime = Runtime::init()?;
        runtime.barrier()?;
        let start = Instant::now();
        let mut last = vec![];
        for _ in 0..count.max(1) {
            drop(std::mem::take(&mut last));
            last = self.executable.run(self.inputs.clone())?;
        }
        runtime.barrier()?;
        let seconds = start.elapsed().as_secs_f64() / count.max(1) as f64;
        let numbers = last.swap_remove(self.check).to_f64s()?;
        Ok((seconds, numbers.iter().sum(), numbers.iter().map(|x| x.abs()).sum()))
    }
}
