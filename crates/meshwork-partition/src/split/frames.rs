//! Choosing frames: which offset a chain of elementwise operations on slices works in.
//!
//! Elementwise operations that feed each other must be in one frame. The chain's operands stand where they were cut
//! from, and its users (concatenations, assignments to a slice) say where they would like it. The frame with the least
//! movement in total wins.

use meshwork_ir::op::{BodyOp, MovementOp};
use meshwork_ir::{OpId, OpKind, ValueId};

use crate::layout::Layout;
use crate::split::Splitter;

impl Splitter<'_> {
    /// The layout for the result of an elementwise operation if its chain touches frames; `None` if all is ordinary.
    pub fn frame_hint(&mut self, result: ValueId, want: &Layout) -> Option<Layout> {
        self.frame_hint_through(result, want, 0)
    }

    /// `layout` in the frames that the users of `result` would like in the dimensions that windows slide over: each block is fetched with
    /// its halo anyway, so any frame is as good.
    pub fn frame_of_windows(&mut self, result: ValueId, layout: &Layout, slides: impl Fn(usize) -> bool) -> Layout {
        let mut out = layout.clone();
        let Some(hint) = self.frame_hint(result, layout) else { return out };
        for (d, frame) in hint.dims.into_iter().enumerate().filter(|(d, _)| slides(*d)) {
            out.dims[d] = frame;
        }
        out
    }

    /// `frame_hint`, behind as many reshapes.
    fn frame_hint_through(&mut self, result: ValueId, want: &Layout, reshapes: usize) -> Option<Layout> {
        if want.dims.iter().all(|d| !d.is_split()) {
            return None;
        }
        let extents = self.extents(result);
        let chain = self.chain(result);
        let mut pulls: Vec<Layout> = vec![];
        for &v in &chain.inputs {
            if let Some(layout) = self.predicted_layout(v, 0)
                && layout.lists() == want.lists()
            {
                pulls.push(layout);
            }
        }
        for &(user, slot) in &chain.uses {
            if let Some(layout) = self.wanted_by(user, slot, want, reshapes) {
                pulls.push(layout);
            }
        }
        let mut candidates: Vec<&Layout> = vec![];
        for layout in &pulls {
            if !candidates.contains(&layout) {
                candidates.push(layout);
            }
        }
        if candidates.is_empty() || candidates.iter().all(|l| *l == want) {
            return None;
        }
        let mut best: Option<(f64, &Layout)> = None;
        for &candidate in &candidates {
            let mut cost = 0.0;
            for pull in &pulls {
                cost += self.paths.cost(pull, candidate, &extents, self.atoms);
            }
            if best.is_none_or(|b| cost < b.0) {
                best = Some((cost, candidate));
            }
        }
        best.map(|b| b.1.clone())
    }

    /// The layout of a slice of shape `extents` that is a small part of what it is cut out of, and stands in `layout` there:
    /// where it is, without the rest, if it is put back after some arithmetic, else spread out.
    pub fn small_part(&self, slice: ValueId, layout: &Layout, whole: &[i64], extents: &[i64]) -> Layout {
        let mut out = Layout::ordinary(extents, &layout.lists(), self.atoms);
        if self.is_put_back(slice) {
            for (d, frame) in layout.dims.iter().enumerate() {
                let kept = if is_small(extents[d], whole[d]) { frame.alone(extents[d]) } else { Some(frame.clone()) };
                out.dims[d] = kept.unwrap_or_else(|| out.dims[d].clone());
            }
        }
        out
    }

    /// Whether `v` only goes into updates of slices, through elementwise operations.
    fn is_put_back(&self, v: ValueId) -> bool {
        let (mut todo, mut met) = (vec![v], vec![v]);
        while let Some(v) = todo.pop() {
            for u in self.src.value(v).uses() {
                let user = self.src.op(u.op);
                if user.kind().is_elementwise() && self.src.ty(user.results()[0]).dims() == self.src.ty(v).dims() {
                    let next = user.results()[0];
                    if !met.contains(&next) {
                        met.push(next);
                        todo.push(next);
                    }
                } else if self.constant_assignment(u.op).is_none_or(|(update, ..)| update != v) {
                    return false;
                }
            }
            if met.len() > CHAIN_LIMIT {
                return false;
            }
        }
        true
    }

    /// Where `v` stands or, before its operation is split, will stand.
    fn predicted_layout(&mut self, v: ValueId, depth: usize) -> Option<Layout> {
        if self.is_free(v) || depth > 8 {
            return None;
        }
        if let Some(form) = self.produced(v) {
            return Some(form.layout.reduced());
        }
        let op = self.src.def_op(v)?;
        match self.src.op(op).kind() {
            OpKind::Movement(MovementOp::Slice) => {
                let operand = self.src.op(op).operands()[0];
                let starts = self.src.op(op).i64s("start_indices")?;
                let strides = self.src.op(op).i64s("strides")?;
                let mut layout = self.predicted_layout(operand, depth + 1)?;
                let extents = self.extents(v);
                for d in 0..extents.len() {
                    if !layout.dims[d].is_split() {
                        layout.dims[d].block = extents[d];
                    } else if strides[d] != 1 {
                        return None;
                    } else {
                        layout.dims[d].offset += starts[d];
                    }
                }
                let whole = self.extents(operand);
                let small = |d: usize| layout.dims[d].is_split() && is_small(extents[d], whole[d]);
                if (0..extents.len()).any(small) && self.is_put_back(v) {
                    layout = self.small_part(v, &layout, &whole, &extents);
                }
                Some(layout)
            }
            _ => Some(self.want(v)),
        }
    }

    /// The layout that `user` would like for its operand number `slot`.
    fn wanted_by(&mut self, user: OpId, slot: usize, want: &Layout, reshapes: usize) -> Option<Layout> {
        let op = self.src.op(user);
        match op.kind() {
            OpKind::Movement(MovementOp::Concatenate) => {
                let dim = op.int("dimension")? as usize;
                let start: i64 = op.operands()[..slot].iter().map(|&v| self.src.ty(v).dims()[dim]).sum();
                let mut layout = self.want(self.src.op(user).results()[0]);
                layout.dims[dim].offset += start;
                (layout.lists() == want.lists()).then_some(layout)
            }
            OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => {
                let (update, starts, _) = self.constant_assignment(user)?;
                if op.operands().get(slot) != Some(&update) {
                    return None;
                }
                let mut layout = self.want(self.src.op(user).results()[0]);
                let (extents, whole) = (self.extents(update), self.extents(self.src.op(user).results()[0]));
                for (d, start) in starts.into_iter().enumerate() {
                    if layout.dims[d].is_split() {
                        layout.dims[d].offset += start;
                        if is_small(extents[d], whole[d])
                            && let Some(alone) = layout.dims[d].alone(extents[d])
                        {
                            layout.dims[d] = alone;
                        }
                    } else {
                        layout.dims[d].block = extents[d];
                    }
                }
                (layout.lists() == want.lists()).then_some(layout)
            }
            OpKind::Movement(MovementOp::Pad) if slot == 0 => {
                let (low, interior) = (op.i64s("edge_padding_low")?, op.i64s("interior_padding")?);
                let (operand, result) = (op.operands()[0], op.results()[0]);
                let (extents, mut layout) = (self.extents(operand), self.want(result));
                for (d, frame) in layout.dims.iter_mut().enumerate() {
                    if frame.is_split() {
                        frame.offset += low[d];
                        let line = frame.block * self.atoms.product(&frame.atoms);
                        if interior[d] != 0 || frame.offset < 0 || frame.offset + extents[d] > line {
                            return None;
                        }
                    } else {
                        frame.block = extents[d];
                    }
                }
                (layout.lists() == want.lists()).then_some(layout)
            }
            OpKind::Movement(MovementOp::Reshape) if reshapes < RESHAPE_LIMIT => {
                let (operand, result) = (op.operands()[0], op.results()[0]);
                Some(self.wanted_behind(operand, result, want, reshapes).unwrap_or_else(|| want.clone()))
            }
            OpKind::Movement(MovementOp::Slice) | OpKind::Body(BodyOp::Reduce) => None,
            _ => Some(want.clone()),
        }
    }

    /// What the users of `result`, which is `operand` with other dimensions of extent 1, would like for `operand`.
    fn wanted_behind(&mut self, operand: ValueId, result: ValueId, want: &Layout, reshapes: usize) -> Option<Layout> {
        let (from, to) = (self.extents(operand), self.extents(result));
        let pairs = paired_dims(&from, &to)?;
        if (0..from.len()).any(|d| from[d] == 1 && want.dims[d].is_split()) {
            return None;
        }
        let mut behind = Layout::replicated(&to);
        for &(f, t) in &pairs {
            behind.dims[t] = want.dims[f].clone();
        }
        let hint = self.frame_hint_through(result, &behind, reshapes + 1)?;
        let mut out = want.clone();
        for (f, t) in pairs {
            out.dims[f] = hint.dims[t].clone();
        }
        Some(out)
    }

    /// The elementwise operations of one shape that `result`, which one of them or windows compute, is connected with.
    fn chain(&self, result: ValueId) -> Chain {
        let extents = self.src.ty(result).dims();
        let mut chain = Chain::default();
        let mut members = vec![];
        let mut todo = vec![result];
        while let Some(v) = todo.pop() {
            let Some(op) = self.src.def_op(v) else { continue };
            if members.contains(&op) || members.len() > CHAIN_LIMIT {
                continue;
            }
            members.push(op);
            for &operand in self.src.op(op).operands() {
                if self.src.ty(operand).dims() != extents {
                    continue;
                }
                if self.is_member(operand) {
                    todo.push(operand);
                } else if operand != result && !chain.inputs.contains(&operand) {
                    chain.inputs.push(operand);
                }
            }
            for &r in self.src.op(op).results() {
                for u in self.src.value(r).uses() {
                    let user = self.src.op(u.op);
                    let same_block = user.parent() == self.src.op(op).parent();
                    if same_block && user.kind().is_elementwise() && self.src.ty(user.results()[0]).dims() == extents {
                        todo.push(user.results()[0]);
                    } else {
                        chain.uses.push((u.op, u.operand as usize));
                    }
                }
            }
        }
        chain
    }

    /// Whether `v` is computed by an elementwise operation that is not split yet.
    fn is_member(&self, v: ValueId) -> bool {
        self.produced(v).is_none() && self.src.def_op(v).is_some_and(|op| self.src.op(op).kind().is_elementwise())
    }
}

/// Whether `part` of an extent of `whole` is not worth the padding of its line.
pub fn is_small(part: i64, whole: i64) -> bool {
    part * 4 < whole
}

/// The dimensions of `from` and of `to` that are longer than 1, if they are the same in order.
fn paired_dims(from: &[i64], to: &[i64]) -> Option<Vec<(usize, usize)>> {
    let long = |dims: &[i64]| (0..dims.len()).filter(|&d| dims[d] != 1).collect::<Vec<_>>();
    let (f, t) = (long(from), long(to));
    let same = f.len() == t.len() && f.iter().zip(&t).all(|(&f, &t)| from[f] == to[t]);
    same.then(|| f.into_iter().zip(t).collect())
}

/// Longer chains are looked at in part.
const CHAIN_LIMIT: usize = 64;

/// Reshapes between an operation and the users that are asked.
const RESHAPE_LIMIT: usize = 2;

#[derive(Default)]
struct Chain {
    inputs: Vec<ValueId>,
    uses: Vec<(OpId, usize)>,
}
