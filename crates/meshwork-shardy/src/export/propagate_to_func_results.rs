//! Gives the results of every function but the entry the placements of the values it returns.

use std::sync::Arc;

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, Pass, PassOptions};
use meshwork_propagate::program::{SHARDING, sharding_of};

use crate::calls::entry;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-propagate-to-func-results",
    summary: "Give results of functions other than the entry the placements of what they return",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let main = entry(module, diags)?;
    for func in module.funcs().collect::<Vec<_>>() {
        let Some(body) = module.body_of(func, 0).filter(|_| func != main) else { continue };
        let is_return = |&op: &_| module.op(op).kind() == ControlOp::FuncReturn;
        if module.terminator(body).filter(is_return).is_none() {
            continue;
        }
        for (i, value) in module.returned(body).to_vec().into_iter().enumerate() {
            let sharding = sharding_of(module, value).map(|s| Attr::Sharding(Arc::new(s)));
            if sharding.is_some() || module.res_attr(func, i, SHARDING).is_some() {
                module.set_res_attr(func, i, SHARDING, sharding);
            }
        }
    }
    Ok(())
}
