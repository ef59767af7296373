//! What a search found: candidates with their annotations, and for each annotation a reason.
//!
//! A reason is a counterfactual: the same plan without the annotation, compiled exactly.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use meshwork_ir::Module;
use meshwork_mesh::{Mesh, Sharding, sort_by_key};
use meshwork_partition::plan::{human_bytes, human_seconds};
use meshwork_partition::{CompileError, Lock, Machine, Plan};
use regex_lite::Regex;

use crate::bound::Bounds;
use crate::evaluate::{Improvement, Limits, in_parallel};
use crate::judge::{Verdict, plan_of};
use crate::problem::Problem;
use crate::site::SiteKind;
use crate::space::{Assignment, Choice, Results, View, annotate};

/// What was planned.
pub(crate) struct Program {
    /// As it was given.
    pub(crate) written: Module,
    /// What it is to run on.
    pub(crate) machine: Machine,
    /// What plans have to keep to.
    pub(crate) limits: Limits,
}

/// What a search found.
pub struct Found {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) bounds: Bounds,
    pub(crate) is_exhaustive: bool,
    pub(crate) evaluations: usize,
    pub(crate) estimates: usize,
    pub(crate) improvements: Vec<Improvement>,
    pub(crate) model_gap: Option<f64>,
    pub(crate) seconds: f64,
}

impl Found {
    /// The best candidate.
    pub fn best(&self) -> &Candidate {
        &self.candidates[0]
    }

    /// The best candidates, at most as many as were asked for. Only the first has a minimal set of annotations, with reasons.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// How much faster another placement of the arguments can be at most, as a share: 0 if all were tried, `None` if that is not known.
    pub fn gap(&self) -> Option<f64> {
        self.is_exhaustive.then_some(0.0)
    }

    /// By which share of its time the model's own proposal could be better in the model, at most: how sure the model is of what it
    /// proposed, not of the plan. `None` if it had nothing to propose.
    pub fn model_gap(&self) -> Option<f64> {
        self.model_gap
    }

    /// A lower bound in seconds for every plan on this number of devices: products and what loops over elements read and write,
    /// shared evenly, without collectives.
    pub fn bound(&self) -> f64 {
        self.bounds.computing
    }

    /// A lower bound in seconds for every plan on the mesh of the best candidate that splits dimensions by whole axes, with what
    /// it has to wait for; no less than [`bound`](Self::bound). A plan may do with less where the partitioner splits a dimension by a
    /// part of an axis.
    pub fn whole_axes_bound(&self) -> f64 {
        self.bounds.whole_axes
    }

    /// How many plans were compiled.
    pub fn evaluations(&self) -> usize {
        self.evaluations
    }

    /// How many assignments were judged on a few blocks of the program first.
    pub fn estimates(&self) -> usize {
        self.estimates
    }

    /// The plans that were better than all before them, in the order in which they were found.
    pub fn improvements(&self) -> &[Improvement] {
        &self.improvements
    }

    /// How many seconds the search took.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// The reasons for the annotations in whose names `pattern` is found.
    pub fn why(&self, pattern: &str) -> Result<String, regex_lite::Error> {
        let regex = Regex::new(pattern)?;
        let found = self.best().reasons().iter().filter(|r| r.names.iter().any(|n| regex.is_match(n)));
        Ok(found.map(|reason| format!("{reason}\n")).collect())
    }
}

/// An annotation: the placement of one array.
#[derive(Clone, PartialEq, Debug)]
pub struct PlacedArray {
    /// What it is.
    pub place: ArrayPlace,
    /// Its name.
    pub name: String,
    /// How it is placed.
    pub sharding: Sharding,
}

/// Where an annotation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayPlace {
    /// On this argument.
    Argument(usize),
    /// On this result.
    Result(usize),
    /// On a group of products inside the program.
    Products,
}

impl fmt::Display for PlacedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, dims(&self.sharding))
    }
}

/// The dimensions of a sharding, without its mesh.
pub(crate) fn dims(sharding: &Sharding) -> String {
    let text = sharding.to_string();
    text.split_once(", ").map_or(text.as_str(), |(_, rest)| rest.trim_end_matches('>')).to_string()
}

/// Why arrays are annotated as they are.
#[derive(Clone, PartialEq, Debug)]
pub struct Reason {
    /// What the arrays are called together.
    pub site: String,
    /// The names of the arrays.
    pub names: Vec<String>,
    /// The annotation.
    pub sharding: Sharding,
    /// The plan without it, less this plan; `None` if that was not planned, or cannot be.
    pub without: Option<Difference>,
}

/// How one plan differs from another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// Seconds of a run.
    pub seconds: f64,
    /// Bytes of peak memory.
    pub peak: i64,
    /// Bytes sent.
    pub sent: f64,
}

impl Difference {
    /// What `other` has more than `this`.
    pub fn between(this: &Verdict, other: &Verdict) -> Difference {
        Difference { seconds: other.seconds - this.seconds, peak: other.peak - this.peak, sent: other.sent - this.sent }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = |negative: bool| if negative { '-' } else { '+' };
        let time = format!("{}{}", sign(self.seconds < 0.0), human_seconds(self.seconds.abs()));
        let peak = format!("{}{}", sign(self.peak < 0), human_bytes(self.peak.abs() as f64));
        let sent = format!("{}{}", sign(self.sent < 0.0), human_bytes(self.sent.abs()));
        write!(f, "{time} and {peak} of memory, {sent} sent")
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.site, dims(&self.sharding))?;
        match &self.without {
            Some(difference) => write!(f, "without it {difference}"),
            None => write!(f, "what the plan is without it is not known"),
        }
    }
}

/// What a plan costs, and its lock file.
type Planned = (Verdict, Lock);

/// A plan that was found.
pub struct Candidate {
    program: Arc<Program>,
    problem: Arc<Problem>,
    assignment: Assignment,
    results: Results,
    verdict: Verdict,
    reasons: Vec<Reason>,
}

impl Candidate {
    pub(crate) fn new(
        program: Arc<Program>,
        problem: Arc<Problem>,
        assignment: Assignment,
        verdict: Verdict,
    ) -> Candidate {
        Candidate { program, problem, assignment, results: Results::Annotated, verdict, reasons: vec![] }
    }

    /// What it costs.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.problem.space.mesh
    }

    /// The axes, with their sizes, that no decision about an array could split it over.
    pub(crate) fn useless_axes(&self) -> Vec<String> {
        let space = &self.problem.space;
        let splits = |a: usize, s: usize| {
            let given = space.fixed[s].as_ref();
            given.is_some_and(|fixed| fixed.dim_axes().any(|axis| axis.name == space.mesh.axes()[a].name))
                || space.domains[s][a].iter().any(|choice| matches!(choice, Choice::Dim(_)))
        };
        let useless = |a: &usize| space.size(*a) > 1 && !(0..space.sites.len()).any(|s| splits(*a, s));
        let axes = (0..space.axes()).filter(useless);
        axes.map(|a| format!("{}={}", space.mesh.axes()[a].name, space.size(a))).collect()
    }

    /// Why there are such axes.
    pub(crate) fn useless_reason(&self) -> &'static str {
        match (self.problem.space.sites.is_empty(), self.problem.space.even_only) {
            (true, _) => "splits nothing: the program has no arrays to place",
            (_, true) => "splits nothing: it divides no dimension that may be split",
            (_, false) => "splits nothing: no dimension that may be split is as long",
        }
    }

    /// Why each group of arrays is annotated as it is.
    pub fn reasons(&self) -> &[Reason] {
        &self.reasons
    }

    /// The annotations, one per array; products inside the program are one entry per group.
    pub fn annotations(&self) -> Vec<PlacedArray> {
        let mut out = vec![];
        let names = self.names();
        for (s, members) in self.problem.whole.members.iter().enumerate() {
            let Some(sharding) = self.problem.space.sharding(&self.assignment, s) else { continue };
            for &i in &members.arguments {
                let place = ArrayPlace::Argument(i);
                out.push(PlacedArray { place, name: names[i].clone(), sharding: sharding.clone() });
            }
            for &r in members.results.iter().filter(|_| self.results == Results::Annotated) {
                let place = ArrayPlace::Result(r);
                out.push(PlacedArray { place, name: format!("result {r}"), sharding: sharding.clone() });
            }
            if !members.values.is_empty() {
                let name = self.problem.space.sites[s].name.clone();
                out.push(PlacedArray { place: ArrayPlace::Products, name, sharding });
            }
        }
        sort_by_key(&mut out, |placed| match placed.place {
            ArrayPlace::Argument(i) => (0, i),
            ArrayPlace::Result(r) => (1, r),
            ArrayPlace::Products => (2, 0),
        });
        out
    }

    fn names(&self) -> Vec<String> {
        let module = &self.problem.whole.module;
        module.entry().map_or(vec![], |func| crate::site::argument_names(module, func))
    }

    /// The program with these annotations, ready to be compiled. Its calls are inlined if something inside it is annotated.
    pub fn module(&self) -> Module {
        let view = &self.problem.whole;
        let inside = (0..view.members.len())
            .any(|s| !view.members[s].values.is_empty() && self.problem.space.sharding(&self.assignment, s).is_some());
        let written = &self.program.written;
        let has_other = written.entry().is_none_or(|func| {
            let count = written.func_type(func).inputs.len();
            (0..count).any(|i| written.arg_attr(func, i, "mhlo.sharding").is_some())
        });
        if inside || has_other || self.problem.is_fresh {
            return annotate(view, &self.problem.space, &self.assignment, self.results);
        }
        let mut module = written.clone();
        crate::space::declare_mesh(&mut module, &self.problem.space.mesh);
        let members = view.members.clone();
        annotate(&View { module, members }, &self.problem.space, &self.assignment, self.results)
    }

    /// The machine that it was planned for, with no more memory than plans may need: compiled for that, the program needs
    /// what was planned.
    pub fn machine(&self) -> &Machine {
        &self.program.machine
    }

    /// The plan.
    pub fn plan(&self) -> Result<Plan, CompileError> {
        Ok(plan_of(&self.module(), &self.program.machine)?.1)
    }

    /// The lock file of the plan.
    pub fn lock(&self) -> Result<Lock, CompileError> {
        Ok(Lock::of(&self.plan()?))
    }

    /// The same annotations on a changed machine.
    ///
    /// ```
    /// # use meshwork_mesh::Mesh;
    /// # use meshwork_partition::{Machine, plan::Link};
    /// # use meshwork_planner::Planner;
    /// # let text = "func.func @main(%x: tensor<512xf32>) -> tensor<512xf32> {
    /// #   %0 = stablehlo.add %x, %x : tensor<512xf32>
    /// #   return %0 : tensor<512xf32> }";
    /// # let module = meshwork_ir::text::parse(text)?;
    /// # let machine = Machine::default();
    /// # let found = Planner::new(&module, &machine).mesh(Mesh::linear("x", 8)?).search()?;
    /// let slower = found.best().what_if(|machine| {
    ///     machine.links.set(None, Link { latency_us: 20.0, gigabytes_per_second: 5.0 });
    /// })?;
    /// println!("{}", slower.difference);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn what_if(&self, change: impl FnOnce(&mut Machine)) -> Result<Other, CompileError> {
        let mut machine = self.program.machine.clone();
        change(&mut machine);
        let (verdict, plan) = plan_of(&self.module(), &machine)?;
        let difference = Difference::between(&self.verdict, &verdict);
        Ok(Other { verdict, plan, difference })
    }

    /// Leaves out every annotation without which the plan is the same or better, and finds the reasons for the others. After
    /// `deadline` better plans are no longer looked for; what stays has its reason all the same.
    pub(crate) fn minimize(&mut self, deadline: Option<Instant>) {
        let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let own = in_parallel(&[Results::Annotated, Results::Free], |&results| self.planned(&self.assignment, results));
        let [Some((_, mut own)), free] = <[_; 2]>::try_from(own).unwrap_or_default() else { return };
        if free.is_some_and(|(_, lock)| lock == own) {
            self.results = Results::Free;
        }
        let mut each = self.without_each();
        loop {
            // The search may have ended before it tried this.
            if let Some((s, (verdict, lock))) = self.improvement(&each).filter(|_| !is_over()) {
                self.assignment = self.without(&[s]);
                (self.verdict, own) = (verdict, lock);
            } else {
                let is_same = |found: &Option<Planned>| found.as_ref().is_some_and(|(_, lock)| *lock == own);
                let same: Vec<usize> = each.iter().filter(|(_, found)| is_same(found)).map(|(s, _)| *s).collect();
                let Some((first, others)) = same.split_first() else { break };
                // Of several that say the same, one may be needed.
                let all = self.without(&same);
                if is_same(&self.planned(&all, self.results)) {
                    self.assignment = all;
                } else {
                    self.assignment = self.without(&[*first]);
                    for &s in others {
                        let fewer = self.without(&[s]);
                        if is_same(&self.planned(&fewer, self.results)) {
                            self.assignment = fewer;
                        }
                    }
                }
            }
            each = self.without_each();
        }
        self.reasons = each.into_iter().filter_map(|(s, other)| self.reason(s, other)).collect();
    }

    /// For each annotated site the plan without its annotation, `None` if there is none.
    fn without_each(&self) -> Vec<(usize, Option<Planned>)> {
        let annotated: Vec<usize> =
            (0..self.problem.space.sites.len()).filter(|&s| self.without(&[s]) != self.assignment).collect();
        in_parallel(&annotated, |&s| (s, self.planned(&self.without(&[s]), self.results)))
    }

    /// The plan without one annotation that is faster by more than a little and keeps to the limits, the fastest of several.
    fn improvement(&self, each: &[(usize, Option<Planned>)]) -> Option<(usize, Planned)> {
        let limits = &self.program.limits;
        let found = each.iter().filter_map(|(s, found)| Some((*s, found.clone()?)));
        let better = found.filter(|(_, (verdict, _))| {
            limits.contracts.is_empty()
                && limits.memory.is_none_or(|limit| verdict.peak <= limit)
                && verdict.seconds < self.verdict.seconds * (1.0 - 1e-4)
        });
        better.min_by(|a, b| a.1.0.seconds.total_cmp(&b.1.0.seconds))
    }

    /// What the program costs with these annotations, and its lock file.
    fn planned(&self, assignment: &[Choice], results: Results) -> Option<Planned> {
        let module = annotate(&self.problem.whole, &self.problem.space, assignment, results);
        plan_of(&module, &self.program.machine).ok().map(|(verdict, plan)| (verdict, Lock::of(&plan)))
    }

    fn reason(&self, s: usize, other: Option<Planned>) -> Option<Reason> {
        let (site, members) = (&self.problem.space.sites[s], &self.problem.whole.members[s]);
        let own = self.names();
        let names = match site.kind {
            SiteKind::Product => vec![site.name.clone()],
            SiteKind::Input | SiteKind::State => members.arguments.iter().map(|&i| own[i].clone()).collect(),
        };
        let sharding = self.problem.space.sharding(&self.assignment, s)?;
        let without = other.map(|(verdict, _)| Difference::between(&self.verdict, &verdict));
        Some(Reason { site: site.name.clone(), names, sharding, without })
    }

    /// The assignment with nothing said about `sites` but what is given.
    fn without(&self, sites: &[usize]) -> Assignment {
        let axes = self.problem.space.axes();
        let mut out = self.assignment.clone();
        for &site in sites {
            for axis in 0..axes {
                out[site * axes + axis] = self.problem.space.domains[site][axis][0];
            }
        }
        out
    }

    /// What is decided, site by site, for messages.
    pub fn choices(&self) -> Vec<(String, Vec<Choice>)> {
        let space = &self.problem.space;
        let all =
            (0..space.sites.len()).map(|s| (space.sites[s].name.clone(), space.choices(&self.assignment, s).to_vec()));
        all.collect()
    }
}

/// A plan on another machine.
pub struct Other {
    /// What it costs.
    pub verdict: Verdict,
    /// The plan.
    pub plan: Plan,
    /// What it has more.
    pub difference: Difference,
}
