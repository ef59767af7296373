//! Custom calls that are operations in other words.

use meshwork_ir::build::{BuildError, Builder, Stability};
use meshwork_ir::op::{ChloOp, MixedOp, UnaryOp};
use meshwork_ir::{Attr, Direction, ElementType, Module, OpId, OpKind, OpSpec, Type, ValueId};

use super::replace;

pub(super) fn known(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(target) = data.call_target() else { return false };
    let unary = match target {
        "mhlo.acos" => UnaryOp::Acos,
        "mhlo.acosh" => UnaryOp::Acosh,
        "mhlo.asin" => UnaryOp::Asin,
        "mhlo.asinh" => UnaryOp::Asinh,
        "mhlo.atan" => UnaryOp::Atan,
        "mhlo.atanh" => UnaryOp::Atanh,
        "mhlo.cosh" => UnaryOp::Cosh,
        "mhlo.erf" => UnaryOp::Erf,
        "mhlo.erfc" => UnaryOp::Erfc,
        "mhlo.sinh" => UnaryOp::Sinh,
        "mhlo.tan" => UnaryOp::Tan,
        "mhlo.topk" | "TopK" => return top_k(module, op),
        "ApproxTopK" => return approx_top_k(module, op),
        _ => return false,
    };
    let operands = data.operands().to_vec();
    replace(module, op, |b| Ok(Some(vec![b.apply(OpKind::Unary(unary), &operands)?])))
}

fn top_k(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let declared = data.results().first().and_then(|&v| module.ty(v).dims().last().copied());
    let k = data.entry("mhlo.attributes", "k").or(data.entry("mhlo.backend_config", "k")).or(declared);
    let (Some(k), &[x]) = (k, data.operands()) else { return false };
    if data.entry("mhlo.attributes", "largest") == Some(0) {
        let (dims, Some(&place)) = (module.ty(x).dims().to_vec(), data.results().get(1)) else { return false };
        let (Some(last), Some(index)) = (dims.len().checked_sub(1), module.ty(place).elem()) else { return false };
        return replace(module, op, |b| {
            let places = b.iota(Type::tensor(dims, index), last as i64)?;
            first_of_sorted(b, &[x, places], last, k, Direction::Lt).map(Some)
        });
    }
    let types: Vec<_> = data.results().iter().map(|&r| module.ty(r).clone()).collect();
    replace(module, op, |b| {
        let spec = OpSpec::new(OpKind::Chlo(ChloOp::TopK)).operands([x]).results(types).attr("k", Attr::i64(k));
        Ok(Some(b.values(spec)?.into_iter().collect()))
    })
}

/// The exact answer is a legal one to an approximate question.
fn approx_top_k(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(arrays) = data.operands().get(..2).map(<[_]>::to_vec) else { return false };
    let dim = data.entry("mhlo.backend_config", "reduction_dim").and_then(|d| usize::try_from(d).ok());
    let k = dim.zip(data.results().first()).and_then(|(dim, &v)| module.ty(v).dims().get(dim).copied());
    let comparator = data.attr("called_computations").and_then(Attr::as_array).and_then(|a| a.first()?.as_symbol());
    // By the names that JAX gives them: top_k_gt_f32_comparator and top_k_lt_f32_comparator.
    let direction = match comparator {
        Some(name) if name.contains("_gt_") => Direction::Gt,
        Some(name) if name.contains("_lt_") => Direction::Lt,
        _ => return false,
    };
    let (Some(dim), Some(k)) = (dim, k) else { return false };
    replace(module, op, |b| first_of_sorted(b, &arrays, dim, k, direction).map(Some))
}

/// The first `k` along `dim` of `arrays`, sorted by the elements of the first of them.
fn first_of_sorted(
    b: &mut Builder<'_>,
    arrays: &[ValueId],
    dim: usize,
    k: i64,
    direction: Direction,
) -> Result<Vec<ValueId>, BuildError> {
    let sorted = b.sort(arrays, dim as i64, Stability::Stable, |b, elements| {
        let mut spec = OpSpec::new(OpKind::Mixed(MixedOp::Compare))
            .operands(elements[..2].iter().copied())
            .attr("comparison_direction", Attr::hlo_enum("comparison_direction", direction.text()));
        if b.ty(elements[0]).elem().is_some_and(ElementType::is_float) {
            spec = spec.attr("compare_type", Attr::hlo_enum("comparison_type", "TOTALORDER"));
        }
        Ok([b.value(spec)?])
    })?;
    let mut limit = b.ty(arrays[0]).dims().to_vec();
    let (start, stride) = (vec![0; limit.len()], vec![1; limit.len()]);
    if let Some(limit) = limit.get_mut(dim) {
        *limit = k;
    }
    sorted.into_iter().map(|x| b.slice(x, &start, &limit, &stride)).collect()
}

/// The largest of elements that have no keys are those of a wider type.
pub(super) fn top_k_of_narrow(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[x], &[values, places]) = (data.operands(), data.results()) else { return false };
    let Some(elem) = module.ty(x).elem().filter(|&e| !crate::library::has_key(e)) else { return false };
    let wide = match elem {
        e if e.is_float() => ElementType::F32,
        e if e.is_integer() => ElementType::I32,
        _ => return false,
    };
    let (Some(k), shape) = (data.int("k"), module.ty(values).dims().to_vec()) else { return false };
    let place = module.ty(places).clone();
    replace(module, op, |b| {
        let x = b.convert(x, wide)?;
        let spec = OpSpec::new(OpKind::Chlo(ChloOp::TopK))
            .operands([x])
            .results([Type::tensor(shape, wide), place])
            .attr("k", Attr::i64(k));
        let both = b.values(spec)?;
        Ok(Some(vec![b.convert(both[0], elem)?, both[1]]))
    })
}
