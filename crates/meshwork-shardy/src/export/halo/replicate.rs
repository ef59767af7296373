//! Computing on whole dimensions: factors along which neighbors exchange are gathered before and split again after.

use meshwork_ir::op::MovementOp;
use meshwork_ir::{Module, OpId, OpKind};
use meshwork_propagate::program::sharding_of;
use meshwork_propagate::rules::{RuleMode, RuleResult, sharding_rule};

use super::Halo;
use crate::export::explicit_reshards::unsplit_factors;
use crate::export::halo_free::{is_free_pad, is_free_slice};
use crate::export::rewrite::Problem;

/// Gathers the dimensions of `op` along which its shards need each other.
pub fn resolve(cx: &Halo, module: &mut Module, op: OpId) -> Result<(), Problem> {
    if module.op(op).kind().dialect() != "stablehlo" || module.op(op).kind().is_terminator() {
        return Ok(());
    }
    let RuleResult::Rule(rule) = sharding_rule(module, op, RuleMode::Full) else { return Ok(()) };
    if rule.custom {
        return Ok(());
    }
    let moves: Vec<usize> = match module.op(op).kind() {
        // One factor for each dimension: by where elements go, whatever the extents.
        OpKind::Movement(MovementOp::Pad | MovementOp::Slice) => (0..module.ty(module.result(op)).dims().len())
            .filter(|&dim| moves_along(cx, module, op, dim))
            .flat_map(|dim| rule.results[0][dim].clone())
            .collect(),
        // Only the shard that the update falls into would change: the dimensions that are updated in part are gathered.
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => {
            let operands = module.op(op).operands();
            let (whole, part) = (module.ty(operands[0]).dims(), module.ty(operands[1]).dims());
            let partial = (0..whole.len()).filter(|&dim| whole[dim] != part[dim]);
            partial.flat_map(|dim| rule.results[0][dim].clone()).collect()
        }
        _ => rule.permutation.clone(),
    };
    if moves.is_empty() {
        return Ok(());
    }
    Ok(unsplit_factors(module, op, &moves)?)
}

fn moves_along(cx: &Halo, module: &Module, op: OpId, dim: usize) -> bool {
    let operand = module.op(op).operands()[0];
    let Some(sharding) = sharding_of(module, operand) else { return false };
    let Some(mesh) = cx.meshes.mesh(&sharding) else { return false };
    let Some(shards) = sharding.dims.get(dim).map(|d| d.num_shards(mesh)) else { return false };
    let extents = (module.ty(operand).dims()[dim], module.ty(module.result(op)).dims()[dim]);
    let int = |name: &str| module.op(op).i64s(name).and_then(|list| list.get(dim).copied()).unwrap_or(0);
    match module.op(op).kind() {
        OpKind::Movement(MovementOp::Pad) => {
            !is_free_pad(int("edge_padding_low"), int("interior_padding"), extents, shards)
        }
        _ => {
            let (start, stride) = (int("start_indices"), int("strides"));
            let is_whole = start == 0 && int("limit_indices") == extents.0;
            let skips_evenly = is_whole && extents.0 % shards == 0 && (extents.0 / shards) % stride == 0;
            !skips_evenly && !is_free_slice(start, stride, extents, shards)
        }
    }
}
