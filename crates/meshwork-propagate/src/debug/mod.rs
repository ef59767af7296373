//! What a propagation did, as attributes on the module, under Shardy's names: for tools that read them.
//!
//! [`edges`] says on each op from which operand or result each axis came, and at which step; [`origins`] says on each
//! value which annotation each axis started from. Both are made from a [`Trace`](crate::why::Trace).

pub mod edges;
pub mod origins;

use meshwork_ir::{Attr, Module, OpId, ValueId};

use crate::edges::edge_of_target;

/// Moves an attribute of the data-flow edges of `owners` to a list on `op`.
pub fn sink(module: &mut Module, op: OpId, owners: &[ValueId], name: &str, list_name: &str) {
    let on_edge = |&owner: &ValueId| module.op(edge_of_target(module, owner)?).attr(name).cloned();
    let list: Vec<Attr> = owners.iter().filter_map(on_edge).collect();
    module.op_mut(op).attrs.set(list_name, Attr::Array(list.into()));
}
