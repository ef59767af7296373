//! From whole values to parts: moves that make a value partial over more atoms, without communication.
//!
//! Where a value is whole, the first device of a group keeps it and the others hold what changes nothing. Where the
//! atoms split a dimension, each device keeps its block in its place among elements that change nothing.

use meshwork_ir::op::MovementOp;
use meshwork_ir::{Combine, OpKind};

use super::Move;
use super::moves::Form;
use crate::layout::atoms::{AtomList, Atoms};
use crate::layout::{DimLayout, Layout};
use crate::split::Splitter;

/// A way to a partial layout: local moves first, a layout to search for from there, local moves last.
pub(super) struct Way {
    pub before: Vec<Move>,
    /// What the moves before lead to.
    pub from: Layout,
    /// What the search has to reach.
    pub to: Layout,
    pub after: Vec<Move>,
}

/// How to reach `to` from `from`.
pub(super) fn way(from: &Layout, to: &Layout, extents: &[i64], atoms: &Atoms) -> Way {
    let (mut have, mut from) = (AtomList::new(), from.clone());
    let Some((wanted, combine)) = &to.partial else {
        return Way { before: vec![], from, to: to.clone(), after: vec![] };
    };
    let mut before = vec![];
    match &from.partial {
        Some((list, other)) if other == combine => have = list.clone(),
        // Parts of another kind are combined before they can become parts of this one.
        Some((list, _)) => {
            before.push(Move::AllReduce(list.clone()));
            from = from.reduced();
        }
        None => {}
    }
    for d in 0..from.dims.len() {
        let list = &from.dims[d].atoms;
        let count = list.iter().rev().take_while(|a| wanted.contains(a)).count();
        if count > 0 {
            have.extend(list[list.len() - count..].iter().copied());
            before.push(Move::Spread(d, count, *combine));
            from.dims[d] = spread_frame(&from.dims[d], count, extents[d], atoms);
        }
    }
    from = from.with_partial(have.clone(), *combine);
    let kept: AtomList = wanted.iter().copied().filter(|a| have.contains(a)).collect();
    let missing: AtomList = wanted.iter().copied().filter(|a| !have.contains(a)).collect();
    let after = if missing.is_empty() { vec![] } else { vec![Move::Mask(missing, *combine)] };
    Way { before, from, to: to.reduced().with_partial(kept, *combine), after }
}

/// The frame of a dimension whose last `count` atoms no longer split it.
fn spread_frame(frame: &DimLayout, count: usize, n: i64, atoms: &Atoms) -> DimLayout {
    let mut out = frame.clone();
    let gone: AtomList = out.atoms.drain(frame.atoms.len() - count..).collect();
    out.block *= atoms.product(&gone);
    if out.is_split() { out } else { DimLayout::whole(n) }
}

impl Splitter<'_> {
    /// Makes `form` partial over `list`, over which it is whole: only the first device of each group keeps it.
    pub(super) fn mask_parts(&mut self, form: Form, list: &[u8], combine: Combine) -> Form {
        let Form { value, layout } = form;
        let mut partial = layout.partial.as_ref().map_or(AtomList::new(), |p| p.0.clone());
        partial.extend(list.iter().copied());
        let value = self.only_on_first(value, list, combine);
        Form { value, layout: layout.with_partial(partial, combine) }
    }

    /// Makes `form` partial over the last `count` atoms of `dim`: each device's block stands in its place.
    pub(super) fn spread(&mut self, form: Form, extents: &[i64], dim: usize, count: usize, combine: Combine) -> Form {
        let Form { value, mut layout } = form;
        let frame = &layout.dims[dim];
        let list: AtomList = frame.atoms[frame.atoms.len() - count..].into();
        let (block, size, elem) = (frame.block, self.atoms.product(&list), self.local.elem(value));
        let mut partial = layout.partial.as_ref().map_or(AtomList::new(), |p| p.0.clone());
        partial.extend(list.iter().copied());
        // Placements of types that have no such element are refused before.
        let Some(fill) = self.local.neutral(combine, elem) else { return Form { value, layout } };
        let mut dims = self.local.dims(value);
        dims[dim] = block * size;
        let rest = self.local.broadcast(fill, &dims, &[]);
        let (mut operands, zero) = (vec![rest, value], self.local.index_constant(0));
        let start = self.local.shard_offset(&list, block, 0);
        operands.extend((0..dims.len()).map(|d| if d == dim { start } else { zero }));
        let value = self.local.same(OpKind::Movement(MovementOp::DynamicUpdateSlice), &operands);
        let frame = &mut layout.dims[dim];
        frame.atoms.truncate(frame.atoms.len() - count);
        frame.block *= size;
        self.trim(Form { value, layout: layout.with_partial(partial, combine) }, extents, dim)
    }
}
