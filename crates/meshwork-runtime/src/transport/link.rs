//! What carries bytes between processes: messages in flight, and the link that moves them.

#[cfg(feature = "mpi")]
pub(crate) use super::mpi::{Link, Requests};
#[cfg(not(feature = "mpi"))]
pub(crate) use super::no_mpi::{Link, Requests};

/// Messages in flight.
#[derive(Default)]
pub(crate) struct Flight {
    #[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "only a link reads it"))]
    pub requests: Requests,
    /// Of each message, in the order of the requests.
    pub about: Vec<About>,
}

/// Messages of different lanes do not block each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// Operations that all processes do in the same order.
    Common,
    /// Messages from one process to another, at any time.
    PointToPoint,
    /// A collective that overlaps with others: those of one channel follow each other in the same order everywhere.
    Channel(u8),
}

/// The number of collectives that can overlap.
pub const CHANNELS: u8 = 12;

/// Where a message goes or comes from.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "only a link reads it"))]
pub(crate) struct Address {
    pub peer: usize,
    pub lane: Lane,
}

/// What a message in flight is.
#[derive(Clone, Copy)]
pub(crate) struct About {
    /// The caller's identifier for it.
    pub id: u32,
    pub peer: usize,
    pub incoming: bool,
}

/// A message that has ended.
pub(crate) struct Completed {
    pub about: About,
    /// The error of the link, if any.
    pub error: Option<String>,
}

impl Flight {
    /// Whether messages are in flight.
    pub(crate) fn is_open(&self) -> bool {
        !self.about.is_empty()
    }

    /// Whether messages are expected.
    pub(crate) fn has_incoming(&self) -> bool {
        self.about.iter().any(|a| a.incoming)
    }
}
