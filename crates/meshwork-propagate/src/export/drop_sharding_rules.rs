//! Removes sharding rules from ops, except those that a user wrote.

use meshwork_ir::{Attr, Diagnostic, Failed, Module, Pass, PassOptions, Walk};

/// The attribute that holds the sharding rule of an op.
const SHARDING_RULE: &str = "sdy.sharding_rule";

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-drop-sharding-rules",
    summary: "Remove sharding rules from ops, except those a user wrote",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    for op in module.all_ops(Walk::PreOrder) {
        let is_found = |attr: &Attr| matches!(attr, Attr::ShardingRule(rule) if !rule.custom);
        if module.op(op).attr(SHARDING_RULE).is_some_and(is_found) {
            module.op_mut(op).attrs.remove(SHARDING_RULE);
        }
    }
    Ok(())
}
