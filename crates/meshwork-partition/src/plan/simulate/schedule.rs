//! The schedule of a device: arithmetic in program order, collectives beside it.
//!
//! A collective starts when its operands are there and the links of its axes are free. Arithmetic goes on until an
//! operation needs the result of a collective that is still under way. All rounds of a loop are one block of time: what
//! waits or overlaps in one round does so in each.

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

/// Sets when each operation starts. Branches that are not counted start with their operation and take no time. `lost` has
/// for each collective the share of arithmetic that is lost beside it; with all of it lost, nothing runs beside it.
pub(super) fn schedule(ops: &mut [PlannedOp], plan: &Plan, lost: &[f64]) -> Times {
    let mut times = Times { end: 0.0, computing: 0.0, lanes: vec![] };
    let mut free = 0.0_f64;
    let mut ready = vec![0.0_f64; ops.len()];
    for i in 0..ops.len() {
        let (needs, from) = when_needed(ops, &ready, i);
        let mut takes = ops[i].seconds * ops[i].runs();
        let start = match ops[i].collective {
            Some(c) if lost[c] >= 1.0 => {
                let start = times.communicate(&plan.collectives[c], needs.max(free), takes, 0.0);
                times.expose(&plan.collectives[c], start + takes - free);
                free = start + takes;
                start
            }
            Some(c) => times.communicate(&plan.collectives[c], needs, takes, lost[c]),
            None => {
                let start = needs.max(free);
                if let Some(c) = from.and_then(|from| ops[from].collective) {
                    times.expose(&plan.collectives[c], start - free);
                }
                takes += times.lost_between(start, start + takes);
                free = start + takes;
                times.computing += takes;
                start
            }
        };
        ops[i].start = start;
        ready[i] = start + takes;
        // A loop is done when everything in it is.
        let mut outer = ops[i].parent;
        while let Some(o) = outer {
            ready[o] = ready[o].max(start + takes);
            outer = ops[o].parent;
        }
    }
    let last = (0..ops.len()).max_by(|&a, &b| ready[a].total_cmp(&ready[b]));
    times.end = last.map_or(0.0, |i| ready[i]);
    if let Some(c) = last.and_then(|i| ops[i].collective).filter(|&c| lost[c] < 1.0) {
        times.expose(&plan.collectives[c], times.end - free);
    }
    times
}

/// When the operands of operation `i` are there, and which operation that waits for.
fn when_needed(ops: &[PlannedOp], ready: &[f64], i: usize) -> (f64, Option<usize>) {
    let mut last = (ops[i].parent.map_or(0.0, |outer| ops[outer].start), None);
    for operand in &ops[i].operands {
        let Operand::Op(from) = *operand else { continue };
        // What a loop hands in is there when the loop starts.
        let at = if is_inside(ops, i, from) { ops[from].start } else { ready[from] };
        if at > last.0 {
            last = (at, Some(from));
        }
    }
    last
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

/// Whether operation `inner` is inside `outer`.
fn is_inside(ops: &[PlannedOp], inner: usize, outer: usize) -> bool {
    let mut at = ops[inner].parent;
    while at.is_some_and(|o| o > outer) {
        at = at.and_then(|o| ops[o].parent);
    }
    at == Some(outer)
}
