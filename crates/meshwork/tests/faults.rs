//! Training on four processes of which one is killed, stopped or runs another program, at any moment of training and of
//! saving: the others end in time and say why, and the next start goes on where the last checkpoint was.
#![cfg(all(feature = "mpi", feature = "checkpoints"))]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use meshwork::prelude::*;
use meshwork::save::Checkpoints;
use meshwork::train::{Optimizer, Step, Trainer, Zero};

const RANKS: usize = 4;
const DEADLINE: f64 = 2.0;
const FOLDER: &str = "MESHWORK_TEST_FAULTS_FOLDER";
/// `RANK STEP HOW`: which rank does something else than the others, when and what.
const DIVERGE: &str = "MESHWORK_TEST_FAULTS_DIVERGE";

type Net = (Tensor, Tensor);

fn trainer(mesh: &Mesh) -> Step<Net, Tensor> {
    let loss = |(a, b): &Net, x: &Tensor| (x.matmul(a).tanh().matmul(b) - x).square().mean_all();
    Trainer::new(loss, Optimizer::adam(0.02)).on(mesh).batch(P!["data"]).zero(Zero::Three, "data").build()
}

fn batch(step: u64) -> Array {
    Array::from_fn([8, 64], |i| ((i[0] * 7 + i[1] * 3 + step as i64) as f32).sin())
}

fn start() -> (Array, Array) {
    let f = |shape: [i64; 2]| Array::from_fn(shape, |i| ((i[0] * 37 + i[1] * 11) as f32).sin() * 0.1);
    (f([64, 128]), f([128, 64]))
}

/// Trains and saves every second step until something happens. Tells each loss, and what is saved for certain.
fn train(folder: &Path, last: u64, report: impl Fn(String)) {
    let runtime = Runtime::init().unwrap();
    let mesh = Mesh::linear("data", RANKS as i64).unwrap();
    let net = trainer(&mesh);
    let mut state = net.init(&start()).unwrap();
    let mut saves = Checkpoints::open(folder).unwrap().keep(2);
    let mut step = 0;
    if let Some((found, resumed)) = saves.resume(&state).unwrap() {
        (state, step) = (resumed, found.step());
        assert!(found.skipped().is_empty(), "{:?}", found.skipped());
        report(format!("resumed {step}"));
    }
    let diverge = std::env::var(DIVERGE).ok().and_then(|v| {
        let words: Vec<&str> = v.split(' ').collect();
        let [rank, after, how] = words[..] else { return None };
        (rank.parse() == Ok(runtime.rank())).then(|| (step + after.parse::<u64>().unwrap_or(0), how.to_string()))
    });
    // What this rank is to do otherwise, from now on.
    let misled = |step: u64| diverge.as_ref().filter(|(at, _)| step >= *at).map(|(_, how)| how.as_str());
    let another = |step: u64| {
        let other = jit(|x: Tensor| x.sum_all()).on(&mesh).in_shardings([P!["data"]]);
        other.call(&batch(step)).unwrap();
    };
    let mut saved = None;
    while step < last {
        if misled(step) == Some("program") {
            another(step);
        }
        let (loss, next) = net.step(&state, &batch(step)).unwrap();
        report(format!("loss {step} {}", loss.item::<f32>().unwrap()));
        (state, step) = (next, step + 1);
        if step.is_multiple_of(2) {
            match misled(step) {
                Some("no-save") => saves.wait().unwrap(),
                Some("another-step") => saves.save(step + 1, &state, &[]).unwrap(),
                Some("another-tree") => saves.save(step, &state.0, &[]).unwrap(),
                _ => saves.save(step, &state, &[]).unwrap(),
            }
            // `save` has waited for the one before.
            if misled(step).is_none() {
                saved.replace(step).into_iter().for_each(|s| report(format!("saved {s}")));
            }
            if misled(step) == Some("while-writing") {
                another(step);
            }
        }
    }
    saves.wait().unwrap();
}

/// Not a test: what the next one runs on several processes.
#[test]
fn ranks_that_train() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let rank = Runtime::init().unwrap().rank();
    println!("\npid {rank} {}", std::process::id());
    train(Path::new(&folder), u64::MAX, |line| {
        if rank == 0 {
            println!("\n{line}");
        }
    });
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    Kill,
    Stop,
    /// It runs another program between two steps.
    Diverge,
    /// It does something else when the others save, or while that is written.
    DivergeSaving,
}

/// In the order of the trials.
const SAVING_OTHERWISE: [&str; 4] = ["while-writing", "no-save", "another-step", "another-tree"];

/// What a run with a fault reported.
#[derive(Default, Debug)]
struct Outcome {
    resumed: Option<u64>,
    saved: Option<u64>,
    losses: Vec<(u64, f32)>,
    /// What each rank has said on its standard error.
    said: Vec<String>,
    launcher: String,
    /// From the fault to the end.
    seconds: f64,
}

/// Starts the ranks, does something to one of them after `delay` of training, and sees them end.
fn run(folder: &Path, fault: Fault, how: &str, rank: usize, delay: Duration) -> Outcome {
    let said = folder.with_extension("said");
    let _ = std::fs::remove_dir_all(&said);
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--output-filename"]).arg(&said);
    // Survivors get time to report, as with `meshwork launch`.
    command.args(["--mca", "odls_base_sigkill_timeout", "2"]);
    command.args(["-n", &RANKS.to_string()]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "ranks_that_train", "--nocapture", "--test-threads=1"]);
    command.env(FOLDER, folder).env("MESHWORK_DEADLINE", DEADLINE.to_string());
    command.env("MESHWORK_THREADS", "1").env("RUST_BACKTRACE", "0");
    if matches!(fault, Fault::Diverge | Fault::DivergeSaving) {
        command.env(DIVERGE, format!("{rank} {} {how}", 1 + delay.as_millis() / 20));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let error = std::thread::spawn(move || {
        let mut text = vec![];
        BufReader::new(err).read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(send.send(line)));
    });
    let mut outcome = Outcome::default();
    let mut pids = BTreeMap::new();
    let mut at: Option<Instant> = None;
    let mut begun: Option<Instant> = None;
    loop {
        match lines.recv_timeout(Duration::from_millis(2)) {
            Ok(line) => {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words[..] {
                    ["pid", rank, pid] => drop(pids.insert(rank.parse::<usize>().unwrap(), pid.to_string())),
                    ["resumed", step] => outcome.resumed = step.parse().ok(),
                    ["saved", step] => outcome.saved = step.parse().ok(),
                    ["loss", step, loss] => {
                        begun.get_or_insert_with(Instant::now);
                        outcome.losses.push((step.parse().unwrap(), loss.parse().unwrap()));
                    }
                    _ => {}
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if at.is_none() && begun.is_some_and(|b| b.elapsed() >= delay) {
            at = Some(Instant::now());
            let signal = match fault {
                Fault::Kill => "-KILL",
                Fault::Stop => "-STOP",
                Fault::Diverge | Fault::DivergeSaving => continue,
            };
            assert!(Command::new("kill").args([signal, &pids[&rank]]).status().unwrap().success());
        }
        let limit = Duration::from_secs_f64(DEADLINE + 30.0);
        assert!(at.is_none_or(|at| at.elapsed() < limit), "{fault:?} of rank {rank}: they do not end\n{outcome:?}");
    }
    let status = child.wait().unwrap();
    outcome.seconds = at.or(begun).map_or(0.0, |at| at.elapsed().as_secs_f64());
    outcome.launcher = error.join().unwrap();
    for rank in 0..RANKS {
        let text = std::fs::read(said.join(format!("1/rank.{rank}/stderr"))).unwrap_or_default();
        // Without the flight record.
        let lines = String::from_utf8_lossy(&text);
        outcome.said.push(lines.lines().filter(|l| !l.contains(" s ago, ")).map(|l| format!("{l}\n")).collect());
    }
    let _ = std::fs::remove_dir_all(&said);
    assert!(!status.success(), "{fault:?} of rank {rank}: {status}\n{}", outcome.launcher);
    outcome
}

/// The losses of a run in one process to which nothing happens.
fn undisturbed(steps: u64) -> Vec<f32> {
    let net = trainer(&Mesh::linear("data", RANKS as i64).unwrap());
    let mut state = net.init(&start()).unwrap();
    let mut losses = vec![];
    for step in 0..steps {
        let (loss, next) = net.step(&state, &batch(step)).unwrap();
        losses.push(loss.item::<f32>().unwrap());
        state = next;
    }
    losses
}

fn trials(fault: Fault, count: u64, seed: u64) {
    let folder = std::env::temp_dir().join(format!("meshwork_faults_{fault:?}_{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let mut random = seed;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    let (mut losses, mut before) = (undisturbed(200), None);
    let (mut slowest, mut unfinished) = (0.0f64, 0);
    for trial in 0..count {
        let (rank, delay) = (next(RANKS as u64) as usize, Duration::from_micros(next(120_000)));
        let how = match fault {
            Fault::DivergeSaving => SAVING_OTHERWISE[trial as usize % SAVING_OTHERWISE.len()],
            Fault::Kill | Fault::Stop | Fault::Diverge => "program",
        };
        let outcome = run(&folder, fault, how, rank, delay);
        let what = format!("trial {trial}: {fault:?} ({how}) of rank {rank} after {delay:?}\n{outcome:#?}");
        // The next start went on from the last complete checkpoint, and nothing since was lost.
        assert_eq!(outcome.resumed, before, "{what}");
        assert_eq!(outcome.losses.first().map(|l| l.0), Some(before.unwrap_or(0)), "{what}");
        // The same losses as if nothing had happened.
        let last = outcome.losses.last().map_or(0, |l| l.0);
        if last as usize >= losses.len() {
            losses = undisturbed(2 * last);
        }
        for (step, loss) in &outcome.losses {
            assert!((loss - losses[*step as usize]).abs() < 1e-4, "step {step}: {what}");
        }
        // Each survivor says which rank it was and what about it.
        for (survivor, said) in outcome.said.iter().enumerate().filter(|&(r, _)| r != rank) {
            let says = |text: &str| said.contains(&format!("rank {rank} {text}"));
            let is_late = says("has not written its part") || says("has not completed the checkpoint");
            let right = match fault {
                Fault::Kill => says("has died") || is_late,
                Fault::Stop => says("does not answer") || is_late,
                Fault::Diverge => says("") && said.contains("do different things"),
                // What it says of itself is known too, if it notices first.
                Fault::DivergeSaving => match how {
                    "while-writing" => says("") && said.contains("do different things"),
                    "another-tree" => says("saves another tree") || says("panicked"),
                    _ => is_late || says("panicked"),
                },
            };
            assert!(right, "rank {survivor} does not say what happened\n{what}");
        }
        slowest = slowest.max(outcome.seconds);

        // A reader finds the last checkpoint that was reported, or a newer one, whole.
        let has_rest = |name: &str| name.starts_with(".saving");
        let names = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        unfinished += usize::from(names.into_iter().any(|e| has_rest(&e.file_name().to_string_lossy())));
        let found = Checkpoints::open(&folder).unwrap().latest().unwrap();
        if let Some(found) = &found {
            assert!(found.skipped().is_empty(), "{what}");
            found.verify().unwrap();
        }
        before = found.map(|f| f.step());
        assert!(before >= outcome.saved && before >= outcome.resumed, "{what}: found {before:?}");
    }
    println!("{count} x {fault:?}: {unfinished} while saving, at most {slowest:.1} s from the fault to the end");
    assert!(slowest < DEADLINE + 20.0, "{slowest}");
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_killed_stopped_or_misled_process_of_four_ends_them_all_in_time_and_nothing_saved_is_lost() {
    // Those that stop are mostly waited for.
    let stopped = std::thread::spawn(|| trials(Fault::Stop, 12, 2));
    trials(Fault::DivergeSaving, 8, 4);
    trials(Fault::Diverge, 14, 3);
    trials(Fault::Kill, 20, 1);
    stopped.join().unwrap();
}
