//! Messages from process to process, with tags.
//!
//! A message is copied and sent without waiting for its receiver, so that a ring in which all send first and receive
//! then does not stand still. Copies are kept until they have left; every call of MPI moves them on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::calls;
use super::mailbox::{Envelope, Mailbox, Ticket};
use super::swap::{Mail, Swap};
use super::wire::{Patience, Wire};
use super::world::{ProcessError, World};

/// The messages of this process.
pub(crate) struct Post {
    world: &'static World,
    mailbox: Mutex<Mailbox>,
    /// Messages that have not left yet, with their numbers and bytes.
    outgoing: Mutex<Vec<Outgoing>>,
    numbers: AtomicU64,
    /// Held while a message is received.
    turn: Mutex<()>,
    contexts: AtomicU64,
}

/// A message on its way out. The bytes are read until it has left.
struct Outgoing {
    number: u64,
    mail: Mail,
    bytes: Vec<u8>,
}

/// What is behind these locks is whole whatever happened to a thread that held one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Post {
    /// That of this process.
    pub(crate) fn of(world: &'static World) -> Arc<Post> {
        static POST: OnceLock<Arc<Post>> = OnceLock::new();
        let new = || {
            Arc::new(Post {
                world,
                mailbox: Mutex::default(),
                outgoing: Mutex::default(),
                numbers: AtomicU64::new(0),
                turn: Mutex::default(),
                contexts: AtomicU64::new(1),
            })
        };
        POST.get_or_init(new).clone()
    }

    /// Forgets the messages that have left.
    fn clear(&self) -> Result<(), ProcessError> {
        let mut outgoing = lock(&self.outgoing);
        let mut i = 0;
        while i < outgoing.len() {
            let Outgoing { number, mail, bytes } = outgoing.remove(i);
            let mut swap = Swap::resume(self.world, mail);
            match swap.is_open() {
                Ok(true) => {
                    outgoing.insert(i, Outgoing { number, mail: swap.leave(), bytes });
                    i += 1;
                }
                Ok(false) => swap.done(),
                Err(error) => {
                    // A message that cannot be cancelled is read until the process ends.
                    std::mem::forget(bytes);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Waits for the next message of another process, whatever it is about.
    fn receive(&self, from: usize) -> Result<(), ProcessError> {
        let message = calls::receive(self.world, from)?;
        let nonsense = || ProcessError::Failed(format!("what rank {from} sent is not a message"));
        let (envelope, bytes) = Envelope::open(message).ok_or_else(nonsense)?;
        lock(&self.mailbox).deliver(from, envelope, bytes);
        Ok(())
    }

    fn waits_for_itself(&self) -> ProcessError {
        let rank = self.world.rank;
        ProcessError::Failed(format!("rank {rank} waits for itself, and has sent itself nothing"))
    }
}

impl Wire for Post {
    fn rank(&self) -> usize {
        self.world.rank
    }

    fn size(&self) -> usize {
        self.world.size
    }

    fn send(&self, to: usize, envelope: Envelope, bytes: &[u8]) -> Result<u64, ProcessError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        if to == self.world.rank {
            lock(&self.mailbox).deliver(to, envelope, bytes.to_vec());
            return Ok(number);
        }
        self.clear()?;
        let bytes = envelope.seal(bytes);
        // SAFETY: the bytes are kept, unchanged and where they are, until the message has left.
        match unsafe { calls::send(self.world, to, &bytes) } {
            Ok(Some(mail)) => lock(&self.outgoing).push(Outgoing { number, mail, bytes }),
            Ok(None) => {}
            Err(error) => {
                // As above.
                std::mem::forget(bytes);
                return Err(error);
            }
        }
        Ok(number)
    }

    fn has_left(&self, number: u64, patience: Patience) -> Result<bool, ProcessError> {
        self.clear()?;
        let mut outgoing = lock(&self.outgoing);
        let Some(i) = outgoing.iter().position(|o| o.number == number) else { return Ok(true) };
        if patience == Patience::Look {
            return Ok(false);
        }
        let Outgoing { mail, bytes, .. } = outgoing.remove(i);
        let mut swap = Swap::resume(self.world, mail);
        if let Err(error) = swap.wait() {
            // As above.
            std::mem::forget(bytes);
            return Err(error);
        }
        swap.done();
        Ok(true)
    }

    fn post(&self, from: usize, envelope: Envelope) -> Ticket {
        lock(&self.mailbox).post(from, envelope)
    }

    fn take(&self, ticket: Ticket, from: usize, patience: Patience) -> Result<Option<Vec<u8>>, ProcessError> {
        self.clear()?;
        loop {
            if let Some(bytes) = lock(&self.mailbox).take(ticket) {
                return Ok(Some(bytes));
            }
            // Another thread may receive the message meanwhile.
            let _turn = lock(&self.turn);
            if lock(&self.mailbox).has(ticket) {
                continue;
            }
            let own = from == self.world.rank;
            match patience {
                Patience::Look if own || !self.world.has_message(from)? => return Ok(None),
                Patience::Wait if own => return Err(self.waits_for_itself()),
                _ => self.receive(from)?,
            }
        }
    }

    fn cancel(&self, ticket: Ticket) {
        lock(&self.mailbox).cancel(ticket);
    }

    fn next_context(&self, at_least: u64) -> u64 {
        self.contexts.fetch_max(at_least, Ordering::Relaxed).max(at_least)
    }
}
