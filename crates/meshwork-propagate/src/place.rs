//! From annotations to a placement for every value: the passes around propagation, in order.

use meshwork_ir::{Diagnostic, Failed, Module, PassOptions, Severity};

/// The passes of [`place`], in order. Calls are inlined first, so that every call may be placed by itself.
const STEPS: &[&str] = &[
    "inline",
    "sdy-lift-inlined-meshes",
    "sdy-remove-size-one-axes",
    "sdy-constant-or-scalar-splitter",
    "sdy-manual-axes-cleanup",
    "sdy-add-data-flow-edges",
    "sdy-apply-sharding-constraints",
    "sdy-sharding-group-import",
    "sdy-user-priority-propagate",
    "sdy-sink-data-flow-edges",
    "sdy-remove-sharding-groups",
    "sdy-sharding-constraint-to-reshard",
    "sdy-close-shardings",
];

/// Gives every value of `module` its final, closed placement.
///
/// Sizes that do not divide keep their placement: uneven shards are ordinary. On error the diagnostics say why;
/// warnings are returned on success.
pub fn place(module: &mut Module) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let mut diagnostics = vec![];
    let known: Vec<_> = meshwork_ir::transform::passes().into_iter().chain(crate::passes()).collect();
    for step in STEPS {
        let pass = known.iter().find(|p| p.name == *step);
        let outcome = match pass {
            Some(pass) => (pass.run)(module, &PassOptions::default(), &mut diagnostics),
            None => Err(Failed),
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
