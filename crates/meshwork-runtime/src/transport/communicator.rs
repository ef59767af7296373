//! A communicator: ranks that send messages to each other and call collectives together.

use std::fmt;
use std::sync::Arc;

use super::mailbox::{Envelope, Ticket};
use super::post::Post;
use super::threads::ThreadRank;
use super::wire::{Patience, Wire};
use super::world::ProcessError;

/// Ranks that send messages to each other and call [collectives](Communicator::all_reduce) together: all processes of a
/// job ([`Runtime::communicator`](super::runtime::Runtime::communicator)), some of them ([`split`](Communicator::split)),
/// or threads of this process ([`threads`](Communicator::threads)).
///
/// A send does not wait for its receive. Messages from one rank to another with the same [tag](Communicator::tagged) are
/// received in the order in which they were sent. If the arguments of one rank are invalid, a collective is the same error
/// on all.
///
/// ```
/// use meshwork_runtime::Communicator;
///
/// let sums = Communicator::threads(4, |all| {
///     // A ring: all send, then all receive.
///     let (next, before) = ((all.rank() + 1) % 4, (all.rank() + 3) % 4);
///     all.send(next, &[all.rank() as u8])?;
///     assert_eq!(all.receive(before)?, [before as u8]);
///     // Two groups, each in the opposite order.
///     let half = all.split(Some(all.rank() / 2), -(all.rank() as i64))?.expect("a group");
///     half.all_gather(&[all.rank() as u8])
/// });
/// assert_eq!(sums[0], Ok(vec![vec![1], vec![0]]));
/// assert_eq!(sums[3], Ok(vec![vec![3], vec![2]]));
/// ```
#[derive(Clone)]
pub struct Communicator {
    wire: Arc<dyn Wire>,
    /// Its ranks, by their numbers on the wire.
    members: Arc<[usize]>,
    rank: usize,
    context: u64,
    tag: u64,
}

impl Communicator {
    /// All ranks of a wire.
    fn all(wire: Arc<dyn Wire>) -> Communicator {
        let (rank, members) = (wire.rank(), (0..wire.size()).collect());
        Communicator { wire, members, rank, context: 0, tag: 0 }
    }

    /// That of all processes.
    pub(super) fn of_processes(world: Option<&'static super::world::World>) -> Communicator {
        match world {
            Some(world) => Communicator::all(Post::of(world)),
            None => Communicator::all(ThreadRank::alone()),
        }
    }

    /// Runs `f` as each of `ranks` ranks, on a thread each, and returns what they return. If they wait for each other, or
    /// for one that has returned, all get an error that says so. A panic of one is a panic here.
    pub fn threads<T: Send>(ranks: usize, f: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
        /// Tells the others of the end, also by unwinding.
        struct End(Arc<ThreadRank>);
        impl Drop for End {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        let f = &f;
        let run = move |rank: Arc<ThreadRank>| {
            let _end = End(rank.clone());
            f(Communicator::all(rank))
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> =
                ThreadRank::all(ranks).into_iter().map(|rank| scope.spawn(move || run(rank))).collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, T>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().map(join).collect()
        })
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// The same ranks, whose sends and receives from here on have this tag: a receive takes only messages with its own.
    /// It is 0 unless given. Collectives have none.
    pub fn tagged(&self, tag: u32) -> Communicator {
        Communicator { tag: tag.into(), ..self.clone() }
    }

    /// The group of the ranks that give the same `color`, in order of `key` and, among equals, of their number here; `None`
    /// for those that give no color. All ranks must call it. The messages of the group do not mix with those of others.
    pub fn split(&self, color: Option<usize>, key: i64) -> Result<Option<Communicator>, ProcessError> {
        let text = |color: Option<usize>| color.map_or("-".to_string(), |c| c.to_string());
        let head = format!("{} {key} {}", text(color), self.wire.next_context(0));
        let heads = self.agree("split", Ok(&head))?;
        let mut groups = vec![];
        let mut context = 0;
        for (rank, head) in heads.iter().enumerate() {
            let mut words = head.split(' ');
            let mut next = || words.next().unwrap_or_default();
            let (of, key, least) = (next(), next().parse::<i64>(), next().parse::<u64>());
            let (Ok(key), Ok(least)) = (key, least) else {
                return Err(ProcessError::Failed(format!("split: rank {rank} sent {head:?}")));
            };
            context = least.max(context);
            groups.push((of == text(color), key, rank));
        }
        // Of one split, groups have no rank in common and can share a number.
        self.wire.next_context(context + 1);
        if color.is_none() {
            return Ok(None);
        }
        let mut group: Vec<(i64, usize)> = groups.iter().filter(|g| g.0).map(|g| (g.1, g.2)).collect();
        group.sort_unstable();
        let rank = group.iter().position(|&(_, rank)| rank == self.rank).unwrap_or(0);
        let members = group.iter().map(|&(_, rank)| self.members[rank]).collect();
        Ok(Some(Communicator { wire: self.wire.clone(), members, rank, context, tag: 0 }))
    }

    /// Sends bytes to another rank, or to itself, without waiting for it to receive them.
    pub fn send(&self, to: usize, bytes: &[u8]) -> Result<(), ProcessError> {
        self.isend(to, bytes).map(drop)
    }

    /// Waits for the bytes that another rank sends with this tag.
    pub fn receive(&self, from: usize) -> Result<Vec<u8>, ProcessError> {
        self.irecv(from)?.wait()
    }

    /// Sends bytes to one rank and waits for those of another.
    pub fn send_receive(&self, to: usize, bytes: &[u8], from: usize) -> Result<Vec<u8>, ProcessError> {
        self.check_rank("send_receive", from)?;
        self.send(to, bytes)?;
        self.receive(from)
    }

    /// As [`send`](Communicator::send); what it returns says when the bytes have left this rank.
    pub fn isend(&self, to: usize, bytes: &[u8]) -> Result<Sending, ProcessError> {
        self.check_rank("send", to)?;
        let number = self.wire.send(self.members[to], self.envelope(Kind::Message), bytes)?;
        Ok(Sending { wire: self.wire.clone(), number })
    }

    /// Begins to receive the next bytes of another rank with this tag, and does not wait for them.
    pub fn irecv(&self, from: usize) -> Result<Receiving, ProcessError> {
        self.check_rank("receive", from)?;
        Ok(self.begin_receive(from, Kind::Message))
    }

    fn begin_receive(&self, from: usize, kind: Kind) -> Receiving {
        let from = self.members[from];
        let ticket = self.wire.post(from, self.envelope(kind));
        Receiving { wire: self.wire.clone(), ticket, from, taken: false }
    }

    /// Sends a part of a collective.
    pub(super) fn give(&self, to: usize, bytes: &[u8]) -> Result<(), ProcessError> {
        self.wire.send(self.members[to], self.envelope(Kind::Collective), bytes).map(drop)
    }

    /// Waits for a part of a collective.
    pub(super) fn take(&self, from: usize) -> Result<Vec<u8>, ProcessError> {
        self.begin_receive(from, Kind::Collective).wait()
    }

    fn envelope(&self, kind: Kind) -> Envelope {
        match kind {
            Kind::Message => Envelope { context: 2 * self.context, tag: self.tag },
            Kind::Collective => Envelope { context: 2 * self.context + 1, tag: 0 },
        }
    }

    pub(super) fn check_rank(&self, call: &str, rank: usize) -> Result<(), ProcessError> {
        if rank < self.size() {
            return Ok(());
        }
        Err(ProcessError::Failed(format!("{call}: there is no rank {rank}, only {} ranks", self.size())))
    }
}

/// What a message is for.
#[derive(Clone, Copy)]
enum Kind {
    /// The user sent it.
    Message,
    /// A part of a collective.
    Collective,
}

/// A message on its way; see [`Communicator::isend`]. Dropping it does not stop the message.
pub struct Sending {
    wire: Arc<dyn Wire>,
    number: u64,
}

impl Sending {
    /// Waits until the bytes have left this rank. A short message leaves at once, a long one when it is received.
    pub fn wait(self) -> Result<(), ProcessError> {
        self.wire.has_left(self.number, Patience::Wait).map(drop)
    }

    /// Whether the bytes have left this rank.
    pub fn test(&self) -> Result<bool, ProcessError> {
        self.wire.has_left(self.number, Patience::Look)
    }
}

/// A message that is expected; see [`Communicator::irecv`]. Several are matched in the order in which they were made, in
/// whatever order they are waited for. If it is dropped, its message goes to the next receive.
pub struct Receiving {
    wire: Arc<dyn Wire>,
    ticket: Ticket,
    from: usize,
    taken: bool,
}

impl Receiving {
    /// Waits for the bytes. It is an error if [`test`](Receiving::test) has returned them.
    pub fn wait(self) -> Result<Vec<u8>, ProcessError> {
        if self.taken {
            return Err(ProcessError::Failed(format!("receive: the message of rank {} was taken already", self.from)));
        }
        let taken = self.wire.take(self.ticket, self.from, Patience::Wait)?;
        // A wire that waits returns a message or an error.
        Ok(taken.expect("a message"))
    }

    /// The bytes, if they have come; a second time there are none.
    pub fn test(&mut self) -> Result<Option<Vec<u8>>, ProcessError> {
        if self.taken {
            return Ok(None);
        }
        let found = self.wire.take(self.ticket, self.from, Patience::Look)?;
        self.taken = found.is_some();
        Ok(found)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.wire.cancel(self.ticket);
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator(rank {} of {})", self.rank, self.size())
    }
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sending({})", self.number)
    }
}

impl fmt::Debug for Receiving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiving(from rank {})", self.from)
    }
}
