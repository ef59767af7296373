//! Two arrays whose elements take turns, written as a sum of both with zeros between: associative scans are full of them.
//!
//! `pad(a, interior 1) + pad(b, low 1, interior 1)` is the array of pairs `a[i], b[i]` under another shape.

use meshwork_ir::op::MovementOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, Type, ValueId};

/// An array with zeros between its elements along one dimension, after `low` of them.
struct Spread {
    of: ValueId,
    zero: ValueId,
    dim: usize,
    low: i64,
}

/// Replaces `op`, a sum or a disjunction.
pub(crate) fn sum_of_spread(module: &mut Module, op: OpId) -> bool {
    let (&[x, y], &[result]) = (module.op(op).operands(), module.op(op).results()) else { return false };
    let (Some(x), Some(y)) = (spread(module, x), spread(module, y)) else { return false };
    let (a, b) = if x.low == 0 { (x, y) } else { (y, x) };
    if a.dim != b.dim || a.low != 0 || b.low != 1 {
        return false;
    }
    let (ty, dim) = (module.ty(result).clone(), a.dim);
    let Some(elem) = ty.elem() else { return false };
    let n = ty.dims()[dim];
    let (first, second) = (module.ty(a.of).dims()[dim], module.ty(b.of).dims()[dim]);
    if first + second != n || first - second > 1 || second > first || n < 2 {
        return false;
    }
    let loc = module.op(op).loc.clone();
    let rank = ty.dims().len();
    let with = |extents: &[i64]| {
        let mut dims = ty.dims().to_vec();
        dims.splice(dim..=dim, extents.iter().copied());
        Type::tensor(dims, elem)
    };
    let mut add = |kind: MovementOp, operands: Vec<ValueId>, to: Type, attrs: Vec<(&'static str, Attr)>| {
        let spec = OpSpec::new(OpKind::Movement(kind)).operands(operands).results([to]).loc(loc.clone());
        let new = module.push_before(op, attrs.into_iter().fold(spec, |spec, (name, attr)| spec.attr(name, attr)));
        module.result(new)
    };
    let at = |value: i64| Attr::i64s((0..rank).map(|d| if d == dim { value } else { 0 }));
    let longer = if first == second {
        b.of
    } else {
        let attrs = vec![("edge_padding_low", at(0)), ("edge_padding_high", at(1)), ("interior_padding", at(0))];
        add(MovementOp::Pad, vec![b.of, b.zero], with(&[first]), attrs)
    };
    let columns = [a.of, longer].map(|v| add(MovementOp::Reshape, vec![v], with(&[first, 1]), vec![]));
    let attrs = vec![("dimension", Attr::i64(dim as i64 + 1))];
    let pairs = add(MovementOp::Concatenate, columns.to_vec(), with(&[first, 2]), attrs);
    let mut list = add(MovementOp::Reshape, vec![pairs], with(&[2 * first]), vec![]);
    if 2 * first != n {
        let attrs = vec![
            ("start_indices", at(0)),
            ("limit_indices", Attr::i64s(ty.dims().iter().copied())),
            ("strides", Attr::i64s((0..rank).map(|_| 1))),
        ];
        list = add(MovementOp::Slice, vec![list], ty.clone(), attrs);
    }
    module.replace_op(op, &[list]);
    true
}

/// `value` as an array with zeros between its elements.
fn spread(module: &Module, value: ValueId) -> Option<Spread> {
    let data = module.op(module.def_op(value)?);
    let &[of, zero] = data.operands() else { return None };
    if data.kind() != OpKind::Movement(MovementOp::Pad) {
        return None;
    }
    let number = module.op(module.def_op(zero)?);
    let is_zero = match number.attr("value") {
        Some(Attr::Dense(dense)) => dense.splat_bytes().is_some_and(|bytes| bytes.iter().all(|&b| b == 0)),
        _ => false,
    };
    let [low, high, inner] = ["edge_padding_low", "edge_padding_high", "interior_padding"].map(|name| data.i64s(name));
    let (low, high, inner) = (low?, high?, inner?);
    let spread: Vec<usize> = (0..inner.len()).filter(|&d| inner[d] != 0).collect();
    let &[dim] = &spread[..] else { return None };
    let plain = (0..inner.len()).all(|d| d == dim || (low[d] == 0 && high[d] == 0));
    (is_zero && plain && inner[dim] == 1 && high[dim] >= 0).then_some(Spread { of, zero, dim, low: low[dim] })
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    #[test]
    fn elements_that_take_turns() {
        for (a, b, f, elem) in [(4, 4, "add", "f32"), (5, 4, "add", "i32"), (1, 1, "or", "i1"), (20, 19, "add", "f64")]
        {
            let (n, zero) = (
                a + b,
                if elem.starts_with('f') {
                    "0.0"
                } else if elem == "i1" {
                    "false"
                } else {
                    "0"
                },
            );
            let source = format!(
                "func.func @main(%x: tensor<3x{a}x{elem}>, %y: tensor<3x{b}x{elem}>) -> tensor<3x{n}x{elem}> {{
                %z = stablehlo.constant dense<{zero}> : tensor<{elem}>
                %p = stablehlo.pad %x, %z, low = [0, 0], high = [0, {}], interior = [0, 1] : (tensor<3x{a}x{elem}>, tensor<{elem}>) -> tensor<3x{n}x{elem}>
                %q = stablehlo.pad %y, %z, low = [0, 1], high = [0, {}], interior = [0, 1] : (tensor<3x{b}x{elem}>, tensor<{elem}>) -> tensor<3x{n}x{elem}>
                %s = stablehlo.{f} %p, %q : tensor<3x{n}x{elem}>
                return %s : tensor<3x{n}x{elem}> }}",
                n - (2 * a - 1),
                n - 2 * b,
            );
            let text = check(&source, 0.0);
            assert!(!text.contains("pad "), "{text}");
        }
    }

    /// Zeros that are not one, or that overlap, stay what they are.
    #[test]
    fn others_are_summed() {
        let source = "func.func @main(%x: tensor<4xf32>, %y: tensor<3xf32>) -> tensor<7xf32> {
            %z = stablehlo.constant dense<1.0> : tensor<f32>
            %p = stablehlo.pad %x, %z, low = [0], high = [0], interior = [1] : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
            %q = stablehlo.pad %y, %z, low = [1], high = [1], interior = [1] : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
            %s = stablehlo.add %p, %q : tensor<7xf32>
            return %s : tensor<7xf32> }";
        check(source, 0.0);
    }
}
