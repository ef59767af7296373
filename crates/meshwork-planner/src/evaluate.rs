//! Evaluating assignments: each is written into the program, compiled and judged, on all cores, at most once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use meshwork_mesh::{DimSharding, MeshAxis, sort_by, sort_by_key};
use meshwork_partition::{Contract, Machine, Plan};

use crate::cut::Cut;
use crate::judge::{Verdict, timed_plan_of};
use crate::site::Members;
use crate::space::{Assignment, Choice, Results, Space, View, annotate};

/// Nested programs recurse; only touched pages take memory.
const STACK_BYTES: usize = 1 << 30;
/// What takes longer than the best on a few blocks, by more than this share of what that takes as a whole, is not judged on more of them:
/// each further block would have to take much less.
const SLOW: f64 = 0.05;
/// What a plan has to keep to.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The most bytes a device may need.
    pub memory: Option<i64>,
    /// What it may communicate.
    pub contracts: Vec<Contract>,
}

/// What was found out about an assignment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judged {
    /// What it costs.
    pub verdict: Verdict,
    /// How many contracts it breaks.
    pub broken: usize,
}

impl Judged {
    /// Bytes above the limit.
    pub fn excess(&self, limits: &Limits) -> i64 {
        limits.memory.map_or(0, |limit| (self.verdict.peak - limit).max(0))
    }

    /// Whether it keeps to all limits.
    pub fn is_feasible(&self, limits: &Limits) -> bool {
        self.broken == 0 && self.excess(limits) == 0
    }

    /// What a search makes smaller: seconds, many times as much for what does not keep to a limit.
    pub fn score(&self, limits: &Limits) -> f64 {
        let over = match limits.memory {
            Some(limit) if self.excess(limits) > 0 => 1.0 + 8.0 * self.excess(limits) as f64 / limit.max(1) as f64,
            _ => 0.0,
        };
        self.verdict.seconds * (1.0 + over + 10.0 * self.broken as f64)
    }
}

/// What assignments are judged on.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// The whole program: what comes out is a plan that would run.
    Whole(&'a View),
    /// A few of its blocks: what comes out is an estimate.
    Cut(&'a Cut),
}

/// A plan that was better than all before it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Improvement {
    /// Seconds from the start of the search until it was found.
    pub after: f64,
    /// What it costs.
    pub verdict: Verdict,
}

/// Evaluates assignments of one space.
pub struct Evaluator<'a> {
    /// The space.
    pub space: &'a Space,
    /// What they are judged on.
    pub form: Form<'a>,
    /// What it is to run on.
    pub machine: &'a Machine,
    /// What it has to keep to.
    pub limits: &'a Limits,
    /// When to stop.
    pub deadline: Option<Instant>,
    /// How many evaluations there may be.
    pub most: usize,
    /// How many there were.
    pub evaluations: usize,
    /// Why the first that could not be compiled could not.
    pub first_error: Option<String>,
    /// The plans that keep to the limits and were better than all before them.
    pub improvements: Vec<Improvement>,
    /// When the search started.
    pub started: Instant,
    /// Evaluations that have to be possible before the deadline when the search is over.
    pub reserve: usize,
    began: Instant,
    /// Seconds that evaluations took together.
    spent: f64,
    seen: HashMap<Assignment, Option<Judged>>,
    /// Seconds on the fewest blocks above which nothing is estimated.
    slow: f64,
    /// The least score, and the seconds that it took on the fewest blocks.
    least: (f64, f64),
    /// What the plan of an assignment does with the arguments of each site along each axis, where it does the same with all.
    found: HashMap<Assignment, Vec<Option<Choice>>>,
}

impl<'a> Evaluator<'a> {
    /// Evaluates on `form`.
    pub fn new(space: &'a Space, form: Form<'a>, machine: &'a Machine, limits: &'a Limits) -> Evaluator<'a> {
        Evaluator {
            space,
            form,
            machine,
            limits,
            deadline: None,
            most: usize::MAX,
            evaluations: 0,
            first_error: None,
            improvements: vec![],
            started: Instant::now(),
            reserve: 0,
            began: Instant::now(),
            spent: 0.0,
            seen: HashMap::new(),
            slow: f64::INFINITY,
            least: (f64::INFINITY, f64::INFINITY),
            found: HashMap::new(),
        }
    }

    /// Whether time or evaluations are used up.
    pub fn is_over(&self) -> bool {
        self.evaluations >= self.most || self.is_late()
    }

    fn is_late(&self) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let each = self.spent / self.evaluations.max(1) as f64;
        Instant::now() + Duration::from_secs_f64(each * self.reserve as f64 / threads() as f64) >= deadline
    }

    /// The time from now on counts for [`used`](Evaluator::used).
    pub fn begin(&mut self) {
        self.began = Instant::now();
    }

    /// The share of the time that is used up; nothing if there is no limit on it.
    pub fn used(&self) -> f64 {
        let Some(deadline) = self.deadline else { return 0.0 };
        let (spent, all) =
            (self.began.elapsed().as_secs_f64(), deadline.saturating_duration_since(self.began).as_secs_f64());
        if all > 0.0 { spent / all } else { 1.0 }
    }

    /// What each assignment costs. `None` for those that cannot be compiled, and for the rest when time is over.
    pub fn judge_all(&mut self, assignments: &[Assignment]) -> Vec<Option<Judged>> {
        let mut new: Vec<&Assignment> = vec![];
        for a in assignments {
            if !self.seen.contains_key(a) && !new.contains(&a) {
                new.push(a);
            }
        }
        new.truncate(self.most - self.evaluations);
        let seconds = || self.started.elapsed().as_secs_f64();
        let timed = |a: &&Assignment| {
            let from = seconds();
            let judged = (!self.is_late()).then(|| self.judge(a))?;
            Some((judged, from, seconds()))
        };
        let mut notes: Vec<(f64, Judged)> = vec![];
        for (a, done) in new.iter().zip(in_parallel(&new, timed)) {
            let Some((outcome, from, until)) = done else { continue };
            self.evaluations += 1;
            self.spent += until - from;
            let outcome = outcome.map_err(|e| self.first_error.get_or_insert(e).clone()).ok().flatten();
            let judged = outcome.as_ref().map(|outcome| outcome.judged);
            notes.extend(judged.map(|judged| (until, judged)));
            self.seen.insert((*a).clone(), judged);
            if let Some(Outcome { judged, first, found }) = outcome {
                self.found.insert((*a).clone(), found);
                let score = judged.score(self.limits);
                if score < self.least.0 {
                    self.least = (score, first);
                }
            }
        }
        sort_by(&mut notes, |a, b| a.0.total_cmp(&b.0));
        notes.into_iter().for_each(|(after, judged)| self.note(after, judged));
        assignments.iter().map(|a| self.seen.get(a).copied().flatten()).collect()
    }

    /// From now on, gives no estimates of what is much slower than the best so far. Where memory is short that may be what fits.
    pub fn drop_slow(&mut self) {
        if self.limits.memory.is_none() {
            self.slow = self.least.1 + SLOW * self.least.0;
        }
    }

    /// The best `count` assignments that were judged.
    pub fn best(&self, count: usize) -> Vec<Assignment> {
        let scored = self.seen.iter().filter_map(|(a, judged)| Some((judged.as_ref()?.score(self.limits), a)));
        let mut scored: Vec<(f64, &Assignment)> = scored.collect();
        sort_by(&mut scored, |a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        scored.into_iter().take(count).map(|(_, a)| a.clone()).collect()
    }

    /// By how much, as a share, the time of a plan may have been estimated too long compared with that of `from`: what it was for
    /// those that were both estimated and judged.
    pub fn misjudged(&self, estimates: &Evaluator<'_>, from: &Assignment) -> f64 {
        let ratio = |a: &Assignment| {
            let (own, estimate) = (self.seen.get(a)?.as_ref()?, estimates.seen.get(a)?.as_ref()?);
            Some(own.verdict.seconds / estimate.verdict.seconds).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        };
        let Some(own) = ratio(from) else { return 0.0 };
        own / self.seen.keys().filter_map(ratio).fold(own, f64::min) - 1.0
    }

    /// The assignments that have been judged.
    pub fn judged(&self) -> impl Iterator<Item = &Assignment> {
        self.seen.iter().filter(|(_, judged)| judged.is_some()).map(|(assignment, _)| assignment)
    }

    /// Whether `other` was judged like `moved`, which is `judged`, in every respect, and the form that they are judged on has all arrays
    /// that they say something else about: then they are one plan.
    pub fn is_like(&self, other: &Assignment, moved: &Assignment, judged: &Judged) -> bool {
        let view = match self.form {
            Form::Whole(view) => view,
            Form::Cut(cut) => &cut.few,
        };
        let is_there = |s: usize| !view.members[s].arguments.is_empty() || !view.members[s].values.is_empty();
        self.seen.get(other).is_some_and(|seen| seen.as_ref() == Some(judged))
            && (0..moved.len()).all(|i| other[i] == moved[i] || is_there(i / self.space.axes()))
    }

    /// Notes a plan that keeps to the limits, if it is the best so far.
    fn note(&mut self, after: f64, judged: Judged) {
        let best = self.improvements.last().map_or(f64::INFINITY, |best| best.verdict.seconds);
        if judged.is_feasible(self.limits) && judged.verdict.seconds < best {
            self.improvements.push(Improvement { after, verdict: judged.verdict });
        }
    }

    /// Whether all that `moved` says and `from` does not is what the plan of `from` does by itself.
    pub fn is_found(&self, from: &Assignment, moved: &Assignment) -> bool {
        let Some(found) = self.found.get(from) else { return false };
        (0..from.len()).all(|i| from[i] == moved[i] || found[i] == Some(moved[i]))
    }

    fn judge(&self, assignment: &[Choice]) -> Result<Option<Outcome>, String> {
        let of = |view: &View| {
            let module = annotate(view, self.space, assignment, Results::Annotated);
            let (run, plan) = timed_plan_of(&module, self.machine).map_err(|e| e.to_string())?;
            let broken = self.limits.contracts.iter().filter(|contract| plan.check(contract).is_err()).count();
            Ok::<_, String>((run, broken, found(self.space, view, &plan)))
        };
        let (first, rest) = match self.form {
            Form::Whole(view) => (of(view)?, None),
            Form::Cut(cut) => (of(&cut.few)?, Some(cut)),
        };
        let (few, mut broken, found) = first;
        let first = few.verdict.seconds;
        let verdict = match rest {
            None => few.verdict,
            Some(_) if first > self.slow => return Ok(None),
            Some(cut) => {
                let (more, more_broken, _) = of(&cut.more)?;
                broken = more_broken;
                cut.estimate(&few, &more)
            }
        };
        Ok(Some(Outcome { judged: Judged { verdict, broken }, first, found }))
    }
}

/// What came out for an assignment.
struct Outcome {
    judged: Judged,
    /// Seconds on the fewest blocks, or of the whole program.
    first: f64,
    /// What its plan does with the arguments of each site along each axis, where it does the same with all.
    found: Vec<Option<Choice>>,
}

/// What `plan` does with the arguments of each site along each axis; `None` where it is not the same for all, and for products.
fn found(space: &Space, view: &View, plan: &Plan) -> Vec<Option<Choice>> {
    let axes = space.mesh.axes();
    let sites = view.members.iter().flat_map(|members| axes.iter().map(move |axis| (members, axis)));
    let choice = |i: usize, name: &str| {
        let dims = &plan.arguments.get(i)?.sharding.dims;
        let on = |d: &DimSharding| d.axes.iter().any(|a| *a.name == *name);
        Some(dims.iter().position(on).map_or(Choice::Whole, |d| Choice::Dim(d as u8)))
    };
    let common = |(members, axis): (&Members, &MeshAxis)| {
        let mut choices = members.arguments.iter().map(|&i| choice(i, &axis.name));
        let first = choices.next()??;
        choices.all(|other| other == Some(first)).then_some(first)
    };
    sites.map(common).collect()
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `work` of every item, in order, on all cores.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads().min(items.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(items.len()));
    let run = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(i) else { break };
            let result = work(item);
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((i, result));
        }
    };
    std::thread::scope(|scope| {
        let started = (0..threads)
            .filter(|_| std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).is_ok())
            .count();
        if started == 0 {
            run();
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    sort_by_key(&mut done, |(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use meshwork_ir::text;
    use meshwork_mesh::Mesh;

    use super::*;
    use crate::problem::{Annotated, Base};
    use crate::site::Layers;

    #[test]
    fn plans_alike_are_one_and_estimates_that_were_too_long_widen_the_margin() {
        let text = "func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
            %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
            return %0 : tensor<8x4xf32> }";
        let base = Base::of(&text::parse(text).expect("a program"), Annotated::Kept).expect("a program");
        let problem = base.on(&Mesh::linear("a", 2).expect("a mesh"), &[], Layers::Auto).expect("a problem");
        let (machine, limits) = (Machine::default(), Limits::default());
        let evaluator = || Evaluator::new(&problem.space, Form::Whole(&problem.whole), &machine, &limits);
        // Rows; rows, and the weight whole, as it is anyway; columns.
        let choices = [[Choice::Dim(0), Choice::Free], [Choice::Dim(0), Choice::Whole], [Choice::Free, Choice::Dim(1)]];
        let all = choices.map(|[x, w]| {
            let mut all = problem.space.nothing();
            (all[0], all[1]) = (x, w);
            all
        });
        let (mut whole, mut estimates) = (evaluator(), evaluator());
        let judged: Vec<Judged> = whole.judge_all(&all).into_iter().map(|j| j.expect("a plan")).collect();
        assert!(whole.is_like(&all[0], &all[1], &judged[1]));
        assert!(!whole.is_like(&all[0], &all[2], &judged[2]));
        assert_eq!(whole.judged().count(), 3);
        assert_eq!(whole.misjudged(&estimates, &all[0]), 0.0, "nothing was estimated");
        estimates.judge_all(&all[..1]);
        assert_eq!(whole.misjudged(&estimates, &all[0]), 0.0);
        let mut twice = judged[2];
        twice.verdict.seconds *= 2.0;
        estimates.seen.insert(all[2].clone(), Some(twice));
        assert_eq!(whole.misjudged(&estimates, &all[0]), 1.0);
        assert_eq!(whole.misjudged(&estimates, &all[2]), 0.0);
    }
}
