//! What carries bytes between processes: messages in flight, and the link that moves them.

#[cfg(feature = "mpi")]
pub use super::mpi::{Link, Requests};
#[cfg(not(feature = "mpi"))]
pub use super::none::{Link, Requests};

/// Messages that have begun and not ended.
#[derive(Default)]
pub struct Flight {
    #[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "only a link reads it"))]
    pub requests: Requests,
    /// Of each message, in the order of the requests.
    pub about: Vec<About>,
}

/// Messages of different lanes do not stand in each other's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// What all processes do in the same order.
    Common,
    /// From one process to another, at their own time.
    Letters,
    /// A collective that is under way beside others: those of one berth follow each other in the same order everywhere.
    Berth(u8),
}

/// How many collectives can be under way beside others.
pub const BERTHS: u8 = 12;

/// Where a message goes or comes from.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "only a link reads it"))]
pub struct Address {
    pub peer: usize,
    pub lane: Lane,
}

/// What a message in flight is.
#[derive(Clone, Copy)]
pub struct About {
    /// What the caller calls it.
    pub id: u32,
    pub peer: usize,
    pub incoming: bool,
}

/// A message that has ended.
pub struct Landed {
    pub about: About,
    /// What the link says went wrong with it.
    pub error: Option<String>,
}

impl Flight {
    /// Whether something is under way.
    pub fn is_open(&self) -> bool {
        !self.about.is_empty()
    }

    /// Whether something is expected.
    pub fn has_incoming(&self) -> bool {
        self.about.iter().any(|a| a.incoming)
    }
}
