//! The buffer plan: which buffers share a piece of memory, and where each piece is.
//!
//! 1. Buffers between which a value moves become one *slot* where their lives allow it: steps work in place, loop
//!    carries stay where they are, results of choices are written where they are wanted.
//! 2. A loop carry whose next value needs memory of its own trades places with it after every turn: the pointers of
//!    the two slots are exchanged. Slots that trade belong to a *ring*; all of a ring are alive together.
//! 3. What goes to the caller is in buffers of its own, and so is every ring with such a slot. All else gets an
//!    offset in one arena per device.
//! 4. A value that is an argument of another device is read there: see [`peer_args`](super::peer_args).
//! 5. Replicated results of communication are in an arena that a group of devices shares: see [`share`](super::share).

use std::collections::BTreeMap;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_mesh::sort_by_key;

use super::live::{Live, MoveKind, Origin, Segment, Touching, compatible, live};
use super::peer_args::{PeerArg, peer_args};
use super::place::{Item, place};
use super::share::{Leaders, SharedArena, Sharing, sharing};
use crate::device_program::Replication;
use crate::program::{Block, Node, Program, While};
use crate::step::Buf;

/// Where a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// Nothing uses it.
    Nowhere,
    /// At this offset of the arena.
    Arena(usize),
    /// In the caller's argument of this number, which is not written.
    Arg(usize),
    /// In the constant that is this buffer.
    Constant(Buf),
    /// In the device's own buffer of this number.
    Own(usize),
    /// In the shared arena of this index, at this offset.
    Shared(usize, usize),
    /// In a peer's argument: an index into [`Plan::peer_args`].
    Peer(usize),
}

/// Memory for some buffers.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Where.
    pub home: Home,
    /// Size.
    pub bytes: usize,
    /// The buffers in it.
    pub members: Vec<Buf>,
}

/// A buffer of its own, outside the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// Size.
    pub bytes: usize,
    /// The donated argument it is, if any.
    pub arg: Option<usize>,
    /// The shared arena whose groups share this buffer, too.
    pub shared: Option<usize>,
}

/// What happens to the memory of a loop's carries after a turn.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Turn {
    /// Slots and the slots whose pointers they get, all at once.
    pub trades: Vec<(usize, usize)>,
    /// Then these are copied: from, to.
    pub copies: Vec<(Buf, Buf)>,
}

/// The memory plan of a program.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The slot of each buffer.
    pub slot_of: Vec<usize>,
    /// All slots.
    pub slots: Vec<Slot>,
    /// Buffers outside the arena.
    pub owns: Vec<Own>,
    /// Size of the arena of a device.
    pub arena_bytes: usize,
    /// Slots that are a peer's argument.
    pub peer_args: Vec<PeerArg>,
    /// Memory that groups of devices share.
    pub shared_arenas: Vec<SharedArena>,
    /// By position in the entry block: the shared arena whose leaders run the step for their groups.
    pub once: HashMap<usize, usize>,
    /// By position in the entry block: the groups whose leaders run the loop for all.
    pub once_loops: HashMap<usize, Leaders>,
    /// Per result: the devices on which it is equal, wherever it is stored; empty if nothing is known.
    pub equal_results: Vec<Option<Leaders>>,
    /// The turns of the loops, outer before inner, in order of the program.
    pub turns: Vec<Turn>,
}

impl Plan {
    /// Bytes a device holds at once besides its arguments and the constants; what it shares with others counts
    /// for each of them.
    pub fn peak_bytes(&self) -> usize {
        let own: usize = self.owns.iter().filter(|o| o.arg.is_none()).map(|o| o.bytes).sum();
        self.arena_bytes + own + self.shared_arenas.iter().map(|c| c.bytes).sum::<usize>()
    }

    /// Bytes that `devices` devices hold at once.
    pub fn total_bytes(&self, devices: usize) -> usize {
        let groups = |c: usize| (0..devices).filter(|&d| self.shared_arenas[c].leader[d] == d).count();
        let mut total = self.arena_bytes * devices;
        for own in self.owns.iter().filter(|o| o.arg.is_none()) {
            total += own.bytes * own.shared.map_or(devices, groups);
        }
        total + self.shared_arenas.iter().enumerate().map(|(i, c)| c.bytes * groups(i)).sum::<usize>()
    }

    /// Whether `buf` is a peer's argument, unchanged.
    pub(crate) fn is_peer_arg(&self, buf: Buf) -> bool {
        matches!(self.slots[self.slot_of[buf.0 as usize]].home, Home::Peer(_))
    }

    /// Whether the members of a group share `buf`.
    pub(crate) fn is_shared(&self, buf: Buf) -> bool {
        match self.slots[self.slot_of[buf.0 as usize]].home {
            Home::Shared(..) => true,
            Home::Own(i) => self.owns[i].shared.is_some(),
            Home::Nowhere | Home::Arena(_) | Home::Arg(_) | Home::Constant(_) | Home::Peer(_) => false,
        }
    }
}

/// Slots in the making: sets of buffers.
struct Sets {
    leader: Vec<u32>,
    segments: Vec<Vec<Segment>>,
    members: Vec<Vec<u32>>,
    /// Per leader: the donated argument in it, and whether it must stay as it is.
    arg: Vec<Option<u32>>,
    fixed: Vec<bool>,
}

impl Sets {
    fn find(&self, mut b: u32) -> u32 {
        while self.leader[b as usize] != b {
            b = self.leader[b as usize];
        }
        b
    }

    fn join(&mut self, a: u32, b: u32) {
        // The smaller set moves.
        let (to, from) = if self.members[a as usize].len() >= self.members[b as usize].len() {
            (a as usize, b as usize)
        } else {
            (b as usize, a as usize)
        };
        self.leader[from] = to as u32;
        let segments = std::mem::take(&mut self.segments[from]);
        self.segments[to].extend(segments);
        sort_by_key(&mut self.segments[to], |s| (s.start, s.end));
        let members = std::mem::take(&mut self.members[from]);
        self.members[to].extend(members);
        self.arg[to] = self.arg[to].or(self.arg[from]);
    }
}

/// Plans the memory of `program`, for `together` devices in one process whose arguments and results are replicated as
/// `replication` says.
pub fn plan(program: &Program, together: usize, replication: &Replication) -> Plan {
    let live = live(program);
    let peers = peer_args(program, &live, together);
    let Sharing { of: mut shared, once, once_loops, arenas: mut shared_arenas, results: equal_results } =
        sharing(program, &live, together, replication);
    shared.retain(|b, _| !peers.contains_key(b));
    let sets = coalesce(program, &live, |b| shared.contains_key(&b) || peers.contains_key(&b));
    let mut slots: Vec<Slot> = vec![];
    let mut of_leader: HashMap<u32, usize> = HashMap::default();
    let slot_of: Vec<usize> = (0..program.bufs.len())
        .map(|b| {
            let leader = sets.find(live.same[b]);
            let slot = *of_leader.entry(leader).or_insert_with(|| {
                slots.push(Slot { home: Home::Nowhere, bytes: 0, members: vec![] });
                slots.len() - 1
            });
            slots[slot].members.push(Buf(b as u32));
            slots[slot].bytes = slots[slot].bytes.max(program.bufs[b].bytes);
            slot
        })
        .collect();
    let mut turns = vec![];
    walk(&program.main, 0, &mut |w, depth| turns.push(turn(w, depth, &live, &slot_of)));

    let mut rings = Rings::new(slots.len());
    for (to, from) in turns.iter().flat_map(|t: &Turn| &t.trades) {
        rings.join(*to, *from);
    }
    for i in 0..slots.len() {
        let ring = rings.find(i);
        slots[ring].bytes = slots[ring].bytes.max(slots[i].bytes);
    }
    for i in 0..slots.len() {
        slots[i].bytes = slots[rings.find(i)].bytes;
    }

    // What the caller keeps.
    let mut own_rings: HashSet<usize> = HashSet::default();
    for &result in &program.main.results {
        let rep = live.same[result.0 as usize] as usize;
        if !is_fixed(&live, program, rep) && !peers.contains_key(&(rep as u32)) {
            own_rings.insert(rings.find(slot_of[rep]));
        }
    }
    let mut segments: Vec<Vec<Segment>> = vec![vec![]; slots.len()];
    let mut donated: Vec<Option<usize>> = vec![None; slots.len()];
    for (&leader, &slot) in &of_leader {
        segments[slot] = sets.segments[leader as usize].clone();
        donated[slot] = sets.arg[leader as usize].map(|a| a as usize);
        if donated[slot].is_some() && slots[slot].members.len() > 1 {
            own_rings.insert(rings.find(slot));
        }
    }
    let mut spans: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
    for i in (0..slots.len()).filter(|&i| rings.is_shared(i)) {
        let all = segments[i].iter().fold((u32::MAX, 0), |(a, b), s| (a.min(s.start), b.max(s.end)));
        let span = spans.entry(rings.find(i)).or_insert((u32::MAX, 0));
        *span = (span.0.min(all.0), span.1.max(all.1));
    }

    let (mut owns, mut peer_args) = (vec![], vec![]);
    let mut arena: Vec<usize> = vec![];
    let mut shared_slots: Vec<Vec<usize>> = vec![vec![]; shared_arenas.len()];
    for i in 0..slots.len() {
        let first = slots[i].members[0].0 as usize;
        let arena_index = shared.get(&(first as u32)).copied();
        slots[i].home = match live.origins[live.same[first] as usize] {
            _ if own_rings.contains(&rings.find(i)) => {
                owns.push(Own { bytes: slots[i].bytes, arg: donated[i], shared: arena_index });
                Home::Own(owns.len() - 1)
            }
            _ if let Some(number) = arena_index => {
                shared_slots[number].push(i);
                Home::Shared(number, 0)
            }
            _ if let Some(peer) = peers.get(&live.same[first]) => {
                peer_args.push(peer.clone());
                Home::Peer(peer_args.len() - 1)
            }
            Origin::Constant => Home::Constant(Buf(live.same[first])),
            Origin::Arg(a) => Home::Arg(a as usize),
            Origin::Unused if segments[i].is_empty() => Home::Nowhere,
            _ => {
                arena.push(i);
                Home::Arena(0)
            }
        };
    }
    let placed = |which: &[usize], slots: &[Slot]| {
        let alive = |i: usize| match spans.get(&rings.find(i)) {
            Some(&span) => vec![span],
            None => segments[i].iter().map(|s| (s.start, s.end)).collect(),
        };
        let items: Vec<Item> = which.iter().map(|&i| Item { bytes: slots[i].bytes, alive: alive(i) }).collect();
        place(&items)
    };
    let (offsets, arena_bytes) = placed(&arena, &slots);
    for (&slot, offset) in arena.iter().zip(offsets) {
        slots[slot].home = Home::Arena(offset);
    }
    for (number, which) in shared_slots.iter().enumerate() {
        let (offsets, bytes) = placed(which, &slots);
        shared_arenas[number].bytes = bytes;
        for (&slot, offset) in which.iter().zip(offsets) {
            slots[slot].home = Home::Shared(number, offset);
        }
    }
    Plan { slot_of, slots, owns, arena_bytes, peer_args, shared_arenas, once, once_loops, equal_results, turns }
}

/// Whether a buffer is a constant or the caller's.
fn is_fixed(live: &Live, program: &Program, rep: usize) -> bool {
    match live.origins[rep] {
        Origin::Constant => true,
        Origin::Arg(a) => !program.donated.get(a as usize).is_some_and(|&d| d),
        Origin::Unused | Origin::Inside(_) => false,
    }
}

/// Makes one set of buffers between which values move, where that is right; those that stand `apart` stay alone.
fn coalesce(program: &Program, live: &Live, apart: impl Fn(u32) -> bool) -> Sets {
    let n = program.bufs.len();
    let donated = |b: usize| match live.origins[b] {
        Origin::Arg(a) if !is_fixed(live, program, b) => Some(a),
        _ => None,
    };
    let mut sets = Sets {
        leader: (0..n as u32).collect(),
        segments: live.segments.clone(),
        members: (0..n as u32).map(|b| vec![b]).collect(),
        arg: (0..n).map(donated).collect(),
        fixed: (0..n).map(|b| is_fixed(live, program, b) || apart(b as u32)).collect(),
    };
    let touching: Touching = live.moves.iter().map(|m| ((m.from, m.to, m.at), m.since)).collect();
    let mut moves: Vec<_> = live.moves.iter().collect();
    sort_by_key(&mut moves, |m| (m.kind, m.at));
    for m in moves {
        let (a, b) = (sets.find(m.from), sets.find(m.to));
        if a == b || sets.fixed[a as usize] || sets.fixed[b as usize] {
            continue;
        }
        // A donated argument has the size it has.
        let sizes = program.bufs[m.from as usize].bytes == program.bufs[m.to as usize].bytes;
        let args = (sets.arg[a as usize], sets.arg[b as usize]);
        if (args.0.is_some() && args.1.is_some()) || ((args.0.is_some() || args.1.is_some()) && !sizes) {
            continue;
        }
        let within = |m: MoveKind| m == MoveKind::InPlace || sizes;
        if within(m.kind) && compatible(&sets.segments[a as usize], &sets.segments[b as usize], &touching) {
            sets.join(a, b);
        }
    }
    sets
}

fn walk<'p>(block: &'p Block, depth: u32, visit: &mut impl FnMut(&'p While, u32)) {
    for node in &block.nodes {
        match node {
            Node::Step(_) | Node::Collective(_) | Node::Await(_) => {}
            Node::While(w) => {
                visit(w, depth);
                walk(&w.cond, depth + 1, visit);
                walk(&w.body, depth + 1, visit);
            }
            Node::Case(c) => c.branches.iter().for_each(|b| walk(b, depth, visit)),
        }
    }
}

/// What moves at the end of the body of `w`, which stands in `depth` loops.
fn turn(w: &While, depth: u32, live: &Live, slot_of: &[usize]) -> Turn {
    let rep = |b: Buf| live.same[b.0 as usize];
    let carries: HashSet<u32> = w.body.args.iter().map(|&a| rep(a)).collect();
    let slots = |(&arg, &result): (&Buf, &Buf)| (slot_of[arg.0 as usize], slot_of[result.0 as usize]);
    let stays: HashSet<usize> =
        w.body.args.iter().zip(&w.body.results).map(slots).filter(|(to, from)| to == from).map(|(to, _)| to).collect();
    // Which slot gets the memory of which; each slot gives its memory away at most once.
    let mut gets: BTreeMap<usize, usize> = BTreeMap::new();
    let mut given: HashMap<usize, Buf> = HashMap::default();
    let mut copies = vec![];
    for (&arg, &result) in w.body.args.iter().zip(&w.body.results) {
        let (to, from) = (slot_of[arg.0 as usize], slot_of[result.0 as usize]);
        if to == from {
            continue;
        }
        // What is needed after the turn stays; what was made in this turn, or is a carry, may go.
        let local = match live.origins[rep(result) as usize] {
            Origin::Inside(d) => !stays.contains(&from) && (d > depth || carries.contains(&rep(result))),
            _ => false,
        };
        match given.get(&from) {
            None if local => {
                gets.insert(to, from);
                given.insert(from, arg);
            }
            // Its memory has gone to that carry by the time of the copies.
            Some(&now) => copies.push((now, arg)),
            None => copies.push((result, arg)),
        }
    }
    // A slot that gives and gets nothing back gets the memory at the other end of its chain.
    let open: Vec<usize> = given.keys().copied().filter(|from| !gets.contains_key(from)).collect();
    let gives: HashMap<usize, usize> = gets.iter().map(|(&to, &from)| (from, to)).collect();
    for from in open {
        let mut end = from;
        while let Some(&to) = gives.get(&end) {
            end = to;
        }
        gets.insert(from, end);
    }
    Turn { trades: gets.into_iter().collect(), copies }
}

/// Sets of slots that trade memory.
struct Rings {
    parent: Vec<usize>,
    size: Vec<usize>,
}

impl Rings {
    fn new(n: usize) -> Rings {
        Rings { parent: (0..n).collect(), size: vec![1; n] }
    }

    fn find(&self, mut i: usize) -> usize {
        while self.parent[i] != i {
            i = self.parent[i];
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        if a != b {
            self.parent[b] = a;
            self.size[a] += self.size[b];
        }
    }

    fn is_shared(&self, i: usize) -> bool {
        self.size[self.find(i)] > 1
    }
}
