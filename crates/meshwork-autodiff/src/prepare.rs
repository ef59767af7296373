//! Before differentiation: composites become calls, and calls become the bodies of what they call.

use meshwork_ir::transform::inline;
use meshwork_ir::{Attr, Module, OpKind, OpSpec, PassOptions, Walk};

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
}
