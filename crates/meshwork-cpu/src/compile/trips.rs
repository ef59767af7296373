//! How often a loop runs, where its counter and its bound say so.

use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Def, Module, OpId, OpKind, ValueId};

/// The number of rounds of the `while` loop `op`: its condition compares a carry with a constant, the carry starts at
/// a constant and grows or falls by one, or by more.
pub(crate) fn trip_count(module: &Module, op: OpId) -> Option<u64> {
    let (cond, body) = (module.body_of(op, 0)?, module.body_of(op, 1)?);
    let &[test] = module.returned(cond) else { return None };
    let compare = module.op(module.def_op(test)?);
    if compare.kind() != OpKind::Mixed(MixedOp::Compare) {
        return None;
    }
    let &[left, right] = compare.operands() else { return None };
    let direction = compare.enum_value("comparison_direction")?;
    let carry = |v: ValueId| match module.value(v).def() {
        Def::Arg(b, i) if b == cond => Some(i as usize),
        _ => None,
    };
    let (index, bound, direction) = match (carry(left), carry(right)) {
        (Some(i), None) => (i, constant(module, right)?, direction),
        (None, Some(i)) => (i, constant(module, left)?, mirrored(direction)?),
        _ => return None,
    };
    let start = constant(module, *module.op(op).operands().get(index)?)?;
    let step = step_of(module, body, index)?;
    let distance = match (direction, step.signum()) {
        ("LT", 1) => i128::from(bound) - i128::from(start),
        ("LE", 1) => i128::from(bound) - i128::from(start) + 1,
        ("GT", -1) => i128::from(start) - i128::from(bound),
        ("GE", -1) => i128::from(start) - i128::from(bound) + 1,
        _ => return None,
    };
    // The counter must not wrap round on the way to the bound, or just beyond it.
    let (low, high) = crate::fuse::whole(module.ty(*module.op(op).operands().get(index)?).elem()?)?;
    let strict = if direction.ends_with('T') { step.signum() } else { 0 };
    let beyond = i128::from(bound) + i128::from(step) - i128::from(strict);
    let counted = low.max(i32::MIN.into()).into()..=high.min(i32::MAX.into()).into();
    let fits = counted.contains(&i128::from(start)) && counted.contains(&beyond);
    fits.then(|| distance.max(0).unsigned_abs().div_ceil(u128::from(step.unsigned_abs())) as u64)
}

/// The constant by which carry `index` grows in each turn of `body`.
pub(crate) fn step_of(module: &Module, body: BlockId, index: usize) -> Option<i64> {
    let next = module.op(module.def_op(*module.returned(body).get(index)?)?);
    let argument = *module.block(body).args().get(index)?;
    match (next.kind(), next.operands()) {
        (OpKind::Binary(BinaryOp::Add), &[a, s]) if a == argument => constant(module, s),
        (OpKind::Binary(BinaryOp::Add), &[s, a]) if a == argument => constant(module, s),
        (OpKind::Binary(BinaryOp::Subtract), &[a, s]) if a == argument => constant(module, s)?.checked_neg(),
        _ => None,
    }
}

fn mirrored(direction: &str) -> Option<&'static str> {
    Some(match direction {
        "LT" => "GT",
        "LE" => "GE",
        "GT" => "LT",
        "GE" => "LE",
        _ => return None,
    })
}

/// The integer that `value` always is.
pub(crate) fn constant(module: &Module, value: ValueId) -> Option<i64> {
    let op = module.op(module.def_op(value)?);
    match (op.kind(), op.attr("value")) {
        (OpKind::Source(SourceOp::Constant), Some(Attr::Dense(dense))) => match dense.splat_bytes() {
            Some(_) if dense.ty.elem.is_integer() && dense.ty.num_elements()? > 0 => {
                let scalar = meshwork_ir::Dense::splat(
                    std::sync::Arc::new(dense.ty.with_dims([])),
                    dense.splat_bytes().unwrap_or_default(),
                );
                scalar.to_i64s()?.first().copied()
            }
            _ if dense.ty.num_elements() == Some(1) => dense.to_i64s()?.first().copied(),
            _ => None,
        },
        (OpKind::Movement(MovementOp::Reshape | MovementOp::BroadcastInDim), _) => {
            constant(module, *op.operands().first()?)
        }
        _ => None,
    }
}
