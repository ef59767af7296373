//! Reverses along split dimensions: every shard is reversed in place, and is then the shard of the device opposite.
//!
//! Where shards are uneven, the padding is first moved from the high end to the low end, so that it is at the high end
//! afterwards.

use std::sync::Arc;

use meshwork_ir::build::Builder;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpId, OpSpec, Type, ValueId};
use meshwork_mesh::{AxisRef, Mesh, MeshRef, Sharding};
use meshwork_propagate::program::{Meshes, mesh_of_op, mesh_ops, set_sharding, sharding_of};

use super::exchange::send;
use super::shards::{cut_high, manual_computation, pad_high, return_from, whole_axes, without_axes};
use super::{Halo, Resolved};
use crate::export::cursor::Cursor;
use crate::export::rewrite::{Problem, tensor};

/// Reverses shards and the order of devices.
pub fn resolve(cx: &mut Halo, module: &mut Module, op: OpId) -> Result<Resolved, Problem> {
    let (operand, result) = (module.op(op).operands()[0], module.result(op));
    let Some(sharding) = sharding_of(module, operand).filter(|s| !s.is_fully_replicated()) else {
        return Ok(Resolved::Yes);
    };
    let Some(mesh) = cx.meshes.mesh(&sharding).filter(|mesh| !mesh.is_maximal()) else { return Ok(Resolved::Yes) };
    let mesh: Mesh = (**mesh).clone();
    let reversed = module.op(op).i64s("dimensions").unwrap_or_default();
    let original = tensor(module, operand)?;
    let mut even = original.dims.to_vec();
    let (mut axes, mut uneven): (Vec<AxisRef>, Vec<AxisRef>) = (vec![], vec![]);
    for dim in reversed.iter().map(|&d| d as usize) {
        let shards = sharding.dims[dim].num_shards(&mesh);
        if shards > 1 {
            axes.extend(sharding.dims[dim].axes.iter().cloned());
            if even[dim] % shards != 0 {
                uneven.extend(sharding.dims[dim].axes.iter().cloned());
                even[dim] += shards - even[dim] % shards;
            }
        }
    }
    if axes.is_empty() {
        return Ok(Resolved::Yes);
    }
    if !uneven.is_empty() {
        let manual = whole_axes(&uneven, &mesh);
        let padded = pad_high(module, op, operand, &even, &sharding, None)?;
        let moved = padding_to_front(cx, module, op, padded, &original.dims, &sharding, &mesh, &manual)?;
        module.set_operand(op, 0, moved);
        module.set_ty(result, Type::from(original.with_dims(even)));
    }
    let seen = sharding_of(module, result).unwrap_or_else(|| sharding.clone());
    let opposite = Sharding { mesh: reversed_mesh(cx, module, &sharding, &mesh, &axes)?, ..sharding.clone() };
    set_sharding(module, result, opposite);
    let back = Cursor::After(op).reshard(module, result, seen);
    let after = module.def_op(back).and_then(|reshard| module.next_op(reshard));
    let seen = match after {
        Some(next) => cut_high(module, next, back, &original.dims, &sharding)?,
        None => back,
    };
    module.replace_uses_if(result, seen, |m, u| m.op(u.op).results().first() != Some(&back));
    Ok(Resolved::Yes)
}

/// The name of the mesh with the devices in reverse order along `axes`.
fn reversed_mesh(
    cx: &mut Halo,
    module: &mut Module,
    sharding: &Sharding,
    mesh: &Mesh,
    axes: &[AxisRef],
) -> Result<MeshRef, Problem> {
    let mut ids = vec![];
    for position in 0..mesh.device_count() {
        let mut coordinates = mesh.coordinates_at(position).ok_or("is on a mesh without devices")?;
        let now = coordinates.clone();
        for axis in axes {
            if let Some(i) = mesh.axis_index(&axis.name) {
                let stride = mesh.axes()[i].size / axis.next_pre_size(mesh);
                coordinates[i] += (axis.size(mesh) - 1 - 2 * axis.coordinate(&now, mesh)) * stride;
            }
        }
        ids.extend(mesh.device_at(&coordinates));
    }
    let reversed = mesh.without_device_ids().with_device_ids(ids).map_err(|e| e.to_string())?.without_identity_ids();
    let same = |&op: &OpId| mesh_of_op(module, op).is_some_and(|m| **m == reversed);
    if let Some(name) = mesh_ops(module).into_iter().find(same).and_then(|op| module.symbol_name(op)) {
        return Ok(MeshRef::from(name));
    }
    let base = sharding.mesh.symbol().map_or("mesh", |name| name);
    let spec = OpSpec::new(SdyOp::Mesh)
        .attr("sym_name", Attr::str(format!("{base}_reversed")))
        .attr("mesh", Attr::Mesh(Arc::new(reversed)));
    let made = module.create(spec);
    module.prepend(module.body(), made);
    let name = cx.symbols.insert(module, made);
    cx.meshes = Meshes::of(module);
    Ok(MeshRef::from(&*name))
}

/// Moves the padding at the high end of uneven dimensions to their low end.
#[allow(clippy::too_many_arguments)]
fn padding_to_front(
    cx: &mut Halo,
    module: &mut Module,
    op: OpId,
    value: ValueId,
    original: &[i64],
    sharding: &Sharding,
    mesh: &Mesh,
    manual: &[AxisRef],
) -> Result<ValueId, Problem> {
    let ty = tensor(module, value)?;
    let inner = without_axes(sharding, manual);
    let operands = [(value, sharding.clone())];
    let out = (Type::from(ty.clone()), sharding.clone());
    let computation = manual_computation(module, op, &operands, out, manual, mesh)?;
    let loc = module.op(op).loc.clone();
    let mut b = Builder::at_end(module, computation.body);
    b.set_loc(loc);
    let mut local = computation.args[0];
    for dim in 0..ty.rank() {
        let shift = ty.dims[dim] - original[dim];
        if shift > 0 {
            local = shift_right(cx, &mut b, local, dim, shift, &sharding.dims[dim].axes, mesh, &inner)?;
        }
    }
    return_from(module, computation.body, local, op);
    Ok(computation.result)
}

/// Shifts elements to the right by `shift` along `dim`; what comes in from the left is padding.
#[allow(clippy::too_many_arguments)]
fn shift_right(
    cx: &mut Halo,
    b: &mut Builder,
    value: ValueId,
    dim: usize,
    shift: i64,
    axes: &[AxisRef],
    mesh: &Mesh,
    inner: &Sharding,
) -> Result<ValueId, Problem> {
    let dims = b.ty(value).dims().to_vec();
    let elem = b.ty(value).elem().ok_or("shifts a value that is not a tensor")?;
    let (hops, part) = (shift / dims[dim], shift % dims[dim]);
    let mut fetch = |b: &mut Builder, distance: i64| -> Result<ValueId, Problem> {
        if distance == 0 {
            return Ok(value);
        }
        let fetched = match send(cx, b, value, mesh, axes, distance)? {
            Some(fetched) => fetched,
            None => {
                let zero = b.scalar(elem, 0.0)?;
                b.broadcast_in_dim(zero, dims.clone(), &[])?
            }
        };
        set_sharding(b.module_mut(), fetched, inner.clone());
        Ok(fetched)
    };
    let (head, tail) = (fetch(b, hops)?, fetch(b, hops + 1)?);
    let mut starts = vec![0; dims.len()];
    starts[dim] = dims[dim] - part;
    let ones = vec![1; dims.len()];
    let tail = b.slice(tail, &starts, &dims, &ones)?;
    set_sharding(b.module_mut(), tail, inner.clone());
    let mut limits = dims.clone();
    limits[dim] = dims[dim] - part;
    let head = b.slice(head, &vec![0; dims.len()], &limits, &ones)?;
    set_sharding(b.module_mut(), head, inner.clone());
    let joined = b.concatenate(&[tail, head], dim as i64)?;
    set_sharding(b.module_mut(), joined, inner.clone());
    Ok(joined)
}
