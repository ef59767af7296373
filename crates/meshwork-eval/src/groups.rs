//! Which devices take part in a collective together: StableHLO's process groups.

use super::error::EvalError;
use super::fault::Fault;
use meshwork_ir::DeviceGrid;
use meshwork_ir::op::CollectiveOp;
use meshwork_ir::{Attr, Module, Op, OpId, OpKind};

/// What the ids in replica groups (or source-target pairs) name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strategy {
    /// Replicas; one group per partition.
    CrossReplica,
    /// Partitions; one group per replica.
    CrossPartition,
    /// Replicas; each group holds all partitions of them.
    CrossReplicaAndPartition,
    /// Devices, numbered `replica * partitions + partition`.
    FlattenedIds,
}

/// The channel of a collective; 0 without one.
pub(crate) fn channel(op: &Op) -> i64 {
    match op.attr("channel_handle") {
        Some(Attr::Channel(c)) => c.handle,
        Some(attr) => attr.as_int().unwrap_or(0),
        None => 0,
    }
}

/// The strategy of reducing and gathering collectives.
pub(crate) fn reducing_strategy(op: &Op) -> Result<Strategy, Fault> {
    match (channel(op) > 0, op.flag("use_global_device_ids")) {
        (false, false) => Ok(Strategy::CrossReplica),
        (true, false) => Ok(Strategy::CrossReplicaAndPartition),
        (true, true) => Ok(Strategy::FlattenedIds),
        (false, true) => Err(Fault::invalid("use_global_device_ids needs a channel handle above 0")),
    }
}

/// The strategy of permuting and broadcasting collectives.
pub(crate) fn moving_strategy(op: &Op) -> Strategy {
    if channel(op) > 0 { Strategy::CrossPartition } else { Strategy::CrossReplica }
}

/// The rows of the two-dimensional integer attribute `name`; ids below 0 pad short rows and are left out.
pub(crate) fn rows(op: &Op, name: &str) -> Result<Vec<Vec<usize>>, Fault> {
    let Some(attr) = op.attr(name) else { return Ok(vec![]) };
    let bad = || Fault::invalid(format!("attribute '{name}' is not a list of lists of integers"));
    let Attr::Dense(dense) = attr else { return Err(bad()) };
    let values = dense.to_i64s().ok_or_else(bad)?;
    let &[count, width] = dense.ty.dims.as_slice() else { return Err(bad()) };
    let row = |i: usize| &values[i * width as usize..(i + 1) * width as usize];
    Ok((0..count as usize).map(|i| row(i).iter().filter_map(|&v| usize::try_from(v).ok()).collect()).collect())
}

/// The group of `device`, in order; `None` if it is in no group. No groups at all means one of everybody.
pub(crate) fn group_of(
    device: usize,
    grid: DeviceGrid,
    strategy: Strategy,
    groups: &[Vec<usize>],
) -> Result<Option<Vec<usize>>, Fault> {
    let (replica, partition) = (device / grid.partitions, device % grid.partitions);
    let (ids, mine) = match strategy {
        Strategy::CrossReplica | Strategy::CrossReplicaAndPartition => (grid.replicas, replica),
        Strategy::CrossPartition => (grid.partitions, partition),
        Strategy::FlattenedIds => (grid.len(), device),
    };
    if let Some(id) = groups.iter().flatten().find(|&&id| id >= ids) {
        return Err(Fault::invalid(format!(
            "replica groups name id {id} where there are {ids} ({strategy:?}); the run has {} replicas of {} partitions",
            grid.replicas, grid.partitions
        )));
    }
    let everybody: Vec<usize> = (0..ids).collect();
    let row = match groups.is_empty() {
        true => Some(&everybody),
        false => groups.iter().find(|g| g.contains(&mine)),
    };
    Ok(row.map(|row| match strategy {
        Strategy::CrossReplica => row.iter().map(|r| r * grid.partitions + partition).collect(),
        Strategy::CrossPartition => row.iter().map(|p| replica * grid.partitions + p).collect(),
        Strategy::CrossReplicaAndPartition => {
            (0..grid.partitions).flat_map(|p| row.iter().map(move |r| r * grid.partitions + p)).collect()
        }
        Strategy::FlattenedIds => row.clone(),
    }))
}

/// The devices that meet in collective `id`, numbered `replica * partitions + partition`: all groups, each in order.
/// Devices in no group are left out.
pub fn device_groups(module: &Module, id: OpId, grid: DeviceGrid) -> Result<Vec<Vec<usize>>, EvalError> {
    let op = module.op(id);
    let found = || {
        let strategy = match op.kind() {
            OpKind::Collective(
                CollectiveOp::AllToAll
                | CollectiveOp::CollectiveBroadcast
                | CollectiveOp::CollectivePermute
                | CollectiveOp::CollectiveReduce,
            ) => moving_strategy(op),
            OpKind::Collective(CollectiveOp::CrossReplicaSum) => Strategy::CrossReplica,
            _ => reducing_strategy(op)?,
        };
        let rows = rows(op, "replica_groups")?;
        let mut seen = vec![false; grid.len()];
        let mut groups = vec![];
        for device in 0..grid.len() {
            if seen[device] {
                continue;
            }
            if let Some(group) = group_of(device, grid, strategy, &rows)? {
                group.iter().for_each(|&d| seen[d] = true);
                groups.push(group);
            }
        }
        Ok(groups)
    };
    found().map_err(|fault: Fault| fault.at(module, id))
}

/// Which device sends to which in the `collective_permute` `id`.
pub fn device_pairs(module: &Module, id: OpId, grid: DeviceGrid) -> Result<Vec<(usize, usize)>, EvalError> {
    let op = module.op(id);
    let found = || {
        let pairs = rows(op, "source_target_pairs")?;
        let (ids, others) = match moving_strategy(op) {
            Strategy::CrossPartition => (grid.partitions, grid.replicas),
            _ => (grid.replicas, grid.partitions),
        };
        let mut out = vec![];
        for pair in &pairs {
            let &[from, to] = &pair[..] else { return Err(Fault::invalid("a pair is not two ids")) };
            if from >= ids || to >= ids {
                return Err(Fault::invalid(format!("it moves {from} to {to} where there are {ids} ids")));
            }
            for other in 0..others {
                let device = |id: usize| match moving_strategy(op) {
                    Strategy::CrossPartition => other * grid.partitions + id,
                    _ => id * grid.partitions + other,
                };
                out.push((device(from), device(to)));
            }
        }
        Ok(out)
    };
    found().map_err(|fault: Fault| fault.at(module, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_by_strategy() {
        let grid = DeviceGrid { replicas: 2, partitions: 3 };
        let of = |device, strategy, groups: &[Vec<usize>]| group_of(device, grid, strategy, groups).unwrap();
        assert_eq!(of(4, Strategy::CrossReplica, &[vec![1, 0]]), Some(vec![4, 1]));
        assert_eq!(of(4, Strategy::CrossPartition, &[vec![0, 1], vec![2]]), Some(vec![3, 4]));
        let all = of(4, Strategy::CrossReplicaAndPartition, &[vec![0, 1]]);
        assert_eq!(all, Some(vec![0, 3, 1, 4, 2, 5]));
        assert_eq!(of(4, Strategy::FlattenedIds, &[vec![0, 1], vec![5, 4]]), Some(vec![5, 4]));
        assert_eq!(of(4, Strategy::FlattenedIds, &[vec![0, 1]]), None);
        assert_eq!(of(4, Strategy::CrossReplica, &[]), Some(vec![1, 4]));
        assert!(group_of(0, grid, Strategy::CrossReplica, &[vec![0, 2]]).is_err());
    }
}
