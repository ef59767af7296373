//! What carries messages from rank to rank: between the processes of a job, or between threads of one process.

use super::mailbox::{Envelope, Ticket};
use super::world::ProcessError;

/// One rank's way to the others. Messages from one rank to another arrive in the order in which they were sent.
pub(crate) trait Wire: Send + Sync {
    /// The number of this rank.
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Sends a message without waiting for anybody to receive it; returns its number.
    fn send(&self, to: usize, envelope: Envelope, bytes: &[u8]) -> Result<u64, ProcessError>;

    /// Whether a message has left this rank.
    fn has_left(&self, number: u64, patience: Patience) -> Result<bool, ProcessError>;

    /// Makes a receive.
    fn post(&self, from: usize, envelope: Envelope) -> Ticket;

    /// The message of a receive from `from`; `None` if it has not come and nobody waits for it.
    fn take(&self, ticket: Ticket, from: usize, patience: Patience) -> Result<Option<Vec<u8>>, ProcessError>;

    /// Gives a receive up.
    fn cancel(&self, ticket: Ticket);

    /// The least number that a new group of ranks with this one may have, once it is `at_least` this. Groups with a rank
    /// in common have different numbers.
    fn next_context(&self, at_least: u64) -> u64;
}

/// Whether a call waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Until it can return what was asked for.
    Wait,
    /// It looks once.
    Look,
}
