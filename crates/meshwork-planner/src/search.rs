//! The search: all assignments if they are few; else from the recipes by moves, the best ones first.

use std::collections::BTreeSet;

use meshwork_mesh::{sort_by, sort_by_key};

use crate::colours::Census;
use crate::evaluate::{Evaluator, Form, Judged};
use crate::moves::{moves, together};
use crate::seeds::{MORE, colour_sets, combine, ranked_colours, recipes, with_more};
use crate::site::SiteKind;
use crate::space::{Assignment, Choice, Space};

/// How many assignments are worked on from at most.
const BEAM: usize = 8;
/// Assignments that are kept.
const POOL: usize = 64;
/// Sets of colours that are tried first.
const FIRST_SETS: usize = 5;
/// Recipes of each axis that are combined with those of the others.
const PER_AXIS: usize = 5;
/// Combined recipes that are tried.
const COMBINED: usize = 240;
/// Colours that moves are made of.
const COLOURS: usize = 12;
/// Moves that are tried before what they brought is looked at: on a few blocks of the program, and on the whole.
const AT_ONCE: [usize; 2] = [40, 16];
/// The least gain, as a share, that counts as one.
const GAIN: f64 = 1e-3;
/// What is estimated to be slower by more than a share is not judged on the whole program: by more than estimates have been wrong by,
/// within these limits.
const MARGIN: [f64; 2] = [0.03, 0.2];

/// How a search goes on after its seeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// If there are at most this many assignments, all are tried.
    pub exhaustive: u64,
    /// Whether recipes are among the seeds.
    pub seeds: Seeds,
    /// How many assignments are improved on at most.
    pub expansions: usize,
}

/// Where a search starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Seeds {
    /// At the recipes, and at what is given.
    #[default]
    Recipes,
    /// At what is given only.
    Given,
}

/// What a search found.
pub struct Searched {
    /// Assignments with what they cost, best first.
    pub pool: Vec<(Assignment, Judged)>,
    /// Whether all assignments of arguments were tried.
    pub is_exhaustive: bool,
}

/// Searches from `given`. Where there is an evaluator of `estimates`, moves that it finds slower are left out.
pub fn search(
    evaluator: &mut Evaluator<'_>,
    mut estimates: Option<&mut Evaluator<'_>>,
    census: &Census,
    given: &[Assignment],
    effort: &Effort,
) -> Searched {
    let space = evaluator.space;
    // What was judged in an earlier part of the time takes none of this one.
    evaluator.begin();
    let mut pool = Pool { list: vec![] };
    let mut seeds = if given.is_empty() || effort.seeds == Seeds::Recipes { vec![space.nothing()] } else { vec![] };
    seeds.extend(given.iter().cloned());
    pool.add_all(evaluator, &seeds);
    let few = space.argument_assignments() <= effort.exhaustive;
    if few {
        pool.add_all(evaluator, &all_assignments(space));
    } else if effort.seeds == Seeds::Recipes {
        add_recipes(&mut pool, evaluator, census);
    }
    let is_exhaustive = few && !evaluator.is_over();
    let colours: Vec<usize> = ranked_colours(space, census).into_iter().take(COLOURS).collect();
    let all = moves(space, &colours);
    let at_once = AT_ONCE[usize::from(matches!(evaluator.form, Form::Whole(_)))];
    let mut without_gain = 0;
    // Where the last gain was: the moves behind it come first, since those before it were tried from nearly the same assignment.
    let mut turn = 0;
    for _ in 0..effort.expansions {
        // A plan that fits may be several decisions away from all that do not.
        let patience = if pool.is_feasible(evaluator) { BEAM } else { 3 * BEAM };
        if evaluator.is_over() || without_gain >= patience {
            break;
        }
        evaluator.drop_slow();
        let Some(next) = pool.next(evaluator) else { break };
        let before = pool.best(evaluator);
        let from = pool.list[next].assignment.clone();
        let mut near: Vec<(usize, Assignment)> = vec![];
        for i in (turn..all.len()).chain(0..turn) {
            let moved = all[i].apply(space, &from).filter(|moved| near.iter().all(|(_, other)| other != moved));
            near.extend(moved.map(|moved| (i, moved)));
        }
        // What propagation finds by itself changes little or nothing.
        let (found, mut near): (Vec<_>, Vec<_>) =
            near.into_iter().partition(|(_, moved)| evaluator.is_found(&from, moved));
        if matches!(evaluator.form, Form::Whole(_)) {
            near.extend(found);
        }
        // The first few that bring something are taken at once; the others are one decision away from those, too.
        let gained = near.chunks(at_once).find(|some| {
            let some: Vec<Assignment> = some.iter().map(|(_, moved)| moved.clone()).collect();
            let some = match &mut estimates {
                Some(estimates) => promising(evaluator, estimates, &from, some),
                None => some,
            };
            pool.add_all(evaluator, &some);
            add_together(&mut pool, evaluator, &from, &some);
            pool.best(evaluator) < before * (1.0 - GAIN)
        });
        match gained.and_then(|some| some.last()) {
            Some((last, _)) => (turn, without_gain) = ((last + 1) % all.len(), 0),
            None => {
                pool.expanded(&from);
                without_gain += 1;
            }
        }
    }
    Searched { pool: pool.list.into_iter().map(|entry| (entry.assignment, entry.judged)).collect(), is_exhaustive }
}

/// Those of `moved` that are not estimated to be much slower than `from`, and to be another plan than all that were judged.
fn promising(
    evaluator: &Evaluator<'_>,
    estimates: &mut Evaluator<'_>,
    from: &Assignment,
    moved: Vec<Assignment>,
) -> Vec<Assignment> {
    let limits = estimates.limits;
    let Some(Some(own)) = estimates.judge_all(std::slice::from_ref(from)).pop() else { return moved };
    let margin = evaluator.misjudged(estimates, from).clamp(MARGIN[0], MARGIN[1]);
    let most = own.score(limits) * (1.0 + margin);
    let judged = estimates.judge_all(&moved);
    if estimates.is_over() {
        return moved;
    }
    let mut kept: Vec<Assignment> = vec![];
    for (moved, judged) in moved.into_iter().zip(judged) {
        let Some(judged) = judged.filter(|judged| judged.score(limits) <= most) else { continue };
        let is_like = |other: &Assignment| estimates.is_like(other, &moved, &judged);
        if !kept.iter().any(is_like) && !evaluator.judged().any(is_like) {
            kept.push(moved);
        }
    }
    kept
}

/// Of `moved`, which were judged, adds those together that are better than `from`: all, the better half, and the best two.
fn add_together(pool: &mut Pool, evaluator: &mut Evaluator<'_>, from: &Assignment, moved: &[Assignment]) {
    let limits = evaluator.limits;
    let Some(Some(own)) = evaluator.judge_all(std::slice::from_ref(from)).pop() else { return };
    let judged = evaluator.judge_all(moved);
    let scored = moved.iter().zip(judged).filter_map(|(a, judged)| Some((judged?.score(limits), a)));
    let mut better: Vec<(f64, &Assignment)> = scored.filter(|(score, _)| *score < own.score(limits)).collect();
    if better.len() < 2 {
        return;
    }
    sort_by(&mut better, |a, b| a.0.total_cmp(&b.0));
    let of = |count: usize| together(evaluator.space, from, better.iter().take(count).map(|(_, a)| *a));
    let several: Vec<Assignment> = [better.len(), better.len().div_ceil(2), 2].into_iter().filter_map(of).collect();
    pool.add_all(evaluator, &several);
}

struct Entry {
    assignment: Assignment,
    judged: Judged,
    expanded: bool,
}

/// Assignments, best first, no two of which cost the same in every respect.
struct Pool {
    list: Vec<Entry>,
}

impl Pool {
    fn add_all(&mut self, evaluator: &mut Evaluator<'_>, assignments: &[Assignment]) {
        let judged = evaluator.judge_all(assignments);
        for (assignment, judged) in assignments.iter().zip(judged) {
            let Some(judged) = judged else { continue };
            if !self.list.iter().any(|e| e.judged == judged) {
                self.list.push(Entry { assignment: assignment.clone(), judged, expanded: false });
            }
        }
        let limits = evaluator.limits;
        // Of plans that take the same time, the one that sends less, then the one that needs less memory.
        let key = |e: &Entry| (e.judged.score(limits), e.judged.verdict.sent, e.judged.verdict.peak);
        sort_by(&mut self.list, |a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
        // Each annotation of the best is left out once, and those that stay once more, to say what they are good for.
        let best = self.list.first().map_or(0, |e| evaluator.space.annotated(&e.assignment));
        evaluator.reserve = if matches!(evaluator.form, Form::Whole(_)) { 2 * best + 3 } else { 0 };
        // Those that need the least memory stay, in case the others turn out to need too much.
        let kept: Vec<i64> = self.leanest().map(|e| e.judged.verdict.peak).collect();
        let mut rank = 0;
        self.list.retain(|e| {
            rank += 1;
            rank <= POOL || kept.contains(&e.judged.verdict.peak)
        });
    }

    /// All that is one decision away from `assignment` was tried.
    fn expanded(&mut self, assignment: &[Choice]) {
        self.list.iter_mut().filter(|e| e.assignment == assignment).for_each(|e| e.expanded = true);
    }

    fn leanest(&self) -> impl Iterator<Item = &Entry> {
        let mut by_peak: Vec<&Entry> = self.list.iter().collect();
        sort_by_key(&mut by_peak, |e| e.judged.verdict.peak);
        by_peak.into_iter().take(2)
    }

    fn best(&self, evaluator: &Evaluator<'_>) -> f64 {
        self.list.first().map_or(f64::INFINITY, |e| e.judged.score(evaluator.limits))
    }

    fn is_feasible(&self, evaluator: &Evaluator<'_>) -> bool {
        self.list.first().is_some_and(|e| e.judged.is_feasible(evaluator.limits))
    }

    /// The next entry to improve on: the best of the beam. While nothing keeps to the limits, those that need the least memory come first,
    /// and behind the beam all others.
    fn next(&self, evaluator: &Evaluator<'_>) -> Option<usize> {
        let in_beam = (0..self.list.len().min(BEAM)).find(|&i| !self.list[i].expanded);
        if self.is_feasible(evaluator) {
            return in_beam;
        }
        let lean: Vec<i64> = self.leanest().map(|e| e.judged.verdict.peak).collect();
        let is_lean = |i: &usize| !self.list[*i].expanded && lean.contains(&self.list[*i].judged.verdict.peak);
        let any = || (0..self.list.len()).find(|&i| !self.list[i].expanded);
        (0..self.list.len()).find(is_lean).or(in_beam).or_else(any)
    }
}

/// Every assignment of arguments, products left free.
pub fn all_assignments(space: &Space) -> Vec<Assignment> {
    let mut all = vec![vec![]];
    for (site, axes) in space.sites.iter().zip(&space.domains) {
        for domain in axes {
            let domain = if site.kind == SiteKind::Product { &domain[..1] } else { &domain[..] };
            let longer = |a: &Assignment| domain.iter().map(|&c| [&a[..], &[c]].concat()).collect::<Vec<_>>();
            all = all.iter().flat_map(longer).collect();
        }
    }
    all.retain(|a| space.fits(a));
    all
}

/// Adds the recipes: those of each axis, the best of each axis combined, and what can be added to the best of these. First with a few sets
/// of colours, so that something good is there early; with the others if that did not take much of the time.
fn add_recipes(pool: &mut Pool, evaluator: &mut Evaluator<'_>, census: &Census) {
    let sets = colour_sets(evaluator.space, census);
    let (first, others) = sets.split_at(sets.len().min(FIRST_SETS));
    add_combined(pool, evaluator, first);
    add_more(pool, evaluator);
    if !others.is_empty() && evaluator.used() < 0.25 {
        add_combined(pool, evaluator, &sets);
        add_more(pool, evaluator);
    }
}

fn add_combined(pool: &mut Pool, evaluator: &mut Evaluator<'_>, sets: &[BTreeSet<usize>]) {
    let space = evaluator.space;
    // With the sum of the ranks of its recipes: what is good alone is tried first together.
    let mut combined: Vec<(usize, Assignment)> = vec![(0, space.nothing())];
    for axis in 0..space.axes() {
        let list = recipes(space, sets, axis);
        pool.add_all(evaluator, &list);
        let judged = evaluator.judge_all(&list);
        let mut ranked: Vec<(Assignment, Judged)> =
            list.into_iter().zip(judged).filter_map(|(a, j)| Some((a, j?))).collect();
        sort_by(&mut ranked, |a, b| a.1.verdict.seconds.total_cmp(&b.1.verdict.seconds));
        ranked.truncate(PER_AXIS);
        let with = |(rank, a): &(usize, Assignment)| {
            let idle = std::iter::once((rank + PER_AXIS, a.clone()));
            let both = ranked.iter().enumerate().filter_map(|(i, (b, _))| Some((rank + i, combine(space, a, b)?)));
            idle.chain(both).collect::<Vec<_>>()
        };
        combined = combined.iter().flat_map(with).collect();
        combined.sort();
        combined.truncate(COMBINED);
    }
    let combined: Vec<Assignment> = combined.into_iter().map(|(_, a)| a).collect();
    pool.add_all(evaluator, &combined);
}

/// Adds to the best assignments so far, and to those that need the least memory, what recipes can be more than colours.
fn add_more(pool: &mut Pool, evaluator: &mut Evaluator<'_>) {
    let space = evaluator.space;
    let best = pool.list.iter().take(3).chain(pool.leanest()).map(|e| e.assignment.clone());
    let mut more: Vec<Assignment> = vec![];
    for from in best.collect::<Vec<_>>() {
        let mut own = vec![from];
        for axis in 0..space.axes() {
            let added = |a: &Assignment| MORE.iter().filter_map(|&m| with_more(space, a, m, axis)).collect::<Vec<_>>();
            own.extend(own.iter().flat_map(added).collect::<Vec<_>>());
        }
        more.extend(own);
    }
    pool.add_all(evaluator, &more);
}
