//! Who takes part in saving and restoring.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The ranks that save together, and which devices each has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Party {
    rank: usize,
    size: usize,
    /// What tells the folders of this run from those of others.
    token: String,
    /// How long to wait for other ranks.
    pub deadline: Duration,
}

impl Party {
    /// This process alone.
    pub(super) fn alone() -> Party {
        Party::new(0, 1, &Party::draw(), Duration::from_secs(60))
    }

    pub(super) fn new(rank: usize, size: usize, token: &str, deadline: Duration) -> Party {
        Party { rank, size, token: token.into(), deadline }
    }

    /// A token that no other run has.
    pub(super) fn draw() -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
        format!("{:x}.{:x}", now, std::process::id())
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// The rank that has a device of a mesh of `count`: blocks of consecutive devices.
    pub(super) fn rank_of(&self, device: usize, count: usize) -> usize {
        device / count.div_ceil(self.size).max(1)
    }
}
