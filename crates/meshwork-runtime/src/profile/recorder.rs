//! Notes what runs, by numbers; names come at the end.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::gather::{OwnRecord, Part, join};
use super::{Profile, split};
use crate::transport::world::ProcessError;

/// Notes what runs.
pub struct Recorder {
    start: Instant,
    events: Mutex<Vec<Raw>>,
}

/// An event by numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Raw {
    pub what: What,
    /// The step or collective.
    pub number: u32,
    pub device: u32,
    pub thread: u32,
    pub start: u64,
    pub end: u64,
    pub bytes: u64,
}

/// What was noted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum What {
    Step,
    /// A collective that all its devices do at the same time.
    Exchange,
    /// The end of an exchange that was only started before.
    Await,
    /// A part of a collective that waits for no other device.
    Move,
    Allocate,
}

/// What numbers of a recorder stand for.
pub trait Names {
    /// What a step is called.
    fn step(&self, number: u32) -> String;
    /// What a collective is called.
    fn exchange(&self, number: u32) -> String;
    /// The devices that a collective needs together, group by group.
    fn groups(&self, number: u32) -> &[Vec<usize>];
}

static THREADS: AtomicU32 = AtomicU32::new(0);
thread_local! {
    static THREAD: Cell<Option<u32>> = const { Cell::new(None) };
}

fn thread() -> u32 {
    THREAD.with(|t| {
        t.get().unwrap_or_else(|| {
            let number = THREADS.fetch_add(1, Ordering::Relaxed);
            t.set(Some(number));
            number
        })
    })
}

impl Recorder {
    /// A record that starts now.
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Recorder {
        Recorder { start: Instant::now(), events: Mutex::default() }
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Notes that step `number` ran on `device` from `start` until now.
    pub fn step(&self, number: u32, device: usize, start: u64) {
        self.add(What::Step, number, device, start, 0);
    }

    /// Notes that collective `number` ran on `device` from `start` until now.
    pub fn exchange(&self, number: u32, device: usize, start: u64) {
        self.add(What::Exchange, number, device, start, 0);
    }

    /// Notes that `device` ended collective `number`, which was only started before, from `start` until now.
    pub fn awaited(&self, number: u32, device: usize, start: u64) {
        self.add(What::Await, number, device, start, 0);
    }

    /// Notes that data of collective `number` came to `device` from `start` until now, when others had it ready.
    pub fn moved(&self, number: u32, device: usize, start: u64) {
        self.add(What::Move, number, device, start, 0);
    }

    /// Notes that `device` got `bytes` of memory from `start` until now.
    pub fn allocated(&self, device: usize, bytes: usize, start: u64) {
        self.add(What::Allocate, 0, device, start, bytes as u64);
    }

    fn add(&self, what: What, number: u32, device: usize, start: u64, bytes: u64) {
        let raw = Raw { what, number, device: device as u32, thread: thread(), start, end: self.now(), bytes };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(raw);
    }

    /// The record of all processes, with names. `share` takes what this process has and returns what all have, in order of
    /// rank; [`alone`](super::alone) is for a process that has no others.
    pub fn finish(
        self,
        names: &impl Names,
        share: impl FnOnce(&OwnRecord<'_>) -> Result<Vec<Vec<u8>>, ProcessError>,
    ) -> Result<Profile, ProcessError> {
        let total_ns = self.now();
        let raws = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        let named = |raw: Raw| {
            let name = match raw.what {
                What::Step => names.step(raw.number),
                What::Exchange | What::Await | What::Move => names.exchange(raw.number),
                What::Allocate => "allocate".to_string(),
            };
            (raw, name)
        };
        let own = OwnRecord { recorder: &self, part: Part::new(raws.into_iter().map(named)) };
        let joined = join(&share(&own)?)?;
        Ok(Profile { events: split::events(joined, &|number| names.groups(number)), total_ns, ..Profile::default() })
    }
}
