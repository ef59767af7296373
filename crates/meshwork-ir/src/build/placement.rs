//! Placements: constraints, barriers, groups.

use std::sync::Arc;

use meshwork_mesh::{Mesh, Sharding};

use super::{BuildError, Builder};
use crate::op::SdyOp;
use crate::{Attr, Module, OpId, OpKind, OpSpec, ValueId};

/// Defines `mesh` under the symbol `name`, after the other meshes at the start of `module`.
pub fn add_mesh(module: &mut Module, name: &str, mesh: Mesh) -> OpId {
    let spec = OpSpec::new(OpKind::Sdy(SdyOp::Mesh))
        .attr("sym_name", Attr::str(name))
        .attr("mesh", Attr::Mesh(Arc::new(mesh)));
    let op = module.create(spec);
    let body = module.body();
    let first = module.ops_in(body).find(|&other| module.op(other).kind() != OpKind::Sdy(SdyOp::Mesh));
    match first {
        Some(anchor) => module.insert_before(anchor, op),
        None => module.append(body, op),
    }
    op
}

impl Builder<'_> {
    /// `x`, constrained to this placement.
    pub fn sharding_constraint(&mut self, x: ValueId, sharding: Sharding) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::ShardingConstraint)).operands([x]);
        self.value(spec.attr("sharding", Attr::Sharding(Arc::new(sharding))))
    }

    /// `x`, placed like all values of the same group.
    pub fn sharding_group(&mut self, x: ValueId, group: i64) -> Result<(), BuildError> {
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::ShardingGroup)).operands([x]);
        self.op(spec.attr("group_id", Attr::i64(group))).map(drop)
    }
}
