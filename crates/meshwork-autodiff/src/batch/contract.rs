//! Products and batch norms: the batch becomes a batch dimension, or part of a free one.

use std::sync::Arc;

use meshwork_ir::attr::DotDims;
use meshwork_ir::op::ContractOp;
use meshwork_ir::placement::insert_dim;
use meshwork_ir::{Attr, OpKind, OpSpec, Type, ValueId};

use super::state::{Batch, Site};
use super::{BatchError, moved};

/// The old `dot`: the last dimension of the left operand with the first of the right one.
pub(super) fn dot(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let last = b.dims(site.op.operands()[0]).len() as i64 - 1;
    let dims = DotDims { lhs_contract: vec![last], rhs_contract: vec![0], ..DotDims::default() };
    product(b, site, &dims)
}

pub(super) fn dot_general(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let Some(Attr::Dot(dims)) = site.op.attr("dot_dimension_numbers").cloned() else {
        return Err(BatchError::no_rule(b.module(), site.id, "it has no dimension numbers"));
    };
    product(b, site, &dims)
}

fn product(b: &mut Batch<'_>, site: &Site, dims: &DotDims) -> Result<(), BatchError> {
    let (lhs, rhs) = (site.xs[0], site.xs[1]);
    let (left, right) = (b.is_on(lhs), b.is_on(rhs));
    let by = |on: bool, list: &[i64]| -> Vec<i64> { list.iter().map(|d| d + i64::from(on)).collect() };
    let mut new = DotDims {
        lhs_batch: by(left, &dims.lhs_batch),
        rhs_batch: by(right, &dims.rhs_batch),
        lhs_contract: by(left, &dims.lhs_contract),
        rhs_contract: by(right, &dims.rhs_contract),
    };
    // Results have batch dimensions, then free ones of the left, then of the right operand.
    let free = b.dims(site.op.operands()[0]).len() - dims.lhs_batch.len() - dims.lhs_contract.len();
    let at = match (left, right) {
        (true, true) => {
            new.lhs_batch.insert(0, 0);
            new.rhs_batch.insert(0, 0);
            0
        }
        (true, false) => dims.lhs_batch.len(),
        (false, _) => dims.lhs_batch.len() + free,
    };
    let old = b.ty(site.op.results()[0]).clone();
    let mut extents = old.dims().to_vec();
    extents.insert(at, b.size());
    let ty: Type = old.as_tensor().map_or(old.clone(), |t| t.with_dims(extents).into());
    let mut spec = OpSpec::new(OpKind::Contract(ContractOp::DotGeneral)).operands([lhs, rhs]).results([ty]);
    spec.attrs = site.op.attrs.clone();
    // A sharding is about the result with the batch in front.
    let sharding = spec.attrs.remove("sdy.sharding");
    spec.attrs.remove("sdy.sharding_rule");
    spec = spec.attr("dot_dimension_numbers", Attr::Dot(Arc::new(new)));
    let out = b.value(spec)?;
    let out = moved(b, out, at, 0)?;
    if let (Some(Attr::ShardingPerValue(list)), Some(op)) = (sharding, b.module().def_op(out)) {
        let wide = list.iter().map(|s| insert_dim(s, 0, &b.options.placement)).collect();
        b.module_mut().op_mut(op).attrs.set("sdy.sharding", Attr::ShardingPerValue(wide));
    }
    b.give(site, &[out]);
    Ok(())
}

/// Batch norms: each example has its own features, so the batch and the features become one dimension.
pub(super) fn batch_norm(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let feature = site.op.int("feature_index").unwrap_or(0) as usize;
    let mut operands = vec![];
    for (&old, &x) in site.op.operands().iter().zip(&site.xs) {
        let wide = b.lifted(x)?;
        operands.push(merged(b, wide, if b.dims(old).len() > 1 { feature } else { 0 })?);
    }
    let mut spec = OpSpec::new(site.op.kind()).operands(operands);
    spec.attrs = site.op.attrs.clone();
    spec.attrs.remove("sdy.sharding");
    let results = b.values(spec)?;
    let mut out = vec![];
    for (&old, &new) in site.op.results().iter().zip(&results) {
        let dims = b.dims(old);
        out.push(split(b, new, if dims.len() > 1 { feature } else { 0 })?);
    }
    b.give(site, &out);
    Ok(())
}

/// `x`, which has the batch in front, with the batch as the major part of dimension `dim` of an example.
pub(super) fn merged(b: &mut Batch<'_>, x: ValueId, dim: usize) -> Result<ValueId, BatchError> {
    let adjacent = moved(b, x, 0, dim)?;
    let mut dims = b.dims(adjacent);
    let batch = dims.remove(dim);
    dims[dim] *= batch;
    Ok(b.reshape(adjacent, dims)?)
}

/// The inverse of [`merged`].
pub(super) fn split(b: &mut Batch<'_>, x: ValueId, dim: usize) -> Result<ValueId, BatchError> {
    let mut dims = b.dims(x);
    let size = b.size();
    dims[dim] = if size == 0 { 0 } else { dims[dim] / size };
    dims.insert(dim, size);
    let apart = b.reshape(x, dims)?;
    Ok(moved(b, apart, dim, 0)?)
}
