//! Matrices that are rounded to 16 bits only to be multiplied by a vector, as rows of products that are summed: the matrix is read
//! once, in the loop that rounds it.

use meshwork_ir::op::{BinaryOp, MixedOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, ValueId};

use super::expand::replace;

/// Elements of a matrix that is worth it.
const LEAST: i64 = 1 << 12;

/// Replaces a product of a matrix, or of a stack of them, with vectors.
pub(crate) fn matrix_by_vector(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[lhs, rhs], &[result], Some(Attr::Dot(dims))) =
        (data.operands(), data.results(), data.attr("dot_dimension_numbers"))
    else {
        return false;
    };
    let dims = dims.clone();
    let left = (lhs, dims.lhs_batch.clone(), dims.lhs_contract.clone());
    let right = (rhs, dims.rhs_batch.clone(), dims.rhs_contract.clone());
    let is_rounded = |v: ValueId| {
        let from = module.def_op(v).filter(|&d| module.op(d).kind() == OpKind::Mixed(MixedOp::Convert));
        let wide = from.and_then(|d| module.ty(module.op(d).operands()[0]).elem());
        module.value(v).uses().len() == 1 && wide == Some(ElementType::F32)
    };
    let is_vector = |(v, batch, contract): &(ValueId, Vec<i64>, Vec<i64>)| {
        let free = |d: &usize| !batch.contains(&(*d as i64)) && !contract.contains(&(*d as i64));
        let shape = module.ty(*v).dims();
        (0..shape.len()).filter(free).all(|d| shape[d] == 1)
    };
    let ((matrix, batch, contract), (vector, of_batch, of_contract)) = match () {
        () if is_vector(&right) && is_rounded(lhs) => (left, right),
        () if is_vector(&left) && is_rounded(rhs) => (right, left),
        () => return false,
    };
    let narrow = |v: ValueId| matches!(module.ty(v).elem(), Some(ElementType::BF16 | ElementType::F16));
    let (shape, to) = (module.ty(matrix).dims().to_vec(), module.ty(result).dims().to_vec());
    // What is left of the matrix has the order of the result.
    let in_order = batch.iter().copied().eq(0..batch.len() as i64);
    let Some(elem) = module.ty(result).elem() else { return false };
    let is_long = shape.iter().product::<i64>() >= LEAST;
    if !is_long
        || !narrow(matrix)
        || !narrow(vector)
        || !elem.is_float()
        || elem.bits() > 32
        || !in_order
        || to.contains(&0)
    {
        return false;
    }
    let places = |d: i64| {
        let at = of_batch.iter().position(|&b| b == d).map(|i| batch[i]);
        at.or_else(|| of_contract.iter().position(|&c| c == d).map(|i| contract[i]))
    };
    let from = module.ty(vector).dims().to_vec();
    let kept: Vec<i64> = (0..from.len() as i64).filter(|&d| places(d).is_some()).collect();
    let map: Vec<i64> = kept.iter().filter_map(|&d| places(d)).collect();
    replace(module, op, |b| {
        let flat = b.reshape(vector, kept.iter().map(|&d| from[d as usize]))?;
        let (flat, matrix) = (b.convert(flat, ElementType::F32)?, b.convert(matrix, ElementType::F32)?);
        let wide = b.broadcast_in_dim(flat, shape.iter().copied(), &map)?;
        let products = b.multiply(matrix, wide)?;
        let zero = b.splat([], ElementType::F32, 0.0)?;
        let sums = b.reduce_by(OpKind::Binary(BinaryOp::Add), products, zero, &contract)?;
        let sums = b.reshape(sums, to.iter().copied())?;
        Ok(Some(vec![b.convert(sums, elem)?]))
    })
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// The matrix on either side, contracted along either of its dimensions.
    #[test]
    fn matrices_rounded_for_a_vector() {
        for (narrow, tolerance) in [("bf16", 2e-2), ("f16", 2e-3)] {
            for out in [narrow, "f32"] {
                for (m, x, r, batch, depth) in [
                    ("97x64", "64", "97", None, 1),
                    ("64x97", "64", "97", None, 0),
                    ("64x97", "64x1", "97x1", None, 0),
                    ("3x97x64", "3x64", "3x97", Some(0), 2),
                ] {
                    let own = i32::from(batch.is_some());
                    let (m, x) = (format!("tensor<{m}x{narrow}>"), format!("tensor<{x}x{narrow}>"));
                    let wide = |ty: &str| ty.replace(narrow, "f32");
                    for is_left in [true, false] {
                        let pick =
                            |a: String, b: String| if is_left { format!("{a} x {b}") } else { format!("{b} x {a}") };
                        let of = |d: i32| format!("[{d}]");
                        let stack =
                            batch.map_or(String::new(), |d| format!("batching_dims = {}, ", pick(of(d), of(0))));
                        let sum = pick(of(depth), of(own));
                        let (sides, types) = if is_left { ("%b, %y", (&m, &x)) } else { ("%y, %b", (&x, &m)) };
                        let r = if is_left || r != "97x1" { r } else { "1x97" };
                        let text = check(
                            &format!(
                                "func.func @main(%a: {}, %x: {}) -> tensor<{r}x{out}> {{
                                %b = stablehlo.convert %a : ({}) -> {m}
                                %y = stablehlo.convert %x : ({}) -> {x}
                                %0 = stablehlo.dot_general {sides}, {stack}contracting_dims = {sum} : ({}, {}) -> tensor<{r}x{out}>
                                return %0 : tensor<{r}x{out}> }}",
                                wide(&m), wide(&x), wide(&m), wide(&x), types.0, types.1
                            ),
                            tolerance,
                        );
                        assert!(!text.contains("dot"), "{text}");
                    }
                }
            }
        }
    }
}
