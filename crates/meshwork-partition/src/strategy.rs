//! Choosing how an operation is computed: which atoms split which factor of its rule, at least cost.

use std::sync::Arc;

use meshwork_ir::ValueId;
use meshwork_ir::attr::{FactorKind, OpShardingRule};
use smallvec::SmallVec;

use crate::atoms::{AtomList, Atoms};
use crate::layout::{Combine, DimLayout, Layout};
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
    /// Whether factors that make neighbours exchange data may be split.
    pub permutation: Splittable,
    /// Factors that may only be split evenly.
    pub even: Vec<usize>,
    /// Factors that must stay whole whatever the rule says.
    pub whole: Vec<usize>,
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
    /// The cheapest assignment for `problem`: bringing operands there, and results from there to where they are wanted.
    pub fn choose(&mut self, problem: &Problem) -> Assignment {
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
            && !problem.is_strided(&only, self.m.e.atoms)
        {
            // Everyone agrees and nothing is to be combined: no search.
            return only;
        }
        for o in &mut options {
            o.sort_by_key(|l| std::cmp::Reverse(l.len()));
            o.push(AtomList::new());
        }
        let mut best: Option<(f64, Assignment)> = None;
        let mut tried = 0;
        let mut picks = vec![0; count];
        loop {
            tried += 1;
            let assignment: Assignment = picks.iter().zip(&options).map(|(&i, o)| o[i].clone()).collect();
            if disjoint(&assignment) && !problem.is_strided(&assignment, self.m.e.atoms) {
                let cost = self.cost(problem, &assignment);
                if best.as_ref().is_none_or(|b| cost < b.0) {
                    best = Some((cost, assignment));
                }
            }
            if tried >= MOST_COMBINATIONS || !advance(&mut picks, &options) {
                break;
            }
        }
        best.map_or_else(|| std::iter::repeat_n(AtomList::new(), count).collect(), |b| b.1)
    }

    /// Frames for the factors that stand alone: those of the largest operand that already lies as assigned.
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
        let atoms = self.m.e.atoms;
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
                    let size = self.m.e.atoms.size(a);
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

    /// Bytes a device sends if `problem` is computed under `assignment`.
    fn cost(&mut self, problem: &Problem, assignment: &Assignment) -> f64 {
        let mut cost = 0.0;
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            let extents = self.extents(v);
            let layout = problem.layout(dims, &extents, assignment, self.m.e.atoms);
            cost += self.cost_to(v, &layout);
        }
        let partial = problem.partial(assignment);
        for (&v, dims) in problem.results.iter().zip(&problem.rule.results) {
            let extents = self.extents(v);
            let mut layout = problem.layout(dims, &extents, assignment, self.m.e.atoms);
            if let Some(combine) = problem.combine {
                layout = layout.with_partial(partial.clone(), combine);
            }
            let want = self.want(v);
            let path = self.paths.find(&layout, &want, &extents, self.m.e.atoms);
            cost += path.cost * self.element_bytes(v);
        }
        // Less work per device decides between equals.
        let shards: i64 = assignment.iter().map(|l| self.m.e.atoms.product(l)).product();
        cost + 1e-6 / shards as f64
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
