//! Several turns of a loop at a time, where a turn cannot write its result over what it reads.
//!
//! XLA gives what a loop carries one place in memory. A turn that reads neighbors writes elsewhere and copies the result back.
//! With an even number of turns in the body there are two places and no copies, and turns that are small enough become
//! one kernel.

use std::collections::HashSet;

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{BinaryOp, CollectiveOp, ControlOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{BlockId, Def, ElementType, Module, OpId, OpKind, Type, ValueId, ValueMap, Walk};

use super::constants::integers;

/// Operations in the body of a loop that is unrolled.
const MOST_OPS: usize = 96;

/// The counter of a loop that starts at `start` and grows by `step` until it reaches `bound`.
pub(crate) struct Counter {
    /// Which argument of the loop it is.
    pub index: usize,
    pub start: i64,
    pub step: i64,
    pub turns: u64,
    /// The comparison in the condition, and which of its operands is the bound.
    compare: OpId,
}

/// Unrolls the loops of `module` whose turns are element-wise work on neighbors.
pub(super) fn loops(module: &mut Module, turns: u64) {
    for op in module.all_ops(Walk::PostOrder) {
        if module.op(op).kind() == OpKind::Control(ControlOp::While)
            && is_stencil(module, op)
            && let Some(counter) = counter_of(module, op)
            && counter.turns > 1
        {
            // What cannot be built leaves the loop as it was.
            let _ = unroll(module, op, &counter, turns);
        }
    }
}

/// Whether the body of the loop `op` is work on elements and their neighbors, and nothing else.
fn is_stencil(module: &Module, op: OpId) -> bool {
    let Some(body) = module.body_of(op, 1) else { return false };
    let ops = module.op_list(body);
    let allowed = |&op: &OpId| match module.op(op).kind() {
        OpKind::Source(kind) => !matches!(kind, SourceOp::Rng | SourceOp::RngBitGenerator),
        OpKind::Collective(kind) => kind == CollectiveOp::CollectivePermute,
        OpKind::Movement(kind) => matches!(
            kind,
            MovementOp::Slice
                | MovementOp::Pad
                | MovementOp::Concatenate
                | MovementOp::BroadcastInDim
                | MovementOp::Reshape
                | MovementOp::Transpose
                | MovementOp::Reverse
        ),
        kind => kind.is_elementwise() || kind.is_terminator(),
    };
    let moves = |&op: &OpId| {
        let data = module.op(op);
        let kind =
            matches!(data.kind(), OpKind::Movement(MovementOp::Slice | MovementOp::Pad | MovementOp::Concatenate));
        kind && data.operands().first().is_some_and(|&x| matches!(module.value(x).def(), Def::Arg(b, _) if b == body))
    };
    ops.len() <= MOST_OPS && ops.iter().all(allowed) && ops.iter().any(moves)
}

/// The counter of the loop `op`, if its turns are known.
pub(crate) fn counter_of(module: &Module, op: OpId) -> Option<Counter> {
    let (cond, body) = (module.body_of(op, 0)?, module.body_of(op, 1)?);
    let &[test] = module.returned(cond) else { return None };
    let compare = module.def_op(test)?;
    let data = module.op(compare);
    let is_less =
        data.kind() == OpKind::Mixed(MixedOp::Compare) && data.enum_value("comparison_direction") == Some("LT");
    let &[counter, bound] = data.operands() else { return None };
    let Def::Arg(block, index) = module.value(counter).def() else { return None };
    if !is_less || block != cond {
        return None;
    }
    let index = index as usize;
    let one = |v: ValueId| integers(module, v).filter(|v| v.len() == 1).map(|v| v[0]);
    let (start, bound) = (one(*module.op(op).operands().get(index)?)?, one(bound)?);
    let step = step_of(module, body, index)?;
    let is_small = |n: i64| n.abs() < 1 << 30;
    if step <= 0
        || !is_small(start)
        || !is_small(bound)
        || !is_small(step)
        || module.ty(counter).elem()?.storage_bytes() < 4
    {
        return None;
    }
    let turns = (bound - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
    Some(Counter { index, start, step, turns, compare })
}

/// The constant by which carry `index` grows in each turn.
fn step_of(module: &Module, body: BlockId, index: usize) -> Option<i64> {
    let next = module.op(module.def_op(*module.returned(body).get(index)?)?);
    let argument = *module.block(body).args().get(index)?;
    let by = match (next.kind(), next.operands()) {
        (OpKind::Binary(BinaryOp::Add), &[a, s]) if a == argument => s,
        (OpKind::Binary(BinaryOp::Add), &[s, a]) if a == argument => s,
        _ => return None,
    };
    integers(module, by).filter(|v| v.len() == 1).map(|v| v[0])
}

fn unroll(module: &mut Module, op: OpId, counter: &Counter, turns: u64) -> Result<(), BuildError> {
    let Some(body) = module.body_of(op, 1) else { return Ok(()) };
    let Some(end) = module.terminator(body) else { return Ok(()) };
    let turns = turns.min(counter.turns);
    let (rounds, rest) = (counter.turns / turns, counter.turns % turns);
    let once: Vec<OpId> = module.op_list(body).into_iter().filter(|&o| o != end).collect();
    let args = module.block(body).args().to_vec();
    let returned = module.returned(body).to_vec();

    // The turns that are left over follow the loop.
    let results = module.op(op).results().to_vec();
    let (mut last, mut values, mut copies) = (op, results.clone(), HashSet::new());
    for _ in 0..rest {
        values = copy_turn(module, &once, &args, &returned, &values, |module, copy| {
            module.insert_after(last, copy);
            copies.insert(copy);
            last = copy;
        });
    }
    if rest > 0 {
        for (&old, &new) in results.iter().zip(&values) {
            module.replace_uses_if(old, new, |_, used| !copies.contains(&used.op));
        }
    }

    let mut values = returned.clone();
    for _ in 1..turns {
        values = copy_turn(module, &once, &args, &returned, &values, |module, copy| module.insert_before(end, copy));
    }
    let counter_arg = args[counter.index];
    let ty = module.ty(counter_arg).clone();
    let far = constant(module, end, &ty, counter.step * turns as i64)?;
    values[counter.index] = Builder::before(module, end).add(counter_arg, far)?;
    for (i, &value) in values.iter().enumerate() {
        module.set_operand(end, i, value);
    }
    let bound = counter.start + counter.step * (rounds * turns) as i64;
    let bound = constant(module, counter.compare, &ty, bound)?;
    module.set_operand(counter.compare, 1, bound);
    Ok(())
}

fn constant(module: &mut Module, before: OpId, ty: &Type, value: i64) -> Result<ValueId, BuildError> {
    let elem = ty.elem().unwrap_or(ElementType::I32);
    Builder::before(module, before).splat(ty.dims().to_vec(), elem, value as f64)
}

/// A copy of the operations `once` that starts from `values`; what it returns.
fn copy_turn(
    module: &mut Module,
    once: &[OpId],
    args: &[ValueId],
    returned: &[ValueId],
    values: &[ValueId],
    mut put: impl FnMut(&mut Module, OpId),
) -> Vec<ValueId> {
    let mut map: ValueMap = args.iter().copied().zip(values.iter().copied()).collect();
    for &op in once {
        let copy = module.clone_op(op, &mut map);
        put(module, copy);
    }
    returned.iter().map(|v| map.get(v).copied().unwrap_or(*v)).collect()
}
