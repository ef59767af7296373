//! Rules of reductions and of ops that slide a window.

use super::builder::{PASS, PERMUTE, REPLICATE};
use super::{Ctx, RuleResult, extent};

/// Reduce: reduced dimensions are in the inputs only; initial values take no part.
pub(super) fn reduce(ctx: &Ctx) -> RuleResult {
    let reduced = ctx.i64s("dimensions");
    let inputs = ctx.op().results().len();
    let mut rule = ctx.builder();
    let mut out = 0..;
    for (dim, &size) in ctx.operand(0).iter().enumerate() {
        let operands = vec![Some(dim); inputs];
        if reduced.contains(&(dim as i64)) {
            rule.reduce(&operands, &[], size);
        } else {
            rule.pass(&operands, &vec![out.next(); inputs], size);
        }
    }
    rule.into()
}

/// Windowed reduce: one factor per dimension, of as many windows as there are.
pub(super) fn reduce_window(ctx: &Ctx) -> RuleResult {
    let windows = Windows::of(ctx);
    let factor = |dim: usize| Some(if windows.is_trivial(dim) { PASS } else { ctx.unless_conservative(PERMUTE) });
    ctx.builder().pointwise_by(ctx.result(0), factor).into()
}

/// Select and scatter: where windows are not trivial, the source must be whole.
pub(super) fn select_and_scatter(ctx: &Ctx) -> RuleResult {
    let windows = Windows::of(ctx);
    let mut rule = ctx.builder();
    for (dim, &size) in ctx.result(0).iter().enumerate() {
        if windows.is_trivial(dim) {
            rule.everywhere(dim, size, PASS);
            continue;
        }
        let source = extent(ctx.operand(1), dim);
        rule.factor(&[None, Some(dim), None], &[None], source, ctx.unless_conservative(REPLICATE));
        rule.factor(&[Some(dim), None, None], &[Some(dim)], size, ctx.unless_conservative(PERMUTE));
    }
    rule.into()
}

struct Windows {
    padding: Vec<i64>,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

impl Windows {
    fn of(ctx: &Ctx) -> Windows {
        Windows {
            padding: ctx.i64s("padding"),
            sizes: ctx.i64s("window_dimensions"),
            strides: ctx.i64s("window_strides"),
        }
    }

    /// Windows of one element, one step apart, without padding: a one-to-one relation.
    fn is_trivial(&self, dim: usize) -> bool {
        let one = |list: &[i64]| list.get(dim).is_none_or(|&v| v == 1);
        let padded = self.padding.iter().skip(2 * dim).take(2).any(|&p| p != 0);
        !padded && one(&self.sizes) && one(&self.strides)
    }
}
