//! Random programs over the whole op table: the engine gives what the evaluator gives, up to the rounding errors that the
//! generator states, and the same bits on any number of threads.
//!
//! `PROGRAMS=100000 FIRST=1000 cargo test --release -p meshwork-cpu --test generated_programs` runs more of them.

use std::sync::Arc;

use meshwork_cpu::DeviceProgram;
use meshwork_cpu::compile::{Span, compile};
use meshwork_cpu::device_program::Replication;
use meshwork_cpu::exec::pool::Pool;
use meshwork_eval as eval;
use meshwork_ir::verify::verify;
use meshwork_ir::{DeviceGrid, Literal, text};
use meshwork_runtime::Buffer;
use meshwork_testing::generate::{Generated, Options, program};

/// Runs `generated` on a pool; results per device.
fn run(generated: &Generated, devices: usize, threads: usize) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let compiled = compile(&generated.module, None, grid, Span::OneProcess).map_err(|e| e.to_string())?;
    let pool = Arc::new(Pool::new(threads));
    let loaded = DeviceProgram::new(compiled, grid, pool, Replication::default()).map_err(|e| e.to_string())?;
    let shard = |x: &Literal| Arc::new(Buffer::from_bytes(x.bytes()).expect("memory"));
    let count = generated.args[0].len();
    let args = (0..count).map(|i| generated.args.iter().map(|a| shard(&a[i])).collect()).collect();
    let results = loaded.run(args).map_err(|e| e.to_string())?;
    let bytes = |d: usize| results.iter().map(|shards| shards[d].as_slice().to_vec()).collect();
    Ok((0..devices).map(bytes).collect())
}

/// What differs, if anything does.
fn difference(generated: &Generated, devices: usize, seed: u64) -> Option<String> {
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let want = match eval::run_devices(&generated.module, None, generated.args.clone(), grid) {
        Ok(want) => want,
        Err(e) => return Some(format!("evaluator: {e}")),
    };
    let mut first: Option<Vec<Vec<Vec<u8>>>> = None;
    for threads in [1, 2, 3 + seed as usize % 5, 8] {
        let got = match run(generated, devices, threads) {
            Ok(got) => got,
            Err(e) => return Some(format!("engine on {threads} threads: {e}")),
        };
        match &first {
            Some(first) if *first == got => continue,
            Some(_) => return Some(format!("{threads} threads give other bits than 1")),
            None => {}
        }
        for (d, (got, want)) in got.iter().zip(&want).enumerate() {
            for (i, (got, want)) in got.iter().zip(want).enumerate() {
                if let Some(wrong) = apart(got, want, generated.errors[i]) {
                    return Some(format!("result {i} on device {d}: {wrong}"));
                }
            }
        }
        first = Some(got);
    }
    None
}

/// Where `got` and `want` are further apart than rounding makes them.
fn apart(got: &[u8], want: &Literal, error: f64) -> Option<String> {
    let Some(got) = Literal::from_bytes(want.dims().iter().copied(), want.elem(), got.to_vec()) else {
        return Some(format!("{} bytes for {}", got.len(), want.ty()));
    };
    let is_inexact = want.elem().is_float() || want.elem().is_complex();
    (0..want.len()).find_map(|i| {
        let ((a, b), (c, d)) = (got.get(i).as_complex(), want.get(i).as_complex());
        // Zeros have the sign of whatever was added or multiplied first.
        let near = |x: f64, y: f64| x == y || (x - y).abs() <= 2.0 * error || (x.is_nan() && y.is_nan());
        let same = got.element(i) == want.element(i) || (is_inexact && near(a, c) && near(b, d));
        (!same).then(|| format!("element {i} is {a} {b} instead of {c} {d}, with an error of {error:e}"))
    })
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Compares `PROGRAMS` programs from seed `FIRST` on, and reports all that differ.
fn compare(devices: usize, usual: u64) {
    let (first, count) = (number("FIRST", 0), number("PROGRAMS", usual));
    let options = Options { devices, ..Options::default() };
    let mut wrong = vec![];
    for seed in first..first + count {
        let generated = program(seed, &options);
        let faults = verify(&generated.module);
        let found = match faults.is_empty() {
            true => std::panic::catch_unwind(|| difference(&generated, devices, seed)).unwrap_or(Some("panic".into())),
            false => Some(format!("it does not verify: {faults:?}")),
        };
        if let Some(what) = found {
            if wrong.len() < number("SHOWN", 3) as usize {
                eprintln!("seed {seed} on {devices} devices: {what}\n{}", text::print(&generated.module));
            } else {
                eprintln!("seed {seed} on {devices} devices: {what}");
            }
            wrong.push(seed);
        }
    }
    assert!(wrong.is_empty(), "{} of {count} programs differ: {wrong:?}", wrong.len());
}

#[test]
fn one_device() {
    compare(1, 300);
}

#[test]
fn several_devices() {
    compare(4, 150);
}
