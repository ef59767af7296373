//! The planner: from a program and a machine to the best annotations found.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwork_ir::Module;
use meshwork_mesh::{Mesh, P, sort_by};
use meshwork_partition::{Contract, Lock, Machine};

use crate::bound::lower_bounds;
use crate::constraint::{Constraint, Forbidden};
use crate::cut::Cut;
use crate::error::PlannerError;
use crate::evaluate::{Evaluator, Form, Improvement, Limits};
use crate::found::{Candidate, Found, Program};
use crate::meshes::meshes;
use crate::problem::{Annotated, Base, Problem};
use crate::propose::proposals;
use crate::search::{Effort, Seeds, search};
use crate::site::Layers;

/// Assignments above which not all are tried.
const EXHAUSTIVE: u64 = 4096;
/// Seconds of a search, unless said otherwise.
const SECONDS: f64 = 60.0;
/// Meshes that are searched in full when the mesh is chosen.
const MESHES: usize = 3;
/// The parts of the time after which a search on a few blocks of the program hands over what it found, and ends.
const ON_CUT: [f64; 3] = [0.05, 0.1, 0.15];
/// What it found is judged on the whole program: this many assignments each time.
const FROM_CUT: [usize; 3] = [4, 4, 8];

/// Searches for the shardings of a program.
///
/// ```
/// use meshwork_mesh::{Mesh, P};
/// use meshwork_partition::Machine;
/// use meshwork_planner::Planner;
///
/// let text = "func.func @main(%x: tensor<4096x512xf32>, %w: tensor<512x512xf32>) -> tensor<4096x512xf32> {
///   %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x512xf32>, tensor<512x512xf32>) -> tensor<4096x512xf32>
///   return %0 : tensor<4096x512xf32> }";
/// let module = meshwork_ir::text::parse(text)?;
/// let machine = Machine::default();
/// let found = Planner::new(&module, &machine).mesh(Mesh::linear("x", 8)?).search()?;
/// // Rows of x and of the result: nothing is sent.
/// assert_eq!(found.best().annotations()[0].to_string(), r#"arg0: [{"x"}, {}]"#);
/// assert_eq!(found.best().verdict().sent, 0.0);
/// assert_eq!(found.gap(), Some(0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Planner<'a> {
    module: &'a Module,
    machine: &'a Machine,
    mesh: Option<Mesh>,
    devices: Option<i64>,
    constraints: Vec<Constraint>,
    annotated: Annotated,
    layers: Layers,
    seconds: f64,
    evaluations: usize,
    effort: Effort,
    top: usize,
}

impl<'a> Planner<'a> {
    /// A planner for `module` on `machine`, on the mesh that the program has.
    pub fn new(module: &'a Module, machine: &'a Machine) -> Planner<'a> {
        Planner {
            module,
            machine,
            mesh: None,
            devices: None,
            constraints: vec![],
            annotated: Annotated::Kept,
            layers: Layers::Auto,
            seconds: SECONDS,
            evaluations: usize::MAX,
            effort: Effort { exhaustive: EXHAUSTIVE, seeds: Seeds::Recipes, expansions: usize::MAX },
            top: 1,
        }
    }

    /// On this mesh.
    pub fn mesh(mut self, mesh: Mesh) -> Self {
        (self.mesh, self.devices) = (Some(mesh), None);
        self
    }

    /// Searches for the best mesh of `devices` devices too.
    pub fn devices(mut self, devices: i64) -> Self {
        (self.mesh, self.devices) = (None, Some(devices));
        self
    }

    /// No device may need more than `bytes`.
    pub fn memory(self, bytes: i64) -> Self {
        self.constraint(Constraint::Memory(bytes))
    }

    /// Arguments in whose names `pattern` is found are placed so.
    pub fn fix(self, pattern: &str, spec: P) -> Self {
        self.constraint(Constraint::Fix { pattern: pattern.into(), spec })
    }

    /// This axis (a name), or any axis on this dimension (a number), does not split these arguments.
    pub fn forbid(self, pattern: &str, what: impl Into<Forbidden>) -> Self {
        self.constraint(Constraint::Forbid { pattern: pattern.into(), what: what.into() })
    }

    /// All of these arguments are placed alike.
    pub fn tie(self, first: &str, second: &str) -> Self {
        self.constraint(Constraint::Tie { first: first.into(), second: second.into() })
    }

    /// The plan keeps to `contract`.
    pub fn contract(self, contract: Contract) -> Self {
        self.constraint(Constraint::Contract(contract))
    }

    /// Arguments stay placed as `lock` records, except those in whose names `except` is found.
    pub fn keep_lock(self, lock: Lock, except: Option<&str>) -> Self {
        self.constraint(Constraint::KeepLock { lock, except: except.map(Into::into) })
    }

    /// Only axes that divide an extent split it.
    pub fn even_only(self) -> Self {
        self.constraint(Constraint::EvenOnly)
    }

    /// With another constraint.
    pub fn constraint(mut self, constraint: Constraint) -> Self {
        self.constraints.push(constraint);
        self
    }

    /// Without the annotations that the program has.
    pub fn fresh(mut self) -> Self {
        self.annotated = Annotated::Dropped;
        self
    }

    /// Corresponding arguments of repeated layers may be placed differently.
    pub fn untied(mut self) -> Self {
        self.layers = Layers::Untied;
        self
    }

    /// Searches for about `seconds`; 60 by default. A step that has begun is finished.
    pub fn seconds(mut self, seconds: f64) -> Self {
        self.seconds = seconds;
        self
    }

    /// Compiles at most `most` plans on each mesh instead of limiting the time: results are then reproducible.
    pub fn evaluations(mut self, most: usize) -> Self {
        (self.evaluations, self.seconds) = (most, f64::INFINITY);
        self
    }

    /// Tries all assignments if there are at most `assignments`; 4,096 by default.
    pub fn exhaustive_up_to(mut self, assignments: u64) -> Self {
        self.effort.exhaustive = assignments;
        self
    }

    /// Starts from nothing, without recipes.
    pub fn without_recipes(mut self) -> Self {
        self.effort.seeds = Seeds::Given;
        self
    }

    /// Keeps the best `candidates`; 1 by default.
    pub fn top(mut self, candidates: usize) -> Self {
        self.top = candidates.max(1);
        self
    }

    /// Searches.
    pub fn search(&self) -> Result<Found, PlannerError> {
        let started = Instant::now();
        let outcome = self.attempt(&self.constraints, started, self.seconds)?;
        if outcome.candidates.is_empty() {
            return Err(self.infeasible(outcome));
        }
        let Outcome { candidates, is_exhaustive, evaluations, estimates, improvements, model_gap, .. } = outcome;
        let mut found = Found {
            bounds: lower_bounds(self.module, self.machine, candidates[0].mesh()),
            candidates,
            is_exhaustive,
            evaluations,
            estimates,
            improvements,
            model_gap,
            seconds: 0.0,
        };
        let deadline =
            self.seconds.is_finite().then(|| started + Duration::from_secs_f64(self.seconds.clamp(0.0, 1e9)));
        let before = found.candidates[0].verdict().seconds;
        found.candidates[0].minimize(deadline);
        let verdict = *found.candidates[0].verdict();
        if verdict.seconds < before {
            found.improvements.push(Improvement { after: started.elapsed().as_secs_f64(), verdict });
        }
        found.seconds = started.elapsed().as_secs_f64();
        Ok(found)
    }

    fn attempt(&self, constraints: &[Constraint], started: Instant, seconds: f64) -> Result<Outcome, PlannerError> {
        let base = Base::of(self.module, self.annotated)?;
        let limits = limits(constraints);
        // What is gathered is kept as far as the memory that is allowed has room for it.
        let machine = self.machine.clone().within(limits.memory.map(|bytes| bytes as f64));
        let program = Arc::new(Program { written: self.module.clone(), machine, limits });
        let choices = match (&self.mesh, self.devices) {
            (Some(mesh), _) => vec![mesh.clone()],
            (None, Some(devices)) => meshes(devices)?,
            (None, None) => vec![base.mesh().ok_or(PlannerError::NoMesh)?],
        };
        let problem = |mesh: &Mesh| base.on(mesh, constraints, self.layers);
        let until = |share: f64| {
            seconds.is_finite().then(|| started + Duration::from_secs_f64((seconds * share).clamp(0.0, 1e9)))
        };
        let on_mesh = |problem: Problem, effort: &Effort, share: f64| {
            self.on_mesh(&program, problem, effort, Times { started, deadline: until(share) })
        };
        if let [mesh] = choices.as_slice() {
            return on_mesh(problem(mesh)?, &self.effort, 1.0);
        }
        // Recipes only, to see which meshes are worth more. Few axes come first: what there is no time for has many.
        let recipes = Effort { expansions: 0, exhaustive: 0, ..self.effort };
        let mut ranked: Vec<(f64, Mesh)> = vec![];
        let mut total = Outcome::default();
        for (i, mesh) in choices.iter().enumerate() {
            let share = 0.4 * (i + 1) as f64 / choices.len() as f64;
            match on_mesh(problem(mesh)?, &recipes, share) {
                Ok(outcome) => {
                    ranked.push((outcome.score, mesh.clone()));
                    total.join(outcome);
                }
                Err(PlannerError::NoTime) if i > 0 => continue,
                Err(error) => return Err(error),
            }
        }
        sort_by(&mut ranked, |a, b| a.0.total_cmp(&b.0));
        let best = ranked.len().min(MESHES);
        for (i, (_, mesh)) in ranked.into_iter().take(best).enumerate() {
            let share = 0.4 + 0.6 * (i + 1) as f64 / best as f64;
            match on_mesh(problem(&mesh)?, &self.effort, share) {
                Ok(outcome) => total.join(outcome),
                Err(PlannerError::NoTime) if i > 0 => break,
                Err(error) => return Err(error),
            }
        }
        total.is_exhaustive = false;
        total.candidates.truncate(self.top);
        Ok(total)
    }

    fn on_mesh(
        &self,
        program: &Arc<Program>,
        problem: Problem,
        effort: &Effort,
        times: Times,
    ) -> Result<Outcome, PlannerError> {
        let problem = Arc::new(problem);
        let evaluator = |form| {
            let mut evaluator = Evaluator::new(&problem.space, form, &program.machine, &program.limits);
            (evaluator.deadline, evaluator.most, evaluator.started) = (times.deadline, self.evaluations, times.started);
            evaluator
        };
        let few = problem.space.argument_assignments() <= effort.exhaustive;
        let cut = if few { None } else { Cut::of(&problem.whole) };
        if let Some(cut) = cut.as_ref().filter(|_| effort.expansions == 0) {
            // Only to compare meshes: an estimate will do.
            let mut on_cut = evaluator(Form::Cut(cut));
            let found = search(&mut on_cut, None, &problem.census, &[], effort).pool;
            let (_, best) = found.first().ok_or_else(|| no_plan(on_cut.first_error.take()))?;
            let (estimates, score) = (on_cut.evaluations, best.score(&program.limits));
            return Ok(Outcome { estimates, score, ..Outcome::default() });
        }
        let mut proposed = proposals(&problem, &program.machine, program.limits.memory, times.deadline);
        if effort.seeds == Seeds::Given {
            proposed.seeds.clear();
        }
        let mut outcome = Outcome { model_gap: proposed.gap, ..Outcome::default() };
        let (mut given, mut effort) = (proposed.seeds, *effort);
        let mut whole = evaluator(Form::Whole(&problem.whole));
        let mut on_cut = cut.as_ref().map(|cut| evaluator(Form::Cut(cut)));
        if let Some(on_cut) = &mut on_cut {
            let ends = ON_CUT.map(|part| times.part(part));
            for (end, count) in ends.into_iter().zip(FROM_CUT) {
                on_cut.deadline = end;
                let found = search(on_cut, None, &problem.census, &given, &effort).pool;
                let leanest = found.iter().min_by_key(|(_, judged)| judged.verdict.peak);
                given = found.iter().take(count).chain(leanest).map(|(assignment, _)| assignment.clone()).collect();
                whole.judge_all(&given);
            }
            on_cut.deadline = times.deadline;
            given = whole.best(FROM_CUT[2]);
            effort.seeds = Seeds::Given;
        }
        let searched = search(&mut whole, on_cut.as_mut(), &problem.census, &given, &effort);
        outcome.estimates = on_cut.map_or(0, |on_cut| on_cut.evaluations);
        let judged = searched.pool;
        if judged.is_empty() {
            return Err(no_plan(whole.first_error));
        }
        outcome.is_exhaustive = searched.is_exhaustive;
        outcome.least = judged.iter().map(|(_, j)| j.verdict.peak).min();
        outcome.score = judged[0].1.score(&program.limits);
        outcome.evaluations = whole.evaluations;
        outcome.improvements = whole.improvements;
        let feasible = judged.into_iter().filter(|(_, j)| j.is_feasible(&program.limits));
        let candidates = feasible
            .take(self.top)
            .map(|(assignment, j)| Candidate::new(program.clone(), problem.clone(), assignment, j.verdict));
        outcome.candidates = candidates.collect();
        Ok(outcome)
    }

    /// Why there is no plan: by how much memory misses, and the smallest set of constraints that cannot hold together.
    fn infeasible(&self, outcome: Outcome) -> PlannerError {
        let least = outcome.least.unwrap_or(0);
        let limit = limits(&self.constraints).memory;
        let missing = limit.map_or(0, |limit| (least - limit).max(0));
        let mut kept = self.constraints.clone();
        let mut i = 0;
        while i < kept.len() {
            let mut fewer = kept.clone();
            fewer.remove(i);
            let share = (self.seconds / 8.0).min(5.0);
            match self.attempt(&fewer, Instant::now(), share) {
                Ok(outcome) if outcome.candidates.is_empty() => kept = fewer,
                _ => i += 1,
            }
        }
        PlannerError::Infeasible { missing, least, conflict: kept.iter().map(ToString::to_string).collect() }
    }
}

/// Why nothing was judged.
fn no_plan(first_error: Option<String>) -> PlannerError {
    first_error.map_or(PlannerError::NoTime, PlannerError::Compile)
}

/// The limits among the constraints; of several on memory the smallest.
fn limits(constraints: &[Constraint]) -> Limits {
    let mut limits = Limits::default();
    for constraint in constraints {
        match constraint {
            Constraint::Memory(bytes) => limits.memory = Some(limits.memory.map_or(*bytes, |m| m.min(*bytes))),
            Constraint::Contract(contract) => limits.contracts.push(contract.clone()),
            _ => {}
        }
    }
    limits
}

/// When a search started and when it has to end.
#[derive(Clone, Copy)]
struct Times {
    started: Instant,
    deadline: Option<Instant>,
}

impl Times {
    /// When this part of what is left will be over.
    fn part(&self, part: f64) -> Option<Instant> {
        let now = Instant::now();
        self.deadline.map(|deadline| now + deadline.saturating_duration_since(now).mul_f64(part))
    }
}

/// What searching one or several meshes gave.
#[derive(Default)]
struct Outcome {
    candidates: Vec<Candidate>,
    is_exhaustive: bool,
    evaluations: usize,
    /// Judged on a few blocks.
    estimates: usize,
    improvements: Vec<Improvement>,
    /// In the model; of several meshes that of the one that was searched last.
    model_gap: Option<f64>,
    score: f64,
    least: Option<i64>,
}

impl Outcome {
    fn join(&mut self, other: Outcome) {
        self.candidates.extend(other.candidates);
        sort_by(&mut self.candidates, |a, b| a.verdict().seconds.total_cmp(&b.verdict().seconds));
        self.evaluations += other.evaluations;
        self.estimates += other.estimates;
        for improvement in other.improvements {
            let best = self.improvements.last();
            if best.is_none_or(|best| improvement.verdict.seconds < best.verdict.seconds) {
                self.improvements.push(improvement);
            }
        }
        self.model_gap = other.model_gap;
        self.least = self.least.into_iter().chain(other.least).min();
    }
}
