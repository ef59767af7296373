//! From one layout to another at least cost, with a bound on memory.
//!
//! `search.rs` finds the path, `steps.rs` lists the moves from a state; here paths are cached and carried out by the
//! moves of `moves.rs`, `fetch.rs` and `parts.rs`.

pub(crate) mod fetch;
pub(crate) mod moves;
mod parts;
mod search;
mod steps;

use std::hash::BuildHasher;
use std::rc::Rc;

use meshwork_ir::Combine;
use meshwork_ir::hash::{HashMap, RandomState};
use smallvec::SmallVec;

use crate::layout::atoms::{AtomList, Atoms};
use crate::layout::{DimLayout, Layout};
use crate::reshard::fetch::{reframe_window, window_cost};
use crate::split::Splitter;
use moves::Form;

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
    /// Become partial over these atoms: only the first device of each group keeps the value.
    Mask(AtomList, Combine),
    /// Become partial over the last atoms of a dimension: each device's block stands in its place.
    Spread(usize, usize, Combine),
}

/// A way from one layout to another.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// The moves, in order.
    pub moves: Vec<Move>,
    /// Elements a device sends, with a small charge per collective; those over slower links count as often as they take
    /// longer.
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

/// Remembers paths between layouts.
#[derive(Default)]
pub struct Paths {
    /// Atoms along which values differ though no layout says so: those that the region being split holds as manual.
    pub manual: AtomList,
    // By hash of the key, so that looking one up copies nothing.
    known: HashMap<u64, SmallVec<[Known; 1]>>,
    hasher: RandomState,
}

struct Known {
    manual: AtomList,
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
        let hash = self.hasher.hash_one((&self.manual, from, to, extents));
        let known = self.known.entry(hash).or_default();
        let same = |k: &&Known| k.manual == self.manual && k.from == *from && k.to == *to && k.extents[..] == *extents;
        if let Some(k) = known.iter().find(same) {
            return k.path.clone();
        }
        let path = Rc::new(search(from, to, extents, &self.manual, atoms));
        let (manual, from, to) = (self.manual.clone(), from.clone(), to.clone());
        known.push(Known { manual, from, to, extents: extents.into(), path: path.clone() });
        path
    }

    /// What the cheapest known way costs, in elements.
    pub fn cost(&mut self, from: &Layout, to: &Layout, extents: &[i64], atoms: &Atoms) -> f64 {
        if from == to { 0.0 } else { self.find(from, to, extents, atoms).cost }
    }
}

/// The cheapest way from `from` to `to` that leaves the `manual` atoms alone, with what it costs to change frames.
fn search(from: &Layout, to: &Layout, extents: &[i64], manual: &[u8], atoms: &Atoms) -> Path {
    let way = parts::way(from, to, extents, atoms);
    let mut path = search::find(&way.from, &way.to, extents, manual, atoms);
    path.moves = [way.before, joined(path.moves), way.after].concat();
    path.cost += frame_cost(&way.from, &way.to, extents, atoms);
    path
}

/// Splits of one dimension that follow each other are one.
fn joined(moves: Vec<Move>) -> Vec<Move> {
    let mut out: Vec<Move> = vec![];
    for step in moves {
        match (out.last_mut(), step) {
            (Some(Move::Split(d, list)), Move::Split(e, more)) if *d == e => list.extend(more),
            (_, step) => out.push(step),
        }
    }
    out
}

/// Elements sent to change frames where the atoms of a dimension are the same on both sides.
fn frame_cost(from: &Layout, to: &Layout, extents: &[i64], atoms: &Atoms) -> f64 {
    let mut cost = 0.0;
    for (d, (a, b)) in from.dims.iter().zip(&to.dims).enumerate() {
        if a.atoms == b.atoms && a != b {
            let others: i64 = from.dims.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, l)| l.block).product();
            let window = reframe_window(a, b, extents[d]);
            let elements = window_cost(a.block, atoms.product(&a.atoms), &window) * others as f64;
            cost += elements * atoms.slowness(&a.atoms) + PER_COLLECTIVE;
        }
    }
    cost
}

impl Splitter<'_> {
    /// Brings `form` into layout `to`.
    pub fn reshard(&mut self, form: Form, to: &Layout, extents: &[i64]) -> Form {
        let path = self.paths.find(&form.layout, to, extents, self.atoms);
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
                Move::Mask(list, combine) => self.mask_parts(form, list, *combine),
                Move::Spread(d, count, combine) => self.spread(form, extents, *d, *count, *combine),
            };
        }
        for (d, target) in to.dims.iter().enumerate() {
            form = self.reframe(form, extents, d, target);
        }
        form
    }

    /// Splits a whole dimension straight into the frame `target`. Only positions that hold elements count, so no more
    /// than a block is filled up on either side, and a single element may stand everywhere.
    fn split_whole(&mut self, form: Form, dim: usize, target: &DimLayout, n: i64) -> Form {
        let Form { value, mut layout } = form;
        let value = if n == 1 {
            let mut dims = self.local.dims(value);
            let along: Vec<i64> = (0..dims.len() as i64).collect();
            dims[dim] = target.block;
            self.local.broadcast(value, &dims, &along)
        } else {
            let behind = target.block * self.atoms.product(&target.atoms) - target.offset - n;
            let low = target.offset.min(target.block);
            let value = self.local.pad(value, dim, low, behind.min(target.block));
            let start = self.local.shard_offset(&target.atoms, target.block, low - target.offset);
            self.local.dynamic_slice(value, dim, start, target.block)
        };
        layout.dims[dim] = target.clone();
        Form { value, layout }
    }
}

#[cfg(test)]
mod tests;
