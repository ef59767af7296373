//! Ops along split dimensions whose shards need elements of their neighbors.
//!
//! A pad, slice or reshape gets these elements by one permute for each neighbor it needs, inside a manual computation
//! on the shards; a reverse by naming the devices in reverse. What has no such form, or would need most
//! shards anyway, is computed on whole dimensions instead, with reshards around it.
//!
//! Whether elements move is decided by where they go, not by whether extents change: a pad that shifts its operand
//! moves elements too.

mod exchange;
mod pad;
mod replicate;
mod reshape;
mod reshape_groups;
mod reverse;
mod shards;
mod slice;

use meshwork_ir::op::MovementOp;
use meshwork_ir::{Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, Walk};
use meshwork_propagate::program::{Meshes, Symbols};

use super::local::device::DeviceId;
use super::rewrite::{Channels, Problem};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-resolve-permutation-factors",
    summary: "Exchange elements between neighbors where ops along split dimensions need them",
    options: &[
        ("enable-halo-exchange", "exchange elements rather than gather dimensions (default true)"),
        ("replica-count", "number of replicas (default 1)"),
        ("partition-count", "number of partitions (default 1)"),
    ],
    run,
};

/// The state of the pass.
struct Halo {
    meshes: Meshes,
    symbols: Symbols,
    device_id: DeviceId,
    channels: Channels,
    exchanges: bool,
}

/// Whether an op was resolved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resolved {
    /// It was, or needed nothing.
    Yes,
    /// Its dimensions must be gathered.
    No,
}

fn run(module: &mut Module, options: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let device_id = DeviceId::of(options, diags)?;
    let mut cx = Halo {
        meshes: Meshes::of(module),
        symbols: Symbols::of(module),
        device_id,
        channels: Channels::unused(module),
        exchanges: options.flag_or("enable-halo-exchange", true),
    };
    for op in module.all_ops(Walk::PostOrder) {
        resolve(&mut cx, module, op).map_err(|problem| problem.report(module, op, diags))?;
    }
    Ok(())
}

fn resolve(cx: &mut Halo, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let kind = module.op(op).kind();
    let resolved = match kind {
        OpKind::Movement(MovementOp::Reshape) => return reshape::resolve(cx, module, op),
        OpKind::Movement(MovementOp::Pad) if cx.exchanges => pad::resolve(cx, module, op)?,
        OpKind::Movement(MovementOp::Slice) if cx.exchanges => slice::resolve(cx, module, op)?,
        OpKind::Movement(MovementOp::Reverse) if cx.exchanges => reverse::resolve(cx, module, op)?,
        _ => Resolved::No,
    };
    match resolved {
        Resolved::Yes => Ok(()),
        Resolved::No => replicate::resolve(cx, module, op),
    }
}
