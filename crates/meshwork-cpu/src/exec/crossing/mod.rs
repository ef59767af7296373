//! A collective whose devices are spread over processes: what this one sends, receives, combines and copies.
//!
//! Found once, when the program is compiled, in an order that all processes share. A run has two rounds of messages at
//! most: contributions to whoever combines them (or pieces to whoever wants them), then what was combined to whoever
//! needs it. Copies between devices of this process are made while messages are under way. Some are only started in one
//! place and awaited in another, with steps in between: see [`overlap`].
//!
//! A reduction goes over the members of a group in their order, as within one process, if no process has several of
//! them or the array is short; otherwise the members of a process are combined first, in their order, and then the
//! processes in theirs. Either way it is the same on every run.

pub(crate) mod build;
mod interior;
pub(crate) mod overlap;
pub(crate) mod run;

use self::build::Spread;
use super::combine::Combiner;
use super::ragged::Ragged;
use crate::step::Buf;
use meshwork_runtime::boxes::BoxCopy;

/// What this process does for a collective.
pub(crate) struct Crossing {
    /// The number of the collective in its program.
    pub number: u32,
    /// If it is only started at its place, and awaited elsewhere: which of those under way together it is.
    pub channel: Option<u8>,
    /// Groups of devices, as far as they are here; all of a group take part or none.
    groups: Vec<Vec<usize>>,
    first: Round,
    reductions: Vec<Reduction>,
    second: Round,
    /// Copies between results here, after all else.
    shares: Vec<Local>,
    combiners: Vec<Combiner>,
    /// If it moves pieces of lengths that are data: then it does nothing else.
    ragged: Option<(Ragged, Spread)>,
    stage_bytes: usize,
    /// How many devices are here.
    devices: usize,
}

/// Messages that are under way at once, and what is done meanwhile.
#[derive(Default)]
struct Round {
    /// One per peer.
    sends: Vec<Parcel<Source>>,
    receives: Vec<Parcel<Target>>,
    locals: Vec<Local>,
    zeros: Vec<(usize, Buf, usize)>,
}

/// What goes to a peer, or comes from it.
struct Parcel<T> {
    peer: usize,
    /// In the cover.
    short: Vec<Item<T>>,
    /// Messages of their own.
    long: Vec<Item<T>>,
}

/// A piece of a message.
struct Item<T> {
    group: usize,
    bytes: usize,
    what: T,
}

/// Where a piece comes from.
struct Source {
    /// The buffers of these devices, combined if there are several.
    devices: Vec<usize>,
    buf: Buf,
    /// From the buffer to a dense array.
    pack: BoxCopy,
    /// The number of the combiner, if it is needed, and bytes of an element.
    combiner: usize,
    size: usize,
    /// Where it is made ready, unless it can be sent in place.
    stage: usize,
}

/// Where a piece goes.
struct Target {
    /// Device, buffer, and from a dense array to the buffer.
    to: Vec<(usize, Buf, BoxCopy)>,
    /// Where it arrives, unless it can be received where it is wanted.
    stage: usize,
}

/// A copy between devices of this process.
struct Local {
    group: usize,
    from: (usize, Buf),
    to: (usize, Buf),
    what: BoxCopy,
}

/// Contributions are combined, in order.
struct Reduction {
    group: usize,
    bytes: usize,
    combiner: usize,
    /// Bytes of an element.
    size: usize,
    parts: Vec<Part>,
    to: (usize, Buf),
    /// From a dense array to the result.
    unpack: BoxCopy,
    /// Where the sum is made, if the result is not one piece.
    stage: usize,
}

/// A contribution to a reduction.
enum Part {
    /// Of devices here.
    Here(Source),
    /// What came from elsewhere: where it is in the stage.
    Stage(usize),
}
