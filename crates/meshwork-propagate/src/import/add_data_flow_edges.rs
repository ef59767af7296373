//! Puts an `sdy.data_flow_edge` on the owner of every data-flow edge, with the owner's placement.

use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Def, Module, OpId, OpSpec, Type, ValueId, Walk};

use crate::program::{argument_owners, has_data_flow, result_owners, sharding_of};

/// Puts an `sdy.data_flow_edge` on the owner of every data-flow edge.
pub fn add_data_flow_edges(module: &mut Module) {
    for op in module.all_ops(Walk::PostOrder) {
        if has_data_flow(module.op(op).kind()) {
            add_edges(module, op);
        }
    }
}

/// Adds the edges of one op. Owners of a type that cannot be placed, such as tokens, get none.
pub fn add_edges(module: &mut Module, op: OpId) {
    for owners in [argument_owners(module, op), result_owners(module, op)] {
        // Each edge goes right after its owner, so the last one is inserted first.
        for owner in owners.into_iter().rev().filter(|&v| is_static_tensor(module.ty(v))).collect::<Vec<_>>() {
            let mut spec = OpSpec::new(SdyOp::DataFlowEdge)
                .operands([owner])
                .results([module.ty(owner).clone()])
                .loc(module.op(op).loc.clone());
            if let Some(sharding) = sharding_of(module, owner) {
                spec = spec.attr("sharding", Attr::Sharding(Arc::new(sharding)));
            }
            let edge = module.create(spec);
            insert_after_value(module, owner, edge);
            replace_other_uses(module, owner, edge);
        }
    }
}

/// Whether the type is a tensor whose extents are all known.
pub fn is_static_tensor(ty: &Type) -> bool {
    ty.as_tensor().is_some_and(|t| t.is_static())
}

/// Inserts a detached `op` right after the definition of `value`.
pub fn insert_after_value(module: &mut Module, value: ValueId, op: OpId) {
    match module.value(value).def() {
        Def::Result(def, _) => module.insert_after(def, op),
        Def::Arg(block, _) => module.prepend(block, op),
    }
}

/// Makes all uses of `value` but those of `op` name the result of `op`.
pub fn replace_other_uses(module: &mut Module, value: ValueId, op: OpId) {
    let result = module.result(op);
    module.replace_uses_if(value, result, |_, u| u.op != op);
}
