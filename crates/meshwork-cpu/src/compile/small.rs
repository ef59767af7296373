//! Products of a few numbers, as sums of products of arrays: they fuse with what is around them.

use meshwork_ir::op::{BinaryOp, MovementOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, Type, ValueId};

use super::stencil::Emitter;

/// Elements that are contracted.
const MOST_TERMS: i64 = 8;
/// Multiplications of a product of two matrices, and of one with a vector.
const MOST_OF_MATRICES: i64 = 32;
const MOST_OF_VECTORS: i64 = 64;
/// Products of a stack that is worth it.
const LEAST: i64 = 64;
/// Multiplications for each row, or each column, of a product that has many of them.
const MOST_OF_THIN: i64 = 4;
/// The same where all of a term are neighbors in memory, so that a loop reads them as they are.
const MOST_APART: i64 = 16;

/// How many products there are, and the rows, columns and terms of each.
struct Sizes {
    batch: i64,
    rows: i64,
    columns: i64,
    terms: i64,
    /// Whether the matrix of each product with a vector is spread out in memory: its elements are as far apart as there are
    /// products, and those of one place in all of them are neighbors.
    apart: bool,
}

impl Sizes {
    /// Whether each of many products is small: a loop over all of them takes less time than finding the next one.
    fn is_stack(&self) -> bool {
        let (few, many) = (self.rows.min(self.columns), self.rows.max(self.columns));
        let most = if few == 1 { MOST_OF_VECTORS } else { MOST_OF_MATRICES };
        let long = few == 1 && (self.terms == 1 || self.apart);
        let most_terms = if long { MOST_APART } else { MOST_TERMS };
        self.batch >= LEAST && self.terms <= most_terms && (long || few * many * self.terms <= most)
    }

    /// Whether a product has many rows, or columns, and little else.
    fn is_thin(&self) -> bool {
        let (few, many) = (self.rows.min(self.columns), self.rows.max(self.columns));
        few > 1 && few * self.terms <= MOST_OF_THIN && many >= LEAST
    }
}

/// Replaces a stack of small products of real numbers.
pub(crate) fn stacked(module: &mut Module, op: OpId) -> bool {
    let elem = module.op(op).operands().first().and_then(|&v| module.ty(v).elem());
    elem.is_some_and(|elem| elem.is_float()) && write_out(module, op)
}

/// Replaces small products of complex numbers, which are not written as their parts yet.
pub(crate) fn of_complex(module: &mut Module, op: OpId) -> bool {
    let elem = module.op(op).operands().first().and_then(|&v| module.ty(v).elem());
    elem.is_some_and(|elem| elem.is_complex()) && write_out(module, op)
}

fn write_out(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[lhs, rhs], &[result], Some(Attr::Dot(dims))) =
        (data.operands(), data.results(), data.attr("dot_dimension_numbers"))
    else {
        return false;
    };
    let dims = dims.clone();
    let (Some(l), Some(r), Some(out)) = (
        module.ty(lhs).as_tensor().cloned(),
        module.ty(rhs).as_tensor().cloned(),
        module.ty(result).as_tensor().cloned(),
    ) else {
        return false;
    };
    let extent = |shape: &[i64], list: &[i64]| list.iter().map(|&d| shape[d as usize]).product::<i64>();
    let (batch, k) = (extent(&l.dims, &dims.lhs_batch), extent(&l.dims, &dims.lhs_contract));
    let size = |shape: &[i64]| shape.iter().product::<i64>();
    if k < 1 || size(&out.dims) == 0 || l.elem != r.elem || l.elem != out.elem {
        return false;
    }
    let (rows, columns) = (size(&l.dims) / batch / k, size(&r.dims) / batch / k);
    let (shape, batched) = if rows >= columns { (&l.dims, &dims.lhs_batch) } else { (&r.dims, &dims.rhs_batch) };
    let apart = batched.contains(&(shape.len() as i64 - 1));
    let sizes = Sizes { batch, rows, columns, terms: k, apart };
    // Sums of narrow floats are rounded once.
    let is_thin = sizes.is_thin() && out.elem.bits() >= 32;
    if !sizes.is_stack() && !is_thin {
        return false;
    }
    let mut e = Emitter { module, op };
    let ty = Type::tensor(out.dims.to_vec(), out.elem);
    let free = |shape: &[i64], batch: &[i64], contract: &[i64]| -> Vec<i64> {
        (0..shape.len() as i64).filter(|d| !batch.contains(d) && !contract.contains(d)).collect()
    };
    let left = free(&l.dims, &dims.lhs_batch, &dims.lhs_contract);
    let right = free(&r.dims, &dims.rhs_batch, &dims.rhs_contract);
    // Where the dimensions of an operand go; the contracted ones, of one element then, go nowhere.
    let first = dims.lhs_batch.len();
    let place = |batch: &[i64], own: &[i64], start: usize, d: i64| {
        let at = batch.iter().position(|&b| b == d);
        at.or(own.iter().position(|&f| f == d).map(|i| start + i)).map(|i| i as i64)
    };
    let term = |e: &mut Emitter<'_>, v: ValueId, contract: &[i64], number: i64, place: &dyn Fn(i64) -> Option<i64>| {
        let shape = e.module.ty(v).dims().to_vec();
        let (mut start, mut limit, mut rest) = (vec![0; shape.len()], shape.clone(), number);
        for &d in contract.iter().rev() {
            let at = rest % shape[d as usize];
            rest /= shape[d as usize];
            (start[d as usize], limit[d as usize]) = (at, at + 1);
        }
        let cut: Vec<i64> = start.iter().zip(&limit).map(|(a, b)| b - a).collect();
        let one = e.slice(v, start, limit, vec![1; shape.len()], Type::tensor(cut, out.elem));
        let kept: Vec<i64> = (0..shape.len() as i64).filter(|d| !contract.contains(d)).collect();
        let flat = Type::tensor(kept.iter().map(|&d| shape[d as usize]).collect::<Vec<_>>(), out.elem);
        let flat = e.add(OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([one]), flat);
        let to: Vec<i64> = kept.iter().filter_map(|&d| place(d)).collect();
        let spec = OpSpec::new(OpKind::Movement(MovementOp::BroadcastInDim)).operands([flat]);
        e.add(spec.attr("broadcast_dimensions", Attr::i64s(to)), ty.clone())
    };
    let mut sum: Option<ValueId> = None;
    for i in 0..k {
        let a = term(&mut e, lhs, &dims.lhs_contract, i, &|d| place(&dims.lhs_batch, &left, first, d));
        let b = term(&mut e, rhs, &dims.rhs_contract, i, &|d| place(&dims.rhs_batch, &right, first + left.len(), d));
        let product = e.binary(OpKind::Binary(BinaryOp::Multiply), a, b, &ty);
        sum = Some(sum.map_or(product, |before| e.binary(OpKind::Binary(BinaryOp::Add), before, product, &ty)));
    }
    let Some(sum) = sum else { return false };
    module.replace_op(op, &[sum]);
    true
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// Every shape of a few rows, columns and terms, in every type.
    #[test]
    fn stacks_of_small_products() {
        let sizes = [
            (2, 2, 2),
            (3, 3, 3),
            (2, 3, 4),
            (4, 2, 3),
            (1, 16, 1),
            (70, 1, 1),
            (1, 5, 8),
            (1, 1, 1),
            (2, 2, 8),
            (4, 4, 1),
        ];
        for (m, n, k) in sizes {
            for elem in ["f32", "f64", "bf16", "complex<f32>", "complex<f64>"] {
                let text = check(
                    &format!(
                        "func.func @main(%a: tensor<66x{m}x{k}x{elem}>, %b: tensor<{k}x66x{n}x{elem}>) -> tensor<66x{m}x{n}x{elem}> {{
                        %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [1], contracting_dims = [2] x [0]
                            : (tensor<66x{m}x{k}x{elem}>, tensor<{k}x66x{n}x{elem}>) -> tensor<66x{m}x{n}x{elem}>
                        return %0 : tensor<66x{m}x{n}x{elem}> }}"
                    ),
                    if elem == "bf16" { 5e-2 } else { 1e-5 },
                );
                assert!(!text.contains("dot"), "{elem} {m} {n} {k}: {text}");
            }
        }
    }

    #[test]
    fn matrices_times_vectors_of_a_few_elements() {
        let text = check(
            "func.func @main(%a: tensor<70x3x4xf32>, %x: tensor<70x4xf32>) -> tensor<70x3xf32> {
            %0 = stablehlo.dot_general %a, %x, batching_dims = [0] x [0], contracting_dims = [2] x [1]
                : (tensor<70x3x4xf32>, tensor<70x4xf32>) -> tensor<70x3xf32>
            return %0 : tensor<70x3xf32> }",
            1e-5,
        );
        assert!(!text.contains("dot"), "{text}");
        let text = check(
            "func.func @main(%x: tensor<2x40x3xf32>, %a: tensor<3x5x40x2xf32>) -> tensor<40x2x5xf32> {
            %0 = stablehlo.dot_general %x, %a, batching_dims = [1, 0] x [2, 3], contracting_dims = [2] x [0]
                : (tensor<2x40x3xf32>, tensor<3x5x40x2xf32>) -> tensor<40x2x5xf32>
            return %0 : tensor<40x2x5xf32> }",
            1e-5,
        );
        assert!(!text.contains("dot"), "{text}");
    }

    /// The same weights at every place of a row, one per channel: channels are neighbors.
    #[test]
    fn matrices_times_vectors_whose_elements_are_apart() {
        for (m, k) in [(5, 3), (300, 8), (33, 16), (33, 17)] {
            for elem in ["f32", "f64", "complex<f32>"] {
                let text = check(
                    &format!(
                        "func.func @main(%a: tensor<{m}x{k}x66x{elem}>, %b: tensor<{k}x66x{elem}>) -> tensor<66x{m}x{elem}> {{
                        %0 = stablehlo.dot_general %a, %b, batching_dims = [2] x [1], contracting_dims = [1] x [0]
                            : (tensor<{m}x{k}x66x{elem}>, tensor<{k}x66x{elem}>) -> tensor<66x{m}x{elem}>
                        return %0 : tensor<66x{m}x{elem}> }}"
                    ),
                    1e-5,
                );
                assert_eq!(text.contains("dot"), k > 16, "{elem} {m} {k}: {text}");
            }
        }
    }

    /// A large array times a matrix of two rows and columns, before or behind its other dimensions.
    #[test]
    fn arrays_times_matrices_of_four_numbers() {
        for (before, behind) in [(1, 300), (67, 1), (33, 2), (5, 41)] {
            for elem in ["f32", "f64", "complex<f32>"] {
                let text = check(
                    &format!(
                        "func.func @main(%x: tensor<{before}x2x{behind}x{elem}>, %a: tensor<2x2x{elem}>) -> tensor<{before}x2x{behind}x{elem}> {{
                        %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [1]
                            : (tensor<{before}x2x{behind}x{elem}>, tensor<2x2x{elem}>) -> tensor<{before}x{behind}x2x{elem}>
                        %1 = stablehlo.transpose %0, dims = [0, 2, 1]
                            : (tensor<{before}x{behind}x2x{elem}>) -> tensor<{before}x2x{behind}x{elem}>
                        return %1 : tensor<{before}x2x{behind}x{elem}> }}"
                    ),
                    1e-5,
                );
                assert!(!text.contains("dot"), "{elem} {before} {behind}: {text}");
            }
        }
    }
}
