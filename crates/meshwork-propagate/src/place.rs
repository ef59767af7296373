//! From annotations to a placement for every value: the passes around propagation, in order.

use meshwork_ir::{Diagnostic, Failed, Module, PassOptions, Severity};

use crate::why::Trace;
use crate::{Options, Record, propagate};

/// The passes of [`import`], in order. Calls are inlined first, so that every call may be placed by itself.
const IMPORT: &[&str] = &[
    "inline",
    "sdy-lift-inlined-meshes",
    "sdy-remove-size-one-axes",
    "sdy-constant-or-scalar-splitter",
    "sdy-manual-axes-cleanup",
    "sdy-add-data-flow-edges",
    "sdy-apply-sharding-constraints",
    "sdy-sharding-group-import",
];

/// What follows, in order.
const PLACE: &[&str] = &[
    PROPAGATE,
    "sdy-sink-data-flow-edges",
    "sdy-remove-sharding-groups",
    "sdy-sharding-constraint-to-reshard",
    "sdy-close-shardings",
];

/// The step among them that propagates.
const PROPAGATE: &str = "sdy-user-priority-propagate";

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
    run_steps(IMPORT, module, None)
}

/// The second part of [`place`].
pub fn place_imported(module: &mut Module) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    run_steps(PLACE, module, None)
}

/// Does what [`place_imported`] does and notes where each placement came from.
pub fn place_imported_traced(module: &mut Module) -> Result<(Vec<Diagnostic>, Provenance), Vec<Diagnostic>> {
    let mut provenance = Provenance { module: Module::new(), trace: Trace::default() };
    let warnings = run_steps(PLACE, module, Some(&mut provenance))?;
    Ok((warnings, provenance))
}

/// Does what [`place`] does and notes where each placement came from.
pub fn place_traced(module: &mut Module) -> Result<(Vec<Diagnostic>, Provenance), Vec<Diagnostic>> {
    let mut warnings = import(module)?;
    let (more, provenance) = place_imported_traced(module)?;
    warnings.extend(more);
    Ok((warnings, provenance))
}

fn run_steps(
    steps: &[&str],
    module: &mut Module,
    mut provenance: Option<&mut Provenance>,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let mut diagnostics = vec![];
    let known: Vec<_> = meshwork_ir::transform::passes().into_iter().chain(crate::passes()).collect();
    for step in steps {
        let pass = known.iter().find(|p| p.name == *step);
        let outcome = match (pass, &mut provenance) {
            (_, Some(provenance)) if *step == PROPAGATE => trace(module, provenance, &mut diagnostics),
            (Some(pass), _) => (pass.run)(module, &PassOptions::default(), &mut diagnostics),
            (None, _) => Err(Failed),
        };
        if outcome.is_err() {
            if !diagnostics.iter().any(|d| d.severity >= Severity::Error) {
                diagnostics.push(Diagnostic::error(Default::default(), format!("pass '{step}' failed")));
            }
            return Err(diagnostics);
        }
    }
    Ok(diagnostics)
}

fn trace(module: &mut Module, provenance: &mut Provenance, diagnostics: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let options = Options { record: Record::Trace, ..Options::default() };
    match propagate(module, &options, diagnostics) {
        Ok(trace) => {
            *provenance = Provenance { module: module.clone(), trace };
            Ok(())
        }
        Err(error) => {
            diagnostics.push(error);
            Err(Failed)
        }
    }
}
