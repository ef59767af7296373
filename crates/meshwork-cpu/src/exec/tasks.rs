//! The numbers of a job's tasks, handed out to threads: each first its own share, then what others have left.
//!
//! A share is a range `lo..hi` in one word. Its owner takes from the front, others from the back, so that a thread
//! gets the same tasks in one job after the other as long as no thread falls behind, and finds its data in its cache.

use super::sync::{AtomicU64, Ordering};

/// The shares of a job. Every number below the count is handed out exactly once.
pub(crate) struct Tasks {
    shares: Vec<Share>,
}

#[repr(align(128))]
struct Share(AtomicU64);

fn pack(lo: u64, hi: u64) -> u64 {
    lo << 32 | hi
}

fn unpack(word: u64) -> (u64, u64) {
    (word >> 32, word & 0xffff_ffff)
}

impl Tasks {
    pub(crate) fn new(threads: usize) -> Tasks {
        Tasks { shares: (0..threads.max(1)).map(|_| Share(AtomicU64::new(0))).collect() }
    }

    /// Numbers `0..count` for a new job. Nothing may take tasks meanwhile.
    pub(crate) fn fill(&self, count: usize) {
        let threads = self.shares.len();
        for (i, share) in self.shares.iter().enumerate() {
            let (lo, hi) = (count * i / threads, count * (i + 1) / threads);
            share.0.store(pack(lo as u64, hi as u64), Ordering::Relaxed);
        }
    }

    /// A task for `thread`, until there are none.
    pub(crate) fn take(&self, thread: usize) -> Option<usize> {
        let threads = self.shares.len();
        let own = thread % threads;
        if let Some(task) = self.shares[own].take(|lo, hi| (lo, pack(lo + 1, hi))) {
            return Some(task);
        }
        (1..threads).find_map(|i| self.shares[(own + i) % threads].take(|lo, hi| (hi - 1, pack(lo, hi - 1))))
    }
}

impl Share {
    fn take(&self, pick: impl Fn(u64, u64) -> (u64, u64)) -> Option<usize> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (lo, hi) = unpack(word);
            if lo >= hi {
                return None;
            }
            let (task, next) = pick(lo, hi);
            match self.0.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(task as usize),
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_handed_out_once_to_any_thread() {
        for (threads, count) in [(1, 0), (1, 5), (2, 1), (3, 7), (4, 100)] {
            for first in 0..threads {
                let tasks = Tasks::new(threads);
                tasks.fill(count);
                let mut got: Vec<usize> = std::iter::from_fn(|| tasks.take(first)).collect();
                got.sort_unstable();
                assert_eq!(got, (0..count).collect::<Vec<_>>());
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn owner_and_thief_never_take_the_same_task() {
        loom::model(|| {
            let tasks = Arc::new(Tasks::new(2));
            tasks.fill(3);
            let other = {
                let tasks = tasks.clone();
                loom::thread::spawn(move || std::iter::from_fn(|| tasks.take(1)).collect::<Vec<_>>())
            };
            let mut all: Vec<usize> = std::iter::from_fn(|| tasks.take(0)).collect();
            all.extend(other.join().unwrap());
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2]);
        });
    }
}
