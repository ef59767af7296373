//! `sdy.manual_computation`: its body runs on every device of a mesh, on that device's part of the operands.
//!
//! In a program that runs on one device, the devices of the mesh are started for the body and their results joined.
//! A manual computation inside another one runs on the devices that already run: each takes its part, and
//! those that differ only along the inner manual axes meet to join the results.

use std::collections::HashSet;
use std::sync::Arc;

use meshwork_mesh::{AxisRef, Mesh, Sharding, axis_list, shard_index, sort_by_key};

use super::attrs;
use super::fault::Fault;
use super::machine::{Machine, StartedBy};
use super::movement::{dynamic_update_slice, part};
use super::parallel::{self, Job};
use super::scalar::{ScalarOp, apply};
use super::value::{Val, allocate};
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Combine, DeviceGrid, ElementType, Literal, Module, Op, OpId, OpKind, identity};

/// Runs the manual computation `id`.
pub(crate) fn execute(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let module = m.module;
    let op = module.op(id);
    let body = module.body_of(id, 0).ok_or_else(|| Fault::invalid("it has no body"))?;
    let Some(split) = Split::new(module, op)? else {
        return Ok(m.run_block(body, args, id)?);
    };
    let devices = split.mesh.device_count() as usize;
    if m.site.started == StartedBy::ManualComputation {
        return nested(m, id, &split, args);
    }
    if m.site.grid.len() != 1 {
        return Err(Fault::unsupported("a manual computation in a program that is split already"));
    }
    parallel::check_devices(devices)?;
    let mut jobs = vec![];
    for device in 0..devices {
        let part = |(x, s): (&Val, &Sharding)| split.part(x.tensor()?, s, device).map(Val::loose);
        let parts = args.iter().zip(&split.inputs).map(part).collect::<Result<_, _>>()?;
        jobs.push(Job { block: body, owner: id, args: parts });
    }
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    let outcomes = parallel::run_grid(m, grid, jobs, StartedBy::ManualComputation)?;
    let everyone: Vec<usize> = (0..devices).collect();
    let results = split.join(m.module, op, &everyone, &outcomes)?;
    Ok(results.into_iter().map(|x| m.hold(x)).collect())
}

fn nested(m: &mut Machine<'_>, id: OpId, split: &Split, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let module = m.module;
    let (device, devices) = (m.site.device, split.mesh.device_count() as usize);
    if devices != m.site.grid.len() {
        return Err(Fault::invalid(format!("a mesh of {devices} devices inside one of {}", m.site.grid.len())));
    }
    let mut parts = vec![];
    for (x, s) in args.iter().zip(&split.inputs) {
        let part = split.part(x.tensor()?, s, device)?;
        parts.push(m.hold(part));
    }
    drop(args);
    let body = module.body_of(id, 0).ok_or_else(|| Fault::invalid("it has no body"))?;
    let mine = m.run_block(body, parts, id)?;
    let group: Vec<usize> = (0..devices).filter(|&d| split.same_outside(d, device)).collect();
    let compute = |all: Vec<Vec<Val>>| {
        let joined = split.join(module, module.op(id), &group, &all);
        Ok(vec![joined.map_err(|fault| fault.at(module, id))?; group.len()])
    };
    let results = match m.site.hub.filter(|_| group.len() > 1) {
        None => compute(vec![mine])?.swap_remove(0),
        Some(hub) => {
            let key = (OpKind::Sdy(SdyOp::ManualComputation), id.index() as i64, group.clone());
            hub.meet(key, device, mine, &module.describe(id), compute)?
        }
    };
    Ok(results.into_iter().map(|x| m.hold(x)).collect())
}

/// How the operands are split and the results joined.
struct Split {
    mesh: Arc<Mesh>,
    manual: Vec<AxisRef>,
    inputs: Vec<Sharding>,
    outputs: Vec<Sharding>,
}

impl Split {
    /// `None` if nothing is split: there are no manual axes, or no operands and results.
    fn new(module: &Module, op: &Op) -> Result<Option<Split>, Fault> {
        let shardings = |name: &str| match op.attr(name) {
            Some(Attr::ShardingPerValue(s)) => Ok(s.to_vec()),
            None => Ok(vec![]),
            Some(_) => Err(attrs::missing(name, "a list of shardings")),
        };
        let manual: Vec<AxisRef> = match op.attr("manual_axes") {
            Some(Attr::Axes(axes)) => axes.to_vec(),
            Some(Attr::Array(names)) => names.iter().filter_map(Attr::as_str).map(AxisRef::full).collect(),
            None => vec![],
            Some(_) => return Err(attrs::missing("manual_axes", "a list of axes")),
        };
        let (inputs, outputs) = (shardings("in_shardings")?, shardings("out_shardings")?);
        let Some(first) = inputs.iter().chain(&outputs).next().filter(|_| !manual.is_empty()) else { return Ok(None) };
        let named = |name: &str| match module.op(module.symbol(name)?).attr("mesh")? {
            Attr::Mesh(mesh) => Some(&**mesh),
            _ => None,
        };
        let mesh = first.resolve_mesh(named).map_err(|e| Fault::invalid(e.to_string()))?;
        if let Some(axis) = manual.iter().find(|a| mesh.axis_index(&a.name).is_none()) {
            return Err(Fault::invalid(format!("the mesh has no axis \"{}\"", axis.name)));
        }
        Ok(Some(Split { mesh: Arc::new(mesh.clone()), manual, inputs, outputs }))
    }

    /// Where the part of `device` starts in a tensor whose parts have extents `local`, by its manual axes.
    fn start(&self, sharding: &Sharding, local: &[i64], device: usize) -> Result<Vec<i64>, Fault> {
        let coordinates = self.mesh.coordinates(device as i64);
        let coordinates = coordinates.ok_or_else(|| Fault::invalid(format!("the mesh has no device {device}")))?;
        let at = |(d, &n): (usize, &i64)| shard_index(&self.axes(sharding, d), &coordinates, &self.mesh) * n;
        Ok(local.iter().enumerate().map(at).collect())
    }

    /// The manual axes that split dimension `d`.
    fn axes(&self, sharding: &Sharding, d: usize) -> Vec<AxisRef> {
        let axes = sharding.dims.get(d).map_or(&[][..], |dim| &dim.axes);
        axes.iter().filter(|a| self.manual.iter().any(|m| m.contains(a))).cloned().collect()
    }

    fn part(&self, x: &Literal, sharding: &Sharding, device: usize) -> Result<Literal, Fault> {
        let mut local = x.dims().to_vec();
        for (d, n) in local.iter_mut().enumerate() {
            let shards = axis_list::product(&self.axes(sharding, d), &self.mesh);
            if *n % shards != 0 {
                return Err(Fault::invalid(format!("dimension {d} of {} does not split evenly over {shards}", x.ty())));
            }
            *n /= shards;
        }
        if self.part_index(sharding, device) > 0 {
            return self.neutral(sharding, &local, x.elem());
        }
        part(x, &self.start(sharding, &local, device)?, &local)
    }

    /// Which part of a value that is unreduced over manual axes `device` holds. Over other axes there is one part.
    fn part_index(&self, sharding: &Sharding, device: usize) -> i64 {
        let axes = sharding.unreduced.iter().filter(|a| self.manual.iter().any(|m| m.contains(a)));
        let axes: Vec<AxisRef> = axes.cloned().collect();
        self.mesh.coordinates(device as i64).map_or(0, |at| shard_index(&axes, &at, &self.mesh))
    }

    /// What changes nothing under the reduction of `sharding`: all parts of a whole value but the first.
    fn neutral(&self, sharding: &Sharding, dims: &[i64], elem: ElementType) -> Result<Literal, Fault> {
        let combine = Combine::from(sharding.reduction);
        let element = identity::neutral(combine, elem);
        let element = element.ok_or_else(|| Fault::unsupported(format!("parts of {elem} by {combine:?}")))?;
        let mut out = allocate(dims, elem)?;
        (0..out.len()).for_each(|i| out.set_element(i, &element));
        Ok(out)
    }

    /// Combines `part` with what `whole` has at `start`.
    fn combine(&self, sharding: &Sharding, whole: &Literal, at: &[i64], own: &Literal) -> Result<Literal, Fault> {
        let (elem, combine) = (own.elem(), Combine::from(sharding.reduction));
        let op = ScalarOp::new(combine.op(), elem, elem);
        let op = op.ok_or_else(|| Fault::unsupported(format!("parts of {elem} by {combine:?}")))?;
        let mut sum = part(whole, at, own.dims())?;
        for i in 0..sum.len() {
            let combined = apply(&op, &[sum.get(i), own.get(i)]);
            sum.set(i, combined);
        }
        Ok(sum)
    }

    /// The whole results from the parts of `devices`. Devices that hold copies agree; the first one counts.
    fn join(&self, module: &Module, op: &Op, devices: &[usize], parts: &[Vec<Val>]) -> Result<Vec<Literal>, Fault> {
        let mut results = vec![];
        for (i, &value) in op.results().iter().enumerate() {
            let sharding = &self.outputs[i];
            let ty = module.ty(value).as_tensor().ok_or_else(|| Fault::invalid("a result is not a tensor"))?;
            let mut whole = allocate(&ty.dims, ty.elem)?;
            // First parts first; among equal ones from the last to the first, so that the first device's stays.
            let mut order: Vec<_> = devices.iter().zip(parts).rev().collect();
            sort_by_key(&mut order, |(device, _)| self.part_index(sharding, **device));
            let mut taken = HashSet::new();
            for (&device, outputs) in order {
                let own = outputs.get(i).ok_or_else(|| Fault::invalid(format!("the body has no result {i}")))?;
                let (own, part) = (own.tensor()?, self.part_index(sharding, device));
                let at = self.start(sharding, own.dims(), device)?;
                if part == 0 {
                    dynamic_update_slice(&mut whole, own, &at)?;
                } else if taken.insert((part, at.clone())) {
                    let sum = self.combine(sharding, &whole, &at, own)?;
                    dynamic_update_slice(&mut whole, &sum, &at)?;
                }
            }
            results.push(whole);
        }
        Ok(results)
    }

    /// Whether two devices have the same coordinates along all axes that are not manual here.
    fn same_outside(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.mesh.coordinates(a as i64), self.mesh.coordinates(b as i64));
        let (Some(a), Some(b)) = (a, b) else { return false };
        let free = |i: &usize| !self.manual.iter().any(|m| m.name == self.mesh.axes()[*i].name);
        (0..self.mesh.axes().len()).filter(free).all(|i| a[i] == b[i])
    }
}
