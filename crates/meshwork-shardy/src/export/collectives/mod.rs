//! Turns each reshard into a short sequence of collectives; [`plan`] finds it.

mod align;
mod exchange;
mod gather;
mod permute;
pub mod plan;
mod slice;

use std::sync::Arc;

use meshwork_ir::attr::AllToAllParam;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, OpKind, OpSpec, Pass, PassOptions, ValueId, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{Meshes, sharding_of};

use self::plan::{Collective, Step};
use super::rewrite::skip_barriers;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-reshard-to-collectives",
    summary: "Turn reshards into collectives",
    options: &[("keep-redundant-reshards", "keep reshards that change nothing (default false)")],
    run,
};

fn run(module: &mut Module, options: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let meshes = Meshes::of(module);
    let redundant = if options.flag("keep-redundant-reshards") { Redundant::Keep } else { Redundant::Remove };
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() != SdyOp::Reshard {
            continue;
        }
        if let Some(outcome) = lower(module, &meshes, op, redundant) {
            let result = match outcome {
                Lowered::Nothing => module.op(op).operands()[0],
                Lowered::Steps(input, steps) => {
                    steps.into_iter().fold(input, |value, step| emit(module, op, value, step))
                }
            };
            module.replace_op(op, &[result]);
        }
    }
    Ok(())
}

/// What to do with a reshard that changes nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redundant {
    Keep,
    Remove,
}

/// What a reshard becomes.
enum Lowered {
    /// Its operand.
    Nothing,
    /// These steps, from this value.
    Steps(ValueId, Vec<Step>),
}

/// What becomes of a reshard; `None` if it stays: on single devices, and between meshes with different axes.
fn lower(module: &Module, meshes: &Meshes, op: OpId, redundant: Redundant) -> Option<Lowered> {
    let input = skip_barriers(module, module.op(op).operands()[0]);
    let mut to = module.op(op).attr("sharding")?.as_sharding()?.clone();
    let open = || Sharding::fully_open(to.mesh.clone(), module.ty(input).rank().unwrap_or(0));
    let from = sharding_of(module, input).unwrap_or_else(open);
    let (from_mesh, to_mesh) = (meshes.mesh(&from)?, meshes.mesh(&to)?);
    if (redundant == Redundant::Keep && from.is_equivalent(&to)) || from_mesh.is_maximal() || to_mesh.is_maximal() {
        return None;
    }
    if to.is_fully_replicated() {
        if from.is_fully_replicated() {
            return Some(Lowered::Nothing);
        }
        let closed = Sharding::fully_closed(from.mesh.clone(), from.rank());
        to = closed.with_unreduced(to.reduction, to.unreduced.iter());
    } else if from.mesh != to.mesh && !from_mesh.same_axes(to_mesh) {
        return None;
    }
    Some(Lowered::Steps(input, plan::plan(&from, &to, from_mesh, module.ty(input).dims())))
}

/// Inserts one collective in front of `reshard`.
fn emit(module: &mut Module, reshard: OpId, value: ValueId, step: Step) -> ValueId {
    let (kind, attr) = match step.collective {
        Collective::AllGather(axes) => {
            (OpKind::Sdy(SdyOp::AllGather), Some(("gathering_axes", Attr::AxesPerDim(axes.into()))))
        }
        Collective::AllSlice(axes) => {
            (OpKind::Sdy(SdyOp::AllSlice), Some(("slicing_axes", Attr::AxesPerDim(axes.into()))))
        }
        Collective::AllToAll { axes, from, to } => {
            let param = AllToAllParam { axes, src: from as i64, tgt: to as i64 };
            (OpKind::Sdy(SdyOp::AllToAll), Some(("params", Attr::AllToAll([param].into()))))
        }
        Collective::Permute => (OpKind::Sdy(SdyOp::CollectivePermute), None),
    };
    let mut spec = OpSpec::new(kind)
        .operands([value])
        .results([module.ty(value).clone()])
        .attr("out_sharding", Attr::Sharding(Arc::new(step.out)))
        .loc(module.op(reshard).loc.clone());
    if let Some((name, attr)) = attr {
        spec = spec.attr(name, attr);
    }
    let op = module.push_before(reshard, spec);
    module.result(op)
}
