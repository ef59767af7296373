//! Integers that follow from constants alone, and comparisons and choices that these decide.

use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp, SourceOp, UnaryOp};
use meshwork_ir::transform::canonicalize::Pattern;
use meshwork_ir::{Attr, Dense, ElementType, Literal, Module, OpId, OpKind, OpSpec, Scalar, TensorType, ValueId};

use super::expand::replace;

/// Elements of what is computed.
const MOST: usize = 16;

/// Places at which a gather is as many slices.
const MOST_PLACES: usize = 8;

/// Elements that it takes from each place at least: a few are moved as well by one operation.
const LEAST_TAKEN: i64 = 64;

/// Which operations are looked at.
pub(crate) fn patterns() -> impl Iterator<Item = (OpKind, Pattern)> {
    let unary = [UnaryOp::Negate, UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Not].map(OpKind::Unary);
    let binary = BinaryOp::ALL.iter().map(|&f| OpKind::Binary(f));
    let mixed = [MixedOp::Compare, MixedOp::Clamp, MixedOp::Convert].map(OpKind::Mixed);
    let moved = [MovementOp::Concatenate, MovementOp::Slice].map(OpKind::Movement);
    let all = unary.into_iter().chain(binary).chain(mixed).chain(moved).map(|kind| (kind, computed as Pattern));
    let [cut, gather] = [MovementOp::DynamicSlice, MovementOp::Gather].map(OpKind::Movement);
    let placed = [(cut, fixed_slice as Pattern), (gather, fixed_gather as Pattern)];
    all.chain([(OpKind::Mixed(MixedOp::Select), decided as Pattern)]).chain(placed)
}

fn is_small(ty: &TensorType) -> bool {
    (ty.elem.is_integer() || ty.elem == ElementType::I1) && ty.num_elements().is_some_and(|n| n as usize <= MOST)
}

/// The constant that `value` is, if it is a small array of integers or truth values.
fn literal(module: &Module, value: ValueId) -> Option<Literal> {
    let ty = module.ty(value).as_tensor().filter(|ty| is_small(ty))?;
    let op = module.op(module.def_op(value)?);
    match (op.kind(), op.attr("value")) {
        (OpKind::Source(SourceOp::Constant), Some(Attr::Dense(dense))) => dense.to_literal(),
        (OpKind::Movement(MovementOp::Reshape), _) => {
            let from = literal(module, *op.operands().first()?)?;
            Literal::from_bytes(ty.dims.iter().copied(), ty.elem, from.bytes().to_vec())
        }
        (OpKind::Movement(MovementOp::BroadcastInDim), _) => {
            let from = literal(module, *op.operands().first()?)?;
            let (count, order) = (ty.num_elements()? as usize, op.i64s("broadcast_dimensions")?);
            // Either all elements are one, or the array only gets dimensions of one element.
            let same = from.len() == count && order.windows(2).all(|pair| pair[0] < pair[1]);
            if from.len() != 1 && !same {
                return None;
            }
            let bytes = from.bytes().repeat(count / from.len().max(1));
            Literal::from_bytes(ty.dims.iter().copied(), ty.elem, bytes)
        }
        _ => None,
    }
}

/// What the evaluator makes of constants.
fn computed(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let &[result] = data.results() else { return false };
    if !module.ty(result).as_tensor().is_some_and(is_small) || data.operands().is_empty() {
        return false;
    }
    let Some(args) = data.operands().iter().map(|&v| literal(module, v)).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let Ok(found) = meshwork_eval::run_op(module, op, args) else { return false };
    let [found] = &found[..] else { return false };
    let spec = OpSpec::new(OpKind::Source(SourceOp::Constant))
        .results([module.ty(result).clone()])
        .attr("value", Attr::Dense(Dense::from_literal(found).into()))
        .loc(data.loc.clone());
    let constant = module.push_before(op, spec);
    module.replace_op(op, &[module.result(constant)]);
    true
}

/// A choice whose truth value is known.
fn decided(module: &mut Module, op: OpId) -> bool {
    let &[pred, yes, no] = module.op(op).operands() else { return false };
    let Some(known) = truth(module, pred) else { return computed(module, op) };
    module.replace_op(op, &[if known { yes } else { no }]);
    true
}

/// A slice whose place is known.
fn fixed_slice(module: &mut Module, op: OpId) -> bool {
    let &[array, ref starts @ ..] = module.op(op).operands() else { return false };
    let place = |v: ValueId| match literal(module, v)?.scalars().next()? {
        Scalar::UInt(at) => i64::try_from(at).ok(),
        at => Some(at.as_i64()),
    };
    let places: Option<Vec<i64>> = starts.iter().map(|&v| place(v)).collect();
    let (Some(places), Some(result)) = (places, module.op(op).results().first()) else { return false };
    let (dims, sizes) = (module.ty(array).dims().to_vec(), module.ty(*result).dims().to_vec());
    // Slices stay inside.
    let from: Vec<i64> = (0..dims.len()).map(|d| places[d].clamp(0, (dims[d] - sizes[d]).max(0))).collect();
    let to: Vec<i64> = from.iter().zip(&sizes).map(|(a, n)| a + n).collect();
    let steps = vec![1; dims.len()];
    replace(module, op, |b| Ok(Some(vec![b.slice(array, &from, &to, &steps)?])))
}

/// A gather from a few places that are known, such as columns in another order, is slices one after the other: what follows reads them
/// where they are.
fn fixed_gather(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[array, indices], Some(Attr::Gather(numbers))) = (data.operands(), data.attr("dimension_numbers")) else {
        return false;
    };
    let (Some(sizes), Some(places)) = (data.i64s("slice_sizes"), literal(module, indices)) else { return false };
    let (dims, result) = (module.ty(array).dims().to_vec(), module.ty(data.results()[0]).dims().to_vec());
    let parts = numbers.start_index_map.len();
    let count = places.len() / parts.max(1);
    let (named, along) = (module.ty(indices).dims(), numbers.index_vector_dim);
    // The places are one after the other, the components of each next to each other.
    let in_order = match named.len() {
        0 => true,
        1 => along == 0 || along == 1 && parts == 1,
        2 => along == 1,
        _ => false,
    };
    let batch: Vec<usize> = (0..result.len()).filter(|&d| !numbers.offset_dims.contains(&(d as i64))).collect();
    let taken: i64 = sizes.iter().product();
    if !in_order
        || !numbers.operand_batching_dims.is_empty()
        || batch.len() > 1
        || !(1..=MOST_PLACES).contains(&count)
        || taken < LEAST_TAKEN
    {
        return false;
    }
    let place = |s: Scalar| match s {
        Scalar::UInt(at) => i64::try_from(at).ok(),
        at => Some(at.as_i64()),
    };
    let Some(places) = places.scalars().map(place).collect::<Option<Vec<i64>>>() else { return false };
    let map = numbers.start_index_map.clone();
    replace(module, op, |b| {
        let mut found = vec![];
        for at in places.chunks_exact(parts) {
            let mut from = vec![0; dims.len()];
            // Slices stay inside.
            map.iter().zip(at).for_each(|(&d, &i)| from[d as usize] = i.clamp(0, dims[d as usize] - sizes[d as usize]));
            let to: Vec<i64> = from.iter().zip(&sizes).map(|(a, n)| a + n).collect();
            let part = b.slice(array, &from, &to, &vec![1; dims.len()])?;
            let mut shape = result.clone();
            batch.iter().for_each(|&d| shape[d] = 1);
            found.push(b.reshape(part, shape)?);
        }
        Ok(Some(vec![match (&found[..], batch.first()) {
            (&[one], _) => one,
            (all, Some(&d)) => b.concatenate(all, d as i64)?,
            (_, None) => return Ok(None),
        }]))
    })
}

/// The truth value that `value` always is, everywhere.
pub(crate) fn truth(module: &Module, value: ValueId) -> Option<bool> {
    let op = module.op(module.def_op(value)?);
    match (op.kind(), op.attr("value")) {
        (OpKind::Source(SourceOp::Constant), Some(Attr::Dense(dense))) => {
            let one = |bytes: &[u8]| bytes.first().map(|&b| b != 0);
            dense
                .splat_bytes()
                .map_or_else(|| dense.to_literal().filter(|l| l.len() == 1).and_then(|l| one(l.bytes())), one)
        }
        (OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape), _) => {
            truth(module, *op.operands().first()?)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// An index from the end, as programs write it, is a place that is always the same.
    #[test]
    fn places_are_constants() {
        let text = check(
            "func.func @main(%x: tensor<9xf32>) -> tensor<1xf32> {
                %i = stablehlo.constant dense<-2> : tensor<i32>
                %n = stablehlo.constant dense<9> : tensor<i32>
                %zero = stablehlo.constant dense<0> : tensor<i32>
                %c = stablehlo.compare LT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %j = stablehlo.add %i, %n : tensor<i32>
                %k = stablehlo.select %c, %j, %i : tensor<i1>, tensor<i32>
                %y = stablehlo.dynamic_slice %x, %k, sizes = [1] : (tensor<9xf32>, tensor<i32>) -> tensor<1xf32>
                return %y : tensor<1xf32> }",
            0.0,
        );
        assert!(!text.contains("compare") && !text.contains("dynamic"), "{text}");
    }

    /// Columns in another order, one of them named twice and one from outside; and one row.
    #[test]
    fn gathers_at_known_places_are_slices() {
        let text = check(
            "func.func @main(%x: tensor<67x3xf32>) -> (tensor<67x4xf32>, tensor<4x67xf32>, tensor<67x1xf32>) {
                %i = stablehlo.constant dense<[[2], [0], [2], [9]]> : tensor<4x1xi32>
                %y = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0],
                    collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 67, 1>,
                    indices_are_sorted = false}> : (tensor<67x3xf32>, tensor<4x1xi32>) -> tensor<67x4xf32>
                %z = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
                    collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 67, 1>,
                    indices_are_sorted = false}> : (tensor<67x3xf32>, tensor<4x1xi32>) -> tensor<4x67xf32>
                %j = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
                %w = \"stablehlo.gather\"(%x, %j) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1],
                    collapsed_slice_dims = [], start_index_map = [0, 1], index_vector_dim = 0>, slice_sizes = array<i64: 67, 1>,
                    indices_are_sorted = false}> : (tensor<67x3xf32>, tensor<2xi32>) -> tensor<67x1xf32>
                return %y, %z, %w : tensor<67x4xf32>, tensor<4x67xf32>, tensor<67x1xf32> }",
            0.0,
        );
        assert!(!text.contains("gather"), "{text}");
    }
}
