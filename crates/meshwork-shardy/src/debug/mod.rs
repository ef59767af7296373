//! What a propagation did, as attributes on the module, under Shardy's names: for tools that read them.
//!
//! [`edges`] says on each op from which operand or result each axis came, and at which step; [`origins`] says on each
//! value which annotation each axis started from. Both are made from a [`Trace`](meshwork_propagate::why::Trace).

pub mod edges;
pub mod origins;

use meshwork_ir::{Attr, Module, OpId, ValueId, Walk};
use meshwork_propagate::program::{argument_owners, edge_of_target, has_data_flow, result_owners};

use self::edges::{BLOCK_ARG_EDGES, PROPAGATION_EDGES, RESULT_EDGES};
use self::origins::{BLOCK_ARG_ORIGINS, RESULT_ORIGINS, SHARDING_ORIGINS};

/// Moves the origins on all data-flow edges to lists on the ops they belong to.
pub fn sink_origins(module: &mut Module) {
    sink_all(module, SHARDING_ORIGINS, BLOCK_ARG_ORIGINS, RESULT_ORIGINS);
}

/// Moves the propagation edges on all data-flow edges to lists on the ops they belong to.
pub fn sink_edges(module: &mut Module) {
    sink_all(module, PROPAGATION_EDGES, BLOCK_ARG_EDGES, RESULT_EDGES);
}

fn sink_all(module: &mut Module, name: &str, argument_list: &str, result_list: &str) {
    for op in module.all_ops(Walk::PreOrder) {
        if has_data_flow(module.op(op).kind()) {
            sink(module, op, &argument_owners(module, op), name, argument_list);
            sink(module, op, &result_owners(module, op), name, result_list);
        }
    }
}

/// Moves an attribute of the data-flow edges of `owners` to a list on `op`.
fn sink(module: &mut Module, op: OpId, owners: &[ValueId], name: &str, list_name: &str) {
    let on_edge = |&owner: &ValueId| module.op(edge_of_target(module, owner)?).attr(name).cloned();
    let list: Vec<Attr> = owners.iter().filter_map(on_edge).collect();
    module.op_mut(op).attrs.set(list_name, Attr::Array(list.into()));
}
