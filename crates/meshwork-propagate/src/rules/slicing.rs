//! Rules of ops that take, put or join ranges of a dimension.

use meshwork_ir::op::{MovementOp, SdyOp, SourceOp};
use meshwork_ir::{OpKind, ValueId};

use super::builder::{PASS, PERMUTE, REPLICATE, REPLICATE_BLOCKED};
use super::{Ctx, RuleResult};

/// Slice and pad: dimensions that keep their extent are shared, others exchange data with neighbors.
pub(super) fn slice_or_pad(ctx: &Ctx) -> RuleResult {
    let mismatch = ctx.unless_conservative(PERMUTE);
    ctx.builder().pointwise_or(ctx.operand(0), ctx.result(0), mismatch).into()
}

/// Dynamic slice: sliced dimensions must be whole.
pub(super) fn dynamic_slice(ctx: &Ctx) -> RuleResult {
    ctx.builder().pointwise_or(ctx.operand(0), ctx.result(0), REPLICATE_BLOCKED).into()
}

/// Dynamic update: the operand may stay split where it is updated, each device writing what it holds; the update
/// must be whole there unless its place is known.
pub(super) fn dynamic_update_slice(ctx: &Ctx) -> RuleResult {
    let operands = ctx.op().operands();
    let starts = operands.get(2..).unwrap_or(&[]);
    let is_constant = |&v: &ValueId| {
        matches!(ctx.def_kind(v), Some(OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant)))
    };
    let update_factor = if starts.iter().all(is_constant) { PASS } else { REPLICATE };
    let mut rule = ctx.builder();
    for (dim, (&size, &update)) in ctx.operand(0).iter().zip(ctx.operand(1)).enumerate() {
        if size == update {
            rule.everywhere(dim, size, PASS);
        } else {
            rule.pass(&[Some(dim), None], &[Some(dim)], size);
            rule.factor(&[None, Some(dim)], &[None], update, update_factor);
        }
    }
    rule.into()
}

/// Reverse: reversed dimensions exchange data.
pub(super) fn reverse(ctx: &Ctx) -> RuleResult {
    let reversed = ctx.i64s("dimensions");
    let factor = |dim: usize| Some(if reversed.contains(&(dim as i64)) { PERMUTE } else { PASS });
    ctx.builder().pointwise_by(ctx.result(0), factor).into()
}

/// Concatenate: joining slices moves data between neighbors, joining anything else needs whole operands.
pub(super) fn concatenate(ctx: &Ctx) -> RuleResult {
    let joined = ctx.dim_attr("dimension");
    let operands = ctx.op().operands();
    let is_slice = |v: ValueId| ctx.def_kind(v) == Some(OpKind::Movement(MovementOp::Slice));
    let before_slice = |v: ValueId| match ctx.module.def_op(v) {
        Some(op) if is_slice(v) => ctx.module.op(op).operands().first().copied().unwrap_or(v),
        _ => v,
    };
    let one_origin = || operands.iter().all(|&v| before_slice(v) == before_slice(operands[0]));
    let all_slices = operands.iter().all(|&v| is_slice(v));
    let any_slice = operands.iter().any(|&v| is_slice(v));
    let join = if all_slices || (any_slice && one_origin()) { PERMUTE } else { REPLICATE };
    let factor = |dim: usize| match dim {
        _ if dim != joined => Some(PASS),
        _ if ctx.is_conservative() => None,
        _ => Some(join),
    };
    ctx.builder().pointwise_by(ctx.result(0), factor).into()
}
