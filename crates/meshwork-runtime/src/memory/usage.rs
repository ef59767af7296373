//! How much memory the buffers of this process take.

use std::sync::atomic::{AtomicUsize, Ordering};

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Bytes in all buffers that are alive.
pub fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The most there was since [`restart`].
pub fn peak_bytes() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Forgets the peak: from here on it is what is alive now, until there is more.
pub fn restart() {
    PEAK.store(live_bytes(), Ordering::Relaxed);
}

pub(super) fn add(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(live, Ordering::Relaxed);
}

pub(super) fn subtract(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}
