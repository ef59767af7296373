//! When buffers are alive: points of a program in the order they are run through, and intervals of them.
//!
//! Every step and collective is one point. A loop has a point where it is entered, one for the test of its condition,
//! one at the end of its body (`back`) and one where it is left; a choice has one where it is entered, one at the end
//! of each branch and one where it is left. Values that loops and choices hand on are *moves* at those points.
//!
//! A carry is alive from the entry to its last use in the body, and again from `back`, where its next value arrives:
//! in between its memory may hold that next value already. A value from outside a loop that is used in it is alive
//! until `back`.
//!
//! A collective that is only started has a second point where it ends. Its operands and results are alive from the one to
//! the other.

use meshwork_ir::hash::HashMap;

use crate::program::{Block, Case, CollectiveKind, Node, Program, While};
use crate::step::Buf;

/// A time at which a buffer is alive, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// First point.
    pub start: u32,
    /// Last point.
    pub end: u32,
    /// The buffer.
    pub buf: u32,
}

/// Where the value of one buffer passes to another, which may therefore be the same memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Move {
    /// Read.
    pub from: u32,
    /// Written.
    pub to: u32,
    /// When.
    pub at: u32,
    /// From when on both are in use; before `at` if communication is under way between them.
    pub since: u32,
    /// Why.
    pub kind: MoveKind,
}

/// Why a value moves, the most valuable to avoid first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum MoveKind {
    /// To the next turn of a loop.
    Back,
    /// Into a loop.
    Enter,
    /// Out of a branch.
    Leave,
    /// A step that can work in place.
    InPlace,
}

/// Where a buffer gets its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Nothing is known of it.
    Unused,
    /// From the caller: argument number.
    Arg(u32),
    /// It is a constant.
    Constant,
    /// A step, or a loop or branch, and the number of loops around it.
    Inside(u32),
}

/// What is alive when.
pub struct Live {
    /// The buffer that stands for each buffer: carries have two names.
    pub same: Vec<u32>,
    /// Where each buffer comes from.
    pub origins: Vec<Origin>,
    /// When each buffer is alive, in order of time; empty for unused ones, arguments and constants.
    pub segments: Vec<Vec<Segment>>,
    /// All moves.
    pub moves: Vec<Move>,
    /// The point after the last.
    pub end: u32,
}

/// A use: a point, or the end of a loop that is not known yet.
#[derive(Clone, Copy)]
enum Use {
    At(u32),
    Back(u32),
}

/// The times that only loops and choices know.
#[derive(Clone, Default)]
struct Times {
    starts: Vec<u32>,
    /// A carry's loop, and the points `enter`, `test`.
    carry: Option<(u32, u32, u32)>,
    /// From when on it is alive outside.
    outside: u32,
}

struct Walk<'p> {
    program: &'p Program,
    live: Live,
    times: Vec<Times>,
    /// Uses, and whether inside the loop whose carry the buffer is.
    uses: Vec<(u32, Use, bool)>,
    depth: Vec<u32>,
    loops: Vec<u32>,
    backs: Vec<u32>,
    /// By the first result, of collectives whose results may be where their operands do: when they began, and the number
    /// of uses until then.
    started: HashMap<Buf, (u32, usize)>,
    at: u32,
}

/// The life of all buffers of `program`.
pub fn live(program: &Program) -> Live {
    let n = program.bufs.len();
    let live = Live {
        same: (0..n as u32).collect(),
        origins: program
            .bufs
            .iter()
            .map(|b| if b.constant.is_some() { Origin::Constant } else { Origin::Unused })
            .collect(),
        segments: vec![vec![]; n],
        moves: vec![],
        end: 0,
    };
    let mut walk = Walk {
        program,
        live,
        times: vec![Times::default(); n],
        uses: vec![],
        depth: vec![0; n],
        loops: vec![],
        backs: vec![],
        started: HashMap::default(),
        at: 1,
    };
    for (i, arg) in program.main.args.iter().enumerate() {
        walk.live.origins[arg.0 as usize] = Origin::Arg(i as u32);
    }
    walk.block(&program.main);
    let end = walk.point();
    walk.results(&program.main, end);
    walk.finish(end)
}

impl Walk<'_> {
    fn point(&mut self) -> u32 {
        self.at += 1;
        self.at - 1
    }

    fn rep(&self, buf: Buf) -> u32 {
        self.live.same[buf.0 as usize]
    }

    /// `buf` gets a value at `at`; later values count as uses.
    fn define(&mut self, buf: Buf, at: u32) {
        let b = self.rep(buf) as usize;
        match self.live.origins[b] {
            Origin::Unused => {
                self.live.origins[b] = Origin::Inside(self.loops.len() as u32);
                self.depth[b] = self.loops.len() as u32;
                self.times[b].starts.push(at);
            }
            _ => self.read(buf, at),
        }
    }

    fn read(&mut self, buf: Buf, at: u32) {
        let b = self.rep(buf);
        if self.live.origins[b as usize] == Origin::Unused {
            self.define(buf, at);
            return;
        }
        let depth = self.depth[b as usize] as usize;
        let inside = self.times[b as usize].carry.is_some_and(|(id, ..)| self.loops.get(depth) == Some(&id));
        let used = match self.loops.get(depth + usize::from(inside)) {
            Some(&outer) => Use::Back(outer),
            None => Use::At(at),
        };
        self.uses.push((b, used, inside));
    }

    fn results(&mut self, block: &Block, at: u32) {
        block.results.iter().for_each(|&r| self.read(r, at));
    }

    fn moved(&mut self, from: Buf, to: Buf, at: u32, kind: MoveKind) {
        self.moved_since(from, to, (at, at), kind);
    }

    fn moved_since(&mut self, from: Buf, to: Buf, (since, at): (u32, u32), kind: MoveKind) {
        let (from, to) = (self.rep(from), self.rep(to));
        if from != to {
            self.live.moves.push(Move { from, to, at, since, kind });
        }
    }

    fn block(&mut self, block: &Block) {
        for node in &block.nodes {
            match node {
                Node::Step(step) => {
                    let at = self.point();
                    step.reads.iter().for_each(|&b| self.read(b, at));
                    step.writes.iter().for_each(|&b| self.define(b, at));
                    for &(from, to) in &step.in_place {
                        self.moved(from, to, at, MoveKind::InPlace);
                    }
                }
                Node::Collective(c) => {
                    let at = self.point();
                    c.operands.iter().for_each(|&b| self.read(b, at));
                    c.results.iter().for_each(|&b| self.define(b, at));
                    if matches!(c.kind, CollectiveKind::AllReduce(_)) {
                        self.started.extend(c.results.first().map(|&r| (r, (at, self.uses.len()))));
                    }
                    if c.channel.is_none() {
                        self.ended(at, &c.operands, &c.results);
                    }
                }
                Node::Await(a) => {
                    let at = self.point();
                    self.ended(at, &a.operands, &a.results);
                    a.operands.iter().chain(&a.results).for_each(|&b| self.read(b, at));
                }
                Node::While(w) => self.while_loop(w),
                Node::Case(case) => self.case(case),
            }
        }
    }

    /// The collective with these results ends.
    fn ended(&mut self, at: u32, operands: &[Buf], results: &[Buf]) {
        let Some(&(since, uses)) = results.first().and_then(|r| self.started.get(r)) else { return };
        for (&from, &to) in operands.iter().zip(results) {
            let b = self.rep(from);
            // A chunk of all members is read before the same chunk of any result is written, but operands come one after
            // the other, so one in the same buffer would read the result, and so would a step meanwhile. A part of a larger
            // buffer stays where it is.
            let bytes = |b: Buf| self.program.bufs[b.0 as usize].bytes;
            let once = operands.iter().filter(|&&o| self.rep(o) == b).count() == 1;
            if once && bytes(from) == bytes(to) && self.uses[uses..].iter().all(|u| u.0 != b) {
                self.moved_since(from, to, (since, at), MoveKind::InPlace);
            }
        }
    }

    fn while_loop(&mut self, w: &While) {
        let enter = self.point();
        let id = self.backs.len() as u32;
        self.backs.push(0);
        let mut carries = vec![];
        for (i, &carry) in w.body.args.iter().enumerate() {
            self.read(w.init[i], enter);
            if let Some(&other) = w.cond.args.get(i) {
                self.live.same[other.0 as usize] = self.rep(carry);
            }
            let b = self.rep(carry) as usize;
            if self.live.origins[b] == Origin::Unused {
                self.live.origins[b] = Origin::Inside(self.loops.len() as u32);
                self.depth[b] = self.loops.len() as u32;
                self.times[b].carry = Some((id, enter, enter));
                carries.push(b);
            }
            self.moved(w.init[i], carry, enter, MoveKind::Enter);
        }
        self.loops.push(id);
        self.block(&w.cond);
        let test = self.point();
        self.results(&w.cond, test);
        self.block(&w.body);
        let back = self.point();
        self.results(&w.body, back);
        for (&from, &to) in w.body.results.iter().zip(&w.body.args) {
            self.moved(from, to, back, MoveKind::Back);
        }
        self.backs[id as usize] = back;
        self.loops.pop();
        let exit = self.point();
        for b in carries {
            self.times[b].carry = Some((id, enter, test));
            self.times[b].outside = back;
            self.uses.push((b as u32, Use::At(exit), false));
        }
    }

    fn case(&mut self, case: &Case) {
        let enter = self.point();
        self.read(case.index, enter);
        let mut leaves = vec![];
        for branch in &case.branches {
            self.block(branch);
            let leave = self.point();
            self.results(branch, leave);
            for (&from, &to) in branch.results.iter().zip(&case.results) {
                self.moved(from, to, leave, MoveKind::Leave);
            }
            leaves.push(leave);
        }
        let exit = self.point();
        for &result in &case.results {
            let b = self.rep(result) as usize;
            self.define(result, exit);
            self.times[b].starts.splice(..0, leaves.iter().copied());
        }
    }

    fn finish(mut self, end: u32) -> Live {
        let n = self.program.bufs.len();
        let (mut inner, mut outer) = (vec![0; n], vec![0; n]);
        for &(b, used, inside) in &self.uses {
            let at = match used {
                Use::At(at) => at,
                Use::Back(id) => self.backs[id as usize],
            };
            let last = if inside { &mut inner[b as usize] } else { &mut outer[b as usize] };
            *last = at.max(*last);
        }
        for b in 0..n {
            let times = &self.times[b];
            let buf = b as u32;
            let mut segments = vec![];
            match (self.live.origins[b], times.carry) {
                (Origin::Unused | Origin::Constant, _) => {}
                (Origin::Arg(i), _) if !self.program.donated.get(i as usize).is_some_and(|&d| d) => {}
                (Origin::Arg(_), _) => segments.push(Segment { start: 0, end: outer[b], buf }),
                (_, Some((_, enter, test))) => {
                    segments.push(Segment { start: enter, end: inner[b].max(test), buf });
                    segments.push(Segment { start: times.outside, end: outer[b].max(times.outside), buf });
                }
                (_, None) => {
                    let (&last, points) = times.starts.split_last().unwrap_or((&0, &[]));
                    segments.extend(points.iter().map(|&p| Segment { start: p, end: p, buf }));
                    segments.push(Segment { start: last, end: outer[b].max(last), buf });
                }
            }
            self.live.segments[b] = segments;
        }
        self.live.end = end;
        self.live
    }
}

/// From where to where values move when, and since when both are in use.
pub type Touching = HashMap<(u32, u32, u32), u32>;

/// Whether two sets of segments, each in order of time, may share memory: they meet at most where a value moves from
/// one to the other.
pub fn compatible(a: &[Segment], b: &[Segment], moves: &Touching) -> bool {
    let touch = |x: &Segment, y: &Segment| {
        y.start <= x.end && moves.get(&(x.buf, y.buf, x.end)).is_some_and(|&since| y.start >= since)
    };
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        if x.end < y.start || touch(&x, &y) {
            i += 1;
        } else if y.end < x.start || touch(&y, &x) {
            j += 1;
        } else {
            return false;
        }
    }
    true
}
