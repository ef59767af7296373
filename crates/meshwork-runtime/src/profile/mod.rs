//! What ran when: a record of a run on all devices of all processes, as a table and as a trace for Chrome and Perfetto.
//!
//! | file | contents |
//! |---|---|
//! | `recorder` | notes what runs |
//! | `gather` | the records of all processes on one clock |
//! | `split` | which part of a collective is waiting for others, and which is moving data |

mod gather;
mod recorder;
mod split;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;

use meshwork_eval::Stats;
use meshwork_mesh::{notebook, sort_by_key};
use serde_json::{Value, json};

use crate::engine::{Fallback, MemoryUse};

pub use gather::{OwnRecord, alone};
pub use recorder::{Names, Recorder};

/// What a device does in an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Activity {
    /// It computes.
    #[default]
    Computing,
    /// It sends, receives or combines data of a collective.
    Moving,
    /// It has come to a collective that others have not come to.
    Waiting,
    /// It gets memory for a run.
    Allocating,
}

impl Activity {
    /// All of them.
    pub const ALL: [Activity; 4] = [Activity::Computing, Activity::Moving, Activity::Waiting, Activity::Allocating];

    /// The category of such events in a trace.
    fn category(self) -> &'static str {
        match self {
            Activity::Computing => "step",
            Activity::Moving => "collective",
            Activity::Waiting => "waiting",
            Activity::Allocating => "allocation",
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Activity::Computing => "computing",
            Activity::Moving => "moving",
            Activity::Waiting => "waiting",
            Activity::Allocating => "allocating",
        })
    }
}

/// One thing that ran.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// What, as in the plan.
    pub name: String,
    /// What the device does in it.
    pub activity: Activity,
    /// In which process.
    pub rank: u32,
    /// On which device.
    pub device: u32,
    /// On which thread of the process.
    pub thread: u32,
    /// From when, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// Until when.
    pub end_ns: u64,
    /// Bytes of memory that it gets; 0 for other events than allocations.
    pub bytes: u64,
}

impl Event {
    /// Whether it is communication: waiting for others or moving data.
    pub fn is_collective(&self) -> bool {
        matches!(self.activity, Activity::Moving | Activity::Waiting)
    }

    fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What ran when.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    /// Everything that ran, on the devices of all processes, by its start.
    pub events: Vec<Event>,
    /// How long it took.
    pub total_ns: u64,
    /// What runs on the evaluator instead of the engine.
    pub fallbacks: Vec<Fallback>,
    /// What the program printed; only the evaluator runs such programs.
    pub printed: Vec<String>,
    /// What the evaluator counted on device 0, if it ran the program.
    pub stats: Option<Stats>,
    /// The memory of each device after the run; none if the engine does not know.
    pub memory: Vec<MemoryUse>,
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
            entry.1 += e.ns();
        }
        let total = |(name, (count, ns)): (&str, (u64, u64))| Total { name: name.into(), count, ns };
        let mut all: Vec<Total> = by_name.into_iter().map(total).collect();
        sort_by_key(&mut all, |t| std::cmp::Reverse(t.ns));
        all.truncate(count);
        all
    }

    /// Nanoseconds of an activity, summed over devices and parts.
    pub fn ns_of(&self, activity: Activity) -> u64 {
        self.events.iter().filter(|e| e.activity == activity).map(Event::ns).sum()
    }

    /// The table of [`top`](Profile::top), with what each activity took below it.
    pub fn table(&self, count: usize) -> String {
        let mut out = format!("{:>12} {:>9} {:>6}  step\n", "time ms", "count", "share");
        let all: u64 = self.events.iter().map(Event::ns).sum();
        for t in self.top(count) {
            let share = 100.0 * t.ns as f64 / all.max(1) as f64;
            let _ = writeln!(out, "{:>12.3} {:>9} {share:>5.1}%  {}", t.ns as f64 / 1e6, t.count, t.name);
        }
        let devices: BTreeSet<u32> = self.events.iter().map(|e| e.device).collect();
        if !devices.is_empty() {
            let spent = Activity::ALL.map(|a| format!("{a} {:.3} ms", self.ns_of(a) as f64 / 1e6));
            let s = if devices.len() == 1 { "" } else { "s" };
            let _ = writeln!(out, "{}, over {} device{s}", spent.join(", "), devices.len());
        }
        out
    }

    /// Shows the table of the twenty longest in a notebook of evcxr.
    pub fn evcxr_display(&self) {
        println!("{}", notebook::content(&notebook::preformatted(&self.table(20))));
    }

    /// Writes [`chrome_trace`](Profile::chrome_trace) to a file, for <https://ui.perfetto.dev>.
    pub fn write_trace(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.chrome_trace())
    }

    /// A trace in the format that Chrome and Perfetto read: one process per device, one row per thread, and the bytes that
    /// each device has allocated.
    pub fn chrome_trace(&self) -> String {
        let rows: BTreeSet<(u32, u32, u32)> = self.events.iter().map(|e| (e.device, e.rank, e.thread)).collect();
        let several = rows.iter().any(|&(_, rank, _)| rank > 0);
        let names = rows.into_iter().flat_map(|(device, rank, thread)| {
            let named = |what: &str, name: String| {
                json!({ "ph": "M", "name": what, "pid": device, "tid": thread, "args": { "name": name } })
            };
            let of_rank = if several { format!(" (rank {rank})") } else { String::new() };
            let process = format!("device {device}{of_rank}");
            [named("process_name", process), named("thread_name", format!("thread {thread}"))]
        });
        let mut allocated: BTreeMap<u32, u64> = BTreeMap::new();
        let events = self.events.iter().flat_map(|e| {
            let (start, length) = (e.start_ns as f64 / 1e3, e.ns() as f64 / 1e3);
            let (kind, device, thread) = (e.activity.category(), e.device, e.thread);
            let mut event = json!({
                "ph": "X", "name": e.name, "cat": kind, "pid": device, "tid": thread, "ts": start, "dur": length,
            });
            let mut counter = None;
            if e.bytes > 0 {
                event["args"] = json!({ "bytes": e.bytes });
                let sum = allocated.entry(device).or_default();
                *sum += e.bytes;
                let at = e.end_ns as f64 / 1e3;
                counter =
                    Some(json!({ "ph": "C", "name": "allocated", "pid": device, "ts": at, "args": { "bytes": *sum } }));
            }
            std::iter::once(event).chain(counter)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_and_traces_tell_activities_apart() {
        let event = |name: &str, activity, device, start_ns, end_ns, bytes| Event {
            name: name.into(),
            activity,
            rank: device,
            device,
            thread: 0,
            start_ns,
            end_ns,
            bytes,
        };
        let events = vec![
            event("allocate", Activity::Allocating, 0, 0, 1_000_000, 64),
            event("allocate", Activity::Allocating, 0, 1_000_000, 1_500_000, 36),
            event("dot at line 3", Activity::Computing, 1, 0, 4_000_000, 0),
            event("wait for all_reduce at line 3", Activity::Waiting, 0, 1_500_000, 4_000_000, 0),
            event("all_reduce at line 3", Activity::Moving, 0, 4_000_000, 5_000_000, 0),
            event("all_reduce at line 3", Activity::Moving, 1, 4_000_000, 5_000_000, 0),
        ];
        let profile = Profile { events, ..Profile::default() };
        let table = profile.table(2);
        assert!(table.contains("4.000         1  40.0%  dot at line 3"), "{table}");
        let last = "computing 4.000 ms, moving 2.000 ms, waiting 2.500 ms, allocating 1.500 ms, over 2 devices";
        assert_eq!(table.lines().last(), Some(last));
        let trace: Value = serde_json::from_str(&profile.chrome_trace()).unwrap();
        let list = trace["traceEvents"].as_array().unwrap();
        let of = |key: &str, value: &str| list.iter().filter(|e| e[key] == value).collect::<Vec<_>>();
        assert_eq!(of("cat", "waiting").len(), 1);
        assert_eq!(of("cat", "collective").len(), 2);
        assert_eq!(of("ph", "C").iter().map(|e| e["args"]["bytes"].as_u64().unwrap()).collect::<Vec<_>>(), [64, 100]);
        assert!(of("name", "process_name").iter().any(|e| e["args"]["name"] == "device 1 (rank 1)"), "{trace}");
    }
}
