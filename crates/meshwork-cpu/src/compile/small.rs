//! Stacks of products with a vector of a few elements, as sums of products: they fuse with what is around them.

use meshwork_ir::op::{BinaryOp, MovementOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, Type, ValueId};

use super::stencil::Emitter;

/// Elements that are contracted, and rows or columns.
const MAX_EXTENT: i64 = 8;
/// Products of a stack that is worth it.
const MIN_BATCH: i64 = 64;

/// Replaces a stack of small matrices times vectors.
pub(crate) fn stacked_vectors(module: &mut Module, op: OpId) -> bool {
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
    let small = |n: i64| (1..=MAX_EXTENT).contains(&n);
    if batch < MIN_BATCH || !small(k) || l.elem != r.elem || l.elem != out.elem || !l.elem.is_float() {
        return false;
    }
    let (m, n) = (size(&l.dims) / batch / k, size(&r.dims) / batch / k);
    if !small(m.max(n)) || m.min(n) != 1 || size(&out.dims) == 0 {
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
}
