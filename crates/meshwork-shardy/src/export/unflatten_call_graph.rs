//! Merges copies of a function with equal placements: the reverse of `sdy-flatten-call-graph`.
//!
//! Two functions are one if they are copies of the same function, for the same manual axes, with equal
//! placements of arguments and results. With `dedup-functions-fully` placements do not count, and the
//! most called copy replaces the others.

use std::collections::HashMap;

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Diagnostic, Failed, Module, OpId, Pass, PassOptions, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{Meshes, ORIGINAL_NAME, Symbols, callee, original_name, set_callee};

use crate::calls::{func_arg_shardings, func_result_shardings};

/// Attribute of a function: the manual axes of the computation it is called in.
const MANUAL_AXES: &str = "sdy.func_manual_axes";

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-unflatten-call-graph",
    summary: "Merge copies of a function with equal placements",
    options: &[("dedup-functions-fully", "merge all copies, whatever their placements (default false)")],
    run,
};

/// Functions with equal keys are merged.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    original: String,
    manual_axes: Option<String>,
    args: Option<Vec<Sharding>>,
    results: Option<Vec<Sharding>>,
}

impl Key {
    fn of(module: &Module, meshes: &Meshes, func: OpId) -> Key {
        Key {
            args: func_arg_shardings(module, func, meshes),
            results: func_result_shardings(module, func, meshes),
            ..Key::without_placements(module, func)
        }
    }

    fn without_placements(module: &Module, func: OpId) -> Key {
        Key {
            original: original_name(module, func).to_string(),
            manual_axes: module.op(func).attr(MANUAL_AXES).map(|a| format!("{a:?}")),
            args: None,
            results: None,
        }
    }
}

fn run(module: &mut Module, options: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let (symbols, meshes) = (Symbols::of(module), Meshes::of(module));
    let mut calls = module.all_ops(Walk::PostOrder);
    calls.retain(|&op| module.op(op).kind() == ControlOp::Call);
    let callees: Vec<OpId> =
        calls.iter().map(|&call| callee(module, &symbols, call, diags)).collect::<Result<_, Failed>>()?;
    // Keys are computed once for each function.
    let mut full_keys: HashMap<OpId, Key> = HashMap::new();
    for &func in &callees {
        full_keys.entry(func).or_insert_with(|| Key::of(module, &meshes, func));
    }
    let fully = options.flag("dedup-functions-fully");
    let key = |func: OpId| if fully { Key::without_placements(module, func) } else { full_keys[&func].clone() };
    let mut chosen: HashMap<Key, OpId> = HashMap::new();
    for &func in &callees {
        chosen.entry(key(func)).or_insert(func);
    }
    if fully {
        let mut counts: HashMap<&Key, usize> = HashMap::new();
        for &func in &callees {
            *counts.entry(&full_keys[&func]).or_default() += 1;
            let best = chosen.entry(key(func)).or_insert(func);
            let count = |func: OpId| counts.get(&full_keys[&func]).copied().unwrap_or(0);
            if count(func) > count(*best) {
                *best = func;
            }
        }
    }
    let new_names: Vec<String> =
        callees.iter().map(|&func| module.symbol_name(chosen[&key(func)]).unwrap_or_default().to_string()).collect();
    for (call, name) in calls.into_iter().zip(new_names) {
        set_callee(module, call, &name);
    }
    for func in module.funcs().collect::<Vec<_>>() {
        module.op_mut(func).attrs.remove(ORIGINAL_NAME);
        module.op_mut(func).attrs.remove(MANUAL_AXES);
    }
    Ok(())
}
