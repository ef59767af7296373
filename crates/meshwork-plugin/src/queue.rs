//! The queue of runs: one thread takes them in order, so arguments are there when a run begins.
//!
//! A run starts on the calling thread instead if nothing is waiting and it is short: handing it over would take longer.

use std::cell::Cell;
use std::collections::VecDeque;
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
    let before = INSIDE.replace(true);
    let result = job();
    INSIDE.set(before);
    result
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
            inside(job);
            self.lock().open -= 1;
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
