//! Gives every call but the first of a function its own copy of it, so that each can be placed on its own.

use std::collections::HashSet;

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_propagate::program::{Symbols, callee, clone_callee};

use crate::calls::calls_callees_first;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-flatten-call-graph",
    summary: "Give every call but the first of a function its own copy of the function",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let calls = calls_callees_first(module, diags)?;
    let mut symbols = Symbols::of(module);
    let mut called = HashSet::new();
    for call in calls {
        let func = callee(module, &symbols, call, diags)?;
        if !called.insert(func) {
            clone_callee(module, &mut symbols, call);
        }
    }
    Ok(())
}
