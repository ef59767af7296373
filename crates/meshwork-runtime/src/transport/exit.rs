//! Clean shutdown, or abort of the job.
//!
//! A program that ends normally waits for all others and finalizes MPI. One that ends with a nonzero status, for instance
//! after a panic, sends the reason to the others and aborts the job.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::control::ControlMessage;
use super::world::{World, world};

/// How long the others have to report before they are killed.
const GRACE: Duration = Duration::from_secs(1);
/// After SIGTERM, how long a process that computes may continue, in seconds.
const LAST_SECONDS: u32 = 3;

static PANIC: Mutex<Option<String>> = Mutex::new(None);
static TERMINATED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// As `atexit`, with the status; part of the C library of Linux.
    fn on_exit(f: extern "C" fn(c_int, *mut c_void), arg: *mut c_void) -> c_int;
}

/// Installs the hooks that announce the end of this process to the others.
pub(super) fn install(world: &'static World) {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let before = std::panic::take_hook();
        let rank = world.rank;
        std::panic::set_hook(Box::new(move |info| {
            *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("rank {rank} {info}"));
            before(info);
        }));
        // SAFETY: the functions are of the right type and live as long as the process; the signal handler only calls
        // what may be called in one.
        unsafe {
            on_exit(leave, std::ptr::null_mut());
            libc::signal(libc::SIGTERM, terminate as extern "C" fn(c_int) as libc::sighandler_t);
        }
    });
}

/// Whether this process has received SIGTERM.
pub(super) fn terminated() -> bool {
    TERMINATED.load(Ordering::Relaxed)
}

/// A launcher ends all processes when one has died. Processes that wait for messages get time to report it.
extern "C" fn terminate(_: c_int) {
    TERMINATED.store(true, Ordering::Relaxed);
    // SAFETY: both may be called in a signal handler; the alarm's default is to end the process.
    unsafe {
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(LAST_SECONDS);
    }
}

extern "C" fn leave(status: c_int, _: *mut c_void) {
    let Some(world) = world() else { return };
    let start = Instant::now();
    // Another thread may be in the middle of an exchange.
    let mut inner = loop {
        match world.inner.try_lock() {
            Ok(inner) => break inner,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) if start.elapsed() > GRACE => world.link.abort(status.max(1)),
            Err(std::sync::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    if status == 0 && inner.news.broken.is_none() {
        world.announce(&ControlMessage::Left);
        let mut looked = Instant::now();
        while let Some(late) = world.others().find(|&r| !inner.news.left[r]) {
            world.read_notes(&mut inner);
            let lost = looked.elapsed() > GRACE && {
                looked = Instant::now();
                world.is_dead(late)
            };
            if inner.news.broken.is_some() || terminated() || lost {
                world.link.abort(1);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        world.link.finish();
        return;
    }
    if inner.news.broken.is_none() {
        let panic = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
        let text = panic.unwrap_or_else(|| format!("rank {} ended with status {status}", world.rank));
        world.announce(&ControlMessage::Broken(text));
    }
    world.announce(&ControlMessage::Left);
    let start = Instant::now();
    while start.elapsed() < GRACE && !terminated() && world.others().any(|r| !inner.news.left[r]) {
        // Lets control messages go out, and the others read them.
        world.read_notes(&mut inner);
        std::thread::sleep(Duration::from_millis(1));
    }
    world.link.abort(if status == 0 { 1 } else { status })
}

/// Aborts the job.
pub(super) fn end(world: &World, why: &str) -> ! {
    eprintln!("rank {}: {why}", world.rank);
    world.link.abort(1)
}
