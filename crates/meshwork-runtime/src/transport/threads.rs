//! Ranks that are threads of one process; a process on its own is one of them.
//!
//! Every rank knows whom the others wait for. So a deadlock is found at once, and needs no deadline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use super::mailbox::{Envelope, Mailbox, Ticket};
use super::wire::{Patience, Wire};
use super::world::ProcessError;

/// What all ranks share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    boxes: Vec<Mailbox>,
    /// Of each rank: the receive it waits for, and its sender.
    waits: Vec<Option<(Ticket, usize)>>,
    /// Of each rank: whether its function has returned.
    ended: Vec<bool>,
    /// Why none can go on.
    broken: Option<String>,
}

/// A rank that is a thread.
pub(crate) struct ThreadRank {
    shared: Arc<Shared>,
    rank: usize,
    size: usize,
    contexts: AtomicU64,
}

impl ThreadRank {
    /// `size` ranks that can reach each other.
    pub(crate) fn all(size: usize) -> Vec<Arc<ThreadRank>> {
        let state = State {
            boxes: (0..size).map(|_| Mailbox::default()).collect(),
            waits: vec![None; size],
            ended: vec![false; size],
            broken: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let rank = |rank| Arc::new(ThreadRank { shared: shared.clone(), rank, size, contexts: AtomicU64::new(1) });
        (0..size).map(rank).collect()
    }

    /// The only rank of a process on its own.
    pub(crate) fn alone() -> Arc<ThreadRank> {
        static ALONE: OnceLock<Arc<ThreadRank>> = OnceLock::new();
        ALONE.get_or_init(|| ThreadRank::all(1).remove(0)).clone()
    }

    /// The function of this rank has returned.
    pub(crate) fn end(&self) {
        self.lock().ended[self.rank] = true;
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole whatever happened to a thread that held the lock.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The ranks that can only wait for each other, if no rank can go on.
    fn deadlock(&self) -> Option<String> {
        let stuck = |r: usize| self.ended[r] || self.waits[r].is_some_and(|(ticket, _)| !self.boxes[r].has(ticket));
        if !(0..self.boxes.len()).all(stuck) {
            return None;
        }
        let chain = (0..self.boxes.len()).filter_map(|r| self.waits[r].map(|(_, from)| (r, from)));
        let words: Vec<String> = chain.map(|(r, from)| format!("rank {r} waits for rank {from}")).collect();
        Some(format!("no rank can go on: {}", words.join(", ")))
    }
}

impl Wire for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, envelope: Envelope, bytes: &[u8]) -> Result<u64, ProcessError> {
        let mut state = self.lock();
        if let Some(text) = &state.broken {
            return Err(ProcessError::Broken(text.clone()));
        }
        state.boxes[to].deliver(self.rank, envelope, bytes.to_vec());
        self.shared.changed.notify_all();
        Ok(0)
    }

    fn has_left(&self, _: u64, _: Patience) -> Result<bool, ProcessError> {
        Ok(true)
    }

    fn post(&self, from: usize, envelope: Envelope) -> Ticket {
        self.lock().boxes[self.rank].post(from, envelope)
    }

    fn take(&self, ticket: Ticket, from: usize, patience: Patience) -> Result<Option<Vec<u8>>, ProcessError> {
        let mut state = self.lock();
        loop {
            if let Some(bytes) = state.boxes[self.rank].take(ticket) {
                return Ok(Some(bytes));
            }
            if let Some(text) = &state.broken {
                return Err(ProcessError::Broken(text.clone()));
            }
            if patience == Patience::Look {
                return Ok(None);
            }
            if state.ended[from] {
                let text = format!("rank {from} has ended its program; rank {} waits for it", self.rank);
                return Err(ProcessError::Broken(text));
            }
            state.waits[self.rank] = Some((ticket, from));
            if let Some(text) = state.deadlock() {
                state.waits[self.rank] = None;
                if self.size == 1 {
                    return Err(ProcessError::Failed("rank 0 waits for itself, and has sent itself nothing".into()));
                }
                state.broken = Some(text.clone());
                self.shared.changed.notify_all();
                return Err(ProcessError::Broken(text));
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waits[self.rank] = None;
        }
    }

    fn cancel(&self, ticket: Ticket) {
        self.lock().boxes[self.rank].cancel(ticket);
    }

    fn next_context(&self, at_least: u64) -> u64 {
        self.contexts.fetch_max(at_least, Ordering::Relaxed).max(at_least)
    }
}
