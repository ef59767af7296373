//! Stretches of a program in which the same operations repeat.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use meshwork_ir::{Module, OpId};
use meshwork_mesh::sort_by_key;

/// Repetitions that make a run, at least.
const REPEATED: usize = 4;
/// Operations that have to be alike in a row for their distance to count.
const ALIKE: usize = 8;
/// Distances that are tried as periods.
const PERIODS: usize = 8;
/// Runs that are found at most.
const RUNS: usize = 4;

/// The same operations, `count` times one after another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Its first operation, by its number in the block.
    pub start: usize,
    /// Operations of one repetition.
    pub period: usize,
    /// Repetitions.
    pub count: usize,
}

impl Run {
    fn end(&self) -> usize {
        self.start + self.period * self.count
    }

    /// The repetition that operation `i` is in, and its number there.
    pub fn place(&self, i: usize) -> Option<(usize, usize)> {
        let inside = (self.start..self.end()).contains(&i);
        inside.then(|| ((i - self.start) / self.period, (i - self.start) % self.period))
    }

    /// The operation at this place.
    pub fn at(&self, (repetition, number): (usize, usize)) -> usize {
        self.start + repetition * self.period + number
    }
}

/// The runs of the entry function whose repetitions read each other, in the order of the program.
pub fn runs(module: &Module) -> Vec<Run> {
    let Some(body) = module.entry().and_then(|func| module.body_of(func, 0)) else { return vec![] };
    let ops = module.op_list(body);
    let marks: Vec<u64> = ops.iter().map(|&op| mark(module, op)).collect();
    let mut found: Vec<Run> = periods(&marks).into_iter().flat_map(|period| with_period(&marks, period)).collect();
    let number: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
    // Longest first; of two that cover as much, the one with the shorter period.
    sort_by_key(&mut found, |run| (std::cmp::Reverse(run.period * run.count), run.period));
    let mut out: Vec<Run> = vec![];
    for run in found {
        let apart = out.iter().all(|other| run.end() <= other.start || other.end() <= run.start);
        if apart && out.len() < RUNS && is_chain(module, &ops, &number, &run) {
            out.push(run);
        }
    }
    // Short runs inside a block of a long one say nothing about its blocks.
    let longest = out.first().map_or(0, |run| run.period * run.count);
    out.retain(|run| 8 * run.period * run.count >= longest);
    sort_by_key(&mut out, |run| run.start);
    out
}

/// What an operation looks like.
fn mark(module: &Module, op: OpId) -> u64 {
    let data = module.op(op);
    let mut hasher = DefaultHasher::new();
    data.name().hash(&mut hasher);
    for &v in data.operands().iter().chain(data.results()) {
        let ty = module.ty(v);
        (ty.dims(), ty.elem().map(|elem| elem.storage_bytes())).hash(&mut hasher);
    }
    hasher.finish()
}

/// The most frequent distances between stretches that are alike.
fn periods(marks: &[u64]) -> Vec<usize> {
    let mut last: HashMap<&[u64], usize> = HashMap::new();
    let mut often: HashMap<usize, usize> = HashMap::new();
    for (i, stretch) in marks.windows(ALIKE).enumerate() {
        if let Some(before) = last.insert(stretch, i) {
            *often.entry(i - before).or_default() += 1;
        }
    }
    let mut often: Vec<(usize, usize)> = often.into_iter().filter(|(period, _)| *period >= ALIKE).collect();
    sort_by_key(&mut often, |&(period, times)| (std::cmp::Reverse(times), period));
    often.into_iter().take(PERIODS).map(|(period, _)| period).collect()
}

/// The longest stretches that repeat after `period` operations.
fn with_period(marks: &[u64], period: usize) -> Vec<Run> {
    let mut out = vec![];
    let mut start = None;
    for i in 0..=marks.len().saturating_sub(period) {
        let alike = i + period < marks.len() && marks[i] == marks[i + period];
        match (alike, start) {
            (true, None) => start = Some(i),
            (false, Some(from)) => {
                let count = (i - from) / period + 1;
                if count >= REPEATED {
                    out.push(Run { start: from, period, count });
                }
                start = None;
            }
            _ => {}
        }
    }
    out
}

/// Whether each repetition reads something of the one before it.
fn is_chain(module: &Module, ops: &[OpId], number: &HashMap<OpId, usize>, run: &Run) -> bool {
    (1..run.count).all(|repetition| {
        let own = &ops[run.at((repetition, 0))..][..run.period];
        let mut sources = own.iter().flat_map(|&op| module.op(op).operands()).filter_map(|&v| module.def_op(v));
        sources.any(|op| {
            let place = number.get(&op).and_then(|&i| run.place(i));
            place.is_some_and(|(other, _)| other + 1 == repetition)
        })
    })
}
