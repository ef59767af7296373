//! Removes sharding rules from ops, except those that a user wrote.

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-drop-sharding-rules",
    summary: "Remove sharding rules from ops, except those a user wrote",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    crate::remove_rules(module);
    Ok(())
}
