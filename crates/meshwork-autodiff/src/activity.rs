//! Activity: which values depend, by a path of floats, on the arguments to differentiate.
//!
//! A value that is not active has no cotangent. Loops are run through until nothing is added.

use std::collections::HashSet;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{BlockId, Module, OpId, OpKind, Type, ValueId, Walk};

use crate::custom::is_custom;

/// The active values.
pub(crate) type Active = HashSet<ValueId>;

/// Whether values of this type can have a cotangent.
pub(crate) fn has_tangent(ty: &Type) -> bool {
    ty.elem().is_some_and(|elem| elem.is_float() || elem.is_complex())
}

/// Adds to `active` what depends on it in `block`.
pub(crate) fn spread(module: &Module, block: BlockId, active: &mut Active) {
    for op in module.ops_in(block) {
        spread_op(module, op, active);
    }
}

/// Adds to `active` the results of `op` that depend on it.
pub(crate) fn spread_op(module: &Module, op: OpId, active: &mut Active) {
    match module.op(op).kind() {
        OpKind::Control(ControlOp::While) => spread_loop(module, op, active),
        OpKind::Control(ControlOp::Case | ControlOp::If) => spread_branches(module, op, active),
        OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation) => spread_computation(module, op, active),
        _ => {
            let reached = module.op(op).operands().iter().any(|v| active.contains(v))
                || captures(module, op).iter().any(|v| active.contains(v));
            if reached {
                let results = module.op(op).results().iter().copied();
                active.extend(results.filter(|&r| has_tangent(module.ty(r))));
            }
        }
    }
}

fn spread_loop(module: &Module, op: OpId, active: &mut Active) {
    let Some(body) = module.body_of(op, 1) else { return };
    let args = module.block(body).args();
    let inits = module.op(op).operands();
    let results = module.op(op).results();
    let carry = |active: &mut Active, from: &[ValueId]| {
        for ((&source, &arg), &result) in from.iter().zip(args).zip(results) {
            if active.contains(&source) && has_tangent(module.ty(arg)) {
                active.extend([arg, result]);
            }
        }
    };
    carry(active, inits);
    loop {
        let before = active.len();
        spread(module, body, active);
        carry(active, module.returned(body));
        if active.len() == before {
            return;
        }
    }
}

fn spread_branches(module: &Module, op: OpId, active: &mut Active) {
    for index in 0..module.op(op).regions().len() {
        let Some(branch) = module.body_of(op, index) else { continue };
        spread(module, branch, active);
        for (&source, &result) in module.returned(branch).iter().zip(module.op(op).results()) {
            if active.contains(&source) && has_tangent(module.ty(result)) {
                active.insert(result);
            }
        }
    }
}

fn spread_computation(module: &Module, op: OpId, active: &mut Active) {
    if is_custom(module.op(op)) {
        if module.op(op).operands().iter().any(|v| active.contains(v)) {
            let results = module.op(op).results().iter().copied();
            active.extend(results.filter(|&r| has_tangent(module.ty(r))));
        }
        return;
    }
    let Some(body) = module.body_of(op, 0) else { return };
    let pairs = |from: &[ValueId], to: &[ValueId], active: &mut Active| {
        for (source, &target) in from.iter().zip(to) {
            if active.contains(source) && has_tangent(module.ty(target)) {
                active.insert(target);
            }
        }
    };
    pairs(module.op(op).operands(), module.block(body).args(), active);
    spread(module, body, active);
    pairs(module.returned(body), module.op(op).results(), active);
}

/// Values from outside that the bodies of `op` use, each once, in order of first use.
pub(crate) fn captures(module: &Module, op: OpId) -> Vec<ValueId> {
    if module.op(op).regions().is_empty() {
        return vec![];
    }
    let below = module.ops_below(op, Walk::PreOrder);
    let mut inside: HashSet<ValueId> = HashSet::new();
    for &inner in &below {
        let data = module.op(inner);
        if inner != op {
            inside.extend(data.results());
        }
        for &region in data.regions() {
            for &block in module.region(region).blocks() {
                inside.extend(module.block(block).args());
            }
        }
    }
    let mut seen = HashSet::new();
    let used = below.iter().filter(|&&inner| inner != op).flat_map(|&inner| module.op(inner).operands());
    used.copied().filter(|v| !inside.contains(v) && seen.insert(*v)).collect()
}
