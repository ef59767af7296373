//! Loops whose lanes go on as long as their own condition holds, as `vmap` makes them of loops whose end depends on data.
//!
//! ```text
//! while any(p(x)):  x = select(p(x), f(x), x)
//! ```
//!
//! Lanes do not wait for each other: what is done keeps its values, so that a chunk of lanes does all its turns before the next one, until
//! none of its own goes on.

use meshwork_ir::op::{MixedOp, MovementOp};
use meshwork_ir::{BlockId, Def, Module, OpId, OpKind, ValueId};

use crate::compile::constant;
use crate::fuse;
use crate::kernel::ir::Combine;

/// Operations of a condition.
const MOST: u32 = 200;

/// Which lanes go on, as the body of the loop `op` computes it, if all its changes wait for that and it is what the loop's condition asks.
pub(super) fn goes_on(module: &Module, op: OpId) -> Option<ValueId> {
    let (cond, body) = (module.body_of(op, 0)?, module.body_of(op, 1)?);
    let mut found = None;
    for (&arg, &next) in module.block(body).args().iter().zip(module.returned(body)).filter(|(arg, next)| arg != next) {
        let data = module.op(module.def_op(next)?);
        let &[p, _, otherwise] = data.operands() else { return None };
        let goes_on = spread(module, p);
        let is_choice = data.kind() == OpKind::Mixed(MixedOp::Select) && otherwise == arg;
        if !is_choice || found.is_some_and(|known| known != goes_on) {
            return None;
        }
        found = Some(goes_on);
    }
    let (goes_on, any) = (found?, module.def_op(*module.returned(cond).first()?)?);
    let &[lanes, init] = module.op(any).operands() else { return None };
    let is_any = fuse::reduce_kind(module, any)? == Combine::Or
        && fuse::reduced_dims(module, any).len() == module.ty(lanes).dims().len()
        && constant(module, init)? == 0;
    let mut left = MOST;
    (is_any && same(module, (lanes, cond), (goes_on, body), &mut left)).then_some(goes_on)
}

/// What `v` repeats along further dimensions.
fn spread(module: &Module, v: ValueId) -> ValueId {
    let op = module.def_op(v).map(|op| module.op(op));
    match op.filter(|op| op.kind() == OpKind::Movement(MovementOp::BroadcastInDim)) {
        Some(op) => spread(module, op.operands()[0]),
        None => v,
    }
}

/// Whether both values, one of each block, are computed alike from the arguments of their blocks and from outside.
fn same(module: &Module, a: (ValueId, BlockId), b: (ValueId, BlockId), left: &mut u32) -> bool {
    if a.0 == b.0 {
        return true;
    }
    if *left == 0 || module.ty(a.0) != module.ty(b.0) {
        return false;
    }
    *left -= 1;
    match (module.value(a.0).def(), module.value(b.0).def()) {
        (Def::Arg(one, i), Def::Arg(other, j)) => (one, other, i) == (a.1, b.1, j),
        (Def::Result(one, i), Def::Result(other, j)) => {
            let (one, other) = (module.op(one), module.op(other));
            let alike = i == j && one.kind() == other.kind() && one.attrs == other.attrs;
            let (p, q) = (one.operands(), other.operands());
            let is_plain = one.regions().is_empty() && other.regions().is_empty() && p.len() == q.len();
            alike && is_plain && p.iter().zip(q).all(|(&p, &q)| same(module, (p, a.1), (q, b.1), left))
        }
        _ => false,
    }
}
