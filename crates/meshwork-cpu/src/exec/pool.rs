//! Threads that help with jobs: a job is a number of tasks that may run in any order and at the same time.
//!
//! The thread that calls [`Pool::run`] works too, and never waits for a worker that has not begun: see
//! `gate`. Workers watch for the next job for some microseconds after the last one, then sleep.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use super::gate::{Epoch, Gate};
use super::tasks::Tasks;
use crate::step::{Fault, Scratch};

/// A job cheaper than this many nanoseconds does not wake sleeping workers: waking costs about as much.
const WAKE_NS: u64 = 15_000;
/// How often a worker looks for a job before it sleeps: some tens of microseconds.
const LOOKS: u32 = 1500;
const STACK_BYTES: usize = 16 << 20;

/// A pool of threads. Dropping it ends them.
pub struct Pool {
    shared: Arc<Shared>,
    /// Held while a job runs; the scratch memory is the caller's.
    caller: Mutex<Scratch>,
    workers: Vec<JoinHandle<()>>,
}

/// A task's number and scratch memory.
type Job<'a> = &'a (dyn Fn(usize, &mut Scratch) + Sync);

struct Shared {
    gate: Gate,
    tasks: Tasks,
    job: UnsafeCell<Option<Job<'static>>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    asleep: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    end: AtomicBool,
    spin: bool,
}

// SAFETY: `job` is written only by the holder of `Pool::caller` while the gate is shut, and read only inside the gate.
unsafe impl Sync for Shared {}
// SAFETY: what `job` refers to is `Sync`.
unsafe impl Send for Shared {}

impl Pool {
    /// A pool in which `threads` threads work, the calling one among them.
    pub fn new(threads: usize) -> Pool {
        let threads = threads.clamp(1, 1024);
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let shared = Arc::new(Shared {
            gate: Gate::new(),
            tasks: Tasks::new(threads),
            job: UnsafeCell::new(None),
            panic: Mutex::new(None),
            asleep: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            end: AtomicBool::new(false),
            spin: threads <= cores,
        });
        let spawn = |i: usize| {
            let shared = shared.clone();
            let builder = std::thread::Builder::new().name(format!("meshwork-{i}")).stack_size(STACK_BYTES);
            builder.spawn(move || shared.work(i)).ok()
        };
        // Without a worker that could not be started the others take its tasks.
        let workers = (1..threads).map_while(spawn).collect();
        Pool { shared, caller: Mutex::default(), workers }
    }

    /// How many threads work.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `job` for each task below `count`, of about `cost` nanoseconds together. If the pool is busy with the job
    /// of another thread, this thread does all tasks itself.
    ///
    /// # Panics
    /// With the panic of a task, once all other tasks have ended. The pool stays usable.
    pub fn run(&self, count: usize, cost: u64, job: Job<'_>) {
        let mut scratch = match self.caller.try_lock() {
            Ok(scratch) => scratch,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let mut own = Scratch::default();
                (0..count).for_each(|task| job(task, &mut own));
                return;
            }
        };
        if self.workers.is_empty() || count < 2 {
            (0..count).for_each(|task| job(task, &mut scratch));
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. The gate is shut before this function returns, so that nothing uses the
        // job later; and it is shut now, so that nothing reads the cell.
        unsafe { *shared.job.get() = Some(std::mem::transmute::<Job<'_>, Job<'static>>(job)) };
        shared.tasks.fill(count);
        shared.gate.open();
        if cost >= WAKE_NS && shared.asleep.load(Ordering::SeqCst) > 0 {
            let _guard = lock(&shared.sleep);
            shared.wake.notify_all();
        }
        shared.drain(0, job, &mut scratch);
        shared.gate.shut();
        drop(scratch);
        if let Some(panic) = lock(&shared.panic).take() {
            std::panic::resume_unwind(panic);
        }
    }

    /// [`run`](Pool::run) for tasks that may fail: all are run, and the fault is that of the first to fail.
    ///
    /// # Panics
    /// As `run` does.
    pub(crate) fn try_run(
        &self,
        count: usize,
        cost: u64,
        job: &(dyn Fn(usize, &mut Scratch) -> Result<(), Fault> + Sync),
    ) -> Result<(), Fault> {
        let fault = Mutex::new(None);
        self.run(count, cost, &|task, scratch| {
            if let Err(e) = job(task, scratch) {
                lock(&fault).get_or_insert(e);
            }
        });
        fault.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

impl Shared {
    fn drain(&self, thread: usize, job: Job<'_>, scratch: &mut Scratch) {
        while let Some(task) = self.tasks.take(thread) {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(task, scratch))) {
                lock(&self.panic).get_or_insert(panic);
            }
        }
    }

    fn work(&self, thread: usize) {
        let mut scratch = Scratch::default();
        let mut last = Epoch::default();
        let mut looks = 0;
        while !self.end.load(Ordering::Relaxed) {
            if let Some(epoch) = self.gate.enter(last) {
                last = epoch;
                // SAFETY: inside the gate nothing writes the cell, and the job outlives the time the gate is open or
                // has workers inside.
                if let Some(job) = unsafe { *self.job.get() } {
                    self.drain(thread, job, &mut scratch);
                }
                self.gate.leave();
                looks = 0;
            } else if self.spin && looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                self.doze(last);
                looks = 0;
            }
        }
    }

    /// Sleeps until there is a new job, or the end.
    fn doze(&self, last: Epoch) {
        let mut guard = lock(&self.sleep);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        while !self.gate.is_open(last) && !self.end.load(Ordering::SeqCst) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        drop(guard);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::SeqCst);
        {
            let _guard = lock(&self.shared.sleep);
            self.shared.wake.notify_all();
        }
        for worker in self.workers.drain(..) {
            // A worker does not panic: tasks are caught.
            let _ = worker.join();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once_in_every_job() {
        for threads in [1, 2, 5] {
            let pool = Pool::new(threads);
            let counts: Vec<AtomicUsize> = (0..37).map(|_| AtomicUsize::new(0)).collect();
            for job in 1..=300 {
                pool.run(counts.len(), if job % 50 == 0 { 1 << 20 } else { 0 }, &|task, _| {
                    counts[task].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == job));
            }
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_stays_usable() {
        let pool = Pool::new(3);
        for _ in 0..5 {
            let ran = AtomicUsize::new(0);
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(10, 1 << 20, &|task, _| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    assert_ne!(task, 4, "task four");
                });
            }));
            let panic = result.unwrap_err();
            assert!(panic.downcast_ref::<String>().unwrap().contains("task four"));
            assert_eq!(ran.load(Ordering::Relaxed), 10);
        }
    }

    #[test]
    fn jobs_of_several_threads_at_once_all_run() {
        let pool = Pool::new(2);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.run(8, 0, &|_, _| {
                            total.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Ordering::Relaxed), 4 * 50 * 8);
    }
}
