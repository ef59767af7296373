//! A run of a device as the cost model predicts it: arithmetic in program order, collectives beside it.
//!
//! A collective starts when its operands are there and the links of its axes are free. Arithmetic goes on until an
//! operation needs the result of a collective that is still under way. All rounds of a loop are one block of time.

use crate::plan::ops::{Operand, PlannedOp};
use crate::plan::{Plan, PlannedCollective};

/// Sets when each operation starts. Branches that are not counted start with their operation and take no time.
pub(super) fn simulate(ops: &mut [PlannedOp], plan: &Plan) {
    let mut computing = 0.0_f64;
    let mut links: Vec<(&str, f64)> = vec![];
    let mut ready = vec![0.0_f64; ops.len()];
    for i in 0..ops.len() {
        let entered = ops[i].parent.map_or(0.0, |outer| ops[outer].start);
        let needs = ops[i].operands.iter().map(|operand| match *operand {
            // What a loop hands in is there when the loop starts.
            Operand::Op(from) if is_inside(ops, i, from) => ops[from].start,
            Operand::Op(from) => ready[from],
            Operand::Argument(_) => 0.0,
        });
        let needs = needs.fold(entered, f64::max);
        let takes = if ops[i].counted { ops[i].seconds * ops[i].trips as f64 } else { 0.0 };
        let start = match ops[i].collective.map(|c| lanes(&plan.collectives[c])) {
            Some(lanes) => {
                let free = |(name, until): &(&str, f64)| if lanes.contains(name) { *until } else { 0.0 };
                let start = links.iter().map(free).fold(needs, f64::max);
                links.retain(|(name, _)| !lanes.contains(name));
                links.extend(lanes.into_iter().map(|lane| (lane, start + takes)));
                start
            }
            None => {
                let start = needs.max(computing);
                computing = start + takes;
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
}

/// Whether operation `inner` is inside `outer`.
fn is_inside(ops: &[PlannedOp], inner: usize, outer: usize) -> bool {
    let mut at = ops[inner].parent;
    while at.is_some_and(|o| o > outer) {
        at = at.and_then(|o| ops[o].parent);
    }
    at == Some(outer)
}

/// The links that a collective keeps busy, by the names of their axes.
fn lanes(planned: &PlannedCollective) -> Vec<&str> {
    if planned.axes.is_empty() {
        return vec!["given"];
    }
    let mut names: Vec<&str> = planned.axes.iter().map(|axis| &*axis.name).collect();
    names.dedup();
    names
}
