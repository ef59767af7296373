//! Slices, pads, concatenations and reversals of split dimensions: frames first, fetches where frames do not fit.

use meshwork_ir::op::{BinaryOp, BodyOp, MovementOp};
use meshwork_ir::{Attr, Combine, OpId, OpKind, Type, ValueId};

use super::frames::is_small;
use super::{Result, Splitter};
use crate::collective::Peers;
use crate::layout::{DimLayout, Layout};
use crate::reshard::fetch::Window;
use crate::reshard::moves::Form;

/// A piece of a result along one dimension.
struct Piece {
    value: ValueId,
    start: i64,
    end: i64,
}

impl Splitter<'_> {
    /// The form of `v` that a movement starts from: how it was produced, or as wanted if it is made on demand.
    fn source(&mut self, v: ValueId) -> Result<Form> {
        if let Some(form) = self.produced(v) {
            return Ok(form.clone());
        }
        let layout = self.want(v);
        Ok(Form { value: self.get(v, &layout)?, layout })
    }

    /// Splits a slice. Unit strides of a split dimension move its frame and no data.
    pub fn slice(&mut self, op: OpId) -> Result<()> {
        let (operand, result) = (self.src.op(op).operands()[0], self.src.op(op).results()[0]);
        let (src_extents, extents) = (self.extents(operand), self.extents(result));
        let starts = self.src.op(op).i64s("start_indices").unwrap_or_default();
        let limits = self.src.op(op).i64s("limit_indices").unwrap_or_default();
        let strides = self.src.op(op).i64s("strides").unwrap_or_default();
        let Form { mut value, mut layout } = self.source(operand)?;
        self.reason = "the slice takes elements from neighbours".into();
        for d in 0..extents.len() {
            let (start, limit, stride) = (starts[d], limits[d], strides[d]);
            let frame = layout.dims[d].clone();
            if !frame.is_split() {
                value = self.local.strided_slice(value, d, start, limit, stride);
                layout.dims[d] = DimLayout::whole(extents[d]);
            } else if stride == 1 {
                layout.dims[d].offset += start;
            } else {
                let target = DimLayout::split(extents[d], frame.atoms.clone(), self.atoms);
                let first = frame.offset + start;
                let window = Window {
                    scale: target.block * stride,
                    offset: first,
                    divisor: 1,
                    length: (target.block - 1).max(0) * stride + i64::from(target.block > 0),
                    useful: (first, frame.offset + limit),
                };
                let fetched = self.fetch(value, d, &frame, &window);
                value = self.local.strided_slice(fetched, d, 0, window.length, stride);
                layout.dims[d] = target;
            }
        }
        let form = Form { value, layout };
        // A small part of a large line is not worth its padding, unless it is only put back somewhere.
        let put_back = self.src.value(result).uses().iter().all(|u| {
            matches!(
                self.src.op(u.op).kind(),
                OpKind::Movement(MovementOp::Concatenate | MovementOp::DynamicUpdateSlice)
                    | OpKind::Body(BodyOp::Scatter)
            )
        });
        let small = !put_back
            && (0..extents.len()).any(|d| form.layout.dims[d].is_split() && is_small(extents[d], src_extents[d]));
        let form = if small {
            let target = self.small_part(result, &form.layout, &src_extents, &extents);
            self.reshard(form, &target, &extents)
        } else {
            form
        };
        self.set(result, form);
        Ok(())
    }

    /// Splits a pad, with negative and interior padding.
    pub fn pad(&mut self, op: OpId) -> Result<()> {
        let [operand, fill] = self.src.op(op).operands()[..] else {
            return self.unsupported(op, "a pad takes an operand and a padding value");
        };
        let result = self.src.op(op).results()[0];
        let (src_extents, extents) = (self.extents(operand), self.extents(result));
        let low = self.src.op(op).i64s("edge_padding_low").unwrap_or_default();
        let high = self.src.op(op).i64s("edge_padding_high").unwrap_or_default();
        let interior = self.src.op(op).i64s("interior_padding").unwrap_or_default();
        let fill = self.get(fill, &Layout::replicated(&[]))?;
        let want = self.want(result);
        let Form { mut value, mut layout } = self.source(operand)?;
        if layout.partial.take().is_some() {
            // What is filled in would be added once for every part.
            value = self.get(operand, &layout)?;
        }
        self.reason = "the padding shifts elements to neighbours".into();
        for d in 0..extents.len() {
            let frame = layout.dims[d].clone();
            if !frame.is_split() {
                value = self.local.pad_with(value, d, low[d], high[d], interior[d], fill);
                layout.dims[d] = DimLayout::whole(extents[d]);
                continue;
            }
            if low[d] == 0 && high[d] == 0 && interior[d] == 0 {
                continue;
            }
            let (n, step) = (src_extents[d], interior[d] + 1);
            let line = frame.block * self.atoms.product(&frame.atoms);
            let kept = DimLayout { offset: frame.offset - low[d], ..frame.clone() };
            let target = if step == 1 && kept.offset >= 0 && kept.offset + extents[d] <= line {
                kept
            } else if want.dims[d].atoms == frame.atoms {
                want.dims[d].clone()
            } else {
                DimLayout::split(extents[d], frame.atoms.clone(), self.atoms)
            };
            value = self.pad_dim(value, d, &frame, &target, n, extents[d], low[d], step, fill);
            layout.dims[d] = target;
        }
        self.set(result, Form { value, layout });
        Ok(())
    }

    /// Pads one split dimension: element `s` of `n` goes to `s*step + low` of `result`, in frame `target`.
    #[allow(clippy::too_many_arguments)] // the numbers of one pad
    fn pad_dim(
        &mut self,
        value: ValueId,
        d: usize,
        frame: &DimLayout,
        target: &DimLayout,
        n: i64,
        result: i64,
        low: i64,
        step: i64,
        fill: ValueId,
    ) -> ValueId {
        let block = target.block;
        // Position P of the result line holds element s = (P - target.offset - low) / step.
        let length = if step == 1 { block } else { (block + step - 2) / step + 1 };
        let shift = frame.offset * step - target.offset - low;
        let first = (-low).max(0);
        let last = result - low; // behind the last result element, in units of elements times step
        let window = Window {
            scale: block,
            offset: shift,
            divisor: step,
            length,
            useful: (
                frame.offset + (first + step - 1) / step,
                frame.offset + n.min((last + step - 1).div_euclid(step)),
            ),
        };
        let mut value = self.fetch(value, d, frame, &window);
        if step > 1 {
            // Spread the elements and cut the block out by this shard's phase.
            value = self.local.pad_with(value, d, 0, step - 1, step - 1, fill);
            let phase = self.phase(target, shift, step);
            value = self.local.pad(value, d, 0, block);
            value = self.local.dynamic_slice(value, d, phase, block);
        }
        // Elements from max(low, 0) on, up to the last one that came from the operand; all else is padding.
        let from = target.offset + low.max(0);
        let to = target.offset + (low + (n - 1).max(0) * step + i64::from(n > 0)).min(result);
        let mask = self.local.position_mask(target, from, to.max(from));
        self.local.mask_dim(value, d, mask, fill)
    }

    /// Puts `step - 1` times `fill` between the elements of a split dimension: `(n, result, step)`.
    pub fn spread_dim(
        &mut self,
        value: ValueId,
        d: usize,
        frame: &DimLayout,
        target: &DimLayout,
        (n, result, step): (i64, i64, i64),
        fill: ValueId,
    ) -> ValueId {
        self.pad_dim(value, d, frame, target, n, result, 0, step, fill)
    }

    /// `(block*t + shift) mod step` as a scalar.
    fn phase(&mut self, target: &DimLayout, shift: i64, step: i64) -> ValueId {
        let positive = shift.rem_euclid(step);
        let sum = self.local.shard_offset(&target.atoms, target.block, positive);
        let by = self.local.index_constant(step);
        self.local.same(OpKind::Binary(BinaryOp::Remainder), &[sum, by])
    }

    /// Splits a concatenation: pieces that already stand where they belong are only selected.
    pub fn concatenate(&mut self, op: OpId) -> Result<()> {
        let operands = self.src.op(op).operands().to_vec();
        let result = self.src.op(op).results()[0];
        let dim = self.src.op(op).int("dimension").unwrap_or(0) as usize;
        let extents = self.extents(result);
        let target = self.want(result);
        if !target.dims[dim].is_split() {
            let mut locals = vec![];
            for &v in &operands {
                let mut layout = target.clone();
                layout.dims[dim] = DimLayout::whole(self.extents(v)[dim]);
                locals.push(self.get(v, &layout)?);
            }
            let value = self.local.concatenate(&locals, dim);
            self.set(result, Form { value, layout: target });
            return Ok(());
        }
        self.reason = "the pieces move to where they stand in the result".into();
        let mut pieces = vec![];
        let mut start = 0;
        for &v in &operands {
            let n = self.extents(v)[dim];
            if n > 0 {
                let mut layout = target.clone();
                layout.dims[dim].offset = start;
                pieces.push((v, layout, start));
            }
            start += n;
        }
        let pieces = self.place_pieces(&pieces, dim)?;
        let value = self.join(&target, dim, extents[dim], pieces, None)?;
        match value {
            Some(value) => self.set(result, Form { value, layout: target }),
            None => return self.whole(op),
        }
        Ok(())
    }

    /// Brings pieces into their frames; those cut from one value share permutes.
    fn place_pieces(&mut self, wanted: &[(ValueId, Layout, i64)], dim: usize) -> Result<Vec<Piece>> {
        let mut direct = vec![];
        for (v, layout, _) in wanted {
            let form = self.produced(*v).cloned();
            let fits =
                form.filter(|f| {
                    f.layout.partial.is_none()
                        && f.layout.dims.iter().enumerate().all(|(d, have)| {
                            have == &layout.dims[d] || (d == dim && have.atoms == layout.dims[d].atoms)
                        })
                });
            direct.push(fits);
        }
        if direct.iter().all(Option::is_some) {
            let windows: Vec<(ValueId, DimLayout, Window)> = wanted
                .iter()
                .zip(&direct)
                .filter_map(|((v, layout, _), form)| {
                    let form = form.as_ref()?;
                    let frame = form.layout.dims[dim].clone();
                    let window =
                        crate::reshard::fetch::reframe_window(&frame, &layout.dims[dim], self.extents(*v)[dim]);
                    Some((form.value, frame, window))
                })
                .collect();
            let values = self.fetch_many(&windows, dim);
            let pieces = wanted.iter().zip(values).map(|((v, _, start), value)| Piece {
                value,
                start: *start,
                end: start + self.extents(*v)[dim],
            });
            return Ok(pieces.collect());
        }
        let mut pieces = vec![];
        for (v, layout, start) in wanted {
            let value = self.get(*v, layout)?;
            pieces.push(Piece { value, start: *start, end: start + self.extents(*v)[dim] });
        }
        Ok(pieces)
    }

    /// Selects each piece where it stands, over `base` if given.
    fn join(
        &mut self,
        target: &Layout,
        dim: usize,
        n: i64,
        pieces: Vec<Piece>,
        base: Option<ValueId>,
    ) -> Result<Option<ValueId>> {
        let frame = target.dims[dim].clone();
        let mut value = base;
        for piece in pieces {
            value = Some(match value {
                None => piece.value,
                // Equal local values hold both pieces already.
                Some(under) if under == piece.value => under,
                Some(under) => {
                    let (lo, hi) = (frame.offset + piece.start, frame.offset + piece.end);
                    // The last piece may run on into the padding.
                    let hi = if piece.end == n { frame.block * self.atoms.product(&frame.atoms) } else { hi };
                    let mask = self.local.position_mask(&frame, lo, hi);
                    let dims = self.local.dims(under);
                    let mask = self.local.broadcast(mask, &dims, &[dim as i64]);
                    self.local.select(mask, piece.value, under)
                }
            });
        }
        Ok(value)
    }

    /// Writes `update` over `operand` at constant `starts`, or combines the two there: a select by position where the
    /// dimension is split.
    pub fn assign(
        &mut self,
        result: ValueId,
        operand: ValueId,
        update: ValueId,
        starts: &[i64],
        combine: Option<Combine>,
    ) -> Result<()> {
        let extents = self.extents(result);
        let update_extents = self.extents(update);
        let target = self.want(result);
        let base = self.get(operand, &target)?;
        // Where the update covers a dimension it has the frame of the operand; elsewhere its frame is shifted to its start.
        let mut layout = target.clone();
        for d in 0..extents.len() {
            if !layout.dims[d].is_split() {
                layout.dims[d] = DimLayout::whole(update_extents[d]);
            } else {
                layout.dims[d].offset += starts[d];
            }
        }
        self.reason = "the update moves to where it is written".into();
        let mut value = self.get(update, &layout)?;
        let mut mask: Option<ValueId> = None;
        let mut out = base;
        let fill = {
            let elem = self.local.elem(base);
            self.local.zeros(&[], elem)
        };
        let dims = self.local.dims(base);
        for d in 0..extents.len() {
            let (lo, hi) = (starts[d], starts[d] + update_extents[d]);
            if lo == 0 && hi == extents[d] {
                continue;
            }
            let frame = target.dims[d].clone();
            let vector = if frame.is_split() {
                self.local.position_mask(&frame, frame.offset + lo, frame.offset + hi)
            } else {
                value = self.local.pad_with(value, d, lo, extents[d] - hi, 0, fill);
                let whole = DimLayout::whole(extents[d]);
                self.local.position_mask(&whole, lo, hi)
            };
            let wide = self.local.broadcast(vector, &dims, &[d as i64]);
            mask = Some(match mask {
                None => wide,
                Some(m) => self.local.same(OpKind::Binary(BinaryOp::And), &[m, wide]),
            });
        }
        if let Some(combine) = combine {
            value = self.local.same(combine.op(), &[base, value]);
        }
        match mask {
            None => out = value,
            Some(mask) => out = self.local.select(mask, value, out),
        }
        self.set(result, Form { value: out, layout: target });
        Ok(())
    }

    /// Splits a reversal: shards trade places with their mirror images.
    pub fn reverse(&mut self, op: OpId) -> Result<()> {
        let (operand, result) = (self.src.op(op).operands()[0], self.src.op(op).results()[0]);
        let dims = self.src.op(op).i64s("dimensions").unwrap_or_default();
        let extents = self.extents(result);
        let Form { mut value, mut layout } = self.source(operand)?;
        self.reason = "shards trade places with their mirror images".into();
        let ty: Type = self.local.module.ty(value).clone();
        value = self.local.op(
            OpKind::Movement(MovementOp::Reverse),
            &[value],
            ty.clone(),
            &[("dimensions", Attr::i64s(dims.iter().copied()))],
        );
        for d in dims.into_iter().map(|d| d as usize) {
            let frame = &mut layout.dims[d];
            if frame.is_split() {
                let parts = self.atoms.product(&frame.atoms);
                let moves = (0..parts).map(|t| (t, parts - 1 - t)).collect();
                let peers = Peers::Line { atoms: frame.atoms.clone(), moves };
                frame.offset = frame.block * parts - frame.offset - extents[d];
                value = self.permute(value, ty.clone(), peers);
            }
        }
        self.set(result, Form { value, layout });
        Ok(())
    }
}
