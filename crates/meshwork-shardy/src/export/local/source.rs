//! Constants and iotas: each device makes its own shard.

use std::sync::Arc;

use meshwork_ir::op::SourceOp;
use meshwork_ir::{Attr, Dense, DenseData, Module, OpId, OpSpec, Type};

use super::Local;
use super::device::{offset, slice_shard};
use crate::export::rewrite::{Problem, before, tensor};

/// A constant: equal elements shrink, others are cut from the whole.
pub fn constant(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let result = module.result(op);
    let local = tensor(module, result)?;
    let Some(Attr::Dense(dense)) = module.op(op).attr("value").cloned() else {
        return Err("has no dense value".into());
    };
    let is_whole = local.dims == dense.ty.dims;
    if module.op(op).kind() == SourceOp::Constant && is_whole {
        return Ok(());
    }
    let value = match &dense.data {
        DenseData::Splat(_) => Dense { ty: Arc::new(local.clone()), data: dense.data.clone() },
        _ => (*dense).clone(),
    };
    let is_splat = dense.splat_bytes().is_some();
    let spec = OpSpec::new(SourceOp::Constant)
        .results([Type::Tensor(value.ty.clone())])
        .attr("value", Attr::Dense(Arc::new(value)))
        .loc(module.op(op).loc.clone());
    let made = module.push_before(op, spec);
    let mut made = module.result(made);
    if !is_whole && !is_splat {
        let (sharding, mesh) = cx.split(result).ok_or("is cut without a placement")?;
        let axes: Vec<_> = sharding.dims.iter().map(|d| d.axes.clone()).collect();
        made = slice_shard(&mut before(module, op), cx.device_id, mesh, made, &axes, &local.dims)?;
    }
    cx.replace(module, op, &[made]);
    Ok(())
}

/// An iota: counts from where the shard starts.
pub fn iota(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let result = module.result(op);
    let Some((sharding, mesh)) = cx.split(result) else { return Ok(()) };
    let local = tensor(module, result)?;
    let dim = module.op(op).int("iota_dimension").unwrap_or(0);
    let (axes, mesh) = (sharding.dims[dim as usize].axes.clone(), mesh.clone());
    let mut b = before(module, op);
    let mut value = b.iota(Type::from(local.clone()), dim)?;
    if !axes.is_empty() {
        let start = offset(&mut b, cx.device_id, &mesh, &axes, local.dims[dim as usize])?;
        let start = b.convert(start, local.elem)?;
        let start = b.broadcast_in_dim(start, local.dims.to_vec(), &[])?;
        value = b.add(value, start)?;
    }
    cx.replace(module, op, &[value]);
    Ok(())
}
