//! Which loops can be run in waves, and what their cells are.

use std::collections::BTreeSet;
use std::ops::Range;

use meshwork_ir::hash::HashMap;
use meshwork_mesh::sort_by_key;

use super::{After, Cell, Wave, What};
use crate::exec::exchange::{Move, Piece};
use crate::exec::tape::{Item, Tape};
use crate::memory::plan::{Home, Plan, Turn};
use crate::program::{Node, While};
use crate::step::{Buf, Step, Touch};

/// Bytes that a cell writes, about: with what it reads, and the cells of the next turns beside it, they fit in the cache
/// of a core.
const CELL_BYTES: usize = 64 << 10;
/// Loops that write less than this in a turn, on all devices, are in the caches anyway.
const LEAST_BYTES: usize = 2 << 20;
/// Turns that are taken at once.
const DEPTH: usize = 8;
/// Cells that touch the same memory as one of them, at most: with more, no order keeps it in a cache.
const MOST_AFTER: usize = 12;
const LEAST_CELLS: usize = 8;
/// Of the work of a turn, steps that are one cell each, which one thread does, are at most this part.
const WHOLE_PART: u64 = 8;
/// How many cells further the next turn may begin.
const MOST_SKEW: usize = 8;

/// A memory in which addresses are compared: the arena of a device, or one of its own buffers.
type Space = (usize, usize);

/// Bytes of a memory, and whether they are written.
type Stretch = (Space, Range<i64>, bool);

/// What a loop does to memory.
struct Memory<'a> {
    plan: &'a Plan,
    /// Per slot that trades pointers, all slots that it may be.
    rings: HashMap<usize, BTreeSet<usize>>,
    /// Slots that hold something only within a turn: they get memory of their own, so that what else is at the same place
    /// of the arena, at other times of a turn, need not be waited for.
    temps: BTreeSet<usize>,
}

/// The devices that run a loop, by partition.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    pub devices: usize,
    pub partitions: usize,
}

/// An item of the body whose turns are taken in waves.
enum Part<'a> {
    Step(&'a Step),
    Moves(Vec<Move>),
}

/// A cell in the making.
struct Draft {
    cell: Cell,
    touches: Vec<Stretch>,
    /// Its place in a sweep: device, how far along memory, item.
    place: (usize, usize, usize),
}

/// How to run the loop `w` in waves; `body` are its items on the tape. `None` if it must go turn by turn.
pub(crate) fn wave(w: &While, body: &[Item], turn: &Turn, tape: &Tape, plan: &Plan, grid: Grid) -> Option<Wave> {
    if !turn.copies.is_empty() || tape.has_awaits {
        return None;
    }
    let mut memory = Memory::new(plan, turn);
    let mut parts: Vec<(u32, Part<'_>)> = vec![];
    let mut nodes = w.body.nodes.iter();
    for item in body {
        match item {
            Item::Step(number) => {
                let work = &tape.steps[*number as usize].work;
                let step = nodes.find_map(|n| match n {
                    Node::Step(s) if std::sync::Arc::ptr_eq(&s.work, work) => Some(s),
                    _ => None,
                })?;
                parts.push((*number, Part::Step(step)));
            }
            Item::Exchange(number) => parts.push((*number, Part::Moves(tape.exchanges[*number as usize].moves()?))),
            Item::Await(_) | Item::Loop(_) | Item::Choice(_) => return None,
        }
    }
    let of_cond = w.cond.nodes.iter().map(|n| match n {
        Node::Step(s) => Some(Part::Step(s)),
        Node::Collective(_) | Node::Await(_) | Node::While(_) | Node::Case(_) => None,
    });
    let of_cond: Vec<Part<'_>> = of_cond.collect::<Option<_>>()?;
    memory.find_temps(w, &parts, &of_cond);
    let in_waves = connected(&memory, &parts)?;
    let large = || parts.iter().zip(&in_waves).filter(|p| *p.1).map(|p| &p.0.1);
    if large().any(|p| of_cond.iter().any(|c| memory.part_meets(c, p))) {
        return None;
    }
    let mut drafts: Vec<Draft> = vec![];
    for (item, (number, part)) in parts.iter().enumerate().filter(|p| in_waves[p.0]) {
        for device in 0..grid.devices {
            memory.cells(part, item, *number, device, grid, &mut drafts)?;
        }
    }
    let cost = |whole: bool| {
        let of = |d: &Draft| match &d.cell.what {
            What::Work { work, parts, .. } if !whole || parts.len() == work.parts() => {
                work.cost() * parts.len() as u64 / work.parts().max(1) as u64
            }
            What::Work { .. } | What::Move { .. } => 0,
        };
        drafts.iter().map(of).sum::<u64>()
    };
    if cost(true) > cost(false) / WHOLE_PART {
        return None;
    }
    let written = |d: &Draft| d.touches.iter().filter(|t| t.2).map(|t| t.1.end - t.1.start).sum::<i64>() as usize;
    if drafts.len() < LEAST_CELLS || drafts.iter().map(written).sum::<usize>() < LEAST_BYTES {
        return None;
    }
    sort_by_key(&mut drafts, |d| d.place);
    let after = conflicts(&drafts);
    let distance = |(i, after): (usize, &Vec<After>)| after.iter().map(|a| (a.cell as usize).saturating_sub(i)).max();
    let mut distances: Vec<usize> = after.iter().enumerate().filter_map(distance).collect();
    distances.sort_unstable();
    let skew = distances.get(distances.len() / 2).copied().unwrap_or(1).max(1);
    if skew > MOST_SKEW || after.iter().any(|a| a.len() > MOST_AFTER) {
        return None;
    }
    let cells = drafts.into_iter().zip(after).map(|(d, after)| Cell { after, ..d.cell }).collect();
    let steps = parts.iter().zip(&in_waves).filter(|(p, w)| !**w && matches!(p.1, Part::Step(_)));
    let little = steps.map(|(p, _)| p.0).collect();
    let temps = memory.temps.iter().map(|&s| (plan.slots[s].members.clone(), plan.slots[s].bytes)).collect();
    Some(Wave { little, cells, temps, skew, depth: DEPTH })
}

/// Which parts of the body go together: the most expensive step, exchanges, and what has memory in common with these. All
/// turns of the others can come before.
fn connected(memory: &Memory<'_>, parts: &[(u32, Part<'_>)]) -> Option<Vec<bool>> {
    let cost = |p: &Part<'_>| match p {
        Part::Step(s) => s.work.cost(),
        Part::Moves(_) => 0,
    };
    let largest = (0..parts.len()).max_by_key(|&i| cost(&parts[i].1))?;
    let mut inside: Vec<bool> =
        (0..parts.len()).map(|i| i == largest || matches!(parts[i].1, Part::Moves(_))).collect();
    loop {
        let meets = |i: usize| (0..parts.len()).any(|j| inside[j] && memory.part_meets(&parts[i].1, &parts[j].1));
        match (0..parts.len()).find(|&i| !inside[i] && meets(i)) {
            Some(i) => inside[i] = true,
            None => return Some(inside),
        }
    }
}

/// Per cell, the others with which it has memory in common that one of them writes.
fn conflicts(drafts: &[Draft]) -> Vec<Vec<After>> {
    let mut all: Vec<(&Stretch, usize)> = vec![];
    drafts.iter().enumerate().for_each(|(i, d)| all.extend(d.touches.iter().map(|t| (t, i))));
    sort_by_key(&mut all, |(t, _)| (t.0, t.1.start));
    let mut out = vec![BTreeSet::new(); drafts.len()];
    for (i, &((space, bytes, written), cell)) in all.iter().enumerate() {
        let near = all[i + 1..].iter().take_while(|(t, _)| t.0 == *space && t.1.start < bytes.end);
        for &(_, number) in near.filter(|(t, number)| *number != cell && (*written || t.2)) {
            out[cell].insert(number);
            out[number].insert(cell);
        }
    }
    let after = |cell: usize| {
        let one = |&other: &usize| After { cell: other as u32, same: drafts[other].cell.item < drafts[cell].cell.item };
        out[cell].iter().map(one).collect()
    };
    (0..drafts.len()).map(after).collect()
}

impl<'a> Memory<'a> {
    fn new(plan: &'a Plan, turn: &Turn) -> Memory<'a> {
        let mut rings: HashMap<usize, BTreeSet<usize>> = HashMap::default();
        for &(to, from) in &turn.trades {
            let mut all = BTreeSet::from([to, from]);
            for slot in [to, from] {
                all.extend(rings.get(&slot).into_iter().flatten());
            }
            for &slot in &all {
                rings.insert(slot, all.clone());
            }
        }
        Memory { plan, rings, temps: BTreeSet::new() }
    }

    /// Finds what the body writes and nothing reads in the next turn, or in the condition.
    fn find_temps(&mut self, w: &While, body: &[(u32, Part<'_>)], cond: &[Part<'_>]) {
        let slot = |b: &Buf| self.plan.slot_of[b.0 as usize];
        let mut kept: BTreeSet<usize> = w.body.args.iter().chain(&w.body.results).map(slot).collect();
        cond.iter().map(Part::bufs).for_each(|(reads, writes)| kept.extend(reads.iter().chain(&writes).map(slot)));
        let written = body.iter().flat_map(|p| p.1.bufs().1);
        let is_temp = |s: &usize| {
            matches!(self.plan.slots[*s].home, Home::Arena(_)) && !self.rings.contains_key(s) && !kept.contains(s)
        };
        self.temps = written.map(|b| slot(&b)).filter(is_temp).collect();
    }

    /// The slots that `buf` is in one turn or another.
    fn slots(&self, buf: Buf) -> BTreeSet<usize> {
        let slot = self.plan.slot_of[buf.0 as usize];
        self.rings.get(&slot).cloned().unwrap_or_else(|| BTreeSet::from([slot]))
    }

    /// Adds what `touch` of `device` is in memory, in any turn; nothing if it is never written. `None` if devices have
    /// it together.
    fn add(&self, device: usize, touch: &Touch, out: &mut Vec<Stretch>) -> Option<()> {
        for slot in self.slots(touch.buf) {
            let (space, start) = match self.plan.slots[slot].home {
                _ if self.temps.contains(&slot) => (1 + self.plan.owns.len() + slot, 0),
                Home::Nowhere => continue,
                Home::Arg(_) | Home::Constant(_) | Home::Peer(_) if !touch.written => continue,
                Home::Arg(_) | Home::Constant(_) | Home::Peer(_) | Home::Shared(..) => return None,
                Home::Own(i) if self.plan.owns[i].shared.is_some() => return None,
                Home::Arena(offset) => (0, offset),
                Home::Own(i) => (1 + i, 0),
            };
            let start = start as i64;
            out.push(((device, space), touch.bytes.start + start..touch.bytes.end + start, touch.written));
        }
        Some(())
    }

    /// Whether two slots of a device have memory in common.
    fn overlap(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.plan.slots[a], &self.plan.slots[b]);
        match (x.home, y.home) {
            _ if a == b => true,
            _ if self.temps.contains(&a) || self.temps.contains(&b) => false,
            (Home::Arena(i), Home::Arena(j)) => i < j + y.bytes && j < i + x.bytes,
            _ => x.home == y.home,
        }
    }

    /// Whether two buffers are in one place, maybe at different times.
    fn may_meet(&self, a: Buf, b: Buf) -> bool {
        let others = self.slots(b);
        self.slots(a).into_iter().any(|x| others.iter().any(|&y| self.overlap(x, y)))
    }

    /// Whether two parts of a body have memory in common that one of them writes.
    fn part_meets(&self, a: &Part<'_>, b: &Part<'_>) -> bool {
        let ((a_reads, a_writes), (b_reads, b_writes)) = (a.bufs(), b.bufs());
        let any = |x: &[Buf], y: &[Buf]| x.iter().any(|&x| y.iter().any(|&y| self.may_meet(x, y)));
        any(&a_writes, &b_writes) || any(&a_writes, &b_reads) || any(&a_reads, &b_writes)
    }

    /// Adds the cells of a part of the body on one device.
    fn cells(
        &self,
        part: &Part<'_>,
        item: usize,
        number: u32,
        device: usize,
        grid: Grid,
        out: &mut Vec<Draft>,
    ) -> Option<()> {
        let mut add = |what: What, touched: Vec<(usize, Touch)>, along: usize| {
            let mut touches = vec![];
            touched.iter().try_for_each(|(device, t)| self.add(*device, t, &mut touches))?;
            let cell = Cell { device, item, what, touches: touched, after: vec![] };
            out.push(Draft { cell, touches, place: (device, along, item) });
            Some(())
        };
        match part {
            Part::Moves(moves) => {
                for m in moves.iter().filter(|m| m.to.device == device) {
                    let to = Touch { buf: m.to.buf, bytes: m.to.bytes.clone(), written: true };
                    let from = |f: &Piece| (f.device, Touch { buf: f.buf, bytes: f.bytes.clone(), written: false });
                    let touched: Vec<_> = m.from.iter().map(from).chain([(device, to)]).collect();
                    add(What::Move { exchange: number, bytes: m.clone() }, touched, 0)?;
                }
            }
            Part::Step(s) => match s.work.bands(device % grid.partitions, CELL_BYTES) {
                Some(bands) => {
                    for (part, touched) in bands.touches.into_iter().enumerate() {
                        let touched: Vec<_> = touched.into_iter().map(|t| (device, t)).collect();
                        add(
                            What::Work { step: number, work: bands.work.clone(), parts: part..part + 1 },
                            touched,
                            part,
                        )?;
                    }
                }
                None => {
                    let whole = |&buf: &Buf, written| {
                        let bytes = self.plan.slots[self.plan.slot_of[buf.0 as usize]].bytes;
                        (device, Touch { buf, bytes: 0..bytes as i64, written })
                    };
                    let mut touched: Vec<_> = s.reads.iter().map(|b| whole(b, false)).collect();
                    touched.extend(s.writes.iter().map(|b| whole(b, true)));
                    add(What::Work { step: number, work: s.work.clone(), parts: 0..s.work.parts() }, touched, 0)?;
                }
            },
        }
        Some(())
    }
}

impl Part<'_> {
    /// What it reads, and what it writes.
    fn bufs(&self) -> (Vec<Buf>, Vec<Buf>) {
        match self {
            Part::Step(s) => (s.reads.clone(), s.writes.clone()),
            Part::Moves(moves) => {
                let from = moves.iter().filter_map(|m| m.from.as_ref()).map(|f| f.buf);
                (from.collect(), moves.iter().map(|m| m.to.buf).collect())
            }
        }
    }
}
