//! Before a transformation: composites become calls, and calls and named computations become what they hold.

use meshwork_ir::transform::inline;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, PassOptions, ValueId, Walk};

/// The name of an `sdy.named_computation` whose values are computed again on the way back instead of being kept.
pub const CHECKPOINT: &str = "meshwork.checkpoint";

/// Inlines every call that can be inlined. Values stay the same.
pub(crate) fn flatten(module: &mut Module) {
    for op in module.all_ops(Walk::PreOrder) {
        module.op_mut(op).attrs.remove("no_inline");
        if module.op(op).kind() != OpKind::Composite {
            continue;
        }
        let data = module.op(op).clone();
        let Some(callee) = data.attr("decomposition").and_then(Attr::as_symbol) else { continue };
        let types: Vec<_> = data.results().iter().map(|&r| module.ty(r).clone()).collect();
        let spec = OpSpec::new(OpKind::Call)
            .operands(data.operands().iter().copied())
            .results(types)
            .attr("callee", Attr::Symbol(callee.into()))
            .loc(data.loc.clone());
        let call = module.push_before(op, spec);
        for (&old, new) in data.results().iter().zip(module.op(call).results().to_vec()) {
            module.replace_all_uses(old, new);
        }
        module.erase(op);
    }
    // Inlining reports nothing: a call that it has to leave is met, and named, by the rule for calls.
    let _ = (inline::PASS.run)(module, &PassOptions::default(), &mut vec![]);
    inline_computations(module, |name| name != CHECKPOINT);
}

/// Puts the bodies of the named computations whose name `choose` accepts in their place. Shardings of their arguments
/// and results stay as constraints.
pub fn inline_computations(module: &mut Module, choose: impl Fn(&str) -> bool) {
    for op in module.all_ops(Walk::PreOrder) {
        let data = module.op(op);
        if data.kind() == OpKind::SdyNamedComputation && choose(data.attr("name").and_then(Attr::as_str).unwrap_or(""))
        {
            inline_computation(module, op);
        }
    }
}

fn inline_computation(module: &mut Module, op: OpId) {
    let Some(body) = module.body_of(op, 0) else { return };
    let data = module.op(op).clone();
    let operands = placed(module, op, data.operands(), "in_shardings");
    for (arg, value) in module.block(body).args().to_vec().into_iter().zip(operands) {
        module.replace_all_uses(arg, value);
    }
    let returned = module.returned(body).to_vec();
    let end = module.terminator(body);
    for inner in module.op_list(body).into_iter().filter(|&inner| Some(inner) != end) {
        module.move_before(inner, op);
    }
    let results = placed(module, op, &returned, "out_shardings");
    for (&old, value) in data.results().iter().zip(results) {
        module.replace_all_uses(old, value);
    }
    module.erase(op);
}

/// `values`, before `op`, held to the shardings that its attribute `name` lists.
fn placed(module: &mut Module, op: OpId, values: &[ValueId], name: &str) -> Vec<ValueId> {
    let Some(Attr::ShardingPerValue(list)) = module.op(op).attr(name).cloned() else { return values.to_vec() };
    let loc = module.op(op).loc.clone();
    let mut out = vec![];
    for (&value, sharding) in values.iter().zip(list.iter()) {
        let spec = OpSpec::new(OpKind::SdyShardingConstraint)
            .operands([value])
            .results([module.ty(value).clone()])
            .attr("sharding", Attr::Sharding(sharding.clone().into()))
            .loc(loc.clone());
        let held = module.push_before(op, spec);
        out.push(module.result(held));
    }
    out
}
