//! The door of a job: workers enter while it is open, and the caller leaves only when it is shut and empty.
//!
//! One word holds `epoch | open | inside`. The caller opens the gate for a new job, works on it itself, shuts it, and
//! waits until no worker is inside. A worker enters by counting itself in, which fails once the gate is shut: a worker
//! that was not scheduled in time simply misses the job, and nothing waits for it.
//!
//! Invariants, checked over all interleavings in the tests (build with `--cfg loom`):
//! - whoever is inside sees everything that the caller wrote before it opened;
//! - when [`Gate::shut`] returns, everything that was done inside is visible to the caller, and no worker is inside.

use super::sync::{AtomicU64, Ordering, spin_loop, yield_now};

const OPEN: u64 = 1 << 31;
const INSIDE: u64 = OPEN - 1;

/// See the head of the file.
pub(crate) struct Gate(AtomicU64);

/// The number of a job, modulo what a gate can count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Epoch(u32);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate(AtomicU64::new(0))
    }

    /// Opens for a new job. Only the caller that shut the gate last may open it.
    pub(crate) fn open(&self) {
        let epoch = (self.0.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        // Sequentially consistent: a worker that goes to sleep either sees the job or is seen asleep.
        self.0.store(epoch << 32 | OPEN, Ordering::SeqCst);
    }

    /// Whether there is an open job other than `last`.
    pub(crate) fn is_open(&self, last: Epoch) -> bool {
        let word = self.0.load(Ordering::SeqCst);
        word & OPEN != 0 && Epoch((word >> 32) as u32) != last
    }

    /// Enters the open job, unless there is none or it is `last`.
    pub(crate) fn enter(&self, last: Epoch) -> Option<Epoch> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let epoch = Epoch((word >> 32) as u32);
            if word & OPEN == 0 || epoch == last {
                return None;
            }
            match self.0.compare_exchange_weak(word, word + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(epoch),
                Err(now) => word = now,
            }
        }
    }

    /// Leaves the job that was entered.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    /// Closes the gate and waits until all workers have left.
    pub(crate) fn shut(&self) {
        let mut word = self.0.fetch_and(!OPEN, Ordering::Acquire);
        let mut turns = 0u32;
        while word & INSIDE != 0 {
            // A worker may have lost its core while inside: after a while let it run.
            if turns < SPINS {
                spin_loop();
            } else {
                yield_now();
            }
            turns = turns.saturating_add(1);
            word = self.0.load(Ordering::Acquire);
        }
    }
}

#[cfg(not(loom))]
const SPINS: u32 = 2000;
#[cfg(loom)]
const SPINS: u32 = 0;

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    struct Shared {
        gate: Gate,
        next: AtomicUsize,
        job: UnsafeCell<usize>,
        done: [UnsafeCell<usize>; 2],
    }

    // SAFETY: the cells are what the gate is said to protect; loom reports any access that it does not order.
    unsafe impl Sync for Shared {}
    // SAFETY: as above.
    unsafe impl Send for Shared {}

    fn work(shared: &Shared) {
        // SAFETY: inside the gate the job is only read, and each of `done` is written by who drew its number.
        let value = shared.job.with(|p| unsafe { *p });
        loop {
            let task = shared.next.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
            if task >= 2 {
                return;
            }
            // SAFETY: as above.
            shared.done[task].with_mut(|p| unsafe { *p += value });
        }
    }

    /// Two jobs after each other, workers that may join, come late or miss them.
    fn jobs(workers: usize, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = preemptions;
        model.check(move || {
            let shared = Arc::new(Shared {
                gate: Gate::new(),
                next: AtomicUsize::new(0),
                job: UnsafeCell::new(0),
                done: [UnsafeCell::new(0), UnsafeCell::new(0)],
            });
            let threads: Vec<_> = (0..workers)
                .map(|_| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || {
                        let mut last = Epoch::default();
                        for _ in 0..2 {
                            if let Some(epoch) = shared.gate.enter(last) {
                                last = epoch;
                                work(&shared);
                                shared.gate.leave();
                            }
                        }
                    })
                })
                .collect();
            let mut sum = 0;
            for job in 1..=2 {
                // SAFETY: the gate is shut: nothing else reads or writes.
                shared.job.with_mut(|p| unsafe { *p = job });
                shared.next.store(0, loom::sync::atomic::Ordering::Relaxed);
                shared.gate.open();
                work(&shared);
                shared.gate.shut();
                sum += job;
                for done in &shared.done {
                    // SAFETY: the gate is shut, so nobody works.
                    assert_eq!(done.with(|p| unsafe { *p }), sum);
                }
            }
            threads.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn one_worker_any_interleaving() {
        jobs(1, None);
    }

    #[test]
    fn two_workers_with_up_to_three_preemptions() {
        jobs(2, Some(3));
    }
}
