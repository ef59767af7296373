//! The moves of a reshard: each takes a form of a value and gives another form of the same value.

use meshwork_ir::op::{CollectiveOp, ControlOp};
use meshwork_ir::{Attr, Combine, ElementType, OpId, OpKind, OpSpec, TensorType, Type, ValueId};

use crate::collective::{Collective, CollectiveKind, Origin, Peers, wire_bytes};
use crate::layout::atoms::{AtomList, Atoms};
use crate::layout::{DimLayout, Layout};
use crate::split::Splitter;

/// A local value and how it is on the devices.
#[derive(Clone, Debug)]
pub struct Form {
    /// The local value.
    pub value: ValueId,
    /// Its layout.
    pub layout: Layout,
}

impl Splitter<'_> {
    /// Appends a collective on `operand` and records it.
    fn collective(
        &mut self,
        kind: CollectiveKind,
        op_kind: OpKind,
        operand: ValueId,
        result: Type,
        peers: Peers,
        attrs: Vec<(&'static str, Attr)>,
    ) -> ValueId {
        if self.local.bytes(operand) == 0 {
            // Nothing to exchange, and StableHLO has no collectives of empty tensors.
            let elem = self.local.elem(operand);
            return self.local.zeros(result.dims(), elem);
        }
        let mut spec = OpSpec::new(op_kind).operands([operand]).results([result]);
        for (name, value) in attrs {
            spec.attrs.set(name, value);
        }
        if matches!(
            op_kind,
            OpKind::Collective(CollectiveOp::AllGather | CollectiveOp::AllReduce | CollectiveOp::ReduceScatter)
        ) {
            spec.attrs.set("use_global_device_ids", Attr::Unit);
        }
        let op = self.local.push(spec);
        if let CollectiveKind::AllReduce(combine) | CollectiveKind::ReduceScatter(combine) = kind {
            let elem = self.local.elem(operand);
            self.combine_body(op, combine, Type::tensor([], elem));
        }
        let operand_bytes = self.local.bytes(operand);
        self.record(kind, peers, operand_bytes, op);
        self.local.module.result(op)
    }

    /// Notes a collective in the plan; `emitted` is the operation of the per-device program.
    pub fn record(&mut self, kind: CollectiveKind, peers: Peers, operand_bytes: i64, emitted: OpId) {
        let wire_bytes = wire_bytes(&kind, &peers, operand_bytes, self.atoms);
        let reason = self.reason.clone();
        self.collectives.push(Collective {
            kind,
            peers,
            operand_bytes,
            wire_bytes,
            times: self.times,
            times_unknown: self.times_unknown,
            emitted,
            origins: vec![Origin { site: self.site, tensor: self.tensor, reason, wire_bytes }],
        });
    }

    fn combine_body(&mut self, op: OpId, combine: Combine, ty: Type) {
        let body = self.local.module.add_body(op, [ty.clone(), ty.clone()]);
        let args = self.local.module.block(body).args().to_vec();
        let kind = combine.op();
        let inner = self.local.module.push(body, OpSpec::new(kind).operands(args).results([ty]));
        let result = self.local.module.result(inner);
        self.local.module.push(body, OpSpec::new(ControlOp::HloReturn).operands([result]));
    }

    /// Joins the last `count` atoms of `dim`: every device of the group then holds all their blocks.
    pub fn all_gather(&mut self, form: Form, extents: &[i64], dim: usize, count: usize) -> Form {
        let Form { value, mut layout } = form;
        let frame = &mut layout.dims[dim];
        let group: AtomList = frame.atoms.drain(frame.atoms.len() - count..).collect();
        let size = self.atoms.product(&group);
        frame.block *= size;
        let t = self.local.tensor(value).clone();
        let ty = scaled(&t, dim, size, 1).into();
        let attrs = vec![("all_gather_dim", Attr::i64(dim as i64))];
        let value = self.collective(
            CollectiveKind::AllGather,
            OpKind::Collective(CollectiveOp::AllGather),
            value,
            ty,
            Peers::Group(group),
            attrs,
        );
        self.trim(Form { value, layout }, extents, dim)
    }

    /// Joins the group's local values along `dim`.
    pub fn gather_lines(&mut self, value: ValueId, dim: usize, list: &[u8]) -> ValueId {
        let t = self.local.tensor(value).clone();
        let ty = scaled(&t, dim, self.atoms.product(list), 1).into();
        let attrs = vec![("all_gather_dim", Attr::i64(dim as i64))];
        self.collective(
            CollectiveKind::AllGather,
            OpKind::Collective(CollectiveOp::AllGather),
            value,
            ty,
            Peers::Group(list.into()),
            attrs,
        )
    }

    /// An unsplit dimension has no frame: cuts off what is not an element.
    pub(super) fn trim(&mut self, form: Form, extents: &[i64], dim: usize) -> Form {
        let Form { mut value, mut layout } = form;
        let frame = &layout.dims[dim];
        if !frame.is_split() {
            value = self.local.slice(value, dim, frame.offset, frame.offset + extents[dim]);
            layout.dims[dim] = DimLayout::whole(extents[dim]);
        }
        Form { value, layout }
    }

    /// Splits `dim` further by `list`, each device keeping its block. No communication, unless blocks do not divide.
    pub fn split(&mut self, form: Form, extents: &[i64], dim: usize, list: &[u8]) -> Form {
        let size = self.atoms.product(list);
        let form = self.divisible(form, extents, dim, size);
        let Form { value, mut layout } = form;
        let frame = &mut layout.dims[dim];
        frame.block /= size;
        frame.atoms.extend(list.iter().copied());
        let block = frame.block;
        let start = self.local.shard_offset(list, block, 0);
        let value = self.local.dynamic_slice(value, dim, start, block);
        Form { value, layout }
    }

    /// Makes the block of `dim` a multiple of `size` that can hold the ordinary split.
    fn divisible(&mut self, form: Form, extents: &[i64], dim: usize, size: i64) -> Form {
        let (frame, n) = (&form.layout.dims[dim], extents[dim]);
        if frame.is_split() {
            if frame.block % size == 0 {
                return form;
            }
            let parts = self.atoms.product(&frame.atoms) * size;
            let block = (n + parts - 1) / parts * size;
            let target = DimLayout { atoms: frame.atoms.clone(), block, offset: 0 };
            return self.reframe(form, extents, dim, &target);
        }
        let block = (n + size - 1) / size * size;
        let Form { value, mut layout } = form;
        let value = self.local.pad(value, dim, 0, block - n);
        layout.dims[dim].block = block;
        Form { value, layout }
    }

    /// Moves the last `count` atoms of dimension `from` to the end of dimension `to`.
    pub fn all_to_all(&mut self, form: Form, extents: &[i64], from: usize, to: usize, count: usize) -> Form {
        let atoms = &form.layout.dims[from].atoms;
        let group: AtomList = atoms[atoms.len() - count..].iter().copied().collect();
        let size = self.atoms.product(&group);
        let form = self.divisible(form, extents, to, size);
        let Form { value, mut layout } = form;
        let frame = &mut layout.dims[from];
        frame.atoms.truncate(frame.atoms.len() - count);
        frame.block *= size;
        let frame = &mut layout.dims[to];
        frame.atoms.extend(group.iter().copied());
        frame.block /= size;
        let t = self.local.tensor(value).clone();
        let ty = scaled(&scaled(&t, from, size, 1), to, 1, size).into();
        let attrs = vec![
            ("split_dimension", Attr::i64(to as i64)),
            ("concat_dimension", Attr::i64(from as i64)),
            ("split_count", Attr::i64(size)),
        ];
        let value = self.collective(
            CollectiveKind::AllToAll,
            OpKind::Collective(CollectiveOp::AllToAll),
            value,
            ty,
            Peers::Group(group),
            attrs,
        );
        self.trim(Form { value, layout }, extents, from)
    }

    /// Each device along `list` gets one of the pieces into which `dim` is cut from every other, in their order.
    pub fn exchange(&mut self, value: ValueId, dim: usize, list: &[u8]) -> ValueId {
        let ty = self.local.module.ty(value).clone();
        let attrs = vec![
            ("split_dimension", Attr::i64(dim as i64)),
            ("concat_dimension", Attr::i64(dim as i64)),
            ("split_count", Attr::i64(self.atoms.product(list))),
        ];
        self.collective(
            CollectiveKind::AllToAll,
            OpKind::Collective(CollectiveOp::AllToAll),
            value,
            ty,
            Peers::Group(list.into()),
            attrs,
        )
    }

    /// Lets atoms trade places: `lists` splits each dimension in as many shards as now, by other atoms.
    pub fn relabel(&mut self, form: Form, lists: &[AtomList]) -> Form {
        let Form { value, mut layout } = form;
        let pairs = relabel_pairs(&layout, lists, &self.paths.manual, self.atoms);
        for (frame, list) in layout.dims.iter_mut().zip(lists) {
            frame.atoms = list.clone();
        }
        let ty = self.local.module.ty(value).clone();
        let value = if pairs.is_empty() { value } else { self.permute(value, ty, Peers::Relabel(pairs)) };
        Form { value, layout }
    }

    /// Lets the atoms of `dim` stand in another order: every shard goes to the device that has its index then.
    pub fn reorder(&mut self, form: Form, dim: usize, list: &AtomList) -> Form {
        let Form { value, mut layout } = form;
        let peers = reorder_peers(&layout.dims[dim].atoms, list, self.atoms);
        layout.dims[dim].atoms = list.clone();
        let ty = self.local.module.ty(value).clone();
        Form { value: self.permute(value, ty, peers), layout }
    }

    /// Sends `value` along `peers`; a device nothing sends to gets zeros.
    pub fn permute(&mut self, value: ValueId, ty: Type, peers: Peers) -> ValueId {
        self.collective(
            CollectiveKind::Permute,
            OpKind::Collective(CollectiveOp::CollectivePermute),
            value,
            ty,
            peers,
            vec![],
        )
    }

    /// What `device` holds, on every device.
    pub fn broadcast(&mut self, value: ValueId, device: i64) -> ValueId {
        let all = self.atoms.all();
        let elem = self.local.elem(value);
        let combine = if elem == ElementType::I1 { Combine::Or } else { Combine::Add };
        let nothing = self.local.nothing(elem);
        let here = self.local.is_device(device);
        let dims = self.local.dims(value);
        let (mask, fill) = (self.local.broadcast(here, &dims, &[]), self.local.broadcast(nothing, &dims, &[]));
        let part = self.local.select(mask, value, fill);
        if all.is_empty() {
            return part;
        }
        let ty = self.local.module.ty(part).clone();
        let kind = CollectiveKind::AllReduce(combine);
        self.collective(kind, OpKind::Collective(CollectiveOp::AllReduce), part, ty, Peers::Group(all), vec![])
    }

    /// Combines a partial value over `list`, a subset of its partial atoms.
    pub fn all_reduce(&mut self, form: Form, list: &[u8]) -> Form {
        let Form { value, mut layout } = form;
        let Some((mut rest, combine)) = layout.partial.take() else { return Form { value, layout } };
        rest.retain(|a| !list.contains(a));
        let ty = self.local.module.ty(value).clone();
        let kind = CollectiveKind::AllReduce(combine);
        let value = self.collective(
            kind,
            OpKind::Collective(CollectiveOp::AllReduce),
            value,
            ty,
            Peers::Group(list.into()),
            vec![],
        );
        Form { value, layout: layout.with_partial(rest, combine) }
    }

    /// Combines a partial value over `list` and splits `dim` by the same atoms.
    pub fn reduce_scatter(&mut self, form: Form, extents: &[i64], dim: usize, list: &[u8]) -> Form {
        let size = self.atoms.product(list);
        let form = self.divisible(form, extents, dim, size);
        let Form { value, mut layout } = form;
        let Some((mut rest, combine)) = layout.partial.take() else { return Form { value, layout } };
        rest.retain(|a| !list.contains(a));
        let frame = &mut layout.dims[dim];
        frame.block /= size;
        frame.atoms.extend(list.iter().copied());
        let t = self.local.tensor(value).clone();
        let ty = scaled(&t, dim, 1, size).into();
        let attrs = vec![("scatter_dimension", Attr::i64(dim as i64))];
        let kind = CollectiveKind::ReduceScatter(combine);
        let value = self.collective(
            kind,
            OpKind::Collective(CollectiveOp::ReduceScatter),
            value,
            ty,
            Peers::Group(list.into()),
            attrs,
        );
        Form { value, layout: layout.with_partial(rest, combine) }
    }
}

fn scaled(t: &TensorType, dim: usize, times: i64, by: i64) -> TensorType {
    let mut dims = t.dims.clone();
    dims[dim] = dims[dim] * times / by;
    t.with_dims(dims)
}

/// Which shard goes where when a dimension is split by the same atoms in the order `to` instead of `from`.
pub fn reorder_peers(from: &[u8], to: &[u8], atoms: &Atoms) -> Peers {
    let parts = atoms.product(from);
    // Shard t is wanted by the device whose index along `to` is t; a line counts devices along `from`.
    let moves = (0..parts).map(|t| (t, atoms.index_at(from, atoms.with_index(to, 0, t)))).collect();
    Peers::Line { atoms: from.into(), moves }
}

/// Which coordinate becomes which when the dimensions of `layout` are split by `lists` instead, so that every device
/// gets a shard that some device holds. Atoms that split neither before nor after keep their coordinate, and so do the
/// `manual` ones.
pub fn relabel_pairs(layout: &Layout, lists: &[AtomList], manual: &[u8], atoms: &Atoms) -> Vec<(u8, u8)> {
    let mut pairs: Vec<(u8, u8)> =
        layout.dims.iter().zip(lists).flat_map(|(d, l)| d.atoms.iter().copied().zip(l.iter().copied())).collect();
    // Atoms set free and atoms newly used pair up by size: what was a replica index becomes another.
    let movable = atoms.without(manual);
    let freed: Vec<u8> = movable.iter().copied().filter(|a| !pairs.iter().any(|(f, _)| f == a)).collect();
    let mut taken: Vec<u8> = movable.iter().copied().filter(|a| !pairs.iter().any(|(_, t)| t == a)).collect();
    for a in freed {
        let keep = taken.iter().position(|&t| t == a);
        let at = keep.or_else(|| taken.iter().position(|&t| atoms.size(t) == atoms.size(a)));
        if let Some(i) = at {
            pairs.push((a, taken.remove(i)));
        }
    }
    pairs.retain(|(f, t)| f != t);
    pairs
}
