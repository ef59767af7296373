//! Integers that follow from constants alone, and comparisons and choices that these decide.

use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp, SourceOp, UnaryOp};
use meshwork_ir::transform::canonicalize::Pattern;
use meshwork_ir::{Attr, Dense, ElementType, Literal, Module, OpId, OpKind, OpSpec, Scalar, TensorType, ValueId};

use super::expand::replace;

/// Elements of what is computed.
const MOST: usize = 16;

/// Which operations are looked at.
pub(crate) fn patterns() -> impl Iterator<Item = (OpKind, Pattern)> {
    let unary = [UnaryOp::Negate, UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Not].map(OpKind::Unary);
    let binary = BinaryOp::ALL.iter().map(|&f| OpKind::Binary(f));
    let mixed = [MixedOp::Compare, MixedOp::Clamp, MixedOp::Convert].map(OpKind::Mixed);
    let moved = [MovementOp::Concatenate, MovementOp::Slice].map(OpKind::Movement);
    let all = unary.into_iter().chain(binary).chain(mixed).chain(moved).map(|kind| (kind, computed as Pattern));
    let cut = OpKind::Movement(MovementOp::DynamicSlice);
    all.chain([(OpKind::Mixed(MixedOp::Select), decided as Pattern), (cut, fixed_slice as Pattern)])
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
            let from = literal(module, *op.operands().first()?).filter(|l| l.len() == 1)?;
            let bytes = from.bytes().repeat(ty.num_elements()? as usize);
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
}
