//! Evaluating assignments: each is written into the program, compiled and judged, on all cores, at most once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use meshwork_ir::Module;
use meshwork_partition::{Contract, Machine};

use crate::cut::Cut;
use crate::judge::{Timed, Verdict, timed_plan_of};
use crate::space::{Assignment, Choice, Results, Space, View, annotate};

/// Nested programs recurse; only touched pages take memory.
const STACK_BYTES: usize = 1 << 30;
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

    /// The share of the time that is used up; nothing if there is no limit on it.
    pub fn used(&self) -> f64 {
        let Some(deadline) = self.deadline else { return 0.0 };
        let (spent, all) = (self.began.elapsed().as_secs_f64(), deadline.duration_since(self.began).as_secs_f64());
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
            let outcome = outcome.map_err(|e| self.first_error.get_or_insert(e).clone()).ok();
            notes.extend(outcome.map(|judged| (until, judged)));
            self.seen.insert((*a).clone(), outcome);
        }
        notes.sort_by(|a, b| a.0.total_cmp(&b.0));
        notes.into_iter().for_each(|(after, judged)| self.note(after, judged));
        assignments.iter().map(|a| self.seen.get(a).copied().flatten()).collect()
    }

    /// The best `count` assignments that were judged.
    pub fn best(&self, count: usize) -> Vec<Assignment> {
        let scored = self.seen.iter().filter_map(|(a, judged)| Some((judged.as_ref()?.score(self.limits), a)));
        let mut scored: Vec<(f64, &Assignment)> = scored.collect();
        scored.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        scored.into_iter().take(count).map(|(_, a)| a.clone()).collect()
    }

    /// Notes a plan that keeps to the limits, if it is the best so far.
    fn note(&mut self, after: f64, judged: Judged) {
        let best = self.improvements.last().map_or(f64::INFINITY, |best| best.verdict.seconds);
        if judged.is_feasible(self.limits) && judged.verdict.seconds < best {
            self.improvements.push(Improvement { after, verdict: judged.verdict });
        }
    }

    fn judge(&self, assignment: &[Choice]) -> Result<Judged, String> {
        let of = |view: &View| {
            let module = annotate(view, self.space, assignment, Results::Annotated);
            self.run(&module)
        };
        match self.form {
            Form::Whole(view) => of(view).map(|(run, broken)| Judged { verdict: run.verdict, broken }),
            Form::Cut(cut) => {
                let ((few, _), (more, broken)) = (of(&cut.few)?, of(&cut.more)?);
                Ok(Judged { verdict: cut.estimate(&few, &more), broken })
            }
        }
    }

    /// Compiles and judges a program, and says how many contracts it breaks.
    fn run(&self, module: &Module) -> Result<(Timed, usize), String> {
        let (run, plan) = timed_plan_of(module, self.machine).map_err(|e| e.to_string())?;
        let broken = self.limits.contracts.iter().filter(|contract| plan.check(contract).is_err()).count();
        Ok((run, broken))
    }
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
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}
