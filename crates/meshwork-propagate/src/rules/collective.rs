//! Rules of StableHLO collectives whose shape changes: the changing dimensions must be whole on both sides.

use super::builder::{PASS, REPLICATE};
use super::{Ctx, RuleBuilder, RuleResult, extent};

/// All-gather.
pub(super) fn all_gather(ctx: &Ctx) -> RuleResult {
    along(ctx, &[ctx.dim_attr("all_gather_dim")])
}

/// Reduce-scatter.
pub(super) fn reduce_scatter(ctx: &Ctx) -> RuleResult {
    along(ctx, &[ctx.dim_attr("scatter_dimension")])
}

/// All-to-all.
pub(super) fn all_to_all(ctx: &Ctx) -> RuleResult {
    let (split, concat) = (ctx.dim_attr("split_dimension"), ctx.dim_attr("concat_dimension"));
    if split == concat { along(ctx, &[split]) } else { along(ctx, &[split, concat]) }
}

fn along(ctx: &Ctx, changing: &[usize]) -> RuleResult {
    let (operand, result) = (ctx.operand(0), ctx.result(0));
    let mut rule: RuleBuilder = ctx.builder();
    rule.pointwise_by(operand, |dim| (!changing.contains(&dim)).then_some(PASS));
    for &dim in changing {
        rule.operands(dim, extent(operand, dim), REPLICATE);
        rule.results(dim, extent(result, dim), REPLICATE);
    }
    rule.into()
}
