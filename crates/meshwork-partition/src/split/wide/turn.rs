//! Writing a turn of a loop on local arrays that hold some elements of each line.
//!
//! "Which element is this" is asked of numbers, not of frames. What is outside the array is decided by masks, where an array holds such
//! places at all.

use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, MixedOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, ElementType, OpId, OpKind, Type, ValueId};

use super::super::window::{padding_attr, padding_pairs};
use super::super::{Result, Splitter};
use super::reach::{Along, is_free, is_outside, wanted_of};
use super::round::{Elements, Outside, Round};
use crate::layout::Layout;

impl Splitter<'_> {
    /// The numbers of the elements that an array of the turn holds along a line; on a ring all are in `0 .. extent`.
    fn numbers_along(&mut self, round: &Round<'_>, along: Along) -> Option<ValueId> {
        let Along::Line { line, .. } = along else { return None };
        let (from, to) = round.elements(along, 0);
        let line = round.plan.lines[line].clone();
        let rounds_more = if line.is_ring { 3 * line.extent } else { 0 };
        let numbers = self.element_numbers(line.atoms.as_slice(), line.block, (from + rounds_more, to + rounds_more));
        if !line.is_ring {
            return Some(numbers);
        }
        let by = self.local.index_splat(&[to - from], line.extent);
        Some(self.local.same(OpKind::Binary(BinaryOp::Remainder), &[numbers, by]))
    }

    /// Which elements of an array of `dims` that holds `along` are in `range` along dimension `d`; none if all are, on every shard.
    fn mask_along(
        &mut self,
        round: &Round<'_>,
        dims: &[i64],
        along: Along,
        d: usize,
        range: (i64, i64),
    ) -> Option<ValueId> {
        if let Along::Line { line, .. } = along {
            let ((from, to), line) = (round.elements(along, 0), &round.plan.lines[line]);
            let last = (self.atoms.product(&line.atoms) - 1) * line.block;
            let all = if line.is_ring { (0, line.extent) } else { (from, last + to) };
            if range.0 <= all.0 && all.1 <= range.1 {
                return None;
            }
        }
        let numbers = match self.numbers_along(round, along) {
            Some(numbers) => numbers,
            None => self.local.iota(&[dims[d]], 0, self.local.index),
        };
        let mask = self.in_range(numbers, range.0, range.1);
        Some(self.local.broadcast(mask, dims, &[d as i64]))
    }

    /// The part of `value`, which holds `own`, that holds `wanted`.
    pub(super) fn shorten(&mut self, mut value: ValueId, own: &[Elements], wanted: &[Elements]) -> ValueId {
        for (d, (own, wanted)) in own.iter().zip(wanted).enumerate() {
            value = self.local.slice(value, d, wanted.0 - own.0, wanted.1 - own.0);
        }
        value
    }

    /// One turn. What it returns holds what `wanted` says of what its argument holds; elements that are not known are zero.
    pub(super) fn wide_turn(
        &mut self,
        round: &mut Round<'_>,
        args: &[ValueId],
        wanted: impl Fn(&Round<'_>, Along) -> Along,
    ) -> Result<Vec<ValueId>> {
        let plan = round.plan;
        let own = self.src.block(plan.body).args().to_vec();
        let known = own.iter().copied().zip(args.iter().copied());
        round.values = known.filter(|(v, _)| plan.spans.contains_key(v)).collect();
        self.write_ops(round)?;
        let returned = self.src.returned(plan.body).to_vec();
        let mut out = vec![];
        for (i, v) in returned.into_iter().enumerate() {
            let Some(along) = plan.spans.get(&own[i]) else {
                out.push(args[i]);
                continue;
            };
            let wanted: Vec<Along> = along.iter().map(|&a| wanted(round, a)).collect();
            out.push(self.returned(round, v, &wanted)?);
        }
        Ok(out)
    }

    /// Writes the operations of a turn.
    pub(super) fn write_ops(&mut self, round: &mut Round<'_>) -> Result<()> {
        for op in self.src.op_list(round.plan.body) {
            if !self.src.op(op).kind().is_terminator() && round.spans.contains_key(&self.src.op(op).results()[0]) {
                self.local.loc = self.src.op(op).loc.clone();
                self.local.pos = self.src.op(op).pos;
                self.wide_op(round, op)?;
            }
        }
        Ok(())
    }

    /// `v` as long as `wanted` says, with zeros where it holds less.
    pub(super) fn returned(&mut self, round: &Round<'_>, v: ValueId, wanted: &[Along]) -> Result<ValueId> {
        let Some(own) = round.spans.get(&v) else { return self.array(round, v, wanted) };
        let extents = self.extents(v);
        let mut value = round.values[&v];
        for (d, (own, wanted)) in own.iter().zip(wanted).enumerate() {
            let ((from, to), (lo, hi)) = (round.elements(*own, extents[d]), round.elements(*wanted, extents[d]));
            value = self.local.pad(value, d, from - lo, hi - to);
        }
        Ok(value)
    }

    /// `v` so that it holds `wanted`.
    fn array(&mut self, round: &Round<'_>, v: ValueId, wanted: &[Along]) -> Result<ValueId> {
        let plan = round.plan;
        let extents = self.extents(v);
        let all = |of: &[Along], elements: &dyn Fn(Along, i64) -> Elements| -> Vec<Elements> {
            of.iter().zip(&extents).map(|(&a, &n)| elements(a, n)).collect()
        };
        if let Some(own) = round.spans.get(&v) {
            let own = all(own, &|a, n| round.elements(a, n));
            return Ok(self.shorten(round.values[&v], &own, &all(wanted, &|a, n| round.elements(a, n))));
        }
        if let Some(tiles) = round.tiles.get(&v) {
            return Ok(self.cut_tiles(tiles, &all(wanted, &|a, n| round.elements(a, n))));
        }
        let v = plan.outer(v);
        if wanted.is_empty() {
            return self.get(v, &Layout::replicated(&[]));
        }
        if is_outside(self, plan, v) && !is_free(self, plan, v, 0) {
            let full: Vec<Along> = wanted.iter().map(|a| a.full()).collect();
            let known = plan.outside.iter().position(|(other, along)| *other == v && *along == full);
            let elements = all(wanted, &|a, n| round.elements(a, n));
            return match known.map(|i| &round.outside[i]) {
                Some(Outside::Whole(value)) => {
                    Ok(self.shorten(*value, &all(&full, &|a, n| round.elements(a, n)), &elements))
                }
                Some(Outside::Tiles(tiles)) => Ok(self.cut_tiles(tiles, &elements)),
                None => self.unsupported(plan.op, "internal error: an array from outside the loop is missing"),
            };
        }
        self.made(round, v, wanted)
    }

    /// An array that is made where it is read.
    fn made(&mut self, round: &Round<'_>, v: ValueId, wanted: &[Along]) -> Result<ValueId> {
        let (extents, elem) = (self.extents(v), self.src.ty(v).elem().unwrap_or(ElementType::F32));
        let dims = round.dims(&extents, wanted);
        let Some(op) = self.src.def_op(v) else {
            return self.unsupported(round.plan.op, "internal error: an array of the loop is missing");
        };
        match self.src.op(op).kind() {
            OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant) => match self.src.op(op).attr("value") {
                Some(Attr::Dense(dense)) if dense.splat_bytes().is_some() => {
                    let bytes = dense.splat_bytes().unwrap_or_default().to_vec();
                    Ok(self.local.splat(&dims, elem, &bytes))
                }
                _ => self.unsupported(op, "its value is not a dense constant"),
            },
            OpKind::Source(SourceOp::Iota) => {
                let d = self.src.op(op).int("iota_dimension").unwrap_or(0) as usize;
                let Some(numbers) = self.numbers_along(round, wanted[d]) else {
                    return Ok(self.local.iota(&dims, d, elem));
                };
                let numbers = match elem == self.local.index {
                    true => numbers,
                    false => {
                        let ty = Type::tensor(self.local.dims(numbers), elem);
                        self.local.op(OpKind::Mixed(MixedOp::Convert), &[numbers], ty, &[])
                    }
                };
                Ok(self.local.broadcast(numbers, &dims, &[d as i64]))
            }
            _ => self.plain_op(round, op, wanted),
        }
    }

    /// Writes an operation of the turn.
    fn wide_op(&mut self, round: &mut Round<'_>, op: OpId) -> Result<()> {
        let results = self.src.op(op).results().to_vec();
        let along = round.spans[&results[0]].clone();
        if let [result] = results[..] {
            let value = self.plain_op(round, op, &along)?;
            round.values.insert(result, value);
            return Ok(());
        }
        let copy = self.several(round, op, &along)?;
        for (i, r) in results.into_iter().enumerate() {
            round.values.insert(r, self.local.module.op(copy).results()[i]);
        }
        Ok(())
    }

    /// The operands of `op` for a result that holds `along`.
    fn operands(&mut self, round: &Round<'_>, op: OpId, along: &[Along]) -> Result<Vec<ValueId>> {
        let plan = round.plan;
        let Some(sources) = self.links(op, &plan.spans, &plan.lines) else {
            return self.unsupported(op, "internal error: it is not known what it reads");
        };
        let mut out = vec![];
        for v in self.src.op(op).operands().to_vec() {
            let links = sources.iter().find(|(source, _)| *source == v).map(|(_, links)| links.clone());
            let wanted = links.map_or(vec![], |links| wanted_of(along, &links));
            out.push(self.array(round, v, &wanted)?);
        }
        Ok(out)
    }

    /// Copies `op`, which has several results.
    fn several(&mut self, round: &Round<'_>, op: OpId, along: &[Along]) -> Result<OpId> {
        let operands = self.operands(round, op, along)?;
        let results = self.src.op(op).results().to_vec();
        let types = results.iter().map(|&r| self.type_along(round, r, along)).collect();
        self.copy(op, &operands, types)
    }

    fn type_along(&self, round: &Round<'_>, v: ValueId, along: &[Along]) -> Type {
        let elem = self.src.ty(v).elem().unwrap_or(ElementType::F32);
        Type::tensor(round.dims(&self.extents(v), along), elem)
    }

    /// The only result of `op` so that it holds `along`.
    fn plain_op(&mut self, round: &Round<'_>, op: OpId, along: &[Along]) -> Result<ValueId> {
        let result = self.src.op(op).results()[0];
        let is_line = |d: usize| matches!(along.get(d), Some(Along::Line { .. }));
        let kind = self.src.op(op).kind();
        match kind {
            OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard) => Ok(self.operands(round, op, along)?[0]),
            OpKind::Movement(MovementOp::BroadcastInDim) => {
                let to = self.src.op(op).i64s("broadcast_dimensions").unwrap_or_default();
                let value = self.operands(round, op, along)?[0];
                let dims = round.dims(&self.extents(result), along);
                Ok(self.local.broadcast(value, &dims, &to))
            }
            OpKind::Movement(MovementOp::Reshape) => {
                let value = self.operands(round, op, along)?[0];
                let dims = round.dims(&self.extents(result), along);
                Ok(self.local.reshape(value, &dims))
            }
            OpKind::Movement(MovementOp::Slice) => {
                let data = self.src.op(op);
                let list = |name: &str| data.i64s(name).unwrap_or_default();
                let (starts, limits, strides) = (list("start_indices"), list("limit_indices"), list("strides"));
                let mut value = self.operands(round, op, along)?[0];
                for d in (0..starts.len()).filter(|&d| !is_line(d)) {
                    let stride = strides.get(d).copied().unwrap_or(1);
                    value = self.local.strided_slice(value, d, starts[d], limits[d], stride);
                }
                Ok(value)
            }
            OpKind::Movement(MovementOp::Pad) => self.wide_pad(round, op, along),
            OpKind::Movement(MovementOp::Concatenate) => self.wide_concatenate(round, op, along),
            OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter)
                if self.constant_assignment(op).is_some() =>
            {
                self.wide_assign(round, op, along)
            }
            OpKind::Body(BodyOp::ReduceWindow) | OpKind::Contract(ContractOp::Convolution) => {
                self.wide_window(round, op, along)
            }
            _ => {
                let copy = self.several(round, op, along)?;
                Ok(self.local.module.result(copy))
            }
        }
    }

    fn wide_pad(&mut self, round: &Round<'_>, op: OpId, along: &[Along]) -> Result<ValueId> {
        let data = self.src.op(op);
        let list = |name: &str| data.i64s(name).unwrap_or_default();
        let (low, high) = (list("edge_padding_low"), list("edge_padding_high"));
        let (between, operand) = (list("interior_padding"), data.operands()[0]);
        let extents = self.extents(operand);
        let operands = self.operands(round, op, along)?;
        let (mut value, fill) = (operands[0], operands[1]);
        for d in 0..low.len() {
            if let Along::Whole = along[d] {
                value = self.local.pad_with(value, d, low[d], high[d], between[d], fill);
            } else if low[d] > 0 || high[d] > 0 {
                let dims = self.local.dims(value);
                if let Some(mask) = self.mask_along(round, &dims, along[d], d, (low[d], low[d] + extents[d])) {
                    let fill = self.local.broadcast(fill, &dims, &[]);
                    value = self.local.select(mask, value, fill);
                }
            }
        }
        Ok(value)
    }

    fn wide_concatenate(&mut self, round: &Round<'_>, op: OpId, along: &[Along]) -> Result<ValueId> {
        let plan = round.plan;
        let dim = self.src.op(op).int("dimension").unwrap_or(0) as usize;
        if let Some(rotation) = self.rotation(op, &plan.spans, &plan.lines) {
            let mut wanted = along.to_vec();
            if let Along::Line { line, lo, hi } = along[dim] {
                wanted[dim] = Along::Line { line, lo: lo + rotation.by, hi: hi + rotation.by };
            }
            return self.array(round, rotation.source, &wanted);
        }
        let pieces = self.src.op(op).operands().to_vec();
        if let Along::Whole = along[dim] {
            let mut locals = vec![];
            for &v in &pieces {
                locals.push(self.array(round, v, along)?);
            }
            return Ok(self.local.concatenate(&locals, dim));
        }
        let (mut value, mut start): (Option<ValueId>, i64) = (None, 0);
        for v in pieces {
            let (n, mut wanted) = (self.extents(v)[dim], along.to_vec());
            if let Along::Line { line, lo, hi } = along[dim] {
                wanted[dim] = Along::Line { line, lo: lo - start, hi: hi - start };
            }
            if n > 0 {
                let piece = self.array(round, v, &wanted)?;
                value = Some(match value {
                    None => piece,
                    Some(under) => {
                        let dims = self.local.dims(piece);
                        match self.mask_along(round, &dims, along[dim], dim, (start, start + n)) {
                            Some(mask) => self.local.select(mask, piece, under),
                            None => piece,
                        }
                    }
                });
            }
            start += n;
        }
        match value {
            Some(value) => Ok(value),
            None => self.unsupported(op, "internal error: an empty array on a line"),
        }
    }

    fn wide_assign(&mut self, round: &Round<'_>, op: OpId, along: &[Along]) -> Result<ValueId> {
        let Some((update, starts, combine)) = self.constant_assignment(op) else {
            return self.unsupported(op, "internal error: an update at an unknown place");
        };
        let (operand, result) = (self.src.op(op).operands()[0], self.src.op(op).results()[0]);
        let (extents, lengths) = (self.extents(result), self.extents(update));
        let base = self.array(round, operand, along)?;
        let moved = |(d, a): (usize, &Along)| match *a {
            Along::Whole => Along::Whole,
            Along::Line { line, lo, hi } => Along::Line { line, lo: lo - starts[d], hi: hi - starts[d] },
        };
        let wanted: Vec<Along> = along.iter().enumerate().map(moved).collect();
        let mut value = self.array(round, update, &wanted)?;
        let (dims, mut mask) = (self.local.dims(base), None);
        for d in 0..extents.len() {
            let (lo, hi) = (starts[d], starts[d] + lengths[d]);
            if (lo, hi) == (0, extents[d]) {
                continue;
            }
            if let Along::Whole = along[d] {
                value = self.local.pad(value, d, lo, extents[d] - hi);
            }
            mask = match (mask, self.mask_along(round, &dims, along[d], d, (lo, hi))) {
                (Some(mask), Some(own)) => Some(self.local.same(OpKind::Binary(BinaryOp::And), &[mask, own])),
                (mask, own) => mask.or(own),
            };
        }
        if let Some(combine) = combine {
            value = self.local.same(combine.op(), &[base, value]);
        }
        Ok(match mask {
            None => value,
            Some(mask) => self.local.select(mask, value, base),
        })
    }

    /// A window or a convolution: what is outside the array is filled before the windows slide over it.
    fn wide_window(&mut self, round: &Round<'_>, op: OpId, along: &[Along]) -> Result<ValueId> {
        let result = self.src.op(op).results()[0];
        let mut operands = self.operands(round, op, along)?;
        let arrays = match self.src.op(op).kind() {
            OpKind::Contract(_) => 1,
            _ => operands.len() / 2,
        };
        // The dimension of the image and of the result for each entry of the padding.
        let conv = match self.src.op(op).attr("dimension_numbers") {
            Some(Attr::Conv(conv)) => Some(conv.clone()),
            _ => None,
        };
        let pairs: Vec<(usize, usize)> = match &conv {
            Some(c) => c.input_spatial.iter().zip(&c.output_spatial).map(|(&i, &o)| (i as usize, o as usize)).collect(),
            None => (0..along.len()).map(|d| (d, d)).collect(),
        };
        let mut padding = padding_pairs(self.src.op(op).attr("padding"), pairs.len());
        for (i, &(d, to)) in pairs.iter().enumerate() {
            let Along::Line { line, lo, hi } = along[to] else { continue };
            let n = self.extents(self.src.op(op).operands()[0])[d];
            for array in 0..arrays {
                let v = self.src.op(op).operands()[array];
                let links = self.links(op, &round.plan.spans, &round.plan.lines).unwrap_or_default();
                let link = links.iter().find(|(source, _)| *source == v).map(|(_, links)| links.clone());
                let own = link.map(|links| wanted_of(along, &links)[d]).unwrap_or(Along::Line { line, lo, hi });
                let value = operands[array];
                let fill = match &conv {
                    Some(_) => {
                        let elem = self.local.elem(value);
                        self.local.zeros(&[], elem)
                    }
                    None => operands[arrays + array],
                };
                let dims = self.local.dims(value);
                if let Some(mask) = self.mask_along(round, &dims, own, d, (0, n)) {
                    let fill = self.local.broadcast(fill, &dims, &[]);
                    operands[array] = self.local.select(mask, value, fill);
                }
            }
            padding[i] = (0, 0);
        }
        let ty = self.type_along(round, result, along);
        let spec = self.spec_of(op).operands(operands).results([ty]).attr("padding", padding_attr(&padding));
        let copy = self.local.push(spec);
        self.copy_regions(op, copy)?;
        Ok(self.local.module.result(copy))
    }
}
