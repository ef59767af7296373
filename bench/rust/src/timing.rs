//! Clocks and the smallest statistics: what a piece of work took, over some rounds.

use std::time::{Duration, Instant};

/// What the rounds of one piece of work took, in milliseconds.
#[derive(Default)]
pub struct Times(Vec<f64>);

impl Times {
    /// Adds a round.
    pub fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e3);
    }

    /// The shortest; zero without rounds.
    pub fn least(&self) -> f64 {
        self.0.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    /// The median; zero without rounds.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Runs `work` and returns its result and its wall-clock time.
pub fn wall<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Runs `work` and gives its result and the time that this thread spent on a processor, so that other work on the
/// machine counts little; where the system does not report it (Linux does), wall-clock time.
pub fn on_processor<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = processor_time();
    let (result, elapsed) = wall(work);
    let spent = processor_time().zip(before).map(|(end, start)| end - start);
    (result, spent.unwrap_or(elapsed))
}

fn processor_time() -> Option<Duration> {
    // The count is brought up to date when the thread gives way.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
