//! Removes what propagation noted down about where placements came from.

use meshwork_ir::{Diagnostic, Failed, Module, OpKind, Pass, PassOptions, Walk};

/// The attributes that hold such notes.
const NOTES: &[&str] = &[
    "sdy.propagation_edges",
    "sdy.block_arg_propagation_edges",
    "sdy.result_propagation_edges",
    "sdy.sharding_origins",
    "sdy.block_arg_sharding_origins",
    "sdy.result_sharding_origins",
];

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-remove-propagation-debug-info",
    summary: "Remove notes on where placements came from",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    module.attrs.retain(|name, _| !NOTES.contains(&name));
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() != OpKind::Func {
            module.op_mut(op).attrs.retain(|name, _| !NOTES.contains(&name));
            continue;
        }
        let ty = module.func_type(op);
        for note in NOTES {
            (0..ty.inputs.len()).for_each(|i| module.set_arg_attr(op, i, note, None));
            (0..ty.results.len()).for_each(|i| module.set_res_attr(op, i, note, None));
        }
    }
    Ok(())
}
