//! The programs of a `Jit`, by what they were traced for. If there are too many, the least recently used goes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::program::Key;
use crate::lower::Lowered;

/// How many programs stay, unless [`Jit::cache_limit`](super::Jit::cache_limit) says otherwise.
const LIMIT: usize = 256;

/// A program, and the structure of its result.
pub(super) type Program<O> = Arc<(Lowered, O)>;

pub(super) struct Cache<O> {
    entries: RwLock<Vec<Entry<O>>>,
    limit: usize,
    /// Counts uses.
    clock: AtomicU64,
}

struct Entry<O> {
    key: Key,
    program: Program<O>,
    /// When it was last used.
    used: AtomicU64,
}

impl<O> Default for Cache<O> {
    fn default() -> Cache<O> {
        Cache { entries: RwLock::default(), limit: LIMIT, clock: AtomicU64::new(0) }
    }
}

impl<O> Cache<O> {
    /// Without programs, for at most `limit`.
    pub(super) fn of(limit: usize) -> Cache<O> {
        Cache { limit: limit.max(1), ..Cache::default() }
    }

    /// With the same limit and without programs.
    pub(super) fn cleared(&self) -> Cache<O> {
        Cache::of(self.limit)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The program whose key `fits`.
    pub(super) fn get(&self, fits: impl Fn(&Key) -> bool) -> Option<Program<O>> {
        // A list of entries is whole whatever happened to a thread that held the lock.
        self.find(&self.entries.read().unwrap_or_else(PoisonError::into_inner), fits)
    }

    fn find(&self, entries: &[Entry<O>], fits: impl Fn(&Key) -> bool) -> Option<Program<O>> {
        let entry = entries.iter().find(|entry| fits(&entry.key))?;
        entry.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(entry.program.clone())
    }

    /// Adds a program, unless another thread was first: then that one's.
    pub(super) fn insert(&self, key: Key, program: Program<O>, fits: impl Fn(&Key) -> bool) -> Program<O> {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = self.find(&entries, fits) {
            return first;
        }
        let mut evicted = None;
        if entries.len() >= self.limit {
            let oldest = (0..entries.len()).min_by_key(|&i| entries[i].used.load(Ordering::Relaxed));
            evicted = oldest.map(|i| entries.swap_remove(i));
        }
        let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        entries.push(Entry { key, program: program.clone(), used });
        // Dropping a program takes time that other threads need not wait for.
        drop(entries);
        drop(evicted);
        program
    }
}
