//! Loops whose last turns do nothing: `x = select(i < n, f(x), x)`, with an `n` that is known when the loop starts.
//!
//! Bounds that data decides are often written that way, since the number of turns is to be the same for all. Turns from the
//! first on that is not let through are not run.

use meshwork_ir::op::MixedOp;
use meshwork_ir::{Def, ElementType, Module, OpId, OpKind, ValueId};

use super::elements::Expansion;
use super::expand::Expand;
use super::line::Line;
use super::work::Until;

/// What lets turns through.
#[derive(Debug)]
pub(super) struct Limit {
    /// True in the turns that do something.
    pub passes: ValueId,
    pub until: Until,
}

/// The comparison that all changes of carries wait for, if there is one.
pub(super) fn find(e: &Expansion<'_, '_>) -> Option<Limit> {
    let (module, turns) = (e.cx.module, e.turns);
    let (args, returned) = (module.block(turns.body).args(), module.returned(turns.body));
    let mut passes = None;
    for (i, (&arg, &next)) in args.iter().zip(returned).enumerate() {
        if next == arg || turns.counter(i).is_some() {
            continue;
        }
        let data = module.op(module.def_op(next)?);
        let &[p, _, otherwise] = data.operands() else { return None };
        let is_choice = data.kind() == OpKind::Mixed(MixedOp::Select) && otherwise == arg;
        if !is_choice || !e.dims(p).is_empty() || passes.is_some_and(|known| known != p) {
            return None;
        }
        passes = Some(p);
    }
    let passes = passes?;
    let data = module.op(module.def_op(passes)?);
    let &[left, right] = data.operands() else { return None };
    let (number, end) = match (data.kind(), data.enum_value("comparison_direction")?) {
        (OpKind::Mixed(MixedOp::Compare), "LT") => (left, right),
        (OpKind::Mixed(MixedOp::Compare), "GT") => (right, left),
        _ => return None,
    };
    let Line { base, step } = turns.line(number).filter(|line| line.step > 0)?;
    let end = e.cx.view(end).filter(|_| is_outside(module, end, turns.op))?.clone();
    matches!(end.elem, ElementType::I32 | ElementType::I64)
        .then_some(Limit { passes, until: Until { end, base, step } })
}

/// Whether `v` is made outside the loop `of`.
pub(super) fn is_outside(module: &Module, v: ValueId, of: OpId) -> bool {
    match module.value(v).def() {
        Def::Result(def, _) => !module.is_inside(def, of),
        Def::Arg(block, _) => {
            module.block_parent_op(block).is_none_or(|parent| parent != of && !module.is_inside(parent, of))
        }
    }
}
