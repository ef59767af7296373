//! Products over paired dimensions.

use std::sync::Arc;

use meshwork_ir::attr::DotDims;
use meshwork_ir::op::ContractOp;
use meshwork_ir::{Attr, OpKind, OpSpec, ValueId};

use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn dot_general(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    match site.op.attr("dot_dimension_numbers") {
        Some(Attr::Dot(dims)) => product(r, site, dims),
        _ => Err(GradError::no_rule(r.module(), site.id, "it has no dimension numbers")),
    }
}

pub(super) fn dot(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let last = r.rank(site.x(0)) as i64 - 1;
    product(r, site, &DotDims { lhs_contract: vec![last], rhs_contract: vec![0], ..DotDims::default() })
}

fn product(r: &mut Reverse<'_>, site: &Site, dims: &DotDims) -> Result<(), GradError> {
    let (lhs, rhs) = (site.x(0), site.x(1));
    let lhs_free = free(r.rank(lhs), &dims.lhs_batch, &dims.lhs_contract);
    let rhs_free = free(r.rank(rhs), &dims.rhs_batch, &dims.rhs_contract);
    let batch = dims.lhs_batch.len();
    if r.wants(lhs) {
        let side = Side {
            batch: &dims.lhs_batch,
            other_batch: &dims.rhs_batch,
            free: &lhs_free,
            other_free: &rhs_free,
            contract: &dims.lhs_contract,
            other_contract: &dims.rhs_contract,
            ct_free: batch + lhs_free.len(),
        };
        let part = transposed(r, site, lhs, rhs, &side)?;
        r.give(lhs, part)?;
    }
    if r.wants(rhs) {
        let side = Side {
            batch: &dims.rhs_batch,
            other_batch: &dims.lhs_batch,
            free: &rhs_free,
            other_free: &lhs_free,
            contract: &dims.rhs_contract,
            other_contract: &dims.lhs_contract,
            ct_free: batch,
        };
        let part = transposed(r, site, rhs, lhs, &side)?;
        r.give(rhs, part)?;
    }
    Ok(())
}

/// The dimensions of one operand and of the other; `ct_free` is where the other's free dimensions begin in the result.
struct Side<'a> {
    batch: &'a [i64],
    other_batch: &'a [i64],
    free: &'a [i64],
    other_free: &'a [i64],
    contract: &'a [i64],
    other_contract: &'a [i64],
    ct_free: usize,
}

/// Contracts the cotangent with the `other` operand over its free dimensions, and brings the result to the order of
/// `operand`.
fn transposed(
    r: &mut Reverse<'_>,
    site: &Site,
    operand: ValueId,
    other: ValueId,
    side: &Side<'_>,
) -> Result<ValueId, GradError> {
    let batch = 0..side.batch.len() as i64;
    let dims = DotDims {
        lhs_batch: batch.collect(),
        rhs_batch: side.other_batch.to_vec(),
        lhs_contract: (0..side.other_free.len()).map(|i| (side.ct_free + i) as i64).collect(),
        rhs_contract: side.other_free.to_vec(),
    };
    // Where the product is wider than its operands, so is its cotangent.
    let (wide, narrow) = (r.elem(site.ct), r.elem(operand));
    let other = r.cast(other, wide)?;
    let spec = OpSpec::new(OpKind::Contract(ContractOp::DotGeneral))
        .operands([site.ct, other])
        .attr("dot_dimension_numbers", Attr::Dot(Arc::new(dims)));
    let product = r.value(Reverse::with_attr(spec, &site.op, "precision_config"))?;
    let mut left: Vec<usize> = (0..side.contract.len()).collect();
    left.sort_by_key(|&i| side.other_contract[i]);
    let order = side.batch.iter().chain(side.free).copied().chain(left.into_iter().map(|i| side.contract[i]));
    let mut permutation = vec![0; r.rank(operand)];
    for (position, dim) in order.enumerate() {
        permutation[dim as usize] = position as i64;
    }
    let sorted = permutation.is_sorted();
    let turned = if sorted { product } else { r.transpose(product, &permutation)? };
    Ok(r.cast(turned, narrow)?)
}

fn free(rank: usize, batch: &[i64], contract: &[i64]) -> Vec<i64> {
    (0..rank as i64).filter(|d| !batch.contains(d) && !contract.contains(d)).collect()
}
