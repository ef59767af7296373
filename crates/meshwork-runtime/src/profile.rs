//! What ran when: a record of a run, and the Chrome trace it makes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use meshwork_eval::Stats;
use serde_json::{Value, json};

use crate::engine::Fallback;

/// Notes what runs.
pub struct Recorder {
    start: Instant,
    events: Mutex<Vec<Raw>>,
}

#[derive(Clone, Copy)]
struct Raw {
    number: u32,
    what: What,
    device: u32,
    thread: u32,
    start: u64,
    end: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Step,
    Exchange,
    /// The end of an exchange that was only started before.
    Await,
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
        self.add(What::Step, number, device, start);
    }

    /// Notes that collective `number` ran on `device` from `start` until now.
    pub fn exchange(&self, number: u32, device: usize, start: u64) {
        self.add(What::Exchange, number, device, start);
    }

    /// Notes that `device` waited for collective `number` from `start` until now.
    pub fn awaited(&self, number: u32, device: usize, start: u64) {
        self.add(What::Await, number, device, start);
    }

    fn add(&self, what: What, number: u32, device: usize, start: u64) {
        let raw = Raw { number, what, device: device as u32, thread: thread(), start, end: self.now() };
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(raw);
    }

    /// The record, with names.
    pub fn finish(self, step: impl Fn(u32) -> String, exchange: impl Fn(u32) -> String) -> Profile {
        let total_ns = self.now();
        let raw = self.events.into_inner().unwrap_or_else(PoisonError::into_inner);
        let event = |r: Raw| Event {
            name: match r.what {
                What::Step => step(r.number),
                What::Exchange => exchange(r.number),
                What::Await => format!("await {}", exchange(r.number)),
            },
            collective: r.what != What::Step,
            device: r.device,
            thread: r.thread,
            start_ns: r.start,
            end_ns: r.end,
        };
        Profile { events: raw.into_iter().map(event).collect(), total_ns, ..Profile::default() }
    }
}

/// One thing that ran.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// What, as in the plan.
    pub name: String,
    /// Whether it is communication.
    pub collective: bool,
    /// On which device.
    pub device: u32,
    /// On which thread.
    pub thread: u32,
    /// From when, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
}

/// What ran when.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    /// Everything that ran.
    pub events: Vec<Event>,
    /// How long it took.
    pub total_ns: u64,
    /// What runs on the evaluator instead of the engine.
    pub fallbacks: Vec<Fallback>,
    /// What the program printed; only the evaluator runs such programs.
    pub printed: Vec<String>,
    /// What the evaluator counted on device 0, if it ran the program.
    pub stats: Option<Stats>,
}

/// The time that all events of one name took.
#[derive(Clone, PartialEq, Debug)]
pub struct Total {
    /// What.
    pub name: String,
    /// How often, counting parts.
    pub count: u64,
    /// Nanoseconds, summed over devices and parts.
    pub ns: u64,
}

impl Profile {
    /// The names that took longest.
    pub fn top(&self, count: usize) -> Vec<Total> {
        let mut by_name: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for e in &self.events {
            let entry = by_name.entry(&e.name).or_default();
            entry.0 += 1;
            entry.1 += e.end_ns.saturating_sub(e.start_ns);
        }
        let total = |(name, (count, ns)): (&str, (u64, u64))| Total { name: name.into(), count, ns };
        let mut all: Vec<Total> = by_name.into_iter().map(total).collect();
        all.sort_by_key(|t| std::cmp::Reverse(t.ns));
        all.truncate(count);
        all
    }

    /// The table of [`top`](Profile::top).
    pub fn table(&self, count: usize) -> String {
        let mut out = format!("{:>12} {:>9} {:>6}  step\n", "time ms", "count", "share");
        let all: u64 = self.events.iter().map(|e| e.end_ns.saturating_sub(e.start_ns)).sum();
        for t in self.top(count) {
            let share = 100.0 * t.ns as f64 / all.max(1) as f64;
            let _ = writeln!(out, "{:>12.3} {:>9} {share:>5.1}%  {}", t.ns as f64 / 1e6, t.count, t.name);
        }
        out
    }

    /// A trace in the format that Chrome and Perfetto read: one process per device, one row per thread.
    pub fn chrome_trace(&self) -> String {
        let rows: BTreeSet<(u32, u32)> = self.events.iter().map(|e| (e.device, e.thread)).collect();
        let names = rows.into_iter().flat_map(|(device, thread)| {
            let named = |what: &str, name: String| {
                json!({ "ph": "M", "name": what, "pid": device, "tid": thread, "args": { "name": name } })
            };
            [named("process_name", format!("device {device}")), named("thread_name", format!("thread {thread}"))]
        });
        let events = self.events.iter().map(|e| {
            let kind = if e.collective { "collective" } else { "step" };
            let (start, length) = (e.start_ns as f64 / 1e3, e.end_ns.saturating_sub(e.start_ns) as f64 / 1e3);
            let (device, thread) = (e.device, e.thread);
            json!({ "ph": "X", "name": e.name, "cat": kind, "pid": device, "tid": thread, "ts": start, "dur": length })
        });
        let events: Vec<Value> = names.chain(events).collect();
        let mut trace = json!({ "traceEvents": events, "displayTimeUnit": "ns" });
        if !self.fallbacks.is_empty() {
            let fallbacks: Vec<String> = self.fallbacks.iter().map(Fallback::to_string).collect();
            trace["otherData"] = json!({ "fallbacks": fallbacks });
        }
        format!("{trace}\n")
    }
}
