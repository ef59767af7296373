//! From values of the module to the graph of one box.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BodyOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, OpId, OpKind, ValueId};

use super::affine::{self, Lin, Map};
use super::graph::{Graph, Id, Moved, Place};
use super::numbers::{self, Arithmetic, lane};
use super::range::{Devices, range};
use crate::compile::lower::Lower;
use crate::kernel::check;
use crate::kernel::ir::{BinaryOp, Combine, Ty};
use crate::library::Number;
use crate::step::View;

/// Why a box could not be built as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The box must be cut in two at position `at` of dimension `dim`, for the sake of `value`.
    Cut { dim: usize, at: i64, value: ValueId },
    /// `value` must be in memory first.
    Force(ValueId),
}

/// Builds the graph of one box.
pub(crate) struct Builder<'a, 'm> {
    pub cx: &'a Lower<'m>,
    /// The devices that the box is for.
    pub devices: Devices,
    pub graph: Graph,
    /// Extents of the domain.
    pub domain: &'a [i64],
    /// Whether a comparison with a fixed bound may cut the box.
    pub cut_masks: bool,
    memo: HashMap<(ValueId, Map), Id>,
}

/// What a gather reads at a position of its result.
struct Gathered {
    indices: ValueId,
    read: super::Pick,
    /// The element, while no index moves the window.
    place: Place,
    /// Per component of an index vector: how far it may move the window, and bytes of a step.
    moves: Vec<(i64, i64)>,
}

impl<'a, 'm> Builder<'a, 'm> {
    /// Nothing built yet for the box `lo..hi` of `domain`, whose dimensions from `split` on form the row.
    pub fn new(
        cx: &'a Lower<'m>,
        devices: Devices,
        domain: &'a [i64],
        split: Option<usize>,
        lo: &[i64],
        hi: &[i64],
    ) -> Self {
        let row_mask = split.map_or(0, |k| (k..domain.len()).fold(0, |m, d| m | 1 << d));
        let graph = Graph::new(lo, hi, row_mask);
        Builder { cx, devices, graph, domain, cut_masks: true, memo: HashMap::default() }
    }

    /// The node for `value` at `map`.
    pub fn value(&mut self, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let key = (value, map.to_vec());
        if let Some(&id) = self.memo.get(&key) {
            return Ok(id);
        }
        let id = match self.cx.view(value) {
            Some(view) => self.load(value, &view.clone(), map)?,
            None => {
                let op = self.cx.module.def_op(value).ok_or(Stop::Force(value))?;
                self.op(op, value, map)?
            }
        };
        self.memo.insert(key, id);
        Ok(id)
    }

    /// The element of `view` at `map`.
    fn place(&self, view: &View, map: &[Lin]) -> Place {
        let strides = vec![0; self.domain.len()];
        let mut place =
            Place { buf: view.buf, elem: view.elem, offset: view.offset, strides, moved: vec![], picked: false };
        for (l, &stride) in map.iter().zip(&view.strides) {
            place.offset += l.base * stride;
            if l.coef != 0 {
                place.strides[l.dim as usize] += l.coef * stride;
            }
        }
        place
    }

    /// The element at `map` of `value`, a slice of something in memory at a place that is data.
    fn moved(&mut self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let module = self.cx.module;
        let (&from, starts) = module.op(op).operands().split_first().ok_or(Stop::Force(value))?;
        let view = self.cx.view(from).ok_or(Stop::Force(from))?.clone();
        let mut place = self.place(&view, map);
        let sizes = module.ty(value).dims();
        for (d, &start) in starts.iter().enumerate() {
            let most = view.dims[d] - sizes[d];
            let by = Number::new(self.cx.view(start).ok_or(Stop::Force(start))?);
            if most > 0 {
                place.moved.push(Moved { by, along: vec![], most, stride: view.strides[d] });
            }
        }
        self.graph.load(place, None).ok_or(Stop::Force(value))
    }

    /// What the gather `op` reads for its result `value` at `map`.
    fn gathered(&self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Gathered, Stop> {
        let module = self.cx.module;
        let (&[from, indices], Some(Attr::Gather(numbers))) =
            (module.op(op).operands(), module.op(op).attr("dimension_numbers"))
        else {
            return Err(Stop::Force(value));
        };
        let view = self.cx.view(from).ok_or(Stop::Force(from))?;
        let sizes = module.op(op).i64s("slice_sizes").ok_or(Stop::Force(value))?;
        let read = super::Pick::new(numbers, view.dims.len(), module.ty(indices).dims().len(), map);
        let mut inside = vec![Lin::at(0); view.dims.len()];
        read.inside.iter().for_each(|&(d, l)| inside[d] = l);
        let moves = numbers.start_index_map.iter().map(|&d| d as usize);
        let moves = moves.map(|d| (view.dims[d] - sizes[d], view.strides[d])).collect();
        Ok(Gathered { indices, read, place: self.place(view, &inside), moves })
    }

    /// The element at `map` of `value`, a gather of rows from something in memory at places in memory.
    fn row(&mut self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let Gathered { indices, read, mut place, moves } = self.gathered(op, value, map)?;
        let places = self.cx.view(indices).ok_or(Stop::Force(indices))?;
        for (c, (most, stride)) in moves.into_iter().enumerate() {
            let Place { buf, elem, offset, strides, .. } = self.place(places, &read.read(c));
            let by = Number { buf, offset: offset as isize, elem };
            let along = if strides.iter().all(|&s| s == 0) { vec![] } else { strides };
            if most > 0 {
                place.moved.push(Moved { by, along, most, stride });
            }
        }
        self.graph.load(place, None).ok_or(Stop::Force(value))
    }

    /// The element at `map` of `value`, a gather from something in memory.
    fn pick(&mut self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let Gathered { indices, read, mut place, moves } = self.gathered(op, value, map)?;
        let mut at = self.graph.integer(Ty::I32, 0);
        for (c, (most, stride)) in moves.into_iter().enumerate() {
            let index = self.value(indices, &read.read(c))?;
            let mut inside = self.graph.bounded(index, most);
            if stride < 0 {
                // Places are counted from the first byte on.
                let last = self.graph.integer(Ty::I32, most);
                inside = self.graph.binary(BinaryOp::Subtract, last, inside);
                place.offset += most * stride;
            }
            let stride = self.graph.integer(Ty::I32, stride.abs());
            let bytes = self.graph.binary(BinaryOp::Multiply, inside, stride);
            at = self.graph.binary(BinaryOp::Add, at, bytes);
        }
        place.picked = true;
        self.graph.pick(place, at).ok_or(Stop::Force(value))
    }

    fn load(&mut self, value: ValueId, view: &View, map: &[Lin]) -> Result<Id, Stop> {
        let place = self.place(view, map);
        // One element of a constant: a weight of a stencil, say.
        let one = place.strides.iter().enumerate().all(|(d, &s)| s == 0 || self.graph.hi[d] - self.graph.lo[d] == 1);
        if let (Some(literal), Some(ty)) = (&self.cx.bufs[view.buf.0 as usize].constant, lane(view.elem))
            && one
            && literal.elem() == view.elem
        {
            let start: i64 = place.strides.iter().zip(&self.graph.lo).map(|(s, l)| s * l).sum();
            let at = (place.offset + start) / view.elem.storage_bytes() as i64;
            if let Some(word) = constant_bits(literal, at as usize, ty) {
                return Ok(self.graph.constant(ty, word));
            }
        }
        let bounds = if view.len() == 1 || view.strides.iter().all(|&s| s == 0) {
            range(self.cx.module, value, self.devices)
        } else {
            None
        };
        match (bounds, lane(view.elem)) {
            (Some((low, high)), Some(ty)) if low == high => Ok(self.graph.integer(ty, low)),
            _ => self.graph.load(place, bounds).ok_or(Stop::Force(value)),
        }
    }

    fn operand(&mut self, op: OpId, i: usize, map: &[Lin]) -> Result<Id, Stop> {
        let value = self.cx.module.op(op).operands()[i];
        // The bounds of a clamp and the predicate of a select may be scalars.
        let scalar = self.cx.module.ty(value).dims().is_empty();
        self.value(value, if scalar { &[] } else { map })
    }

    fn op(&mut self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let module = self.cx.module;
        let data = module.op(op);
        let ty = module.ty(value).elem().and_then(lane).ok_or(Stop::Force(value))?;
        match data.kind() {
            OpKind::Movement(
                MovementOp::Slice
                | MovementOp::Reverse
                | MovementOp::Transpose
                | MovementOp::BroadcastInDim
                | MovementOp::Broadcast
                | MovementOp::Reshape,
            ) => {
                let from = data.operands()[0];
                let Some(map) = affine::renamed(module, op, map) else {
                    // In memory it is another view of the same bytes.
                    let there = self.cx.view(from).is_some();
                    return Err(Stop::Force(if there { value } else { from }));
                };
                self.value(from, &map)
            }
            OpKind::Movement(MovementOp::BitcastConvert) => {
                let x = self.operand(op, 0, map)?;
                Ok(self.graph.bitcast(ty, x))
            }
            OpKind::Source(SourceOp::Iota) => {
                let dim = data.int("iota_dimension").unwrap_or(0) as usize;
                Ok(self.graph.position(ty, map[dim]))
            }
            OpKind::Movement(MovementOp::DynamicSlice) if super::is_moved_slice(module, op) => {
                self.moved(op, value, map)
            }
            OpKind::Movement(MovementOp::DynamicSlice) => {
                let starts = affine::offsets(module, op, self.devices).ok_or(Stop::Force(value))?;
                let map: Map = map.iter().zip(starts).map(|(l, start)| l.scaled(1, start)).collect();
                self.value(data.operands()[0], &map)
            }
            OpKind::Movement(MovementOp::Gather) if super::is_row_pick(module, op) => self.row(op, value, map),
            OpKind::Movement(MovementOp::Gather) => self.pick(op, value, map),
            OpKind::Movement(MovementOp::Pad) => self.pad(op, value, map),
            OpKind::Movement(MovementOp::Concatenate) => self.concatenate(op, value, map),
            OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => {
                self.window(op, value, map)
            }
            OpKind::Body(BodyOp::Reduce) if super::is_small_reduce(module, op) => {
                let combine = super::reduce_kind(module, op).ok_or(Stop::Force(value))?;
                let mut sum = None;
                for read in super::small_reads(module, op, map) {
                    let x = self.value(data.operands()[0], &read)?;
                    sum = Some(sum.map_or(x, |sum| self.graph.binary(combine.into(), sum, x)));
                }
                let init = self.value(data.operands()[1], &[])?;
                Ok(self.started(combine, init, sum.ok_or(Stop::Force(value))?))
            }
            OpKind::Body(BodyOp::Reduce) => {
                let combine = super::reduce_kind(module, op).ok_or(Stop::Force(value))?;
                let x = self.value(data.operands()[0], &affine::identity(self.domain.len()))?;
                let sum = self.graph.reduce(combine, x);
                let init = self.value(data.operands()[1], &[])?;
                Ok(self.started(combine, init, sum))
            }
            _ => self.arithmetic(op, map),
        }
    }

    /// A reduction that starts from `init`, which mostly changes nothing.
    pub fn started(&mut self, combine: Combine, init: Id, sum: Id) -> Id {
        let ty = self.graph.ty(sum);
        if super::is_neutral(combine, ty, &self.graph.nodes[init as usize].node) {
            return sum;
        }
        self.graph.binary(combine.into(), init, sum)
    }

    fn arithmetic(&mut self, op: OpId, map: &[Lin]) -> Result<Id, Stop> {
        let data = self.cx.module.op(op);
        let value = data.results()[0];
        let x = self.operand(op, 0, map)?;
        match data.kind() {
            OpKind::Mixed(MixedOp::Compare) => {
                let y = self.operand(op, 1, map)?;
                let text = data.enum_value("comparison_direction").unwrap_or_default();
                let f = numbers::direction(text).ok_or(Stop::Force(value))?;
                if self.cut_masks
                    && let Some((dim, at)) = self.graph.cut_of(f, x, y)
                {
                    return Err(Stop::Cut { dim, at, value });
                }
                return Ok(self.graph.compare(f, x, y));
            }
            // What is not chosen anywhere in the box need not be built.
            OpKind::Mixed(MixedOp::Select) => match self.graph.select_side(x) {
                Some(true) => return self.operand(op, 1, map),
                Some(false) => return self.operand(op, 2, map),
                None => {}
            },
            _ => {}
        }
        let mut operands = vec![x];
        for i in 1..data.operands().len() {
            operands.push(self.operand(op, i, map)?);
        }
        // What is not arithmetic is computed elsewhere.
        numbers::apply(&mut self.graph, self.cx.module, op, &operands).ok_or(Stop::Force(value))
    }

    /// Which side of `limit` the line is on; a cut if it is on both.
    fn side(&self, line: Lin, limit: i64, value: ValueId) -> Result<bool, Stop> {
        let (low, high) = line.range(&self.graph.lo, &self.graph.hi);
        if low >= limit {
            return Ok(true);
        }
        if high < limit {
            return Ok(false);
        }
        Err(Stop::Cut { dim: line.dim as usize, at: line.crossing(limit), value })
    }

    fn pad(&mut self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let module = self.cx.module;
        let data = module.op(op);
        let low = data.i64s("edge_padding_low").ok_or(Stop::Force(value))?;
        let from = module.ty(data.operands()[0]).dims();
        let inner: Map = map.iter().enumerate().map(|(d, l)| l.scaled(1, -low[d])).collect();
        for (d, &l) in inner.iter().enumerate() {
            if !self.side(l, 0, value)? || self.side(l, from[d], value)? {
                return self.value(data.operands()[1], &[]);
            }
        }
        self.value(data.operands()[0], &inner)
    }

    fn concatenate(&mut self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let module = self.cx.module;
        let data = module.op(op);
        let dim = data.int("dimension").unwrap_or(0) as usize;
        let mut start = 0;
        let mut last = None;
        for &part in data.operands() {
            let extent = module.ty(part).dims()[dim];
            if extent == 0 {
                continue;
            }
            if start > 0 && !self.side(map[dim], start, value)? {
                break;
            }
            last = Some((part, start));
            start += extent;
        }
        let (part, start) = last.ok_or(Stop::Force(value))?;
        let mut inner = map.to_vec();
        inner[dim] = inner[dim].scaled(1, -start);
        self.value(part, &inner)
    }

    fn window(&mut self, op: OpId, value: ValueId, map: &[Lin]) -> Result<Id, Stop> {
        let w = affine::window(self.cx.module, op).ok_or(Stop::Force(value))?;
        for (d, &l) in map.iter().enumerate() {
            if !self.side(l, w.start[d], value)? || self.side(l, w.start[d] + w.extent[d], value)? {
                return self.value(w.target, map);
            }
        }
        let rank = w.update_dims.iter().flatten().count();
        let mut inner = vec![Lin::at(0); rank];
        for (d, &to) in w.update_dims.iter().enumerate() {
            if let Some(to) = to {
                inner[to] = map[d].scaled(1, -w.start[d]);
            }
        }
        let new = self.value(w.update, &inner)?;
        let Some(kind) = w.combine else { return Ok(new) };
        let old = self.value(w.target, map)?;
        let ty = self.graph.ty(old);
        match kind {
            OpKind::Binary(f) if check::binary(f, ty) => Ok(self.graph.binary(numbers::on(f, ty), old, new)),
            _ => Err(Stop::Force(value)),
        }
    }
}

/// The bits of element `at` of a literal as a lane holds it.
pub(crate) fn constant_bits(literal: &meshwork_ir::Literal, at: usize, ty: Ty) -> Option<u64> {
    if at >= literal.len() {
        return None;
    }
    let element = meshwork_ir::Literal::from_bytes([], literal.elem(), literal.element(at).to_vec())?;
    Some(match ty {
        Ty::F32 => u64::from((element.to_f64s()[0] as f32).to_bits()),
        Ty::F64 => element.to_f64s()[0].to_bits(),
        _ => element.get_i64(0) as u64,
    })
}
