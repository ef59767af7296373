//! Writing a loop that exchanges halos once in several turns.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, ControlOp, MixedOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, Direction, ElementType, OpId, OpKind, OpSpec, Type, ValueId};

use super::super::window::{padding_attr, padding_pairs};
use super::super::{Result, Splitter};
use super::reach::{Along, WideLoop, is_free, is_outside, wanted_of};
use crate::collective::Site;
use crate::layout::{DimLayout, Layout};
use crate::reshard::fetch::Window;
use crate::reshard::moves::Form;

/// Some turns between two exchanges.
struct Round<'p> {
    plan: &'p WideLoop,
    turns: i64,
    /// Local arrays of the turn.
    values: HashMap<ValueId, ValueId>,
    /// Arrays from outside, as long as those of the loop.
    outside: Vec<ValueId>,
}

impl Round<'_> {
    /// What arrays of the loop hold more than their block.
    fn halo(&self, line: usize) -> (i64, i64) {
        let (front, back) = self.plan.lines[line].reach;
        (self.turns * front, self.turns * back)
    }

    /// The elements that an array holds, from its shard's first one on.
    fn elements(&self, along: Along, extent: i64) -> (i64, i64) {
        match along {
            Along::Whole => (0, extent),
            Along::Line { line, lo, hi } => {
                let (front, back) = self.halo(line);
                (lo - front, self.plan.lines[line].block + back + hi)
            }
        }
    }

    fn dims(&self, extents: &[i64], along: &[Along]) -> Vec<i64> {
        let length = |(a, n): (&Along, &i64)| {
            let (from, to) = self.elements(*a, *n);
            to - from
        };
        along.iter().zip(extents).map(length).collect()
    }

    /// What an array holds that is as long as its block.
    fn block(&self, along: Along) -> Along {
        match along {
            Along::Whole => Along::Whole,
            Along::Line { line, .. } => {
                let (front, back) = self.halo(line);
                Along::Line { line, lo: front, hi: -back }
            }
        }
    }
}

impl Splitter<'_> {
    /// The values that the loop of `plan` ends with, if halos are exchanged every `turns` turns.
    pub(super) fn write_wide(&mut self, plan: &WideLoop, turns: i64) -> Result<Vec<ValueId>> {
        self.site = Site::Op(plan.op);
        let operands = self.src.op(plan.op).operands().to_vec();
        self.reason = "the loop carries it in this placement".into();
        let mut values = vec![];
        for (&v, layout) in operands.iter().zip(&plan.layouts) {
            values.push(self.get(v, layout)?);
        }
        let (rounds, rest) = (plan.turns / turns, plan.turns % turns);
        let values = self.rounds(plan, turns, rounds, values)?;
        if rest == 0 { Ok(values) } else { self.rounds(plan, rest, 1, values) }
    }

    /// `rounds` times an exchange and `turns` turns.
    fn rounds(&mut self, plan: &WideLoop, turns: i64, rounds: i64, values: Vec<ValueId>) -> Result<Vec<ValueId>> {
        let mut round = Round { plan, turns, values: HashMap::default(), outside: vec![] };
        self.reason = "the loop reads its halo".into();
        for (v, along) in &plan.outside {
            let extents = self.extents(*v);
            let frame = |(a, n): (&Along, &i64)| match a {
                Along::Whole => DimLayout::whole(*n),
                Along::Line { line, .. } => {
                    let line = &plan.lines[*line];
                    DimLayout { atoms: line.atoms.clone(), block: line.block, offset: 0 }
                }
            };
            let layout = Layout { dims: along.iter().zip(&extents).map(frame).collect(), partial: None };
            let value = self.get(*v, &layout)?;
            let wide = self.widen(&round, value, &layout, &extents, along);
            round.outside.push(wide);
        }
        let from = self.collectives.len();
        let made = if rounds == 1 {
            self.scoped(|s| s.one_round(&mut round, &values))
        } else {
            let times = self.times;
            self.times *= rounds;
            let made = self.repeat_turns(rounds, &values, |s, args| s.one_round(&mut round, args));
            self.times = times;
            made
        };
        self.give_reasons(from, turns, plan.repeated(turns));
        made
    }

    /// A loop that runs `turn` so often.
    fn repeat_turns(
        &mut self,
        times: i64,
        values: &[ValueId],
        turn: impl FnOnce(&mut Self, &[ValueId]) -> Result<Vec<ValueId>>,
    ) -> Result<Vec<ValueId>> {
        let zero = self.local.index_constant(0);
        let all: Vec<ValueId> = std::iter::once(zero).chain(values.iter().copied()).collect();
        let types: Vec<Type> = all.iter().map(|&v| self.local.module.ty(v).clone()).collect();
        let spec = OpSpec::new(ControlOp::While).operands(all).results(types.clone());
        let copy = self.local.push(spec);
        let condition = self.local.module.add_body(copy, types.iter().cloned());
        let counter = self.local.module.block(condition).args()[0];
        self.scoped(|s| {
            (s.local.block, s.local.before) = (condition, None);
            let limit = s.local.index_constant(times);
            let goes_on = s.local.compare(Direction::Lt, counter, limit);
            s.local.push(OpSpec::new(ControlOp::HloReturn).operands([goes_on]));
            Ok(())
        })?;
        let body = self.local.module.add_body(copy, types);
        let args = self.local.module.block(body).args().to_vec();
        self.scoped(|s| {
            (s.local.block, s.local.before) = (body, None);
            let mut made = turn(s, &args[1..])?;
            let one = s.local.index_constant(1);
            made.insert(0, s.local.same(OpKind::Binary(BinaryOp::Add), &[args[0], one]));
            s.local.push(OpSpec::new(ControlOp::HloReturn).operands(made));
            Ok(())
        })?;
        Ok(self.local.module.op(copy).results()[1..].to_vec())
    }

    /// An exchange, some turns, and the blocks that are left.
    fn one_round(&mut self, round: &mut Round<'_>, values: &[ValueId]) -> Result<Vec<ValueId>> {
        let plan = round.plan;
        let args = self.src.block(plan.body).args().to_vec();
        let results = self.src.op(plan.op).results().to_vec();
        let mut wide = vec![];
        for (i, &value) in values.iter().enumerate() {
            let extents = self.extents(results[i]);
            self.tensor = Some(results[i]);
            wide.push(match plan.spans.get(&args[i]) {
                Some(along) => self.widen(round, value, &plan.layouts[i], &extents, along),
                None => value,
            });
        }
        // Between turns arrays are as long as before; what is behind their ends is not looked at.
        let wide = match round.turns {
            1 => self.wide_turn(round, &wide, |round, along| round.block(along))?,
            turns => {
                let full = |_: &Round<'_>, along: Along| along.full();
                let wide = self.repeat_turns(turns, &wide, |s, args| s.wide_turn(round, args, full))?;
                let blocks = args.iter().zip(wide).zip(&results).map(|((arg, value), &r)| {
                    let Some(along) = plan.spans.get(arg) else { return value };
                    let block: Vec<Along> = along.iter().map(|&a| round.block(a)).collect();
                    let extents = self.extents(r);
                    self.shorten(round, value, &extents, along, &block)
                });
                blocks.collect()
            }
        };
        let mut out = vec![];
        for (i, value) in wide.into_iter().enumerate() {
            let extents = self.extents(results[i]);
            let mut form = Form { value, layout: plan.layouts[i].clone() };
            for (d, along) in plan.spans.get(&args[i]).map_or(&[][..], |along| along).iter().enumerate() {
                if let Along::Line { line, .. } = along {
                    let (block, target) = (plan.lines[*line].block, plan.layouts[i].dims[d].clone());
                    form.layout.dims[d] = DimLayout { atoms: target.atoms.clone(), block, offset: 0 };
                    form = self.reframe(form, &extents, d, &target);
                }
            }
            out.push(form.value);
        }
        Ok(out)
    }

    /// `value` with as much more on either side as the turns of a round reach.
    fn widen(
        &mut self,
        round: &Round<'_>,
        mut value: ValueId,
        layout: &Layout,
        extents: &[i64],
        along: &[Along],
    ) -> ValueId {
        for (d, &a) in along.iter().enumerate() {
            let Along::Line { line, .. } = a else { continue };
            let (frame, n) = (layout.dims[d].clone(), extents[d]);
            let (from, to) = round.elements(a.full(), n);
            let line = &round.plan.lines[line];
            // Elements `by` further on.
            let window = |by: i64| Window {
                scale: line.block,
                offset: frame.offset + from + by,
                divisor: 1,
                length: to - from,
                useful: (frame.offset, frame.offset + n),
            };
            if !line.is_ring {
                value = self.fetch(value, d, &frame, &window(0));
                continue;
            }
            let wanted = [0, n, -n].map(|by| (value, frame.clone(), window(by)));
            let parts = self.fetch_many(&wanted, d);
            value = parts[0];
            for (part, (lo, hi)) in [(parts[1], (-n, 0)), (parts[2], (n, 2 * n))] {
                let element = self.element_numbers(line.atoms.as_slice(), line.block, from, to);
                let mask = self.in_range(element, lo, hi);
                let dims = self.local.dims(value);
                let mask = self.local.broadcast(mask, &dims, &[d as i64]);
                value = self.local.select(mask, part, value);
            }
        }
        value
    }

    /// The numbers of the elements from `from` to `to` of this shard's block.
    fn element_numbers(&mut self, atoms: &[u8], block: i64, from: i64, to: i64) -> ValueId {
        let start = self.local.shard_offset(atoms, block, from);
        let iota = self.local.iota(&[to - from], 0, self.local.index);
        let start = self.local.broadcast(start, &[to - from], &[]);
        self.local.same(OpKind::Binary(BinaryOp::Add), &[iota, start])
    }

    /// The numbers of the elements that an array of the turn holds along a line; on a ring all are in `0 .. extent`.
    fn numbers_along(&mut self, round: &Round<'_>, along: Along) -> Option<ValueId> {
        let Along::Line { line, .. } = along else { return None };
        let (from, to) = round.elements(along, 0);
        let line = round.plan.lines[line].clone();
        let rounds_more = if line.is_ring { 3 * line.extent } else { 0 };
        let numbers = self.element_numbers(line.atoms.as_slice(), line.block, from + rounds_more, to + rounds_more);
        if !line.is_ring {
            return Some(numbers);
        }
        let by = self.local.index_splat(&[to - from], line.extent);
        Some(self.local.same(OpKind::Binary(BinaryOp::Remainder), &[numbers, by]))
    }

    /// Which of `numbers` are in `lo..hi`.
    fn in_range(&mut self, numbers: ValueId, lo: i64, hi: i64) -> ValueId {
        let dims = self.local.dims(numbers);
        let (low, high) = (self.local.index_splat(&dims, lo), self.local.index_splat(&dims, hi));
        let above = self.local.compare(Direction::Ge, numbers, low);
        let below = self.local.compare(Direction::Lt, numbers, high);
        self.local.same(OpKind::Binary(BinaryOp::And), &[above, below])
    }

    /// Which elements of an array of `dims` that holds `along` are in `lo..hi` along dimension `d`.
    fn mask_along(&mut self, round: &Round<'_>, dims: &[i64], along: Along, d: usize, range: (i64, i64)) -> ValueId {
        let numbers = match self.numbers_along(round, along) {
            Some(numbers) => numbers,
            None => self.local.iota(&[dims[d]], 0, self.local.index),
        };
        let mask = self.in_range(numbers, range.0, range.1);
        self.local.broadcast(mask, dims, &[d as i64])
    }

    /// The part of `value`, which holds `own`, that holds `wanted`.
    fn shorten(
        &mut self,
        round: &Round<'_>,
        mut value: ValueId,
        extents: &[i64],
        own: &[Along],
        wanted: &[Along],
    ) -> ValueId {
        for (d, (own, wanted)) in own.iter().zip(wanted).enumerate() {
            let ((from, _), (lo, hi)) = (round.elements(*own, extents[d]), round.elements(*wanted, extents[d]));
            value = self.local.slice(value, d, lo - from, hi - from);
        }
        value
    }

    /// One turn. What it returns holds what `wanted` says of what its argument holds; elements that are not known are zero.
    fn wide_turn(
        &mut self,
        round: &mut Round<'_>,
        args: &[ValueId],
        wanted: impl Fn(&Round<'_>, Along) -> Along,
    ) -> Result<Vec<ValueId>> {
        let plan = round.plan;
        let own = self.src.block(plan.body).args().to_vec();
        round.values =
            own.iter().copied().zip(args.iter().copied()).filter(|(v, _)| plan.spans.contains_key(v)).collect();
        for op in self.src.op_list(plan.body) {
            if !self.src.op(op).kind().is_terminator() && plan.spans.contains_key(&self.src.op(op).results()[0]) {
                self.local.loc = self.src.op(op).loc.clone();
                self.local.pos = self.src.op(op).pos;
                self.wide_op(round, op)?;
            }
        }
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

    /// `v` as long as `wanted` says, with zeros where it holds less.
    fn returned(&mut self, round: &Round<'_>, v: ValueId, wanted: &[Along]) -> Result<ValueId> {
        let Some(own) = round.plan.spans.get(&v) else { return self.array(round, v, wanted) };
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
        if let Some(own) = plan.spans.get(&v) {
            let extents = self.extents(v);
            return Ok(self.shorten(round, round.values[&v], &extents, own, wanted));
        }
        let v = plan.outer(v);
        if wanted.is_empty() {
            return self.get(v, &Layout::replicated(&[]));
        }
        if is_outside(self, plan, v) && !is_free(self, plan, v, 0) {
            let full: Vec<Along> = wanted.iter().map(|a| a.full()).collect();
            let known = plan.outside.iter().position(|(other, along)| *other == v && *along == full);
            let Some(value) = known.map(|i| round.outside[i]) else {
                return self.unsupported(plan.op, "internal error: an array from outside the loop is missing");
            };
            let extents = self.extents(v);
            return Ok(self.shorten(round, value, &extents, &full, wanted));
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
        let along = round.plan.spans[&results[0]].clone();
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
                let mask = self.mask_along(round, &dims, along[d], d, (low[d], low[d] + extents[d]));
                let fill = self.local.broadcast(fill, &dims, &[]);
                value = self.local.select(mask, value, fill);
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
                        let mask = self.mask_along(round, &dims, along[dim], dim, (start, start + n));
                        self.local.select(mask, piece, under)
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
            let own = self.mask_along(round, &dims, along[d], d, (lo, hi));
            mask = Some(match mask {
                None => own,
                Some(mask) => self.local.same(OpKind::Binary(BinaryOp::And), &[mask, own]),
            });
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
                let mask = self.mask_along(round, &dims, own, d, (0, n));
                let fill = self.local.broadcast(fill, &dims, &[]);
                operands[array] = self.local.select(mask, value, fill);
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
