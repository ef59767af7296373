//! Custom calls: placement calls, which have no effect on one device, and those that JAX exports for CPUs.

use super::attrs;
use super::fault::Fault;
use super::foreign::{self, ForeignCall};
use super::index::index_at;
use super::machine::Machine;
use super::scalar::{ScalarOp, apply};
use super::value::{Val, allocate};
use super::{check, dispatch::tensors, lapack, sort};
use meshwork_ir::Direction;
use meshwork_ir::op::{ControlOp, UnaryOp};
use meshwork_ir::{Attr, Literal, Op, OpId, OpKind};

/// Whether `op` is a call whose results have the types of its operands.
pub(crate) fn keeps_type(op: &Op) -> bool {
    let target = op.call_target().filter(|_| op.kind() == ControlOp::CustomCall);
    op.is_placement_call() || target.is_some_and(|target| elementwise(target).is_some())
}

/// Runs the custom call `id`.
pub(crate) fn execute(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Literal>, Fault> {
    let op = m.module.op(id);
    let target = op.call_target().ok_or_else(|| attrs::missing("call_target_name", "a string"))?;
    let operands = tensors(&args)?;
    let x = |i: usize| -> Result<&Literal, Fault> {
        operands.get(i).copied().ok_or_else(|| Fault::invalid(format!("@{target} needs operand {i}")))
    };
    if check::is_check(op) {
        return Ok(check::evaluate(m.module, id, &operands)?.into_iter().collect());
    }
    if let Some(results) = lapack::call(m.module, op, target, &operands) {
        return results;
    }
    if let Some(kind) = elementwise(target) {
        return Ok(vec![unary(kind, x(0)?)?]);
    }
    if op.is_placement_call() {
        return Ok(operands.into_iter().take(op.results().len()).cloned().collect());
    }
    match target {
        // On one device the shard is the whole.
        "SPMDFullToShardShape" | "SPMDShardToFullShape" if m.site.grid.len() == 1 => Ok(vec![x(0)?.clone()]),
        "shape_assertion" => match index_at(x(0)?, 0) {
            0 => Err(Fault::invalid("its shape assertion does not hold")),
            _ => Ok(vec![]),
        },
        "mhlo.topk" | "TopK" => top_k(m, id, x(0)?),
        "ApproxTopK" => approx_top_k(m, id, x(0)?, x(1)?),
        _ => {
            let call = ForeignCall { target, attrs: &op.attrs, device: m.site.device, operands: &operands };
            let types = op.results().iter().filter_map(|&v| m.module.ty(v).as_tensor());
            let results = types.map(|t| allocate(&t.dims, t.elem)).collect::<Result<_, _>>()?;
            let unknown = || Fault::unsupported(format!("custom call @{target}"));
            foreign::call(&call, results).ok_or_else(unknown)?.map_err(Fault::invalid)
        }
    }
}

/// Elementwise functions that older producers spell as custom calls.
fn elementwise(target: &str) -> Option<OpKind> {
    Some(match target {
        "mhlo.acos" => OpKind::Unary(UnaryOp::Acos),
        "mhlo.acosh" => OpKind::Unary(UnaryOp::Acosh),
        "mhlo.asin" => OpKind::Unary(UnaryOp::Asin),
        "mhlo.asinh" => OpKind::Unary(UnaryOp::Asinh),
        "mhlo.atan" => OpKind::Unary(UnaryOp::Atan),
        "mhlo.atanh" => OpKind::Unary(UnaryOp::Atanh),
        "mhlo.cosh" => OpKind::Unary(UnaryOp::Cosh),
        "mhlo.erf" => OpKind::Unary(UnaryOp::Erf),
        "mhlo.erfc" => OpKind::Unary(UnaryOp::Erfc),
        "mhlo.sinh" => OpKind::Unary(UnaryOp::Sinh),
        "mhlo.tan" => OpKind::Unary(UnaryOp::Tan),
        _ => return None,
    })
}

fn unary(kind: OpKind, x: &Literal) -> Result<Literal, Fault> {
    let op = ScalarOp::new(kind, x.elem(), x.elem())
        .ok_or_else(|| Fault::unsupported(format!("'{}' of {}", kind.name(), x.elem())))?;
    let mut out = allocate(x.dims(), x.elem())?;
    for i in 0..x.len() {
        out.set(i, apply(&op, &[x.get(i)]));
    }
    Ok(out)
}

fn top_k(m: &Machine<'_>, id: OpId, x: &Literal) -> Result<Vec<Literal>, Fault> {
    let op = m.module.op(id);
    let nested = |dict: &str| op.entry(dict, "k");
    let declared = op.results().first().and_then(|&v| m.module.ty(v).dims().last().copied());
    let k = nested("mhlo.attributes").or(nested("mhlo.backend_config")).or(declared);
    let k =
        k.and_then(|k| usize::try_from(k).ok()).ok_or_else(|| Fault::invalid("it does not say how many elements"))?;
    let direction = match op.entry("mhlo.attributes", "largest") {
        Some(0) => Direction::Lt,
        _ => Direction::Gt,
    };
    let index = op.results().get(1).and_then(|&v| m.module.ty(v).elem());
    let (values, places) = sort::first_k(x, k, index.unwrap_or(meshwork_ir::ElementType::I32), direction)?;
    Ok(vec![values, places])
}

/// The exact largest (or smallest) elements are a legal answer to an approximate question: as many as the result has.
fn approx_top_k(m: &Machine<'_>, id: OpId, x: &Literal, places: &Literal) -> Result<Vec<Literal>, Fault> {
    let op = m.module.op(id);
    let dims = x.dims();
    let dim = op.entry("mhlo.backend_config", "reduction_dim").and_then(|d| usize::try_from(d).ok());
    let Some(dim) = dim.filter(|&d| d < dims.len()) else {
        return Err(Fault::invalid(format!("its backend_config names no dimension of {} to reduce", x.ty())));
    };
    let result = op.results().first().map(|&v| m.module.ty(v).dims());
    let Some(&k) = result.and_then(|dims| dims.get(dim)).filter(|k| (0..=dims[dim]).contains(*k)) else {
        return Err(Fault::invalid(format!("its result has no part of {}", x.ty())));
    };
    if places.dims() != dims {
        return Err(Fault::invalid(format!("the indices are {} for values {}", places.ty(), x.ty())));
    }
    let callee = op.attr("called_computations").and_then(Attr::as_array).and_then(|a| a.first()?.as_symbol());
    // JAX names its comparators top_k_gt_f32_comparator and top_k_lt_f32_comparator.
    let direction = match callee.unwrap_or("") {
        name if name.contains("_gt_") => Direction::Gt,
        name if name.contains("_lt_") => Direction::Lt,
        name => return Err(Fault::unsupported(format!("@ApproxTopK with the comparator @{name}"))),
    };
    let (n, k) = (dims[dim] as usize, k as usize);
    let inner = dims[dim + 1..].iter().product::<i64>() as usize;
    // Element `at` of line `line` along the dimension, if that has `extent` elements.
    let place = |line: usize, at: usize, extent: usize| ((line / inner) * extent + at) * inner + line % inner;
    let lines = x.len() / n.max(1);
    let mut rows = allocate(&[lines as i64, n as i64], x.elem())?;
    for i in 0..rows.len() {
        rows.set_element(i, x.element(place(i / n, i % n, n)));
    }
    let (best, order) = sort::first_k(&rows, k, meshwork_ir::ElementType::I64, direction)?;
    let mut to = dims.to_vec();
    to[dim] = k as i64;
    let (mut values, mut chosen) = (allocate(&to, x.elem())?, allocate(&to, places.elem())?);
    for i in 0..best.len() {
        let (line, at) = (i / k, i % k);
        values.set_element(place(line, at, k), best.element(i));
        chosen.set_element(place(line, at, k), places.element(place(line, order.get_i64(i) as usize, n)));
    }
    Ok(vec![values, chosen])
}
