//! A measured run, from a trace in the format of Chrome and Perfetto.

use meshwork_ir::hash::HashMap;
use meshwork_mesh::sort_by_key;
use serde_json::{Value, json};
use thiserror::Error;

/// A trace that cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It is no JSON.
    #[error("the trace is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has no list of events.
    #[error("the trace has no 'traceEvents' and is no list of events")]
    NoEvents,
}

#[derive(Clone, PartialEq, Debug)]
struct Event {
    process: i64,
    thread: i64,
    /// Nanoseconds.
    start: i64,
    length: i64,
    name: usize,
    activity: Activity,
    /// Bytes of memory that it gets, if it says so.
    bytes: i64,
}

/// What a device does in an event; its position is its number in the data.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Activity {
    Computing,
    Moving,
    Waiting,
    Allocating,
}

impl Activity {
    /// By the category of the event.
    fn of(category: &str) -> Activity {
        match category {
            "collective" => Activity::Moving,
            "waiting" => Activity::Waiting,
            "allocation" => Activity::Allocating,
            _ => Activity::Computing,
        }
    }
}

/// What ran when, by process and thread.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    names: Vec<String>,
    events: Vec<Event>,
    /// Names of processes.
    processes: Vec<(i64, String)>,
}

impl Run {
    /// Reads complete events (`X`), and pairs of begin and end (`B`, `E`). Others are left out.
    pub fn parse(text: &str) -> Result<Run, TraceError> {
        let trace: Value = serde_json::from_str(text)?;
        let list = trace.as_array().or_else(|| trace["traceEvents"].as_array()).ok_or(TraceError::NoEvents)?;
        let mut run = Run::default();
        let mut index: HashMap<String, usize> = HashMap::default();
        let mut open: HashMap<(i64, i64), Vec<(i64, &Value)>> = HashMap::default();
        for e in list {
            let (process, thread) = (number(&e["pid"]), number(&e["tid"]));
            let start = nanoseconds(&e["ts"]);
            let mut add = |from: &Value, start: i64, length: i64| {
                let name = from["name"].as_str().unwrap_or("").to_string();
                let next = run.names.len();
                let name = *index.entry(name).or_insert_with_key(|name| {
                    run.names.push(name.clone());
                    next
                });
                let activity = Activity::of(from["cat"].as_str().unwrap_or(""));
                let bytes = from["args"]["bytes"].as_i64().unwrap_or(0);
                run.events.push(Event { process, thread, start, length: length.max(0), name, activity, bytes });
            };
            match e["ph"].as_str() {
                Some("X") => add(e, start, nanoseconds(&e["dur"])),
                Some("B") => open.entry((process, thread)).or_default().push((start, e)),
                Some("E") => {
                    if let Some((begin, from)) = open.get_mut(&(process, thread)).and_then(Vec::pop) {
                        add(from, begin, start - begin);
                    }
                }
                Some("M") if e["name"] == "process_name" => {
                    let name = e["args"]["name"].as_str().unwrap_or("").to_string();
                    if run.processes.iter().all(|(p, _)| *p != process) {
                        run.processes.push((process, name));
                    }
                }
                _ => {}
            }
        }
        sort_by_key(&mut run.events, |e| (e.process, e.thread, e.start, -e.length));
        run.processes.sort();
        Ok(run)
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// In columns, times from the first event on.
    pub(crate) fn data(&self) -> Value {
        let first = self.events.iter().map(|e| e.start).min().unwrap_or(0);
        let column = |cell: &dyn Fn(&Event) -> Value| self.events.iter().map(cell).collect::<Value>();
        json!({
            "names": self.names,
            "processes": self.processes,
            "events": {
                "process": column(&|e| e.process.into()),
                "thread": column(&|e| e.thread.into()),
                "start": column(&|e| (e.start - first).into()),
                "length": column(&|e| e.length.into()),
                "name": column(&|e| e.name.into()),
                "activity": column(&|e| (e.activity as u8).into()),
                "bytes": column(&|e| e.bytes.into()),
            },
        })
    }
}

/// Process and thread numbers are sometimes written as text.
fn number(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// From microseconds.
fn nanoseconds(value: &Value) -> i64 {
    (value.as_f64().unwrap_or(0.0) * 1e3).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_events_and_pairs_are_read() {
        let text = r#"{"traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "device 1"}},
            {"ph": "B", "name": "outer", "pid": 1, "tid": 2, "ts": 10},
            {"ph": "X", "name": "inner", "cat": "collective", "pid": 1, "tid": 2, "ts": 11, "dur": 0.5},
            {"ph": "E", "pid": 1, "tid": 2, "ts": 13},
            {"ph": "E", "pid": 1, "tid": 2, "ts": 14},
            {"ph": "X", "name": "wait for inner", "cat": "waiting", "pid": 1, "tid": 2, "ts": 15, "dur": 1},
            {"ph": "X", "name": "allocate", "cat": "allocation", "pid": 1, "tid": 2, "ts": 16, "dur": 1, "args": {"bytes": 7}},
            {"ph": "C", "name": "counter", "pid": 1, "ts": 1}]}"#;
        let run = Run::parse(text).unwrap();
        let data = run.data();
        assert_eq!(data["names"], json!(["inner", "outer", "wait for inner", "allocate"]));
        assert_eq!(data["events"]["name"], json!([1, 0, 2, 3]));
        assert_eq!(data["events"]["start"], json!([0, 1000, 5000, 6000]));
        assert_eq!(data["events"]["length"], json!([3000, 500, 1000, 1000]));
        assert_eq!(data["events"]["activity"], json!([0, 1, 2, 3]));
        assert_eq!(data["events"]["bytes"], json!([0, 0, 0, 7]));
        assert_eq!(data["processes"], json!([[1, "device 1"]]));
    }

    #[test]
    fn what_is_no_trace_is_an_error() {
        assert!(matches!(Run::parse("{"), Err(TraceError::Json(_))));
        assert!(matches!(Run::parse("{}"), Err(TraceError::NoEvents)));
        assert!(Run::parse("[]").unwrap().is_empty());
    }
}
