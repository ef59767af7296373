//! The moves that can be made from a state of the search.

use meshwork_mesh::sort_by_key;

use super::search::{Lists, Search, State};
use super::{Move, PER_COLLECTIVE};
use crate::collective::Peers;
use crate::layout::Layout;
use crate::layout::atoms::AtomList;
use crate::reshard::moves::{relabel_pairs, reorder_peers};

/// More shards than this are not reordered: the pairs are listed one by one.
const MOST_REORDERED: i64 = 1024;

impl Search<'_> {
    /// All moves worth trying from `state`.
    pub(super) fn steps(&self, state: &State) -> Vec<(Move, State, f64)> {
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
                let (size, slow) = (self.product(&tail) as f64, self.slowness(&tail));
                let mut next = state.clone();
                next.lists[d].truncate(state.lists[d].len() - count);
                out.push((Move::Gather(d, count), next.clone(), (size - 1.0) * elements * slow + PER_COLLECTIVE));
                for to in (0..state.lists.len()).filter(|&to| to != d) {
                    let mut moved = next.clone();
                    moved.lists[to].extend(tail.iter().copied());
                    let padded = elements * self.padding(&state.lists, &moved.lists, to);
                    let weight = (size - 1.0) / size * padded * slow + PER_COLLECTIVE;
                    out.push((Move::AllToAll(d, to, count), moved, weight));
                }
            }
        }
        if state.partial.is_empty() {
            for lists in self.relabels(state) {
                let expanded: Lists = lists.iter().map(|l| self.expand(l)).collect();
                let pairs = relabel_pairs(&self.layout_of(&state.lists), &expanded, self.manual, self.atoms);
                let slow = self.atoms.slowness(&pairs.iter().map(|p| p.0).collect::<AtomList>());
                let share = Peers::Relabel(pairs).sending_share(self.atoms);
                let next = State { lists: lists.clone(), partial: AtomList::new() };
                out.push((Move::Relabel(lists), next, share * elements * slow + PER_COLLECTIVE));
            }
            for (d, list) in self.reorders(state) {
                let (from, to) = (self.expand(&state.lists[d]), self.expand(&list));
                let share = reorder_peers(&from, &to, self.atoms).sending_share(self.atoms);
                let mut next = state.clone();
                next.lists[d] = list.clone();
                out.push((
                    Move::Reorder(d, list),
                    next,
                    share * elements * self.atoms.slowness(&from) + PER_COLLECTIVE,
                ));
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

    /// Units to split by: the next free ones of the goal, or any free ones that are wanted elsewhere, because splitting
    /// early makes later moves smaller.
    fn splits(&self, used: impl Fn(u8) -> bool, wanted: impl Fn(u8) -> bool) -> Vec<AtomList> {
        if self.tries_all() {
            (0..self.units.len() as u8).filter(|&u| !used(u)).map(|u| AtomList::from_iter([u])).collect()
        } else {
            self.runs(|a| !used(a) && wanted(a))
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
        sort_by_key(&mut sorted, |a| goal.iter().position(|g| g == a).unwrap_or(usize::MAX));
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
        let (size, slow) = (self.product(&todo) as f64, self.slowness(&todo));
        let mut next = state.clone();
        reduce(&todo, &mut next);
        let weight = 2.0 * (size - 1.0) / size * elements * slow + PER_COLLECTIVE;
        out.push((Move::AllReduce(todo.clone()), next, weight));
        for (d, goal) in self.goal.lists.iter().enumerate() {
            // The atoms that the goal wants next in this dimension, as far as they are partial; in goal order.
            let have = &state.lists[d];
            if !goal.starts_with(have) {
                continue;
            }
            let list: AtomList = goal[have.len()..].iter().copied().take_while(|a| todo.contains(a)).collect();
            if !list.is_empty() {
                let (size, slow) = (self.product(&list) as f64, self.slowness(&list));
                let mut next = state.clone();
                reduce(&list, &mut next);
                next.lists[d].extend(list.iter().copied());
                let padded = elements * self.padding(&state.lists, &next.lists, d);
                let weight = (size - 1.0) / size * padded * slow + PER_COLLECTIVE;
                out.push((Move::ReduceScatter(d, list), next, weight));
            }
        }
    }

    /// Runs of neighbors in the goal for which `take` holds, and all parts of them.
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
