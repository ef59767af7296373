//! A loop that is run in waves: its cells do all of the body, and what touches the same bytes is in the order of the turns.

use std::collections::{BTreeMap, BTreeSet};

use meshwork_mesh::sort_by_key;

use super::state::{Memory, Place};
use crate::exec::tape::{Item, Loop, Tape};
use crate::exec::wave::{Cell, Wave, What};
use crate::program::{Node, Program, While};
use crate::step::{Buf, Step};

/// What is wrong with the waves of the loop `w`.
pub(super) fn check(
    (program, tape, memory): (&Program, &Tape, &Memory<'_>),
    w: &While,
    l: &Loop,
    wave: &Wave,
) -> Result<(), String> {
    let waves = Waves { program, tape, memory, w, l, wave, temps: temps(wave, memory)? };
    waves.all_is_done()?;
    waves.temps_are_of_a_turn()?;
    waves.little_steps_are_apart()?;
    waves.order()
}

/// The slots that have memory of their own within a turn.
fn temps(wave: &Wave, memory: &Memory<'_>) -> Result<BTreeSet<usize>, String> {
    let mut slots = BTreeSet::new();
    for (bufs, _) in &wave.temps {
        let all: BTreeSet<usize> = bufs.iter().map(|&b| memory.slot(b)).collect();
        if all.len() != 1 || !slots.insert(all.into_iter().next().unwrap_or(0)) {
            return Err(format!("{bufs:?} share memory within a turn and are not one slot"));
        }
    }
    Ok(slots)
}

struct Waves<'a> {
    program: &'a Program,
    tape: &'a Tape,
    memory: &'a Memory<'a>,
    w: &'a While,
    l: &'a Loop,
    wave: &'a Wave,
    temps: BTreeSet<usize>,
}

/// Bytes of a device's memory that a cell touches in some turn.
struct Stretch {
    from: i64,
    to: i64,
    written: bool,
    cell: usize,
    slot: usize,
}

impl Waves<'_> {
    /// The step of the body with this number on the tape.
    fn step(&self, number: u32) -> Option<&Step> {
        let work = &self.tape.steps[number as usize].work;
        self.w.body.nodes.iter().find_map(|n| match n {
            Node::Step(s) if std::sync::Arc::ptr_eq(&s.work, work) => Some(s),
            _ => None,
        })
    }

    fn bytes(&self, buf: Buf) -> i64 {
        self.program.bufs[buf.0 as usize].bytes as i64
    }

    /// Every item of the body is done by little steps or, on every device, by cells that cover it.
    fn all_is_done(&self) -> Result<(), String> {
        let devices = self.wave.cells.iter().map(|c| c.device + 1).max().unwrap_or(0);
        for (at, item) in self.l.body.items.iter().enumerate() {
            let cells: Vec<&Cell> = self.wave.cells.iter().filter(|c| c.item == at).collect();
            match item {
                Item::Step(n) if self.wave.little.contains(n) => {
                    if !cells.is_empty() {
                        return Err("a step is done both before the waves and in them".into());
                    }
                }
                Item::Step(n) => {
                    let step = self.step(*n).ok_or("a step in waves is not in the body")?;
                    (0..devices).try_for_each(|d| self.covers(step, *n, cells.iter().filter(|c| c.device == d)))?;
                }
                Item::Exchange(n) => {
                    let moves = self.tape.exchanges[*n as usize].moves().unwrap_or_default();
                    let here = |c: &&&Cell| matches!(c.what, What::Move { exchange, .. } if exchange == *n);
                    if cells.iter().filter(here).count() != moves.len() || cells.len() != moves.len() {
                        return Err("an exchange is not done by the moves of its cells".into());
                    }
                }
                Item::Await(_) | Item::Loop(_) | Item::Choice(_) => return Err("waves of what has no cells".into()),
            }
        }
        Ok(())
    }

    /// The cells of a step on one device are all of its parts, once, and write wholly what it writes.
    fn covers<'c>(
        &self,
        step: &Step,
        number: u32,
        cells: impl Iterator<Item = &'c &'c Cell> + Clone,
    ) -> Result<(), String> {
        let mut parts = vec![];
        let mut wanted = 0;
        for cell in cells.clone() {
            let What::Work { step: n, work, parts: range } = &cell.what else {
                return Err(format!("{}: a cell of it moves bytes", step.name));
            };
            if *n != number {
                return Err(format!("{}: a cell of it does another step", step.name));
            }
            wanted = work.parts();
            parts.extend(range.clone());
        }
        parts.sort_unstable();
        if parts.is_empty() || !parts.iter().copied().eq(0..wanted) {
            return Err(format!("{}: its cells do the parts {parts:?} of {wanted}", step.name));
        }
        let touches = || cells.clone().flat_map(|c| &c.touches).map(|t| &t.1);
        for t in touches() {
            let known = if t.written { step.writes.contains(&t.buf) } else { step.reads.contains(&t.buf) };
            if !known {
                return Err(format!("{}: a cell touches {:?}, which the step does not", step.name, t.buf));
            }
        }
        for &buf in step.writes.iter().filter(|b| !step.reads.contains(b)) {
            let mut written: Vec<_> =
                touches().filter(|t| t.written && t.buf == buf).map(|t| t.bytes.clone()).collect();
            sort_by_key(&mut written, |r| r.start);
            let end = written.iter().fold(0, |end, r| if r.start <= end { r.end.max(end) } else { end });
            if end < self.bytes(buf) {
                return Err(format!("{}: its cells write {end} bytes of {:?}", step.name, buf));
            }
        }
        Ok(())
    }

    /// What has memory of its own within a turn is written before it is read, and is nobody's outside.
    fn temps_are_of_a_turn(&self) -> Result<(), String> {
        for (bufs, size) in &self.wave.temps {
            for &buf in bufs {
                if self.bytes(buf) > *size as i64 {
                    return Err(format!("{buf:?} does not fit into its memory within a turn"));
                }
                let outside = self.w.body.args.iter().chain(&self.w.body.results).chain(&self.w.cond.args);
                let cond = self.w.cond.nodes.iter().filter_map(|n| if let Node::Step(s) = n { Some(s) } else { None });
                let of_cond = cond.flat_map(|s| s.reads.iter().chain(&s.writes));
                if outside.chain(of_cond).any(|b| *b == buf) {
                    return Err(format!("{buf:?} is kept from turn to turn, in memory of one turn"));
                }
                let written = |c: &&Cell| c.touches.iter().any(|t| t.1.buf == buf && t.1.written);
                let read = |c: &&Cell| c.touches.iter().any(|t| t.1.buf == buf && !t.1.written);
                let first_write = self.wave.cells.iter().filter(written).map(|c| c.item).min();
                let first_read = self.wave.cells.iter().filter(read).map(|c| c.item).min();
                if first_read.is_some_and(|r| first_write.is_none_or(|w| w >= r)) {
                    return Err(format!("{buf:?} is read before it is written in a turn"));
                }
            }
        }
        Ok(())
    }

    /// What is done ahead, the condition included, has no memory in common with cells that one of both writes.
    fn little_steps_are_apart(&self) -> Result<(), String> {
        let little = self.wave.little.iter().filter_map(|&n| self.step(n));
        let cond = self.w.cond.nodes.iter().filter_map(|n| if let Node::Step(s) = n { Some(s) } else { None });
        let mut of_cells: BTreeMap<Buf, bool> = BTreeMap::new();
        for (_, t) in self.wave.cells.iter().flat_map(|c| &c.touches) {
            *of_cells.entry(t.buf).or_default() |= t.written;
        }
        for step in little.chain(cond) {
            let own = step.reads.iter().map(|&b| (b, false)).chain(step.writes.iter().map(|&b| (b, true)));
            for (a, writes) in own {
                let met = of_cells.iter().find(|&(&b, &written)| {
                    (writes || written) && !self.temps.contains(&self.memory.slot(b)) && self.memory.ever_meet(a, b)
                });
                if let Some((b, _)) = met {
                    return Err(format!("{} is done before the waves, with {a:?} where {b:?} is", step.name));
                }
            }
        }
        Ok(())
    }

    /// Cells that touch the same bytes wait for each other; those of one item do not meet within a turn.
    fn order(&self) -> Result<(), String> {
        let mut all: BTreeMap<(usize, Option<usize>, Place), Vec<Stretch>> = BTreeMap::new();
        for (cell, data) in self.wave.cells.iter().enumerate() {
            for (device, t) in &data.touches {
                let slot = self.memory.slot(t.buf);
                let temp = self.temps.contains(&slot).then_some(slot);
                let places = if temp.is_some() { vec![(Place::default(), 0)] } else { self.memory.places(t.buf) };
                for (place, start) in places {
                    let (from, to) = (t.bytes.start + start as i64, t.bytes.end + start as i64);
                    let stretch = Stretch { from, to, written: t.written, cell, slot };
                    all.entry((*device, temp, place)).or_default().push(stretch);
                }
            }
        }
        for mut stretches in all.into_values() {
            sort_by_key(&mut stretches, |s| s.from);
            let mut open: Vec<&Stretch> = vec![];
            for s in &stretches {
                open.retain(|o| o.to > s.from);
                for o in open.iter().filter(|o| o.cell != s.cell && (o.written || s.written)) {
                    self.waits(o, s)?;
                    self.waits(s, o)?;
                }
                open.push(s);
            }
        }
        Ok(())
    }

    fn waits(&self, one: &Stretch, other: &Stretch) -> Result<(), String> {
        let (cell, before) = (&self.wave.cells[one.cell], &self.wave.cells[other.cell]);
        let same = before.item < cell.item;
        // In one turn the slots that trade places are at different ones.
        let in_one_turn = one.slot == other.slot || !self.memory.trade_places(one.slot, other.slot);
        if cell.item == before.item && in_one_turn {
            return Err(format!("cells {} and {} of one item touch the same bytes in a turn", one.cell, other.cell));
        }
        let found = cell.after.iter().any(|a| a.cell as usize == other.cell && a.same >= same);
        let what = format!("cell {} does not wait for cell {}, which touches the same bytes", one.cell, other.cell);
        if found { Ok(()) } else { Err(what) }
    }
}
