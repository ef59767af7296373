//! Which message goes to which receive, by sender, context and tag.
//!
//! - Messages of one sender with the same context and tag go to receives in the order in which both were made.
//! - A message that no receive waits for yet is kept until one does.

/// What a message is about: the group of ranks that it belongs to, and the number its sender gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Envelope {
    pub context: u64,
    pub tag: u64,
}

/// Length of an envelope.
const LENGTH: usize = 16;

impl Envelope {
    /// The bytes with the envelope in front of them.
    pub(crate) fn seal(self, bytes: &[u8]) -> Vec<u8> {
        let mut message = Vec::with_capacity(LENGTH + bytes.len());
        message.extend(self.context.to_le_bytes());
        message.extend(self.tag.to_le_bytes());
        message.extend_from_slice(bytes);
        message
    }

    /// The envelope and the bytes of a message.
    pub(crate) fn open(mut message: Vec<u8>) -> Option<(Envelope, Vec<u8>)> {
        let word = |i: usize| message.get(8 * i..8 * i + 8)?.try_into().ok().map(u64::from_le_bytes);
        let envelope = Envelope { context: word(0)?, tag: word(1)? };
        message.drain(..LENGTH);
        Some((envelope, message))
    }
}

/// Identifies a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(u64);

/// A sender, and what its message must be about.
type Want = (usize, Envelope);

/// The messages and the receives of one rank.
#[derive(Default)]
pub(crate) struct Mailbox {
    next: u64,
    /// Receives that have no message yet, in order.
    posted: Vec<(Ticket, Want)>,
    /// Receives that have one.
    arrived: Vec<(Ticket, Want, Vec<u8>)>,
    /// Messages without a receive, in order.
    unexpected: Vec<(Want, Vec<u8>)>,
}

impl Mailbox {
    /// Makes a receive.
    pub(crate) fn post(&mut self, from: usize, envelope: Envelope) -> Ticket {
        let (ticket, want) = (Ticket(self.next), (from, envelope));
        self.next += 1;
        match self.unexpected.iter().position(|(about, _)| *about == want) {
            Some(i) => {
                let (want, bytes) = self.unexpected.remove(i);
                self.arrived.push((ticket, want, bytes));
            }
            None => self.posted.push((ticket, want)),
        }
        ticket
    }

    /// A message has come.
    pub(crate) fn deliver(&mut self, from: usize, envelope: Envelope, bytes: Vec<u8>) {
        let about = (from, envelope);
        match self.posted.iter().position(|(_, want)| *want == about) {
            Some(i) => {
                let (ticket, _) = self.posted.remove(i);
                self.arrived.push((ticket, about, bytes));
            }
            None => self.unexpected.push((about, bytes)),
        }
    }

    /// Whether a receive has its message.
    pub(crate) fn has(&self, ticket: Ticket) -> bool {
        self.arrived.iter().any(|(t, ..)| *t == ticket)
    }

    /// The message of a receive, which ends it.
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<Vec<u8>> {
        let i = self.arrived.iter().position(|(t, ..)| *t == ticket)?;
        Some(self.arrived.swap_remove(i).2)
    }

    /// Gives a receive up; its message is there for the next one.
    pub(crate) fn cancel(&mut self, ticket: Ticket) {
        self.posted.retain(|(t, _)| *t != ticket);
        if let Some(i) = self.arrived.iter().position(|(t, ..)| *t == ticket) {
            let (_, about, bytes) = self.arrived.swap_remove(i);
            // Those of the same kind that nobody took came later.
            match self.posted.iter().position(|(_, want)| *want == about) {
                Some(i) => {
                    let (next, _) = self.posted.remove(i);
                    self.arrived.push((next, about, bytes));
                }
                None => self.unexpected.insert(0, (about, bytes)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Envelope = Envelope { context: 0, tag: 7 };
    const B: Envelope = Envelope { context: 0, tag: 8 };

    #[test]
    fn an_envelope_is_read_as_it_was_written() {
        assert_eq!(Envelope::open(A.seal(b"x")), Some((A, b"x".to_vec())));
        assert_eq!(Envelope::open(vec![0; 15]), None);
    }

    #[test]
    fn messages_are_matched_in_order_by_sender_context_and_tag() {
        let mut mailbox = Mailbox::default();
        let first = mailbox.post(1, A);
        let second = mailbox.post(1, A);
        for (from, envelope, byte) in
            [(1, B, 0), (2, A, 1), (1, Envelope { context: 1, tag: 7 }, 2), (1, A, 3), (1, A, 4)]
        {
            mailbox.deliver(from, envelope, vec![byte]);
        }
        // Out of the order in which they were posted.
        assert_eq!(mailbox.take(second), Some(vec![4]));
        assert_eq!(mailbox.take(first), Some(vec![3]));
        assert_eq!(mailbox.take(first), None);
        let late = mailbox.post(1, B);
        assert_eq!(mailbox.take(late), Some(vec![0]));
        let never = mailbox.post(2, B);
        assert!(!mailbox.has(never));
    }

    #[test]
    fn a_receive_that_is_given_up_leaves_its_message_to_the_next() {
        let mut mailbox = Mailbox::default();
        let (one, two) = (mailbox.post(0, A), mailbox.post(0, A));
        mailbox.deliver(0, A, vec![1]);
        mailbox.cancel(one);
        assert_eq!(mailbox.take(two), Some(vec![1]));
        mailbox.deliver(0, A, vec![2]);
        mailbox.deliver(0, A, vec![3]);
        let three = mailbox.post(0, A);
        mailbox.cancel(three);
        let (four, five) = (mailbox.post(0, A), mailbox.post(0, A));
        assert_eq!((mailbox.take(four), mailbox.take(five)), (Some(vec![2]), Some(vec![3])));
    }
}
