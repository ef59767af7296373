//! Which values will be batched: all that depend on a batched one. Loops are run through until nothing is added.

use std::collections::HashSet;

use meshwork_ir::op::{ControlOp, MovementOp, SdyOp};
use meshwork_ir::{BlockId, Module, OpId, OpKind, ValueId};

use crate::activity::captures;
use crate::custom::is_custom;

/// Adds to `on` what depends on it in `block`.
pub(super) fn spread(module: &Module, block: BlockId, on: &mut HashSet<ValueId>) {
    for op in module.ops_in(block) {
        match module.op(op).kind() {
            OpKind::Control(ControlOp::While) => spread_loop(module, op, on),
            OpKind::Control(ControlOp::Case | ControlOp::If) => spread_branches(module, op, on),
            OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => spread_computation(module, op, on),
            // The extents of an example are those of all.
            OpKind::Movement(MovementOp::GetDimensionSize) => {}
            OpKind::Control(ControlOp::OptimizationBarrier) => {
                carry(on, module.op(op).operands(), module.op(op).results())
            }
            _ => {
                let operands = module.op(op).operands();
                if operands.iter().any(|v| on.contains(v)) || captures(module, op).iter().any(|v| on.contains(v)) {
                    on.extend(module.op(op).results());
                }
            }
        }
    }
}

fn carry(on: &mut HashSet<ValueId>, from: &[ValueId], to: &[ValueId]) {
    for (source, &target) in from.iter().zip(to) {
        if on.contains(source) {
            on.insert(target);
        }
    }
}

fn spread_loop(module: &Module, op: OpId, on: &mut HashSet<ValueId>) {
    let (Some(cond), Some(body)) = (module.body_of(op, 0), module.body_of(op, 1)) else { return };
    let (args, cond_args) = (module.block(body).args(), module.block(cond).args());
    carry(on, module.op(op).operands(), args);
    loop {
        let before = on.len();
        carry(on, args, cond_args);
        spread(module, cond, on);
        spread(module, body, on);
        // Examples that leave the loop at different steps differ in all that it changes.
        if module.returned(cond).iter().any(|v| on.contains(v)) {
            let changed = args.iter().zip(module.returned(body)).filter(|(arg, value)| arg != value);
            on.extend(changed.map(|(arg, _)| *arg).collect::<Vec<_>>());
        }
        carry(on, module.returned(body), args);
        if on.len() == before {
            break;
        }
    }
    carry(on, args, module.op(op).results());
}

fn spread_branches(module: &Module, op: OpId, on: &mut HashSet<ValueId>) {
    let all = module.op(op).operands().iter().any(|v| on.contains(v));
    for index in 0..module.op(op).regions().len() {
        let Some(branch) = module.body_of(op, index) else { continue };
        spread(module, branch, on);
        carry(on, module.returned(branch), module.op(op).results());
    }
    if all {
        on.extend(module.op(op).results());
    }
}

fn spread_computation(module: &Module, op: OpId, on: &mut HashSet<ValueId>) {
    let Some(body) = module.body_of(op, 0) else { return };
    let data = module.op(op);
    if is_custom(data) {
        // Its rule is batched as a whole.
        if data.operands().iter().any(|v| on.contains(v)) {
            on.extend(module.block(body).args());
            spread(module, body, on);
            on.extend(data.results());
        }
        return;
    }
    carry(on, data.operands(), module.block(body).args());
    spread(module, body, on);
    carry(on, module.returned(body), data.results());
}
