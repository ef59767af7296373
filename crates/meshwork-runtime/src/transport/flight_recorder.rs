//! The flight recorder: the last operations of a process, written when the job breaks.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use super::stamp::Stamp;

/// The number of operations that are kept.
const LENGTH: usize = 64;

/// The last operations between processes.
#[derive(Default)]
pub(crate) struct FlightRecorder {
    entries: VecDeque<Entry>,
    /// The number of operations before the first of them.
    forgotten: u64,
}

struct Entry {
    stamp: Stamp,
    began: Instant,
    took: Option<Duration>,
}

impl FlightRecorder {
    /// Records the start of an operation; returns its number.
    pub(crate) fn begin(&mut self, stamp: Stamp) -> u64 {
        if self.entries.len() == LENGTH {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back(Entry { stamp, began: Instant::now(), took: None });
        self.forgotten + self.entries.len() as u64 - 1
    }

    /// The operation of this number has ended.
    pub(crate) fn end(&mut self, number: u64) {
        let at = number.checked_sub(self.forgotten);
        if let Some(entry) = at.and_then(|at| self.entries.get_mut(at as usize)) {
            entry.took = Some(entry.began.elapsed());
        }
    }

    /// The record as text, oldest first.
    pub(crate) fn text(&self, rank: usize, why: &str) -> String {
        let mut out = format!("rank {rank}: {why}\nrank {rank}: the last {} operations:\n", self.entries.len());
        for entry in &self.entries {
            let ago = entry.began.elapsed().as_secs_f64();
            let took = match entry.took {
                Some(took) => format!("took {:.3} ms", took.as_secs_f64() * 1e3),
                None => "has not ended".to_string(),
            };
            let _ = writeln!(out, "rank {rank}:   {ago:9.3} s ago, {took}: {}", entry.stamp.describe());
        }
        out
    }

    /// Writes the record to standard error, or to `MESHWORK_RECORD` with the rank appended.
    pub(crate) fn publish(&self, rank: usize, why: &str) {
        let text = self.text(rank, why);
        let written = match std::env::var_os("MESHWORK_RECORD") {
            Some(path) => {
                let mut path = path;
                path.push(format!(".{rank}"));
                std::fs::write(path, &text)
            }
            None => std::io::stderr().write_all(text.as_bytes()),
        };
        // A failure to write it cannot be reported any more.
        let _ = written;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_operations_are_kept_and_the_open_one_is_shown() {
        let mut record = FlightRecorder::default();
        for run in 0..100 {
            let number = record.begin(Stamp { plan: 1, run, op: 0, bytes: 8, refusal: false });
            if run < 99 {
                record.end(number);
            }
        }
        record.end(7);
        let text = record.text(3, "why");
        assert!(text.starts_with("rank 3: why\nrank 3: the last 64 operations:\n"), "{text}");
        assert!(text.contains("step 36") && !text.contains("step 35)"), "{text}");
        assert!(text.lines().last().unwrap().contains("has not ended"), "{text}");
    }
}
