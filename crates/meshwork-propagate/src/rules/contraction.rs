//! Rules of products: dot, dot_general, convolution.

use meshwork_ir::Attr;

use super::builder::{PERMUTE, REDUCE};
use super::{Ctx, RuleResult, dim, extent};

/// Dot of vectors and matrices.
pub(super) fn dot(ctx: &Ctx) -> RuleResult {
    let (lhs, rhs) = (ctx.operand(0), ctx.operand(1));
    let (lhs_matrix, rhs_matrix) = (lhs.len() == 2, rhs.len() == 2);
    let mut rule = ctx.builder();
    if lhs_matrix {
        rule.pass(&[Some(0), None], &[Some(0)], lhs[0]);
    }
    if rhs_matrix {
        rule.pass(&[None, Some(1)], &[Some(usize::from(lhs_matrix))], rhs[1]);
    }
    rule.reduce(&[Some(usize::from(lhs_matrix)), Some(0)], &[None], extent(rhs, 0));
    rule.into()
}

/// General dot: batch, left free, right free, then contracted dimensions.
pub(super) fn dot_general(ctx: &Ctx) -> RuleResult {
    let Some(Attr::Dot(dims)) = ctx.op().attr("dot_dimension_numbers") else { return ctx.no_dimension_numbers() };
    let (lhs, rhs) = (ctx.operand(0), ctx.operand(1));
    let mut rule = ctx.builder();
    let mut out = 0..;
    for (&l, &r) in dims.lhs_batch.iter().zip(&dims.rhs_batch) {
        rule.pass(&[Some(dim(l)), Some(dim(r))], &[out.next()], extent(lhs, dim(l)));
    }
    for (i, &size) in lhs.iter().enumerate() {
        if !dims.lhs_batch.contains(&(i as i64)) && !dims.lhs_contract.contains(&(i as i64)) {
            rule.pass(&[Some(i), None], &[out.next()], size);
        }
    }
    for (i, &size) in rhs.iter().enumerate() {
        if !dims.rhs_batch.contains(&(i as i64)) && !dims.rhs_contract.contains(&(i as i64)) {
            rule.pass(&[None, Some(i)], &[out.next()], size);
        }
    }
    for (&l, &r) in dims.lhs_contract.iter().zip(&dims.rhs_contract) {
        rule.reduce(&[Some(dim(l)), Some(dim(r))], &[None], extent(lhs, dim(l)));
    }
    rule.into()
}

/// Convolution. An input spatial dimension relates to the output (by windows) and to the kernel (by window
/// position); the larger of both comes first.
pub(super) fn convolution(ctx: &Ctx) -> RuleResult {
    let Some(Attr::Conv(dims)) = ctx.op().attr("dimension_numbers") else { return ctx.no_dimension_numbers() };
    let (lhs, rhs, out) = (ctx.operand(0), ctx.operand(1), ctx.result(0));
    let batch_groups = ctx.op().int("batch_group_count").unwrap_or(1);
    let feature_groups = ctx.op().int("feature_group_count").unwrap_or(1);
    let (in_batch, in_feature) = (Some(dim(dims.input_batch)), Some(dim(dims.input_feature)));
    let (kernel_in, kernel_out) = (dim(dims.kernel_input_feature), Some(dim(dims.kernel_output_feature)));
    let (out_batch, out_feature) = (dim(dims.output_batch), dim(dims.output_feature));

    let mut rule = ctx.builder();
    if batch_groups > 1 {
        rule.pass(&[in_batch, kernel_out], &[Some(out_feature)], batch_groups);
    }
    rule.pass(&[in_batch, None], &[Some(out_batch)], extent(out, out_batch));
    if !ctx.is_conservative() {
        for ((&l, &r), &o) in dims.input_spatial.iter().zip(&dims.kernel_spatial).zip(&dims.output_spatial) {
            let (l, r, o) = (dim(l), dim(r), dim(o));
            let (windows, window) = (extent(out, o), extent(rhs, r));
            let mut rest = extent(lhs, l);
            let windows_first = windows >= window;
            for by_windows in [windows_first, !windows_first] {
                let size = rest.min(if by_windows { windows } else { window });
                if size <= 1 {
                    continue;
                }
                if by_windows {
                    rule.factor(&[Some(l), None], &[Some(o)], size, PERMUTE);
                } else {
                    rule.factor(&[Some(l), Some(r)], &[None], size, REDUCE);
                }
                rest /= size;
            }
        }
    }
    if feature_groups > 1 {
        rule.pass(&[in_feature, kernel_out], &[Some(out_feature)], feature_groups);
    }
    rule.reduce(&[in_feature, Some(kernel_in)], &[None], extent(rhs, kernel_in));
    let features = extent(out, out_feature) / batch_groups.saturating_mul(feature_groups).max(1);
    if features > 1 {
        rule.pass(&[None, kernel_out], &[Some(out_feature)], features);
    }
    rule.into()
}
