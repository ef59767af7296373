//! Choosing between placements: where the annotations leave a choice, the fastest plan wins.
//!
//! Propagation resolves conflicts by an order. When state (parameters, optimizer moments) and data are both split over
//! one axis, either may lead: activations then follow the features of the weights or the batch. Both are tried. So are
//! sorts of a lone dimension whose result is placed as the operand, and such that it is not: see [`spread`]; and loops over a
//! split dimension with their carries whole: see [`whole_loops`].

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use meshwork_ir::hash::HashSet;
use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Module, OpId, Type, Walk};
use meshwork_mesh::{AxisRef, Sharding};

use crate::algorithm::{Algorithm, Use};
use crate::compile::{CompileError, CompileOptions, Compiled, compile_imported, imported, place, split};
use crate::{spread, whole_loops};

/// Nested programs recurse; only touched pages take memory.
const STACK_BYTES: usize = 1 << 30;

/// Compiles `module`, which has a mesh.
pub(crate) fn compile_on_mesh(module: &Module, options: &CompileOptions) -> Result<Compiled, CompileError> {
    let (imported, warnings) = imported(module)?;
    let spread = spread::through_sorts(&imported, &options.algorithms);
    // Import dropped the axes of one device, over which there is nothing to choose.
    let mut compiled = match led_by_data(&imported) {
        None => compile_imported(module, imported, options)?,
        Some(deferred) => compile_either(module, &imported, &deferred, options)?,
    };
    if let Some(spread) = spread
        && let Ok(other) = compile_imported(module, spread, options)
    {
        let always = options.algorithms.of(Algorithm::Sort) == Use::Always;
        if always || other.plan.seconds(&options.machine) < compiled.plan.seconds(&options.machine) {
            compiled = other;
        }
    }
    if let Some(other) = with_whole_loops(module, &compiled, options)? {
        compiled = other;
    }
    compiled.warnings.splice(..0, warnings);
    Ok(compiled)
}

/// A faster plan than `compiled` in which loops over a split dimension have their carries whole, if there is one that fits the
/// memory of a device.
fn with_whole_loops(
    module: &Module,
    compiled: &Compiled,
    options: &CompileOptions,
) -> Result<Option<Compiled>, CompileError> {
    let loops = whole_loops::loops_over_rows(compiled);
    if loops.is_empty() {
        return Ok(None);
    }
    let (again, _) = imported(module)?;
    let Some(whole) = whole_loops::with_whole_carries(&again, &loops) else { return Ok(None) };
    let Ok(other) = compile_imported(module, whole, options) else { return Ok(None) };
    let faster = other.plan.seconds(&options.machine) < compiled.plan.seconds(&options.machine);
    Ok((other.plan.fits(&options.machine) && faster).then_some(other))
}

/// Compiles `imported` with the state leading and with the data leading, and takes the faster plan.
fn compile_either(
    written: &Module,
    imported: &Module,
    deferred: &Deferred,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let (as_written, data_first) =
        side_by_side(|| place(imported.clone(), options), || place(defer(imported, deferred), options));
    let first = as_written?;
    let Some(second) = data_first.and_then(Result::ok).filter(|second| !is_placed_alike(&first.module, &second.module))
    else {
        return split(written, first, options);
    };
    let (first, second) = side_by_side(|| split(written, first, options), || split(written, second, options));
    let first = first?;
    let seconds = |compiled: &Compiled| compiled.plan.seconds(&options.machine);
    Ok(match second {
        Some(Ok(second)) if seconds(&second) < seconds(&first) => second,
        _ => first,
    })
}

/// Both, side by side, so that a choice takes no longer than a single placement where there is a second processor.
fn side_by_side<R: Send>(first: impl FnOnce() -> R, second: impl FnOnce() -> R + Send) -> (R, Option<R>) {
    let second = Mutex::new(Some(second));
    let run = || {
        let work = second.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.map(|second| second())
    };
    std::thread::scope(|threads| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(threads, run);
        let first = first();
        let second = match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(_) => run(),
        };
        (first, second)
    })
}

/// Whether all values of two forms of one program have the same placements.
fn is_placed_alike(a: &Module, b: &Module) -> bool {
    let (ops, others) = (a.all_ops(Walk::PreOrder), b.all_ops(Walk::PreOrder));
    let alike = |x: OpId, y: OpId| a.op(x).kind() == ControlOp::Func || a.op(x).attrs == b.op(y).attrs;
    ops.len() == others.len()
        && ops.iter().zip(&others).all(|(&x, &y)| a.op(x).kind() == b.op(y).kind() && alike(x, y))
        && is_entered_alike(a, b)
}

/// Whether arguments and results have the same placements.
fn is_entered_alike(a: &Module, b: &Module) -> bool {
    let slots = |module: &Module| {
        let func = module.entry()?;
        let ty = module.func_type(func);
        let axes = |attr: Option<&Attr>| -> Option<Vec<Vec<AxisRef>>> {
            Some(attr.and_then(Attr::as_sharding)?.dims.iter().map(|dim| dim.axes.to_vec()).collect())
        };
        let arguments = (0..ty.inputs.len()).map(|i| axes(module.arg_attr(func, i, "sdy.sharding")));
        let results = (0..ty.results.len()).map(|r| axes(module.res_attr(func, r, "sdy.sharding")));
        Some(arguments.chain(results).collect::<Vec<_>>())
    };
    slots(a) == slots(b)
}

/// Arguments and results whose placements are propagated after all others.
struct Deferred {
    arguments: Vec<usize>,
    results: Vec<usize>,
}

/// What to propagate last for the data to lead: the state. `None` if no axis splits both, or if the program sets
/// priorities itself.
///
/// State is what goes in and comes out again: arguments with a result of the same type and placement.
fn led_by_data(module: &Module) -> Option<Deferred> {
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
    Some(Deferred { arguments: state, results })
}

/// `module` with these placements propagated last.
fn defer(module: &Module, deferred: &Deferred) -> Module {
    let mut out = module.clone();
    let Some(func) = module.entry() else { return out };
    for &i in &deferred.arguments {
        let lowered = lower_priority(out.arg_attr(func, i, "sdy.sharding"));
        out.set_arg_attr(func, i, "sdy.sharding", lowered);
    }
    for &r in &deferred.results {
        let lowered = lower_priority(out.res_attr(func, r, "sdy.sharding"));
        out.set_res_attr(func, r, "sdy.sharding", lowered);
    }
    out
}

/// The same placement with priority 1 on its split dimensions.
fn lower_priority(attr: Option<&Attr>) -> Option<Attr> {
    let mut sharding = attr.and_then(Attr::as_sharding).cloned()?;
    for dim in sharding.dims.iter_mut().filter(|d| !d.axes.is_empty()) {
        dim.priority = Some(1);
    }
    Some(Attr::Sharding(sharding.into()))
}
