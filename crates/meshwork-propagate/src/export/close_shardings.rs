//! Closes every dimension of every placement and forgets which axes had to stay replicated.

use meshwork_ir::{Diagnostic, Failed, Module, Pass, PassOptions};

use crate::walker::transform_shardings;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-close-shardings",
    summary: "Close every dimension of every placement and drop replicated axes",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    transform_shardings(module, |sharding, _| {
        let mut closed = sharding.clone().closed();
        closed.replicated.clear();
        Some(closed)
    });
    Ok(())
}
