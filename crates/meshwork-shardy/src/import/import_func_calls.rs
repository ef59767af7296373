//! Turns every call into an `sdy.named_computation` that holds the body of the function.

use std::collections::HashMap;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{
    Attr, BlockId, Diagnostic, Failed, Module, OpId, OpKind, OpSpec, Pass, PassOptions, Region, ValueMap, Walk,
};
use meshwork_propagate::import::add_edges;
use meshwork_propagate::program::{Meshes, SHARDING, Symbols, callee, original_name};

use crate::calls::{calls_callees_first, func_arg_shardings};

/// Attribute that says on which thread a function runs; it moves between function and computation.
pub const EXECUTION_THREAD: &str = "execution_thread";

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-import-func-calls",
    summary: "Turn every call into an sdy.named_computation with the body of the function",
    options: &[(
        "add-data-flow-edges-on-named-computations",
        "also add the data-flow edges of named computations (default true)",
    )],
    run,
};

fn run(module: &mut Module, options: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let calls = calls_callees_first(module, diags)?;
    let symbols = Symbols::of(module);
    let meshes = Meshes::of(module);
    // The computation that has the body of each function that has been called.
    let mut moved: HashMap<OpId, OpId> = HashMap::new();
    let mut warned = false;
    for call in calls {
        let func = callee(module, &symbols, call, diags)?;
        if module.body_of(func, 0).is_none() && !moved.contains_key(&func) {
            let name = module.symbol_name(func).unwrap_or_default();
            let message = format!("call of @{name}, which has no body to put in place of the call");
            diags.push(Diagnostic::error(module.op(call).pos, message));
            return Err(Failed);
        }
        let computation = create_computation(module, &meshes, call, func);
        match moved.get(&func) {
            Some(&first) => {
                if !std::mem::replace(&mut warned, true) {
                    let name = module.symbol_name(func).unwrap_or_default();
                    let message = format!("function @{name} has multiple call ops; its body is copied for each");
                    diags.push(Diagnostic::warning(module.op(call).pos, message));
                }
                clone_region(module, first, computation);
            }
            None => {
                move_body(module, func, computation, OpKind::Sdy(SdyOp::Return));
                moved.insert(func, computation);
            }
        }
        let values = module.op(computation).results().to_vec();
        module.replace_op(call, &values);
    }
    for &func in moved.keys() {
        module.erase(func);
    }
    if options.flag_or("add-data-flow-edges-on-named-computations", true) {
        for op in module.all_ops(Walk::PostOrder) {
            if module.op(op).kind() == SdyOp::NamedComputation {
                add_edges(module, op);
            }
        }
    }
    Ok(())
}

fn create_computation(module: &mut Module, meshes: &Meshes, call: OpId, func: OpId) -> OpId {
    let mut spec = OpSpec::new(SdyOp::NamedComputation)
        .operands(module.op(call).operands().iter().copied())
        .results(module.op(call).results().iter().map(|&r| module.ty(r).clone()))
        .attr("name", Attr::str(original_name(module, func)))
        .loc(module.op(call).loc.clone());
    spec.pos = module.op(call).pos;
    let (_, extra) = module.op(call).split_attrs();
    for (name, value) in extra {
        let name = if name == SHARDING { "out_shardings" } else { name };
        spec.attrs.set(name, value.clone());
    }
    if let Some(shardings) = func_arg_shardings(module, func, meshes) {
        spec = spec.attr("in_shardings", Attr::ShardingPerValue(shardings.into()));
    }
    if let Some(thread) = module.op(func).attr(EXECUTION_THREAD) {
        spec = spec.attr(EXECUTION_THREAD, thread.clone());
    }
    module.push_before(call, spec)
}

/// Moves the body of `from` to `to`, which has none yet, and ends each block of it with a `terminator`.
pub fn move_body(module: &mut Module, from: OpId, to: OpId, terminator: OpKind) {
    let target = module.add_region(to);
    let Some(&source) = module.op(from).regions().first() else { return };
    module.move_blocks(source, target);
    let blocks: Vec<BlockId> = Region::blocks(module.region(target)).to_vec();
    for block in blocks {
        let Some(old) = module.terminator(block) else { continue };
        let spec =
            OpSpec::new(terminator).operands(module.op(old).operands().iter().copied()).loc(module.op(old).loc.clone());
        module.erase(old);
        module.push(block, spec);
    }
}

fn clone_region(module: &mut Module, from: OpId, to: OpId) {
    // The copy of the whole op is only made for its region.
    let copy = module.clone_op(from, &mut ValueMap::default());
    let (source, target) = (module.op(copy).regions()[0], module.add_region(to));
    module.move_blocks(source, target);
    module.erase(copy);
}
