//! Placements: constraints, barriers, groups.

use std::sync::Arc;

use meshwork_mesh::Sharding;

use super::{BuildError, Builder};
use crate::{Attr, OpKind, OpSpec, ValueId};

impl Builder<'_> {
    /// `x`, which has to be placed like this.
    pub fn sharding_constraint(&mut self, x: ValueId, sharding: Sharding) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::SdyShardingConstraint).operands([x]);
        self.value(spec.attr("sharding", Attr::Sharding(Arc::new(sharding))))
    }

    /// `x`, placed alike with all values of the same group.
    pub fn sharding_group(&mut self, x: ValueId, group: i64) -> Result<(), BuildError> {
        let spec = OpSpec::new(OpKind::SdyShardingGroup).operands([x]);
        self.op(spec.attr("group_id", Attr::i64(group))).map(drop)
    }
}
