//! Training across hosts that are network namespaces of this machine: a network that is slow, cut for a while or for
//! good, and hosts that are lost.
#![cfg(all(feature = "mpi", feature = "checkpoints", target_os = "linux"))]

mod training;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use meshwork::Runtime;
use meshwork_testing::Folder;
use meshwork_testing::hosts::Hosts;
use training::{Reported, Undisturbed, last_saved, train};

const FOLDER: &str = "MESHWORK_TEST_HOSTS_FOLDER";
const LAST: &str = "MESHWORK_TEST_HOSTS_LAST";

/// Where a rank reports: its output may not reach the launcher.
fn log(folder: &Path, rank: usize) -> PathBuf {
    folder.with_extension(format!("rank{rank}"))
}

/// Not a test: what the next ones run on several hosts.
#[test]
fn ranks_that_train() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let last = std::env::var(LAST).unwrap().parse().unwrap();
    let folder = Path::new(&folder);
    let rank = Runtime::init().unwrap().rank();
    let report = |line: String| {
        let file = OpenOptions::new().create(true).append(true).open(log(folder, rank));
        file.and_then(|mut file| writeln!(file, "{line}")).unwrap();
    };
    let hook = std::panic::take_hook();
    let (own, at) = (log(folder, rank), std::process::id());
    std::panic::set_hook(Box::new(move |info| {
        let file = OpenOptions::new().create(true).append(true).open(&own);
        let _ = file.and_then(|mut file| writeln!(file, "failed {at} {}", info.to_string().replace('\n', " ")));
        hook(info);
    }));
    train(folder, last, report);
}

/// A job on some hosts.
struct Job<'a> {
    hosts: &'a Hosts,
    folder: &'a Path,
    ranks: usize,
    launcher: Child,
}

impl<'a> Job<'a> {
    fn start(hosts: &'a Hosts, folder: &'a Path, ranks: usize, last: u64, deadline: u64) -> Job<'a> {
        (0..ranks).for_each(|rank| drop(std::fs::remove_file(log(folder, rank))));
        let mut command = hosts.command(1, "ranks_that_train");
        command.env(FOLDER, folder).env(LAST, last.to_string());
        command.env("MESHWORK_DEADLINE", deadline.to_string()).env("MESHWORK_THREADS", "1");
        let launcher = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Job { hosts, folder, ranks, launcher }
    }

    fn text(&self, rank: usize) -> String {
        std::fs::read_to_string(log(self.folder, rank)).unwrap_or_default()
    }

    fn reported(&self, rank: usize) -> Reported {
        let mut reported = Reported::default();
        self.text(rank).lines().for_each(|line| reported.read(line));
        reported
    }

    /// Waits until `is_so`, or until it is clear that it never will be.
    fn wait_until(&mut self, what: &str, mut is_so: impl FnMut(&mut Job<'_>) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            let texts: Vec<String> = (0..self.ranks).map(|rank| self.text(rank)).collect();
            assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not happen\n{}", texts.join("\n"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait_for_steps(&mut self, steps: usize) {
        self.wait_until("training", |job| job.reported(0).losses.len() >= steps);
    }

    fn has_ended(&mut self) -> bool {
        self.launcher.try_wait().unwrap().is_some()
    }

    /// The end of a job to which nothing bad happened.
    fn succeed(mut self) -> Reported {
        self.wait_until("the end", |job| job.has_ended());
        let status = self.launcher.wait().unwrap();
        assert!(status.success(), "{status}\n{}", self.text(0));
        self.reported(0)
    }

    /// All ranks but `lost` say what is wrong and end; then the launcher does, once it can reach the hosts.
    fn fail(mut self, lost: Option<usize>) -> Reported {
        for rank in (0..self.ranks).filter(|&rank| Some(rank) != lost) {
            self.wait_until(&format!("the error of rank {rank}"), |job| job.text(rank).contains("failed "));
            let text = self.text(rank);
            let named = ["does not answer", "has died", "has not written its part", "has not completed the checkpoint"];
            assert!(named.iter().any(|what| text.contains(what)) || text.contains("rank "), "{text}");
        }
        (0..self.ranks).for_each(|host| self.hosts.join(host));
        self.wait_until("the end of the launcher", |job| job.has_ended());
        assert!(!self.launcher.wait().unwrap().success());
        self.reported(0)
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

/// Where a run goes on, and what its losses are to be.
struct Run {
    folder: Folder,
    before: Option<u64>,
    undisturbed: Undisturbed,
}

impl Run {
    fn new(name: &str) -> Run {
        Run { folder: Folder::unused(name), before: None, undisturbed: Undisturbed::new() }
    }

    fn last(&self, steps: u64) -> u64 {
        self.before.unwrap_or(0) + steps
    }

    /// What a job has reported is right, and what it confirmed is there.
    fn check(&mut self, reported: &Reported) {
        reported.check(self.before, &mut self.undisturbed);
        let found = last_saved(self.folder.path());
        assert!(found >= reported.saved && found >= self.before, "{found:?} of {reported:?}");
        self.before = found;
    }
}

#[test]
fn training_goes_on_with_other_numbers_of_hosts() {
    let mut run = Run::new("hosts_numbers");
    for count in [2, 4, 3] {
        let Some(hosts) = Hosts::new(&format!("n{count}"), count) else { return };
        let reported = Job::start(&hosts, run.folder.path(), count, run.last(6), 60).succeed();
        assert_eq!(reported.losses.len(), 6);
        run.check(&reported);
        assert_eq!(run.before, reported.saved);
    }
}

#[test]
fn a_link_that_is_cut_and_restored_in_time_changes_nothing() {
    let mut run = Run::new("hosts_link");
    let Some(hosts) = Hosts::new("l", 3) else { return };
    let mut job = Job::start(&hosts, run.folder.path(), 3, run.last(40), 60);
    for steps in [3, 12] {
        job.wait_for_steps(steps);
        hosts.cut(1);
        // Whatever was under way waits now.
        std::thread::sleep(Duration::from_millis(300));
        hosts.join(1);
    }
    let reported = job.succeed();
    assert_eq!(reported.losses.len(), 40);
    run.check(&reported);
}

#[test]
fn a_network_that_is_cut_for_good_or_a_lost_host_ends_the_job_and_nothing_confirmed_is_lost() {
    let mut run = Run::new("hosts_lost");
    for round in 0..2 {
        let Some(hosts) = Hosts::new(&format!("p{round}"), 3) else { return };
        let mut job = Job::start(&hosts, run.folder.path(), 3, u64::MAX, 3);
        job.wait_for_steps(5 + round);
        let lost = match round {
            0 => {
                hosts.cut(2);
                None
            }
            _ => {
                hosts.lose(2);
                Some(2)
            }
        };
        let reported = job.fail(lost);
        run.check(&reported);
    }
    // On the hosts that are left.
    let Some(hosts) = Hosts::new("left", 2) else { return };
    let reported = Job::start(&hosts, run.folder.path(), 2, run.last(6), 60).succeed();
    run.check(&reported);
}

#[test]
fn a_slow_network_that_loses_packets_changes_nothing() {
    let mut run = Run::new("hosts_slow");
    let Some(hosts) = Hosts::new("s", 2) else { return };
    for host in 0..2 {
        if let Err(why) = hosts.disturb(host, "delay 3ms 1ms loss 1%") {
            eprintln!("skipped: this kernel cannot delay packets ({why})");
            return;
        }
    }
    let reported = Job::start(&hosts, run.folder.path(), 2, run.last(10), 60).succeed();
    run.check(&reported);
}
