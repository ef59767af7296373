//! Collective calls on bytes: barrier, broadcast, gather, scatter and so on.
//!
//! If the arguments of one process are invalid, all processes return the same error: it is sent in place of the data.

use std::sync::{Arc, OnceLock};

use super::link::Lane;
use super::stamp::{self, Stamp};
use super::swap::{INLINE, Mail, Swap};
use super::world::{ProcessError, World};

/// The kinds of calls; their position is the number of the operation on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// All wait for all.
    Barrier,
    /// All get what one has.
    Broadcast,
    /// One gets what all have.
    Gather,
    /// All get what all have.
    AllGather,
    /// Each gets its part of what one has.
    Scatter,
    /// All get the combination of what all have.
    AllReduce,
    /// From one process to another.
    Send,
    /// Programs are compared before their first run.
    Compare,
    /// A run has ended well.
    Agree,
    /// An array comes to the host.
    ToHost,
}

const NAMES: [&str; 10] = [
    "barrier",
    "broadcast",
    "gather",
    "all_gather",
    "scatter",
    "all_reduce",
    "send/receive",
    "the comparison of programs",
    "the end of a program",
    "to_host",
];

/// Takes the place of a program digest in calls.
const PLAN: u64 = 0x6d65_7368_776f_726b;

/// What one process sends to the others: data, or why it has none.
pub type Offer<'a> = Result<&'a [u8], &'a str>;

fn call_stamp(call: Call, run: u64) -> Stamp {
    static HELD: OnceLock<Arc<Vec<String>>> = OnceLock::new();
    HELD.get_or_init(|| stamp::name(PLAN, || NAMES.map(str::to_string).to_vec()));
    super::world::stamp(PLAN, run, call as u64, 0)
}

/// Whether these are of one run of a program: of two of its collectives, or of one and of its end.
pub(super) fn is_one_run(a: &Stamp, b: &Stamp) -> bool {
    let is_end = |s: &Stamp| s.plan == PLAN && s.op == Call::Agree as u64;
    let is_program = |s: &Stamp| s.plan != PLAN;
    let one = (is_program(a) && (a.plan == b.plan || is_end(b))) || (is_program(b) && is_end(a));
    one && a.run == b.run
}

/// Sends to some processes and receives from others; only the sender knows how many bytes. Refusals become errors once
/// everything has arrived.
fn exchange(
    world: &World,
    stamp: Stamp,
    lane: Lane,
    to: &[(usize, Offer<'_>)],
    from: &[usize],
) -> Result<Vec<Vec<u8>>, ProcessError> {
    let mut swap = Swap::begin(world, stamp, lane)?;
    from.iter().try_for_each(|&peer| swap.expect(peer, INLINE, None))?;
    for &(peer, offer) in to {
        let (bytes, refusal) = match offer {
            Ok(bytes) => (bytes, false),
            Err(why) => (why.as_bytes(), true),
        };
        let inline = if bytes.len() <= INLINE { bytes.len() } else { 0 };
        swap.refuse(refusal);
        swap.cover(peer, inline, bytes.len() as u64, |to| to.copy_from_slice(&bytes[..inline]))?;
        if inline == 0 && !bytes.is_empty() {
            // SAFETY: the caller's bytes outlive the swap.
            unsafe { swap.send(peer, bytes.as_ptr(), bytes.len())? };
        }
    }
    swap.refuse(false);
    swap.wait_incoming()?;
    let (mut received, mut refusal) = (vec![], None);
    for &peer in from {
        let Some(stamp) = swap.stamp_of(peer) else { continue };
        let length = stamp.bytes as usize;
        let inline = swap.inline(peer);
        let mut bytes = vec![];
        if length <= inline.len().min(INLINE) {
            bytes.extend_from_slice(&inline[..length]);
        } else {
            bytes.resize(length, 0);
            // SAFETY: the vector does not move its bytes until the swap has ended.
            unsafe { swap.receive(peer, bytes.as_mut_ptr(), length)? };
        }
        received.push(bytes);
        if stamp.refusal {
            refusal.get_or_insert((peer, received.len() - 1));
        }
    }
    swap.wait()?;
    swap.done();
    match refusal {
        Some((_, i)) => Err(ProcessError::Failed(String::from_utf8_lossy(&received[i]).into_owned())),
        None => Ok(received),
    }
}

/// Waits for all processes.
pub fn barrier(world: &World, call: Call, run: u64) -> Result<(), ProcessError> {
    let stamp = call_stamp(call, run);
    let mut step = 1;
    while step < world.size {
        let (to, from) = ((world.rank + step) % world.size, (world.rank + world.size - step) % world.size);
        exchange(world, stamp, Lane::Common, &[(to, Ok(&[]))], &[from])?;
        step *= 2;
    }
    Ok(())
}

/// All get what `root` has.
pub fn broadcast(world: &World, root: usize, mine: Offer<'_>) -> Result<Vec<u8>, ProcessError> {
    let stamp = call_stamp(Call::Broadcast, world.next_run());
    // A binomial tree: each process that has the bytes passes them on.
    let place = (world.rank + world.size - root) % world.size;
    let rank = |place: usize| (place + root) % world.size;
    let own;
    let (mut step, offer) = match place {
        0 => (1, mine),
        _ => {
            let step = 1 << place.ilog2();
            let received = exchange(world, stamp, Lane::Common, &[], &[rank(place - step)]);
            own = received.map(|mut all| all.pop().unwrap_or_default());
            let offer = match &own {
                Ok(bytes) => Ok(&bytes[..]),
                Err(ProcessError::Failed(why)) => Err(&why[..]),
                Err(broken) => return Err(broken.clone()),
            };
            (2 * step, offer)
        }
    };
    let mut to = vec![];
    while place + step < world.size {
        to.push((rank(place + step), offer));
        step *= 2;
    }
    exchange(world, stamp, Lane::Common, &to, &[])?;
    offer.map(<[u8]>::to_vec).map_err(|why| ProcessError::Failed(why.to_string()))
}

/// All get what each has, in order of rank.
pub fn all_gather(world: &World, mine: &[u8]) -> Result<Vec<Vec<u8>>, ProcessError> {
    exchange_all(world, Call::AllGather, &vec![Ok(mine); world.size])
}

/// Each sends one thing to each, its own included.
pub fn exchange_all(world: &World, call: Call, offers: &[Offer<'_>]) -> Result<Vec<Vec<u8>>, ProcessError> {
    let stamp = call_stamp(call, world.next_run());
    let others: Vec<usize> = world.others().collect();
    let to: Vec<(usize, Offer<'_>)> = others.iter().map(|&r| (r, offers[r])).collect();
    let mut received = exchange(world, stamp, Lane::Common, &to, &others)?;
    let own = offers[world.rank].map_err(|why| ProcessError::Failed(why.to_string()))?;
    received.insert(world.rank, own.to_vec());
    Ok(received)
}

/// `root` gets what each has, in order of rank.
pub fn gather(world: &World, root: usize, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ProcessError> {
    let stamp = call_stamp(Call::Gather, world.next_run());
    if world.rank != root {
        exchange(world, stamp, Lane::Common, &[(root, Ok(mine))], &[])?;
        return Ok(None);
    }
    let others: Vec<usize> = world.others().collect();
    let mut received = exchange(world, stamp, Lane::Common, &[], &others)?;
    received.insert(root, mine.to_vec());
    Ok(Some(received))
}

/// Each gets its part of what `root` has; `parts` are those of all, at the root.
pub fn scatter(world: &World, root: usize, parts: &[Offer<'_>]) -> Result<Vec<u8>, ProcessError> {
    let stamp = call_stamp(Call::Scatter, world.next_run());
    if world.rank != root {
        return Ok(exchange(world, stamp, Lane::Common, &[], &[root])?.pop().unwrap_or_default());
    }
    let to: Vec<(usize, Offer<'_>)> = world.others().map(|r| (r, parts[r])).collect();
    exchange(world, stamp, Lane::Common, &to, &[])?;
    parts[root].map(<[u8]>::to_vec).map_err(|why| ProcessError::Failed(why.to_string()))
}

/// All get the combination of the arrays that each has, in order of rank: each process combines a share of them, and
/// all get all shares. `head` says what the arrays are; it must be the same everywhere.
pub fn all_reduce(
    world: &World,
    head: &str,
    mine: &[u8],
    size: usize,
    combine: impl FnOnce(&[Vec<u8>]) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, ProcessError> {
    let count = mine.len() / size.max(1);
    let share = |r: usize| super::world::local_devices(r, world.size, count);
    let part = |r: usize| {
        let range = share(r);
        let mut message = format!("{head} in {} bytes\n", mine.len()).into_bytes();
        message.extend_from_slice(&mine[range.start * size..range.end * size]);
        message
    };
    let parts: Vec<Vec<u8>> = (0..world.size).map(part).collect();
    let offers: Vec<Offer<'_>> = parts.iter().map(|p| Ok(&p[..])).collect();
    let received = exchange_all(world, Call::AllReduce, &offers)?;
    let split = |bytes: &[u8]| {
        let end = bytes.iter().position(|&b| b == b'\n').unwrap_or(0);
        (String::from_utf8_lossy(&bytes[..end]).into_owned(), bytes.get(end + 1..).unwrap_or_default().to_vec())
    };
    let (heads, shares): (Vec<String>, Vec<Vec<u8>>) = received.iter().map(|b| split(b)).unzip();
    if let Some(r) = (0..heads.len()).find(|&r| heads[r] != heads[0]) {
        let message = format!("all_reduce: rank 0 has {}, rank {r} has {}", heads[0], heads[r]);
        return Err(ProcessError::Failed(message));
    }
    let sum = combine(&shares);
    let offer: Offer<'_> = match &sum {
        Ok(bytes) => Ok(bytes),
        Err(why) => Err(why),
    };
    Ok(exchange_all(world, Call::AllReduce, &vec![offer; world.size])?.concat())
}

/// Begins to send a message to one process. `None` if it has left already.
///
/// # Safety
/// The bytes are valid and not written until the message has left.
pub(super) unsafe fn send(world: &World, to: usize, bytes: &[u8]) -> Result<Option<Mail>, ProcessError> {
    let mut swap = Swap::begin(world, call_stamp(Call::Send, 0), Lane::PointToPoint)?;
    let inline = if bytes.len() <= INLINE { bytes.len() } else { 0 };
    swap.cover(to, inline, bytes.len() as u64, |to| to.copy_from_slice(&bytes[..inline]))?;
    if inline == 0 && !bytes.is_empty() {
        // SAFETY: the caller's promise.
        unsafe { swap.send(to, bytes.as_ptr(), bytes.len())? };
    }
    if swap.is_open()? {
        return Ok(Some(swap.leave()));
    }
    swap.done();
    Ok(None)
}

/// Waits for the next message from one process.
pub(super) fn receive(world: &World, from: usize) -> Result<Vec<u8>, ProcessError> {
    let mut all = exchange(world, call_stamp(Call::Send, 0), Lane::PointToPoint, &[], &[from])?;
    Ok(all.pop().unwrap_or_default())
}

/// Sends bytes to processes that know their number and [`take`] them.
pub fn give(world: &World, run: u64, to: &[usize], bytes: &[u8]) -> Result<(), ProcessError> {
    let mut swap = Swap::begin(world, call_stamp(Call::ToHost, run), Lane::Common)?;
    for &peer in to {
        swap.cover(peer, 0, bytes.len() as u64, |_| ())?;
        // SAFETY: the bytes outlive the swap.
        unsafe { swap.send(peer, bytes.as_ptr(), bytes.len())? };
    }
    swap.wait()?;
    swap.done();
    Ok(())
}

/// Receives bytes that `from` [gives](give).
pub fn take(world: &World, run: u64, from: usize, bytes: &mut [u8]) -> Result<(), ProcessError> {
    let mut swap = Swap::begin(world, call_stamp(Call::ToHost, run), Lane::Common)?;
    swap.expect(from, 0, Some(bytes.len() as u64))?;
    // SAFETY: the bytes outlive the swap, and nothing else has them.
    unsafe { swap.receive(from, bytes.as_mut_ptr(), bytes.len())? };
    swap.wait()?;
    swap.done();
    Ok(())
}
