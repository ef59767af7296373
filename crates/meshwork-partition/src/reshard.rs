//! From one layout to another at least cost: a search over moves, with a bound on memory.
//!
//! States are the atom lists of the dimensions and the atoms still partial. Edges are the moves of `moves.rs`, weighed
//! by the bytes a device sends. Atoms that stay together on both sides move as one unit, so the search is as large as
//! the difference between the two layouts, not as the mesh.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasher;
use std::rc::Rc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::atoms::{AtomList, Atoms};
use crate::collective::Peers;
use crate::fetch::{reframe_window, window_cost};
use crate::layout::{DimLayout, Layout};
use crate::moves::{Form, Mover, relabel_pairs, reorder_peers};

/// One step of a reshard.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Move {
    /// Split a dimension further.
    Split(usize, AtomList),
    /// Gather the last atoms of a dimension.
    Gather(usize, usize),
    /// Move the last atoms of the first dimension to the second.
    AllToAll(usize, usize, usize),
    /// Let atoms trade places with atoms of the same size.
    Relabel(SmallVec<[AtomList; 4]>),
    /// Let the atoms of a dimension, of any sizes, stand in this order.
    Reorder(usize, AtomList),
    /// Combine over these partial atoms.
    AllReduce(AtomList),
    /// Combine over these partial atoms and split a dimension by them.
    ReduceScatter(usize, AtomList),
}

/// A way from one layout to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// The moves, in order.
    pub moves: Vec<Move>,
    /// Bytes a device sends, with a small charge per collective.
    pub cost: f64,
}

impl Path {
    /// Whether no way can send less than this one, if `least` is a lower bound.
    fn is_least(&self, least: f64) -> bool {
        let bytes = self.cost - PER_COLLECTIVE * self.moves.len() as f64;
        bytes <= least * (1.0 + 1e-12)
    }
}

/// What a collective costs besides its bytes, in bytes: enough to prefer fewer of them.
const PER_COLLECTIVE: f64 = 1e-3;

/// How many states the search may open before it takes the plain way through replication.
const SEARCH_LIMIT: usize = 4000;

/// Up to so many atoms move one by one; more are grouped.
const MOST_SINGLE_ATOMS: usize = 3;

/// On meshes of up to so many atoms every move is tried, not only those that lead on.
const TRY_ALL_ATOMS: usize = 3;

/// More shards than this are not reordered: the pairs are listed one by one.
const MOST_REORDERED: i64 = 1024;

type Lists = SmallVec<[AtomList; 4]>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    lists: Lists,
    partial: AtomList,
}

/// The least cost of each state reached so far, and how it was reached.
type Best = HashMap<State, (f64, Option<(State, Move)>), RandomState>;

/// Remembers paths between layouts.
#[derive(Default)]
pub struct Paths {
    // By hash of the key, so that looking one up copies nothing.
    known: HashMap<u64, SmallVec<[Known; 1]>, RandomState>,
    hasher: RandomState,
}

struct Known {
    from: Layout,
    to: Layout,
    extents: SmallVec<[i64; 4]>,
    path: Rc<Path>,
}

impl Paths {
    /// The cheapest known way from `from` to `to` for a value of `extents`, with cost counted in elements.
    pub fn find(&mut self, from: &Layout, to: &Layout, extents: &[i64], atoms: &Atoms) -> Rc<Path> {
        if from == to {
            return Rc::new(Path { moves: vec![], cost: 0.0 });
        }
        let hash = self.hasher.hash_one((from, to, extents));
        let known = self.known.entry(hash).or_default();
        if let Some(k) = known.iter().find(|k| k.from == *from && k.to == *to && k.extents[..] == *extents) {
            return k.path.clone();
        }
        let path = Rc::new(search(from, to, extents, atoms));
        known.push(Known { from: from.clone(), to: to.clone(), extents: extents.into(), path: path.clone() });
        path
    }

    /// What the cheapest known way costs, in elements.
    pub fn cost(&mut self, from: &Layout, to: &Layout, extents: &[i64], atoms: &Atoms) -> f64 {
        if from == to { 0.0 } else { self.find(from, to, extents, atoms).cost }
    }
}

fn search(from: &Layout, to: &Layout, extents: &[i64], atoms: &Atoms) -> Path {
    let start = State { lists: from.lists(), partial: from.partial.as_ref().map(|p| p.0.clone()).unwrap_or_default() };
    let goal = State { lists: to.lists(), partial: to.partial.as_ref().map(|p| p.0.clone()).unwrap_or_default() };
    if atoms.len() <= TRY_ALL_ATOMS {
        let units = atoms.all().into_iter().map(|a| AtomList::from_iter([a])).collect();
        let all = Search::new(&start, &goal, units, extents, atoms);
        let path = all.run(Bound::Memory, f64::INFINITY).or_else(|| all.run(Bound::None, f64::INFINITY));
        let mut path = path.unwrap_or_else(|| all.through_replication());
        path.cost += frame_cost(from, to, extents, atoms);
        return path;
    }
    let moving = Moving::of(&start, &goal);
    // Whole runs of atoms first: that is quick on any mesh, and most often meets the lower bound.
    let coarse = Search::new(&start, &goal, units(&start, &goal, &moving, Grain::Coarse, atoms), extents, atoms);
    let mut best = coarse.run(Bound::Memory, f64::INFINITY);
    let proven = best.as_ref().is_some_and(|path| path.is_least(coarse.least(&coarse.start)));
    if !proven && moving.count <= 2 * MOST_SINGLE_ATOMS {
        let fine = Search::new(&start, &goal, units(&start, &goal, &moving, Grain::Fine, atoms), extents, atoms);
        let most = best.as_ref().map_or(f64::INFINITY, |path| path.cost);
        best = fine.run(Bound::Memory, most).or(best);
    }
    let best = best.or_else(|| coarse.run(Bound::None, f64::INFINITY));
    let mut path = best.unwrap_or_else(|| coarse.through_replication());
    path.cost += frame_cost(from, to, extents, atoms);
    path
}

/// How atoms are grouped for a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grain {
    /// Atoms that are neighbours on both sides move together.
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

/// Groups atoms that need not be told apart into units: those at the start of a dimension on both sides and, with a
/// coarse grain, those that are neighbours on both sides (or on one and absent from the other).
fn units(start: &State, goal: &State, moving: &Moving, grain: Grain, atoms: &Atoms) -> Vec<AtomList> {
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
    out.extend(atoms.all().into_iter().filter(|a| !seen.contains(a)).map(|a| AtomList::from_iter([a])));
    out
}

/// `list` as unit numbers.
fn in_units(list: &[u8], units: &[AtomList]) -> AtomList {
    let first = |a: &u8| units.iter().position(|u| u[0] == *a);
    list.iter().filter_map(first).map(|i| i as u8).collect()
}

/// Elements sent to change frames where the atoms of a dimension are the same on both sides.
fn frame_cost(from: &Layout, to: &Layout, extents: &[i64], atoms: &Atoms) -> f64 {
    let mut cost = 0.0;
    for (d, (a, b)) in from.dims.iter().zip(&to.dims).enumerate() {
        if a.atoms == b.atoms && a != b {
            let others: i64 = from.dims.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, l)| l.block).product();
            let window = reframe_window(a, b, extents[d]);
            cost += window_cost(a.block, atoms.product(&a.atoms), &window) * others as f64 + PER_COLLECTIVE;
        }
    }
    cost
}

// All lists inside the search are lists of unit numbers.
struct Search<'a> {
    start: State,
    goal: State,
    units: Vec<AtomList>,
    sizes: Vec<i64>,
    extents: &'a [i64],
    atoms: &'a Atoms,
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
    fn new(start: &State, goal: &State, units: Vec<AtomList>, extents: &'a [i64], atoms: &'a Atoms) -> Search<'a> {
        let name = |s: &State| State {
            lists: s.lists.iter().map(|l| in_units(l, &units)).collect(),
            partial: in_units(&s.partial, &units),
        };
        let sizes = units.iter().map(|u| atoms.product(u)).collect();
        Search { start: name(start), goal: name(goal), units, sizes, extents, atoms }
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

    fn product(&self, list: &[u8]) -> i64 {
        list.iter().map(|&u| self.sizes[u as usize]).product()
    }

    fn expand(&self, list: &[u8]) -> AtomList {
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
        }
    }

    fn local_elements(&self, state: &State) -> f64 {
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

    /// All moves worth trying from `state`.
    fn steps(&self, state: &State) -> Vec<(Move, State, f64)> {
        let mut out = vec![];
        let elements = self.local_elements(state);
        let used = |a: u8| state.partial.contains(&a) || state.lists.iter().any(|l| l.contains(&a));
        let wanted = |a: u8| self.goal.lists.iter().any(|l| l.contains(&a));
        self.reductions(state, elements, &mut out);
        for d in 0..state.lists.len() {
            for list in self.splits(used, wanted) {
                let mut next = state.clone();
                next.lists[d].extend(list.iter().copied());
                if self.tries_all()
                    || self.product(&next.lists[d]) <= self.extents[d].max(self.product(&self.goal.lists[d]))
                {
                    out.push((Move::Split(d, list), next, 0.0));
                }
            }
            for count in 1..=state.lists[d].len() {
                let tail: AtomList = state.lists[d][state.lists[d].len() - count..].into();
                let size = self.product(&tail) as f64;
                let mut next = state.clone();
                next.lists[d].truncate(state.lists[d].len() - count);
                out.push((Move::Gather(d, count), next.clone(), (size - 1.0) * elements + PER_COLLECTIVE));
                for to in (0..state.lists.len()).filter(|&to| to != d) {
                    let mut moved = next.clone();
                    moved.lists[to].extend(tail.iter().copied());
                    let padded = elements * self.padding(&state.lists, &moved.lists, to);
                    let weight = (size - 1.0) / size * padded + PER_COLLECTIVE;
                    out.push((Move::AllToAll(d, to, count), moved, weight));
                }
            }
        }
        if state.partial.is_empty() {
            for lists in self.relabels(state) {
                let expanded: Lists = lists.iter().map(|l| self.expand(l)).collect();
                let pairs = relabel_pairs(&self.layout_of(&state.lists), &expanded, self.atoms);
                let share = Peers::Relabel(pairs).sending_share(self.atoms);
                let next = State { lists: lists.clone(), partial: AtomList::new() };
                out.push((Move::Relabel(lists), next, share * elements + PER_COLLECTIVE));
            }
            for (d, list) in self.reorders(state) {
                let (from, to) = (self.expand(&state.lists[d]), self.expand(&list));
                let share = reorder_peers(&from, &to, self.atoms).sending_share(self.atoms);
                let mut next = state.clone();
                next.lists[d] = list.clone();
                out.push((Move::Reorder(d, list), next, share * elements + PER_COLLECTIVE));
            }
        }
        out
    }

    /// How much longer dimension `d` gets by padding when it is cut from `from` into `to`.
    fn padding(&self, from: &Lists, to: &Lists, d: usize) -> f64 {
        let (p, q) = (self.product(&from[d]), self.product(&to[d]));
        let block = |parts: i64| (self.extents[d] + parts - 1) / parts;
        if block(p) == 0 { 1.0 } else { (block(q) * (q / p)) as f64 / block(p) as f64 }
    }

    fn tries_all(&self) -> bool {
        self.units.len() <= TRY_ALL_ATOMS
    }

    /// Units to split by: the next free ones of the goal, or any free ones that are wanted elsewhere, because splitting
    /// early makes later moves smaller.
    fn splits(&self, used: impl Fn(u8) -> bool, wanted: impl Fn(u8) -> bool) -> Vec<AtomList> {
        match self.tries_all() {
            true => (0..self.units.len() as u8).filter(|&u| !used(u)).map(|u| AtomList::from_iter([u])).collect(),
            false => self.runs(|a| !used(a) && wanted(a)),
        }
    }

    /// Other orders of units of different sizes within a dimension.
    fn reorders(&self, state: &State) -> Vec<(usize, AtomList)> {
        let mut out = vec![];
        for (d, list) in state.lists.iter().enumerate() {
            let size = |u: &u8| self.sizes[*u as usize];
            if list.iter().all(|u| size(u) == size(&list[0])) || self.product(list) > MOST_REORDERED {
                continue;
            }
            if self.tries_all() {
                out.extend(orders(list).into_iter().filter(|o| o != list).map(|o| (d, o)));
            } else {
                let sorted = self.goal_first(list, d);
                if sorted != *list {
                    out.push((d, sorted));
                }
            }
        }
        out
    }

    /// What the goal keeps in dimension `d` first, in the goal's order, then the rest.
    fn goal_first(&self, list: &AtomList, d: usize) -> AtomList {
        let mut sorted = list.clone();
        let goal = &self.goal.lists[d];
        sorted.sort_by_key(|a| goal.iter().position(|g| g == a).unwrap_or(usize::MAX));
        sorted
    }

    /// All placements with the same sizes as `state` has, slot by slot.
    fn all_relabels(&self, state: &State) -> Vec<Lists> {
        let mut out: Vec<Lists> = vec![state.lists.iter().map(|_| AtomList::new()).collect()];
        for (d, list) in state.lists.iter().enumerate() {
            for &slot in list {
                let mut longer = vec![];
                for lists in &out {
                    for unit in 0..self.units.len() as u8 {
                        let same_size = self.sizes[unit as usize] == self.sizes[slot as usize];
                        if same_size && !lists.iter().any(|l| l.contains(&unit)) {
                            let mut more = lists.clone();
                            more[d].push(unit);
                            longer.push(more);
                        }
                    }
                }
                out = longer;
            }
        }
        out.retain(|lists| *lists != state.lists);
        out
    }

    fn layout_of(&self, lists: &Lists) -> Layout {
        let lists: Lists = lists.iter().map(|l| self.expand(l)).collect();
        Layout::ordinary(self.extents, &lists, self.atoms)
    }

    fn reductions(&self, state: &State, elements: f64, out: &mut Vec<(Move, State, f64)>) {
        let todo: AtomList = state.partial.iter().copied().filter(|a| !self.goal.partial.contains(a)).collect();
        if todo.is_empty() {
            return;
        }
        let reduce = |list: &AtomList, next: &mut State| next.partial.retain(|a| !list.contains(a));
        let size = self.product(&todo) as f64;
        let mut next = state.clone();
        reduce(&todo, &mut next);
        out.push((Move::AllReduce(todo.clone()), next, 2.0 * (size - 1.0) / size * elements + PER_COLLECTIVE));
        for (d, goal) in self.goal.lists.iter().enumerate() {
            // The atoms that the goal wants next in this dimension, as far as they are partial; in goal order.
            let have = &state.lists[d];
            if !goal.starts_with(have) {
                continue;
            }
            let list: AtomList = goal[have.len()..].iter().copied().take_while(|a| todo.contains(a)).collect();
            if !list.is_empty() {
                let size = self.product(&list) as f64;
                let mut next = state.clone();
                reduce(&list, &mut next);
                next.lists[d].extend(list.iter().copied());
                let padded = elements * self.padding(&state.lists, &next.lists, d);
                out.push((Move::ReduceScatter(d, list), next, (size - 1.0) / size * padded + PER_COLLECTIVE));
            }
        }
    }

    /// Runs of neighbours in the goal for which `take` holds, and all parts of them.
    fn runs(&self, take: impl Fn(u8) -> bool) -> Vec<AtomList> {
        let mut out = vec![];
        for list in &self.goal.lists {
            for from in 0..list.len() {
                let run = list[from..].iter().take_while(|&&a| take(a)).count();
                out.extend((1..=run).map(|length| AtomList::from_slice(&list[from..from + length])));
            }
        }
        out
    }

    /// Placements with the same number of shards per dimension that lead on: the goal itself, the goal's dimensions
    /// one by one, and orders that bring atoms which must leave to the end.
    fn relabels(&self, state: &State) -> Vec<Lists> {
        if self.tries_all() {
            return self.all_relabels(state);
        }
        let mut out: Vec<Lists> = vec![];
        let fits = |a: &AtomList, b: &AtomList| {
            a.len() == b.len() && a.iter().zip(b).all(|(&x, &y)| self.sizes[x as usize] == self.sizes[y as usize])
        };
        let mut offer = |lists: Lists| {
            let mut all: Vec<u8> = lists.iter().flatten().copied().collect();
            all.sort_unstable();
            let distinct = all.windows(2).all(|w| w[0] != w[1]);
            if distinct && lists != state.lists && !out.contains(&lists) {
                out.push(lists);
            }
        };
        // As many dimensions of the goal as fit, the others with what is left in order.
        let mut lists = state.lists.clone();
        let mut taken: Vec<u8> = vec![];
        for (d, goal) in self.goal.lists.iter().enumerate() {
            if fits(&state.lists[d], goal) {
                lists[d] = goal.clone();
                taken.extend(goal.iter().copied());
            }
        }
        for (d, goal) in self.goal.lists.iter().enumerate() {
            if !fits(&state.lists[d], goal) {
                let size_of = |a: u8| self.sizes[a as usize];
                let mut free: Vec<u8> = state.lists[d].iter().copied().filter(|a| !taken.contains(a)).collect();
                for &a in self.start.lists.iter().chain(&self.goal.lists).flatten() {
                    if !taken.contains(&a) && !free.contains(&a) {
                        free.push(a);
                    }
                }
                let list: AtomList = state.lists[d]
                    .iter()
                    .filter_map(|&a| {
                        let i = free.iter().position(|&f| size_of(f) == size_of(a))?;
                        Some(free.remove(i))
                    })
                    .collect();
                taken.extend(list.iter().copied());
                lists[d] = list;
            }
        }
        if lists.iter().zip(&state.lists).all(|(a, b)| fits(a, b)) {
            offer(lists);
        }
        let sorted: Lists = state.lists.iter().enumerate().map(|(d, list)| self.goal_first(list, d)).collect();
        if sorted.iter().zip(&state.lists).all(|(a, b)| fits(a, b)) {
            offer(sorted);
        }
        out
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
            let weight = 2.0 * self.local_elements(&state);
            apply(Move::AllReduce(todo), &mut state, weight, next);
        }
        for d in 0..state.lists.len() {
            let same = state.lists[d].iter().zip(&self.goal.lists[d]).take_while(|(a, b)| a == b).count();
            let extra = state.lists[d].len() - same;
            if extra > 0 {
                let mut next = state.clone();
                next.lists[d].truncate(same);
                let weight = self.local_elements(&next);
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

/// All orders of the units of `list`.
fn orders(list: &[u8]) -> Vec<AtomList> {
    let mut out = vec![AtomList::new()];
    for _ in list {
        let longer = out.iter().flat_map(|o| {
            list.iter().filter(|u| !o.contains(u)).map(|&u| o.iter().copied().chain([u]).collect::<AtomList>())
        });
        out = longer.collect();
    }
    out
}

impl Mover<'_> {
    /// Brings `form` into layout `to`.
    pub fn reshard(&mut self, paths: &mut Paths, form: Form, to: &Layout, extents: &[i64]) -> Form {
        let path = paths.find(&form.layout, to, extents, self.e.atoms);
        let mut form = form;
        for step in &path.moves {
            form = match step {
                Move::Split(d, list) => {
                    let target = &to.dims[*d];
                    if !form.layout.dims[*d].is_split() && target.atoms == *list {
                        self.split_whole(form, *d, target, extents[*d])
                    } else {
                        self.split(form, extents, *d, list)
                    }
                }
                Move::Gather(d, count) => self.all_gather(form, extents, *d, *count),
                Move::AllToAll(from, target, count) => self.all_to_all(form, extents, *from, *target, *count),
                Move::Relabel(lists) => self.relabel(form, lists),
                Move::Reorder(d, list) => self.reorder(form, *d, list),
                Move::AllReduce(list) => self.all_reduce(form, list),
                Move::ReduceScatter(d, list) => self.reduce_scatter(form, extents, *d, list),
            };
        }
        for (d, target) in to.dims.iter().enumerate() {
            form = self.reframe(form, extents, d, target);
        }
        form
    }

    /// Splits a whole dimension straight into the frame `target`.
    fn split_whole(&mut self, form: Form, dim: usize, target: &DimLayout, n: i64) -> Form {
        let Form { value, mut layout } = form;
        let line = target.block * self.e.atoms.product(&target.atoms);
        let value = self.e.pad(value, dim, target.offset, line - target.offset - n);
        let start = self.e.shard_offset(&target.atoms, target.block, 0);
        let value = self.e.dynamic_slice(value, dim, start, target.block);
        layout.dims[dim] = target.clone();
        Form { value, layout }
    }
}

#[cfg(test)]
mod tests;
