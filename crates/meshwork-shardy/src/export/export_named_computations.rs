//! Turns every named computation into a private function and a call of it.

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{
    Attr, AttrDict, Diagnostic, Failed, FunctionType, Module, OpId, OpKind, OpSpec, Pass, PassOptions, Type, ValueId,
    Walk,
};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{ORIGINAL_NAME, SHARDING, Symbols, argument_owners, result_owners, sharding_list};
use meshwork_propagate::settle::{remove_edge, shardings_of_edges};

use crate::import::import_func_calls::{EXECUTION_THREAD, move_body};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-export-named-computations",
    summary: "Turn every named computation into a private function and a call of it",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let mut symbols = Symbols::of(module);
    let mut call_results: Vec<ValueId> = vec![];
    for op in module.all_ops(Walk::PostOrder) {
        if module.op(op).kind() == SdyOp::NamedComputation {
            let call = outline(module, &mut symbols, op);
            call_results.extend(module.op(call).results());
        }
    }
    remove_edges(module, &call_results);
    Ok(())
}

fn outline(module: &mut Module, symbols: &mut Symbols, computation: OpId) -> OpId {
    let stored = |name| sharding_list(module, computation, name).map(<[Sharding]>::to_vec);
    let ins = shardings_of_edges(module, &argument_owners(module, computation)).or_else(|| stored("in_shardings"));
    let outs = shardings_of_edges(module, &result_owners(module, computation)).or_else(|| stored("out_shardings"));
    let func = create_func(module, computation, ins);
    let name = symbols.insert(module, func);

    let data = module.op(computation);
    let mut spec = OpSpec::new(ControlOp::Call)
        .operands(data.operands().iter().copied())
        .results(data.results().iter().map(|&r| module.ty(r).clone()))
        .loc(data.loc.clone());
    spec.pos = data.pos;
    for (name, value) in data.split_attrs().1 {
        if name != EXECUTION_THREAD {
            spec.attrs.set(name.clone(), value.clone());
        }
    }
    spec = spec.attr("callee", Attr::Symbol(name.into()));
    if let Some(outs) = outs {
        spec = spec.attr(SHARDING, Attr::ShardingPerValue(outs.into()));
    }
    let call = module.push_before(computation, spec);
    let values = module.op(call).results().to_vec();
    module.replace_op(computation, &values);
    call
}

/// A private function, not yet registered, that takes over the body of `computation`.
fn create_func(module: &mut Module, computation: OpId, ins: Option<Vec<Sharding>>) -> OpId {
    let name = module.op(computation).attr("name").cloned().unwrap_or_else(|| Attr::str(""));
    let ty = FunctionType {
        inputs: argument_owners(module, computation).iter().map(|&a| module.ty(a).clone()).collect(),
        results: module.op(computation).results().iter().map(|&r| module.ty(r).clone()).collect(),
    };
    let mut spec = OpSpec::new(ControlOp::Func)
        .attr("sym_name", name.clone())
        .attr("sym_visibility", Attr::str("private"))
        .attr("function_type", Attr::Type(Type::Function(Arc::new(ty))))
        .attr(ORIGINAL_NAME, name)
        .loc(module.op(computation).loc.clone());
    if let Some(thread) = module.op(computation).attr(EXECUTION_THREAD) {
        spec = spec.attr(EXECUTION_THREAD, thread.clone());
    }
    if let Some(ins) = ins.filter(|ins| !ins.is_empty()) {
        let slot = |s: Sharding| AttrDict::from_iter([(SHARDING, Attr::Sharding(Arc::new(s)))]);
        spec = spec.attr("arg_attrs", Attr::Array(ins.into_iter().map(|s| Attr::Dict(Arc::new(slot(s)))).collect()));
    }
    let func = module.create(spec);
    move_body(module, computation, func, OpKind::Control(ControlOp::FuncReturn));
    if let Some(body) = module.body_of(func, 0) {
        let args = module.block(body).args().to_vec();
        remove_edges(module, &args);
    }
    func
}

/// Removes the data-flow edges on these values.
fn remove_edges(module: &mut Module, values: &[ValueId]) {
    for &value in values {
        let user = module.value(value).uses().last().map(|u| u.op);
        if let Some(edge) = user.filter(|&op| module.op(op).kind() == SdyOp::DataFlowEdge) {
            remove_edge(module, edge);
        }
    }
}
