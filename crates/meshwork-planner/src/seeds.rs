//! Where a search starts: the recipes of the field, derived from the structure of the program.
//!
//! A recipe for one axis is a set of colours, no two of which are dimensions of one value: then the axis can split all of them at
//! once. The batch alone is data parallelism; the hidden dimension, the heads and the vocabulary together are Megatron's columns
//! and rows; a spatial or sequence dimension is spatial or context parallelism; the experts are expert parallelism. Each
//! recipe may also keep the rest of the state split over the axis (FSDP), or split products along another dimension (sequence
//! parallelism). Recipes of several axes are combined.

use std::collections::BTreeSet;

use crate::colours::Census;
use crate::site::SiteKind;
use crate::space::{Assignment, Choice, Space};

/// Colours that recipes start with.
const COLOURS: usize = 8;

/// What one axis does.
#[derive(Clone, Debug)]
struct Recipe {
    colours: BTreeSet<usize>,
    state: State,
    products: Products,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    AsFound,
    Split,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Products {
    AsFound,
    Split,
}

/// For each axis the assignments in which only it does something; the first does nothing.
pub fn single_axis(space: &Space, census: &Census) -> Vec<Vec<Assignment>> {
    let sets = colour_sets(space, census);
    let recipes = sets.iter().flat_map(|colours| {
        let all = [
            (State::AsFound, Products::AsFound),
            (State::Split, Products::AsFound),
            (State::AsFound, Products::Split),
            (State::Split, Products::Split),
        ];
        all.map(|(state, products)| Recipe { colours: colours.clone(), state, products })
    });
    let nothing = Recipe { colours: BTreeSet::new(), state: State::AsFound, products: Products::AsFound };
    let only_state = Recipe { state: State::Split, ..nothing.clone() };
    let recipes: Vec<Recipe> = [nothing, only_state].into_iter().chain(recipes).collect();
    let of_axis = |axis: usize| {
        let mut out: Vec<Assignment> = vec![];
        for recipe in &recipes {
            let mut assignment = space.nothing();
            apply(space, recipe, axis, &mut assignment);
            if space.fits(&assignment) && !out.contains(&assignment) {
                out.push(assignment);
            }
        }
        out
    };
    (0..space.axes()).map(of_axis).collect()
}

/// Both, axis by axis; what splits a dimension too often stays out.
pub fn combine(space: &Space, a: &[Choice], b: &[Choice]) -> Option<Assignment> {
    let nothing = space.nothing();
    let both: Assignment = (0..a.len()).map(|i| if a[i] == nothing[i] { b[i] } else { a[i] }).collect();
    space.fits(&both).then_some(both)
}

/// The colours of arguments, those with the most arithmetic first; of each as many others as can be split with it.
pub fn colour_sets(space: &Space, census: &Census) -> Vec<BTreeSet<usize>> {
    let colours = ranked_colours(space, census);
    let apart = |a: usize, b: usize| !census.together.contains(&(a.min(b), a.max(b)));
    let mut sets: Vec<BTreeSet<usize>> = vec![];
    for &first in colours.iter().take(COLOURS) {
        let mut set = BTreeSet::from([first]);
        for &other in &colours {
            if !set.contains(&other) && set.iter().all(|&c| apart(c, other)) {
                set.insert(other);
            }
        }
        let alone = BTreeSet::from([first]);
        for set in [set, alone] {
            if !sets.contains(&set) {
                sets.push(set);
            }
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
    colours.sort_by(|&a, &b| weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(&b)));
    colours
}

fn apply(space: &Space, recipe: &Recipe, axis: usize, assignment: &mut [Choice]) {
    for (s, site) in space.sites.iter().enumerate() {
        let allowed = |d: usize| space.domains[s][axis].contains(&Choice::Dim(d as u8));
        let dims = || (0..site.dims().len()).filter(|&d| allowed(d));
        let coloured = dims().find(|&d| recipe.colours.contains(&site.colours[d]));
        let dim = match site.kind {
            SiteKind::Input => coloured,
            SiteKind::State if recipe.state == State::Split => {
                coloured.or_else(|| dims().max_by_key(|&d| (site.dims()[d], std::cmp::Reverse(d))))
            }
            SiteKind::State => coloured,
            SiteKind::Product if recipe.products == Products::Split => {
                // A product that has none of the colours is split along the dimension before its last.
                let has_one = site.colours.iter().any(|c| recipe.colours.contains(c));
                dims().rfind(|&d| !has_one && d + 1 < site.dims().len())
            }
            SiteKind::Product => None,
        };
        if let Some(d) = dim {
            assignment[s * space.axes() + axis] = Choice::Dim(d as u8);
        }
    }
}
