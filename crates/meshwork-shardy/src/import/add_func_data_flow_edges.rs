//! Puts an `sdy.func_data_flow_edge` on every argument of a called function and every result of a call.

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, OpSpec, Pass, PassOptions, ValueId, Walk};
use meshwork_propagate::import::{is_static_tensor, replace_other_uses};
use meshwork_propagate::program::{SHARDING, sharding_of};

use crate::calls::entry;

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-add-func-data-flow-edges",
    summary: "Put an sdy.func_data_flow_edge on arguments of called functions and results of calls",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let main = entry(module, diags)?;
    for func in module.funcs().collect::<Vec<_>>() {
        let Some(body) = module.body_of(func, 0).filter(|_| func != main) else { continue };
        let first = module.block(body).first();
        for arg in module.block(body).args().to_vec() {
            if let Some(edge) = create_edge(module, arg) {
                match first {
                    Some(first) => module.insert_before(first, edge),
                    None => module.append(body, edge),
                }
                replace_other_uses(module, arg, edge);
            }
        }
    }
    for call in module.all_ops(Walk::PostOrder) {
        if module.op(call).kind() != ControlOp::Call {
            continue;
        }
        let mut last = call;
        for result in module.op(call).results().to_vec() {
            if let Some(edge) = create_edge(module, result) {
                module.insert_after(last, edge);
                last = edge;
                replace_other_uses(module, result, edge);
            }
        }
    }
    Ok(())
}

fn create_edge(module: &mut Module, value: ValueId) -> Option<OpId> {
    let ty = module.ty(value).clone();
    if !is_static_tensor(&ty) {
        return None;
    }
    let mut spec = OpSpec::new(SdyOp::FuncDataFlowEdge).operands([value]).results([ty]);
    if let Some(sharding) = sharding_of(module, value) {
        spec = spec.attr(SHARDING, Attr::ShardingPerValue([sharding].into()));
    }
    Some(module.create(spec))
}
