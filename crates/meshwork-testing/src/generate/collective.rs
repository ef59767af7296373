//! Communication between devices.

use std::sync::Arc;

use meshwork_ir::attr::ChannelHandle;
use meshwork_ir::build::{Builder, Groups};
use meshwork_ir::op::CollectiveOp;
use meshwork_ir::{Attr, Dense, ElementType, Literal, OpKind, OpSpec, ValueId};

use super::{Maker, Value};

impl Maker {
    /// All devices as one group, or as two.
    fn groups(&mut self) -> Groups {
        self.channels += 1;
        let order = self.shuffled(self.devices);
        let parts = if self.devices.is_multiple_of(2) && self.numbers.below(2) == 0 { 2 } else { 1 };
        Groups::devices(order.chunks(self.devices / parts).map(<[i64]>::to_vec).collect(), self.channels)
    }

    pub(super) fn collective(&mut self, b: &mut Builder<'_>, scope: &[Value], op: CollectiveOp) -> Option<Vec<Value>> {
        if self.devices < 2 {
            return None;
        }
        let x = self.pick(scope, |v| v.rank() > 0)?;
        let d = self.numbers.below(x.rank());
        let groups = self.groups();
        let n = groups.ids[0].len() as i64;
        let moved = |b: &Builder<'_>, id: ValueId| Some(vec![Value::moved(b, id, x.bound, x.error, x.whole)?]);
        match op {
            CollectiveOp::AllGather => {
                let id = b.all_gather(x.id, d as i64, &groups).ok()?;
                moved(b, id)
            }
            CollectiveOp::AllReduce => {
                let f = self.combiner(&x);
                let id = b.all_reduce(x.id, &groups, |b, args| Ok([b.apply(OpKind::Binary(f), args)?])).ok()?;
                Some(vec![self.combined(b, id, f, (&x, &x), n - 1)?])
            }
            CollectiveOp::ReduceScatter => {
                if x.dims[d] % n != 0 {
                    return None;
                }
                let f = self.combiner(&x);
                let id = b
                    .reduce_scatter(x.id, d as i64, &groups, |b, args| Ok([b.apply(OpKind::Binary(f), args)?]))
                    .ok()?;
                Some(vec![self.combined(b, id, f, (&x, &x), n - 1)?])
            }
            CollectiveOp::AllToAll => {
                if x.dims[d] % n != 0 {
                    return None;
                }
                let concat = self.numbers.below(x.rank()) as i64;
                let id = b.all_to_all(x.id, d as i64, concat, &Groups { global_ids: false, ..groups }).ok()?;
                moved(b, id)
            }
            CollectiveOp::CollectivePermute => {
                let targets = self.shuffled(self.devices);
                let silent = self.numbers.below(3) == 0;
                let pairs: Vec<(i64, i64)> = (0..self.devices as i64).zip(targets).skip(usize::from(silent)).collect();
                let id = b.collective_permute(x.id, &pairs, groups.channel).ok()?;
                moved(b, id)
            }
            CollectiveOp::CollectiveBroadcast => {
                let ids: Vec<i64> = groups.ids.concat();
                let rows = Literal::from_i64s([groups.ids.len() as i64, n], ElementType::I64, &ids)?;
                let spec = OpSpec::new(OpKind::Collective(op))
                    .operands([x.id])
                    .attr("replica_groups", Attr::Dense(Arc::new(Dense::from_literal(&rows))))
                    .attr("channel_handle", Attr::Channel(ChannelHandle { handle: self.channels, channel_type: 1 }));
                let id = b.value(spec).ok()?;
                moved(b, id)
            }
            CollectiveOp::RaggedAllToAll => self.ragged(b, &x, &groups),
            // As an all-reduce over replicas, of which there is one, and as one of which a single device keeps the result.
            CollectiveOp::CrossReplicaSum | CollectiveOp::CollectiveReduce => None,
        }
    }

    /// Pieces of random lengths; where nothing comes, zeros.
    fn ragged(&mut self, b: &mut Builder<'_>, x: &Value, groups: &Groups) -> Option<Vec<Value>> {
        let &[rows, length] = &x.dims[..] else { return None };
        let p = groups.ids[0].len();
        let mut sizes = vec![0; p * p * rows as usize];
        let mut received = vec![0; p * rows as usize];
        for sender in 0..p {
            for row in 0..rows as usize {
                let mut left = length;
                for receiver in 0..p {
                    let count = self.numbers.between(0, left);
                    left -= count;
                    sizes[(sender * p + receiver) * rows as usize + row] = count;
                    received[receiver * rows as usize + row] += count;
                }
            }
        }
        let room = received.into_iter().max().unwrap_or(0).max(1) + self.numbers.between(0, 1);
        let table = Literal::from_i64s([p as i64, p as i64, rows], ElementType::I32, &sizes)?;
        let table = b.constant(&table).ok()?;
        let id = b.ragged_all_to_all(x.id, table, room, &Groups { global_ids: false, ..groups.clone() }).ok()?;
        Some(vec![Value::moved(b, id, x.bound, x.error, x.whole)?])
    }
}
