//! The walk over a program and its tape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::{Memory, State, Token};
use super::waves;
use crate::exec::tape::{Choice, Item, Line, Loop, Tape};
use crate::memory::plan::{Home, Plan};
use crate::program::{Await, Block, Case, Collective, Node, Program, While};
use crate::step::{Buf, Step};

pub(super) struct Walk<'p> {
    program: &'p Program,
    plan: &'p Plan,
    tape: &'p Tape,
    memory: Memory<'p>,
    state: State,
    tokens: Token,
    /// Slots that loops around have borrowed memory for.
    borrowed: Vec<usize>,
    /// What the memory of results holds while their exchange is under way.
    under_way: BTreeMap<Buf, Token>,
}

/// The items of a line that have not been met yet.
type Rest<'p> = std::slice::Iter<'p, Item>;

impl<'p> Walk<'p> {
    pub(super) fn new(program: &'p Program, plan: &'p Plan, tape: &'p Tape) -> Result<Walk<'p>, String> {
        let mut trades = vec![];
        loops(&tape.main, &mut |l| trades.extend(slots_traded(plan, l)));
        let memory = Memory::new(plan, &trades)?;
        for (b, info) in program.bufs.iter().enumerate() {
            let slot = &plan.slots[plan.slot_of[b]];
            if info.bytes > slot.bytes {
                return Err(format!("buffer {b} of {} bytes in a slot of {} bytes", info.bytes, slot.bytes));
            }
        }
        let (state, under_way) = (State::default(), BTreeMap::new());
        Ok(Walk { program, plan, tape, memory, state, tokens: 0, borrowed: vec![], under_way })
    }

    /// Walks all of it.
    pub(super) fn all(mut self) -> Result<(), String> {
        let constants = (0..self.program.bufs.len()).filter(|&b| self.program.bufs[b].constant.is_some());
        let given: Vec<Buf> = constants.map(|b| Buf(b as u32)).chain(self.program.main.args.iter().copied()).collect();
        for buf in given {
            let token = self.token();
            self.state.mean(buf, token);
            self.state.write(&self.memory, self.memory.slot(buf), token);
        }
        let rest = self.block(&self.program.main, &self.tape.main)?;
        finished(rest)?;
        for &result in &self.program.main.results {
            self.read(result, "the caller")?;
            let inside = matches!(self.memory.home(result), Home::Arena(_) | Home::Shared(..));
            if inside && !self.is_empty(result) {
                return Err(format!("result {result:?} is in memory that the caller does not get"));
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Token {
        self.tokens += 1;
        self.tokens
    }

    fn is_empty(&self, buf: Buf) -> bool {
        self.program.bufs[buf.0 as usize].bytes == 0
    }

    /// The value that `who` reads from `buf`, which must be there.
    fn read(&self, buf: Buf, who: &str) -> Result<Token, String> {
        if self.is_empty(buf) {
            return Ok(0);
        }
        let Some(token) = self.state.means(buf) else {
            return Err(format!("{who} reads {buf:?}, which is not written on every path to it"));
        };
        if self.state.holds(self.memory.slot(buf)) != Some(token) {
            return Err(format!("{who} reads {buf:?}, whose memory has been written over or never written"));
        }
        Ok(token)
    }

    /// `buf` gets a new value.
    fn write(&mut self, buf: Buf, who: &str) -> Result<(), String> {
        let token = self.token();
        self.state.mean(buf, token);
        self.put(buf, token, who)
    }

    /// The memory of `buf` gets the value `token`.
    fn put(&mut self, buf: Buf, token: Token, who: &str) -> Result<(), String> {
        if self.is_empty(buf) {
            return Ok(());
        }
        let slot = self.memory.slot(buf);
        match self.memory.home(buf) {
            Home::Arg(_) | Home::Constant(_) => return Err(format!("{who} writes {buf:?}, which is not its own")),
            Home::Nowhere => return Err(format!("{who} writes {buf:?}, which has no memory")),
            _ if self.borrowed.contains(&slot) => {
                return Err(format!("{who} writes {buf:?}, whose memory is borrowed"));
            }
            Home::Arena(_) | Home::Own(_) | Home::Shared(..) | Home::Peer(_) => {}
        }
        self.state.write(&self.memory, slot, token);
        Ok(())
    }

    /// Follows `block` along `line`; gives the items after it.
    fn block(&mut self, block: &'p Block, line: &'p Line) -> Result<Rest<'p>, String> {
        sections(line)?;
        let mut rest = line.items.iter();
        for node in &block.nodes {
            match node {
                Node::Step(step) => self.step(step, &mut rest)?,
                Node::Collective(c) => match rest.next() {
                    Some(Item::Exchange(n)) if self.tape.exchanges[*n as usize].op == c.op => self.exchange(c)?,
                    _ => return Err(format!("{} is not on the tape", c.name)),
                },
                Node::Await(end) => match rest.next() {
                    Some(Item::Await(n)) if self.tape.exchanges[*n as usize].op == end.op => self.awaited(end)?,
                    _ => return Err("the end of an exchange is not on the tape".into()),
                },
                Node::While(w) => self.while_loop(w, &mut rest)?,
                Node::Case(case) => self.case(case, &mut rest)?,
            }
        }
        Ok(rest)
    }

    fn step(&mut self, step: &'p Step, rest: &mut Rest<'p>) -> Result<(), String> {
        for &b in &step.reads {
            self.read(b, &step.name)?;
        }
        let on_tape = match rest.clone().next() {
            Some(&Item::Step(n)) => Some(&self.tape.steps[n as usize]).filter(|t| Arc::ptr_eq(&t.work, &step.work)),
            _ => None,
        };
        let Some(on_tape) = on_tape else {
            let slot = |b: Buf| self.memory.slot(b);
            let in_place = step.in_place.iter().all(|&(from, to)| slot(from) == slot(to));
            let all = step.writes.iter().all(|w| step.in_place.iter().any(|(_, to)| to == w) || self.is_empty(*w));
            if step.in_place.is_empty() || !in_place || !all || !step.work.nothing_in_place() {
                return Err(format!("{} is not on the tape", step.name));
            }
            for &(_, to) in &step.in_place {
                let token = self.token();
                self.state.mean(to, token);
                self.state.rename(self.memory.slot(to), Some(token));
            }
            return Ok(());
        };
        rest.next();
        for &w in step.writes.iter().filter(|&&w| !self.is_empty(w)) {
            for &r in step.reads.iter().filter(|&&r| r != w && !self.is_empty(r)) {
                let exactly = self.memory.slot(r) == self.memory.slot(w) && step.in_place.contains(&(r, w));
                if self.memory.overlap(r, w) && !exactly {
                    return Err(format!("{} writes {w:?} over {r:?}, which it reads", step.name));
                }
            }
            let shared = match self.memory.home(w) {
                Home::Shared(c, _) => Some(c),
                Home::Own(o) => self.plan.owns[o].shared,
                Home::Peer(_) => return Err(format!("{} writes {w:?}, which is a peer's", step.name)),
                Home::Nowhere | Home::Arena(_) | Home::Arg(_) | Home::Constant(_) => None,
            };
            let leaders = shared.map(|c| {
                let leader = &self.plan.shared_arenas[c].leader;
                (0..leader.len()).filter(|&d| leader[d] == d).collect::<Vec<_>>()
            });
            if leaders != on_tape.once {
                return Err(format!("{} writes {w:?} for other devices than have it", step.name));
            }
        }
        step.writes.iter().try_for_each(|&w| self.write(w, &step.name))?;
        // One memory cannot hold two of them.
        step.writes.iter().try_for_each(|&w| self.read(w, &step.name).map(drop))
    }

    fn exchange(&mut self, c: &Collective) -> Result<(), String> {
        for &b in &c.operands {
            self.read(b, &c.name)?;
        }
        for (i, &result) in c.results.iter().enumerate().filter(|&(_, &r)| !self.is_empty(r)) {
            for (j, &operand) in c.operands.iter().enumerate().filter(|&(_, &o)| !self.is_empty(o)) {
                let exactly = i == j && self.memory.slot(operand) == self.memory.slot(result);
                if self.memory.overlap(operand, result) && !exactly {
                    return Err(format!("{} writes {result:?} over {operand:?}, of which it has other use", c.name));
                }
            }
        }
        for &r in &c.results {
            self.write(r, &c.name)?;
        }
        for &r in &c.results {
            self.read(r, &c.name)?;
        }
        // Until it is awaited its results are nobody's to read.
        for &r in c.results.iter().filter(|_| c.channel.is_some()) {
            let token = self.token();
            self.under_way.insert(r, token);
            self.state.rename(self.memory.slot(r), Some(token));
        }
        Ok(())
    }

    fn awaited(&mut self, end: &Await) -> Result<(), String> {
        for (&operand, &result) in end.operands.iter().zip(&end.results) {
            if self.memory.slot(operand) != self.memory.slot(result) {
                self.read(operand, "communication under way")?;
            }
            if self.is_empty(result) {
                continue;
            }
            let slot = self.memory.slot(result);
            let held = self.under_way.remove(&result);
            if held.is_none() || self.state.holds(slot) != held {
                return Err(format!("{result:?} was written over while its communication was under way"));
            }
            self.state.rename(slot, self.state.means(result));
        }
        Ok(())
    }

    /// Steps of the tape that copy a buffer, up to the first that does not.
    fn copies(&mut self, rest: &mut Rest<'p>, what: &str) -> Result<(), String> {
        while let Some(&Item::Step(n)) = rest.clone().next() {
            let Some(copy) = self.tape.steps[n as usize].copy else { break };
            self.copy(copy, what)?;
            rest.next();
        }
        Ok(())
    }

    fn copy(&mut self, (from, to): (Buf, Buf), what: &str) -> Result<(), String> {
        if self.memory.overlap(from, to) {
            return Err(format!("{what} copies {from:?} onto itself"));
        }
        match self.state.holds(self.memory.slot(from)) {
            Some(held) => self.put(to, held, what),
            None if self.is_empty(from) => Ok(()),
            None => Err(format!("{what} copies {from:?}, whose memory has been written over")),
        }
    }

    /// `to` takes the values `tokens`, which must be in its memory, under new names.
    fn hand_over(&mut self, tokens: &[Token], to: &[Buf], names: &[Token], what: &str) -> Result<(), String> {
        for (&token, &buf) in tokens.iter().zip(to) {
            if !self.is_empty(buf) && self.state.holds(self.memory.slot(buf)) != Some(token) {
                return Err(format!("{what}: the memory of {buf:?} does not have its value"));
            }
        }
        let mut seen = BTreeSet::new();
        for (&name, &buf) in names.iter().zip(to) {
            self.state.mean(buf, name);
            if !self.is_empty(buf) {
                if !seen.insert(self.memory.slot(buf)) {
                    return Err(format!("{what}: {buf:?} shares its memory with another"));
                }
                self.state.rename(self.memory.slot(buf), Some(name));
            }
        }
        Ok(())
    }

    fn reads(&self, bufs: &[Buf], who: &str) -> Result<Vec<Token>, String> {
        bufs.iter().map(|&b| self.read(b, who)).collect()
    }

    fn while_loop(&mut self, w: &'p While, rest: &mut Rest<'p>) -> Result<(), String> {
        let inits = self.reads(&w.init, "a loop")?;
        self.copies(rest, "the entry of a loop")?;
        let Some(Item::Loop(l)) = rest.next() else { return Err("a loop is not on the tape".into()) };
        for b in &l.borrows {
            let copy = self.tape.steps[b.copy as usize].copy;
            if copy != Some((b.init, b.carry[0])) && !b.carry.iter().any(|&c| copy == Some((b.init, c))) {
                return Err("a carry borrows what it does not start from".into());
            }
            if !matches!(self.memory.home(b.init), Home::Arg(_) | Home::Constant(_)) {
                return Err(format!("a carry borrows the memory of {:?}, which may change", b.init));
            }
            // Its own memory takes the value when the loop ends before its first turn.
            self.copies_of(b.copy, "a loop without turns")?;
        }
        let names: Vec<Token> = w.init.iter().map(|_| self.token()).collect();
        self.hand_over(&inits, &w.body.args, &names, "the entry of a loop")?;
        let borrowed = self.borrowed.len();
        self.borrowed.extend(l.borrows.iter().map(|b| self.memory.slot(b.carry[0])));
        let mut head = self.state.clone();
        let after = loop {
            w.cond.args.iter().zip(&names).for_each(|(&b, &name)| self.state.mean(b, name));
            finished(self.block(&w.cond, &l.cond)?)?;
            self.reads(&w.cond.results, "a loop")?;
            if w.cond.results.first() != Some(&l.go_on) {
                return Err("a loop ends by another value than its condition".into());
            }
            let after = self.state.clone();
            finished(self.block(&w.body, &l.body)?)?;
            self.turn(w, l, &names)?;
            let both = head.common(&self.state);
            self.state = both.clone();
            if both == head {
                break after;
            }
            head = both;
        };
        self.borrowed.truncate(borrowed);
        self.state = after;
        match &l.wave {
            Some(wave) => waves::check((self.program, self.tape, &self.memory), w, l, wave),
            None => Ok(()),
        }
    }

    fn copies_of(&mut self, step: u32, what: &str) -> Result<(), String> {
        self.tape.steps[step as usize].copy.map_or(Ok(()), |copy| self.copy(copy, what))
    }

    /// The end of a turn.
    fn turn(&mut self, w: &While, l: &Loop, names: &[Token]) -> Result<(), String> {
        let next = self.reads(&w.body.results, "the next turn of a loop")?;
        let trades = slots_traded(self.plan, l);
        let (to, from): (BTreeSet<usize>, BTreeSet<usize>) = trades.iter().copied().unzip();
        let whole = |t: &crate::exec::tape::Trade| {
            let slot = self.memory.slot(t.to[0]);
            (0..self.plan.slot_of.len()).all(|b| (self.plan.slot_of[b] == slot) == t.to.contains(&Buf(b as u32)))
        };
        if to != from || to.len() != trades.len() || !l.trades.iter().all(whole) {
            return Err("a loop trades memory so that two buffers get the same".into());
        }
        // From the second turn on carries have memory of their own.
        let borrowed = std::mem::take(&mut self.borrowed);
        self.state.trade(&trades);
        l.copies.iter().try_for_each(|&n| self.copies_of(n, "a turn of a loop"))?;
        self.borrowed = borrowed;
        self.hand_over(&next, &w.body.args, names, "a turn of a loop")
    }

    fn case(&mut self, case: &'p Case, rest: &mut Rest<'p>) -> Result<(), String> {
        self.read(case.index, "a choice")?;
        let Some(Item::Choice(choice)) = rest.next() else { return Err("a choice is not on the tape".into()) };
        let Choice { index, branches, .. } = &**choice;
        if *index != case.index || branches.len() != case.branches.len() {
            return Err("a choice by another value than its index".into());
        }
        let before = self.state.clone();
        let names: Vec<Token> = case.results.iter().map(|_| self.token()).collect();
        let mut after: Option<State> = None;
        for (block, line) in case.branches.iter().zip(branches) {
            self.state = before.clone();
            let mut end = self.block(block, line)?;
            let returned = self.reads(&block.results, "the end of a branch")?;
            self.copies(&mut end, "the end of a branch")?;
            finished(end)?;
            self.hand_over(&returned, &case.results, &names, "the end of a branch")?;
            after = Some(after.map_or(self.state.clone(), |a| a.common(&self.state)));
        }
        self.state = after.unwrap_or(before);
        Ok(())
    }
}

fn finished(mut rest: Rest<'_>) -> Result<(), String> {
    rest.next().map_or(Ok(()), |_| Err("the tape has more than the program".into()))
}

fn loops<'p>(line: &'p Line, visit: &mut impl FnMut(&'p Loop)) {
    for item in &line.items {
        match item {
            Item::Step(_) | Item::Exchange(_) | Item::Await(_) => {}
            Item::Loop(l) => {
                visit(l);
                loops(&l.cond, visit);
                loops(&l.body, visit);
            }
            Item::Choice(c) => c.branches.iter().for_each(|b| loops(b, visit)),
        }
    }
}

/// Which slots get the memory of which after a turn.
fn slots_traded(plan: &Plan, l: &Loop) -> Vec<(usize, usize)> {
    let slot = |b: Buf| plan.slot_of[b.0 as usize];
    l.trades.iter().filter_map(|t| Some((slot(*t.to.first()?), slot(t.from)))).collect()
}

/// Sections cover a line in order, and those that devices run by themselves have no communication.
fn sections(line: &Line) -> Result<(), String> {
    let mut at = 0;
    for section in &line.sections {
        if section.range.start != at {
            return Err("a line of the tape is not run in order".into());
        }
        at = section.range.end;
        let meets = |i: &Item| matches!(i, Item::Exchange(_) | Item::Await(_));
        if section.local && line.items[section.range.clone()].iter().any(meets) {
            return Err("communication in a section that devices run by themselves".into());
        }
    }
    if at == line.items.len() { Ok(()) } else { Err("a line of the tape is not run to its end".into()) }
}
