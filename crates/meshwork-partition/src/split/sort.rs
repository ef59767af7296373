//! Sorting along a split dimension: each device sorts its block, blocks trade pieces cut at exact ranks, and each device
//! merges what it gets.
//!
//! Pieces have lengths that are data, so they travel in a `ragged_all_to_all`: no device sends more than its block. Equal
//! elements stand in the order of their devices, then of their places, so the result is that of a stable sort. Positions
//! behind the end of the dimension hold keys that come last; there they stay, behind all elements.
//!
//! Where gathering the dimension, or moving the split to another one, is predicted to be faster, that is done instead.

use meshwork_ir::comparator::{self, Key, Part};
use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{CollectiveOp, ControlOp, MovementOp};
use meshwork_ir::{Attr, OpId, OpKind, OpSpec, Type, ValueId};
use meshwork_propagate::rules::{RuleResult, splitting_rule};
use smallvec::SmallVec;

use super::ranks::rounds_of;
use super::{Result, Splitter};
use crate::algorithm::{Algorithm, Use};
use crate::collective::{CollectiveKind, Peers};
use crate::layout::{DimLayout, Layout};
use crate::plan::human_bytes;
use crate::reshard::moves::Form;

/// Samples times devices that one device compares in a round, at most: beyond it they take more memory than is spared.
const MOST_COMPARED: i64 = 1 << 24;

/// A sort whose dimension stays split.
pub(super) struct Sort {
    pub op: OpId,
    /// The operands that take part: keys, and those whose results are used.
    pub operands: Vec<usize>,
    /// The sorted dimension, and its extent.
    pub dim: usize,
    pub n: i64,
    /// How it is split.
    pub frame: DimLayout,
    pub keys: Vec<Key>,
}

/// What a distributed sort takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bill {
    /// Bytes that a device sends, at most.
    pub sent: f64,
    pub seconds: f64,
}

/// The sorted dimension of `op`, a sort of arrays of this rank.
pub(crate) fn sorted_dim(dimension: Option<i64>, rank: usize) -> Option<usize> {
    let dim = dimension.unwrap_or(-1);
    let dim = if dim < 0 { dim + rank as i64 } else { dim };
    usize::try_from(dim).ok().filter(|&d| d < rank)
}

impl Splitter<'_> {
    /// Splits a `sort`.
    pub fn sort(&mut self, op: OpId) -> Result<()> {
        let Some((sort, layout, mut bill)) = self.distributed_sort(op) else { return self.generic(op) };
        let RuleResult::Rule(rule) = splitting_rule(self.src, op) else { return self.generic(op) };
        let problem = self.problem(op, rule, None);
        let assignment = self.choose(&problem).assignment;
        let other = self.cost(&problem, &assignment);
        let results = self.src.op(op).results().to_vec();
        for r in sort.operands.iter().map(|&i| results[i]) {
            let (want, extents) = (self.want(r), self.extents(r));
            let sent = self.paths.cost(&layout, &want, &extents, self.atoms) * self.element_bytes(r);
            bill.sent += sent;
            bill.seconds += sent / (self.fastest * 1e9);
        }
        let slower = bill.seconds >= other.seconds(&problem.work, &self.machine, self.fastest);
        if slower && self.algorithms.of(Algorithm::Sort) == Use::Weighed {
            return self.generic(op);
        }
        let (least, most) = (human_bytes(other.sent), human_bytes(bill.sent));
        self.reason = format!(
            "{}: blocks trade pieces cut at exact ranks (at most {most} sent; bringing lines together would send {least})",
            Algorithm::Sort
        )
        .into();
        let mut values = vec![];
        for &i in &sort.operands {
            values.push(self.get(self.src.op(op).operands()[i], &layout)?);
        }
        for (&i, value) in sort.operands.iter().zip(self.sort_across(&sort, values)?) {
            self.set(results[i], Form { value, layout: layout.clone() });
        }
        Ok(())
    }

    /// The way to sort `op` with its dimension split, the layout for that, and what it takes to bring operands there and
    /// sort them. `None` if the dimension is not split, the order is not known, or the algorithm is switched off.
    fn distributed_sort(&mut self, op: OpId) -> Option<(Sort, Layout, Bill)> {
        if self.algorithms.of(Algorithm::Sort) == Use::Never {
            return None;
        }
        let data = self.src.op(op);
        let (operands, results) = (data.operands().to_vec(), data.results().to_vec());
        let is_used = |i: usize| !self.src.value(results[i]).uses().is_empty();
        let extents = self.extents(*operands.first()?);
        let dim = sorted_dim(data.int("dimension"), extents.len())?;
        let keys = comparator::keys(self.src, self.src.body_of(op, 0)?)?;
        if extents.contains(&0) {
            return None;
        }
        let part = |&i: &usize| is_used(i) || keys.iter().any(|k| k.operand == i);
        let taking_part: Vec<usize> = (0..operands.len()).filter(part).collect();
        let mut found: Option<(Layout, Bill)> = None;
        let placed: Vec<Layout> = operands.iter().map(|&v| self.current(v)).collect();
        let wanted: Vec<Layout> = results.iter().map(|&r| self.want(r)).collect();
        for lists in placed.iter().chain(&wanted).map(Layout::lists).filter(|lists| !lists[dim].is_empty()) {
            let layout = Layout::ordinary(&extents, &lists, self.atoms);
            let full = layout.dims[dim].is_full(extents[dim], self.atoms);
            if !full && keys.iter().any(|k| k.last().is_none()) {
                continue;
            }
            let p = self.atoms.product(&lists[dim]);
            let rows = layout.local_elements() / layout.dims[dim].block.max(1);
            if rows.saturating_mul(p * p).saturating_mul(rounds_of(extents[dim], p).0) > MOST_COMPARED {
                continue;
            }
            let bill = self.sort_bill(&operands, (&taking_part, &keys), dim, &layout);
            if found.as_ref().is_none_or(|f| bill.seconds < f.1.seconds) {
                found = Some((layout, bill));
            }
        }
        let (layout, bill) = found?;
        let frame = layout.dims[dim].clone();
        Some((Sort { op, operands: taking_part, dim, n: extents[dim], frame, keys }, layout, bill))
    }

    /// What it takes to bring those of `operands` that take part to `layout` and to sort them there along `dim`.
    fn sort_bill(
        &mut self,
        operands: &[ValueId],
        (taking_part, keys): (&[usize], &[Key]),
        dim: usize,
        layout: &Layout,
    ) -> Bill {
        let frame = &layout.dims[dim];
        let (p, elements) = (self.atoms.product(&frame.atoms) as f64, layout.local_elements() as f64);
        let rows = elements / frame.block.max(1) as f64;
        let index = self.local.index.storage_bytes() as f64;
        let (samples, rounds) = rounds_of(self.extents(operands[0])[dim], p as i64);
        let key_bytes: f64 = key_operands(keys).iter().map(|&i| self.element_bytes(operands[i])).sum();
        let round = (p - 1.0) * rows * (samples as f64 * key_bytes + 2.0 * index);
        let operands: Vec<ValueId> = taking_part.iter().map(|&i| operands[i]).collect();
        let element: f64 = operands.iter().map(|&v| self.element_bytes(v)).sum();
        let own = elements * element + rounds as f64 * round + (p - 1.0) * p * rows * index;
        let brought: f64 = operands.iter().map(|&v| self.cost_to(v, layout)).sum();
        let slowness = self.atoms.slowness(&frame.atoms);
        let latency = self.hop_seconds(&frame.atoms);
        let exchanges = 2.0 * rounds as f64 + 1.0 + operands.len() as f64;
        // Two sorts of the block, one before and one after.
        let work = 2.0 * elements * (frame.block.max(2) as f64).log2();
        let seconds = (brought + own * slowness) / (self.fastest * 1e9)
            + latency * (p - 1.0) * exchanges
            + self.machine.device.seconds(work, 4.0 * elements * element);
        Bill { sent: brought + own, seconds }
    }

    /// Sorts local blocks into blocks of the sorted whole.
    fn sort_across(&mut self, sort: &Sort, values: Vec<ValueId>) -> Result<Vec<ValueId>> {
        let shapes: Vec<Vec<i64>> = values.iter().map(|&v| self.local.dims(v)).collect();
        let rows: Vec<ValueId> = values.into_iter().map(|v| self.as_rows(v, sort.dim)).collect();
        let rows = self.hide_ends(sort, rows);
        let rows = self.sort_rows(sort.op, &sort.operands, &rows, &[])?;
        let sizes = self.piece_sizes(sort, &rows)?;
        let mut received = vec![];
        for &value in &rows {
            received.push(self.trade_pieces(value, sizes, &sort.frame.atoms));
        }
        let rows = self.hide_ends(sort, received);
        let rows = self.sort_rows(sort.op, &sort.operands, &rows, &[])?;
        Ok(rows.into_iter().zip(shapes).map(|(v, dims)| self.rows_back(v, sort.dim, &dims)).collect())
    }

    /// A local value as rows along `dim`.
    pub(super) fn as_rows(&mut self, value: ValueId, dim: usize) -> ValueId {
        let rank = self.local.dims(value).len();
        let order: Vec<usize> = (0..rank).filter(|&d| d != dim).chain([dim]).collect();
        let value = self.transposed(value, &order);
        let dims = self.local.dims(value);
        let length = dims[rank - 1];
        self.local.reshape(value, &[dims[..rank - 1].iter().product(), length])
    }

    /// Rows along `dim` as a local value of these extents but for `dim`, which is as long as the rows.
    pub(super) fn rows_back(&mut self, rows: ValueId, dim: usize, dims: &[i64]) -> ValueId {
        let rank = dims.len();
        let mut moved: Vec<i64> = (0..rank).filter(|&d| d != dim).map(|d| dims[d]).collect();
        moved.push(self.local.dims(rows)[1]);
        let value = self.local.reshape(rows, &moved);
        let mut order: Vec<usize> = (0..rank - 1).collect();
        order.insert(dim, rank - 1);
        self.transposed(value, &order)
    }

    /// A local value with its dimensions in another order.
    fn transposed(&mut self, value: ValueId, order: &[usize]) -> ValueId {
        if order.iter().enumerate().all(|(i, &d)| i == d) {
            return value;
        }
        let t = self.local.tensor(value).clone();
        let ty = t.with_dims(order.iter().map(|&d| t.dims[d]).collect::<SmallVec<[i64; 4]>>()).into();
        let attrs = [("permutation", Attr::i64s(order.iter().map(|&d| d as i64)))];
        self.local.op(OpKind::Movement(MovementOp::Transpose), &[value], ty, &attrs)
    }

    /// Rows of which the positions behind the end of the dimension hold keys that come last.
    fn hide_ends(&mut self, sort: &Sort, mut rows: Vec<ValueId>) -> Vec<ValueId> {
        let Some(mask) = self.local.element_mask(&sort.frame, sort.n) else { return rows };
        for operand in key_operands(&sort.keys) {
            let Some(at) = sort.operands.iter().position(|&o| o == operand) else { continue };
            let elem = self.local.elem(rows[at]);
            let mut fill = vec![0; elem.storage_bytes()];
            for key in sort.keys.iter().filter(|k| k.operand == operand) {
                let bytes = key.last().unwrap_or_default();
                let start = if key.part == Part::Imaginary { bytes.len() } else { 0 };
                fill[start..start + bytes.len()].copy_from_slice(&bytes);
            }
            let fill = self.local.splat(&[], elem, &fill);
            rows[at] = self.local.mask_dim(rows[at], 1, mask, fill);
        }
        rows
    }

    /// Rows sorted, equal ones as they were: `values` of the operands `operands` of the sort `op`, among which all its keys
    /// are, and `others`, which go along.
    pub(super) fn sort_rows(
        &mut self,
        op: OpId,
        operands: &[usize],
        values: &[ValueId],
        others: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let all: Vec<ValueId> = values.iter().chain(others).copied().collect();
        let types: Vec<Type> = all.iter().map(|&v| self.local.module.ty(v).clone()).collect();
        let spec = OpSpec::new(self.src.op(op).kind()).operands(all.iter().copied()).results(types.clone());
        let made = self.local.push(spec.attr("dimension", Attr::i64(1)).attr("is_stable", Attr::Bool(true)));
        let scalars = types.iter().filter_map(Type::elem).flat_map(|e| [Type::tensor([], e), Type::tensor([], e)]);
        let block = self.local.module.add_body(made, scalars.collect::<Vec<_>>());
        let args = self.local.module.block(block).args().to_vec();
        let mut map = HashMap::default();
        let Some(body) = self.src.body_of(op, 0) else { return self.unsupported(op, "a sort without a comparator") };
        for (i, &arg) in self.src.block(body).args().iter().enumerate() {
            let local = match operands.iter().position(|&o| o == i / 2) {
                Some(at) => args[2 * at + i % 2],
                None => {
                    // No key: what it would be does not matter.
                    let Some(elem) = self.src.ty(arg).elem() else { continue };
                    let place = (self.local.block, self.local.before);
                    (self.local.block, self.local.before) = (block, None);
                    let zero = self.local.zeros(&[], elem);
                    (self.local.block, self.local.before) = place;
                    zero
                }
            };
            map.insert(arg, local);
        }
        let before = self.local.before.replace(made);
        let copied = self.copy_block(body, block, &mut map);
        self.local.before = before;
        copied?;
        debug_assert!(
            self.local
                .module
                .terminator(block)
                .is_some_and(|t| { self.local.module.op(t).kind() == OpKind::Control(ControlOp::HloReturn) })
        );
        Ok(self.local.module.op(made).results().to_vec())
    }

    /// Rows of pieces from all devices along `list`; `sizes` says how long those of each are.
    fn trade_pieces(&mut self, rows: ValueId, sizes: ValueId, list: &[u8]) -> ValueId {
        let ty = self.local.module.ty(rows).clone();
        let kind = OpKind::Collective(CollectiveOp::RaggedAllToAll);
        let made = self.local.push(OpSpec::new(kind).operands([rows, sizes]).results([ty]));
        let bytes = self.local.bytes(rows);
        self.record(CollectiveKind::RaggedAllToAll, Peers::Group(list.into()), bytes, made);
        self.local.module.result(made)
    }
}

/// The operands that have a key, in order, each once.
pub(super) fn key_operands(keys: &[Key]) -> Vec<usize> {
    let mut operands: Vec<usize> = keys.iter().map(|k| k.operand).collect();
    operands.sort_unstable();
    operands.dedup();
    operands
}
