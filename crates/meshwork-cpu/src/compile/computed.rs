//! Products of a vector and a matrix that is computed for nothing else, as sums of what is multiplied: fusion computes the elements
//! where they are added, so no such matrix is stored.
//!
//! Counts of comparisons with weights, sums over pairs and rows of kernels are written that way: `exp(-(x - y')²) · w`.

use meshwork_ir::op::{BinaryOp, MixedOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, Type, ValueId};

use super::expand::replace;

/// A smaller matrix stays in the first-level cache, where the product reads it.
const LEAST_BYTES: i64 = 16 << 10;

/// Replaces the product `op` of real numbers or integers.
pub(crate) fn product(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[lhs, rhs], &[result], Some(Attr::Dot(dims))) =
        (data.operands(), data.results(), data.attr("dot_dimension_numbers"))
    else {
        return false;
    };
    if !dims.lhs_batch.is_empty() || data.attr("algorithm").is_some() {
        return false;
    }
    let is_number = |e: &ElementType| (e.is_float() || e.is_integer()) && e.bits() >= 32;
    let Some(elem) = module.ty(result).elem().filter(is_number) else { return false };
    let size = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
    let is_vector = |v: ValueId, along: &[i64]| {
        let shape = module.ty(v).dims();
        (0..shape.len()).all(|d| shape[d] == 1 || along.contains(&(d as i64)))
    };
    let sides =
        [(lhs, &dims.lhs_contract, rhs, &dims.rhs_contract), (rhs, &dims.rhs_contract, lhs, &dims.lhs_contract)];
    let found = sides.into_iter().find(|&(matrix, _, vector, along)| {
        size(matrix) >= size(vector) && is_vector(vector, along) && is_computed(module, matrix, op)
    });
    let Some((matrix, over, vector, along)) = found else { return false };
    let alike = [lhs, rhs].iter().all(|&v| module.ty(v).elem() == Some(elem));
    if !alike || size(matrix) * (elem.storage_bytes() as i64) < LEAST_BYTES {
        return false;
    }
    let shape = module.ty(vector).dims();
    // The vector's dimensions in their order, and which of the matrix each is.
    let mut pairs: Vec<(i64, i64)> = along.iter().copied().zip(over.iter().copied()).collect();
    pairs.sort_unstable();
    let extents: Vec<i64> = pairs.iter().map(|&(d, _)| shape[d as usize]).collect();
    let places: Vec<i64> = pairs.iter().map(|&(_, d)| d).collect();
    let (over, out) = (over.clone(), module.ty(result).dims().to_vec());
    replace(module, op, |b| {
        let ty = Type::tensor(b.ty(matrix).dims().to_vec(), elem);
        let flat = b.reshape(vector, extents)?;
        let spread = b.broadcast_as(flat, ty, &places)?;
        let products = b.multiply(matrix, spread)?;
        let zero = b.scalar(elem, 0.0)?;
        let sums = b.reduce_by(OpKind::Binary(BinaryOp::Add), products, zero, &over)?;
        Ok(Some(vec![b.reshape(sums, out)?]))
    })
}

/// Whether `value` is arithmetic on elements, right where `op` is, and nothing else needs it. A conversion of floats in memory is
/// left to packing; integers are wider when packed, and a loop converts them as they stream.
fn is_computed(module: &Module, value: ValueId, op: OpId) -> bool {
    let Some(def) = module.def_op(value) else { return false };
    let only = module.value(value).uses().iter().all(|u| u.op == op);
    let is_arithmetic = match module.op(def).kind() {
        OpKind::Mixed(MixedOp::Convert) => {
            let from = module.op(def).operands()[0];
            module.ty(from).elem().is_some_and(|e| !e.is_float()) || is_computed(module, from, def)
        }
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => true,
        _ => false,
    };
    only && is_arithmetic && module.op(def).parent() == module.op(op).parent()
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    #[test]
    fn matrices_computed_for_a_vector() {
        for (m, k) in [(97, 131), (1, 4096), (4096, 1), (8, 1025), (1031, 7)] {
            for elem in ["f32", "f64"] {
                // The vector on either side of the matrix, whose rows or columns are added up.
                for (of, operands) in [(0, "%d, %w"), (1, "%d, %w"), (0, "%w, %d"), (1, "%w, %d")] {
                    let (rows, columns) = if of == 1 { (m, k) } else { (k, m) };
                    let types = [format!("tensor<{rows}x{columns}x{elem}>"), format!("tensor<{k}x{elem}>")];
                    let (list, contracted) = if operands.starts_with("%d") {
                        (types.join(", "), format!("[{of}] x [0]"))
                    } else {
                        (format!("{}, {}", types[1], types[0]), format!("[0] x [{of}]"))
                    };
                    let text = check(
                        &format!(
                            "func.func @main(%x: tensor<{rows}x{elem}>, %y: tensor<{columns}x{elem}>, %w: tensor<{k}x{elem}>) -> tensor<{m}x{elem}> {{
                            %a = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<{rows}x{elem}>) -> {ty}
                            %b = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<{columns}x{elem}>) -> {ty}
                            %p = stablehlo.compare LT, %a, %b, FLOAT : ({ty}, {ty}) -> tensor<{rows}x{columns}xi1>
                            %d = stablehlo.convert %p : (tensor<{rows}x{columns}xi1>) -> {ty}
                            %r = stablehlo.dot_general {operands}, contracting_dims = {contracted} : ({list}) -> tensor<{m}x{elem}>
                            return %r : tensor<{m}x{elem}> }}",
                            ty = types[0],
                        ),
                        1e-4,
                    );
                    let small = m * k * if elem == "f32" { 4 } else { 8 } < 16 << 10;
                    assert_eq!(text.contains("dot"), small, "{elem} {m} {k} {of}: {text}");
                }
            }
        }
    }

    #[test]
    fn integers_converted_for_a_vector() {
        for (from, to) in [("i8", "i32"), ("ui8", "i32"), ("i16", "i64"), ("i8", "f32"), ("i32", "f32"), ("i1", "f64")]
        {
            for (m, k, of) in [(97, 131, 1), (131, 97, 0), (8, 4099, 1), (3, 8200, 0), (0, 8200, 1)] {
                let (rows, columns) = if of == 1 { (m, k) } else { (k, m) };
                let text = check(
                    &format!(
                        "func.func @main(%x: tensor<{rows}x{columns}x{from}>, %v: tensor<{k}x{from}>) -> tensor<{m}x{to}> {{
                        %a = stablehlo.convert %x : (tensor<{rows}x{columns}x{from}>) -> tensor<{rows}x{columns}x{to}>
                        %b = stablehlo.convert %v : (tensor<{k}x{from}>) -> tensor<{k}x{to}>
                        %r = stablehlo.dot_general %a, %b, contracting_dims = [{of}] x [0]
                            : (tensor<{rows}x{columns}x{to}>, tensor<{k}x{to}>) -> tensor<{m}x{to}>
                        return %r : tensor<{m}x{to}> }}"
                    ),
                    1e-4,
                );
                assert_eq!(text.contains("dot"), m == 0, "{from} {to} {m} {k} {of}: {text}");
            }
        }
    }

    #[test]
    fn all_of_two_dimensions_and_columns_of_one() {
        let text = check(
            "func.func @main(%x: tensor<40x30x8xf32>, %w: tensor<8x40x1xf32>) -> tensor<30x1xf32> {
            %d = stablehlo.multiply %x, %x : tensor<40x30x8xf32>
            %r = stablehlo.dot_general %d, %w, contracting_dims = [0, 2] x [1, 0]
                : (tensor<40x30x8xf32>, tensor<8x40x1xf32>) -> tensor<30x1xf32>
            return %r : tensor<30x1xf32> }",
            1e-4,
        );
        assert!(!text.contains("dot"), "{text}");
    }

    #[test]
    fn what_others_need_is_stored() {
        let text = check(
            "func.func @main(%x: tensor<90x80xf32>, %w: tensor<80xf32>) -> (tensor<90xf32>, tensor<90x80xf32>) {
            %d = stablehlo.multiply %x, %x : tensor<90x80xf32>
            %r = stablehlo.dot_general %d, %w, contracting_dims = [1] x [0] : (tensor<90x80xf32>, tensor<80xf32>) -> tensor<90xf32>
            return %r, %d : tensor<90xf32>, tensor<90x80xf32> }",
            1e-4,
        );
        assert!(text.contains("dot"), "{text}");
    }
}
