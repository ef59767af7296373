//! Writing the per-device program: local operations, shard indices and masks.
//!
//! A thin layer over the module's own [`Builder`], which infers result types. It adds a place that moves between blocks,
//! shortcuts for operations along one dimension, and values that depend on the device.

use meshwork_ir::build::{BuildError, Builder, Window};
use meshwork_ir::hash::HashMap;
use meshwork_ir::identity::{identity, neutral, nothing};
use meshwork_ir::op::{BinaryOp, MixedOp, SourceOp};
use meshwork_ir::{
    Attr, BlockId, Combine, Direction, ElementClass, ElementType, Literal, Loc, Module, OpId, OpKind, OpSpec,
    TensorType, TextPos, Type, ValueId,
};

use crate::layout::DimLayout;
use crate::layout::atoms::{AtomList, Atoms};

/// Appends operations to one block of the per-device program.
pub struct LocalBuilder<'a> {
    /// The per-device program.
    pub module: Module,
    /// Where operations go: the end of this block,
    pub block: BlockId,
    /// or just before this operation of it.
    pub before: Option<OpId>,
    /// The mesh in atoms.
    pub atoms: &'a Atoms,
    /// Element type of shard indices and positions: wide enough for every extent.
    pub index: ElementType,
    /// Location given to new operations.
    pub loc: Loc,
    /// Position in the text given to new operations.
    pub pos: TextPos,
    /// The first operation whose operands did not fit.
    pub failure: Option<BuildError>,
    entry: BlockId,
    last_prologue: Option<OpId>,
    device: Option<ValueId>,
    shard_indices: HashMap<AtomList, ValueId>,
    masks: HashMap<(DimLayout, i64), ValueId>,
}

impl<'a> LocalBuilder<'a> {
    /// Writes into `entry` of `module`. Shard indices and masks go to its start, where every use can see them.
    pub fn new(module: Module, entry: BlockId, atoms: &'a Atoms, index: ElementType) -> LocalBuilder<'a> {
        LocalBuilder {
            module,
            block: entry,
            before: None,
            atoms,
            index,
            loc: Loc::unknown(),
            pos: TextPos::default(),
            failure: None,
            entry,
            last_prologue: None,
            device: None,
            shard_indices: HashMap::default(),
            masks: HashMap::default(),
        }
    }

    /// Integers as numbers of the index type; what does not fit becomes its least or greatest.
    pub fn in_index_type(&mut self, v: ValueId) -> ValueId {
        let (elem, index) = (self.elem(v), self.index);
        if elem == index {
            return v;
        }
        let (signed, bits) = (elem.class() == ElementClass::Signed, elem.bits());
        let mut value = v;
        if bits > index.bits() || (bits == index.bits() && !signed) {
            let high = i64::MAX >> (64 - index.bits());
            let low = if signed { -high - 1 } else { 0 };
            let mut scalar = |n: i64| self.splat(&[], elem, &n.to_le_bytes()[..elem.storage_bytes()]);
            let (low, high) = (scalar(low), scalar(high));
            let ty = self.type_of(v);
            value = self.op(OpKind::Mixed(MixedOp::Clamp), &[low, v, high], ty, &[]);
        }
        let ty = Type::tensor(self.dims(v), index);
        self.op(OpKind::Mixed(MixedOp::Convert), &[value], ty, &[])
    }

    /// The tensor type of a local value.
    pub fn tensor(&self, v: ValueId) -> &TensorType {
        self.module.ty(v).as_tensor().expect("the partitioner emits tensors only")
    }

    /// Local extents of a value.
    pub fn dims(&self, v: ValueId) -> Vec<i64> {
        self.tensor(v).dims.to_vec()
    }

    /// Element type of a value.
    pub fn elem(&self, v: ValueId) -> ElementType {
        self.tensor(v).elem
    }

    /// Bytes of a value.
    pub fn bytes(&self, v: ValueId) -> i64 {
        let t = self.tensor(v);
        t.dims.iter().product::<i64>() * t.elem.storage_bytes() as i64
    }

    /// Appends `spec` and returns the operation.
    pub fn push(&mut self, mut spec: OpSpec) -> OpId {
        if !spec.loc.is_known() {
            spec.loc = self.loc.clone();
        }
        spec.pos = self.pos;
        match self.before {
            Some(anchor) => self.module.push_before(anchor, spec),
            None => self.module.push(self.block, spec),
        }
    }

    /// Builds an operation at this place. Its operands fit by construction; if they do not, the error is kept for the
    /// splitter to report, and a value of type `expected` stands in for the result until it does.
    fn build(
        &mut self,
        expected: &Type,
        make: impl FnOnce(&mut Builder<'_>) -> Result<ValueId, BuildError>,
    ) -> ValueId {
        let mut builder = match self.before {
            Some(anchor) => Builder::before(&mut self.module, anchor),
            None => Builder::at_end(&mut self.module, self.block),
        };
        builder.set_loc(self.loc.clone());
        builder.set_pos(self.pos);
        make(&mut builder).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            let op = self.push(OpSpec::new(SourceOp::Constant).results([expected.clone()]));
            self.module.result(op)
        })
    }

    /// The type of a value.
    fn type_of(&self, v: ValueId) -> Type {
        self.module.ty(v).clone()
    }

    /// Appends an operation with one result of type `ty`.
    pub fn op(&mut self, kind: OpKind, operands: &[ValueId], ty: Type, attrs: &[(&str, Attr)]) -> ValueId {
        let mut spec = OpSpec::new(kind).operands(operands.iter().copied()).results([ty.clone()]);
        for (name, value) in attrs {
            spec.attrs.set(*name, value.clone());
        }
        self.build(&ty, |b| b.value(spec))
    }

    /// An operation whose result has the type of its first operand.
    pub fn same(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        self.build(&self.type_of(operands[0]), |b| b.apply(kind, operands))
    }

    /// A constant.
    pub fn constant(&mut self, literal: &Literal) -> ValueId {
        self.build(&literal.ty(), |b| b.constant(literal))
    }

    /// A constant with every element equal to `bytes`.
    pub fn splat(&mut self, dims: &[i64], elem: ElementType, bytes: &[u8]) -> ValueId {
        self.build(&Type::tensor(dims.iter().copied(), elem), |b| b.splat_bytes(dims, elem, bytes))
    }

    /// All zeros.
    pub fn zeros(&mut self, dims: &[i64], elem: ElementType) -> ValueId {
        self.splat(dims, elem, &vec![0; elem.storage_bytes()])
    }

    /// A real number everywhere.
    pub fn splat_number(&mut self, dims: &[i64], elem: ElementType, number: f64) -> ValueId {
        let mut bytes = vec![];
        meshwork_ir::float::write(elem, number, &mut bytes);
        self.splat(dims, elem, &bytes)
    }

    /// A real number everywhere, of an element type that may be complex.
    pub fn real(&mut self, dims: &[i64], elem: ElementType, number: f64) -> ValueId {
        let mut bytes = vec![];
        meshwork_ir::float::write(elem.real_part(), number, &mut bytes);
        bytes.resize(elem.storage_bytes(), 0);
        self.splat(dims, elem, &bytes)
    }

    /// The product of stacks of matrices `[batch, _, _]` over these dimensions of theirs.
    pub fn product(&mut self, a: ValueId, b: ValueId, over: [i64; 2]) -> ValueId {
        let (x, y) = (self.dims(a), self.dims(b));
        let free = |dims: &[i64], over: i64| dims[3 - over as usize];
        let ty = Type::tensor([x[0], free(&x, over[0]), free(&y, over[1])], self.elem(a));
        self.build(&ty, |e| e.dot_over(a, b, [&[0], &[0]], [&over[..1], &over[1..]]))
    }

    /// A scalar of the index type.
    pub fn index_constant(&mut self, value: i64) -> ValueId {
        let bytes = value.to_le_bytes();
        self.splat(&[], self.index, &bytes[..self.index.storage_bytes()])
    }

    /// The same number of the index type everywhere.
    pub fn index_splat(&mut self, dims: &[i64], value: i64) -> ValueId {
        let bytes = value.to_le_bytes();
        self.splat(dims, self.index, &bytes[..self.index.storage_bytes()])
    }

    /// `v` of integers combined along `dim`, which is dropped.
    pub fn reduce(&mut self, v: ValueId, dim: usize, combine: Combine) -> ValueId {
        let t = self.tensor(v).clone();
        let mut dims = t.dims.to_vec();
        dims.remove(dim);
        let bytes = identity(combine, t.elem).unwrap_or_else(|| vec![0; t.elem.storage_bytes()]);
        let init = self.splat(&[], t.elem, &bytes);
        let ty = Type::tensor(dims, t.elem);
        self.build(&ty, |b| b.reduce_by(combine.op(), v, init, &[dim as i64]))
    }

    /// Each element of `v` with all before it along `dim` added.
    pub fn cumulative_sum(&mut self, v: ValueId, dim: usize) -> ValueId {
        let t = self.tensor(v).clone();
        let (mut sizes, mut padding) = (vec![1; t.rank()], vec![(0, 0); t.rank()]);
        (sizes[dim], padding[dim]) = (t.dims[dim], (t.dims[dim] - 1, 0));
        let window = Window { sizes, padding, ..Window::default() };
        let init = self.zeros(&[], t.elem);
        let add = OpKind::Binary(BinaryOp::Add);
        self.build(&t.into(), |b| Ok(b.reduce_window(&[v], &[init], &window, |b, args| Ok([b.apply(add, args)?]))?[0]))
    }

    /// A scalar identity of a reduction; `None` where there is none.
    pub fn identity(&mut self, combine: Combine, elem: ElementType) -> Option<ValueId> {
        let bytes = identity(combine, elem)?;
        Some(self.splat(&[], elem, &bytes))
    }

    /// A scalar that combined with any `x` gives `x`; `None` where there is none.
    pub fn neutral(&mut self, combine: Combine, elem: ElementType) -> Option<ValueId> {
        let bytes = neutral(combine, elem)?;
        Some(self.splat(&[], elem, &bytes))
    }

    /// A scalar that added to any `x` gives `x` to the bit.
    pub fn nothing(&mut self, elem: ElementType) -> ValueId {
        self.splat(&[], elem, &nothing(elem))
    }

    /// `operand[.., lo..hi, ..]` along `dim`; the operand itself if that is all of it.
    pub fn slice(&mut self, v: ValueId, dim: usize, lo: i64, hi: i64) -> ValueId {
        self.strided_slice(v, dim, lo, hi, 1)
    }

    /// `operand[.., lo..hi step stride, ..]` along `dim`.
    pub fn strided_slice(&mut self, v: ValueId, dim: usize, lo: i64, hi: i64, stride: i64) -> ValueId {
        let mut limits = self.dims(v);
        if lo == 0 && hi == limits[dim] && stride == 1 {
            return v;
        }
        let (mut starts, mut strides) = (vec![0; limits.len()], vec![1; limits.len()]);
        (starts[dim], limits[dim], strides[dim]) = (lo, hi, stride);
        self.build(&self.type_of(v), |b| b.slice(v, &starts, &limits, &strides))
    }

    /// Pads (or with negative amounts cuts) `dim` with the scalar `fill`.
    pub fn pad_with(&mut self, v: ValueId, dim: usize, low: i64, high: i64, interior: i64, fill: ValueId) -> ValueId {
        if low == 0 && high == 0 && interior == 0 {
            return v;
        }
        let rank = self.tensor(v).rank();
        let amounts = |amount: i64| {
            let mut all = vec![0; rank];
            all[dim] = amount;
            all
        };
        self.build(&self.type_of(v), |b| b.pad(v, fill, &amounts(low), &amounts(high), &amounts(interior)))
    }

    /// Pads `dim` with zeros.
    pub fn pad(&mut self, v: ValueId, dim: usize, low: i64, high: i64) -> ValueId {
        if low == 0 && high == 0 {
            return v;
        }
        let elem = self.elem(v);
        let zero = self.zeros(&[], elem);
        self.pad_with(v, dim, low, high, 0, zero)
    }

    /// Joins values along `dim`; empty ones are left out unless all are.
    pub fn concatenate(&mut self, parts: &[ValueId], dim: usize) -> ValueId {
        let mut kept: Vec<ValueId> = parts.iter().copied().filter(|&p| self.tensor(p).dims[dim] != 0).collect();
        if kept.is_empty() {
            kept.push(parts[0]);
        }
        if let [only] = kept[..] {
            return only;
        }
        self.build(&self.type_of(kept[0]), |b| b.concatenate(&kept, dim as i64))
    }

    /// `length` elements along `dim` from the scalar `start`; the usual clamping applies.
    pub fn dynamic_slice(&mut self, v: ValueId, dim: usize, start: ValueId, length: i64) -> ValueId {
        let mut sizes = self.dims(v);
        if sizes[dim] == length {
            return v;
        }
        let zero = self.index_constant(0);
        let starts: Vec<ValueId> = (0..sizes.len()).map(|d| if d == dim { start } else { zero }).collect();
        sizes[dim] = length;
        self.build(&self.type_of(v), |b| b.dynamic_slice(v, &starts, &sizes))
    }

    /// `v` with `part` along `dim` from the scalar `start`; the usual clamping applies.
    pub fn update_slice(&mut self, v: ValueId, part: ValueId, dim: usize, start: ValueId) -> ValueId {
        let zero = self.index_constant(0);
        let starts: Vec<ValueId> = (0..self.tensor(v).rank()).map(|d| if d == dim { start } else { zero }).collect();
        self.build(&self.type_of(v), |b| b.dynamic_update_slice(v, part, &starts))
    }

    /// Other extents, same elements.
    pub fn reshape(&mut self, v: ValueId, dims: &[i64]) -> ValueId {
        if self.tensor(v).dims[..] == *dims {
            return v;
        }
        let ty = Type::tensor(dims.iter().copied(), self.elem(v));
        self.build(&ty, |b| b.reshape(v, dims.iter().copied()))
    }

    /// `v` spread over `dims`, its dimension `i` along `along[i]`.
    pub fn broadcast(&mut self, v: ValueId, dims: &[i64], along: &[i64]) -> ValueId {
        if self.tensor(v).dims[..] == *dims {
            return v;
        }
        let ty = Type::tensor(dims.iter().copied(), self.elem(v));
        self.build(&ty, |b| b.broadcast_in_dim(v, dims.iter().copied(), along))
    }

    /// `0, 1, ..` along `dim` in the index type.
    pub fn iota(&mut self, dims: &[i64], dim: usize, elem: ElementType) -> ValueId {
        let ty = Type::tensor(dims.iter().copied(), elem);
        self.build(&ty, |b| b.iota(ty.clone(), dim as i64))
    }

    /// `on_true` where `mask` holds, else `on_false`.
    pub fn select(&mut self, mask: ValueId, on_true: ValueId, on_false: ValueId) -> ValueId {
        self.build(&self.type_of(on_true), |b| b.select(mask, on_true, on_false))
    }

    /// Element-wise comparison of signed integers.
    pub fn compare(&mut self, direction: Direction, a: ValueId, b: ValueId) -> ValueId {
        let ty = self.tensor(a).with_elem(ElementType::I1).into();
        let attrs = [
            ("comparison_direction", Attr::hlo_enum("comparison_direction", direction.text())),
            ("compare_type", Attr::hlo_enum("comparison_type", "SIGNED")),
        ];
        self.op(OpKind::Mixed(MixedOp::Compare), &[a, b], ty, &attrs)
    }

    /// Emits what `make` emits at the start of the function instead of here.
    fn in_prologue<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let (block, before, loc) = (self.block, self.before.take(), std::mem::take(&mut self.loc));
        let scratch = self.module.block(self.entry).last();
        self.block = self.entry;
        let made = make(self);
        // Move what was appended to the end of the entry block up behind the earlier prologue.
        let mut op = match scratch {
            Some(last) => self.module.next_op(last),
            None => self.module.block(self.entry).first(),
        };
        while let Some(this) = op {
            op = self.module.next_op(this);
            self.module.detach(this);
            match (self.last_prologue, self.module.block(self.entry).first()) {
                (Some(anchor), _) => self.module.insert_after(anchor, this),
                (None, _) => self.module.prepend(self.entry, this),
            }
            self.last_prologue = Some(this);
        }
        (self.block, self.before, self.loc) = (block, before, loc);
        made
    }

    /// Position of this device in row-major mesh order, a scalar of the index type.
    fn device_position(&mut self) -> ValueId {
        if let Some(v) = self.device {
            return v;
        }
        let (index, ids) = (self.index, self.atoms.mesh().device_ids().map(<[i64]>::to_vec));
        let v = self.in_prologue(|e| {
            let id = e.op(OpKind::Source(SourceOp::PartitionId), &[], Type::tensor([], ElementType::UI32), &[]);
            let id = e.op(OpKind::Mixed(MixedOp::Convert), &[id], Type::tensor([], index), &[]);
            let Some(ids) = ids else { return id };
            // Device ids are permuted: a table leads back to positions.
            let mut positions = vec![0i64; ids.len()];
            for (position, &device) in ids.iter().enumerate() {
                positions[device as usize] = position as i64;
            }
            let size = index.storage_bytes();
            let bytes = positions.iter().flat_map(|p| p.to_le_bytes()[..size].to_vec()).collect();
            let table = Literal::from_bytes([ids.len() as i64], index, bytes).expect("one entry a device");
            let table = e.constant(&table);
            let position = e.dynamic_slice(table, 0, id, 1);
            e.reshape(position, &[])
        });
        self.device = Some(v);
        v
    }

    /// This device's shard index along `list`, a scalar of the index type.
    pub fn shard_index(&mut self, list: &[u8]) -> ValueId {
        let key: AtomList = list.iter().copied().collect();
        if let Some(&v) = self.shard_indices.get(&key) {
            return v;
        }
        let device = if list.is_empty() { None } else { Some(self.device_position()) };
        let v = self.in_prologue(|e| {
            let mut sum: Option<ValueId> = None;
            let mut rest = e.atoms.product(list);
            // Runs of atoms that are neighbors in mesh order are one division and one remainder.
            for (stride, size) in runs(e.atoms, list) {
                rest /= size;
                let mut part = device.expect("there is at least one atom");
                if stride > 1 {
                    let by = e.index_constant(stride);
                    part = e.same(OpKind::Binary(BinaryOp::Divide), &[part, by]);
                }
                if stride * size < e.atoms.mesh().device_count() {
                    let by = e.index_constant(size);
                    part = e.same(OpKind::Binary(BinaryOp::Remainder), &[part, by]);
                }
                if rest > 1 {
                    let by = e.index_constant(rest);
                    part = e.same(OpKind::Binary(BinaryOp::Multiply), &[part, by]);
                }
                sum = Some(sum.map_or(part, |s| e.same(OpKind::Binary(BinaryOp::Add), &[s, part])));
            }
            sum.unwrap_or_else(|| e.index_constant(0))
        });
        self.shard_indices.insert(key, v);
        v
    }

    /// Whether this is the device with id `device`: a scalar `i1`.
    pub fn is_device(&mut self, device: i64) -> ValueId {
        let atoms = self.atoms;
        let position = (0..atoms.mesh().device_count()).find(|&p| atoms.device(p) == device).unwrap_or(-1);
        let (here, there) = (self.shard_index(&atoms.all()), self.index_constant(position));
        self.compare(Direction::Eq, here, there)
    }

    /// `scale * shard index + offset`, a scalar of the index type.
    pub fn shard_offset(&mut self, list: &[u8], scale: i64, offset: i64) -> ValueId {
        let t = self.shard_index(list);
        let by = self.index_constant(scale);
        let mut v = self.same(OpKind::Binary(BinaryOp::Multiply), &[t, by]);
        if offset != 0 {
            let plus = self.index_constant(offset);
            v = self.same(OpKind::Binary(BinaryOp::Add), &[v, plus]);
        }
        v
    }

    /// Which positions of a block hold elements of an extent of `n`: a vector of `i1`; `None` if all do.
    pub fn element_mask(&mut self, frame: &DimLayout, n: i64) -> Option<ValueId> {
        if frame.is_full(n, self.atoms) {
            return None;
        }
        let key = (frame.clone(), n);
        if let Some(&v) = self.masks.get(&key) {
            return Some(v);
        }
        self.shard_index(&frame.atoms);
        let v = self.in_prologue(|e| e.position_mask(frame, frame.offset, frame.offset + n));
        self.masks.insert(key, v);
        Some(v)
    }

    /// Which positions of a block are in `lo..hi` of the line: a vector of `i1`.
    pub fn position_mask(&mut self, frame: &DimLayout, lo: i64, hi: i64) -> ValueId {
        let start = self.shard_offset(&frame.atoms, frame.block, 0);
        let iota = self.iota(&[frame.block], 0, self.index);
        let start = self.broadcast(start, &[frame.block], &[]);
        let position = self.same(OpKind::Binary(BinaryOp::Add), &[iota, start]);
        let line = frame.block * self.atoms.product(&frame.atoms);
        let bound = |e: &mut Self, direction: Direction, at: i64| {
            let at = e.index_constant(at);
            let at = e.broadcast(at, &[frame.block], &[]);
            e.compare(direction, position, at)
        };
        match (lo > 0, hi < line) {
            (false, _) => bound(self, Direction::Lt, hi),
            (true, false) => bound(self, Direction::Ge, lo),
            (true, true) => {
                let (above, below) = (bound(self, Direction::Ge, lo), bound(self, Direction::Lt, hi));
                self.same(OpKind::Binary(BinaryOp::And), &[above, below])
            }
        }
    }

    /// `v` with `fill` (a scalar) wherever the vector `mask` along `dim` does not hold.
    pub fn mask_dim(&mut self, v: ValueId, dim: usize, mask: ValueId, fill: ValueId) -> ValueId {
        let dims = self.dims(v);
        let mask = self.broadcast(mask, &dims, &[dim as i64]);
        let fill = self.broadcast(fill, &dims, &[]);
        self.select(mask, v, fill)
    }
}

/// Strides and sizes of the runs of `list` that are neighbors in mesh order.
fn runs(atoms: &Atoms, list: &[u8]) -> Vec<(i64, i64)> {
    let mut out: Vec<(i64, i64)> = vec![];
    for &a in list {
        let info = atoms.info(a);
        match out.last_mut() {
            Some((stride, size)) if *stride == info.stride * info.size => {
                *stride = info.stride;
                *size *= info.size;
            }
            _ => out.push((info.stride, info.size)),
        }
    }
    out
}
