//! Exchange between devices.

use super::attrs::matrix;
use super::{BuildError, Builder};
use crate::attr::ChannelHandle;
use crate::op::CollectiveOp;
use crate::{Attr, OpKind, OpSpec, Type, ValueId};

/// Which devices work together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// The ids of each group. Shorter groups are filled up where an operation allows that.
    pub ids: Vec<Vec<i64>>,
    /// The channel, for groups of partitions or of all devices.
    pub channel: Option<i64>,
    /// Ids count all devices, replica by replica.
    pub global_ids: bool,
}

impl Groups {
    /// Groups of replicas.
    pub fn replicas(ids: Vec<Vec<i64>>) -> Groups {
        Groups { ids, ..Groups::default() }
    }

    /// Groups over all devices, numbered replica by replica.
    pub fn devices(ids: Vec<Vec<i64>>, channel: i64) -> Groups {
        Groups { ids, channel: Some(channel), global_ids: true }
    }

    fn attrs(&self, mut spec: OpSpec) -> OpSpec {
        let width = self.ids.iter().map(Vec::len).max().unwrap_or(0);
        let fill = |row: &Vec<i64>| row.iter().copied().chain(std::iter::repeat(-1)).take(width).collect();
        let rows: Vec<Vec<i64>> = self.ids.iter().map(fill).collect();
        spec = spec.attr("replica_groups", matrix(&rows, width));
        if let Some(handle) = self.channel {
            spec = spec.attr("channel_handle", Attr::Channel(ChannelHandle { handle, channel_type: 1 }));
        }
        if self.global_ids {
            spec = spec.attr("use_global_device_ids", Attr::Unit);
        }
        spec
    }
}

impl Builder<'_> {
    /// The shards of each group's devices one after the other along `dim`.
    pub fn all_gather(&mut self, x: ValueId, dim: i64, groups: &Groups) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::AllGather))
            .operands([x])
            .attr("all_gather_dim", Attr::i64(dim));
        self.value(groups.attrs(spec))
    }

    /// `x` of each group's devices combined.
    pub fn all_reduce<R: IntoIterator<Item = ValueId>>(
        &mut self,
        x: ValueId,
        groups: &Groups,
        combine: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<ValueId, BuildError> {
        let spec = groups.attrs(OpSpec::new(OpKind::Collective(CollectiveOp::AllReduce)).operands([x]));
        let args = self.scalars_of([x, x].iter());
        let op = self.open(spec);
        Ok(self.op_with_bodies(op, |bodies| bodies.add(&args, combine))?[0])
    }

    /// `x` of each group's devices combined, each device keeping its part along `dim`.
    pub fn reduce_scatter<R: IntoIterator<Item = ValueId>>(
        &mut self,
        x: ValueId,
        dim: i64,
        groups: &Groups,
        combine: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<ValueId, BuildError> {
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::ReduceScatter))
            .operands([x])
            .attr("scatter_dimension", Attr::i64(dim));
        let args = self.scalars_of([x, x].iter());
        let op = self.open(groups.attrs(spec));
        Ok(self.op_with_bodies(op, |bodies| bodies.add(&args, combine))?[0])
    }

    /// Part `i` of `x` along `split` sent to the group's device `i`, the parts received put together along `concat`.
    pub fn all_to_all(&mut self, x: ValueId, split: i64, concat: i64, groups: &Groups) -> Result<ValueId, BuildError> {
        let count = groups.ids.first().map_or(0, Vec::len);
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::AllToAll))
            .operands([x])
            .attr("split_dimension", Attr::i64(split))
            .attr("concat_dimension", Attr::i64(concat))
            .attr("split_count", Attr::i64(count as i64));
        self.value(groups.attrs(spec))
    }

    /// Consecutive pieces of each row of `x` sent to the group's devices. `sizes` has, on all of them, the length of each
    /// piece by sender, receiver and row. What a device receives stands in the order of the senders at the start of rows of
    /// `room` elements; the rest is zeros.
    pub fn ragged_all_to_all(
        &mut self,
        x: ValueId,
        sizes: ValueId,
        room: i64,
        groups: &Groups,
    ) -> Result<ValueId, BuildError> {
        let ty = match self.ty(x) {
            Type::Tensor(t) => t.with_dims([t.dims.first().copied().unwrap_or(0), room]).into(),
            other => other.clone(),
        };
        let spec = OpSpec::new(OpKind::Collective(CollectiveOp::RaggedAllToAll)).operands([x, sizes]).results([ty]);
        self.value(groups.attrs(spec))
    }

    /// `x` sent from each source to its target; devices that hear nothing get zeros.
    pub fn collective_permute(
        &mut self,
        x: ValueId,
        pairs: &[(i64, i64)],
        channel: Option<i64>,
    ) -> Result<ValueId, BuildError> {
        let mut spec = OpSpec::new(OpKind::Collective(CollectiveOp::CollectivePermute))
            .operands([x])
            .attr("source_target_pairs", super::attrs::pairs(pairs));
        if let Some(handle) = channel {
            spec = spec.attr("channel_handle", Attr::Channel(ChannelHandle { handle, channel_type: 1 }));
        }
        self.value(spec)
    }
}
