//! Rules of the custom calls that JAX and XLA emit, by target name.

use meshwork_ir::op::SourceOp;

use super::builder::{PASS, REPLICATE, REPLICATE_BLOCKED};
use super::{Ctx, NoRule, RuleResult, extent, linalg};

/// The rule for the target of a custom call.
pub(super) fn custom_call(ctx: &Ctx) -> RuleResult {
    let target = ctx.op().attr("call_target_name").and_then(|a| a.as_str()).unwrap_or("");
    match target {
        "sdy_testonly"
        | "tpu_custom_call"
        | "meshwork_python_callback"
        | "xla_python_cpu_callback"
        | "xla_python_gpu_callback"
        | "xla_ffi_python_cpu_callback"
        | "xla_ffi_python_gpu_callback"
        | "xla.debug.Log" => NoRule::Opaque.into(),
        "annotate_device_placement"
        | "Cholesky"
        | "CompactWyHelper"
        | "InspectSharding"
        | "InvertDiagBlocksLowerTriangular"
        | "InvertDiagBlocksUpperTriangular"
        | "LayoutConstraint"
        | "mhlo.erf"
        | "MoveToDevice"
        | "MoveToHost"
        | "X64SplitHigh"
        | "X64SplitLow"
        | "xla.megascale.provide_metadata"
        | "_SPMDInternalOp_MultiPad"
        | "_SPMDInternalOp_RotateRight"
        | "_SPMDInternalOp_MultiRotate"
        | "_SPMDInternalOp_MultiSlice"
        | "_SPMDInternalOp_Wrap" => ctx.pointwise(),
        "Eigh" => eigh(ctx),
        "Qr" | "QrDecompositionBlock" => qr(ctx),
        "ProductOfElementaryHouseholderReflectors" => householder(ctx),
        "mhlo.topk" => linalg::top_k(ctx),
        "ApproxTopK" | "PartialReduce" => approx_top_k(ctx),
        "X64Combine" => x64_combine(ctx),
        "lapack_sgtsv_ffi"
        | "lapack_dgtsv_ffi"
        | "lapack_cgtsv_ffi"
        | "lapack_zgtsv_ffi"
        | "tridiagonal_solve_perturbed_ffi" => stacked(ctx, 1),
        _ if target.starts_with("lapack_") => stacked(ctx, 2),
        // Functions of the host, which get whole arrays.
        _ if target.starts_with("meshwork_host_") => NoRule::Opaque.into(),
        _ => NoRule::UnknownCustomCall(target.to_string()).into(),
    }
}

/// The last two dimensions of a batch of matrices, after its batch dimensions.
fn matrix_dims(shape: &[i64]) -> Option<(&[i64], usize, usize)> {
    let rows = shape.len().checked_sub(2)?;
    Some((&shape[..rows], rows, rows + 1))
}

/// Eigenvectors follow both matrix dimensions, eigenvalues the last one.
fn eigh(ctx: &Ctx) -> RuleResult {
    let shape = ctx.operand(0);
    let Some((batch, rows, cols)) = matrix_dims(shape) else { return ctx.builder().into() };
    let mut rule = ctx.builder();
    rule.pointwise(batch);
    rule.pass(&[Some(rows)], &[Some(rows), None], shape[rows]);
    rule.pass(&[Some(cols)], &[Some(cols), Some(rows)], shape[cols]);
    rule.into()
}

fn qr(ctx: &Ctx) -> RuleResult {
    let shape = ctx.operand(0);
    let Some((batch, rows, cols)) = matrix_dims(shape) else { return ctx.builder().into() };
    let mut rule = ctx.builder();
    rule.pointwise(batch);
    rule.factor(&[Some(rows)], &[Some(rows), None], shape[rows], REPLICATE);
    rule.factor(&[Some(cols)], &[Some(cols), None], shape[cols], REPLICATE);
    rule.factor(&[None], &[None, Some(rows)], extent(ctx.result(1), rows), REPLICATE);
    rule.into()
}

fn householder(ctx: &Ctx) -> RuleResult {
    let shape = ctx.operand(0);
    let Some((batch, rows, cols)) = matrix_dims(shape) else { return ctx.builder().into() };
    let mut rule = ctx.builder();
    rule.pointwise(batch);
    rule.factor(&[Some(rows), None], &[Some(rows)], shape[rows], REPLICATE);
    rule.factor(&[Some(cols), None], &[Some(cols)], shape[cols], REPLICATE);
    rule.factor(&[None, Some(rows)], &[None], extent(ctx.operand(1), rows), REPLICATE);
    rule.into()
}

/// A routine on each matrix of a stack, of which the first operand has rank `rank`: only the leading dimensions, which
/// all operands and results have, can be split.
fn stacked(ctx: &Ctx, rank: usize) -> RuleResult {
    let shape = ctx.operand(0);
    let batch = &shape[..shape.len().saturating_sub(rank)];
    let (operands, results) = (ctx.op().operands().len(), ctx.op().results().len());
    let mut rule = ctx.builder();
    rule.pointwise(batch);
    let alone = |tensors: usize, i: usize, dim: usize| -> Vec<Option<usize>> {
        (0..tensors).map(|t| (t == i).then_some(dim)).collect()
    };
    for i in 0..operands {
        for (dim, &size) in ctx.operand(i).iter().enumerate().skip(batch.len()) {
            rule.factor(&alone(operands, i, dim), &vec![None; results], size, REPLICATE_BLOCKED);
        }
    }
    for i in 0..results {
        for (dim, &size) in ctx.result(i).iter().enumerate().skip(batch.len()) {
            rule.factor(&vec![None; operands], &alone(results, i, dim), size, REPLICATE_BLOCKED);
        }
    }
    rule.into()
}

fn approx_top_k(ctx: &Ctx) -> RuleResult {
    let mut rule = ctx.builder();
    for (dim, (&size, &out)) in ctx.operand(0).iter().zip(ctx.result(0)).enumerate() {
        if size == out {
            rule.everywhere(dim, size, PASS);
        } else {
            rule.pass(&[Some(dim), Some(dim)], &[None, None], size);
            rule.factor(&[], &[Some(dim), Some(dim)], out, REPLICATE_BLOCKED);
        }
    }
    rule.into()
}

/// The state of a random generator must be whole, and so must what it is combined from.
fn x64_combine(ctx: &Ctx) -> RuleResult {
    let uses = ctx.op().results().iter().flat_map(|&v| ctx.module.value(v).uses());
    if uses.into_iter().any(|u| ctx.module.op(u.op).kind() == SourceOp::RngBitGenerator) {
        return ctx.builder().everywhere(0, extent(ctx.result(0), 0), REPLICATE_BLOCKED).into();
    }
    ctx.pointwise()
}
