//! Scatters into shards: updates outside the shard are dropped; where updates are split, one device starts from the input
//! and the others from the identity, and an all-reduce combines them.

use meshwork_ir::op::BinaryOp;
use meshwork_ir::{Attr, ElementClass, ElementType, Module, OpId, OpKind, ValueId};
use meshwork_mesh::AxisRef;

use super::Local;
use super::device::{device_id, shard_indices};
use super::indices::{Indexed, Mask, shift};
use crate::export::rewrite::{Problem, before, tensor};

/// Scatters into shards.
pub fn scatter(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let inputs = module.op(op).results().len();
    let operands = module.op(op).operands().to_vec();
    let (input, indices, update) = (operands[0], operands[inputs], operands[inputs + 1]);
    let Some((_, mesh)) = cx.split(input).or_else(|| cx.split(update)) else { return Ok(()) };
    let mesh = mesh.clone();
    let Some(Attr::Scatter(dims)) = module.op(op).attr("scatter_dimension_numbers").cloned() else {
        return Err("has no dimension numbers".into());
    };
    let mut split = vec![];
    for dim in 0..cx.global_dims(input).len() {
        if cx.axes(input, dim).is_empty() {
            continue;
        }
        if dims.scatter_dims_to_operand_dims.contains(&(dim as i64)) {
            split.push(dim);
        } else if dims.inserted_window_dims.contains(&(dim as i64)) {
            return Err(format!("dimension {dim} of the input is split, but no index points along it").into());
        }
    }
    let reduced = reduced_axes(cx, input, update, &dims.update_window_dims);
    if !reduced.is_empty() {
        start_from_identity(cx, module, op, &operands[..inputs], &reduced, &mesh)?;
    }
    let Some((sharding, _)) = cx.split(input).filter(|_| !split.is_empty()) else { return Ok(()) };
    let (local, ty) = (tensor(module, input)?, tensor(module, indices)?);
    let x = Indexed {
        sharding,
        mesh: &mesh,
        global: cx.global_dims(input),
        local: &local.dims,
        components: &dims.scatter_dims_to_operand_dims,
        vector_dim: dims.index_vector_dim as usize,
        split: &split,
        device_id: cx.device_id,
    };
    let (shifted, _) = shift(&mut before(module, op), &x, indices, &ty, Mask::No)?;
    module.set_operand(op, inputs, shifted);
    Ok(())
}

/// The axes that split updates along dimensions that the input does not have.
fn reduced_axes(cx: &Local, input: ValueId, update: ValueId, window: &[i64]) -> Vec<AxisRef> {
    let in_input = |axis: &&AxisRef| cx.sharding(input).is_some_and(|s| s.dim_axes().any(|a| a == *axis));
    let outside = (0..cx.global_dims(update).len()).filter(|dim| !window.contains(&(*dim as i64)));
    outside.flat_map(|dim| cx.axes(update, dim)).filter(|axis| !in_input(axis)).cloned().collect()
}

/// Makes all devices but the first along `axes` start from the identity.
fn start_from_identity(
    cx: &Local,
    module: &mut Module,
    op: OpId,
    inputs: &[ValueId],
    axes: &[AxisRef],
    mesh: &meshwork_mesh::Mesh,
) -> Result<(), Problem> {
    let kind = combining_kind(module, op).ok_or("combines updates by an op that has no partial results")?;
    let ty = tensor(module, inputs[0])?;
    let is_leader: Vec<bool> = shard_indices(mesh, axes).into_iter().map(|index| index == 0).collect();
    let device_kind = cx.device_id;
    let mut selected = vec![];
    let mut b = before(module, op);
    let mut identities = vec![];
    for &input in inputs {
        let elem = b.ty(input).elem().ok_or("has an input that is not a tensor")?;
        identities.push(b.scalar(elem, identity(kind, elem).ok_or("has no identity for its elements")?)?);
    }
    let device = device_id(&mut b, device_kind)?;
    let bytes = is_leader.iter().map(|&leads| u8::from(leads)).collect();
    let leaders = meshwork_ir::Literal::from_bytes([is_leader.len() as i64], ElementType::I1, bytes);
    let leaders = b.constant(&leaders.ok_or("needs a table of a size that does not fit")?)?;
    let leads = b.dynamic_slice(leaders, &[device], &[1])?;
    let leads = b.broadcast_in_dim(leads, ty.dims.to_vec(), &[0])?;
    for (&input, identity) in inputs.iter().zip(identities) {
        let nothing = b.broadcast_in_dim(identity, ty.dims.to_vec(), &[])?;
        selected.push(b.select(leads, input, nothing)?);
    }
    for (i, value) in selected.into_iter().enumerate() {
        module.set_operand(op, i, value);
    }
    Ok(())
}

/// The op by which the body combines all its pairs.
fn combining_kind(module: &Module, op: OpId) -> Option<OpKind> {
    let body = module.body_of(op, 0)?;
    let kind = |&value: &ValueId| Some(module.op(module.def_op(value)?).kind());
    let (first, rest) = module.returned(body).split_first()?;
    let first = kind(first)?;
    rest.iter().all(|v| kind(v) == Some(first)).then_some(first)
}

/// The identity of `kind`.
fn identity(kind: OpKind, elem: ElementType) -> Option<f64> {
    let top = || 2f64.powi(elem.bits() as i32);
    match (kind, elem.class()) {
        (OpKind::Binary(BinaryOp::Add | BinaryOp::Or), _) => Some(0.0),
        (OpKind::Binary(BinaryOp::Multiply), _) | (OpKind::Binary(BinaryOp::And), ElementClass::Bool) => Some(1.0),
        (OpKind::Binary(BinaryOp::Maximum), ElementClass::Float) => Some(f64::NEG_INFINITY),
        (OpKind::Binary(BinaryOp::Minimum), ElementClass::Float) => Some(f64::INFINITY),
        (OpKind::Binary(BinaryOp::Maximum), ElementClass::Signed) => Some(-top() / 2.0),
        (OpKind::Binary(BinaryOp::Minimum), ElementClass::Signed) => Some(top() / 2.0 - 1.0),
        (OpKind::Binary(BinaryOp::Maximum), ElementClass::Unsigned | ElementClass::Bool) => Some(0.0),
        (OpKind::Binary(BinaryOp::Minimum), ElementClass::Unsigned) => Some(top() - 1.0),
        (OpKind::Binary(BinaryOp::Minimum), ElementClass::Bool) => Some(1.0),
        _ => None,
    }
}
