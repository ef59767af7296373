//! From annotations to a placement for every value: the steps around propagation, in order.

use meshwork_ir::transform::inline::inline_all;
use meshwork_ir::{Diagnostic, Failed, Module, ValueId};
use meshwork_mesh::{AxisRef, Reduction, Sharding};

use crate::import::*;
use crate::program::{func_result_sharding, set_sharding, sharding_of};
use crate::settle::*;
use crate::why::Trace;
use crate::{Options, Record, propagate};

/// Where the placements of a program came from.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// The module just after propagation. Values that are still in the placed module have the same ids there.
    pub module: Module,
    /// What propagation did.
    pub trace: Trace,
}

/// Gives every value of `module` its final, closed placement.
///
/// Sizes that do not divide keep their placement: uneven shards are ordinary. On error the diagnostics say why;
/// warnings are returned on success.
pub fn place(module: &mut Module) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let mut warnings = import(module)?;
    warnings.extend(place_imported(module)?);
    Ok(warnings)
}

/// The first part of [`place`]: what can be shared by several ways to place a program. Attributes of the arguments and
/// results of functions may be changed afterwards.
pub fn import(module: &mut Module) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let mut diagnostics = vec![];
    match prepare(module, &mut diagnostics) {
        Ok(()) => Ok(diagnostics),
        Err(Failed) => Err(diagnostics),
    }
}

fn prepare(module: &mut Module, diagnostics: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    // Calls are inlined first, so that each one may be placed on its own.
    inline_all(module);
    lift_inlined_meshes(module);
    remove_size_one_axes(module);
    split_constants(module, diagnostics)?;
    clean_up_manual_axes(module, diagnostics)?;
    add_data_flow_edges(module);
    let free = arguments_without_placement(module);
    apply_sharding_constraints(module);
    keep_whole(module, &free);
    make_in_parts(module);
    import_sharding_groups(module, diagnostics)
}

/// The arguments of functions that have no placement.
fn arguments_without_placement(module: &Module) -> Vec<ValueId> {
    let bodies = module.funcs().filter_map(|func| module.body_of(func, 0));
    let arguments = bodies.flat_map(|body| module.block(body).args());
    arguments.copied().filter(|&arg| sharding_of(module, arg).is_none()).collect()
}

/// A caller gives whole values unless an argument itself says otherwise, whatever the program makes of them.
fn keep_whole(module: &mut Module, arguments: &[ValueId]) {
    for &arg in arguments {
        if let Some(sharding) = sharding_of(module, arg).filter(|s| !s.unreduced.is_empty()) {
            set_sharding(module, arg, sharding.with_unreduced(Reduction::Sum, NO_AXES));
        }
    }
}

const NO_AXES: [AxisRef; 0] = [];

/// Unreduced axes do not spread: what is only returned, in parts, is made in these parts.
fn make_in_parts(module: &mut Module) {
    for func in module.funcs().collect::<Vec<_>>() {
        let returned = module.body_of(func, 0).map_or(vec![], |body| module.returned(body).to_vec());
        for (i, v) in returned.into_iter().enumerate() {
            let wanted = func_result_sharding(module, func, i).filter(|s| !s.unreduced.is_empty()).cloned();
            let free = module.def_op(v).is_some() && module.value(v).uses().len() == 1;
            if let Some(wanted) = wanted.filter(|_| free && sharding_of(module, v).is_none()) {
                let open = Sharding::fully_open(&wanted.mesh, wanted.rank());
                set_sharding(module, v, open.with_unreduced(wanted.reduction, &wanted.unreduced));
            }
        }
    }
}

/// The second part of [`place`].
pub fn place_imported(module: &mut Module) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let (_, warnings) = spread(module, Record::Nothing)?;
    settle(module);
    Ok(warnings)
}

/// As [`place_imported`], and records where each placement came from.
pub fn place_imported_traced(module: &mut Module) -> Result<(Vec<Diagnostic>, Provenance), Vec<Diagnostic>> {
    let (trace, warnings) = spread(module, Record::Trace)?;
    let provenance = Provenance { module: module.clone(), trace };
    settle(module);
    Ok((warnings, provenance))
}

fn spread(module: &mut Module, record: Record) -> Result<(Trace, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut diagnostics = vec![];
    match propagate(module, &Options { record, ..Options::default() }, &mut diagnostics) {
        Ok(trace) => Ok((trace, diagnostics)),
        Err(error) => {
            diagnostics.push(error);
            Err(diagnostics)
        }
    }
}

fn settle(module: &mut Module) {
    sink_data_flow_edges(module);
    remove_sharding_groups(module);
    constraints_to_reshards(module);
    close_shardings(module);
}
