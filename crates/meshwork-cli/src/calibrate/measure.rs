//! Measuring a program on the CPU engine.

use std::time::{Duration, Instant};

use meshwork_cpu::CpuEngine;
use meshwork_ir::{ElementType, text};
use meshwork_partition::{CompileOptions, Compiled, compile};
use meshwork_runtime::{Array, Engine};

use super::programs::Case;
use crate::fail::Failure;

/// A program and what it took.
pub struct Sample {
    /// What it is for.
    pub group: &'static str,
    /// Devices and extents.
    pub size: String,
    /// The program.
    pub compiled: Compiled,
    /// The shortest run.
    pub seconds: f64,
}

/// At least so many runs are measured.
const FEWEST_RUNS: usize = 5;

/// Runs `case` for `milliseconds` and keeps the shortest run: what else the computer does only makes a run longer.
pub fn measure(case: &Case, milliseconds: u64) -> Result<Sample, Failure> {
    let inside = |what: &dyn std::fmt::Display| Failure::error(format!("calibration of {}: {what}", case.group));
    let module = text::parse(&case.text).map_err(|e| inside(&e.to_string()))?;
    let compiled = compile(&module, &CompileOptions::default()).map_err(|e| inside(&e))?;
    let loaded = CpuEngine::shared().load(&compiled).map_err(|e| inside(&e))?;
    let inputs: Vec<Array> = compiled
        .inputs()
        .iter()
        .map(|border| {
            let dims = border.ty.dims().to_vec();
            let count = dims.iter().product::<i64>() as usize;
            // Numbers on which no function is at the end of its range.
            let numbers: Vec<f32> = (0..count).map(|i| 0.5 + (i % 97) as f32 / 200.0).collect();
            Array::from_vec(dims, numbers).map_err(|e| inside(&e))
        })
        .collect::<Result<_, _>>()?;
    debug_assert!(inputs.iter().all(|a| a.dtype() == ElementType::F32));
    let run = || loaded.run(inputs.clone()).map_err(|e| inside(&e));
    drop(run()?);
    let (begin, mut runs, mut seconds) = (Instant::now(), 0, f64::INFINITY);
    while runs < FEWEST_RUNS || begin.elapsed() < Duration::from_millis(milliseconds) {
        let start = Instant::now();
        let results = run()?;
        seconds = seconds.min(start.elapsed().as_secs_f64());
        drop(results);
        runs += 1;
    }
    Ok(Sample { group: case.group, size: case.size.clone(), compiled, seconds })
}
