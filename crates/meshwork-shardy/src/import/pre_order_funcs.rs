//! Puts functions in an order in which callers come before what they call.

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_propagate::program::funcs_callees_first;

/// The pass.
pub const PASS: Pass =
    Pass { name: "sdy-pre-order-funcs", summary: "Put callers before what they call", options: &[], run };

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    for func in funcs_callees_first(module, diags)?.into_iter().rev() {
        module.detach(func);
        module.append(module.body(), func);
    }
    Ok(())
}
