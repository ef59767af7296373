//! Loops over a split dimension, with their carries whole.
//!
//! ```text
//! x: rows split over 8 devices
//! for i in rows: y = f(y, x[i])        in every turn one device sends a row to all others
//!                                      whole: one gather before the loop, and every device runs all of it
//! ```
//!
//! A recurrence along a split dimension gains nothing from the split: each turn waits for a row that some other device holds.
//! Where a plan has such rows in it, the program is also placed with the carries of the loop whole, and the faster plan wins.

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, MovementOp, SdyOp};
use meshwork_ir::{Attr, Def, Module, OpId, OpKind, OpSpec, ValueId, Walk};
use meshwork_mesh::{AxisRef, DimSharding, Sharding};

use crate::collective::{Collective, Site};
use crate::compile::{Compiled, mesh_of};
use crate::plan::memory::type_bytes;

/// A row that is sent less often may as well be.
const LEAST_TIMES: i64 = 16;

/// Carries of more bytes stay split: they may be so for want of memory.
const MOST_BYTES: i64 = 64 << 20;

/// The outermost loops of `compiled.placed` in which rows of a split dimension are sent in every turn.
pub(crate) fn loops_over_rows(compiled: &Compiled) -> Vec<OpId> {
    let placed = &compiled.placed;
    let often = compiled.plan.collectives.iter().map(|c| &c.collective).filter(|c| c.times >= LEAST_TIMES);
    let mut loops: Vec<OpId> = often.flat_map(|c| slices(placed, c)).filter_map(|op| outermost(placed, op)).collect();
    loops.sort_unstable();
    loops.dedup();
    loops
}

/// `imported`, which was placed before with these `loops`, with their carries whole; `None` if they are too large.
pub(crate) fn with_whole_carries(imported: &Module, loops: &[OpId]) -> Option<Module> {
    let fits = |&op: &OpId| !imported.is_erased(op) && is_loop(imported, op) && bytes(imported, op) <= MOST_BYTES;
    let loops: Vec<OpId> = loops.iter().copied().filter(fits).collect();
    if loops.is_empty() {
        return None;
    }
    let (mesh, _) = mesh_of(imported)?;
    let whole = |v: ValueId| {
        let dims = imported.ty(v).dims().iter().map(|_| DimSharding::closed(Vec::<AxisRef>::new()));
        Attr::Sharding(Arc::new(Sharding::new(mesh.as_str(), dims)))
    };
    let mut out = imported.clone();
    for op in loops {
        for &result in imported.op(op).results() {
            let edges = imported.value(result).uses().iter().map(|u| u.op);
            for edge in edges.filter(|&user| imported.op(user).kind() == SdyOp::DataFlowEdge) {
                out.op_mut(edge).attrs.set("sharding", whole(result));
            }
        }
        // What comes in is made whole first: else its split would go on to what the body returns in its place.
        let mut incoming = captured(imported, op);
        incoming.extend(imported.op(op).operands().iter().filter(|&&v| !imported.ty(v).dims().is_empty()));
        incoming.sort_unstable();
        incoming.dedup();
        for v in incoming {
            let spec = OpSpec::new(SdyOp::ShardingConstraint).operands([v]).results([imported.ty(v).clone()]);
            let constraint = out.push_before(op, spec.attr("sharding", whole(v)));
            let value = out.result(constraint);
            out.replace_uses_if(v, value, |module, u| u.op == op || module.is_inside(u.op, op));
        }
    }
    Some(out)
}

/// Arrays from outside that the loop `op` reads.
fn captured(module: &Module, op: OpId) -> Vec<ValueId> {
    let inside = module.ops_below(op, Walk::PreOrder).into_iter().skip(1);
    let mut values: Vec<ValueId> = inside.flat_map(|inner| module.op(inner).operands().to_vec()).collect();
    values.sort_unstable();
    values.dedup();
    values.retain(|&v| {
        let owner = match module.value(v).def() {
            Def::Result(def, _) => Some(def),
            Def::Arg(block, _) => module.block_parent_op(block),
        };
        let is_outside = owner.is_none_or(|owner| owner != op && !module.is_inside(owner, op));
        is_outside && !module.ty(v).dims().is_empty()
    });
    values
}

/// The slices at places known at run time that `c` is for.
fn slices<'a>(placed: &'a Module, c: &'a Collective) -> impl Iterator<Item = OpId> + 'a {
    c.origins.iter().filter_map(move |origin| match origin.site {
        Site::Op(op) if placed.op(op).kind() == OpKind::Movement(MovementOp::DynamicSlice) => Some(op),
        _ => None,
    })
}

fn is_loop(module: &Module, op: OpId) -> bool {
    module.op(op).kind() == OpKind::Control(ControlOp::While)
}

/// The outermost loop around `op`.
fn outermost(module: &Module, op: OpId) -> Option<OpId> {
    let mut found = None;
    let mut at = module.parent_op(op);
    while let Some(parent) = at {
        if is_loop(module, parent) {
            found = Some(parent);
        }
        at = module.parent_op(parent);
    }
    found
}

/// Bytes of what the loop carries and reads.
fn bytes(module: &Module, op: OpId) -> i64 {
    let values = module.op(op).results().iter().copied().chain(captured(module, op));
    values.map(|v| type_bytes(module.ty(v))).sum()
}
