//! Seeds from the model: what it proposes, as assignments of a space.

use std::time::Instant;

use meshwork_partition::Machine;

use crate::model::{Model, Proposal};
use crate::network::Effort;
use crate::problem::Problem;
use crate::space::{Assignment, Choice};

/// Shares of the memory that proposals are made for: the model does not see the copies that a real plan makes.
const SHARES: [f64; 3] = [1.0, 0.85, 0.7];

/// The share of the time that is for proposals: one part in this many.
const PART: u32 = 5;

/// What the model proposes for a problem.
#[derive(Default)]
pub struct Proposed {
    /// Where a search can start.
    pub seeds: Vec<Assignment>,
    /// By which share the first proposal could be better in the model, at most; none if nothing fits.
    pub gap: Option<f64>,
}

/// What the model proposes for a problem within a limit on memory. It takes at most a part of the time until the deadline.
pub fn proposals(problem: &Problem, machine: &Machine, memory: Option<i64>, deadline: Option<Instant>) -> Proposed {
    let mut out = Proposed::default();
    let Ok(mut model) = Model::new(&problem.whole.module, &problem.space.mesh, machine) else { return out };
    let now = Instant::now();
    let end = deadline.map(|deadline| now + deadline.saturating_duration_since(now) / PART);
    let stop = || end.is_some_and(|end| Instant::now() >= end);
    let shares = if memory.is_some() { &SHARES[..] } else { &SHARES[..1] };
    for (i, share) in shares.iter().enumerate() {
        let limit = memory.map(|bytes| (bytes.max(0) as f64 * share) as u64);
        let Ok(found) = model.solve(limit, &Effort::default(), &stop) else { continue };
        if i == 0 && found.missing == 0 {
            out.gap = Some(found.gap());
        }
        for rest in [Choice::Free, Choice::Whole] {
            let seed = assignment(problem, &found, rest);
            if problem.space.fits(&seed) && !out.seeds.contains(&seed) {
                out.seeds.push(seed);
            }
        }
    }
    out
}

/// A proposal as an assignment of the arguments; products inside follow from these. Where an axis splits nothing, `rest` is chosen
/// if it may be.
fn assignment(problem: &Problem, found: &Proposal, rest: Choice) -> Assignment {
    let space = &problem.space;
    let mut out = space.nothing();
    for (s, members) in problem.whole.members.iter().enumerate() {
        let Some(&first) = members.arguments.first() else { continue };
        let sharding = &found.arguments[first];
        for (axis, own) in space.mesh.axes().iter().enumerate() {
            let dim = sharding.dims.iter().position(|d| d.axes.iter().any(|a| *a.name == *own.name));
            let wanted = dim.map_or(rest, |d| Choice::Dim(d as u8));
            if space.domains[s][axis].contains(&wanted) {
                out[s * space.axes() + axis] = wanted;
            }
        }
    }
    out
}
