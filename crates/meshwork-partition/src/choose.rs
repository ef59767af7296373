//! Placing and splitting a program: the annotations leave choices, and the quickest plan wins.
//!
//! Propagation resolves conflicts by an order. When state (parameters, optimizer moments) and data are both split over
//! one axis, either may lead: activations then follow the features of the weights or the batch. Both are tried.

use std::collections::{BTreeSet, HashSet};

use meshwork_ir::{Attr, Diagnostic, Module, OpId, Type};
use meshwork_mesh::Sharding;
use meshwork_propagate::{Provenance, import, place_imported, place_imported_traced};
use thiserror::Error;

use crate::cause::Sources;
use crate::cost::Machine;
use crate::optimize::DEFAULT_COMBINE_BYTES;
use crate::{PartitionError, Partitioned, partition_with, prepare};

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
    /// Where placements came from, if that was asked for.
    pub provenance: Option<Provenance>,
}

/// Whether to note where placements come from. It takes some more time and memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Trace {
    /// Causes say which operation needs a collective, and why.
    #[default]
    No,
    /// Causes name the annotation too.
    Yes,
}

/// How to place and split a program.
#[derive(Clone, PartialEq, Debug)]
pub struct CompileOptions {
    /// Whether causes name annotations.
    pub trace: Trace,
    /// Independent collectives of one kind and group are combined up to this many bytes; 0 combines none.
    pub combine_bytes: i64,
    /// What the program is to run on: ways to compute an operation are weighed by the time they would take there.
    pub machine: Machine,
}

impl Default for CompileOptions {
    fn default() -> Self {
        CompileOptions { trace: Trace::No, combine_bytes: DEFAULT_COMBINE_BYTES, machine: Machine::default() }
    }
}

/// Nested programs recurse; only touched pages take memory.
const STACK_BYTES: usize = 1 << 30;

/// Places every value of `module` and splits it over its mesh, in the way that takes the least time by
/// the model of [`cost`](crate::cost).
pub fn compile(module: &Module) -> Result<Compiled, CompileError> {
    compile_with(module, &CompileOptions::default())
}

/// Compiles as [`compile`] does, with options.
pub fn compile_with(module: &Module, options: &CompileOptions) -> Result<Compiled, CompileError> {
    #[cfg(feature = "tracing")]
    let span = tracing::info_span!("import").entered();
    let mut imported = module.clone();
    let warnings = import(&mut imported).map_err(CompileError::Placement)?;
    #[cfg(feature = "tracing")]
    drop(span);
    let mut compiled = match led_by_data(module) {
        None => compile_as_annotated(module, imported, options)?,
        Some(later) => compile_either(module, &imported, &later, options)?,
    };
    compiled.warnings.splice(..0, warnings);
    Ok(compiled)
}

/// Compiles `imported` with the state leading and with the data leading, and takes the quicker plan.
fn compile_either(
    written: &Module,
    imported: &Module,
    later: &Later,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let as_written = || compile_as_annotated(written, imported.clone(), options);
    let data_first = || compile_as_annotated(written, with_later(imported, later), options);
    // Side by side, so that a choice takes no longer than a single placement where there is a second processor.
    let (first, second) = std::thread::scope(|threads| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        match thread.spawn_scoped(threads, data_first) {
            Ok(thread) => {
                let first = as_written();
                (first, thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            }
            Err(_) => (as_written(), data_first()),
        }
    });
    let first = first?;
    let seconds = |compiled: &Compiled| compiled.program.plan.seconds(&options.machine);
    Ok(match second {
        Ok(second) if seconds(&second) < seconds(&first) => second,
        _ => first,
    })
}

/// Compiles `placed`, which was imported from the program as `written`.
fn compile_as_annotated(
    written: &Module,
    mut placed: Module,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    #[cfg(feature = "tracing")]
    let span = tracing::info_span!("place").entered();
    let (warnings, provenance) = match options.trace {
        Trace::No => (place_imported(&mut placed).map_err(CompileError::Placement)?, None),
        Trace::Yes => {
            let (warnings, provenance) = place_imported_traced(&mut placed).map_err(CompileError::Placement)?;
            (warnings, Some(provenance))
        }
    };
    #[cfg(feature = "tracing")]
    let _span = {
        drop(span);
        tracing::info_span!("split").entered()
    };
    prepare(&mut placed);
    let sources = provenance.as_ref().map(|provenance| Sources { written, provenance });
    let program = partition_with(&placed, sources, options)?;
    Ok(Compiled { program, placed, warnings, provenance })
}

/// Arguments and results whose placements are propagated after all others.
struct Later {
    arguments: Vec<usize>,
    results: Vec<usize>,
}

/// What has to come later for the data to lead: the state. `None` if no axis splits both, or if the program sets
/// priorities itself.
///
/// State is what goes in and comes out again: arguments with a result of the same type and placement.
fn led_by_data(module: &Module) -> Option<Later> {
    let func = module.entry()?;
    let ty = module.func_type(func);
    let arg = |i: usize| module.arg_attr(func, i, "sdy.sharding").and_then(Attr::as_sharding);
    let res = |i: usize| module.res_attr(func, i, "sdy.sharding").and_then(Attr::as_sharding);
    let is_split = |s: &Sharding| s.dim_axes().next().is_some();
    let results: HashSet<(&Type, &Sharding)> =
        ty.results.iter().enumerate().filter_map(|(r, t)| Some((t, res(r)?))).collect();
    let returned = |i: usize| arg(i).is_some_and(|sharding| results.contains(&(&ty.inputs[i], sharding)));
    let split: Vec<usize> = (0..ty.inputs.len()).filter(|&i| arg(i).is_some_and(is_split)).collect();
    let (state, data): (Vec<usize>, Vec<usize>) = split.iter().partition(|&&i| returned(i));
    let own_priorities = (0..ty.inputs.len()).filter_map(arg).any(|s| s.dims.iter().any(|d| d.priority.is_some()));
    let axes = |list: &[usize]| -> BTreeSet<&str> {
        list.iter().filter_map(|&i| arg(i)).flat_map(Sharding::dim_axes).map(|axis| &axis.name[..]).collect()
    };
    if own_priorities || axes(&state).is_disjoint(&axes(&data)) {
        return None;
    }
    let results = (0..ty.results.len()).filter(|&r| res(r).is_some_and(is_split)).collect();
    Some(Later { arguments: state, results })
}

/// `module` with these placements propagated later.
fn with_later(module: &Module, places: &Later) -> Module {
    let mut out = module.clone();
    if let Some(func) = module.entry() {
        places.arguments.iter().for_each(|&i| later(&mut out, func, i, true));
        places.results.iter().for_each(|&r| later(&mut out, func, r, false));
    }
    out
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
