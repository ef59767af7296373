//! The schedule of a device: arithmetic one after the other, collectives beside it.
//!
//! A collective starts when its operands are there and the links of its axes are free. What runs as one loop starts when everything that
//! it reads is there. There are two schedules, of which the shorter counts. In one, everything starts in program order. In the
//! other, collectives start as soon as they can, and of the operations that are there the one does of which the longest path leads to the end: what
//! others wait for goes first, and what can be done at any time is left for when there is nothing else to do. Compilers that hide latencies order programs so.
//! All rounds of a loop of the program are one block of time: what waits or overlaps in one round does so in each.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::plan::ops::{Operand, PlannedOp};
use crate::plan::{Plan, PlannedCollective};

/// The links of a mesh axis during a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Lane {
    /// The axis; `given` for collectives whose devices the program lists.
    pub axis: String,
    /// How long collectives keep it busy. One over several axes counts for each in equal parts.
    pub busy_seconds: f64,
    /// How long the device waits for them.
    pub exposed_seconds: f64,
    /// When its last collective runs, and the share of arithmetic that is lost then.
    last: (f64, f64, f64),
}

/// What a schedule amounts to.
pub(super) struct Times {
    /// When everything is done.
    pub end: f64,
    /// How long the device computes.
    pub computing: f64,
    /// The links.
    pub lanes: Vec<Lane>,
}

/// Sets when each operation starts. `leader` has for each operation the last one of those that start together. Branches that
/// are not counted start with their operation and take no time. `lost` has for each collective the share of arithmetic that is
/// lost beside it; with all of it lost, nothing runs beside it.
pub(super) fn schedule(ops: &mut [PlannedOp], leader: &[usize], plan: &Plan, lost: &[f64]) -> Times {
    let written = in_order(ops, leader, plan, lost, Order::Written);
    if lost.iter().all(|&lost| lost >= 1.0) {
        return written;
    }
    let starts: Vec<f64> = ops.iter().map(|op| op.start).collect();
    let ready = in_order(ops, leader, plan, lost, Order::Ready);
    if ready.end < written.end {
        return ready;
    }
    ops.iter_mut().zip(starts).for_each(|(op, start)| op.start = start);
    written
}

/// What starts first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// What is first in the program.
    Written,
    /// Of what is there, what has the longest path to the end.
    Ready,
}

fn in_order(ops: &mut [PlannedOp], leader: &[usize], plan: &Plan, lost: &[f64], order: Order) -> Times {
    let mut run = Run::new(ops, leader, plan, lost, order);
    run.block(None, 0.0);
    let last = (0..run.ops.len()).max_by(|&a, &b| run.ready[a].total_cmp(&run.ready[b]));
    run.times.end = last.map_or(0.0, |i| run.ready[i]);
    if let Some(c) = last.and_then(|i| run.ops[i].collective).filter(|&c| lost[c] < 1.0) {
        let waits = run.times.end - run.free;
        run.times.expose(&plan.collectives[c], waits);
    }
    run.times
}

/// A moment, for heaps: the earliest first, of several the first in the program.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64, usize);

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

/// A run under way. What is said about a loop of operations stands at the last one of it, its leader.
struct Run<'a> {
    ops: &'a mut [PlannedOp],
    plan: &'a Plan,
    lost: &'a [f64],
    order: Order,
    /// The operations that run together with each leader, in order.
    members: Vec<Vec<usize>>,
    /// The leaders in each loop or branch of the program, and at the end those outside of all.
    inside: Vec<Vec<usize>>,
    /// Who reads what a leader makes.
    readers: Vec<Vec<usize>>,
    /// When each leader has to start for nothing to wait for it, counted from the end of the run; all 0 in program order.
    due: Vec<f64>,
    /// How many operands are not there yet.
    waits: Vec<usize>,
    /// When the last operand is there, and whose result it is.
    needs: Vec<(f64, Option<usize>)>,
    /// When the results are there.
    ready: Vec<f64>,
    /// When the device has computed everything so far.
    free: f64,
    times: Times,
}

impl<'a> Run<'a> {
    fn new(ops: &'a mut [PlannedOp], leader: &[usize], plan: &'a Plan, lost: &'a [f64], order: Order) -> Run<'a> {
        let count = ops.len();
        let mut run = Run {
            plan,
            lost,
            order,
            members: vec![vec![]; count],
            inside: vec![vec![]; count + 1],
            readers: vec![vec![]; count],
            due: vec![0.0; count],
            waits: vec![0; count],
            needs: vec![(0.0, None); count],
            ready: vec![0.0; count],
            free: 0.0,
            times: Times { end: 0.0, computing: 0.0, lanes: vec![] },
            ops,
        };
        for i in 0..count {
            run.members[leader[i]].push(i);
            if leader[i] == i {
                run.inside[run.ops[i].parent.unwrap_or(count)].push(i);
            }
            for operand in &run.ops[i].operands {
                let Operand::Op(from) = *operand else { continue };
                // What is inside a loop is read when the loop starts; what that hands in itself is there then.
                let mut reader = i;
                while run.ops[reader].parent != run.ops[from].parent
                    && let Some(outer) = run.ops[reader].parent.filter(|&outer| outer != from)
                {
                    reader = outer;
                }
                let (from, to) = (leader[from], leader[reader]);
                if from != to && run.ops[from].parent == run.ops[to].parent {
                    run.readers[from].push(to);
                    run.waits[to] += 1;
                }
            }
        }
        if order == Order::Ready {
            run.set_due();
        }
        run
    }

    /// Sets when leaders have to start. Readers, and what is inside a loop, stand behind.
    fn set_due(&mut self) {
        for i in (0..self.ops.len()).rev() {
            let others = self.readers[i].iter().map(|&j| self.due[j]).fold(0.0, f64::min);
            let inside = self.inside[i].iter().map(|&j| self.due[j]).fold(0.0, f64::min);
            self.due[i] = others + inside - self.takes(i);
        }
    }

    /// Seconds of the loop that `i` leads, by itself.
    fn takes(&self, i: usize) -> f64 {
        self.members[i].iter().map(|&m| self.ops[m].seconds * self.ops[m].runs()).sum()
    }

    /// Runs what is inside a loop or branch, or all of the program, from `start` on. Says when all of it is done.
    fn block(&mut self, around: Option<usize>, start: f64) -> f64 {
        let inside = std::mem::take(&mut self.inside[around.unwrap_or(self.ops.len())]);
        let (mut now, mut end) = (start.max(self.free), start);
        let mut coming: BinaryHeap<Reverse<Moment>> = BinaryHeap::new();
        let mut there: BinaryHeap<Reverse<Moment>> = BinaryHeap::new();
        for &i in &inside {
            self.needs[i].0 = self.needs[i].0.max(start);
            match self.order {
                _ if self.waits[i] > 0 => {}
                Order::Written => there.push(Reverse(Moment(self.due[i], i))),
                Order::Ready => coming.push(Reverse(Moment(self.needs[i].0, i))),
            }
        }
        loop {
            let next = match coming.peek() {
                Some(Reverse(Moment(at, _))) if *at <= now => coming.pop().map(|Reverse(Moment(_, i))| i),
                _ => None,
            };
            let done = match next {
                None if self.order == Order::Written => match there.pop() {
                    Some(Reverse(Moment(_, i))) => i,
                    None => break,
                },
                Some(i) if self.is_beside(i) => i,
                Some(i) => {
                    there.push(Reverse(Moment(self.due[i], i)));
                    continue;
                }
                None => match (there.pop(), coming.peek()) {
                    (Some(Reverse(Moment(_, i))), _) => i,
                    (None, Some(Reverse(Moment(at, _)))) => {
                        now = *at;
                        continue;
                    }
                    (None, None) => break,
                },
            };
            if self.is_beside(done) {
                self.communicate(done);
            } else {
                self.compute(done, now);
                now = self.free;
            }
            end = end.max(self.ready[done]);
            for reader in std::mem::take(&mut self.readers[done]) {
                if self.ready[done] > self.needs[reader].0 {
                    self.needs[reader] = (self.ready[done], Some(done));
                }
                self.waits[reader] -= 1;
                match self.order {
                    _ if self.waits[reader] > 0 => {}
                    Order::Written => there.push(Reverse(Moment(self.due[reader], reader))),
                    Order::Ready => coming.push(Reverse(Moment(self.needs[reader].0, reader))),
                }
            }
        }
        end
    }

    /// Whether `i` is a collective that others run beside.
    fn is_beside(&self, i: usize) -> bool {
        self.ops[i].collective.is_some_and(|c| self.lost[c] < 1.0)
    }

    fn communicate(&mut self, i: usize) {
        let Some(c) = self.ops[i].collective else { return };
        let takes = self.ops[i].seconds * self.ops[i].runs();
        self.ops[i].start = self.times.communicate(&self.plan.collectives[c], self.needs[i].0, takes, self.lost[c]);
        self.ready[i] = self.ops[i].start + takes;
    }

    /// Computes the loop that `i` leads, or runs what is inside it, from `now` on.
    fn compute(&mut self, i: usize, now: f64) {
        let start = now.max(self.needs[i].0);
        let takes = self.takes(i);
        if let Some(c) = self.ops[i].collective {
            self.times.communicate(&self.plan.collectives[c], start, takes, 0.0);
            self.times.expose(&self.plan.collectives[c], start + takes - self.free);
        } else if let Some(c) = self.needs[i].1.and_then(|from| self.ops[from].collective) {
            self.times.expose(&self.plan.collectives[c], start - self.free);
        }
        let beside = if self.ops[i].collective.is_some() { 0.0 } else { self.times.lost_between(start, start + takes) };
        let slower = if takes > 0.0 { 1.0 + beside / takes } else { 1.0 };
        let mut at = start;
        for m in std::mem::take(&mut self.members[i]) {
            self.ops[m].start = at;
            at += self.ops[m].seconds * self.ops[m].runs() * slower;
        }
        if self.ops[i].collective.is_none() {
            self.times.computing += takes + beside;
        }
        self.free = start + takes + beside;
        self.ready[i] = self.free;
        if !self.inside[i].is_empty() {
            self.ready[i] = self.ready[i].max(self.block(Some(i), start));
        }
    }
}

impl Times {
    /// Runs a collective as soon as its operands are there and its links are free; says when it starts.
    fn communicate(&mut self, planned: &PlannedCollective, needs: f64, takes: f64, lost: f64) -> f64 {
        let lanes = self.lanes_of(planned);
        let start = lanes.iter().map(|&lane| self.lanes[lane].last.1).fold(needs, f64::max);
        for &lane in &lanes {
            self.lanes[lane].last = (start, start + takes, lost);
            self.lanes[lane].busy_seconds += takes / lanes.len() as f64;
        }
        start
    }

    /// Seconds that arithmetic from `start` to `end` loses to collectives beside it.
    fn lost_between(&self, start: f64, end: f64) -> f64 {
        let beside = |lane: &Lane| {
            let (from, until, lost) = lane.last;
            (end.min(until) - start.max(from)).max(0.0) * lost
        };
        self.lanes.iter().map(beside).fold(0.0, f64::max)
    }

    /// Notes that the device waits for a collective.
    fn expose(&mut self, planned: &PlannedCollective, waits: f64) {
        let lanes = self.lanes_of(planned);
        for &lane in &lanes {
            self.lanes[lane].exposed_seconds += waits.max(0.0) / lanes.len() as f64;
        }
    }

    /// The lanes that a collective keeps busy.
    fn lanes_of(&mut self, planned: &PlannedCollective) -> Vec<usize> {
        let mut names: Vec<&str> = planned.axes.iter().map(|axis| &*axis.name).collect();
        names.dedup();
        if names.is_empty() {
            names.push("given");
        }
        names.into_iter().map(|name| self.lane(name)).collect()
    }

    fn lane(&mut self, name: &str) -> usize {
        self.lanes.iter().position(|lane| lane.axis == name).unwrap_or_else(|| {
            self.lanes.push(Lane { axis: name.into(), busy_seconds: 0.0, exposed_seconds: 0.0, last: (0.0, 0.0, 0.0) });
            self.lanes.len() - 1
        })
    }
}
