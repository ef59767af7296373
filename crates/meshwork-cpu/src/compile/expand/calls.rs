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

#[cfg(test)]
mod tests {
    use meshwork_ir::{ElementType, Literal};

    use crate::compile::testing::{check, check_on};

    /// `ApproxTopK` as JAX writes it, along `dim` of arrays of these extents.
    fn approximate(elem: &str, dims: [i64; 2], dim: usize, k: i64, direction: &str) -> String {
        let mut short = dims;
        short[dim] = k;
        let ty = |dims: [i64; 2], elem: &str| format!("tensor<{}x{}x{elem}>", dims[0], dims[1]);
        let (x, i, v, p) = (ty(dims, elem), ty(dims, "i32"), ty(short, elem), ty(short, "i32"));
        let order = if elem.contains('f') { ", TOTALORDER" } else { "" };
        let name = format!("top_k_{}_{elem}_comparator", direction.to_lowercase());
        format!(
            "func.func private @{name}(%a: tensor<{elem}>, %b: tensor<{elem}>, %p: tensor<i32>, %q: tensor<i32>) -> tensor<i1> {{
               %0 = stablehlo.compare {direction}, %a, %b{order} : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
               return %0 : tensor<i1>
             }}
             func.func @main(%x: {x}, %i: {i}, %v: tensor<{elem}>, %p: tensor<i32>) -> ({v}, {p}) {{
               %0:2 = stablehlo.custom_call @ApproxTopK(%x, %i, %v, %p) {{called_computations = [@{name}],
                 mhlo.backend_config = {{aggregate_to_topk = true, reduction_dim = {dim} : i64, top_k = {k} : i64}}}}
                 : ({x}, {i}, tensor<{elem}>, tensor<i32>) -> ({v}, {p})
               return %0#0, %0#1 : {v}, {p}
             }}"
        )
    }

    #[test]
    fn first_elements() {
        for elem in ["f32", "f64", "bf16", "i32", "ui8", "f8E5M2"] {
            for (dims, dim, k) in [
                ([4, 9], 1, 3),
                ([9, 4], 0, 2),
                ([3, 1], 1, 1),
                ([2, 5], 1, 5),
                ([0, 5], 1, 2),
                ([2, 7], 1, 0),
                ([3, 90], 1, 2),
            ] {
                for direction in ["GT", "LT"] {
                    let text = check(&approximate(elem, dims, dim, k, direction), 0.0);
                    assert!(!text.contains("evaluator"), "{text}");
                }
                for largest in [true, false].into_iter().filter(|_| dim == 1) {
                    let [m, n] = dims;
                    let text = check(
                        &format!(
                            "func.func @main(%x: tensor<{m}x{n}x{elem}>) -> (tensor<{m}x{k}x{elem}>, tensor<{m}x{k}xi32>) {{
                               %0:2 = stablehlo.custom_call @mhlo.topk(%x) {{mhlo.attributes = {{k = {k} : i64, largest = {largest}}}}}
                                 : (tensor<{m}x{n}x{elem}>) -> (tensor<{m}x{k}x{elem}>, tensor<{m}x{k}xi32>)
                               return %0#0, %0#1 : tensor<{m}x{k}x{elem}>, tensor<{m}x{k}xi32>
                             }}"
                        ),
                        0.0,
                    );
                    assert!(!text.contains("evaluator"), "{text}");
                }
            }
        }
    }

    #[test]
    fn first_elements_of_what_is_no_number() {
        let numbers = [1.0, f64::NAN, -0.0, f64::INFINITY, 0.0, -f64::NAN, f64::NEG_INFINITY, 1.0, -1e-42];
        let x = Literal::from_f64s([1, 9], ElementType::F32, &numbers).unwrap();
        let places =
            Literal::from_f64s([1, 9], ElementType::I32, &[8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]).unwrap();
        let [zero, none] = [ElementType::F32, ElementType::I32].map(|e| Literal::from_f64s([], e, &[0.0]).unwrap());
        for direction in ["GT", "LT"] {
            for k in [1, 4, 9] {
                let args = [x.clone(), places.clone(), zero.clone(), none.clone()];
                check_on(&approximate("f32", [1, 9], 1, k, direction), &args, 0.0);
            }
        }
    }
}
