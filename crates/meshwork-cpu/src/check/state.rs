//! What buffers mean and what memory holds at one point of a program.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::memory::plan::{Home, Plan};
use crate::step::Buf;

/// A value: made by one write.
pub(super) type Token = u32;

/// A kind of memory; bytes of different ones never overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) enum Place {
    #[default]
    Arena,
    Own(usize),
    Shared(usize),
}

/// The fixed facts: where slots are, and which trade places.
pub(super) struct Memory<'p> {
    plan: &'p Plan,
    /// The number of the set of slots that trade memory with this one.
    ring: Vec<usize>,
    /// The bytes of all slots of a set.
    bytes: BTreeMap<usize, Vec<(Place, Range<usize>)>>,
}

impl<'p> Memory<'p> {
    /// Of `plan`, where these slots trade places.
    pub(super) fn new(plan: &'p Plan, trades: &[(usize, usize)]) -> Result<Memory<'p>, String> {
        let mut ring: Vec<usize> = (0..plan.slots.len()).collect();
        for &(a, b) in trades {
            let (from, to) = (ring[a].max(ring[b]), ring[a].min(ring[b]));
            ring.iter_mut().filter(|r| **r == from).for_each(|r| *r = to);
        }
        let mut bytes: BTreeMap<usize, Vec<(Place, Range<usize>)>> = BTreeMap::new();
        for (i, slot) in plan.slots.iter().enumerate() {
            let (place, start, room) = match slot.home {
                Home::Arena(at) => (Place::Arena, at, plan.arena_bytes),
                Home::Shared(c, at) => (Place::Shared(c), at, plan.shared_arenas[c].bytes),
                Home::Own(o) => (Place::Own(o), 0, plan.owns[o].bytes),
                Home::Nowhere | Home::Arg(_) | Home::Constant(_) | Home::Peer(_) => continue,
            };
            let range = start..start + slot.bytes;
            if range.end > room {
                return Err(format!("slot {i} at bytes {range:?} of memory of {room} bytes"));
            }
            let taken = bytes.entry(ring[i]).or_default();
            if !range.is_empty() && taken.iter().any(|(s, r)| *s == place && r.start < range.end && range.start < r.end)
            {
                return Err(format!("slot {i} overlaps one that it trades places with"));
            }
            taken.push((place, range));
        }
        Ok(Memory { plan, ring, bytes })
    }

    pub(super) fn slot(&self, buf: Buf) -> usize {
        self.plan.slot_of[buf.0 as usize]
    }

    pub(super) fn home(&self, buf: Buf) -> Home {
        self.plan.slots[self.slot(buf)].home
    }

    /// Where a buffer may start, in one turn of a loop or another; nowhere if it is not written by the program.
    pub(super) fn places(&self, buf: Buf) -> Vec<(Place, usize)> {
        let ring = self.bytes.get(&self.ring[self.slot(buf)]);
        ring.into_iter().flatten().map(|(place, range)| (*place, range.start)).collect()
    }

    /// Whether these slots trade places.
    pub(super) fn trade_places(&self, a: usize, b: usize) -> bool {
        self.ring[a] == self.ring[b]
    }

    /// Whether some byte may belong to both, maybe at different times.
    pub(super) fn ever_meet(&self, a: Buf, b: Buf) -> bool {
        self.trade_places(self.slot(a), self.slot(b)) || self.overlap(a, b)
    }

    /// Whether some byte may belong to both: of slots that trade places, any place of theirs.
    pub(super) fn overlap(&self, a: Buf, b: Buf) -> bool {
        let (a, b) = (self.slot(a), self.slot(b));
        let bytes = |slot: usize| self.bytes.get(&self.ring[slot]).map_or(&[][..], Vec::as_slice);
        let meet = |(s, x): &(Place, Range<usize>), (t, y): &(Place, Range<usize>)| {
            s == t && x.start < y.end && y.start < x.end
        };
        a == b || (self.ring[a] != self.ring[b] && bytes(a).iter().any(|x| bytes(b).iter().any(|y| meet(x, y))))
    }
}

/// The state.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct State {
    means: BTreeMap<Buf, Token>,
    /// By slot.
    holds: BTreeMap<usize, Token>,
    /// Bytes by where they start, and whose they are: of no two sets the same.
    claims: BTreeMap<(Place, usize), (usize, usize)>,
}

impl State {
    pub(super) fn means(&self, buf: Buf) -> Option<Token> {
        self.means.get(&buf).copied()
    }

    pub(super) fn holds(&self, slot: usize) -> Option<Token> {
        self.holds.get(&slot).copied()
    }

    /// `buf` means `token` from here on.
    pub(super) fn mean(&mut self, buf: Buf, token: Token) {
        self.means.insert(buf, token);
    }

    /// The memory of `slot` is known as `token`, without being written.
    pub(super) fn rename(&mut self, slot: usize, token: Option<Token>) {
        match token {
            Some(token) => self.holds.insert(slot, token),
            None => self.holds.remove(&slot),
        };
    }

    /// `slot` is written: whatever else has bytes of its memory has lost them.
    pub(super) fn write(&mut self, memory: &Memory<'_>, slot: usize, token: Token) {
        let ring = memory.ring[slot];
        for (place, range) in memory.bytes.get(&ring).into_iter().flatten().filter(|(_, r)| !r.is_empty()) {
            if self.claims.get(&(*place, range.start)) == Some(&(range.end, ring)) {
                continue;
            }
            let meets = |(&(s, start), &(end, _)): (&(Place, usize), &(usize, usize))| {
                s == *place && start < range.end && range.start < end
            };
            let before = self.claims.range(..(*place, range.end)).rev().take_while(|(k, _)| k.0 == *place);
            // Claims do not overlap, so those that meet the range come one after the other.
            let lost: Vec<usize> = before.take_while(|&c| meets(c)).map(|(_, &(_, r))| r).collect();
            for other in lost {
                self.claims.retain(|_, (_, r)| *r != other);
                self.holds.retain(|&s, _| memory.ring[s] != other);
            }
            self.claims.insert((*place, range.start), (range.end, ring));
        }
        self.holds.insert(slot, token);
    }

    /// Slots hold what others held, all at once.
    pub(super) fn trade(&mut self, trades: &[(usize, usize)]) {
        let held: Vec<Option<Token>> = trades.iter().map(|&(_, from)| self.holds(from)).collect();
        trades.iter().zip(held).for_each(|(&(to, _), token)| self.rename(to, token));
    }

    /// What is true in both.
    pub(super) fn common(&self, other: &State) -> State {
        fn both<K: Ord + Copy, V: PartialEq + Copy>(a: &BTreeMap<K, V>, b: &BTreeMap<K, V>) -> BTreeMap<K, V> {
            a.iter().filter(|(k, v)| b.get(k) == Some(v)).map(|(&k, &v)| (k, v)).collect()
        }
        State {
            means: both(&self.means, &other.means),
            holds: both(&self.holds, &other.holds),
            claims: both(&self.claims, &other.claims),
        }
    }
}
