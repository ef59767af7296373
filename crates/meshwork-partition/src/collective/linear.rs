//! Chains of operations that move elements and nothing else: a collective before one may as well come after it.
//!
//! A chain leads from a value to one of its descendants. A dimension of the value, on which a collective works, is followed
//! through it, and the chain can be written again for a value that is longer there.

use meshwork_ir::op::{MovementOp, UnaryOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, Type, ValueId, ValueMap};

/// Where dimension `d` of the result of `op` stands in its first operand; `None` if it does not stand there whole and by
/// itself, or if `op` is none that a chain may have.
pub(super) fn dim_before(module: &Module, op: OpId, d: usize) -> Option<usize> {
    let (from, to) = ends(module, op)?;
    match module.op(op).kind() {
        OpKind::Unary(UnaryOp::Negate) => Some(d),
        OpKind::Movement(MovementOp::Transpose) => module.op(op).i64s("permutation")?.get(d).map(|&from| from as usize),
        OpKind::Movement(MovementOp::Slice | MovementOp::DynamicSlice) => (from[d] == to[d]).then_some(d),
        OpKind::Movement(MovementOp::Reshape) => same_place(&to, d, &from),
        OpKind::Movement(MovementOp::BroadcastInDim) if adds_units(module, op) => same_place(&to, d, &from),
        _ => None,
    }
}

/// Where dimension `d` of the first operand of `op` stands in its result; `None` as for [`dim_before`].
pub(super) fn dim_after(module: &Module, op: OpId, d: usize) -> Option<usize> {
    let (from, to) = ends(module, op)?;
    match module.op(op).kind() {
        OpKind::Unary(UnaryOp::Negate) => Some(d),
        OpKind::Movement(MovementOp::Transpose) => {
            module.op(op).i64s("permutation")?.iter().position(|&from| from as usize == d)
        }
        OpKind::Movement(MovementOp::Slice | MovementOp::DynamicSlice) => (from[d] == to[d]).then_some(d),
        OpKind::Movement(MovementOp::Reshape) => same_place(&from, d, &to),
        OpKind::Movement(MovementOp::BroadcastInDim) if adds_units(module, op) => same_place(&from, d, &to),
        _ => None,
    }
}

/// Where dimension `d` of what goes into `chain` stands in what comes out.
pub(super) fn follow(module: &Module, chain: &[OpId], d: usize) -> Option<usize> {
    chain.iter().try_fold(d, |d, &op| dim_after(module, op, d))
}

/// Whether `op` gives each element of its only operand one place, and negates it at most.
pub(super) fn is_linear(module: &Module, op: OpId) -> bool {
    match module.op(op).kind() {
        OpKind::Unary(UnaryOp::Negate)
        | OpKind::Movement(MovementOp::Reshape | MovementOp::Transpose | MovementOp::Slice) => true,
        OpKind::Movement(MovementOp::BroadcastInDim) => adds_units(module, op),
        _ => false,
    }
}

fn ends(module: &Module, op: OpId) -> Option<(Vec<i64>, Vec<i64>)> {
    let from = module.ty(*module.op(op).operands().first()?).dims().to_vec();
    let to = module.ty(*module.op(op).results().first()?).dims().to_vec();
    Some((from, to))
}

/// Whether a `broadcast_in_dim` repeats nothing and keeps the order of dimensions.
fn adds_units(module: &Module, op: OpId) -> bool {
    let Some((from, to)) = ends(module, op) else { return false };
    let along = module.op(op).i64s("broadcast_dimensions").unwrap_or_default();
    from.iter().product::<i64>() == to.iter().product::<i64>()
        && along.windows(2).all(|pair| pair[0] < pair[1])
        && along.iter().zip(&from).all(|(&at, &n)| to.get(at as usize) == Some(&n))
}

/// The dimension of `to` that has as many elements as dimension `d` of `from`, and as many before it in row-major order.
/// Of several dimensions of one element any would do; the last is the least likely to be one that is cut to it.
fn same_place(from: &[i64], d: usize, to: &[i64]) -> Option<usize> {
    let before: i64 = from[..d].iter().product();
    let mut product = 1;
    let mut found = None;
    for (i, &n) in to.iter().enumerate() {
        if product == before && n == from[d] {
            found = Some(i);
        }
        product *= n;
    }
    found
}

/// Writes `chain`, first operation first, again from `start`, a value as the chain's first operand but `times` as long in
/// dimension `dim` of that (if there is one). New operations stand before `anchor`. Returns the last value, and where the
/// dimension is in it.
pub(super) fn rebuild(
    module: &mut Module,
    chain: &[OpId],
    start: ValueId,
    dim: Option<(usize, i64)>,
    anchor: OpId,
) -> Option<(ValueId, Option<usize>)> {
    let (mut value, mut at) = (start, dim.map(|d| d.0));
    for &op in chain {
        let next = match at {
            Some(d) => Some(dim_after(module, op, d)?),
            None => None,
        };
        let old = module.op(op).operands()[0];
        let copy = module.clone_op(op, &mut ValueMap::from_iter([(old, value)]));
        module.insert_before(anchor, copy);
        let result = module.result(copy);
        if let (Some(d), Some((_, times))) = (next, dim)
            && let Some(t) = module.ty(result).as_tensor()
        {
            let mut dims = t.dims.to_vec();
            dims[d] *= times;
            let ty = Type::from(t.with_dims(dims.iter().copied()));
            module.set_ty(result, ty);
            resize(module, copy, d, dims[d]);
        }
        (value, at) = (result, next);
    }
    Some((value, at))
}

/// Lets the attributes of `op`, which takes all of dimension `d`, say that it is `n` long.
fn resize(module: &mut Module, op: OpId, d: usize, n: i64) {
    let name = match module.op(op).kind() {
        OpKind::Movement(MovementOp::Slice) => "limit_indices",
        OpKind::Movement(MovementOp::DynamicSlice) => "slice_sizes",
        _ => return,
    };
    if let Some(mut sizes) = module.op(op).i64s(name) {
        sizes[d] = n;
        module.op_mut(op).attrs.set(name, Attr::i64s(sizes));
    }
}
