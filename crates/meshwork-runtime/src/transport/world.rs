//! The processes that run one program together, as one of them sees them.
//!
//! A process is in at most one world of more than one, for as long as it lives. Everything that crosses processes
//! goes through [`Swap`](super::swap::Swap), one after the other.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::control::ControlMessage;
use super::flight_recorder::FlightRecorder;
use super::launcher;
use super::link::{Address, Lane, Link};
use super::stamp::Stamp;
use super::{calls, exit};

/// The processes that were started together; at least two.
pub struct World {
    pub(super) link: Link,
    /// The number of this process.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// Milliseconds.
    deadline: AtomicU64,
    devices_per_rank: AtomicUsize,
    pub(super) inner: Mutex<Inner>,
    runs: AtomicU64,
    /// Held while a program runs, so that the messages of two do not mix.
    turns: Mutex<()>,
    pub(super) peers: OnceLock<Vec<Peer>>,
    crowded: OnceLock<bool>,
}

/// What changes as messages come and go.
pub(super) struct Inner {
    pub news: News,
    /// Memory for stamps and short messages, kept for the next.
    pub spare: Vec<Vec<u8>>,
    pub record: FlightRecorder,
    pub epoch: u32,
}

/// What other processes have reported.
pub(super) struct News {
    /// Why the job is broken.
    pub broken: Option<String>,
    /// A run that failed elsewhere, who says so, and why.
    pub failed: Option<(u64, usize, String)>,
    /// Of each process: whether its program has ended.
    pub left: Vec<bool>,
    /// Of each process: one more than the last failed run for which it sends nothing more.
    pub over: Vec<u64>,
    /// Of each process: the process it waits for, and in which operation.
    pub waits: Vec<Option<(usize, String)>>,
    /// Of each process: whether it asked what this one waits for.
    pub asked: Vec<bool>,
}

/// Another process.
pub(super) struct Peer {
    pub host: String,
    pub pid: u32,
}

/// Why a collective operation of processes failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// This run or call failed, on all of them; others can follow.
    #[error("{0}")]
    Failed(String),
    /// A process is lost, stuck or does something else: the job ends.
    #[error("{0}")]
    Broken(String),
}

meshwork_mesh::debug_as_display!(ProcessError);

/// The default deadline.
const DEADLINE: Duration = Duration::from_secs(60);

static WORLD: OnceLock<Result<Option<World>, String>> = OnceLock::new();

/// The world of this process, if it has been joined and has more than one process.
pub fn world() -> Option<&'static World> {
    WORLD.get().and_then(|w| w.as_ref().ok()).and_then(Option::as_ref)
}

/// Joins the world, the first time; `None` for a process on its own.
pub fn join() -> Result<Option<&'static World>, String> {
    let mut fresh = false;
    let joined = WORLD.get_or_init(|| {
        let Some(launch) = launcher::launched().filter(|l| l.size > 1) else { return Ok(None) };
        let started = || format!("started by {} as one of {} processes", launch.by, launch.size);
        let link = Link::open().map_err(|e| format!("{}, but {e}", started()))?;
        if link.size() == 1 {
            return Err(format!(
                "{}, but the MPI library it was built with sees only this one: is it that of another launcher?",
                started()
            ));
        }
        fresh = true;
        Ok(Some(World::new(link)))
    });
    let world = joined.as_ref().map_err(Clone::clone)?.as_ref();
    if let (true, Some(world)) = (fresh, world) {
        exit::install(world);
        let own = format!("{}\n{}", host(), std::process::id());
        let all = calls::all_gather(world, own.as_bytes()).map_err(|e| e.to_string())?;
        let peers = all.iter().map(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            let (host, pid) = text.split_once('\n').unwrap_or((&text, ""));
            Peer { host: host.to_string(), pid: pid.parse().unwrap_or(0) }
        });
        let _ = world.peers.set(peers.collect());
    }
    Ok(world)
}

impl World {
    fn new(link: Link) -> World {
        let (rank, size) = (link.rank(), link.size());
        let number = |name: &str| std::env::var(name).ok().and_then(|v| v.trim().parse::<f64>().ok());
        let deadline = number("MESHWORK_DEADLINE").filter(|&s| s > 0.0);
        let deadline = deadline.map_or(DEADLINE, Duration::from_secs_f64);
        let devices = number("MESHWORK_DEVICES_PER_RANK").map_or(1, |n| n as usize).max(1);
        let news = News {
            broken: None,
            failed: None,
            left: vec![false; size],
            over: vec![0; size],
            waits: vec![None; size],
            asked: vec![false; size],
        };
        World {
            link,
            rank,
            size,
            deadline: AtomicU64::new(deadline.as_millis() as u64),
            devices_per_rank: AtomicUsize::new(devices),
            inner: Mutex::new(Inner { news, spare: vec![], record: FlightRecorder::default(), epoch: 0 }),
            runs: AtomicU64::new(0),
            turns: Mutex::default(),
            peers: OnceLock::new(),
            crowded: OnceLock::new(),
        }
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline.load(Ordering::Relaxed))
    }

    pub(crate) fn set_deadline(&self, deadline: Duration) {
        self.deadline.store(deadline.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn devices_per_rank(&self) -> usize {
        self.devices_per_rank.load(Ordering::Relaxed)
    }

    pub(crate) fn set_devices_per_rank(&self, devices: usize) {
        self.devices_per_rank.store(devices.max(1), Ordering::Relaxed);
    }

    /// The number of the next run or call; the same on all processes, because all do the same.
    pub fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// The right to run a program.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes on this machine, this one among them.
    pub fn neighbours(&self) -> usize {
        let Some(peers) = self.peers.get() else { return self.size };
        peers.iter().filter(|p| p.host == peers[self.rank].host).count()
    }

    /// Whether there are more processes than cores here: a waiting process must yield.
    pub(super) fn is_crowded(&self) -> bool {
        if self.peers.get().is_none() {
            return true;
        }
        // Asking takes longer than a short message.
        *self.crowded.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()) < self.neighbours())
    }

    /// The other processes.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let rank = self.rank;
        (0..self.size).filter(move |&r| r != rank)
    }

    /// Sends a control message to all others.
    pub(super) fn announce(&self, note: &ControlMessage) {
        self.others().for_each(|peer| self.link.note(peer, note.write()));
    }

    /// Which process has `device`, of `devices` in all: contiguous blocks, the first ones one longer.
    pub fn rank_of(&self, device: usize, devices: usize) -> usize {
        let (each, more) = (devices / self.size, devices % self.size);
        let long = more * (each + 1);
        if device < long { device / (each + 1) } else { more + (device - long) / each.max(1) }
    }

    /// Which of `devices` devices are here.
    pub fn local_devices(&self, devices: usize) -> std::ops::Range<usize> {
        local_devices(self.rank, self.size, devices)
    }

    /// Announces that `run` has failed `here`, or that this process knows that it failed elsewhere, and waits until all
    /// know. Then nothing of that run is in flight any more. Returns the lowest other process in which it failed.
    pub fn settle(&self, run: u64, why: &str, here: bool) -> Result<Option<(usize, String)>, ProcessError> {
        let mut inner = self.lock();
        if let Some(text) = &inner.news.broken {
            return Err(ProcessError::Broken(text.clone()));
        }
        if here {
            self.announce(&ControlMessage::Failed { run, text: why.to_string() });
        }
        self.announce(&ControlMessage::Over { run });
        let start = Instant::now();
        while let Some(late) = self.others().find(|&r| inner.news.over[r] <= run) {
            self.read_notes(&mut inner);
            if let Some(text) = &inner.news.broken {
                return Err(ProcessError::Broken(text.clone()));
            }
            if start.elapsed() > self.deadline() {
                let text = format!("rank {late} did not notice within {:?} that a run failed: {why}", self.deadline());
                return Err(self.broke(&mut inner, text));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let failed = inner.news.failed.take();
        inner.epoch += 1;
        self.link.set_epoch(inner.epoch);
        Ok(failed.map(|(_, rank, text)| (rank, text)))
    }

    /// Whether another process said that `run` failed there.
    pub fn failed_elsewhere(&self, run: u64) -> bool {
        self.lock().news.failed.as_ref().is_some_and(|f| f.0 == run)
    }

    /// Whether a message of another process to this one has arrived.
    pub(super) fn has_message(&self, from: usize) -> Result<bool, ProcessError> {
        let mut inner = self.lock();
        if let Some(text) = &inner.news.broken {
            return Err(ProcessError::Broken(text.clone()));
        }
        let found = self.link.probe(Address { peer: from, lane: Lane::PointToPoint });
        found.map_err(|e| self.broke(&mut inner, format!("MPI on rank {}: {e}", self.rank)))
    }

    /// Reads the control messages of the others.
    pub(super) fn read_notes(&self, inner: &mut Inner) {
        while let Some((from, bytes)) = self.link.read_note() {
            let news = &mut inner.news;
            match ControlMessage::read(&bytes) {
                Some(ControlMessage::Ask) => news.asked[from] = true,
                Some(ControlMessage::Waits { for_rank, text }) => news.waits[from] = Some((for_rank, text)),
                Some(ControlMessage::Failed { run, text }) => {
                    // The lowest process counts, so that all report the same.
                    let earlier = news.failed.as_ref();
                    if earlier.is_none_or(|f| f.0 < run || (f.0 == run && from < f.1)) {
                        news.failed = Some((run, from, text));
                    }
                }
                Some(ControlMessage::Over { run }) => news.over[from] = news.over[from].max(run + 1),
                Some(ControlMessage::Broken(text)) if news.broken.is_none() => {
                    news.broken = Some(text.clone());
                    inner.record.publish(self.rank, &text);
                }
                Some(ControlMessage::Broken(_)) => {}
                Some(ControlMessage::Left) => news.left[from] = true,
                None => {}
            }
        }
    }

    /// Marks the job as broken: announces it, writes the record, and returns the error.
    pub(super) fn broke(&self, inner: &mut Inner, text: String) -> ProcessError {
        let text = inner.news.broken.clone().unwrap_or_else(|| {
            self.announce(&ControlMessage::Broken(text.clone()));
            inner.news.broken = Some(text.clone());
            inner.record.publish(self.rank, &text);
            text
        });
        ProcessError::Broken(text)
    }

    /// Whether a process of this machine has died.
    pub(super) fn is_dead(&self, rank: usize) -> bool {
        let Some(peers) = self.peers.get() else { return false };
        let (own, peer) = (&peers[self.rank], &peers[rank]);
        own.host == peer.host && peer.pid != 0 && is_gone(peer.pid)
    }
}

/// Whether process `pid` does not exist or is a zombie.
fn is_gone(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the name, which is in parentheses and may hold any.
        Ok(stat) => {
            stat.rsplit_once(')').is_some_and(|(_, rest)| matches!(rest.trim_start().chars().next(), Some('Z' | 'X')))
        }
        Err(e) => e.kind() == std::io::ErrorKind::NotFound && std::path::Path::new("/proc/self/stat").exists(),
    }
}

/// The part of `devices` devices that process `rank` of `size` has.
pub fn local_devices(rank: usize, size: usize, devices: usize) -> std::ops::Range<usize> {
    let (each, more) = (devices / size, devices % size);
    let start = |r: usize| r * each + r.min(more);
    start(rank)..start(rank + 1)
}

/// The host name.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    name.map(|n| n.trim().to_string()).unwrap_or_default()
}

/// The header of a message.
pub fn stamp(plan: u64, run: u64, op: u64, bytes: u64) -> Stamp {
    Stamp { plan, run, op, bytes, refusal: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_spread_in_blocks_and_none_is_lost() {
        for size in 1..6 {
            for devices in 0..20 {
                let mut next = 0;
                for rank in 0..size {
                    let range = local_devices(rank, size, devices);
                    assert_eq!(range.start, next);
                    assert!(range.len() == devices / size || range.len() == devices / size + 1);
                    next = range.end;
                }
                assert_eq!(next, devices);
            }
        }
    }

    #[test]
    fn this_process_is_not_gone_and_an_impossible_one_is() {
        assert!(!is_gone(std::process::id()));
        assert!(is_gone(u32::MAX));
    }
}
