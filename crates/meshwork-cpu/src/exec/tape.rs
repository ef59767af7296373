//! A program ready to be run: steps by number, loops and choices with what happens to memory around them.

use std::sync::Arc;

use meshwork_ir::DeviceGrid;
use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::{ElementType, Module, OpId};

use super::crossing::Crossing;
use super::crossing::build::Spread;
use super::exchange::Exchange;
use super::wave::{self, Wave};
use crate::memory::plan::{Home, Plan, Turn};
use crate::memory::share::Leaders;
use crate::program::{Block, Case, Node, Program, While};
use crate::step::{Buf, Fault, Frame, Scratch, Step, Work};

/// A program whose memory is planned.
pub(crate) struct Tape {
    pub steps: Vec<TapeStep>,
    pub exchanges: Vec<Exchange>,
    /// Whether some of them are only started at their place.
    pub has_awaits: bool,
    pub main: Line,
}

/// A step and what is asked of it often.
pub(crate) struct TapeStep {
    pub work: Arc<dyn Work>,
    pub parts: usize,
    pub cost: u64,
    pub op: OpId,
    pub name: String,
    /// The devices that do it for all, who then have what it writes in common.
    pub once: Option<Vec<usize>>,
    /// From where to where it copies, if the plan put it in.
    pub copy: Option<(Buf, Buf)>,
}

/// A straight line of items.
pub(crate) struct Line {
    pub items: Vec<Item>,
    /// The items in runs: those that every device does by itself, and single ones that all devices wait for.
    pub sections: Vec<Section>,
    pub weight: Weight,
}

/// A run of items without communication, or one item with.
pub(crate) struct Section {
    pub range: std::ops::Range<usize>,
    pub local: bool,
    pub weight: Weight,
}

/// What something costs one device.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weight {
    /// Nanoseconds.
    pub cost: u64,
    /// Of the most expensive step that has parts.
    pub widest: u64,
    /// Steps to run, once per loop body.
    pub steps: u64,
    /// Whether there is communication, or a step that some devices do for all.
    pub shared: bool,
}

impl Weight {
    fn and(self, other: Weight) -> Weight {
        Weight {
            cost: self.cost.saturating_add(other.cost),
            widest: self.widest.max(other.widest),
            steps: self.steps + other.steps,
            shared: self.shared || other.shared,
        }
    }
}

pub(crate) enum Item {
    Step(u32),
    Exchange(u32),
    /// The end of an exchange that was only started.
    Await(u32),
    Loop(Box<Loop>),
    Choice(Box<Choice>),
}

/// A loop; its carries have been given their first values.
pub(crate) struct Loop {
    pub cond: Line,
    /// The condition, one byte.
    pub go_on: Buf,
    pub body: Line,
    /// Pointers to exchange after a turn.
    pub trades: Vec<Trade>,
    /// Then copies: numbers of steps.
    pub copies: Vec<u32>,
    /// Carries whose first value is read where it is.
    pub borrows: Vec<Borrow>,
    /// How to take several turns at once.
    pub wave: Option<Wave>,
    /// How often it turns, if that is known.
    pub trips: Option<u64>,
    /// If all devices would do the same: who does it, and what the others get.
    pub once: Option<Once>,
}

/// Something that the leaders of groups of devices do for all.
pub(crate) struct Once {
    /// The leaders, in ascending order.
    pub active: Vec<usize>,
    /// The leader of each device.
    pub leader: Leaders,
    /// What the others are given, with its size.
    pub results: Vec<(Buf, usize)>,
}

/// A carry whose first value is never overwritten, and which the body does not write in place: the first turn reads that
/// value where it is, and the carry's own memory comes in after the turn.
pub(crate) struct Borrow {
    pub init: Buf,
    /// The carry and all that share its memory.
    pub carry: Vec<Buf>,
    /// Those that get its memory after a turn.
    pub next: Vec<Buf>,
    /// The step that copies the value, should there be no turn.
    pub copy: u32,
}

/// These buffers get the pointer of that one.
pub(crate) struct Trade {
    pub to: Vec<Buf>,
    pub from: Buf,
}

/// A choice.
pub(crate) struct Choice {
    pub index: Buf,
    /// Whether the index is an `i1`, which chooses the first branch when true.
    pub flag: bool,
    pub branches: Vec<Line>,
}

struct Builder<'a> {
    program: &'a Program,
    module: &'a Module,
    plan: &'a Plan,
    grid: DeviceGrid,
    spread: Option<&'a Spread>,
    tape: Tape,
    /// The number of each exchange, by its first result.
    started: HashMap<Buf, u32>,
    turns: std::slice::Iter<'a, crate::memory::plan::Turn>,
}

/// How often a loop turns if it is unknown.
const GUESSED_TRIPS: u64 = 16;

/// Lays out `program` for the devices of `grid`, which may be spread over processes.
pub(crate) fn tape(
    program: &Program,
    module: &Module,
    plan: &Plan,
    grid: DeviceGrid,
    spread: Option<&Spread>,
) -> Result<Tape, (OpId, String)> {
    let main = Line { items: vec![], sections: vec![], weight: Weight::default() };
    let tape = Tape { steps: vec![], exchanges: vec![], has_awaits: false, main };
    let mut builder =
        Builder { program, module, plan, grid, spread, tape, started: HashMap::default(), turns: plan.turns.iter() };
    let (items, weights) = builder.block(&program.main)?;
    builder.tape.main = line(items, weights);
    Ok(builder.tape)
}

/// Items with their weights.
type Weighted = (Vec<Item>, Vec<Weight>);

impl Builder<'_> {
    fn block(&mut self, block: &Block) -> Result<Weighted, (OpId, String)> {
        let (mut items, mut weights) = (vec![], vec![]);
        let is_entry = std::ptr::eq(block, &raw const self.program.main);
        for (at, node) in block.nodes.iter().enumerate() {
            match node {
                Node::Step(step) => {
                    let before = items.len();
                    self.step(step, &mut items, &mut weights);
                    let arena = self.plan.once.get(&at).filter(|_| is_entry && items.len() > before);
                    let last = (weights.last_mut(), self.tape.steps.last_mut());
                    if let (Some(&arena), (Some(weight), Some(step))) = (arena, last) {
                        let leader = &self.plan.shared_arenas[arena].leader;
                        step.once = Some((0..leader.len()).filter(|&d| leader[d] == d).collect());
                        weight.shared = true;
                    }
                }
                Node::Collective(c) => {
                    let number = self.tape.exchanges.len() as u32;
                    let wrong = |e| (c.op, e);
                    let mut exchange =
                        Exchange::new(c, self.program, self.module, self.plan, self.grid.len()).map_err(wrong)?;
                    if let Some(spread) = self.spread {
                        let crossing = Crossing::new(c, number, self.program, self.module, spread);
                        exchange.crossing = Some(crossing.map_err(wrong)?);
                    }
                    weights.push(Weight { cost: exchange.cost, widest: exchange.cost, steps: 1, shared: true });
                    items.push(Item::Exchange(number));
                    self.started.extend(c.results.first().map(|&r| (r, number)));
                    self.tape.exchanges.push(exchange);
                }
                Node::Await(end) => {
                    let Some(&number) = end.results.first().and_then(|r| self.started.get(r)) else {
                        return Err((end.op, "the end of a collective that was not started".into()));
                    };
                    weights.push(Weight { cost: 0, widest: 0, steps: 1, shared: true });
                    items.push(Item::Await(number));
                    self.tape.has_awaits = true;
                }
                Node::While(w) => {
                    let once = self.plan.once_loops.get(&at).filter(|_| is_entry);
                    let once = once.map(|leader| self.once(w, leader, &block.nodes[at + 1..]));
                    self.while_loop(w, once, &mut items, &mut weights)?
                }
                Node::Case(case) => self.case(case, &mut items, &mut weights)?,
            }
        }
        Ok((items, weights))
    }

    fn step(&mut self, step: &Step, items: &mut Vec<Item>, weights: &mut Vec<Weight>) {
        let slot = |b: Buf| self.plan.slot_of[b.0 as usize];
        let in_place = !step.in_place.is_empty() && step.in_place.iter().all(|&(from, to)| slot(from) == slot(to));
        if in_place && step.work.nothing_in_place() {
            return;
        }
        let (parts, cost) = (step.work.parts(), step.work.cost());
        let widest = if parts > 1 { cost } else { 0 };
        weights.push(Weight { cost, widest, steps: 1, shared: false });
        items.push(Item::Step(self.tape.steps.len() as u32));
        let (work, name) = (step.work.clone(), step.name.clone());
        self.tape.steps.push(TapeStep { work, parts, cost, op: step.op, name, once: None, copy: None });
    }

    /// Adds a step of [`copy`](Builder::copy).
    fn copied(&mut self, step: &Step, items: &mut Vec<Item>, weights: &mut Vec<Weight>) {
        self.step(step, items, weights);
        if let Some(last) = self.tape.steps.last_mut() {
            last.copy = Some((step.reads[0], step.writes[0]));
        }
    }

    /// A copy of `from` to `to`, unless they are one piece of memory.
    fn copy(&mut self, from: Buf, to: Buf, op: OpId) -> Option<Step> {
        let bytes = self.program.bufs[to.0 as usize].bytes;
        if self.plan.slot_of[from.0 as usize] == self.plan.slot_of[to.0 as usize] || bytes == 0 {
            return None;
        }
        let (work, reads, writes) = (Arc::new(Copy { from, to, bytes }), vec![from], vec![to]);
        Some(Step { work, reads, writes, in_place: vec![], op, name: format!("copy {bytes} bytes") })
    }

    /// What is done once for a loop of the entry block that `after` follows.
    fn once(&self, w: &While, leader: &Leaders, after: &[Node]) -> Once {
        let mut used: HashSet<Buf> = self.program.main.results.iter().copied().collect();
        after.iter().for_each(|node| uses(node, &mut used));
        let bytes = |b: Buf| self.program.bufs[b.0 as usize].bytes;
        let carries = w.body.args.iter().zip(&w.cond.args);
        let results = carries.filter(|(a, b)| used.contains(a) || used.contains(b)).map(|(&a, _)| (a, bytes(a)));
        let active = (0..leader.len()).filter(|&d| leader[d] == d).collect();
        Once { active, leader: leader.clone(), results: results.collect() }
    }

    fn while_loop(
        &mut self,
        w: &While,
        once: Option<Once>,
        items: &mut Vec<Item>,
        weights: &mut Vec<Weight>,
    ) -> Result<(), (OpId, String)> {
        let turn = self.turns.next().cloned().unwrap_or_default();
        let mut borrows = vec![];
        for (&init, &carry) in w.init.iter().zip(&w.body.args) {
            let Some(step) = self.copy(init, carry, w.op) else { continue };
            match self.borrow(w, &turn, init, carry) {
                Some((carry, next)) => {
                    self.copied(&step, &mut vec![], &mut vec![]);
                    borrows.push(Borrow { init, carry, next, copy: self.tape.steps.len() as u32 - 1 });
                }
                None => self.copied(&step, items, weights),
            }
        }
        let (cond, cond_weights) = self.block(&w.cond)?;
        let (body, body_weights) = self.block(&w.body)?;
        let (mut copies, mut copy_weights) = (vec![], vec![]);
        for &(from, to) in &turn.copies {
            if let Some(step) = self.copy(from, to, w.op) {
                self.copied(&step, &mut copies, &mut copy_weights);
            }
        }
        let number = |item: Item| if let Item::Step(i) = item { Some(i) } else { None };
        let copies = copies.into_iter().filter_map(number).collect();
        let trades = turn
            .trades
            .iter()
            .map(|&(to, from)| Trade {
                to: self.plan.slots[to].members.clone(),
                from: self.plan.slots[from].members[0],
            })
            .collect();
        let Some(&go_on) = w.cond.results.first() else {
            return Err((w.op, "a loop whose condition has no result".into()));
        };
        let grid = wave::Grid { devices: self.grid.len(), partitions: self.grid.partitions };
        let wave = match self.spread {
            None => wave::wave(w, &body, &turn, &self.tape, self.plan, grid),
            Some(_) => None,
        };
        let (cond, body) = (line(cond, cond_weights), line(body, body_weights));
        let mut weight = cond.weight.and(body.weight);
        weight = copy_weights.into_iter().fold(weight, Weight::and);
        weight.cost = (weight.cost + 20).saturating_mul(w.trips.unwrap_or(GUESSED_TRIPS));
        weight.shared |= once.is_some();
        weights.push(weight);
        items.push(Item::Loop(Box::new(Loop {
            cond,
            go_on,
            body,
            trades,
            copies,
            borrows,
            wave,
            trips: w.trips,
            once,
        })));
        Ok(())
    }

    /// If the carry of a loop can borrow the memory of its first value: those that share its memory, and those that get it
    /// after a turn.
    fn borrow(&self, w: &While, turn: &Turn, init: Buf, carry: Buf) -> Option<(Vec<Buf>, Vec<Buf>)> {
        let slot = |b: Buf| self.plan.slot_of[b.0 as usize];
        let is_kept = matches!(self.plan.slots[slot(init)].home, Home::Arg(_) | Home::Constant(_));
        let own = slot(carry);
        let &(next, _) = turn.trades.iter().find(|t| t.1 == own)?;
        let reads_only = |node: &Node| match node {
            Node::Step(s) => s.writes.iter().all(|&b| slot(b) != own),
            Node::Collective(c) => c.results.iter().all(|&b| slot(b) != own),
            Node::Await(_) | Node::While(_) | Node::Case(_) => false,
        };
        // Its memory goes on without its value.
        let ends = w.body.results.iter().all(|&b| slot(b) != own);
        let fits = is_kept
            && ends
            && w.cond.nodes.iter().chain(&w.body.nodes).all(reads_only)
            && turn.copies.iter().all(|&(_, to)| slot(to) != own && slot(to) != next)
            && w.body.args.iter().filter(|&&b| slot(b) == own).count() == 1;
        fits.then(|| (self.plan.slots[own].members.clone(), self.plan.slots[next].members.clone()))
    }

    fn case(&mut self, case: &Case, items: &mut Vec<Item>, weights: &mut Vec<Weight>) -> Result<(), (OpId, String)> {
        let mut branches = vec![];
        for branch in &case.branches {
            let (mut inner, mut inner_weights) = self.block(branch)?;
            for (&from, &to) in branch.results.iter().zip(&case.results) {
                if let Some(step) = self.copy(from, to, case.op) {
                    self.copied(&step, &mut inner, &mut inner_weights);
                }
            }
            branches.push(line(inner, inner_weights));
        }
        if branches.is_empty() {
            return Err((case.op, "a choice without branches".into()));
        }
        let mut weight = branches.iter().fold(Weight::default(), |w, b| w.and(b.weight));
        weight.cost /= branches.len() as u64;
        weights.push(weight);
        let flag = self.program.bufs[case.index.0 as usize].elem == ElementType::I1;
        items.push(Item::Choice(Box::new(Choice { index: case.index, flag, branches })));
        Ok(())
    }
}

/// Adds the buffers that `node` uses.
fn uses(node: &Node, used: &mut HashSet<Buf>) {
    let mut block = |b: &Block| {
        used.extend(&b.results);
        b.nodes.iter().for_each(|n| uses(n, used));
    };
    match node {
        Node::Step(s) => used.extend(&s.reads),
        Node::Collective(c) => used.extend(&c.operands),
        Node::Await(a) => used.extend(&a.operands),
        Node::While(w) => {
            [&w.cond, &w.body].into_iter().for_each(&mut block);
            used.extend(&w.init);
        }
        Node::Case(c) => {
            c.branches.iter().for_each(block);
            used.insert(c.index);
        }
    }
}

fn line(items: Vec<Item>, weights: Vec<Weight>) -> Line {
    let mut sections: Vec<Section> = vec![];
    for (i, &weight) in weights.iter().enumerate() {
        let local = !weight.shared;
        match sections.last_mut() {
            Some(last) if local && last.local => {
                last.range.end = i + 1;
                last.weight = last.weight.and(weight);
            }
            _ => sections.push(Section { range: i..i + 1, local, weight }),
        }
    }
    let weight = weights.into_iter().fold(Weight::default(), Weight::and);
    Line { items, sections, weight }
}

/// A copy of a whole buffer.
#[derive(Debug)]
struct Copy {
    from: Buf,
    to: Buf,
    bytes: usize,
}

const COPY_PART: usize = 256 << 10;

impl Work for Copy {
    fn parts(&self) -> usize {
        self.bytes.div_ceil(COPY_PART).clamp(1, 256)
    }

    fn cost(&self) -> u64 {
        10 + self.bytes as u64 / 12
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let parts = self.parts();
        let (from, to) = (self.bytes / 64 * part / parts * 64, self.bytes / 64 * (part + 1) / parts * 64);
        let to = if part + 1 == parts { self.bytes } else { to };
        // SAFETY: both buffers have `bytes` bytes and are different slots, so they do not overlap; parts are disjoint.
        unsafe {
            std::ptr::copy_nonoverlapping(frame.ptr(self.from).add(from), frame.ptr(self.to).add(from), to - from);
        }
        Ok(())
    }
}
