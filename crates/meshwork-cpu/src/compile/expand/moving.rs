//! Movement whose extents are operands, but known from the type of the result.

use std::sync::Arc;

use meshwork_ir::attr::GatherDims;
use meshwork_ir::op::{ContractOp, MovementOp};
use meshwork_ir::{Attr, Dense, ElementType, Literal, Module, OpId, OpKind, OpSpec, Scalar, Type};

use super::{integers, replace};

/// The operation `kind` with the first `count` operands of `op`, its attributes and its result types.
fn fixed(module: &mut Module, op: OpId, kind: OpKind, count: usize, attrs: Vec<(&'static str, Attr)>) -> bool {
    replace(module, op, |b| {
        let data = b.module().op(op);
        let types: Vec<_> = data.results().iter().map(|&r| b.ty(r).clone()).collect();
        let mut spec = OpSpec::new(kind).operands(data.operands()[..count].to_vec()).results(types);
        spec.attrs = data.attrs.clone();
        for (name, value) in attrs {
            spec = spec.attr(name, value);
        }
        Ok(Some(vec![b.value(spec)?]))
    })
}

pub(super) fn broadcast_in_dim(module: &mut Module, op: OpId) -> bool {
    let Some(dims) = module.op(op).i64s("broadcast_dimensions") else { return false };
    let (operand, result) = (module.op(op).operands()[0], module.op(op).results()[0]);
    replace(module, op, |b| {
        let ty = b.ty(result).clone();
        Ok(Some(vec![b.broadcast_as(operand, ty, &dims)?]))
    })
}

pub(super) fn iota(module: &mut Module, op: OpId) -> bool {
    let Some(dim) = module.op(op).int("iota_dimension") else { return false };
    let result = module.op(op).results()[0];
    replace(module, op, |b| {
        let ty = b.ty(result).clone();
        // There is no static one of truth values.
        if ty.elem() == Some(ElementType::I1) {
            let wide = b.iota(Type::tensor(ty.dims().to_vec(), ElementType::I32), dim)?;
            return Ok(Some(vec![b.convert(wide, ElementType::I1)?]));
        }
        Ok(Some(vec![b.iota(ty, dim)?]))
    })
}

pub(super) fn reshape(module: &mut Module, op: OpId) -> bool {
    let (operand, result) = (module.op(op).operands()[0], module.op(op).results()[0]);
    replace(module, op, |b| {
        let dims = b.ty(result).dims().to_vec();
        Ok(Some(vec![b.reshape(operand, dims)?]))
    })
}

pub(super) fn pad(module: &mut Module, op: OpId) -> bool {
    let &[x, fill, low, high, interior] = module.op(op).operands() else { return false };
    let lists = [low, high, interior].map(|v| integers(module, v));
    let [Some(low), Some(high), Some(interior)] = lists else { return false };
    replace(module, op, |b| Ok(Some(vec![b.pad(x, fill, &low, &high, &interior)?])))
}

pub(super) fn slice(module: &mut Module, op: OpId) -> bool {
    let &[x, start, limit, stride] = module.op(op).operands() else { return false };
    let size = module.ty(module.op(op).results()[0]).dims().to_vec();
    let Some(strides) = integers(module, stride) else { return false };
    if let (Some(start), Some(limit)) = (integers(module, start), integers(module, limit)) {
        return replace(module, op, |b| Ok(Some(vec![b.slice(x, &start, &limit, &strides)?])));
    }
    // From a place known at run time only.
    if strides.iter().any(|&s| s != 1) {
        return false;
    }
    replace(module, op, |b| {
        let mut starts = vec![];
        for d in 0..size.len() as i64 {
            let one = b.slice(start, &[d], &[d + 1], &[1])?;
            starts.push(b.reshape(one, [])?);
        }
        Ok(Some(vec![b.dynamic_slice(x, &starts, &size)?]))
    })
}

pub(super) fn gather(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[x, _, sizes], Some(Attr::Gather(dims))) = (data.operands(), data.attr("dimension_numbers")) else {
        return false;
    };
    // Either way the type of the result says it.
    let result = module.ty(data.results()[0]).dims();
    let mut offsets = dims.offset_dims.iter();
    let found: Option<Vec<i64>> = (0..module.ty(x).dims().len() as i64)
        .map(|d| match dims.collapsed_slice_dims.contains(&d) || dims.operand_batching_dims.contains(&d) {
            true => Some(1),
            false => offsets.next().and_then(|&o| result.get(o as usize).copied()),
        })
        .collect();
    let Some(sizes) = integers(module, sizes).or(found) else { return false };
    let attrs = vec![("slice_sizes", Attr::I64Array(sizes.into()))];
    fixed(module, op, OpKind::Movement(MovementOp::Gather), 2, attrs)
}

pub(super) fn convolution(module: &mut Module, op: OpId) -> bool {
    let Some(padding) = module.op(op).operands().get(2).and_then(|&v| integers(module, v)) else { return false };
    let Some(literal) = Literal::from_i64s([padding.len() as i64 / 2, 2], ElementType::I64, &padding) else {
        return false;
    };
    let attrs = vec![("padding", Attr::Dense(Arc::new(Dense::from_literal(&literal))))];
    fixed(module, op, OpKind::Contract(ContractOp::Convolution), 2, attrs)
}

pub(super) fn dimension_size(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (operand, result) = (data.operands()[0], data.results()[0]);
    let size = data.int("dimension").and_then(|d| module.ty(operand).dims().get(d as usize).copied());
    let Some(size) = size else { return false };
    replace(module, op, |b| {
        let elem = b.ty(result).elem().unwrap_or(ElementType::I32);
        Ok(Some(vec![b.constant(&Literal::scalar(elem, Scalar::Int(size)))?]))
    })
}

pub(super) fn constant_like(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(ty) = module.ty(data.results()[0]).as_tensor().cloned() else { return false };
    let value = match data.attr("value") {
        Some(Attr::Int(v, _)) => Scalar::from_i64(ty.elem, *v),
        Some(Attr::Float(v, _)) => Scalar::from_f64(ty.elem, *v),
        Some(Attr::Bool(v)) => Scalar::from_i64(ty.elem, i64::from(*v)),
        _ => return false,
    };
    let literal = Literal::scalar(ty.elem, value);
    replace(module, op, |b| Ok(Some(vec![b.splat_bytes(&ty.dims, ty.elem, literal.bytes())?])))
}

pub(super) fn index_select(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let &[x, indices] = data.operands() else { return false };
    let (Some(dim), Some(batch)) = (data.int("dim"), data.int("batch_dims")) else { return false };
    let (from, picks) = (module.ty(x).dims().to_vec(), module.ty(indices).dims().len() as i64);
    let picked = picks - batch;
    let rank = from.len() as i64 - 1 + picked;
    let mut sizes = from;
    sizes[dim as usize] = 1;
    sizes[..batch as usize].fill(1);
    let dims = GatherDims {
        offset_dims: (batch..dim).chain(dim + picked..rank).collect(),
        collapsed_slice_dims: vec![dim],
        operand_batching_dims: (0..batch).collect(),
        start_indices_batching_dims: (0..batch).collect(),
        start_index_map: vec![dim],
        index_vector_dim: picks,
    };
    replace(module, op, |b| Ok(Some(vec![b.gather(x, indices, dims, &sizes)?])))
}
