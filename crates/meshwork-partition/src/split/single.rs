//! Other meshes at the borders: values in another device order, and operations that one device computes alone.

use std::sync::Arc;

use meshwork_ir::hash::HashSet;
use meshwork_ir::op::{ControlOp, SourceOp};
use meshwork_ir::transform::dead::is_effect_free;
use meshwork_ir::{BlockId, OpId, OpKind, OpSpec, Type, ValueId, Walk};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_propagate::program;

use super::{Result, Splitter};
use crate::collective::Peers;
use crate::layout::Layout;
use crate::layout::meshes::{DevicePairs, Relation, reversed};
use crate::reshard::moves::Form;

impl Splitter<'_> {
    /// `value`, which comes in as `sharding` says, on the program's mesh; and its own device order if that differs.
    pub fn enter(
        &mut self,
        value: ValueId,
        sharding: Option<&Sharding>,
        reason: &'static str,
    ) -> (ValueId, Option<Arc<Mesh>>) {
        let Some(sharding) = sharding else { return (value, None) };
        self.reason = reason.into();
        match self.meshes.relation(sharding, self.atoms).into_owned() {
            Relation::Same | Relation::Foreign => (value, None),
            Relation::Single(device) => (self.broadcast(value, device), None),
            Relation::Other(other) => (self.reordered(value, &other.to_program), other.reordered),
        }
    }

    /// `value`, which is on the program's mesh, as `sharding` wants it; and its own device order if that differs.
    pub fn leave(&mut self, value: ValueId, sharding: Option<&Sharding>) -> (ValueId, Option<Arc<Mesh>>) {
        let Some(sharding) = sharding else { return (value, None) };
        match self.meshes.relation(sharding, self.atoms).into_owned() {
            // What every device holds, one device holds.
            Relation::Same | Relation::Foreign | Relation::Single(_) => (value, None),
            Relation::Other(other) => (self.reordered(value, &reversed(&other.to_program)), other.reordered),
        }
    }

    fn reordered(&mut self, value: ValueId, pairs: &DevicePairs) -> ValueId {
        if pairs.is_empty() {
            return value;
        }
        let ty = self.local.module.ty(value).clone();
        self.permute(value, ty, Peers::Devices(pairs.clone()))
    }

    /// Notes which values of `block` are not the same function of the global program on every device: those that
    /// depend on the device's number or on something from outside. Only operations on a single device care.
    pub fn find_device_dependent(&mut self, block: BlockId) {
        let ops = self.src.ops_below_block(block, Walk::PreOrder);
        if !self.meshes.has_single() || !ops.iter().any(|&op| self.single_device(op).is_some()) {
            return;
        }
        let mut found: HashSet<ValueId> = HashSet::default();
        // Values of a loop depend on what it carries: walk until nothing is added.
        loop {
            let before = found.len();
            for &op in &ops {
                let data = self.src.op(op);
                let own = matches!(data.kind(), OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId))
                    || (data.regions().is_empty() && !data.kind().is_terminator() && !is_effect_free(self.src, op));
                let reads = || {
                    let below = self.src.ops_below(op, Walk::PreOrder);
                    let uses = |&inner: &OpId| self.src.op(inner).operands().iter().any(|v| found.contains(v));
                    data.operands().iter().any(|v| found.contains(v)) || below.iter().any(uses)
                };
                if own || reads() {
                    found.extend(data.results().iter().copied());
                    let bodies = data.regions().iter().flat_map(|&r| self.src.region(r).blocks());
                    found.extend(bodies.flat_map(|&b| self.src.block(b).args().iter().copied()));
                }
            }
            if found.len() == before {
                break;
            }
        }
        self.device_dependent = found;
    }

    /// The device that `op` is placed on alone.
    fn single_device(&self, op: OpId) -> Option<i64> {
        self.src.op(op).results().iter().find_map(|&r| {
            let sharding = program::sharding_of(self.src, r)?;
            match *self.meshes.relation(&sharding, self.atoms) {
                Relation::Single(device) => Some(device),
                Relation::Same | Relation::Other(_) | Relation::Foreign => None,
            }
        })
    }

    /// The device that must compute `op` alone: another one would get something else, or act a second time.
    ///
    /// Everything else that is placed on one device is computed by all, which needs no communication.
    pub fn alone_on(&self, op: OpId) -> Option<i64> {
        if !self.meshes.has_single() || self.src.op(op).kind().is_terminator() {
            return None;
        }
        let device = self.single_device(op)?;
        let dependent = self.src.op(op).results().iter().any(|r| self.device_dependent.contains(r));
        (dependent || !is_effect_free(self.src, op)).then_some(device)
    }

    /// `device` computes `op`, and all others get the results from it.
    pub fn on_one_device(&mut self, op: OpId, device: i64) -> Result<()> {
        if !self.src.op(op).regions().is_empty() {
            return self.unsupported(op, "an operation with regions cannot be computed by one device alone");
        }
        self.reason = "one device computes it from whole operands".into();
        let mut locals = vec![];
        for v in self.src.op(op).operands().to_vec() {
            let extents = self.extents(v);
            locals.push(self.get(v, &Layout::replicated(&extents))?);
        }
        let results = self.src.op(op).results().to_vec();
        let types: Vec<Type> = results.iter().map(|&r| self.src.ty(r).clone()).collect();
        let copy = if is_effect_free(self.src, op) {
            self.copy(op, &locals, types)?
        } else {
            self.guarded(op, device, &locals, types)?
        };
        self.reason = "one device computes it for all".into();
        for (i, r) in results.into_iter().enumerate() {
            self.tensor = Some(r);
            let value = self.broadcast(self.local.module.op(copy).results()[i], device);
            self.set(r, Form { value, layout: Layout::replicated(&self.extents(r)) });
        }
        Ok(())
    }

    /// Copies `op` into a branch that only `device` takes; the others get zeros.
    fn guarded(&mut self, op: OpId, device: i64, locals: &[ValueId], types: Vec<Type>) -> Result<OpId> {
        let here = self.local.is_device(device);
        let branch = self.local.push(OpSpec::new(ControlOp::If).operands([here]).results(types.clone()));
        let place = (self.local.block, self.local.before);
        (self.local.block, self.local.before) = (self.local.module.add_body(branch, []), None);
        let copy = self.copy(op, locals, types.clone())?;
        let made = self.local.module.op(copy).results().to_vec();
        self.local.push(OpSpec::new(ControlOp::HloReturn).operands(made));
        self.local.block = self.local.module.add_body(branch, []);
        let mut zeros = vec![];
        for ty in &types {
            let Some(elem) = ty.elem() else { return self.unsupported(op, format!("a result of type {ty}")) };
            zeros.push(self.local.zeros(ty.dims(), elem));
        }
        self.local.push(OpSpec::new(ControlOp::HloReturn).operands(zeros));
        (self.local.block, self.local.before) = place;
        Ok(branch)
    }
}
