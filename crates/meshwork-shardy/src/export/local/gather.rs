//! Gathers from shards: each device takes what it has and puts zero for the rest; the all-reduce after it adds them up.

use meshwork_ir::attr::GatherDims;
use meshwork_ir::{Attr, ElementType, Literal, Module, OpId, ValueId};
use meshwork_mesh::AxisRef;

use super::Local;
use super::contract::check_reduced;
use super::indices::{Indexed, Mask, clamp, has_first, shift};
use crate::export::rewrite::{Problem, before, tensor};

/// Gathers from shards.
pub fn gather(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let &[operand, indices] = module.op(op).operands() else { return Err("does not have two operands".into()) };
    let Some((sharding, mesh)) = cx.split(operand) else { return Ok(()) };
    let (sharding, mesh) = (sharding.clone(), mesh.clone());
    let Some(Attr::Gather(dims)) = module.op(op).attr("dimension_numbers").cloned() else {
        return Err("has no dimension numbers".into());
    };
    let mut sizes = module.op(op).i64s("slice_sizes").unwrap_or_default();
    let global = cx.global_dims(operand).to_vec();
    let is_batching = |dim: usize| dims.operand_batching_dims.contains(&(dim as i64));
    let mut split: Vec<usize> = vec![];
    let mut axes: Vec<AxisRef> = vec![];
    for (dim, size) in sizes.iter_mut().enumerate() {
        let shards = sharding.dims[dim].num_shards(&mesh);
        if shards == 1 || is_batching(dim) {
            continue;
        }
        if *size == 1 {
            split.push(dim);
            axes.extend(sharding.dims[dim].axes.iter().cloned());
        } else if *size == global[dim] {
            *size /= shards;
        } else {
            let whole = global[dim];
            return Err(format!("dimension {dim} is split, but slices take {size} of its {whole} elements").into());
        }
    }
    module.op_mut(op).attrs.set("slice_sizes", Attr::i64s(sizes));
    if split.is_empty() {
        return Ok(());
    }
    check_reduced(cx, module, op, axes, &mesh)?;
    let (local, ty) = (tensor(module, operand)?, tensor(module, indices)?);
    let x = Indexed {
        sharding: &sharding,
        mesh: &mesh,
        global: &global,
        local: &local.dims,
        components: &dims.start_index_map,
        vector_dim: dims.index_vector_dim as usize,
        split: &split,
        device_id: cx.device_id,
    };
    let mut b = before(module, op);
    let is_indexed = split.iter().any(|&dim| dims.start_index_map.contains(&(dim as i64)));
    let base = if is_indexed { clamp(&mut b, &x, indices, &ty)? } else { indices };
    let (shifted, mut mask) = shift(&mut b, &x, base, &ty, Mask::Yes)?;
    if let Some(first) = has_first(&mut b, &x)? {
        mask = Some(match mask {
            Some(mask) => {
                let first = b.broadcast_in_dim(first, ty.dims.to_vec(), &[])?;
                b.and(mask, first)?
            }
            None => first,
        });
    }
    module.set_operand(op, 1, shifted);
    let mask = mask.ok_or("needs no mask, but its operand is split")?;
    mask_result(module, op, mask, &dims)
}

/// Puts zero where `mask` does not hold, in front of the users of the gather.
fn mask_result(module: &mut Module, op: OpId, mask: ValueId, dims: &GatherDims) -> Result<(), Problem> {
    let result = module.result(op);
    let ty = tensor(module, result)?;
    let Some(next) = module.next_op(op) else { return Err("ends its block".into()) };
    let mut b = before(module, next);
    let loc = b.module().op(op).loc.clone();
    b.set_loc(loc);
    let mut mask = mask;
    let rank = b.ty(mask).dims().len();
    let vector_dim = dims.index_vector_dim as usize;
    if rank > 0 && vector_dim < rank {
        let all = Literal::from_bytes([], ElementType::I1, vec![1]).ok_or("needs a constant")?;
        let all = b.constant(&all)?;
        mask = b.reduce(&[mask], &[all], &[vector_dim as i64], |b, args| Ok([b.and(args[0], args[1])?]))?[0];
    }
    let map: Vec<i64> = if b.ty(mask).dims().is_empty() {
        vec![]
    } else {
        (0..ty.rank() as i64).filter(|dim| !dims.offset_dims.contains(dim)).collect()
    };
    let mask = b.broadcast_in_dim(mask, ty.dims.to_vec(), &map)?;
    let zero = b.splat(ty.dims.to_vec(), ty.elem, 0.0)?;
    let masked = b.select(mask, result, zero)?;
    module.replace_uses_if(result, masked, |m, u| m.op(u.op).results().first() != Some(&masked));
    Ok(())
}
