//! Makes every reshard that the placements of a function imply an operation of its own.
//!
//! Afterwards each op's placements fit its rule: all its tensors are split in the same way along every factor, factors that must
//! be whole are whole, and what is reduced over split factors is followed by an all-reduce. Which placement an op
//! gets is decided in [`common_axes`].
//!
//! Invariants:
//! - nested ops are visited first, and inserted ops are not visited;
//! - the placement that users of a value see does not change: a result computed with another placement is resharded back.

mod apply;
mod candidates;
pub mod common_axes;
mod common_mesh;
mod dot;
mod flow;
mod op;
pub(super) mod reductions;
mod reshape;
mod single_device;
mod unreduced;

use meshwork_ir::op::{ChloOp, ControlOp, MovementOp, SdyOp};
use meshwork_ir::{Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::factors::Placements;
use meshwork_propagate::program::{Meshes, has_data_flow, sharding_of};

use super::rewrite::{Problem, before_barriers};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-insert-explicit-reshards",
    summary: "Insert the reshards that placements imply",
    options: &[("enable-full-version", "for every op, not only where it pays (default false)")],
    run,
};

/// Which ops are made to fit their rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// All of them.
    Full,
    /// Calls, ragged dots, concatenates of differently placed operands, and dots whose result is better resharded.
    Minimal,
}

/// What the parts of the pass share.
pub(super) struct Context {
    meshes: Meshes,
    placements: Placements,
    version: Version,
}

fn run(module: &mut Module, options: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let version = if options.flag("enable-full-version") { Version::Full } else { Version::Minimal };
    let mut cx = Context { meshes: Meshes::of(module), placements: Placements::of(module), version };
    for func in module.funcs().collect::<Vec<_>>() {
        process_func(&mut cx, module, func).map_err(|(op, message)| Problem(message).report(module, op, diags))?;
    }
    Ok(())
}

fn process_func(cx: &mut Context, module: &mut Module, func: OpId) -> Result<(), (OpId, String)> {
    single_device::check_boundary(cx, module, func).map_err(|message| (func, message))?;
    for op in module.ops_below(func, Walk::PostOrder) {
        if !module.op(op).kind().is_terminator() && op != func {
            process_op(cx, module, op).map_err(|message| (op, message))?;
        }
    }
    flow::reshard_returned(cx, module, func).map_err(|message| (func, message))
}

fn process_op(cx: &mut Context, module: &mut Module, op: OpId) -> Result<(), String> {
    let version = cx.version_for(module, op);
    match module.op(op).kind() {
        kind if has_data_flow(kind) => return flow::reshard_edge_sources(cx, module, op, version),
        OpKind::Control(ControlOp::Call) => return flow::reshard_call_operands(cx, module, op, version),
        OpKind::Sdy(SdyOp::Reshard) if unreduced::make_partial(cx, module, op)? => return Ok(()),
        _ => {}
    }
    unreduced::reduce_operands(cx, module, op)?;
    let tensors = module.op(op).operands().iter().chain(module.op(op).results());
    let shardings: Vec<Option<Sharding>> = tensors.map(|&v| before_barriers(module, v)).collect();
    let results = &shardings[module.op(op).operands().len()..];
    if results.iter().flatten().any(|s| cx.is_single_device(s)) {
        return single_device::process(cx, module, op, results);
    }
    op::process(cx, module, op, &shardings, version)
}

impl Context {
    fn version_for(&self, module: &Module, op: OpId) -> Version {
        let data = module.op(op);
        let is_full = match data.kind() {
            OpKind::Control(ControlOp::Call) | OpKind::Chlo(ChloOp::RaggedDot) => true,
            OpKind::Unregistered => data.name() == "mhlo.ragged_dot",
            OpKind::Movement(MovementOp::Concatenate) => {
                let result = sharding_of(module, data.results()[0]);
                data.operands().iter().any(|&v| sharding_of(module, v) != result)
            }
            _ => false,
        };
        if is_full { Version::Full } else { self.version }
    }

    /// Whether the tensor lives on one device only.
    fn is_single_device(&self, sharding: &Sharding) -> bool {
        self.meshes.mesh(sharding).is_some_and(|mesh| mesh.is_maximal())
    }
}

/// Reshards around `op` so that it computes with these factors whole.
pub(super) fn unsplit_factors(module: &mut Module, op: OpId, factors: &[usize]) -> Result<(), String> {
    let mut cx = Context { meshes: Meshes::of(module), placements: Placements::of(module), version: Version::Full };
    op::unsplit(&mut cx, module, op, factors)
}

/// Whether both place a tensor in the same way; no placement means a copy everywhere.
fn same_placement(first: Option<&Sharding>, second: Option<&Sharding>) -> bool {
    match (first, second) {
        (Some(a), Some(b)) => a.is_equivalent(b),
        (Some(s), None) => s.is_fully_replicated() && s.unreduced.is_empty(),
        // A tensor without a placement has no partial results to start from.
        (None, other) => other.is_none_or(Sharding::is_fully_replicated),
    }
}
