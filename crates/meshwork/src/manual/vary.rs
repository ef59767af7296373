//! Which values of a manual region may differ between devices, along which axes.
//!
//! A value differs along the axes that split its operands. A sum or a gather over an axis is the same on all of its
//! devices; what is scattered or sent along it is not. What a loop or a branch returns differs where its condition
//! does, or anything it uses.

use std::collections::{BTreeSet, HashMap};

use meshwork_ir::op::{CollectiveOp, ControlOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Module, Op, OpId, OpKind, ValueId};
use meshwork_mesh::Mesh;

type AxisSet = BTreeSet<String>;

/// The axes along which each value that `block` returns may differ. `args` are the axes of its arguments.
pub(super) fn returned(
    module: &Module,
    block: BlockId,
    args: Vec<(ValueId, Vec<String>)>,
    mesh: &Mesh,
) -> Vec<AxisSet> {
    let known = args.into_iter().map(|(v, axes)| (v, axes.into_iter().collect())).collect();
    let mut vary = Vary { module, mesh, known };
    vary.block(block);
    module.returned(block).iter().map(|v| vary.of(*v)).collect()
}

struct Vary<'m> {
    module: &'m Module,
    mesh: &'m Mesh,
    /// Values that are not here are the same everywhere.
    known: HashMap<ValueId, AxisSet>,
}

impl Vary<'_> {
    fn of(&self, v: ValueId) -> AxisSet {
        self.known.get(&v).cloned().unwrap_or_default()
    }

    /// Whether `v` was not known to differ along all of `axes`.
    fn add(&mut self, v: ValueId, axes: &AxisSet) -> bool {
        if axes.is_empty() {
            return false;
        }
        let own = self.known.entry(v).or_default();
        let before = own.len();
        own.extend(axes.iter().cloned());
        own.len() > before
    }

    fn block(&mut self, block: BlockId) {
        for op in self.module.op_list(block) {
            self.op(op);
        }
    }

    fn op(&mut self, id: OpId) {
        let op = self.module.op(id);
        let mut axes: AxisSet = op.operands().iter().flat_map(|v| self.of(*v)).collect();
        match op.kind() {
            OpKind::Collective(CollectiveOp::AllReduce | CollectiveOp::AllGather | CollectiveOp::CrossReplicaSum) => {
                let over = self.axes_of(op);
                axes.retain(|a| !over.contains(a));
            }
            OpKind::Collective(CollectiveOp::ReduceScatter | CollectiveOp::AllToAll | CollectiveOp::RaggedAllToAll) => {
                axes.extend(self.axes_of(op))
            }
            OpKind::Collective(CollectiveOp::CollectivePermute) => axes.extend(self.pair_axes(op)),
            OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId) => {
                axes.extend(self.mesh.axes().iter().map(|a| a.name.to_string()))
            }
            OpKind::Control(ControlOp::While) => return self.repeat(id),
            OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => return self.enclosed(id),
            _ if !op.regions().is_empty() => {
                // A branch, or the body of a reduction, which uses nothing but its arguments.
                for &region in op.regions() {
                    for &block in self.module.region(region).blocks() {
                        self.block(block);
                        axes.extend(self.module.returned(block).iter().flat_map(|v| self.of(*v)));
                    }
                }
            }
            _ => {}
        }
        for &v in op.results() {
            self.add(v, &axes);
        }
    }

    /// A region or frame inside: what goes in and out are the arguments and results of its body.
    fn enclosed(&mut self, id: OpId) {
        let op = self.module.op(id);
        let Some(body) = self.module.body_of(id, 0) else { return };
        for (&v, &arg) in op.operands().iter().zip(self.module.block(body).args()) {
            self.add(arg, &self.of(v));
        }
        self.block(body);
        for (&v, &r) in self.module.returned(body).iter().zip(op.results()) {
            self.add(r, &self.of(v));
        }
    }

    /// A loop, as often as that shows more values that differ.
    fn repeat(&mut self, id: OpId) {
        let op = self.module.op(id);
        let (cond, body) = (self.module.body_of(id, 0), self.module.body_of(id, 1));
        let (Some(cond), Some(body)) = (cond, body) else { return };
        let mut state: Vec<AxisSet> = op.operands().iter().map(|v| self.of(*v)).collect();
        loop {
            for block in [cond, body] {
                for (&arg, axes) in self.module.block(block).args().iter().zip(&state) {
                    self.add(arg, axes);
                }
                self.block(block);
            }
            let holds: AxisSet = self.module.returned(cond).iter().flat_map(|v| self.of(*v)).collect();
            let mut more = false;
            for (own, &v) in state.iter_mut().zip(self.module.returned(body)) {
                let before = own.len();
                own.extend(self.of(v));
                own.extend(holds.iter().cloned());
                more |= own.len() > before;
            }
            if !more {
                break;
            }
        }
        for (&v, axes) in op.results().iter().zip(&state) {
            self.add(v, axes);
        }
    }

    /// The axes that the groups of a collective are over.
    fn axes_of(&self, op: &Op) -> AxisSet {
        let groups: Vec<Vec<i64>> = match op.attr("replica_groups") {
            Some(Attr::GroupAxes(groups)) => {
                let whole = groups.axes.iter().filter(|axis| axis.is_full());
                return whole.map(|axis| axis.name.to_string()).collect();
            }
            Some(Attr::Dense(d)) => {
                let width = d.ty.dims.get(1).copied().unwrap_or(1).max(1) as usize;
                op.i64s("replica_groups").unwrap_or_default().chunks(width).map(<[i64]>::to_vec).collect()
            }
            _ => vec![],
        };
        let axes = self.along(groups.iter().flat_map(|g| g.iter().map(|&d| (g[0], d))));
        let devices: i64 = axes.iter().filter_map(|a| self.mesh.axis_size(a)).product();
        if groups.iter().all(|g| g.len() as i64 == devices) { axes } else { AxisSet::new() }
    }

    fn pair_axes(&self, op: &Op) -> AxisSet {
        let pairs = op.i64s("source_target_pairs").unwrap_or_default();
        let mut axes = self.along(pairs.chunks_exact(2).map(|p| (p[0], p[1])));
        // A device that is not sent to has zeros: axes along which some are and some are not make a difference too.
        let hears = |coordinates: &[i64]| {
            let device = self.mesh.device_at(coordinates);
            pairs.chunks_exact(2).any(|p| Some(p[1]) == device)
        };
        for position in 0..self.mesh.device_count() {
            let Some(here) = self.mesh.coordinates_at(position) else { continue };
            for (i, axis) in self.mesh.axes().iter().enumerate().filter(|(i, _)| here[*i] > 0) {
                let mut first = here.clone();
                first[i] = 0;
                if hears(&here) != hears(&first) {
                    axes.insert(axis.name.to_string());
                }
            }
        }
        axes
    }

    /// The axes along which the devices of any pair differ.
    fn along(&self, pairs: impl Iterator<Item = (i64, i64)>) -> AxisSet {
        let mut axes = AxisSet::new();
        for (a, b) in pairs {
            let (Some(a), Some(b)) = (self.mesh.coordinates(a), self.mesh.coordinates(b)) else { continue };
            let differ = (0..a.len()).filter(|&i| a[i] != b[i]);
            axes.extend(differ.map(|i| self.mesh.axes()[i].name.to_string()));
        }
        axes
    }
}
