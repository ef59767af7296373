//! Where a search starts: the recipes of the field, derived from the structure of the program.
//!
//! A recipe for one axis is a set of colours, no two of which are dimensions of one value: then the axis can split all of them at
//! once. The batch alone is data parallelism; the hidden dimension, the heads and the vocabulary together are Megatron's columns
//! and rows; a spatial or sequence dimension is spatial or context parallelism; the experts are expert parallelism. Each
//! recipe may also keep the rest of the state split over the axis (FSDP), or split products along another dimension (sequence
//! parallelism). Recipes of several axes are combined.

use std::collections::BTreeSet;

use meshwork_mesh::sort_by;

use crate::colours::Census;
use crate::site::{Site, SiteKind};
use crate::space::{Assignment, Choice, Space};

/// Colours that recipes start with.
const COLOURS: usize = 8;

/// What becomes of the state that the colours of a recipe leave whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// As propagation finds.
    AsFound,
    /// Split along the dimension that is largest as other axes leave it, unless it is small: FSDP.
    Split,
    /// Split, however small.
    AllSplit,
}

/// The share of all state that the smallest sites have together: exchanging their parts takes longer than splitting them saves.
const SMALL: f64 = 0.01;

/// What becomes of products that have none of the colours of a recipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Products {
    /// As propagation finds.
    AsFound,
    /// Split along the dimension before their last: sequence parallelism.
    Split,
}

/// What is added to the recipes of colours.
pub const MORE: [(State, Products); 3] =
    [(State::Split, Products::AsFound), (State::AsFound, Products::Split), (State::Split, Products::Split)];

/// The assignments in which only `axis` does something: each of `sets` split over it.
pub fn recipes(space: &Space, sets: &[BTreeSet<usize>], axis: usize) -> Vec<Assignment> {
    let mut out: Vec<Assignment> = vec![];
    for colours in sets {
        let mut assignment = space.nothing();
        apply(space, colours, (State::AsFound, Products::AsFound), axis, &space.nothing(), &mut assignment);
        if space.fits(&assignment) && !out.contains(&assignment) {
            out.push(assignment);
        }
    }
    out
}

/// `from`, and `more` over `axis` for what that does not split yet.
pub fn with_more(space: &Space, from: &[Choice], more: (State, Products), axis: usize) -> Option<Assignment> {
    let is_on = |s: usize| matches!(from[s * space.axes() + axis], Choice::Dim(_));
    let sites = space.sites.iter().enumerate().filter(|(s, _)| is_on(*s));
    let split = sites.filter_map(|(s, site)| match from[s * space.axes() + axis] {
        Choice::Dim(d) => Some(site.colours[d as usize]),
        _ => None,
    });
    let mut out = space.nothing();
    apply(space, &split.collect(), more, axis, from, &mut out);
    combine(space, from, &out).filter(|both| both != from)
}

/// Both, axis by axis; what splits a dimension too often stays out.
pub fn combine(space: &Space, a: &[Choice], b: &[Choice]) -> Option<Assignment> {
    let nothing = space.nothing();
    let both: Assignment = (0..a.len()).map(|i| if a[i] == nothing[i] { b[i] } else { a[i] }).collect();
    space.fits(&both).then_some(both)
}

/// Sets of colours of arguments, those with the most arithmetic first: of each colour as many others as can be split with it; then
/// single colours.
pub fn colour_sets(space: &Space, census: &Census) -> Vec<BTreeSet<usize>> {
    let colours = ranked_colours(space, census);
    let apart = |a: usize, b: usize| !census.together.contains(&(a.min(b), a.max(b)));
    let largest = |first: usize| {
        let mut set = BTreeSet::from([first]);
        for &other in &colours {
            if set.iter().all(|&c| c != other && apart(c, other)) {
                set.insert(other);
            }
        }
        set
    };
    let few = || colours.iter().take(COLOURS);
    let mut sets: Vec<BTreeSet<usize>> = vec![];
    for set in few().map(|&c| largest(c)).chain(few().map(|&c| BTreeSet::from([c]))) {
        if !sets.contains(&set) {
            sets.push(set);
        }
    }
    sets
}

/// The colours of arguments, those with the most arithmetic first.
pub fn ranked_colours(space: &Space, census: &Census) -> Vec<usize> {
    let arguments = space.sites.iter().filter(|site| site.kind != SiteKind::Product);
    let used: BTreeSet<usize> = arguments.flat_map(|site| site.colours.iter().copied()).collect();
    let mut colours: Vec<usize> = used.into_iter().collect();
    let weight = |c: usize| census.weights.get(&c).map_or((0.0, 0.0), |w| (w.flops, w.bytes));
    sort_by(&mut colours, |&a, &b| {
        weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(&b))
    });
    colours
}

/// The bytes of the largest site of state that is small.
pub fn small(space: &Space) -> f64 {
    let states = space.sites.iter().filter(|site| site.kind == SiteKind::State);
    let mut bytes: Vec<f64> = states.map(|site| site.bytes).collect();
    sort_by(&mut bytes, f64::total_cmp);
    let most = SMALL * bytes.iter().sum::<f64>();
    let mut sum = 0.0;
    let together = bytes.into_iter().take_while(|own| {
        sum += own;
        sum <= most
    });
    together.last().unwrap_or(0.0)
}

/// Splits `colours`, and what else is said, over `axis`, wherever the other axes leave room for it in `from`.
fn apply(
    space: &Space,
    colours: &BTreeSet<usize>,
    (state, products): (State, Products),
    axis: usize,
    from: &[Choice],
    assignment: &mut [Choice],
) {
    let small = small(space);
    let is_split = |site: &Site| match state {
        State::AsFound => false,
        State::Split => site.bytes > small,
        State::AllSplit => true,
    };
    for (s, site) in space.sites.iter().enumerate() {
        let allowed =
            |d: usize| space.domains[s][axis].contains(&Choice::Dim(d as u8)) && has_room(space, from, s, axis, d);
        let dims = || (0..site.dims().len()).filter(|&d| allowed(d));
        // What the other axes leave of a dimension. One that they split is the second choice: its parts would be gathered out of order.
        let left = |d: usize| {
            let parts = parts(space, from, s, axis, d);
            (site.dims()[d] / parts, parts == 1, std::cmp::Reverse(d))
        };
        let coloured = dims().find(|&d| colours.contains(&site.colours[d]));
        let dim = match site.kind {
            SiteKind::State if is_split(site) => coloured.or_else(|| dims().max_by_key(|&d| left(d))),
            SiteKind::Input | SiteKind::State => coloured,
            SiteKind::Product if products == Products::Split => {
                let has_one = site.colours.iter().any(|c| colours.contains(c));
                dims().rfind(|&d| !has_one && d + 1 < site.dims().len())
            }
            SiteKind::Product => None,
        };
        if let Some(d) = dim {
            assignment[s * space.axes() + axis] = Choice::Dim(d as u8);
        }
    }
}

/// Whether `axis` can split dimension `d` of a site beside the other axes that do.
fn has_room(space: &Space, from: &[Choice], site: usize, axis: usize, d: usize) -> bool {
    let parts = parts(space, from, site, axis, d) * space.size(axis);
    let extent = space.sites[site].dims()[d];
    parts <= extent && (!space.even_only || extent % parts == 0)
}

/// In how many parts the axes other than `axis` split dimension `d` of a site.
fn parts(space: &Space, from: &[Choice], site: usize, axis: usize, d: usize) -> i64 {
    let choices = space.choices(from, site).iter().enumerate();
    let others = choices.filter(|(a, choice)| *a != axis && **choice == Choice::Dim(d as u8));
    others.map(|(a, _)| space.size(a)).product()
}
