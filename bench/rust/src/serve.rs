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

use meshwork_cpu::{CpuEngine, Executable};
use meshwork_ir::DeviceGrid;
use meshwork_ir::{npy, text};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::{Border, CompileOptions};
use meshwork_runtime::{Array, Runtime, Shards};

/// A compiled program.
struct Compiled {
    executable: Arc<Executable>,
    mesh: Arc<Mesh>,
    /// How arguments and results are split; empty on one device.
    inputs: Vec<Arc<Sharding>>,
    outputs: Vec<Arc<Sharding>>,
    /// Extents of the global results.
    results: Vec<Vec<i64>>,
}

/// A compiled program with its inputs.
struct Prepared {
    compiled: Compiled,
    inputs: Vec<Shards>,
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
            let compiled = compile(&source)?;
            let seconds = start.elapsed().as_secs_f64();
            let next = load(compiled, check, inputs)?;
            next.run(1)?;
            *prepared = Some(next);
            Ok(format!(r#"{{"compile": {seconds}}}"#))
        }
        (["run", count], Some(prepared)) => {
            let (seconds, checksum, magnitude) = prepared.run(count.parse()?)?;
            Ok(format!(r#"{{"seconds": {seconds}, "checksum": {checksum}, "magnitude": {magnitude}}}"#))
        }
        (["profile"], Some(prepared)) => {
            let (_, profile) = prepared.compiled.executable.run_profiled(prepared.inputs.clone())?;
            eprintln!("{}", profile.table(40));
            Ok(format!(r#"{{"fallbacks": {:?}}}"#, prepared.compiled.executable.fallbacks()))
        }
        _ => Err(format!("no such command, or nothing prepared: {words:?}").into()),
    }
}

fn compile(source: &str) -> Result<Compiled, Box<dyn Error>> {
    let module = text::parse(source).map_err(|e| format!("{e:?}"))?;
    let function = module.entry().ok_or("no entry function")?;
    let results = module.func_type(function).results.iter().map(|t| t.dims().to_vec()).collect();
    let engine = CpuEngine::shared();
    let devices = meshwork_partition::mesh_of(&module).map_or(1, |(_, mesh)| mesh.device_count());
    if devices == 1 {
        let executable = engine.executable(&module, None, DeviceGrid { replicas: 1, partitions: 1 })?;
        return Ok(Compiled { executable, mesh: Arc::default(), inputs: vec![], outputs: vec![], results });
    }
    let split = meshwork_partition::compile(&module, &CompileOptions::default()).map_err(|e| format!("{e:?}"))?;
    let shardings = |borders: &[Border]| borders.iter().map(|b| b.sharding.clone()).collect();
    let grid = DeviceGrid { replicas: 1, partitions: devices as usize };
    let executable = engine.executable(&split.module, None, grid)?;
    Ok(Compiled {
        executable,
        mesh: split.mesh.clone().unwrap_or_default(),
        inputs: shardings(split.inputs()),
        outputs: shardings(split.outputs()),
        results,
    })
}

fn load(compiled: Compiled, check: &str, paths: &[&str]) -> Result<Prepared, Box<dyn Error>> {
    let mut inputs = vec![];
    for (i, path) in paths.iter().enumerate() {
        let host = npy::read(&std::fs::read(path)?)?;
        let array = match compiled.inputs.get(i) {
            Some(sharding) => Array::from_host(&host, &compiled.mesh, sharding)?,
            None => Array::single(&host)?,
        };
        inputs.push(array.into_shards());
    }
    let check = if check == "last" { compiled.results.len() - 1 } else { check.parse()? };
    Ok(Prepared { compiled, inputs, check })
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
            last = self.compiled.executable.run(self.inputs.clone())?;
        }
        runtime.barrier()?;
        let seconds = start.elapsed().as_secs_f64() / count.max(1) as f64;
        let shards = last.swap_remove(self.check);
        let elem = self.compiled.executable.outputs()[self.check].elem;
        let dims = &self.compiled.results[self.check];
        let array = match self.compiled.outputs.get(self.check) {
            Some(sharding) => Array::from_shards(elem, dims, &self.compiled.mesh, sharding, shards)?,
            None => Array::from_single(elem, dims, shards[0].clone())?,
        };
        let numbers = array.to_host()?.to_f64s();
        Ok((seconds, numbers.iter().sum(), numbers.iter().map(|x| x.abs()).sum()))
    }
}
