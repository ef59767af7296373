//! The queue of runs: one thread takes them in order, so arguments are there when a run begins.
//!
//! A run starts on the calling thread instead if nothing is waiting and it is short: handing it over would take longer.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Something to do.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Waiting or at work.
    open: usize,
    has_thread: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The queue of a client.
pub(crate) struct Queue {
    shared: Arc<Shared>,
}

thread_local! {
    /// Whether this thread is inside a job: what it asks for then is done at once, since the queue waits for it.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl Queue {
    pub fn new() -> Queue {
        Queue { shared: Arc::default() }
    }

    /// Whether nothing is waiting or at work.
    pub fn is_idle(&self) -> bool {
        INSIDE.get() || self.shared.lock().open == 0
    }

    /// Whether this thread is inside a job.
    pub fn is_inside() -> bool {
        INSIDE.get()
    }

    /// Does `job` after everything before it.
    pub fn push(&self, job: Job) {
        let mut state = self.shared.lock();
        state.waiting.push_back(job);
        state.open += 1;
        if !state.has_thread {
            let shared = self.shared.clone();
            let started = std::thread::Builder::new().name("meshwork queue".into()).spawn(move || shared.work());
            // Without a thread the work is done here.
            state.has_thread = started.is_ok();
            if started.is_err() {
                drop(state);
                return self.shared.empty();
            }
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until nothing is waiting or at work.
    pub fn drain(&self) {
        if Queue::is_inside() {
            return;
        }
        let mut state = self.shared.lock();
        while state.open > 0 {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Does `job` on this thread, as one of the queue.
pub(crate) fn inside<T>(job: impl FnOnce() -> T) -> T {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _reset = Reset(INSIDE.replace(true));
    job()
}

impl Shared {
    fn work(&self) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            self.empty();
        }
    }

    /// Does all that is waiting.
    fn empty(&self) {
        loop {
            let Some(job) = self.lock().waiting.pop_front() else { return };
            // What a job leaves undone says so itself; the queue goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| inside(job)));
            self.lock().open -= 1;
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn the_queue_outlives_a_job_that_panics() {
        let (queue, done) = (Queue::new(), Arc::new(AtomicUsize::new(0)));
        for i in 0..6 {
            let done = done.clone();
            queue.push(Box::new(move || {
                assert!(i % 2 == 0, "a job that fails");
                done.fetch_add(1, Ordering::Relaxed);
            }));
        }
        queue.drain();
        assert_eq!(done.load(Ordering::Relaxed), 3);
        assert!(!Queue::is_inside() && queue.is_idle());
    }
}
