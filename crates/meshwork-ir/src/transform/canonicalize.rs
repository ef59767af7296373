//! `-canonicalize`: rewrites operations into simpler ones until nothing changes, and removes dead ones.
//!
//! A [`Pattern`] looks at one operation and either leaves everything as it is or makes the program simpler. To add
//! one, write the function and name it in [`PATTERNS`]. Operations are visited parents first, in program order.

use super::dead;
use crate::op::{MixedOp, MovementOp};
use crate::{Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, Walk};

/// The pass.
pub const PASS: Pass =
    Pass { name: "canonicalize", summary: "Simplify operations one by one until nothing changes", options: &[], run };

/// Simplifies the given operation if it can; returns whether it changed anything.
pub type Pattern = fn(&mut Module, OpId) -> bool;

/// Which patterns are tried on which operation, in order.
pub const PATTERNS: &[(OpKind, Pattern)] = &[
    (OpKind::Movement(MovementOp::BroadcastInDim), drop_identity),
    (OpKind::Mixed(MixedOp::Convert), drop_identity),
    (OpKind::Movement(MovementOp::Reshape), drop_identity),
    (OpKind::Movement(MovementOp::Transpose), drop_identity),
];

/// Sweeps over the program before a pair of patterns that undo each other is given up on.
const MAX_SWEEPS: usize = 10;

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    apply(module, PATTERNS);
    Ok(())
}

/// Applies `patterns` until nothing changes, and removes dead operations. Tells whether anything changed.
pub fn apply(module: &mut Module, patterns: &[(OpKind, Pattern)]) -> bool {
    let mut changed = false;
    for _ in 0..MAX_SWEEPS {
        let mut again = dead::remove_dead(module);
        for op in module.all_ops(Walk::PreOrder) {
            // An earlier rewrite of this sweep may have removed it, with what it is nested in.
            if module.is_erased(op) {
                continue;
            }
            let kind = module.op(op).kind();
            let mut fitting = patterns.iter().filter(|(k, _)| *k == kind);
            again |= fitting.any(|(_, pattern)| pattern(module, op));
        }
        changed |= again;
        if !again {
            break;
        }
    }
    changed
}

/// Replaces an operation that gives back its operand by that operand.
///
/// One that carries attributes of its own, such as a sharding, is kept: they may say something about the value.
fn drop_identity(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[operand], &[result]) = (data.operands(), data.results()) else { return false };
    let in_order =
        |name: &str| data.i64s(name).is_some_and(|dims| dims.iter().enumerate().all(|(i, &d)| d == i as i64));
    let keeps_order = match data.kind() {
        OpKind::Movement(MovementOp::BroadcastInDim) => in_order("broadcast_dimensions"),
        OpKind::Movement(MovementOp::Transpose) => in_order("permutation"),
        _ => true,
    };
    if !keeps_order || module.ty(operand) != module.ty(result) || !data.split_attrs().1.is_empty() {
        return false;
    }
    module.replace_op(op, &[operand]);
    true
}
