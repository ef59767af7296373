//! Placing and splitting a program: the annotations leave choices, and the plan with the least traffic wins.
//!
//! Propagation resolves conflicts by an order. When state (parameters, optimizer moments) and data are both split over
//! one axis, either may lead: activations then follow the features of the weights or the batch. Both are tried.

use meshwork_ir::{Attr, Diagnostic, Module, OpId};
use meshwork_mesh::Sharding;
use thiserror::Error;

use crate::{PartitionError, Partitioned, partition, prepare};

/// Why a program could not be placed and split.
#[derive(Debug, Error)]
pub enum CompileError {
    /// Propagation refused the program.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\\n"))]
    Placement(Vec<Diagnostic>),
    /// The placed program could not be split.
    #[error(transparent)]
    Partition(#[from] PartitionError),
}

/// A placed and split program.
pub struct Compiled {
    /// The split program.
    pub program: Partitioned,
    /// The global program with a placement on every value.
    pub placed: Module,
    /// Warnings of propagation.
    pub warnings: Vec<Diagnostic>,
}

/// Places every value of `module` and splits it over its mesh, in the way that sends the fewest bytes.
pub fn compile(module: &Module) -> Result<Compiled, CompileError> {
    let mut best = compile_as_annotated(module.clone())?;
    if best.program.plan.wire_bytes() > 0.0
        && let Some(led_by_data) = data_first(module)
        && let Ok(other) = compile_as_annotated(led_by_data)
        && other.program.plan.wire_bytes() < best.program.plan.wire_bytes()
    {
        best = other;
    }
    Ok(best)
}

fn compile_as_annotated(mut placed: Module) -> Result<Compiled, CompileError> {
    let warnings = meshwork_propagate::place(&mut placed).map_err(CompileError::Placement)?;
    prepare(&mut placed);
    let program = partition(&placed)?;
    Ok(Compiled { program, placed, warnings })
}

/// `module` with the placements of its state propagated after those of its data; `None` if it has not both, or if the
/// program sets priorities itself.
///
/// State is what goes in and comes out again: arguments with a result of the same type and placement.
fn data_first(module: &Module) -> Option<Module> {
    let func = module.entry()?;
    let ty = module.func_type(func);
    let arg = |i: usize| module.arg_attr(func, i, "sdy.sharding").and_then(Attr::as_sharding);
    let res = |i: usize| module.res_attr(func, i, "sdy.sharding").and_then(Attr::as_sharding);
    let is_split = |s: &Sharding| s.dim_axes().next().is_some();
    let returned =
        |i: usize| (0..ty.results.len()).any(|r| ty.results[r] == ty.inputs[i] && arg(i).is_some() && arg(i) == res(r));
    let split: Vec<usize> = (0..ty.inputs.len()).filter(|&i| arg(i).is_some_and(is_split)).collect();
    let (state, data): (Vec<usize>, Vec<usize>) = split.iter().partition(|&&i| returned(i));
    let own_priorities = (0..ty.inputs.len()).filter_map(arg).any(|s| s.dims.iter().any(|d| d.priority.is_some()));
    if state.is_empty() || data.is_empty() || own_priorities {
        return None;
    }
    let mut out = module.clone();
    for i in state {
        later(&mut out, func, i, true);
    }
    for r in (0..ty.results.len()).filter(|&r| res(r).is_some_and(is_split)) {
        later(&mut out, func, r, false);
    }
    Some(out)
}

/// Gives the split dimensions of an argument or result priority 1.
fn later(module: &mut Module, func: OpId, index: usize, argument: bool) {
    let attr = match argument {
        true => module.arg_attr(func, index, "sdy.sharding"),
        false => module.res_attr(func, index, "sdy.sharding"),
    };
    let Some(mut sharding) = attr.and_then(Attr::as_sharding).cloned() else { return };
    for dim in sharding.dims.iter_mut().filter(|d| !d.axes.is_empty()) {
        dim.priority = Some(1);
    }
    let value = Some(Attr::Sharding(sharding.into()));
    match argument {
        true => module.set_arg_attr(func, index, "sdy.sharding", value),
        false => module.set_res_attr(func, index, "sdy.sharding", value),
    }
}
