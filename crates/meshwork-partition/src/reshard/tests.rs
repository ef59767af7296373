//! The search against one that tries everything, on meshes of up to eight devices.

use meshwork_mesh::Mesh;
use smallvec::SmallVec;

use super::{Move, PER_COLLECTIVE, Paths};
use crate::collective::Peers;
use crate::layout::Layout;
use crate::layout::atoms::{AtomList, Atoms};
use crate::reshard::moves::{relabel_pairs, reorder_peers};

type Lists = SmallVec<[AtomList; 4]>;

/// Every way to split `rank` dimensions by some of the atoms, in every order.
fn placements(atoms: &Atoms, rank: usize) -> Vec<Lists> {
    let mut all: Vec<Lists> = vec![vec![AtomList::new(); rank].into()];
    for a in atoms.all() {
        for lists in all.clone() {
            for d in 0..rank {
                for at in 0..=lists[d].len() {
                    let mut more = lists.clone();
                    more[d].insert(at, a);
                    all.push(more);
                }
            }
        }
    }
    all
}

fn elements(lists: &Lists, extents: &[i64], atoms: &Atoms) -> f64 {
    let layout = Layout::ordinary(extents, lists, atoms);
    layout.local_elements() as f64
}

/// What one collective or slice costs that leads from `from` to `to`; `None` if none does.
fn step_cost(from: &Lists, to: &Lists, extents: &[i64], atoms: &Atoms) -> Option<f64> {
    let size = elements(from, extents, atoms);
    let block = |lists: &Lists, d: usize| Layout::ordinary(extents, lists, atoms).dims[d].block;
    let changed: Vec<usize> = (0..from.len()).filter(|&d| from[d] != to[d]).collect();
    let mut best: Option<f64> = None;
    let mut offer = |cost: f64| best = Some(best.map_or(cost, |b: f64| b.min(cost)));
    if let [d] = changed[..] {
        if to[d].starts_with(&from[d]) {
            offer(0.0);
        }
        if to[d].len() == from[d].len() && to[d].iter().all(|a| from[d].contains(a)) {
            let peers = reorder_peers(&from[d], &to[d], atoms);
            offer(peers.sending_share(atoms) * size + PER_COLLECTIVE);
        }
        if from[d].starts_with(&to[d]) {
            let group = atoms.product(&from[d][to[d].len()..]) as f64;
            offer((group - 1.0) * size + PER_COLLECTIVE);
        }
    }
    if let [d, e] = changed[..] {
        for (d, e) in [(d, e), (e, d)] {
            if from[d].starts_with(&to[d]) && to[e].starts_with(&from[e]) {
                let moved = &from[d][to[d].len()..];
                if moved == &to[e][from[e].len()..] {
                    let group = atoms.product(moved) as f64;
                    // The dimension to be cut is padded to a multiple of the group.
                    let others = size / block(from, e) as f64;
                    let padded = others * block(to, e) as f64 * group;
                    offer((group - 1.0) / group * padded + PER_COLLECTIVE);
                }
            }
        }
    }
    let sizes = |l: &AtomList| l.iter().map(|&a| atoms.size(a)).collect::<Vec<_>>();
    if from.iter().zip(to).all(|(a, b)| sizes(a) == sizes(b)) {
        let pairs = relabel_pairs(&Layout::ordinary(extents, from, atoms), to, &[], atoms);
        offer(Peers::Relabel(pairs).sending_share(atoms) * size + PER_COLLECTIVE);
    }
    best
}

/// The least cost from `start` to `goal`, through placements that need no more memory than both ends together.
fn cheapest(start: usize, goal: usize, sizes: &[f64], edges: &[Vec<(usize, f64)>]) -> f64 {
    let bound = sizes[start] + sizes[goal];
    let mut cost = vec![f64::INFINITY; sizes.len()];
    let mut done = vec![false; sizes.len()];
    cost[start] = 0.0;
    while let Some(at) = (0..sizes.len()).filter(|&i| !done[i]).min_by(|&a, &b| cost[a].total_cmp(&cost[b])) {
        if at == goal || cost[at].is_infinite() {
            break;
        }
        done[at] = true;
        for &(next, weight) in &edges[at] {
            if sizes[next] <= bound && cost[at] + weight < cost[next] {
                cost[next] = cost[at] + weight;
            }
        }
    }
    cost[goal]
}

fn compare(axes: &[(&str, i64)], extents: &[i64]) {
    let atoms = Atoms::of(&Mesh::new(axes.iter().copied()).expect("a mesh"));
    let all = placements(&atoms, extents.len());
    let sizes: Vec<f64> = all.iter().map(|l| elements(l, extents, &atoms)).collect();
    let edges: Vec<Vec<(usize, f64)>> = all
        .iter()
        .map(|from| {
            let cost = |(i, to): (usize, &Lists)| Some((i, step_cost(from, to, extents, &atoms)?));
            all.iter().enumerate().filter(|(_, to)| *to != from).filter_map(cost).collect()
        })
        .collect();
    let mut paths = Paths::default();
    // On eight devices three dimensions have 106 placements: every fourth is a start.
    let step = if all.len() > 100 { 4 } else { 1 };
    for (i, from) in all.iter().enumerate().step_by(step) {
        for (j, to) in all.iter().enumerate() {
            let [from, to] = [from, to].map(|l| Layout::ordinary(extents, l, &atoms));
            let found = paths.find(&from, &to, extents, &atoms);
            let least = cheapest(i, j, &sizes, &edges);
            assert!(
                (found.cost - least).abs() < 1e-9 * least.max(1.0),
                "{axes:?} {extents:?}: {:?} to {:?}: {:?} costs {}, the least is {least}",
                from.lists(),
                to.lists(),
                found.moves,
                found.cost
            );
        }
    }
}

#[test]
fn no_way_is_cheaper_in_one_dimension() {
    for n in [8, 24, 7] {
        for mesh in [&[("x", 2)][..], &[("x", 6)], &[("x", 8)], &[("x", 2), ("y", 4)], &[("x", 7)]] {
            compare(mesh, &[n]);
        }
    }
}

#[test]
fn no_way_is_cheaper_in_two_dimensions() {
    for extents in [[8, 8], [24, 16], [6, 10], [16, 2]] {
        for mesh in [&[("x", 2)][..], &[("x", 4)], &[("x", 2), ("y", 3)], &[("x", 8)]] {
            compare(mesh, &extents);
        }
    }
}

#[test]
fn no_way_is_cheaper_in_three_dimensions() {
    for mesh in [&[("x", 5)][..], &[("x", 4)], &[("x", 6)], &[("x", 8)]] {
        compare(mesh, &[8, 16, 24]);
    }
}

/// `[y, ·, x]` to `[·, (x, y), ·]` needs all-to-alls only.
#[test]
fn two_axes_meet_in_one_dimension_by_all_to_alls() {
    let atoms = Atoms::of(&Mesh::new([("x", 2), ("y", 4)]).expect("a mesh"));
    let lists = |l: [&[u8]; 3]| l.map(AtomList::from_slice);
    let extents = [16, 16, 16];
    let from = Layout::ordinary(&extents, &lists([&[1, 2], &[], &[0]]), &atoms);
    let to = Layout::ordinary(&extents, &lists([&[], &[0, 1, 2], &[]]), &atoms);
    let path = Paths::default().find(&from, &to, &extents, &atoms);
    assert!(path.moves.iter().all(|m| matches!(m, Move::AllToAll(..))), "{:?}", path.moves);
    assert_eq!(path.moves.len(), 2);
}
