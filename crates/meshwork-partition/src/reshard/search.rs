//! The search for a way between two layouts.
//!
//! States are the atom lists of the dimensions and the atoms still partial. Edges are the moves of `steps.rs`, weighed by
//! the bytes a device sends and how slow the links are. Atoms that stay together on both sides move as one unit, so the search is as large as the
//! difference between the two layouts, not as the mesh.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use meshwork_ir::hash::HashMap;

use super::{Move, PER_COLLECTIVE, Path};
use crate::layout::Layout;
use crate::layout::atoms::{AtomList, Atoms};

/// How many states the search may open before it takes the plain way through replication.
const SEARCH_LIMIT: usize = 4000;

/// Up to this many atoms move one by one; more are grouped.
const MOST_SINGLE_ATOMS: usize = 3;

/// On meshes of up to this many atoms every move is tried, not only those that lead on.
const TRY_ALL_ATOMS: usize = 3;

pub(super) type Lists = SmallVec<[AtomList; 4]>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct State {
    pub(super) lists: Lists,
    pub(super) partial: AtomList,
}

/// The least cost of each state reached so far, and how it was reached.
type Best = HashMap<State, (f64, Option<(State, Move)>)>;

/// The cheapest way from `from` to `to` in ordinary frames, by moves that leave the `manual` atoms alone.
pub(super) fn find(from: &Layout, to: &Layout, extents: &[i64], manual: &[u8], atoms: &Atoms) -> Path {
    let movable = atoms.without(manual);
    let start = State { lists: from.lists(), partial: from.partial.as_ref().map(|p| p.0.clone()).unwrap_or_default() };
    let goal = State { lists: to.lists(), partial: to.partial.as_ref().map(|p| p.0.clone()).unwrap_or_default() };
    let context = Context { extents, manual, atoms };
    if movable.len() <= TRY_ALL_ATOMS {
        let units = movable.into_iter().map(|a| AtomList::from_iter([a])).collect();
        let all = Search::new(&start, &goal, units, context);
        let path = all.run(Bound::Memory, f64::INFINITY).or_else(|| all.run(Bound::None, f64::INFINITY));
        return path.unwrap_or_else(|| all.through_replication());
    }
    let moving = Moving::of(&start, &goal);
    // Whole runs of atoms first: that is quick on any mesh, and most often meets the lower bound.
    let coarse = Search::new(&start, &goal, units(&start, &goal, &moving, Grain::Coarse, &movable), context);
    let mut best = coarse.run(Bound::Memory, f64::INFINITY);
    let proven = best.as_ref().is_some_and(|path| path.is_least(coarse.least(&coarse.start)));
    if !proven && moving.count <= 2 * MOST_SINGLE_ATOMS {
        let fine = Search::new(&start, &goal, units(&start, &goal, &moving, Grain::Fine, &movable), context);
        let most = best.as_ref().map_or(f64::INFINITY, |path| path.cost);
        best = fine.run(Bound::Memory, most).or(best);
    }
    let best = best.or_else(|| coarse.run(Bound::None, f64::INFINITY));
    best.unwrap_or_else(|| coarse.through_replication())
}

/// How atoms are grouped for a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Atoms that are neighbors on both sides move together.
    Coarse,
    /// Only atoms that do not move are grouped.
    Fine,
}

/// Whether a search keeps to the bound on memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    Memory,
    None,
}

/// Which atoms stand still.
struct Moving {
    fixed: Vec<u8>,
    count: usize,
}

impl Moving {
    fn of(start: &State, goal: &State) -> Moving {
        let same = |d: usize| start.lists[d].iter().zip(&goal.lists[d]).take_while(|(a, b)| a == b).count();
        let fixed: Vec<u8> = (0..start.lists.len()).flat_map(|d| start.lists[d][..same(d)].to_vec()).collect();
        let count = start.lists.iter().chain(&goal.lists).flatten().filter(|a| !fixed.contains(a)).count();
        Moving { fixed, count }
    }
}

/// Groups atoms that need not be distinguished into units: those at the start of a dimension on both sides and, with a
/// coarse grain, those that are neighbors on both sides (or on one and absent from the other).
fn units(start: &State, goal: &State, moving: &Moving, grain: Grain, movable: &[u8]) -> Vec<AtomList> {
    let fixed = &moving.fixed;
    let follows = |s: &State, a: u8, b: u8| -> Option<bool> {
        let list = s.lists.iter().find(|l| l.contains(&a) || l.contains(&b));
        match list {
            Some(l) => Some(l.windows(2).any(|w| w == [a, b])),
            None => (s.partial.contains(&a) == s.partial.contains(&b)).then_some(true),
        }
    };
    let mut out: Vec<AtomList> = vec![];
    let mut seen: Vec<u8> = vec![];
    let lists = start.lists.iter().chain(&goal.lists);
    for list in lists {
        for &a in list {
            if seen.contains(&a) {
                continue;
            }
            seen.push(a);
            let joins = |b: u8| {
                (grain == Grain::Coarse || (fixed.contains(&a) && fixed.contains(&b)))
                    && follows(start, b, a) == Some(true)
                    && follows(goal, b, a) == Some(true)
            };
            match out.last_mut() {
                Some(unit) if unit.last().is_some_and(|&b| joins(b)) => unit.push(a),
                _ => out.push([a].into_iter().collect()),
            }
        }
    }
    out.extend(movable.iter().filter(|a| !seen.contains(a)).map(|&a| AtomList::from_iter([a])));
    out
}

/// `list` as unit numbers.
fn in_units(list: &[u8], units: &[AtomList]) -> AtomList {
    let first = |a: &u8| units.iter().position(|u| u[0] == *a);
    list.iter().filter_map(first).map(|i| i as u8).collect()
}

// What a search is about besides the two states.
#[derive(Clone, Copy)]
struct Context<'a> {
    extents: &'a [i64],
    manual: &'a [u8],
    atoms: &'a Atoms,
}

// All lists inside the search are lists of unit numbers.
pub(super) struct Search<'a> {
    pub(super) start: State,
    pub(super) goal: State,
    pub(super) units: Vec<AtomList>,
    pub(super) sizes: Vec<i64>,
    pub(super) extents: &'a [i64],
    pub(super) manual: &'a [u8],
    pub(super) atoms: &'a Atoms,
}

// A state that was reached: what it took, and what it takes at least from there to the goal.
struct Open {
    cost: f64,
    rest: f64,
    state: State,
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Open {}
impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest first: cheaper is greater, then nearer to the goal. Ties go by state, so that runs
        // agree.
        let by_cost = (other.cost + other.rest).total_cmp(&(self.cost + self.rest));
        by_cost
            .then_with(|| other.rest.total_cmp(&self.rest))
            .then_with(|| (&other.state.lists, &other.state.partial).cmp(&(&self.state.lists, &self.state.partial)))
    }
}

impl<'a> Search<'a> {
    /// A search from `start` to `goal`, given in atoms, by moves of whole `units`.
    fn new(start: &State, goal: &State, units: Vec<AtomList>, context: Context<'a>) -> Search<'a> {
        let Context { extents, manual, atoms } = context;
        let name = |s: &State| State {
            lists: s.lists.iter().map(|l| in_units(l, &units)).collect(),
            partial: in_units(&s.partial, &units),
        };
        let sizes = units.iter().map(|u| atoms.product(u)).collect();
        Search { start: name(start), goal: name(goal), units, sizes, extents, manual, atoms }
    }

    /// A lower bound on what it takes from `state` to the goal: elements that a device lacks, on average.
    ///
    /// Of a value that is not partial, a device has at most what its block and the goal's share. Of a partial one, each
    /// element takes a message for every partial value but one, and one more for every copy of the sum but one.
    fn least(&self, state: &State) -> f64 {
        let real = |lists: &Lists| -> f64 {
            lists.iter().zip(self.extents).map(|(l, &n)| n as f64 / self.product(l) as f64).product()
        };
        let wanted = real(&self.goal.lists);
        let open: AtomList = state.partial.iter().copied().filter(|a| !self.goal.partial.contains(a)).collect();
        let elements = if open.is_empty() {
            (wanted - self.shared(state)).max(0.0)
        } else {
            let used = |a: u8| state.partial.contains(&a) || state.lists.iter().any(|l| l.contains(&a));
            let may_split = |a: u8| self.tries_all() || self.goal.lists.iter().any(|l| l.contains(&a));
            let free: AtomList = (0..self.units.len() as u8).filter(|&a| !used(a) && may_split(a)).collect();
            let parts = self.product(&open) as f64;
            let share = real(&state.lists) / (parts * self.product(&free) as f64);
            (share * (parts - 1.0) + wanted - share).max(0.0)
        };
        if elements > 0.0 { elements + PER_COLLECTIVE } else { 0.0 }
    }

    /// The most elements, on average, that a device's block has in common with its block of the goal.
    fn shared(&self, state: &State) -> f64 {
        let (mut shared, mut chance) = (1.0, 1.0f64);
        for ((a, b), &n) in state.lists.iter().zip(&self.goal.lists).zip(self.extents) {
            let (p, q) = (self.product(a), self.product(b));
            shared *= ((n + p - 1) / p).min((n + q - 1) / q) as f64;
            // Where two other atoms of one size cut the line at the same places, only equal indices meet.
            if let Some((&x, &y)) = a.iter().zip(b).find(|(x, y)| x != y)
                && self.sizes[x as usize] == self.sizes[y as usize]
                && n % p == 0
                && n % q == 0
            {
                chance = chance.min(1.0 / self.sizes[x as usize] as f64);
            }
        }
        shared * chance
    }

    pub(super) fn product(&self, list: &[u8]) -> i64 {
        list.iter().map(|&u| self.sizes[u as usize]).product()
    }

    /// How many times longer a byte takes along these units than over the fastest links.
    pub(super) fn slowness(&self, list: &[u8]) -> f64 {
        list.iter().map(|&u| self.atoms.slowness(&self.units[u as usize])).fold(1.0, f64::max)
    }

    pub(super) fn expand(&self, list: &[u8]) -> AtomList {
        list.iter().flat_map(|&u| self.units[u as usize].iter().copied()).collect()
    }

    /// A move in atoms, made from `state`.
    fn in_atoms(&self, state: &State, step: &Move) -> Move {
        let tail = |d: usize, count: usize| self.expand(&state.lists[d][state.lists[d].len() - count..]).len();
        match step {
            Move::Split(d, list) => Move::Split(*d, self.expand(list)),
            Move::Gather(d, count) => Move::Gather(*d, tail(*d, *count)),
            Move::AllToAll(from, to, count) => Move::AllToAll(*from, *to, tail(*from, *count)),
            Move::Relabel(lists) => Move::Relabel(lists.iter().map(|l| self.expand(l)).collect()),
            Move::Reorder(d, list) => Move::Reorder(*d, self.expand(list)),
            Move::AllReduce(list) => Move::AllReduce(self.expand(list)),
            Move::ReduceScatter(d, list) => Move::ReduceScatter(*d, self.expand(list)),
            // These stand before and after a search.
            Move::Mask(..) | Move::Spread(..) => step.clone(),
        }
    }

    pub(super) fn local_elements(&self, state: &State) -> f64 {
        let dims = state.lists.iter().zip(self.extents);
        dims.map(|(l, &n)| {
            let p = self.product(l);
            ((n + p - 1) / p) as f64
        })
        .product()
    }

    /// The cheapest way that costs less than `most`: the state that promises least is looked at first.
    fn run(&self, bound: Bound, most: f64) -> Option<Path> {
        let (first, last) = (self.local_elements(&self.start), self.local_elements(&self.goal));
        let room = if bound == Bound::Memory { first.max(last) + first.min(last) } else { f64::INFINITY };
        let mut best = Best::default();
        let mut heap = BinaryHeap::new();
        best.insert(self.start.clone(), (0.0, None));
        heap.push(Open { cost: 0.0, rest: self.least(&self.start), state: self.start.clone() });
        let mut opened = 0;
        while let Some(Open { cost, state, .. }) = heap.pop() {
            if best.get(&state).is_some_and(|b| b.0 < cost) {
                continue;
            }
            if state == self.goal {
                let mut moves = vec![];
                let mut at = state;
                while let Some((_, Some((previous, step)))) = best.get(&at) {
                    moves.push(self.in_atoms(previous, step));
                    at = previous.clone();
                }
                moves.reverse();
                return Some(Path { moves, cost });
            }
            opened += 1;
            if opened > SEARCH_LIMIT {
                return None;
            }
            for (step, next, weight) in self.steps(&state) {
                if self.local_elements(&next) > room {
                    continue;
                }
                let total = cost + weight;
                if best.get(&next).is_none_or(|b| total < b.0) {
                    let rest = self.least(&next);
                    if total + rest < most {
                        best.insert(next.clone(), (total, Some((state.clone(), step))));
                        heap.push(Open { cost: total, rest, state: next });
                    }
                }
            }
        }
        None
    }

    pub(super) fn tries_all(&self) -> bool {
        self.units.len() <= TRY_ALL_ATOMS
    }

    /// Always possible: gather what differs, then split.
    fn through_replication(&self) -> Path {
        let mut moves = vec![];
        let mut cost = 0.0;
        let mut state = self.start.clone();
        let mut apply = |step: Move, state: &mut State, weight: f64, next: State| {
            moves.push(self.in_atoms(state, &step));
            cost += weight;
            *state = next;
        };
        let todo: AtomList = state.partial.iter().copied().filter(|a| !self.goal.partial.contains(a)).collect();
        if !todo.is_empty() {
            let mut next = state.clone();
            next.partial.retain(|a| !todo.contains(a));
            let weight = 2.0 * self.local_elements(&state) * self.slowness(&todo);
            apply(Move::AllReduce(todo), &mut state, weight, next);
        }
        for d in 0..state.lists.len() {
            let same = state.lists[d].iter().zip(&self.goal.lists[d]).take_while(|(a, b)| a == b).count();
            let extra = state.lists[d].len() - same;
            if extra > 0 {
                let mut next = state.clone();
                next.lists[d].truncate(same);
                let weight = self.local_elements(&next) * self.slowness(&state.lists[d][same..]);
                apply(Move::Gather(d, extra), &mut state, weight, next);
            }
        }
        for d in 0..state.lists.len() {
            let rest: AtomList = self.goal.lists[d][state.lists[d].len()..].into();
            if !rest.is_empty() {
                let mut next = state.clone();
                next.lists[d] = self.goal.lists[d].clone();
                apply(Move::Split(d, rest), &mut state, 0.0, next);
            }
        }
        Path { moves, cost }
    }
}
