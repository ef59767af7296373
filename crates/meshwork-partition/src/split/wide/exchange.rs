//! Elements of neighbours' blocks: those on both sides of a block as one longer array, or each side by itself.

use meshwork_ir::ValueId;
use meshwork_ir::hash::HashMap;
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{Direction, OpKind};
use meshwork_mesh::sort_by_key;

use super::super::Splitter;
use super::reach::{Along, Line, WideLoop};
use super::round::{Elements, Round};
use crate::layout::{DimLayout, Layout};
use crate::reshard::fetch::Window;

/// Where a piece of an array lies along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// Before the block.
    Front,
    /// Inside the block, where each shard has elements.
    Inside,
    /// Behind that.
    Behind,
}

/// An array of the loop: its block, and what was exchanged around it, side by side.
pub struct Tiles {
    /// By dimension: what the array holds in front, inside and behind.
    parts: Vec<[Elements; 3]>,
    values: HashMap<Vec<Side>, ValueId>,
}

/// The pieces of `elements` on each side.
fn pieces(parts: &[Elements; 3], (from, to): Elements) -> Vec<(Side, Elements)> {
    if from >= to {
        return vec![(Side::Inside, (0, 0))];
    }
    let sides = [Side::Front, Side::Inside, Side::Behind].into_iter().zip(parts);
    sides.map(|(side, part)| (side, (from.max(part.0), to.min(part.1)))).filter(|(_, (lo, hi))| lo < hi).collect()
}

impl Splitter<'_> {
    /// `value` with as much more on either side as the arrays of `round` hold.
    pub(super) fn widen(
        &mut self,
        round: &Round<'_>,
        mut value: ValueId,
        layout: &Layout,
        extents: &[i64],
        along: &[Along],
    ) -> ValueId {
        for (d, &a) in along.iter().enumerate() {
            let Along::Line { line, .. } = a else { continue };
            let range = round.elements(a.full(), extents[d]);
            value = self.elements_of(&round.plan.lines[line], value, (d, extents[d]), &layout.dims[d], range);
        }
        value
    }

    /// Elements `from .. to` along dimension `d`, of `n`, of an array whose blocks are `value`.
    fn elements_of(
        &mut self,
        line: &Line,
        value: ValueId,
        (d, n): (usize, i64),
        frame: &DimLayout,
        (from, to): Elements,
    ) -> ValueId {
        // Elements `by` further on.
        let window = |by: i64| Window {
            scale: line.block,
            offset: frame.offset + from + by,
            divisor: 1,
            length: to - from,
            useful: (frame.offset, frame.offset + n),
        };
        if !line.is_ring {
            return self.fetch(value, d, frame, &window(0));
        }
        let wanted = [0, n, -n].map(|by| (value, frame.clone(), window(by)));
        let parts = self.fetch_many(&wanted, d);
        let mut value = parts[0];
        for (part, (lo, hi)) in [(parts[1], (-n, 0)), (parts[2], (n, 2 * n))] {
            let element = self.element_numbers(line.atoms.as_slice(), line.block, (from, to));
            let mask = self.in_range(element, lo, hi);
            let dims = self.local.dims(value);
            let mask = self.local.broadcast(mask, &dims, &[d as i64]);
            value = self.local.select(mask, part, value);
        }
        value
    }

    /// Exchanges what turns read around the blocks of an array: `read` has, for each turn, the elements along each dimension. What is
    /// read of neighbours across a corner comes by way of the neighbours at its sides.
    pub(super) fn exchange_sides(
        &mut self,
        plan: &WideLoop,
        value: ValueId,
        layout: &Layout,
        extents: &[i64],
        along: &[Along],
        read: &[Vec<Elements>],
    ) -> Tiles {
        let part = |(d, a): (usize, &Along)| match *a {
            Along::Whole => [(0, 0), (0, extents[d]), (extents[d], extents[d])],
            Along::Line { line, .. } => {
                let inside = plan.lines[line].inside(self.atoms);
                let from = read.iter().map(|r| r[d].0).min().unwrap_or(0).min(0);
                let to = read.iter().map(|r| r[d].1).max().unwrap_or(inside).max(inside);
                [(from, 0), (0, inside), (inside, to)]
            }
        };
        let parts: Vec<[Elements; 3]> = along.iter().enumerate().map(part).collect();
        let mut needed: Vec<Vec<Side>> = vec![vec![Side::Inside; along.len()]];
        for read in read {
            let mut tiles = vec![vec![]];
            for (parts, &range) in parts.iter().zip(read) {
                let sides = pieces(parts, range);
                let with = |tile: &Vec<Side>| {
                    let tile = tile.clone();
                    sides.iter().map(move |(side, _)| [&tile[..], &[*side]].concat()).collect::<Vec<_>>()
                };
                tiles = tiles.iter().flat_map(with).collect();
            }
            needed.extend(tiles);
        }
        // Each tile is exchanged from the one without its last step aside.
        let mut at = 0;
        while at < needed.len() {
            needed.extend(source_of(&needed[at]).map(|(source, _)| source));
            at += 1;
        }
        let steps = |tile: &Vec<Side>| tile.iter().filter(|side| **side != Side::Inside).count();
        sort_by_key(&mut needed, |tile| (steps(tile), tile.clone()));
        needed.dedup();
        let mut values: HashMap<Vec<Side>, ValueId> = HashMap::default();
        for tile in needed {
            let made = match source_of(&tile) {
                None => value,
                Some((source, d)) => {
                    let Along::Line { line, .. } = along[d] else { continue };
                    let range = if tile[d] == Side::Front { parts[d][0] } else { parts[d][2] };
                    let (line, from) = (&plan.lines[line], values[&source]);
                    self.elements_of(line, from, (d, extents[d]), &layout.dims[d], range)
                }
            };
            values.insert(tile, made);
        }
        Tiles { parts, values }
    }

    /// The elements `range` along each dimension.
    pub(super) fn cut_tiles(&mut self, tiles: &Tiles, range: &[Elements]) -> ValueId {
        self.cut_from(tiles, range, vec![])
    }

    /// The same of the tiles that begin with `chosen`.
    fn cut_from(&mut self, tiles: &Tiles, range: &[Elements], chosen: Vec<(Side, Elements)>) -> ValueId {
        let d = chosen.len();
        if d == range.len() {
            let tile: Vec<Side> = chosen.iter().map(|c| c.0).collect();
            let mut value = tiles.values[&tile];
            for (d, (side, (lo, hi))) in chosen.into_iter().enumerate() {
                let start = tiles.parts[d][side as usize].0;
                value = self.local.slice(value, d, lo - start, hi - start);
            }
            return value;
        }
        let mut parts = vec![];
        for piece in pieces(&tiles.parts[d], range[d]) {
            parts.push(self.cut_from(tiles, range, [&chosen[..], &[piece]].concat()));
        }
        self.local.concatenate(&parts, d)
    }

    /// The numbers of the elements `from .. to` of this shard's block.
    pub(super) fn element_numbers(&mut self, atoms: &[u8], block: i64, (from, to): Elements) -> ValueId {
        let start = self.local.shard_offset(atoms, block, from);
        let iota = self.local.iota(&[to - from], 0, self.local.index);
        let start = self.local.broadcast(start, &[to - from], &[]);
        self.local.same(OpKind::Binary(BinaryOp::Add), &[iota, start])
    }

    /// Which of `numbers` are in `lo..hi`.
    pub(super) fn in_range(&mut self, numbers: ValueId, lo: i64, hi: i64) -> ValueId {
        let dims = self.local.dims(numbers);
        let (low, high) = (self.local.index_splat(&dims, lo), self.local.index_splat(&dims, hi));
        let above = self.local.compare(Direction::Ge, numbers, low);
        let below = self.local.compare(Direction::Lt, numbers, high);
        self.local.same(OpKind::Binary(BinaryOp::And), &[above, below])
    }
}

/// The tile from which `tile` is exchanged, and along which dimension; none for the block itself.
fn source_of(tile: &[Side]) -> Option<(Vec<Side>, usize)> {
    let d = tile.iter().rposition(|side| *side != Side::Inside)?;
    let mut source = tile.to_vec();
    source[d] = Side::Inside;
    Some((source, d))
}
