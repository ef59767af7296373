//! Training that is killed again and again, and goes on with other numbers of processes: no step that was confirmed is
//! lost, and the losses are those of a run to which nothing happens. `scripts/soak` does it for an hour.
#![cfg(all(feature = "mpi", feature = "checkpoints"))]

mod training;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use meshwork::Runtime;
use meshwork_testing::{Folder, ranks};
use training::{Reported, Undisturbed, last_saved, train};

const FOLDER: &str = "MESHWORK_TEST_SOAK_FOLDER";
const LAST: &str = "MESHWORK_TEST_SOAK_LAST";
/// How long to go on, in place of a few rounds.
const SECONDS: &str = "MESHWORK_SOAK_SECONDS";

/// Not a test: what the next one runs on several processes.
#[test]
fn ranks_that_train() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let last = std::env::var(LAST).unwrap().parse().unwrap();
    let rank = Runtime::init().unwrap().rank();
    println!("\npid {rank} {}", std::process::id());
    train(Path::new(&folder), last, |line| {
        if rank == 0 {
            println!("\n{line}");
        }
    });
}

/// What is done to a job.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// One of its processes is killed.
    One(usize),
    /// All of them, as by loss of power.
    All,
}

/// Starts `size` ranks; when `after` steps were made, does something to them. Returns what they have reported.
fn run(folder: &Path, size: usize, last: u64, fault: Option<(Fault, u64)>) -> Reported {
    let mut command = ranks::command(size, "ranks_that_train");
    command.env(FOLDER, folder).env(LAST, last.to_string()).env("MESHWORK_THREADS", "1").env("MESHWORK_DEADLINE", "60");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut reported = Reported::default();
    let mut pids = BTreeMap::new();
    let mut done = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok) {
        reported.read(&line);
        if let ["pid", rank, pid] = line.split_whitespace().collect::<Vec<_>>()[..] {
            pids.insert(rank.parse::<usize>().unwrap(), pid.to_string());
        }
        let Some((fault, after)) = fault else { continue };
        if !done && reported.losses.len() as u64 >= after && pids.len() == size {
            let victims = match fault {
                Fault::One(rank) => vec![pids[&rank].clone()],
                Fault::All => pids.values().cloned().collect(),
            };
            assert!(Command::new("kill").arg("-9").args(victims).status().unwrap().success());
            done = true;
        }
    }
    let status = child.wait().unwrap();
    assert_eq!(status.success(), fault.is_none(), "{fault:?}: {status}, {reported:?}");
    reported
}

#[test]
fn training_survives_kills_and_other_numbers_of_processes() {
    let seconds = std::env::var(SECONDS).ok().and_then(|n| n.parse().ok());
    let end = seconds.map(|n| Instant::now() + Duration::from_secs(n));
    let folder = Folder::unused("soak");
    let folder = folder.path();
    let (mut random, mut undisturbed) = (7u64, Undisturbed::new());
    let mut next = |below: u64| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    let (mut before, mut rounds, mut steps) = (None, 0, 0);
    loop {
        let size = 1 + (3 + next(4) as usize + rounds) % 4;
        let fault = if next(4) == 0 { Fault::All } else { Fault::One(next(size as u64) as usize) };
        let after = 1 + next(40);
        let reported = run(folder, size, u64::MAX, Some((fault, after)));
        reported.check(before, &mut undisturbed);
        let found = last_saved(folder);
        assert!(
            found >= reported.saved && found >= before,
            "round {rounds}: {found:?} of {reported:?} after {before:?}"
        );
        (before, rounds, steps) = (found, rounds + 1, steps + reported.losses.len());
        if end.map_or(rounds == 8, |end| Instant::now() >= end) {
            break;
        }
    }
    let last = before.unwrap_or(0) + 6;
    let reported = run(folder, 4, last, None);
    reported.check(before, &mut undisturbed);
    assert_eq!((reported.saved, last_saved(folder)), (Some(last), Some(last)));
    println!("{rounds} jobs were killed in {steps} steps; {last} steps are saved, and every loss is as it should be");
}
