//! Measuring a program on the CPU engine.

use std::time::{Duration, Instant};

use meshwork_cpu::CpuEngine;
use meshwork_ir::text;
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

/// The fewest blocks of runs that are measured.
const FEWEST_BLOCKS: usize = 5;
/// About how long a block of short runs takes.
const BLOCK: Duration = Duration::from_micros(500);

/// Runs `case` for `milliseconds` and keeps the shortest: what else the computer does only makes a run longer.
pub fn measure(case: &Case, milliseconds: u64) -> Result<Sample, Failure> {
    let inside = |what: &dyn std::fmt::Display| Failure::error(format!("calibration of {}: {what}", case.group));
    let module = text::parse(&case.text).map_err(|e| inside(&e.to_string()))?;
    let compiled = compile(&module, &CompileOptions::default()).map_err(|e| inside(&e))?;
    let engine = CpuEngine::shared();
    let loaded = engine.load(&compiled).map_err(|e| inside(&e))?;
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
    let run = || loaded.run(inputs.clone()).map_err(|e| inside(&e));
    drop(run()?);
    let once = Instant::now();
    drop(run()?);
    let runs = (BLOCK.as_secs_f64() / once.elapsed().as_secs_f64().max(1e-7)).clamp(1.0, 1000.0) as u32;
    let clock = Clock::of(engine.threads());
    let (begin, mut blocks, mut seconds) = (Instant::now(), 0, f64::INFINITY);
    while blocks < FEWEST_BLOCKS || begin.elapsed() < Duration::from_millis(milliseconds) {
        let start = clock.now();
        for _ in 0..runs {
            drop(run()?);
        }
        seconds = seconds.min((clock.now() - start) / f64::from(runs));
        blocks += 1;
    }
    Ok(Sample { group: case.group, size: case.size.clone(), compiled, seconds })
}

/// What time is taken from.
enum Clock {
    /// The time that this thread spent on a processor: with one thread it does everything, and other work counts little.
    Processor,
    /// Wall-clock time since then.
    Wall(Instant),
}

impl Clock {
    fn of(threads: usize) -> Clock {
        if threads == 1 && counts() { Clock::Processor } else { Clock::Wall(Instant::now()) }
    }

    /// Seconds since some point in the past.
    fn now(&self) -> f64 {
        match self {
            Clock::Processor => on_processor().unwrap_or(0.0),
            Clock::Wall(start) => start.elapsed().as_secs_f64(),
        }
    }
}

/// Whether the time that this thread spends on a processor is counted as it goes on. For threads of real-time priority it may be
/// brought up to date only now and then: short runs would seem to take no time.
fn counts() -> bool {
    (0..3).all(|_| {
        let before = on_processor();
        let sum: u64 = (0..10_000).map(std::hint::black_box).sum();
        std::hint::black_box(sum);
        before.zip(on_processor()).is_some_and(|(before, after)| after > before)
    })
}

/// Seconds that this thread has spent on a processor, where the system reports it (Linux does).
fn on_processor() -> Option<f64> {
    // The count is brought up to date when the thread gives way.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse::<f64>().ok().map(|nanoseconds| nanoseconds * 1e-9)
}
