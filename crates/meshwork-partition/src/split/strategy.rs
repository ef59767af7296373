//! Choosing how an operation is computed: which atoms split which factor of its rule, in the least time.
//!
//! The time of a choice is what a device sends, over the speed of the links, and what it computes. Gathering operands
//! may send less than combining parts of the result, and then repeats the arithmetic on every device: whichever takes
//! longer decides. Latency is not part of it: collectives of one kind are combined later, so what an operation's own
//! would wait for is not known here; between equals the fewer collectives win.

use std::sync::Arc;

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_ir::op::{BodyOp, MovementOp};
use meshwork_ir::{Combine, ElementType, OpKind, ValueId};
use meshwork_mesh::sort_by_key;
use smallvec::SmallVec;

use crate::layout::atoms::{AtomList, Atoms};
use crate::layout::{DimLayout, Layout};
use crate::plan::cost::{Class, Machine};
use crate::plan::{human_bytes, human_count};
use crate::split::Splitter;

/// Which atoms split each factor of a rule.
pub type Assignment = SmallVec<[AtomList; 6]>;

/// An operation's rule and what may be done with it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The rule.
    pub rule: Arc<OpShardingRule>,
    /// Operands in rule order.
    pub operands: Vec<ValueId>,
    /// Results in rule order.
    pub results: Vec<ValueId>,
    /// How partial results combine; `None`: reduction factors must not be split.
    pub combine: Option<Combine>,
    /// Whether factors that make neighbors exchange data may be split.
    pub permutation: Splittable,
    /// Factors that may only be split evenly.
    pub even: Vec<usize>,
    /// Factors that must stay whole whatever the rule says.
    pub whole: Vec<usize>,
    /// What the whole operation takes.
    pub work: Work,
}

/// What an operation takes besides communication.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Arithmetic operations.
    pub flops: f64,
    /// Whether every element of operands and results is read or written.
    pub memory: Touched,
    /// At which rate it computes.
    pub class: Class,
    /// The element type of its first operand.
    pub elem: ElementType,
}

/// How much of its operands and results an operation touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touched {
    /// Every element.
    All,
    /// Only some, or none: the arithmetic stands for all of the work.
    Little,
}

impl Touched {
    /// What an operation of `kind` touches.
    pub fn by(kind: OpKind) -> Touched {
        let by_place = matches!(
            kind,
            OpKind::Movement(MovementOp::Gather | MovementOp::DynamicSlice | MovementOp::DynamicUpdateSlice)
                | OpKind::Body(BodyOp::Scatter)
        );
        let in_name_only = matches!(kind, OpKind::Movement(MovementOp::Reshape | MovementOp::BitcastConvert));
        if by_place || in_name_only { Touched::Little } else { Touched::All }
    }
}

/// What an operation takes on each device if it is computed in one way.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Bytes sent; those over slower links count as often as they take longer.
    pub sent: f64,
    /// Arithmetic operations.
    pub flops: f64,
    /// Bytes of memory read and written.
    pub memory: f64,
}

impl Cost {
    /// The modelled time of `work`; `fastest` is the speed of the fastest links, in 10⁹ bytes per second.
    pub fn seconds(&self, work: &Work, machine: &Machine, fastest: f64) -> f64 {
        self.sent / (fastest * 1e9) + machine.device.rate_seconds(work.class, work.elem, self.flops, self.memory)
    }
}

/// One way to compute an operation.
#[derive(Clone, Debug)]
struct Way {
    assignment: Assignment,
    cost: Cost,
    seconds: f64,
}

/// How an operation is to be computed.
pub struct Choice {
    /// Which atoms split each factor.
    pub assignment: Assignment,
    /// What was weighed against it, to stand behind a reason; empty if nothing was.
    pub weighed: String,
}

/// Whether a kind of factor may be split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Splittable {
    /// The operation's splitting handles it.
    Yes,
    /// Such factors stay whole.
    No,
}

/// Whether atoms found another factor to split.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Displaced {
    Yes,
    No,
}

/// More combinations than this are not tried; the widest choices come first.
const MOST_COMBINATIONS: usize = 256;

impl Problem {
    /// Whether `factor` may be split at all.
    pub fn may_split(&self, factor: usize) -> bool {
        if self.whole.contains(&factor) {
            return false;
        }
        match self.rule.kind(factor) {
            // Results must know of the split: a factor of operands only would drop all shards but one.
            FactorKind::PassThrough => self.rule.results.iter().flatten().any(|factors| factors.contains(&factor)),
            FactorKind::Reduction => self.combine.is_some(),
            FactorKind::Permutation => self.permutation == Splittable::Yes,
            FactorKind::NeedReplication => false,
        }
    }

    /// The layout of a tensor whose dimensions have these factors, in ordinary frames.
    pub fn layout(&self, dims: &[Vec<usize>], extents: &[i64], assignment: &Assignment, atoms: &Atoms) -> Layout {
        self.layout_in(dims, extents, assignment, &[], atoms)
    }

    /// The layout of a tensor whose dimensions have these factors; `frames` says where a factor stands otherwise than
    /// ordinary.
    pub fn layout_in(
        &self,
        dims: &[Vec<usize>],
        extents: &[i64],
        assignment: &Assignment,
        frames: &[Option<DimLayout>],
        atoms: &Atoms,
    ) -> Layout {
        let dims = dims.iter().zip(extents).map(|(factors, &n)| {
            if let [only] = factors[..]
                && let Some(Some(frame)) = frames.get(only)
            {
                return frame.clone();
            }
            let list = factors.iter().flat_map(|&f| assignment[f].iter().copied()).collect();
            DimLayout::split(n, list, atoms)
        });
        Layout { dims: dims.collect(), partial: None }
    }

    /// Whether some dimension would be split in a factor behind one that is not split completely: its shards would not
    /// be contiguous.
    fn is_strided(&self, assignment: &Assignment, atoms: &Atoms) -> bool {
        let tensors = self.rule.operands.iter().chain(&self.rule.results);
        tensors.flatten().any(|factors| {
            let open = factors.iter().position(|&f| atoms.product(&assignment[f]) < self.rule.factor_sizes[f]);
            open.is_some_and(|i| factors[i + 1..].iter().any(|&f| !assignment[f].is_empty()))
        })
    }

    /// Whether every dimension that has `factor` has no other.
    pub fn stands_alone(&self, factor: usize) -> bool {
        let tensors = self.rule.operands.iter().chain(&self.rule.results);
        tensors.flatten().all(|factors| !factors.contains(&factor) || factors.len() == 1)
    }

    /// Atoms on reduction factors: what the results are partial over.
    pub fn partial(&self, assignment: &Assignment) -> AtomList {
        let mut out: AtomList = self.rule.reduction.iter().flat_map(|&f| assignment[f].iter().copied()).collect();
        out.sort_unstable();
        out
    }
}

impl Splitter<'_> {
    /// The assignment for `problem` that takes the least time: for bringing operands there, computing, and bringing
    /// results from there to where they are wanted.
    pub fn choose(&mut self, problem: &Problem) -> Choice {
        let count = problem.rule.factor_sizes.len();
        let mut options: Vec<Vec<AtomList>> = vec![vec![]; count];
        let tensors = problem.operands.iter().zip(&problem.rule.operands);
        for (&v, dims) in tensors {
            let lists = self.current(v).lists();
            self.offer(problem, dims, &lists, &mut options);
            let lists = self.want(v).lists();
            self.offer(problem, dims, &lists, &mut options);
        }
        for (&v, dims) in problem.results.iter().zip(&problem.rule.results) {
            let lists = self.want(v).lists();
            self.offer(problem, dims, &lists, &mut options);
        }
        let sums = problem.rule.reduction.iter().any(|&f| !options[f].is_empty());
        let displaced = self.displace(problem, &mut options);
        if let Some(only) = unanimous(&options)
            && !sums
            && displaced == Displaced::No
            && !problem.is_strided(&only, self.atoms)
        {
            // Everyone agrees and nothing is to be combined: no search.
            return Choice { assignment: only, weighed: String::new() };
        }
        for o in &mut options {
            sort_by_key(o, |l| std::cmp::Reverse(l.len()));
            o.push(AtomList::new());
        }
        // The quickest way, the one that sends least, and the one that computes least.
        let (mut best, mut lean, mut light): (Option<Way>, Option<Way>, Option<Way>) = (None, None, None);
        let mut tried = 0;
        let mut picks = vec![0; count];
        loop {
            tried += 1;
            let assignment: Assignment = picks.iter().zip(&options).map(|(&i, o)| o[i].clone()).collect();
            if disjoint(&assignment) && !problem.is_strided(&assignment, self.atoms) {
                let cost = self.cost(problem, &assignment);
                let way = Way { assignment, cost, seconds: cost.seconds(&problem.work, &self.machine, self.fastest) };
                let by = |known: &Option<Way>, key: fn(&Way) -> (f64, f64)| {
                    known.as_ref().is_none_or(|k| key(&way) < key(k))
                };
                let quicker = by(&best, |w| (w.seconds, w.cost.sent));
                if by(&lean, |w| (w.cost.sent, w.seconds)) {
                    lean = Some(way.clone());
                }
                if by(&light, |w| (w.cost.flops, w.seconds)) {
                    light = Some(way.clone());
                }
                if quicker {
                    best = Some(way);
                }
            }
            if tried >= MOST_COMBINATIONS || !advance(&mut picks, &options) {
                break;
            }
        }
        let weighed = match (&best, &lean, &light) {
            (Some(best), Some(lean), Some(light)) => self.weighed(problem, best, lean, light),
            _ => String::new(),
        };
        let none = || std::iter::repeat_n(AtomList::new(), count).collect();
        Choice { assignment: best.map_or_else(none, |b| b.assignment), weighed }
    }

    /// In words, why `best` is better than the way that sends least or, if that is the same, than the one that computes
    /// least.
    fn weighed(&self, problem: &Problem, best: &Way, lean: &Way, light: &Way) -> String {
        let sums = |way: &Way| !problem.partial(&way.assignment).is_empty();
        let count = |n: f64| format!("{}FLOP", human_count(n));
        let name = |way: &Way| match (sums(best), sums(way)) {
            (true, false) => "gathering the operands",
            (false, true) => "combining parts of the result",
            _ => "another split",
        };
        let sent = human_bytes(best.cost.sent);
        if lean.cost.sent + 1.0 < best.cost.sent {
            let (flops, memory) = (lean.cost.flops - best.cost.flops, lean.cost.memory - best.cost.memory);
            let repeated =
                if flops > 0.0 { count(flops) } else { format!("{} of memory traffic", human_bytes(memory)) };
            let atoms = best.assignment.iter().flatten().filter(|a| !lean.assignment.iter().flatten().any(|b| b == *a));
            let devices = self.atoms.product(&atoms.copied().collect::<AtomList>());
            let less = human_bytes(lean.cost.sent);
            return format!(
                " ({sent} sent; {} would send {less} but repeat {repeated} on each of {devices} devices)",
                name(lean)
            );
        }
        if light.cost.flops + 1.0 < best.cost.flops && light.cost.sent > best.cost.sent + 1.0 {
            let (more, spared) = (human_bytes(light.cost.sent), count(best.cost.flops - light.cost.flops));
            return format!(" ({sent} sent; {} would send {more} to spare {spared} a device)", name(light));
        }
        String::new()
    }

    /// Frames for the factors that stand alone: those of the largest operand that is already placed as assigned.
    pub fn factor_frames(&mut self, problem: &Problem, assignment: &Assignment) -> Vec<Option<DimLayout>> {
        let mut frames: Vec<Option<(i64, DimLayout)>> = vec![None; assignment.len()];
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            if self.is_free(v) {
                continue;
            }
            let (layout, size) = (self.current(v), self.extents(v).iter().product::<i64>());
            for (factors, frame) in dims.iter().zip(&layout.dims) {
                let [f] = factors[..] else { continue };
                let better = frames[f].as_ref().is_none_or(|(s, _)| *s < size);
                if better && frame.is_split() && frame.atoms == assignment[f] && problem.stands_alone(f) {
                    frames[f] = Some((size, frame.clone()));
                }
            }
        }
        frames.into_iter().map(|f| f.map(|f| f.1)).collect()
    }

    /// Where an operand is split in a factor that must be whole, its atoms may split another factor instead: an
    /// all-to-all sends less than gathering. Adds that to the options.
    fn displace(&mut self, problem: &Problem, options: &mut [Vec<AtomList>]) -> Displaced {
        let mut found = Displaced::No;
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            if self.is_free(v) {
                continue;
            }
            let layout = self.current(v);
            for (factors, frame) in dims.iter().zip(&layout.dims) {
                let [f] = factors[..] else { continue };
                if problem.may_split(f) || !frame.is_split() {
                    continue;
                }
                let mut rest: &[u8] = &frame.atoms;
                let elsewhere = dims.iter().filter_map(|factors| match factors[..] {
                    [g] if problem.may_split(g) && problem.rule.kind(g) == FactorKind::PassThrough => Some(g),
                    _ => None,
                });
                for g in elsewhere {
                    let bases = options[g].clone();
                    for base in bases.iter().map(|b| &b[..]).chain([&[][..]]) {
                        let tail = self.fitting_tail(problem, g, base, &frame.atoms);
                        let list: AtomList = base.iter().chain(tail).copied().collect();
                        if !tail.is_empty() && !options[g].contains(&list) {
                            options[g].push(list);
                            found = Displaced::Yes;
                        }
                    }
                    // What does not fit here may fit into the next.
                    let tail: AtomList = self.fitting_tail(problem, g, &[], rest).into();
                    if tail.len() < frame.atoms.len() && !tail.is_empty() && !options[g].contains(&tail) {
                        options[g].push(tail.clone());
                    }
                    rest = &rest[..rest.len() - tail.len()];
                }
            }
        }
        found
    }

    /// The longest end of `list` that can split factor `g` behind `base`.
    fn fitting_tail<'l>(&self, problem: &Problem, g: usize, base: &[u8], list: &'l [u8]) -> &'l [u8] {
        if base.iter().any(|a| list.contains(a)) {
            return &[];
        }
        let atoms = self.atoms;
        let (size, have) = (problem.rule.factor_sizes[g], atoms.product(base));
        let fits = |from: &usize| {
            let parts = have * atoms.product(&list[*from..]);
            parts <= size && (!problem.even.contains(&g) || size % parts == 0)
        };
        &list[(0..list.len()).find(fits).unwrap_or(list.len())..]
    }

    /// Adds the split of one tensor to the options of its factors.
    fn offer(&self, problem: &Problem, dims: &[Vec<usize>], lists: &[AtomList], options: &mut [Vec<AtomList>]) {
        for (factors, list) in dims.iter().zip(lists) {
            let mut rest: &[u8] = list;
            for (i, &f) in factors.iter().enumerate() {
                let mut room = problem.rule.factor_sizes[f];
                let mut taken = AtomList::new();
                let minor_most = i + 1 == factors.len();
                while let Some((&a, tail)) = rest.split_first() {
                    let size = self.atoms.size(a);
                    if (!minor_most || problem.even.contains(&f)) && room % size != 0 {
                        break;
                    }
                    room /= size;
                    taken.push(a);
                    rest = tail;
                }
                let full = room == 1 || minor_most;
                if !taken.is_empty() && problem.may_split(f) && !options[f].contains(&taken) {
                    options[f].push(taken);
                }
                // A factor that is not split completely ends the dimension: what follows would be strided.
                if !full {
                    break;
                }
            }
        }
    }

    /// Seconds that a message along `list` takes however short it is.
    pub fn hop_seconds(&self, list: &[u8]) -> f64 {
        let links = self.atoms.to_axes(list);
        let latency = |axis| self.machine.links.of(axis, self.atoms.mesh()).latency_us;
        links.iter().map(latency).fold(0.0, f64::max) * 1e-6
    }

    /// What a device sends and computes if `problem` is computed under `assignment`.
    pub fn cost(&mut self, problem: &Problem, assignment: &Assignment) -> Cost {
        let mut cost = Cost { flops: problem.work.flops, ..Cost::default() };
        for (list, &size) in assignment.iter().zip(&problem.rule.factor_sizes) {
            let parts = self.atoms.product(list);
            cost.flops *= ((size + parts - 1) / parts) as f64 / size.max(1) as f64;
        }
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            let extents = self.extents(v);
            let layout = problem.layout(dims, &extents, assignment, self.atoms);
            cost.sent += self.cost_to(v, &layout);
            cost.memory += layout.local_elements() as f64 * self.element_bytes(v);
        }
        let partial = problem.partial(assignment);
        for (&v, dims) in problem.results.iter().zip(&problem.rule.results) {
            let extents = self.extents(v);
            let mut layout = problem.layout(dims, &extents, assignment, self.atoms);
            if let Some(combine) = problem.combine {
                layout = layout.with_partial(partial.clone(), combine);
            }
            let want = self.want(v);
            let path = self.paths.find(&layout, &want, &extents, self.atoms);
            cost.sent += path.cost * self.element_bytes(v);
            cost.memory += layout.local_elements() as f64 * self.element_bytes(v);
        }
        if problem.work.memory == Touched::Little {
            cost.memory = 0.0;
        }
        cost
    }
}

fn disjoint(assignment: &Assignment) -> bool {
    let mut seen = 0u128;
    for &a in assignment.iter().flatten() {
        if seen & (1 << a) != 0 {
            return false;
        }
        seen |= 1 << a;
    }
    true
}

/// The assignment if every factor has at most one option and those do not collide.
fn unanimous(options: &[Vec<AtomList>]) -> Option<Assignment> {
    let only: Option<Assignment> = options
        .iter()
        .map(|o| match &o[..] {
            [] => Some(AtomList::new()),
            [one] => Some(one.clone()),
            _ => None,
        })
        .collect();
    only.filter(disjoint)
}

fn advance(picks: &mut [usize], options: &[Vec<AtomList>]) -> bool {
    for (pick, options) in picks.iter_mut().zip(options) {
        *pick += 1;
        if *pick < options.len() {
            return true;
        }
        *pick = 0;
    }
    false
}
