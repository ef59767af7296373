//! Index vectors whose components are computed apart: each component stays a row in memory, where vectors would be written element by
//! element. Pairs are left: these are written and read by shuffles.
//!
//! `gather(x, concatenate(i, j, k, dim = 1))` of columns `i`, `j` and `k` reads `concatenate(i, j, k, dim = 0)` of them as rows.

use std::sync::Arc;

use meshwork_ir::op::MovementOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, Type, ValueId};

/// Fewer vectors are left as they are: what looks at single places knows them so.
const FEW: i64 = 64;

/// Replaces the indices of `op`, a gather.
pub(crate) fn of_gather(module: &mut Module, op: OpId) -> bool {
    let Some(Attr::Gather(numbers)) = module.op(op).attr("dimension_numbers") else { return false };
    let mut numbers = (**numbers).clone();
    let batching = &mut numbers.start_indices_batching_dims;
    if !in_rows(module, op, 1, (&mut numbers.index_vector_dim, batching)) {
        return false;
    }
    module.op_mut(op).attrs.set("dimension_numbers", Attr::Gather(Arc::new(numbers)));
    true
}

/// Replaces the indices of `op`, a scatter.
pub(crate) fn of_scatter(module: &mut Module, op: OpId) -> bool {
    let Some(Attr::Scatter(numbers)) = module.op(op).attr("scatter_dimension_numbers") else { return false };
    let mut numbers = (**numbers).clone();
    let batching = &mut numbers.scatter_indices_batching_dims;
    let at = module.op(op).operands().len() / 2;
    if !in_rows(module, op, at, (&mut numbers.index_vector_dim, batching)) {
        return false;
    }
    module.op_mut(op).attrs.set("scatter_dimension_numbers", Attr::Scatter(Arc::new(numbers)));
    true
}

/// Puts the components of the vectors in operand `at` of `op` first, if they are apart. The dimension of the components and the batching
/// dimensions become those of the new indices.
fn in_rows(module: &mut Module, op: OpId, at: usize, (vector, batching): (&mut i64, &mut Vec<i64>)) -> bool {
    let Some(indices) = module.op(op).operands().get(at).copied() else { return false };
    let Some(columns) = columns(module, indices, *vector) else { return false };
    let (ty, dim) = (module.ty(indices).clone(), *vector as usize);
    let Some(elem) = ty.elem() else { return false };
    let mut row = ty.dims().to_vec();
    row.remove(dim);
    row.insert(0, 1);
    let loc = module.op(op).loc.clone();
    let mut add = |kind: MovementOp, operands: Vec<ValueId>, dims: &[i64]| {
        let spec = OpSpec::new(OpKind::Movement(kind)).operands(operands).loc(loc.clone());
        let spec = spec.results([Type::tensor(dims.to_vec(), elem)]);
        let joined = kind == MovementOp::Concatenate;
        let new = module.push_before(op, if joined { spec.attr("dimension", Attr::i64(0)) } else { spec });
        module.result(new)
    };
    let rows: Vec<ValueId> = columns.into_iter().map(|v| add(MovementOp::Reshape, vec![v], &row)).collect();
    row[0] = rows.len() as i64;
    let joined = add(MovementOp::Concatenate, rows, &row);
    module.set_operand(op, at, joined);
    // Dimensions before that of the components are one further on.
    batching.iter_mut().filter(|d| **d < *vector).for_each(|d| *d += 1);
    *vector = 0;
    true
}

/// The components of `indices`, along dimension `vector`, if they are put together from more than two.
fn columns(module: &Module, indices: ValueId, vector: i64) -> Option<Vec<ValueId>> {
    let data = module.op(module.def_op(indices)?);
    let dims = module.ty(indices).dims();
    let count = *dims.get(vector as usize)?;
    let joined = data.kind() == OpKind::Movement(MovementOp::Concatenate) && data.int("dimension") == Some(vector);
    let apart = data.operands().len() as i64 == count && count > 2;
    let many = dims.iter().product::<i64>() / count.max(1) >= FEW;
    (joined && apart && vector > 0 && many).then(|| data.operands().to_vec())
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::{check_on, compiled};
    use crate::library::testing::noise;
    use meshwork_ir::{ElementType, Literal};

    /// Gathers and sums of elements at three components, also with a batching dimension in front of them.
    #[test]
    fn components_are_rows() {
        let places = |dims: &[i64], seed: i64| {
            let n = dims.iter().product::<i64>();
            let list: Vec<i64> = (0..n).map(|i| (i * 7919 + seed) % 9 - 2).collect();
            Literal::from_i64s(dims.iter().copied(), ElementType::I32, &list).unwrap()
        };
        let source = "func.func @main(%x: tensor<5x6x7xf32>, %i: tensor<70xi32>, %j: tensor<70xi32>, %k: tensor<70xi32>) -> tensor<70xf32> {
            %a = stablehlo.reshape %i : (tensor<70xi32>) -> tensor<70x1xi32>
            %b = stablehlo.reshape %j : (tensor<70xi32>) -> tensor<70x1xi32>
            %c = stablehlo.reshape %k : (tensor<70xi32>) -> tensor<70x1xi32>
            %s = stablehlo.add %c, %a : tensor<70x1xi32>
            %v = stablehlo.concatenate %a, %b, %s, dim = 1 : (tensor<70x1xi32>, tensor<70x1xi32>, tensor<70x1xi32>) -> tensor<70x3xi32>
            %r = \"stablehlo.gather\"(%x, %v) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1, 2],
                start_index_map = [2, 0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1, 1>}
                : (tensor<5x6x7xf32>, tensor<70x3xi32>) -> tensor<70xf32>
            return %r : tensor<70xf32> }";
        let list = [noise(&[5, 6, 7], ElementType::F32, 1), places(&[70], 1), places(&[70], 5), places(&[70], 3)];
        check_on(source, &list, 0.0);
        assert!(!meshwork_ir::text::print(&compiled(source).module).contains("70x3xi32"));
        let source = "func.func @main(%x: tensor<4x5x6x3xf32>, %i: tensor<4x40x1xi32>, %j: tensor<4x40x1xi32>, %u: tensor<4x40xf32>) -> (tensor<4x40xf32>, tensor<4x5x6x3xf32>) {
            %v = stablehlo.concatenate %i, %j, %i, dim = 2 : (tensor<4x40x1xi32>, tensor<4x40x1xi32>, tensor<4x40x1xi32>) -> tensor<4x40x3xi32>
            %r = \"stablehlo.gather\"(%x, %v) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1, 2, 3],
                operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [2, 1, 3], index_vector_dim = 2>,
                slice_sizes = array<i64: 1, 1, 1, 1>} : (tensor<4x5x6x3xf32>, tensor<4x40x3xi32>) -> tensor<4x40xf32>
            %s = \"stablehlo.scatter\"(%x, %v, %u) ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                %t = stablehlo.add %p, %q : tensor<f32>
                stablehlo.return %t : tensor<f32>
            }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1, 2, 3], input_batching_dims = [0],
                scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [2, 1, 3], index_vector_dim = 2>}
                : (tensor<4x5x6x3xf32>, tensor<4x40x3xi32>, tensor<4x40xf32>) -> tensor<4x5x6x3xf32>
            return %r, %s : tensor<4x40xf32>, tensor<4x5x6x3xf32> }";
        let list = [
            noise(&[4, 5, 6, 3], ElementType::F32, 1),
            places(&[4, 40, 1], 2),
            places(&[4, 40, 1], 7),
            noise(&[4, 40], ElementType::F32, 3),
        ];
        check_on(source, &list, 1e-5);
        assert!(!meshwork_ir::text::print(&compiled(source).module).contains("4x40x3xi32"));
    }
}
