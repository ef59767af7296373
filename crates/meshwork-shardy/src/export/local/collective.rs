//! `sdy` collectives as StableHLO's, which work along one dimension: several are folded into a leading one.

use meshwork_ir::attr::AllToAllParam;
use meshwork_ir::op::CollectiveOp;
use meshwork_ir::{Attr, Module, OpId, OpSpec, TensorType, Type, ValueId};
use meshwork_mesh::axis_list::{mesh_parts, product};
use meshwork_mesh::{AxisRef, Mesh, MeshRef, Sharding};

use super::Local;
use super::device::{shard_indices, slice_shard};
use super::groups::{Groups, Ids, add_reduction, collective, matrix};
use crate::export::rewrite::{Problem, before, collective_reduction, tensor};

fn out_sharding(module: &Module, op: OpId) -> Result<Sharding, Problem> {
    let sharding = module.op(op).attr("out_sharding").and_then(Attr::as_sharding);
    sharding.cloned().ok_or_else(|| "has no out_sharding".into())
}

fn mesh_of(cx: &Local, sharding: &Sharding) -> Result<Mesh, Problem> {
    Ok((**cx.meshes.mesh(sharding).ok_or("has a placement on an unknown mesh")?).clone())
}

fn axes_per_dim(module: &Module, op: OpId, name: &str) -> Vec<Vec<AxisRef>> {
    match module.op(op).attr(name) {
        Some(Attr::AxesPerDim(axes)) => axes.to_vec(),
        _ => vec![],
    }
}

fn typed(like: &TensorType, dims: Vec<i64>) -> Type {
    Type::from(like.with_dims(dims))
}

/// Dimensions that have axes, with the number of shards of each.
fn split_dims(axes: &[Vec<AxisRef>], mesh: &Mesh) -> Vec<(usize, i64)> {
    let dims = axes.iter().enumerate().filter(|(_, axes)| !axes.is_empty());
    dims.map(|(dim, axes)| (dim, product(axes, mesh))).collect()
}

/// Gathers one dimension after the other, the last one first, or several at once over a leading dimension.
pub fn all_gather(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let out = out_sharding(module, op)?;
    let mesh = mesh_of(cx, &out)?;
    let axes = axes_per_dim(module, op, "gathering_axes");
    let dims = split_dims(&axes, &mesh);
    let mut value = module.op(op).operands()[0];
    if cx.per_dim_all_gather || dims.len() <= 1 {
        for &(dim, count) in dims.iter().rev() {
            let mut shape = tensor(module, value)?.dims.to_vec();
            shape[dim] *= count;
            let groups = Groups { axes: &axes[dim], mesh: &mesh, mesh_ref: &out.mesh };
            value = gather_dim(cx, module, op, value, (dim, shape), &groups)?;
        }
    } else {
        value = gather_at_once(cx, module, op, value, &dims, &axes.concat(), &mesh, &out.mesh)?;
    }
    cx.replace(module, op, &[value]);
    Ok(())
}

fn gather_dim(
    cx: &mut Local,
    module: &mut Module,
    at: OpId,
    value: ValueId,
    (dim, shape): (usize, Vec<i64>),
    groups: &Groups,
) -> Result<ValueId, Problem> {
    let spec = OpSpec::new(CollectiveOp::AllGather).operands([value]).attr("all_gather_dim", Attr::i64(dim as i64));
    let ty = typed(&tensor(module, value)?, shape);
    let gather = collective(cx, module, at, spec, ty, groups, Ids::Global)?;
    Ok(module.result(gather))
}

#[allow(clippy::too_many_arguments)]
fn gather_at_once(
    cx: &mut Local,
    module: &mut Module,
    op: OpId,
    value: ValueId,
    dims: &[(usize, i64)],
    axes: &[AxisRef],
    mesh: &Mesh,
    mesh_ref: &MeshRef,
) -> Result<ValueId, Problem> {
    let local = tensor(module, value)?;
    let shape: Vec<i64> = local.dims.to_vec();
    let lead = before(module, op).reshape(value, [vec![1], shape.clone()].concat())?;
    let total: i64 = dims.iter().map(|&(_, count)| count).product();
    let groups = Groups { axes, mesh, mesh_ref };
    let gathered = gather_dim(cx, module, op, lead, (0, [vec![total], shape.clone()].concat()), &groups)?;
    let counts: Vec<i64> = dims.iter().map(|&(_, count)| count).collect();
    let mut b = before(module, op);
    let split = b.reshape(gathered, [counts, shape.clone()].concat())?;
    // Each count goes in front of its dimension.
    let mut permutation = vec![];
    let mut whole = shape.clone();
    for (dim, size) in whole.iter_mut().enumerate() {
        if let Some(i) = dims.iter().position(|&(d, _)| d == dim) {
            permutation.push(i as i64);
            *size *= dims[i].1;
        }
        permutation.push((dims.len() + dim) as i64);
    }
    let moved = b.transpose(split, &permutation)?;
    Ok(b.reshape(moved, whole)?)
}

/// Reduces over axes.
pub fn all_reduce(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let out = out_sharding(module, op)?;
    let mesh = mesh_of(cx, &out)?;
    let axes = match module.op(op).attr("reduction_axes") {
        Some(Attr::Axes(axes)) => axes.to_vec(),
        _ => vec![],
    };
    let groups = Groups { axes: &axes, mesh: &mesh, mesh_ref: &out.mesh };
    let value = reduce_over(cx, module, op, &groups)?;
    cx.replace(module, op, &[value]);
    Ok(())
}

fn reduce_over(cx: &mut Local, module: &mut Module, op: OpId, groups: &Groups) -> Result<ValueId, Problem> {
    let value = module.op(op).operands()[0];
    let spec = OpSpec::new(CollectiveOp::AllReduce).operands([value]);
    let ty = module.ty(value).clone();
    let reduce = collective(cx, module, op, spec, ty, groups, Ids::Global)?;
    add_reduction(module, reduce, value, collective_reduction(module, op));
    Ok(module.result(reduce))
}

/// Takes the shard of this device.
pub fn all_slice(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let mesh = mesh_of(cx, &out_sharding(module, op)?)?;
    let axes = axes_per_dim(module, op, "slicing_axes");
    let sizes = tensor(module, module.result(op))?.dims.to_vec();
    let value = module.op(op).operands()[0];
    let shard = slice_shard(&mut before(module, op), cx.device_id, &mesh, value, &axes, &sizes)?;
    cx.replace(module, op, &[shard]);
    Ok(())
}

/// Reduces and keeps the shard of this device.
pub fn reduce_scatter(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let operand = module.op(op).operands()[0];
    let placed = match cx.sharding(operand) {
        Some(sharding) => sharding.clone(),
        None => out_sharding(module, op)?,
    };
    let mesh = mesh_of(cx, &placed)?;
    let axes = axes_per_dim(module, op, "reduce_scatter_axes");
    let dims = split_dims(&axes, &mesh);
    let all = axes.concat();
    let local = tensor(module, module.result(op))?;
    let groups = Groups { axes: &all, mesh: &mesh, mesh_ref: &placed.mesh };
    let value = if let &[(dim, _)] = &dims[..] {
        scatter_dim(cx, module, op, (operand, dim), Type::from(local), &groups)?
    } else if cx.combine_reduce_scatter {
        let input = tensor(module, operand)?;
        let (mut split, mut counts) = (vec![], vec![]);
        for (dim, &size) in input.dims.iter().enumerate() {
            if let Some(&(_, count)) = dims.iter().find(|&&(d, _)| d == dim) {
                counts.push(split.len() as i64);
                split.extend([count, size / count]);
            } else {
                split.push(size);
            }
        }
        let rest = (0..split.len() as i64).filter(|i| !counts.contains(i));
        let permutation: Vec<i64> = counts.iter().copied().chain(rest).collect();
        let total: i64 = dims.iter().map(|&(_, count)| count).product();
        let mut b = before(module, op);
        let parts = b.reshape(operand, split)?;
        let moved = b.transpose(parts, &permutation)?;
        let lead = b.reshape(moved, [vec![total], local.dims.to_vec()].concat())?;
        let ty = typed(&local, [vec![1], local.dims.to_vec()].concat());
        let scattered = scatter_dim(cx, module, op, (lead, 0), ty, &groups)?;
        before(module, op).reshape(scattered, local.dims.to_vec())?
    } else {
        let reduced = reduce_over(cx, module, op, &groups)?;
        slice_shard(&mut before(module, op), cx.device_id, &mesh, reduced, &axes, &local.dims)?
    };
    cx.replace(module, op, &[value]);
    Ok(())
}

fn scatter_dim(
    cx: &mut Local,
    module: &mut Module,
    op: OpId,
    (value, dim): (ValueId, usize),
    ty: Type,
    groups: &Groups,
) -> Result<ValueId, Problem> {
    let spec =
        OpSpec::new(CollectiveOp::ReduceScatter).operands([value]).attr("scatter_dimension", Attr::i64(dim as i64));
    let scatter = collective(cx, module, op, spec, ty, groups, Ids::Global)?;
    add_reduction(module, scatter, value, collective_reduction(module, op));
    Ok(module.result(scatter))
}

/// Moves axes between dimensions; several moves at once over a leading dimension.
pub fn all_to_all(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let out = out_sharding(module, op)?;
    let mesh = mesh_of(cx, &out)?;
    let mut params: Vec<AllToAllParam> = match module.op(op).attr("params") {
        Some(Attr::AllToAll(params)) => params.to_vec(),
        _ => vec![],
    };
    let operand = module.op(op).operands()[0];
    let local = tensor(module, operand)?;
    for param in &params {
        let (size, count) = (local.dims[param.tgt as usize], product(&param.axes, &mesh));
        if size % count != 0 {
            return Err(format!("splits dimension {} of local extent {size} into {count} parts", param.tgt).into());
        }
    }
    let value = if let [param] = &params[..] {
        let count = product(&param.axes, &mesh);
        let mut shape = local.dims.to_vec();
        shape[param.src as usize] *= count;
        shape[param.tgt as usize] /= count;
        let groups = Groups { axes: &param.axes, mesh: &mesh, mesh_ref: &out.mesh };
        let plan = (param.tgt, param.src, count);
        exchange(cx, module, op, operand, plan, typed(&local, shape), &groups)?
    } else {
        params.sort_by_key(|p| p.tgt);
        exchange_at_once(cx, module, op, operand, &params, &mesh, &out.mesh)?
    };
    cx.replace(module, op, &[value]);
    Ok(())
}

fn exchange(
    cx: &mut Local,
    module: &mut Module,
    op: OpId,
    value: ValueId,
    (split, concat, count): (i64, i64, i64),
    ty: Type,
    groups: &Groups,
) -> Result<ValueId, Problem> {
    let spec = OpSpec::new(CollectiveOp::AllToAll)
        .operands([value])
        .attr("split_dimension", Attr::i64(split))
        .attr("concat_dimension", Attr::i64(concat))
        .attr("split_count", Attr::i64(count));
    let exchange = collective(cx, module, op, spec, ty, groups, Ids::Unsaid)?;
    Ok(module.result(exchange))
}

fn exchange_at_once(
    cx: &mut Local,
    module: &mut Module,
    op: OpId,
    value: ValueId,
    params: &[AllToAllParam],
    mesh: &Mesh,
    mesh_ref: &MeshRef,
) -> Result<ValueId, Problem> {
    let local = tensor(module, value)?;
    let counts: Vec<i64> = params.iter().map(|p| product(&p.axes, mesh)).collect();
    let axes: Vec<AxisRef> = params.iter().flat_map(|p| p.axes.iter().cloned()).collect();
    let total: i64 = counts.iter().product();
    // Split the dimensions that are given away, and move the parts to the front.
    let (mut split, mut fronts, mut rest) = (vec![], vec![], vec![]);
    for (dim, &size) in local.dims.iter().enumerate() {
        match params.iter().position(|p| p.tgt == dim as i64) {
            Some(i) => {
                fronts.push(split.len() as i64);
                split.extend([counts[i], size / counts[i]]);
                rest.push(size / counts[i]);
            }
            None => {
                split.push(size);
                rest.push(size);
            }
        }
    }
    let behind = (0..split.len() as i64).filter(|i| !fronts.contains(i));
    let permutation: Vec<i64> = fronts.iter().copied().chain(behind).collect();
    let mut b = before(module, op);
    let parts = b.reshape(value, split)?;
    let moved = b.transpose(parts, &permutation)?;
    let lead = b.reshape(moved, [vec![total], rest.clone()].concat())?;
    let groups = Groups { axes: &axes, mesh, mesh_ref };
    let ty = module.ty(lead).clone();
    let exchanged = exchange(cx, module, op, lead, (0, 0, total), ty, &groups)?;
    // Move each part in front of the dimension it joins.
    let mut b = before(module, op);
    let parts = b.reshape(exchanged, [counts.clone(), rest.clone()].concat())?;
    let (mut permutation, mut whole) = (vec![], vec![]);
    for (dim, &size) in rest.iter().enumerate() {
        let joined = params.iter().position(|p| p.src == dim as i64);
        permutation.extend(joined.map(|i| i as i64));
        permutation.push((params.len() + dim) as i64);
        whole.push(size * joined.map_or(1, |i| counts[i]));
    }
    let moved = b.transpose(parts, &permutation)?;
    Ok(b.reshape(moved, whole)?)
}

/// Sends each shard to the device that has its place afterwards.
pub fn permute(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let value = module.op(op).operands()[0];
    let to = out_sharding(module, op)?;
    let from = cx.sharding(value).ok_or("has an operand without placement")?.clone();
    let (from_mesh, to_mesh) = (mesh_of(cx, &from)?, mesh_of(cx, &to)?);
    if from_mesh.device_count() != to_mesh.device_count() {
        return Err(format!("goes from {from_mesh} to {to_mesh}, which have different numbers of devices").into());
    }
    let used = from.axes().chain(to.axes());
    let parts = mesh_parts(used, &to_mesh).ok_or("has axes that do not fit together")?;
    // All parts of the mesh, those that split dimensions first: a number for each shard and each of its copies.
    let places = |sharding: &Sharding, mesh: &Mesh| {
        let split = sharding.dim_axes().flat_map(|axis| parts.iter().filter(move |part| axis.contains(part)));
        let mut order: Vec<AxisRef> = split.cloned().collect();
        let rest: Vec<AxisRef> = parts.iter().filter(|p| !order.contains(p)).cloned().collect();
        order.extend(rest);
        shard_indices(mesh, &order)
    };
    let (sources, targets) = (places(&from, &from_mesh), places(&to, &to_mesh));
    let mut device_of = vec![0; targets.len()];
    for (device, &place) in targets.iter().enumerate() {
        device_of[place as usize] = device as i64;
    }
    let pairs = sources.iter().enumerate().flat_map(|(device, &place)| [device as i64, device_of[place as usize]]);
    let pairs = matrix(sources.len(), 2, pairs);
    let spec = OpSpec::new(CollectiveOp::CollectivePermute)
        .operands([value])
        .results([module.ty(value).clone()])
        .attr("source_target_pairs", pairs)
        .attr("channel_handle", cx.channels.take())
        .loc(module.op(op).loc.clone());
    let permuted = module.push_before(op, spec);
    let result = module.result(permuted);
    cx.replace(module, op, &[result]);
    Ok(())
}
