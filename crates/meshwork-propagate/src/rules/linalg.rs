//! Rules of sorts, transforms, decompositions and generators.

use meshwork_ir::ValueId;

use super::builder::{Dim, Factor, PASS, REPLICATE, REPLICATE_BLOCKED};
use super::{Ctx, RuleResult, extent};

/// Sort: the sorted dimension must be whole. If there is no other, placements do not spread.
pub(super) fn sort(ctx: &Ctx) -> RuleResult {
    let shape = ctx.operand(0);
    let sorted = match ctx.op().int("dimension").unwrap_or(-1) {
        d if d < 0 => (d + shape.len() as i64).max(0) as usize,
        d => d as usize,
    };
    let alone = shape.iter().enumerate().all(|(dim, &size)| dim == sorted || size == 1);
    let whole = if alone { REPLICATE_BLOCKED } else { REPLICATE };
    let factor = |dim| Some(if dim == sorted { whole } else { PASS });
    ctx.builder().pointwise_by(shape, factor).into()
}

/// FFT: transformed dimensions must be whole; the last one is blocked if its extent changes.
pub(super) fn fft(ctx: &Ctx) -> RuleResult {
    let (input, output) = (ctx.operand(0), ctx.result(0));
    let first = input.len().saturating_sub(ctx.i64s("fft_length").len());
    let factor = |dim: usize| {
        Some(match dim {
            _ if dim < first => PASS,
            _ if dim + 1 < input.len() => REPLICATE,
            _ if input.last() == output.last() => REPLICATE,
            _ => REPLICATE_BLOCKED,
        })
    };
    ctx.builder().pointwise_by(input, factor).into()
}

/// Cholesky: the last two dimensions must be whole.
pub(super) fn cholesky(ctx: &Ctx) -> RuleResult {
    let shape = ctx.operand(0);
    let batch = shape.len().saturating_sub(2);
    ctx.builder().pointwise_by(shape, |dim| Some(if dim < batch { PASS } else { REPLICATE })).into()
}

/// Triangular solve of `op(a) x = b` or `x op(a) = b`.
pub(super) fn triangular_solve(ctx: &Ctx) -> RuleResult {
    let (a, b) = (ctx.operand(0), ctx.operand(1));
    let Some(rows) = a.len().checked_sub(2) else { return ctx.builder().into() };
    let cols = rows + 1;
    let transposed = matches!(ctx.op().enum_value("transpose_a"), Some("TRANSPOSE" | "ADJOINT"));
    let mut rule = ctx.builder();
    rule.pointwise(&a[..rows]);
    // Which dimension of `a` meets `b`, and which meets the unknown.
    let (to_b, to_x) = if transposed { (cols, rows) } else { (rows, cols) };
    if ctx.op().flag("left_side") {
        rule.factor(&[Some(to_b), Some(rows)], &[None], extent(a, to_b), REPLICATE);
        rule.factor(&[None, Some(cols)], &[Some(cols)], extent(b, cols), REPLICATE);
        rule.factor(&[Some(to_x), None], &[Some(rows)], extent(a, to_x), REPLICATE);
    } else {
        let (to_b, to_x) = (to_x, to_b);
        rule.factor(&[None, Some(rows)], &[Some(rows)], extent(b, rows), REPLICATE);
        rule.factor(&[Some(to_b), Some(cols)], &[None], extent(a, to_b), REPLICATE);
        rule.factor(&[Some(to_x), None], &[Some(cols)], extent(a, to_x), REPLICATE);
    }
    rule.into()
}

/// Batch norm with given statistics: per-feature tensors follow the feature dimension.
pub(super) fn batch_norm_inference(ctx: &Ctx) -> RuleResult {
    batch_norm(ctx, PASS)
}

/// Batch norm that computes statistics: all dimensions but that of the features must be whole.
pub(super) fn batch_norm_statistics(ctx: &Ctx) -> RuleResult {
    batch_norm(ctx, REPLICATE)
}

/// Tensors of the first operand's rank share its dimensions; the others have one value per feature.
fn batch_norm(ctx: &Ctx, others: Factor) -> RuleResult {
    let shape = ctx.operand(0);
    let feature = ctx.dim_attr("feature_index");
    let mut rule = ctx.builder();
    for (dim, &size) in shape.iter().enumerate() {
        let dim_in = |&v: &ValueId| match ctx.dims(Some(&v)).len() {
            rank if rank == shape.len() => Some(dim),
            _ => (dim == feature).then_some(0),
        };
        let operands: Vec<Dim> = ctx.op().operands().iter().map(dim_in).collect();
        let results: Vec<Dim> = ctx.op().results().iter().map(dim_in).collect();
        rule.factor(&operands, &results, size, if dim == feature { PASS } else { others });
    }
    rule.into()
}

/// Random bits: the state must be whole; the output may be split in any way.
pub(super) fn rng_bit_generator(ctx: &Ctx) -> RuleResult {
    let mut rule = ctx.builder();
    for (dim, &size) in ctx.operand(0).iter().enumerate() {
        rule.factor(&[Some(dim)], &[Some(dim), None], size, REPLICATE_BLOCKED);
    }
    for (dim, &size) in ctx.result(1).iter().enumerate() {
        rule.pass(&[None], &[None, Some(dim)], size);
    }
    rule.into()
}

/// Top-k: the dimension that shrinks must be whole.
pub(super) fn top_k(ctx: &Ctx) -> RuleResult {
    ctx.builder().pointwise_or(ctx.operand(0), ctx.result(0), REPLICATE_BLOCKED).into()
}
